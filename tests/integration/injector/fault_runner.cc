// Runs one attach with the fault-injection build of the injector and prints the
// outcome, after a line "begin"; ROCATTACH_FAULT says where it dies or fails.
// Usage: fault_runner PID TID WINDOW COLLECTOR
#include <cstdio>
#include <cstdlib>

#include "injector/attach.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  rocattach::AttachRequest request;
  request.point.pid = std::atoi(argv[1]);
  request.point.tid = std::atoi(argv[2]);
  request.point.window_ip = std::strtoull(argv[3], nullptr, 10);
  request.collector.path = argv[4];
  request.stop_timeout_msec = 5000;
  std::printf("begin\n");
  std::fflush(stdout);
  rocattach::AttachOutcome outcome = rocattach::AttachAtWindow(request);
  std::printf("stage=%s reason=%s modified=%d must_exit=%d detail=%s\n",
              std::string(rocattach::AttachStageName(outcome.stage)).c_str(),
              std::string(rocattach::AttachReasonName(outcome.reason)).c_str(),
              outcome.target_modified ? 1 : 0, outcome.tracer_must_exit ? 1 : 0,
              outcome.detail.c_str());
  return outcome.ok() ? 0 : 1;
}
