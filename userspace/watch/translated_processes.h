// Processes whose code is translated instead of executed where it is mapped (Valgrind,
// qemu-user): injector/translation.h.
#ifndef ROCATTACH_USERSPACE_WATCH_TRANSLATED_PROCESSES_H_
#define ROCATTACH_USERSPACE_WATCH_TRANSLATED_PROCESSES_H_

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
#include "injector/maps.h"
#include "injector/translation.h"
#include "userspace/base/process.h"
#include "userspace/base/user_threads.h"
#include "userspace/watch/checked_file.h"
#include "userspace/watch/known_libraries.h"
#include "userspace/watch/library_opens.h"
#include "userspace/watch/recent_users.h"

namespace rocattach {

// The processor time that a process and all its threads have used, in nanoseconds.
// Nothing if there is no such process.
std::optional<uint64_t> ProcessCpuNs(pid_t pid);

struct TranslatedProcess {
  ProcessId id;
  std::string how;      // it is known, in words
  uint64_t cookie = 0;  // of its copy of the runtime
  // Why the breakpoint is still in its memory; OK: it is not.
  absl::Status restored;
};

// So far.
struct TranslationCounts {
  // How often the kernel had no room for notifications of opens. All processes have been
  // looked at then.
  uint64_t opens_lost = 0;
  // Looks that were left out because too many processes of the same user waited.
  uint64_t left_out = 0;
};

// The breakpoint of a probe is in the memory of each process that has mapped the file.
// A translator reads it like any other byte, and the program ends with SIGTRAP when it
// comes to it. There it is replaced by what the file has, which the kernel accepts: the
// page is the process's own by then, and a probe is removed only where it still is.
//
// 1. A process opens a copy that is known, or maps a copy's code.
// 2. One that is not translated is left alone.
// 3. One that is has the byte replaced as soon as it has mapped the copy.
// 4. The kernel puts the breakpoint into every process again when a file gets a probe:
//    AfterProbe().
//
// No process is stopped for that: a translator takes milliseconds from the mapping of a
// runtime to its functions.
class TranslatedProcesses {
 public:
  // Of the machine; tests have others.
  struct Functions {
    std::function<std::vector<pid_t>()> list = ListProcesses;
    std::function<uid_t(pid_t)> user_of = RecentUsers::UserOfLiving;
    std::function<absl::StatusOr<Maps>(pid_t)> read_maps = Maps::Read;
    std::function<std::string(pid_t, const Maps&)> how_translated = HowTranslated;
    // The processor time that a process has used; nothing if that is not known.
    std::function<std::optional<uint64_t>(pid_t)> cpu_ns = ProcessCpuNs;
  };
  struct Options {
    // Must outlive Stop().
    const KnownLibraries* libraries = nullptr;
    // On threads of this class, several at a time; not begun after StopReporting().
    // Once for each process, and again if it has loaded another copy.
    std::function<void(const TranslatedProcess&)> on_found;
    Functions functions = {};
    std::shared_ptr<LibraryOpens> opens = nullptr;  // null: those of the kernel
  };
  static absl::StatusOr<std::unique_ptr<TranslatedProcesses>> Start(Options options);
  ~TranslatedProcesses();
  TranslatedProcesses(const TranslatedProcesses&) = delete;
  TranslatedProcesses& operator=(const TranslatedProcesses&) = delete;

  // What this machine lacks for all of that, and what comes of it, in a sentence; empty:
  // nothing.
  static std::string WhatIsLacking();

  // Looks for those that run already, before the probes are set.
  void FindRunning();
  // A file has got its probe. `mapped_by`: a process that has mapped it, 0 if none is
  // known.
  void AfterProbe(const CheckedFile& file, pid_t mapped_by);
  // A process of this user has mapped code of a copy. Neither waits nor reads anything.
  void NoteMapped(pid_t pid, uid_t uid);
  // Any thread.
  TranslationCounts counts() const;
  // on_found is not called any more. False if a call does not return within `patience`:
  // it goes on, so what it uses must not be destroyed.
  bool StopReporting(absl::Duration patience);
  // Also ends everything else. Waits for a second if a process cannot be read.
  void Stop();

 private:
  struct State;
  explicit TranslatedProcesses(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;  // also of threads that are left behind
  std::vector<std::thread> threads_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_TRANSLATED_PROCESSES_H_
