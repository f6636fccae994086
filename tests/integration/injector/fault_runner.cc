// Runs one attach with the fault-injection build of the injector and prints the
// outcome, after a line "begin"; ROCATTACH_FAULT says where it dies or fails.
// Usage: fault_runner PID TID WINDOW COLLECTOR [sent | STACK]
// With "sent", the target does not see the collector's file. With an address of its
// stack, it is entered at a call.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "injector/attach.h"
#include "injector/call_entry.h"
#include "tests/integration/injector/urgent_call.h"
#include "userspace/base/unique_fd.h"

namespace {

rocattach::AttachOutcome AtCall(const rocattach::AttachRequest& request,
                                uint64_t stack) {
  rocattach::SeenCall seen;
  seen.tid = request.point.tid;
  seen.ip = request.point.window_ip;
  seen.stack_pointer = stack;
  rocattach::UrgentCall call(seen);
  rocattach::AttachOutcome outcome;
  std::thread([&] {
    outcome = rocattach::AttachAtCall(request, seen, nullptr, &call);
  }).join();
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  rocattach::AttachRequest request;
  request.point.pid = std::atoi(argv[1]);
  request.point.tid = std::atoi(argv[2]);
  request.point.window_ip = std::strtoull(argv[3], nullptr, 10);
  request.collector.path = argv[4];
  const rocattach::UniqueFd file(open(argv[4], O_RDONLY | O_CLOEXEC));
  const std::string how = argc == 6 ? argv[5] : "";
  if (how == "sent") {
    request.collector.path = "/nonexistent/collector.so";
    request.collector_fd = file.get();
  }
  request.stop_timeout_msec = 5000;
  std::printf("begin\n");
  std::fflush(stdout);
  rocattach::AttachOutcome outcome =
      how.empty() || how == "sent"
          ? rocattach::AttachAtWindow(request)
          : AtCall(request, std::strtoull(how.c_str(), nullptr, 10));
  std::printf("stage=%s reason=%s modified=%d must_exit=%d detail=%s\n",
              std::string(rocattach::AttachStageName(outcome.stage)).c_str(),
              std::string(rocattach::AttachReasonName(outcome.reason)).c_str(),
              outcome.target_modified ? 1 : 0, outcome.tracer_must_exit ? 1 : 0,
              outcome.detail.c_str());
  return outcome.ok() ? 0 : 1;
}
