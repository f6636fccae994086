#include "userspace/service/late_libraries.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "injector/process/maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/user_threads.h"

namespace rocattach {
namespace {

// Time limit for the sweep of all processes, which takes some milliseconds.
constexpr absl::Duration kSweepPatience = absl::Seconds(2);
constexpr int kReadersPerUser = 2;

using MappedFiles = std::set<std::pair<dev_t, ino_t>>;

// The files whose code some process has mapped. A process that blocks its reader counts
// as having mapped none: otherwise one user could keep the probes of all others in
// place, and their number is limited.
MappedFiles ReadMappedFiles(UserThreads* threads) {
  struct Found {
    absl::Mutex mutex;
    MappedFiles files ABSL_GUARDED_BY(mutex);
  };
  const auto found = std::make_shared<Found>();
  (void)ReadProcesses(threads, kSweepPatience, ListProcesses(), [found](pid_t pid) {
    auto maps = Maps::Read(pid);
    if (!maps.ok()) return;
    absl::MutexLock lock(&found->mutex);
    for (const Mapping& mapping : maps->mappings()) {
      if (!mapping.is_file() || !mapping.executable) continue;
      found->files.insert(
          {makedev(mapping.device_major, mapping.device_minor), mapping.inode});
    }
  });
  absl::MutexLock lock(&found->mutex);
  return found->files;
}

// Removes from `copies` those that a process has mapped. Compares devices as maps show
// them, because inodes alone are the same in many containers: their file systems all
// begin to count at the same number.
void KeepUnmapped(UserThreads* threads, std::vector<KnownLibraries::Entry>* copies) {
  const MappedFiles mapped = ReadMappedFiles(threads);
  std::erase_if(*copies, [&mapped](const KnownLibraries::Entry& entry) {
    return mapped.count({entry.copy->mapped_device, entry.copy->inode}) > 0;
  });
}

}  // namespace

LateLibraries::LateLibraries(
    KernelProbe* probe, std::function<void(const ProcessId&, MissReason)> on_missed)
    : events_(MmapEvents::Open()),
      probe_(probe),
      sweepers_("rwa-sweep", kReadersPerUser),
      expected_(
          {.has_window = [probe](const ProcessId& p) { return probe->HasWindow(p); },
           .read_start = ReadRuntimeStart,
           .lives = Lives,
           .now_msec = [] { return ClockNs(CLOCK_MONOTONIC) / 1'000'000; },
           .on_missed = std::move(on_missed)}) {}

absl::Status LateLibraries::Start(LateLibrariesOptions options,
                                  ProbedLibraries* libraries) {
  RETURN_IF_ERROR(events_.status());
  LibraryDiscoveryOptions discovery;
  discovery.hold = options.hold;
  discovery.hold_timeout_msec = options.hold_timeout_msec;
  // If the device of a mapping is not that of its file, as on btrfs, the first process
  // is stopped, and then the copy turns out to be known.
  for (const KnownLibraries::Entry& entry : libraries->ProbedAtStart()) {
    discovery.known.push_back({entry.copy->device, entry.copy->inode, entry.cookie});
  }
  discovery.wanted = std::move(options.wanted);
  discovery.on_mapped = std::move(options.on_mapped);
  discovery.arm = [libraries, probe = probe_](pid_t pid) {
    ProbedLibraries::Mapped mapped = libraries->ProbeMappedBy(pid, probe);
    LibraryDiscoveryOptions::Armed result;
    result.cookies = std::move(mapped.probed);
    for (const RejectedLibrary& one : mapped.rejected) {
      (one.may_be_runtime ? result.rejected : result.foreign) = true;
    }
    result.without_room = mapped.without_room > 0;
    return result;
  };
  discovery.is_foreign = IsForeignFile;
  discovery.sweep = [this, libraries, probe = probe_](
                        bool all, const LibraryDiscoveryOptions::Forget& forget) {
    const auto removed = libraries->RemoveUnused(
        all, probe, [this, &forget](std::vector<KnownLibraries::Entry>* copies) {
          std::vector<uint64_t> cookies;
          for (const auto& entry : *copies) cookies.push_back(entry.cookie);
          forget(cookies);
          KeepUnmapped(&sweepers_, copies);
        });
    return !removed.empty();
  };
  discovery.enter_late = [enter =
                              std::move(options.enter_late)](const ProcessId& process) {
    if (enter != nullptr) enter(process);
  };
  ASSIGN_OR_RETURN(
      discovery_,
      LibraryDiscovery::Start(std::move(discovery), *std::move(events_), &expected_));
  counting_ = discovery_.get();
  return absl::OkStatus();
}

void LateLibraries::Forget(const std::vector<uint64_t>& cookies) {
  if (discovery_ != nullptr) discovery_->Forget(cookies);
}

bool LateLibraries::Stop(absl::Duration patience) {
  return discovery_ == nullptr || discovery_->Stop(patience);
}

MissedWindows LateLibraries::Finish() {
  expected_.Finish();
  return expected_.missed();
}

}  // namespace rocattach
