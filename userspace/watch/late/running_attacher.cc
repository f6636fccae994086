#include "userspace/watch/late/running_attacher.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "injector/elf/file_identity.h"
#include "injector/elf/function_offset.h"
#include "injector/elf/probe_instruction.h"
#include "injector/process/denial.h"
#include "injector/process/maps.h"
#include "injector/process/target_checks.h"
#include "injector/process/target_memory.h"
#include "injector/process/thread_status.h"
#include "injector/process/translation.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/discovery/checked_file.h"
#include "userspace/watch/late/running_process.h"
#include "userspace/watch/late/runtime_start.h"

namespace rocattach {
namespace {

// The function that a program that submits work calls all the time, before the GPU can
// see anything of the submission. It is the only one: a thread that is held in a probe
// waits for the lock of its process's memory while further probes are being set there.
constexpr std::array kBusySafePoints = {"hsa_queue_add_write_index_screlease"};
// Most such programs call it within this time.
constexpr absl::Duration kBusyPatience = absl::Milliseconds(20);
// Other functions that a program calls if it submits work or waits for it.
constexpr std::array kSafePoints = {
    "hsa_queue_add_write_index_scacq_screl",
    "hsa_queue_add_write_index_relaxed",
    "hsa_signal_store_screlease",
    "hsa_signal_store_relaxed",
    "hsa_signal_wait_scacquire",
    "hsa_signal_wait_relaxed",
    "hsa_signal_load_relaxed",
    "hsa_amd_memory_async_copy",
};

// Each of them keeps a file open, and two probes.
constexpr size_t kMostInherited = 64;

bool IsRuntime(const Mapping& mapping) {
  return mapping.executable && LooksLikeHsaRuntime(mapping.path);
}

// Unset if the process cannot be read; the attach reports why.
std::optional<MappedCollector> CollectorIn(const ProcessId& process, const Maps& maps) {
  auto memory = TargetMemory::Open(process.pid, process.pid);
  auto status = ReadThreadStatus(process.pid, process.pid);
  if (!memory.ok() || !status.ok() || !Lives(process)) return std::nullopt;
  return FindMappedCollector(maps, *memory, process, status->inner_tid);
}

}  // namespace

// If a process could choose between a system's copy and one of a Python package, it has
// usually started only one of them.
absl::Status RunningAttacher::KeepStarted(pid_t pid, std::vector<Runtime>* found) {
  auto loaded = ReadRuntimes(pid);
  if (!loaded.ok()) return loaded.status();
  auto is_started = [&loaded](const Runtime& runtime) {
    const RemoteAddress address(runtime.hsa_init);
    return std::any_of(loaded->begin(), loaded->end(),
                       [address](const LoadedRuntime& r) {
                         return r.code_begin <= address && address < r.code_end &&
                                r.start >= RuntimeStart::kUnknown;
                       });
  };
  const std::string paths =
      absl::StrCat(found->front().copy->path, " and ", found->back().copy->path);
  found->erase(std::remove_if(found->begin(), found->end(), std::not_fn(is_started)),
               found->end());
  if (found->size() == 1) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "process ", pid, " has loaded several copies of the HSA runtime, ", paths,
      found->empty() ? ", and it is not known which one it uses"
                     : ", and uses more than one of them"));
}

std::vector<RunningAttacher::Runtime> RunningAttacher::RuntimesIn(
    const Maps& maps) const {
  std::vector<Runtime> found;
  for (const Mapping& mapping : maps.mappings()) {
    if (!IsRuntime(mapping)) continue;
    const KnownLibraries::Entry known = libraries_->Find(mapping);
    if (known.copy == nullptr) continue;
    found.push_back(
        {known.copy, known.cookie,
         (mapping.start + (known.copy->hsa_init_offset - mapping.offset)).value(),
         std::nullopt});
  }
  return found;
}

absl::StatusOr<RunningAttacher::Runtime> RunningAttacher::FindRuntime(
    const ProcessId& process) {
  const pid_t pid = process.pid;
  auto maps = Maps::Read(pid);
  if (absl::IsPermissionDenied(maps.status())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "process ", pid, " may not be inspected: ", maps.status().message(), "; ",
        ExplainTraceDenial(pid)));
  }
  if (!maps.ok()) {
    return absl::NotFoundError(absl::StrCat("process ", pid,
                                            " does not exist, or has no "
                                            "memory (a zombie or a kernel thread): ",
                                            maps.status().message()));
  }
  RETURN_IF_ERROR(CheckIsExecuted(pid, *maps));
  // The file may not have existed when the service started.
  const auto& mappings = maps->mappings();
  if (std::any_of(mappings.begin(), mappings.end(), [this](const Mapping& m) {
        return IsRuntime(m) && libraries_->Find(m).copy == nullptr;
      })) {
    (void)libraries_->MappedBy(pid);
  }
  std::vector<Runtime> found = RuntimesIn(*maps);
  if (found.empty()) {
    RETURN_IF_ERROR(CheckUsesRuntime(pid));
    return absl::FailedPreconditionError(
        absl::StrCat("process ", pid,
                     " uses a copy of the HSA runtime that is not known, "
                     "because it cannot be probed, was changed while it was mapped, or "
                     "was loaded just now; try again"));
  }
  if (found.size() > 1) RETURN_IF_ERROR(KeepStarted(pid, &found));
  found.front().collector = CollectorIn(process, *maps);
  found.front().enterable = CheckSanitizers(*maps);
  if (found.front().collector.has_value() && NeedsEntry(found.front())) {
    HearInherited(pid, *maps);
  }
  return found.front();
}

// An earlier service may have attached to the parent, with a copy of the library on
// which this service has no probes yet.
void RunningAttacher::HearInherited(pid_t pid, const Maps& maps) {
  for (const Mapping& mapping : maps.mappings()) {
    if (!IsCollectorLibrary(mapping)) continue;
    const dev_t device = makedev(mapping.device_major, mapping.device_minor);
    const FileIdentity library = {.device = device, .inode = mapping.inode};
    if (late_->HasCollector(library)) continue;
    if (late_->inherited_libraries() >= kMostInherited) return;
    auto file = CheckedFile::Open(absl::StrCat("/proc/", pid, "/map_files/",
                                               absl::Hex(mapping.start.value()), "-",
                                               absl::Hex(mapping.end.value())));
    if (!file.ok()) continue;
    auto ready = FindFunctionFileOffset(file->fd(), ROCATTACH_COLLECTOR_READY);
    auto unloaded = FindFunctionFileOffset(file->fd(), ROCATTACH_COLLECTOR_UNLOADED);
    if (!ready.ok() || !unloaded.ok() ||
        !CheckProbeInstruction(file->fd(), *ready).ok() ||
        !CheckProbeInstruction(file->fd(), *unloaded).ok() ||
        !probe_->AddCollector(file->ProbePath(), *ready, *unloaded).ok()) {
      continue;
    }
    late_->AddInheritedLibrary(library);
  }
}

absl::Status RunningAttacher::AddProbes(const ProcessId& process,
                                        const Runtime& runtime,
                                        absl::Span<const char* const> functions) {
  const int fd = runtime.copy->file.fd();
  std::vector<uint64_t> offsets;
  for (const char* name : functions) {
    auto offset = FindFunctionFileOffset(fd, name);
    if (offset.ok() && CheckProbeInstruction(fd, *offset).ok()) {
      offsets.push_back(*offset);
    }
  }
  RETURN_IF_ERROR(runtime.copy->file.CheckUnchanged());
  return probe_->AddLateProbes(process, runtime.copy->file.ProbePath(), offsets,
                               runtime.cookie);
}

// Wakes the waiting thread only when the target's thread runs again: the waiting thread
// removes the probes, for which it needs the lock of the target's memory, and perhaps
// the very CPU on which the target's thread is about to stop.
void RunningAttacher::OnLateWindow(const rocattach_event& event, bool served) {
  const ProcessId process = ProcessIdOf(event);
  absl::MutexLock lock(&mutex_);
  if (!served) {
    if (!probed_.contains(process)) return;
    waiting_.erase(process);
    serving_.insert(process);
    return;
  }
  if (auto one = serving_.find(process); one != serving_.end()) serving_.erase(one);
  opened_.SignalAll();
}

std::set<ProcessId> RunningAttacher::WaitForWindows(absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  opened_.WaitFor(&mutex_, patience, [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return waiting_.empty() && serving_.empty();
  });
  return waiting_;
}

absl::StatusOr<RunningAttacher::Runtime> RunningAttacher::FindEnterable(
    const ProcessId& process) {
  auto runtime = FindRuntime(process);
  // A process that has a collector already need not run to be taken over.
  if (runtime.ok() && !runtime->collector.has_value()) {
    absl::Status running = CheckIsRunning(process.pid);
    if (!running.ok()) runtime = std::move(running);
  }
  if (Lives(process) || absl::IsNotFound(runtime.status())) return runtime;
  // What was read may belong to a later process with its ID.
  return absl::NotFoundError(absl::StrCat("process ", process.pid, " has ended"));
}

RunningAttacher::Processes RunningAttacher::Find(const std::vector<ProcessId>& wanted,
                                                 Failures* failed) {
  Processes processes;
  for (const ProcessId& process : wanted) {
    auto runtime = FindEnterable(process);
    if (runtime.ok()) {
      processes[process] = *std::move(runtime);
    } else {
      (*failed)[process] = runtime.status();
    }
  }
  return processes;
}

void RunningAttacher::EnterAtCalls(const Processes& processes, const Calls& calls) {
  const absl::Duration patience =
      probe_->hold_mode() == HoldMode::kYielding ? kBusyPatience : patience_;
  const uint64_t deadline_ns = BootNs() + absl::ToInt64Nanoseconds(patience);
  std::vector<std::thread> threads;
  threads.reserve(calls.size());
  for (const auto& [id, call] : calls) {
    threads.emplace_back([this, process = id, &runtime = processes.at(id),
                          call = call.get(), deadline_ns] {
      if (late_->AtCall(TargetOf(process, runtime), call, deadline_ns)) {
        // Until its probes are removed, no other call may open a window: there is
        // no claim before the collector reports.
        absl::MutexLock lock(&mutex_);
        waiting_.erase(process);
      } else {
        call->Close();  // the next call opens a window
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::set<ProcessId> RunningAttacher::HoldBusyOnes(const Processes& processes) {
  std::set<ProcessId> probed;
  Calls calls;
  for (const auto& [process, runtime] : processes) {
    // Its window may have opened since it was found to have none.
    if (!NeedsEntry(runtime) || probe_->IsServed(process)) continue;
    {
      absl::MutexLock lock(&mutex_);
      waiting_.insert(process);
      probed_.insert(process);
    }
    late_->Prepare(TargetOf(process, runtime));
    probe_->ForgetSettledWindow(process);
    auto call = probe_->AwaitCall(process);
    // In hold mode `signal` a probe does not hold a thread that is not seized.
    if (call == nullptr && probe_->hold_mode() != HoldMode::kYielding) continue;
    if (!AddProbes(process, runtime, kBusySafePoints).ok()) continue;
    probed.insert(process);
    if (call != nullptr) calls[process] = std::move(call);
  }
  EnterAtCalls(processes, calls);
  if (probe_->hold_mode() == HoldMode::kYielding) {
    const absl::Duration patience =
        probed.empty() ? absl::ZeroDuration() : kBusyPatience;
    for (const ProcessId& process : WaitForWindows(patience)) {
      if (AddProbes(process, processes.at(process), kSafePoints).ok()) {
        probed.insert(process);
      }
    }
    if (!probed.empty()) (void)WaitForWindows(patience_);
  }
  // This waits until no thread is inside a probe: then no window opens any more.
  probe_->RemoveLateProbes({probed.begin(), probed.end()});
  absl::MutexLock lock(&mutex_);
  probed_.clear();
  return std::exchange(waiting_, {});
}

std::optional<MappedCollector> RunningAttacher::AwaitCollector(
    const ProcessId& process) {
  // The stub runs by itself: it loads a library and starts a thread.
  constexpr uint64_t kEntryPatienceNs = 2'000'000'000;
  constexpr absl::Duration kPause = absl::Milliseconds(1);
  for (const uint64_t begin_ns = BootNs(); BootNs() - begin_ns < kEntryPatienceNs;
       absl::SleepFor(kPause)) {
    auto maps = Maps::Read(process.pid);
    if (!maps.ok()) break;
    auto collector = CollectorIn(process, *maps);
    if (collector.has_value() && !collector->inherited && collector->owner != 0) {
      return collector;
    }
  }
  return std::nullopt;
}

// The thread may still be busy with what it was sent to do before.
absl::Status RunningAttacher::EnterWhenFree(const ProcessId& process,
                                            const std::string& library) {
  constexpr uint64_t kEntryPatienceNs = 1'000'000'000;
  constexpr absl::Duration kPause = absl::Milliseconds(2);
  const uint64_t begin_ns = BootNs();
  absl::Status entered = sdk_entry_->Enter(process, library);
  while (absl::IsUnavailable(entered) && BootNs() - begin_ns < kEntryPatienceNs) {
    absl::SleepFor(kPause);
    entered = sdk_entry_->Enter(process, library);
  }
  return entered;
}

// For a process that an earlier service has entered in this way.
absl::Status RunningAttacher::EnterAgain(const ProcessId& process,
                                         const Runtime& runtime) {
  const MappedCollector& collector = *runtime.collector;
  absl::Status entered = EnterWhenFree(process, collector.library);
  if (!entered.ok()) return entered;
  const AttachOutcome no_stop;
  late_->TakeOver(TargetOf(process, runtime), collector.memory.value(), collector.bytes,
                  &no_stop);
  return absl::OkStatus();
}

absl::Status RunningAttacher::EnterAnew(const ProcessId& process,
                                        const Runtime& runtime, bool* loaded) {
  auto thread = sdk_entry_->FindThread(process);
  if (!thread.ok()) return thread.status();
  const AttachOutcome outcome = late_->LoadForSdk(TargetOf(process, runtime), *thread);
  if (!outcome.ok()) return absl::FailedPreconditionError(outcome.detail);
  const auto collector = AwaitCollector(process);
  if (!collector.has_value()) {
    return absl::FailedPreconditionError("the collector was not loaded there in time");
  }
  *loaded = true;
  if (collector->library == ROCATTACH_COLLECTOR_MEMFD) {
    return absl::FailedPreconditionError(
        "the process does not see the collector's file, which rocprofiler-sdk would "
        "have to find");
  }
  absl::Status entered = EnterWhenFree(process, collector->library);
  if (!entered.ok()) return entered;
  late_->TakeOver(TargetOf(process, runtime), collector->memory.value(),
                  collector->bytes, &outcome);
  return absl::OkStatus();
}

void RunningAttacher::EnterThroughSdk(Processes* processes, Failures* failed) {
  if (sdk_entry_ == nullptr) return;
  for (auto it = processes->begin(); it != processes->end();) {
    const auto& [process, runtime] = *it;
    const bool again = !NeedsEntry(runtime) && runtime.collector->by_attacher;
    if (!again && (!NeedsEntry(runtime) || !late_->needs_sdk())) {
      ++it;
      continue;
    }
    bool loaded = false;
    const absl::Status entered =
        again ? EnterAgain(process, runtime) : EnterAnew(process, runtime, &loaded);
    if (!entered.ok() && again) {
      sdk_entry_->Forget(process);
      (*failed)[process] = absl::UnavailableError(absl::StrCat(
          "process ", process.pid,
          " was attached to through rocprofiler-sdk, and that does not attach it "
          "again: ",
          entered.message()));
    }
    if (entered.ok() || again) {
      it = processes->erase(it);
      continue;
    }
    sdk_entry_->Forget(process);
    // The usual case is that there is no such thread.
    if (!absl::IsNotFound(entered)) {
      late_->RecordFailedAttempt(
          process, loaded,
          absl::StrCat("not entered through rocprofiler-sdk: ", entered.message()));
    }
    ++it;
  }
}

void RunningAttacher::PassByUnenterable(Processes* processes) {
  for (auto it = processes->begin(); it != processes->end();) {
    const auto& [process, runtime] = *it;
    if (runtime.enterable.ok() || !NeedsEntry(runtime)) {
      ++it;
      continue;
    }
    const AttachFailure& failure = runtime.enterable.failure();
    server_->PassBy(process, runtime.cookie, failure.reason, failure.detail);
    it = processes->erase(it);
  }
}

std::map<ProcessId, absl::Status> RunningAttacher::Attach(
    const std::vector<ProcessId>& wanted) {
  Failures failed;
  Processes processes = Find(wanted, &failed);
  PassByUnenterable(&processes);
  EnterThroughSdk(&processes, &failed);
  for (const auto& [process, runtime] : processes) {
    if (NeedsEntry(runtime)) continue;
    const MappedCollector& collector = *runtime.collector;
    if (collector.inherited) {
      server_->PassBy(process, runtime.cookie, AttachReason::kInheritedRuntime,
                      ExplainInheritedRuntime(collector));
    } else {
      late_->TakeOver(TargetOf(process, runtime), collector.memory.value(),
                      collector.bytes);
    }
  }
  // A process on which no probe could be set counts as idle.
  for (const ProcessId& process : HoldBusyOnes(processes)) {
    if (probe_->IsServed(process)) continue;  // served meanwhile
    const Runtime& runtime = processes.at(process);
    absl::Status entered =
        late_->Blocked(TargetOf(process, runtime), returns_unentered_);
    if (!entered.ok()) failed[process] = std::move(entered);
  }
  for (const auto& [process, runtime] : processes) late_->Forget(process);
  return failed;
}

}  // namespace rocattach
