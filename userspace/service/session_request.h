// A request to collect something, and the state of its session.
#ifndef ROCATTACH_USERSPACE_SERVICE_SESSION_REQUEST_H_
#define ROCATTACH_USERSPACE_SERVICE_SESSION_REQUEST_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/base/process.h"
#include "userspace/session/collection_period.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_sink.h"
#include "userspace/session/session_types.h"
#include "userspace/session/target_names.h"

namespace rocattach {

struct SessionRequest {
  // Empty: every process, including future ones. Without a start time: the process that
  // has this ID when the session starts.
  std::vector<ProcessId> targets = {};
  std::vector<FilterSpec> filters = {};
  uint64_t duration_ns = 0;                    // 0: until it is stopped
  std::vector<CollectionPeriod> periods = {};  // empty: always
  // If true, it gives way to every other session at once, and resumes in its next
  // period once that one is over. Its refusals are not reported, and no process waits
  // for it or gets rocprofiler-sdk from its start because of it.
  bool yields = false;
  // Duration and periods begin with the first process instead of now.
  bool from_first_process = false;
  // For programs that receive the records themselves.
  std::shared_ptr<RecordConsumer> consumer = {};
  // Gets the names that the records need; null if the consumer needs none.
  std::shared_ptr<SessionTargetNames> names = {};
  std::function<void()> over = {};  // called when the session has ended; must not wait
};

// The state of a session.
struct SessionInfo {
  uint64_t number = 0;  // as in the stream
  bool active = false;  // false between periods, and when it is over
  bool over = false;
  uint64_t begin_ns = 0, end_ns = 0;  // CLOCK_BOOTTIME; end 0: not yet
  std::vector<pid_t> running;
  std::map<pid_t, std::string> refused;  // with the reasons, from the last start
  // Why it does not collect during one of its periods; empty if it collects, or outside
  // of its periods.
  std::string waiting_for;
  std::vector<std::string> counters;
  std::vector<std::string> collects;  // "counters", "dispatches" …
  CollectedCounts collected;
  // True if all processes in which it was started refused it.
  bool refused_by_all = false;
};

// True if only rocprofiler-sdk provides what the filters request.
bool NeedsSdk(const std::vector<FilterSpec>& filters);
// True if it includes future processes.
bool IsForAllProcesses(const SessionRequest& request);
// INVALID_ARGUMENT if its durations or periods are invalid.
absl::Status CheckTimes(const SessionRequest& request);
// Adds what the filter collects.
void DescribeFilter(const FilterSpec& filter, SessionInfo* info);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_SESSION_REQUEST_H_
