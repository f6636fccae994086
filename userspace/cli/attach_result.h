// The outcome for a process that `rocattach attach` was asked to record.
#ifndef ROCATTACH_USERSPACE_CLI_ATTACH_RESULT_H_
#define ROCATTACH_USERSPACE_CLI_ATTACH_RESULT_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/stream.pb.h"
#include "userspace/base/json.h"
#include "userspace/base/process.h"
#include "userspace/service/watcher_observer.h"

namespace rocattach {

// The outcome for all processes that were to be recorded.
enum class AttachResult {
  kRecorded,
  // All were observed, and at least one did nothing that could be recorded; in a tree,
  // none of them did.
  kNothingHappened,
  kNotRecorded,  // one was not attached to, or not as requested, or records are lost
};

// The state of one process.
struct ProcessResult {
  std::string name;
  ProcessId id;
  bool attached = false;
  bool passed = false;          // a descendant with nothing that could be recorded
  bool awaited = false;         // it is waited for until it can be entered
  std::string awaited_for;      // why it cannot be entered now
  v1::WindowEvent window;       // if there was one
  uint64_t retry_until_ns = 0;  // 0: no retry
  std::string problem;          // why it is not attached, or not as requested
  bool problem_said = false;    // `problem` has been printed in full
  std::string reason;           // why it is not attached, as a word; empty: it is
  std::vector<LeftOut> missing;
  bool announced = false;  // the process was told about the attach
  bool ended = false;
  v1::ProcessEnd end;
  v1::LossAccount account;
};

// The outcome for one process, once its account is final.
struct ProcessOutcome {
  AttachResult result = AttachResult::kNotRecorded;
  // "recorded", "incomplete", "not-recorded", "nothing-happened", "passed" or
  // "not-attached".
  const char* status = "not-attached";
};
// `recording`: something was to be recorded (false: --no-recording).
ProcessOutcome OutcomeOf(const ProcessResult& process, bool recording);

// The event "result" of --json.
Json ResultJson(pid_t pid, const ProcessResult& process, const ProcessOutcome& outcome);
// The same as text for users, for a process that was attached to.
std::string ResultText(pid_t pid, const ProcessResult& process, bool recording);

// The parts of the requested session that are not recorded.
Json MissingJson(const std::vector<LeftOut>& missing);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_ATTACH_RESULT_H_
