// Runs the real service and real targets, and reads back what was recorded.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_HARNESS_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_HARNESS_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schemas/stream.pb.h"
#include "tests/places.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/unique_fd.h"
#include "userspace/stream/session_records.h"

namespace rocattach::testing_support {

// The reason why the privileged tests cannot run here; empty if they can. In CI they
// fail instead of being skipped.
std::string MissingPrivileges();
#define SKIP_WITHOUT_PRIVILEGES()                                             \
  do {                                                                        \
    std::string missing_ = ::rocattach::testing_support::MissingPrivileges(); \
    if (!missing_.empty()) {                                                  \
      if (getenv("CI") != nullptr) FAIL() << missing_;                        \
      GTEST_SKIP() << missing_;                                               \
    }                                                                         \
  } while (false)

// Paths of what the build has made (compiled in).
std::string WatcherPath();
std::string CollectorPath();
std::string SimgpuRunPath();
std::string SimrocmRunPath();
std::string ClientPath();  // rocattach
std::string TargetPath(const std::string& name);

// Milliseconds between the mapping of the runtime and hsa_init, for --wait-msec of the
// targets: enough for hold mode `signal` even on a busy machine.
inline constexpr char kTimeToSeize[] = "200";

// A finished process.
struct Finished {
  int status = 0;      // as of wait(2)
  std::string output;  // standard output
  std::string errors;  // standard error
  bool exited_with(int code) const;
};

// A child whose standard output and error are collected.
class Child {
 public:
  struct Options {
    std::vector<std::string> environment = {};  // NAME=VALUE, added
    bool new_session = false;
    // The child is killed when the thread that started it ends: a service that outlived
    // a crashed test would attach to the targets of all later tests.
    bool dies_with_us = false;
    uid_t uid = 0;  // other than 0: the child runs as that user
  };
  // Starts argv[0] (looked up in PATH).
  explicit Child(const std::vector<std::string>& argv) : Child(argv, Options()) {}
  Child(const std::vector<std::string>& argv, Options options);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  // Reads what has arrived so far, without waiting; returns standard output.
  const std::string& PollOutput();
  // Waits for the end, however long that takes: ctest has the time limit.
  Finished Wait();

 private:
  pid_t pid_ = -1;
  UniqueFd output_fd_, errors_fd_;
  Finished finished_;
  bool waited_ = false;
};

// Runs a target on the simulated GPU, for example {"hsa_dispatch", "-n", "100"}.
std::vector<std::string> OnSimgpu(std::vector<std::string> target_and_arguments);
Finished RunTarget(std::vector<std::string> target_and_arguments);

// Polls until it is true, for at most two minutes: machines can be slow.
bool Eventually(const std::function<bool()>& is_true);
// Waits until the process is held, which shows in the time that it spends in the
// kernel. The service must not serve its window meanwhile.
bool EventuallyHeld(pid_t pid);

// A running `rocattach-watch --json`, ready to see processes.
class WatcherProcess {
 public:
  // `arguments` follow --json and the output options. `launcher`: a program with its
  // arguments that executes the command of the service.
  explicit WatcherProcess(std::vector<std::string> arguments,
                          std::vector<std::string> launcher = {});
  ~WatcherProcess();

  // True if the service has come up.
  bool ready() const { return ready_; }
  // The process that does the work; signals go to its parent.
  pid_t pid() const { return service_; }
  // Sends SIGINT, waits for the end, and keeps the output. Callable once.
  Finished Stop();
  void Kill();
  // All JSON lines so far; complete after Stop().
  std::vector<nlohmann::json> Events();
  // The lines with this "event".
  std::vector<nlohmann::json> Events(const std::string& name);
  // Reads what has arrived so far; returns the number of lines with this "event".
  size_t PollEvents(const std::string& name);
  std::string recording() const { return directory_.path() + "/run.rwa"; }
  const std::string& directory() const { return directory_.path(); }

 private:
  ExecutableDirectory directory_;
  std::unique_ptr<Child> child_;
  std::string output_;
  pid_t service_ = -1;
  bool ready_ = false;
};

// A service that does nothing although it is not stopped: its threads are in ptrace
// stops. All calls must come from the thread that created the object.
class HungService {
 public:
  explicit HungService(pid_t service);
  // Lets the service continue.
  ~HungService() { Release(); }
  HungService(const HungService&) = delete;
  HungService& operator=(const HungService&) = delete;

  void Release();
  // Kills the service without continuing it.
  void Kill();

 private:
  pid_t service_;
  std::vector<pid_t> threads_;
};

// One process of a recording.
struct RecordedProcess {
  v1::Process process;
  v1::WindowEvent verdict;
  std::vector<v1::WindowEvent> windows;
  v1::LossAccount account;
  v1::ProcessEnd end;
  std::map<uint32_t, v1::Agent> agents;
  std::map<uint32_t, v1::Kernel> kernels;
  std::vector<rocattach_dispatch> dispatches;
  std::vector<rocattach_copy> copies;
  std::map<uint32_t, v1::SessionPlan> plans;
  std::vector<CounterRecord> counters;
  std::vector<CounterRecord> samples;
  std::vector<ApiCallRecord> api_calls;
  std::vector<MemoryRecord> memory;
  // Names of API functions by domain and number.
  std::map<std::pair<int, uint32_t>, std::string> functions;
  std::map<uint32_t, std::string> threads;  // names by number
  std::vector<v1::SessionEvent> sessions;
  std::vector<v1::SamplingEvent> sampling;  // without repetitions
  bool ended = false;

  uint64_t dropped() const;
  // Text for failed expectations: the process's windows, account and packets.
  std::string Explain() const;
};

struct Recording {
  std::vector<RecordedProcess> processes;
  std::optional<v1::WatcherSummary> summary;
  bool ended = false;
  std::vector<std::string> damage;

  // The process with this pid; fails the test if there is not exactly one.
  RecordedProcess Process(pid_t pid) const;
  // The only process with this name.
  RecordedProcess Process(const std::string& comm) const;
};
// Expects that the account of each process that has ended adds up.
Recording ReadRecording(const std::string& path);
// Reads a recording that is still being written.
Recording ReadRecordingSoFar(const std::string& path);

// The sum of the numbers after `name=` in the output of a target and its children; -1
// if there is none.
int64_t Reported(const std::string& output, const std::string& name);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_HARNESS_H_
