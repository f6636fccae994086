// A live service, an honest user's process next to it, and an adversary with another
// user ID. Shows what the service used, and what the neighbour lost.
#ifndef ROCATTACH_TESTS_INTEGRATION_HOSTILE_HOSTILE_HARNESS_H_
#define ROCATTACH_TESTS_INTEGRATION_HOSTILE_HOSTILE_HARNESS_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

// Neither is root. The numbers need no entry in /etc/passwd.
inline constexpr uid_t kAdversaryUid = 65534;
inline constexpr uid_t kHonestUid = 65533;

// Limit on the service's memory, under every attack.
inline constexpr uint64_t kMaxServiceRss = 64ull << 20;

// Resources that a process uses, according to /proc.
struct ProcessUse {
  uint64_t rss_bytes = 0;       // now
  uint64_t peak_rss_bytes = 0;  // since its start
  uint64_t cpu_ns = 0;          // user and system, all threads
  int descriptors = 0;
  int threads = 0;
};
// Returns all zeros if the process is gone.
ProcessUse MeasureProcess(pid_t pid);

// The path of an adversary's program, built in this folder.
std::string HostileProgram(const std::string& name);

// Path of a runtime whose hsa_init does nothing, as the adversary's programs find it:
// the path of its copy if the programs are run as copies.
std::string EmptyRuntime();

// A service with --auto, watched from outside.
class LiveService {
 public:
  explicit LiveService(std::vector<std::string> arguments = {"--auto"});
  // True if it has started.
  bool ready() const { return watcher_->ready(); }
  pid_t pid() const { return watcher_->pid(); }
  // False once it has ended, for whatever reason.
  bool alive() const;
  ProcessUse use() const { return MeasureProcess(pid()); }
  const ProcessUse& use_at_start() const { return at_start_; }
  WatcherProcess& watcher() { return *watcher_; }

  // Expects that it is running, has used no more memory than kMaxServiceRss, and has at
  // most `spare_descriptors` more descriptors than at its start.
  void ExpectHealthy(int spare_descriptors) const;
  // Ends it, expects that it exits with status 0, and reads its recording.
  Recording Stop();

 private:
  std::unique_ptr<WatcherProcess> watcher_;
  ProcessUse at_start_;
};

// An honest user's process; each of its dispatches must be recorded.
class Neighbour {
 public:
  // Makes `dispatches` dispatches in all. `extra` are further arguments of
  // hsa_dispatch, `environment` is NAME=VALUE.
  explicit Neighbour(uint64_t dispatches, std::vector<std::string> extra = {},
                     std::vector<std::string> environment = {});
  pid_t pid() const { return child_.pid(); }
  // Waits for its end, and expects the same output and status as without a service.
  void Finish();
  // Expects every dispatch of the process in the recording, and none counted as lost.
  void ExpectComplete(const Recording& recording) const;

 private:
  uint64_t dispatches_;
  Child child_;
};

// An adversary's program on the simulated GPU, run as the adversary's user. Tests wait
// for lines that it prints.
class Adversary {
 public:
  // `environment` is NAME=VALUE.
  Adversary(const std::string& program, std::vector<std::string> arguments,
            std::vector<std::string> environment = {});
  pid_t pid() const { return child_.pid(); }
  // Waits until it has printed `word`; false after half a minute.
  bool Says(const std::string& word);
  // Returns what it has printed so far.
  std::string Output() { return child_.PollOutput(); }
  void Signal(int number) { child_.Signal(number); }
  Finished Wait() { return child_.Wait(); }

 private:
  Child child_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_HOSTILE_HOSTILE_HARNESS_H_
