#include "userspace/watch/running_attacher.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/function_offset.h"
#include "injector/maps.h"
#include "injector/probe_instruction.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/running_process.h"

namespace rocattach {
namespace {

// What a program that uses its GPUs calls: it submits work or waits for it.
constexpr const char* kSafePoints[] = {
    "hsa_queue_add_write_index_screlease",
    "hsa_queue_add_write_index_scacq_screl",
    "hsa_queue_add_write_index_relaxed",
    "hsa_signal_store_screlease",
    "hsa_signal_store_relaxed",
    "hsa_signal_wait_scacquire",
    "hsa_signal_wait_relaxed",
    "hsa_signal_load_relaxed",
    "hsa_amd_memory_async_copy",
};

constexpr char kCollectorMemory[] = "/memfd:" ROCATTACH_SHM_NAME;

}  // namespace

absl::StatusOr<RunningAttacher::Runtime> RunningAttacher::FindRuntime(pid_t pid) const {
  auto maps = Maps::Read(pid);
  if (absl::IsPermissionDenied(maps.status())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "process ", pid, " may not be inspected: ", maps.status().message()));
  }
  if (!maps.ok()) {
    return absl::NotFoundError(absl::StrCat("process ", pid,
                                            " does not exist, or has no "
                                            "memory (a zombie or a kernel thread): ",
                                            maps.status().message()));
  }
  std::optional<Runtime> found;
  uint64_t memory = 0, memory_bytes = 0;
  for (const Mapping& mapping : maps->mappings()) {
    if (mapping.path == kCollectorMemory) {
      if (mapping.offset == 0) memory = mapping.start.value();
      if (memory != 0) memory_bytes = mapping.end.value() - memory;
    }
    if (!mapping.executable || !LooksLikeHsaRuntime(mapping.path)) continue;
    for (size_t i = 0; i < copies_.size(); ++i) {
      const LibraryCopy& copy = copies_[i];
      const uint64_t size = mapping.end - mapping.start;
      if (copy.inode != mapping.inode || copy.hsa_init_offset < mapping.offset ||
          copy.hsa_init_offset - mapping.offset >= size) {
        continue;
      }
      if (found.has_value() && found->copy != &copy) {
        return absl::UnimplementedError(
            absl::StrCat("process ", pid, " has two copies of the HSA runtime, ",
                         found->copy->path, " and ", copy.path));
      }
      found =
          Runtime{&copy, i + 1,
                  (mapping.start + (copy.hsa_init_offset - mapping.offset)).value()};
    }
  }
  if (found.has_value()) {
    found->collector_memory = memory;
    found->collector_bytes = memory_bytes;
    return *found;
  }
  RETURN_IF_ERROR(CheckUsesRuntime(pid));
  return absl::FailedPreconditionError(
      absl::StrCat("process ", pid,
                   " has loaded its copy of the HSA runtime, or changed "
                   "it, since the search for such libraries; try again"));
}

absl::Status RunningAttacher::AddProbes(pid_t pid, const Runtime& runtime) {
  const int fd = runtime.copy->file.fd();
  std::vector<uint64_t> offsets;
  for (const char* name : kSafePoints) {
    auto offset = FindFunctionFileOffset(fd, name);
    if (offset.ok() && CheckProbeInstruction(fd, *offset).ok()) {
      offsets.push_back(*offset);
    }
  }
  RETURN_IF_ERROR(runtime.copy->file.CheckUnchanged());
  return probe_->AddLateProbes(pid, runtime.copy->file.ProbePath(), offsets,
                               runtime.cookie);
}

void RunningAttacher::OnLateWindow(const rocattach_event& event) {
  absl::MutexLock lock(&mutex_);
  waiting_.erase(static_cast<pid_t>(event.pid));
  opened_.SignalAll();
}

void RunningAttacher::WaitForWindows() {
  absl::MutexLock lock(&mutex_);
  opened_.WaitFor(&mutex_, patience_, [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return waiting_.empty();
  });
}

std::map<pid_t, absl::Status> RunningAttacher::Attach(const std::vector<pid_t>& pids) {
  std::map<pid_t, absl::Status> failed;
  std::map<pid_t, std::pair<ProcessId, Runtime>> runtimes;
  std::vector<pid_t> probed;
  for (pid_t pid : pids) {
    auto start = ReadStartTicks(pid);
    auto runtime = FindRuntime(pid);
    absl::Status status = start.status();
    status.Update(runtime.status());
    // One that has a collector already need not run to be taken over.
    if (status.ok() && runtime->collector_memory == 0) status = CheckIsRunning(pid);
    if (!status.ok()) {
      failed[pid] = std::move(status);
      continue;
    }
    runtimes[pid] = {{pid, *start}, *runtime};
  }
  for (const auto& [pid, found] : runtimes) {
    const auto& [process, runtime] = found;
    if (runtime.collector_memory != 0) {
      server_->TakeOver(process, runtime.collector_memory, runtime.collector_bytes,
                        runtime.cookie);
      continue;
    }
    {
      absl::MutexLock lock(&mutex_);
      waiting_.insert(pid);
    }
    server_->Prepare(process, runtime.hsa_init, runtime.cookie);
    probe_->ForgetSettledWindow(pid);
    // Without probes there still is the other way.
    if (AddProbes(pid, runtime).ok()) probed.push_back(pid);
  }
  if (!probed.empty()) WaitForWindows();
  // This waits until no thread is inside a probe: then no window opens any more.
  probe_->RemoveLateProbes(probed);
  std::set<pid_t> idle;
  {
    absl::MutexLock lock(&mutex_);
    idle.swap(waiting_);
  }
  for (pid_t pid : idle) {
    const auto& [process, runtime] = runtimes[pid];
    server_->AttachBlocked(process, runtime.hsa_init, runtime.cookie);
  }
  for (const auto& [pid, found] : runtimes) server_->ForgetPrepared(pid);
  return failed;
}

}  // namespace rocattach
