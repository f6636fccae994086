#include "userspace/service/late_libraries.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <set>
#include <utility>

#include "injector/maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Removes from `copies` those that a process has mapped. Devices are compared as maps
// show them: inodes alone are the same in many containers, whose file systems all begin
// to count at the same number.
void KeepUnmapped(std::vector<KnownLibraries::Entry>* copies) {
  std::set<std::pair<dev_t, ino_t>> mapped;
  for (pid_t pid : ListProcesses()) {
    auto maps = Maps::Read(pid);
    if (!maps.ok()) continue;
    for (const Mapping& mapping : maps->mappings()) {
      if (!mapping.is_file() || !mapping.executable) continue;
      mapped.insert(
          {makedev(mapping.device_major, mapping.device_minor), mapping.inode});
    }
  }
  std::erase_if(*copies, [&mapped](const KnownLibraries::Entry& entry) {
    return mapped.count({entry.copy->mapped_device, entry.copy->inode}) > 0;
  });
}

}  // namespace

LateLibraries::LateLibraries(
    KernelProbe* probe, std::function<void(const ProcessId&, MissReason)> on_missed)
    : events_(MmapEvents::Open()),
      probe_(probe),
      expected_({.has_window = [probe](pid_t pid) { return probe->HasWindow(pid); },
                 .read_start = ReadRuntimeStart,
                 .read_start_ticks = ReadStartTicks,
                 .now_msec = [] { return ClockNs(CLOCK_MONOTONIC) / 1'000'000; },
                 .on_missed = std::move(on_missed)}) {}

absl::Status LateLibraries::Start(LateLibrariesOptions options,
                                  ProbedLibraries* libraries) {
  RETURN_IF_ERROR(events_.status());
  LibraryDiscoveryOptions discovery;
  discovery.hold = options.hold;
  discovery.hold_timeout_msec = options.hold_timeout_msec;
  // Where the device of a mapping is not that of its file, as on btrfs, the first
  // process is stopped and the copy found to be known.
  for (const KnownLibraries::Entry& entry : libraries->ProbedAtStart()) {
    discovery.known.push_back({entry.copy->device, entry.copy->inode, entry.cookie});
  }
  discovery.wanted = std::move(options.wanted);
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
  discovery.sweep = [libraries, probe = probe_](
                        bool all, const LibraryDiscoveryOptions::Forget& forget) {
    const auto removed = libraries->RemoveUnused(
        all, probe, [&forget](std::vector<KnownLibraries::Entry>* copies) {
          std::vector<uint64_t> cookies;
          for (const auto& entry : *copies) cookies.push_back(entry.cookie);
          forget(cookies);
          KeepUnmapped(copies);
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

void LateLibraries::NoteWindow(const rocattach_event& event) {
  expected_.NoteWindow(
      ProcessId::StartedAt(static_cast<pid_t>(event.pid), event.start_ns));
}

void LateLibraries::Forget(const std::vector<uint64_t>& cookies) {
  if (discovery_ != nullptr) discovery_->Forget(cookies);
}

bool LateLibraries::Stop() {
  return discovery_ == nullptr || discovery_->Stop();
}

MissedWindows LateLibraries::Finish() {
  (void)Stop();
  expected_.Finish();
  return expected_.missed();
}

}  // namespace rocattach
