// What became of a process that `rocattach attach` was to record.
#ifndef ROCATTACH_USERSPACE_CLI_ATTACH_RESULT_H_
#define ROCATTACH_USERSPACE_CLI_ATTACH_RESULT_H_

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "schemas/stream.pb.h"
#include "userspace/base/process.h"
#include "userspace/service/watcher_observer.h"

namespace rocattach {

// What became of the processes that were to be recorded.
enum class AttachResult {
  kRecorded,
  // They were observed, and one did nothing that could be recorded. Of a tree it is
  // enough that one process did.
  kNothingHappened,
  kNotRecorded,  // one was not attached to, or not as requested, or records are lost
};

// What is known of one process.
struct ProcessResult {
  std::string name;
  ProcessId id;
  bool attached = false;
  bool passed = false;          // of a tree: there is nothing that could be recorded
  bool awaited = false;         // until it can be entered
  std::string awaited_for;      // why it cannot be now
  v1::WindowEvent window;       // if there was one
  uint64_t retry_until_ns = 0;  // 0: nothing is tried again
  std::string problem;        // of a process that is not attached, or not as requested
  bool problem_said = false;  // a line of its own has all of it
  std::string reason;         // the same as a word; empty: it is attached
  std::vector<LeftOut> missing;
  bool announced = false;  // it was told about the attach
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
nlohmann::ordered_json ResultJson(pid_t pid, const ProcessResult& process,
                                  const ProcessOutcome& outcome);
// The same for users, of a process that was attached to.
std::string ResultText(pid_t pid, const ProcessResult& process, bool recording);

// What a session records less than was requested.
nlohmann::ordered_json MissingJson(const std::vector<LeftOut>& missing);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_ATTACH_RESULT_H_
