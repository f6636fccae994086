// Processes whose code is translated instead of executed where it is mapped (Valgrind,
// qemu-user): injector/process/translation.h.
#ifndef ROCATTACH_USERSPACE_WATCH_DISCOVERY_TRANSLATED_PROCESSES_H_
#define ROCATTACH_USERSPACE_WATCH_DISCOVERY_TRANSLATED_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "injector/process/maps.h"
#include "injector/process/translation.h"
#include "userspace/base/process.h"
#include "userspace/base/user_threads.h"
#include "userspace/watch/discovery/checked_file.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/discovery/library_opens.h"
#include "userspace/watch/discovery/recent_users.h"

namespace rocattach {

// The processor time that a process and all its threads have used, in nanoseconds.
// Unset if there is no such process.
std::optional<uint64_t> ProcessCpuNs(pid_t pid);

struct TranslatedProcess {
  ProcessId id;
  std::string how;      // how that is known, in words
  uint64_t cookie = 0;  // identifies its copy of the runtime
  // Why the breakpoint is still in its memory; OK if it is not.
  absl::Status restored;
};

// Counts so far.
struct TranslationCounts {
  // Number of times that the kernel had no room for notifications of opens. All
  // processes were looked at then.
  uint64_t opens_lost = 0;
  // Looks that were left out because too many processes of the same user were waiting.
  uint64_t left_out = 0;
};

// The breakpoint of a probe is in the memory of each process that has mapped the file.
// A translator reads it like any other byte, and the program ends with SIGTRAP when it
// comes to it. Such processes get the file's byte instead, which the kernel accepts:
// the page is the process's own by then, and a probe is removed only where it still is.
//
// 1. A process opens a known copy, or maps a copy's code.
// 2. If it is not translated, nothing is done.
// 3. If it is, the byte is replaced as soon as the process has mapped the copy.
// 4. When a file gets a probe, the kernel puts the breakpoint into every process again:
//    AfterProbe().
//
// No process is stopped for that: a translator takes milliseconds from the mapping of a
// runtime to its functions.
class TranslatedProcesses {
 public:
  // Functions of the machine; tests have others.
  struct Functions {
    std::function<std::vector<pid_t>()> list = ListProcesses;
    std::function<uid_t(pid_t)> user_of = RecentUsers::UserOfLiving;
    std::function<absl::StatusOr<uint64_t>(pid_t)> read_start_ticks = ReadStartTicks;
    std::function<absl::StatusOr<Maps>(pid_t)> read_maps = Maps::Read;
    std::function<std::string(pid_t, const Maps&)> how_translated = HowTranslated;
    // The processor time that a process has used; unset if that is not known.
    std::function<std::optional<uint64_t>(pid_t)> cpu_ns = ProcessCpuNs;
  };
  struct Options {
    // Must outlive Stop().
    const KnownLibraries* libraries = nullptr;
    // Called on threads of this class, several at a time; no call begins after
    // StopReporting(). Once for each process, and again if it has loaded another copy.
    std::function<void(const TranslatedProcess&)> on_found;
    Functions functions = {};
    std::shared_ptr<LibraryOpens> opens = nullptr;  // null: those of the kernel
  };
  static absl::StatusOr<std::unique_ptr<TranslatedProcesses>> Start(Options options);
  ~TranslatedProcesses();
  TranslatedProcesses(const TranslatedProcesses&) = delete;
  TranslatedProcesses& operator=(const TranslatedProcesses&) = delete;

  // A sentence on what this machine lacks for all of that, and on the consequences;
  // empty: nothing.
  static std::string WhatIsLacking();

  // Looks for processes that are already running, before the probes are set.
  void FindRunning();
  // Called when a file has got its probe. `mapped_by`: a process that has mapped it, 0
  // if none is known.
  void AfterProbe(const CheckedFile& file, pid_t mapped_by);
  // Called when a process of this user has mapped code of a copy. Does not wait, and
  // reads nothing.
  void OnMapped(pid_t pid, uid_t uid);
  // Any thread.
  TranslationCounts counts() const;
  // on_found is not called any more. Returns false if a call does not return within
  // `patience`: it goes on, so what it uses must not be destroyed.
  bool StopReporting(absl::Duration patience);
  // Also stops everything else. Waits for a second if a process cannot be read.
  void Stop();

 private:
  struct State;
  explicit TranslatedProcesses(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;  // shared with threads that are left behind
  std::vector<std::thread> threads_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_DISCOVERY_TRANSLATED_PROCESSES_H_
