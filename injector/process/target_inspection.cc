#include "injector/process/target_inspection.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/fault.h"
#include "injector/process/loader_lock.h"
#include "injector/process/mapped_collector.h"
#include "injector/process/target_checks.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

// Reasons for which the file is sent instead: the process does not see it, sees another
// file, or may not use it.
bool IsOfCollectorFile(AttachReason reason) {
  return reason == AttachReason::kCollectorMissing ||
         reason == AttachReason::kCollectorUnreadable ||
         reason == AttachReason::kCollectorChanged;
}

bool IsFile(const Mapping& mapping, const FileIdentity& file) {
  return mapping.inode == file.inode &&
         makedev(mapping.device_major, mapping.device_minor) == file.device;
}

// True if a library that the process has mapped is the one that it would be told to
// load: only reports from that one are received.
bool IsOurs(const Mapping& library, const AttachRequest& request) {
  for (const CollectorImage* image : {&request.collector, &request.other_collector}) {
    if (image->path.empty()) continue;
    if (image->file.inode == 0 ? library.path == image->path
                               : IsFile(library, image->file)) {
      return true;
    }
  }
  for (const FileIdentity& file : request.inherited_libraries) {
    if (IsFile(library, file)) return true;
  }
  struct stat sent;
  return request.collector_fd >= 0 && fstat(request.collector_fd, &sent) == 0 &&
         IsFile(library, FileIdentity::Of(sent));
}

StepResult CheckInheritedLibrary(const Maps& maps, const AttachRequest& request,
                                 const MappedCollector& collector) {
  const Mapping* library = nullptr;
  for (const Mapping& mapping : maps.mappings()) {
    if (!IsCollectorLibrary(mapping)) continue;
    library = &mapping;
    if (!IsOurs(mapping, request)) break;
  }
  if (library != nullptr && IsOurs(*library, request)) return StepOk();
  return AttachFailure{
      AttachReason::kAlreadyAttached, 0,
      absl::StrCat("the process was forked from process ", collector.owner,
                   " (as that calls itself), and has inherited a collector of another "
                   "service from it, ",
                   library == nullptr ? "which it has not mapped any more"
                                      : DecodeMapsPath(library->path),
                   "; it can be recorded after an exec, or by that service")};
}

}  // namespace

bool TargetInspection::MayInspect() {
  return prepared_ != nullptr || !request_.known.read_layout || IsDescribed();
}

StepResult TargetInspection::Inspect() {
  if (UsePrepared()) return CheckThread();
  RETURN_IF_FAILED(CheckTarget());
  return Resolve();
}

StepResult TargetInspection::Prepare(PreparedTarget* prepared) {
  RETURN_IF_FAILED(CheckTarget());
  auto maps = Maps::Read(request_.point.tid);
  if (!maps.ok()) return FailureFromProc(maps.status());
  RETURN_IF_FAILED(ResolveIn(*std::move(maps)));
  // The page becomes the process's own now. Nothing changes in it, and if this fails
  // (EIO), the stub is written by other means.
  const CodeCave& cave = facts_.cave;
  (void)facts_.memory->Write(cave.address, cave.before.data(), cave.before.size());
  FindLocks();
  return prepared->Set(std::move(facts_));
}

// Caches where the loader's locks are; to find them, all of its state has to be read.
void TargetInspection::FindLocks() const {
  uint64_t state = 0;
  const LibcState& libc = facts_.libc;
  if (libc.loader_state_slot.is_null() ||
      !facts_.memory->Read(libc.loader_state_slot, &state, sizeof(state)).ok()) {
    return;
  }
  (void)FindLoaderLocks(*facts_.memory, RemoteAddress(state), libc.facts.get());
}

// False if nothing is prepared, or if the process has changed since.
bool TargetInspection::UsePrepared() {
  PreparedTarget* prepared = std::exchange(prepared_, nullptr);
  if (prepared == nullptr || !prepared->ready() || !prepared->StillHolds()) {
    return false;
  }
  facts_ = prepared->Take();
  maps_are_old_ = true;
  return true;
}

// Checks what differs between the threads of a process.
StepResult TargetInspection::CheckThread() const {
  if (request_.known.harmless) return StepOk();
  auto status = ReadThreadStatus(request_.point.pid, request_.point.tid);
  if (!status.ok()) return FailureFromProc(status.status());
  return CheckSeccomp(*status);
}

StepResult TargetInspection::CheckTarget() {
  stage_ = AttachStage::kCheck;
  RETURN_IF_FAILED(ReadClockOffset(request_.point.tid, &facts_.clock_offset_ns));
  if (!request_.known.unlimited) {
    RETURN_IF_FAILED(CheckLimits(request_.point.tid, request_.memory_bytes));
  }
  if (request_.known.harmless && request_.known.filesystem_views != nullptr &&
      request_.known.filesystem_view_id != 0 &&
      request_.known.filesystem_views->EverybodyMayLoad(
          request_.point.tid, request_.known.filesystem_view_id,
          request_.collector.path, request_.collector.file)) {
    return StepOk();
  }
  RETURN_IF_FAILED(CheckNotSecure(request_.point.tid));
  auto status = ReadThreadStatus(request_.point.pid, request_.point.tid);
  if (!status.ok()) {
    AttachFailure failure = FailureFromProc(status.status());
    if (failure.reason == AttachReason::kTargetExited) {
      failure.detail =
          absl::StrCat("thread ", request_.point.tid, " is not in process ",
                       request_.point.pid, ": ", failure.detail);
    }
    return failure;
  }
  RETURN_IF_FAILED(CheckSeccomp(*status));
  return ChooseCollector(*status);
}

// Prefers a path, which costs the held thread nothing.
StepResult TargetInspection::ChooseCollector(const ThreadStatus& status) {
  StepResult result;
  for (const CollectorImage* image : {&request_.collector, &request_.other_collector}) {
    if (image->path.empty()) continue;
    result = CheckCollector(request_.point.tid, status, image->path, image->file);
    if (result.ok()) {
      facts_.collector_path = image->path;
      return result;
    }
  }
  if (request_.collector_fd < 0 || !IsOfCollectorFile(result.failure().reason)) {
    return result;
  }
  if (StepResult proc = CheckDescriptorPaths(request_.point.tid); !proc.ok()) {
    absl::StrAppend(&result.failure().detail,
                    "; it cannot be sent either: ", proc.failure().detail);
    return result;
  }
  facts_.stub_kind = StubKind::kByDescriptor;
  facts_.collector_path = ROCATTACH_COLLECTOR_NAME;
  facts_.why_sent = std::move(result.failure().detail);
  return StepOk();
}

bool TargetInspection::IsDescribed() {
  if (!described_ && request_.known.read_layout && request_.known.files != nullptr) {
    described_ = request_.known.read_layout(&layout_);
  }
  return described_;
}

StepResult TargetInspection::Resolve() {
  stage_ = AttachStage::kResolve;
  if (FaultAt("resolve")) {
    return AttachFailure{AttachReason::kInternal, EIO, "injected fault at resolve"};
  }
  if (ResolveFromLayout()) return StepOk();
  return ResolveFromProc();
}

// Returns false for any reason; /proc is then read, which has more information.
bool TargetInspection::ResolveFromLayout() {
  if (!IsDescribed()) return false;
  std::optional<Maps> maps = request_.known.files->MapsOf(layout_);
  if (!maps.has_value() || !ResolveIn(*std::move(maps)).ok()) return false;
  // A file is identified by numbers that could, very rarely, be another file's.
  return HaveTheirCode(facts_.functions, *facts_.maps, *facts_.memory);
}

StepResult TargetInspection::ResolveFromProc() {
  const RemoteAddress stack(request_.known.stack != 0 ? request_.known.stack - 1 : 0);
  auto maps = Maps::ReadFiles(request_.point.tid, stack);
  if (!maps.ok()) return FailureFromProc(maps.status());
  RETURN_IF_FAILED(ResolveIn(*std::move(maps)));
  if (described_ && earlier_ != EarlierAttach::kForkedChild) {
    learned_ = request_.known.files->Learn(request_.point.tid, layout_, *facts_.maps,
                                           facts_.collector_path, cache_);
  }
  return StepOk();
}

StepResult TargetInspection::ResolveIn(Maps maps) {
  facts_.maps.emplace(std::move(maps));
  StepResult mappings = CheckMappings(*facts_.maps, facts_.collector_path,
                                      earlier_ != EarlierAttach::kNone);
  RETURN_IF_FAILED(OpenMemory());
  if (!mappings.ok() && mappings.failure().reason == AttachReason::kAlreadyAttached) {
    mappings = AcceptCollector(mappings);
  }
  RETURN_IF_FAILED(mappings);
  RETURN_IF_FAILED(FindLoaderFunctions(request_.point.tid, *facts_.maps, cache_,
                                       &facts_.functions, &facts_.libc));
  return FindCave(0);
}

StepResult TargetInspection::OpenMemory() {
  if (facts_.memory.has_value()) return StepOk();
  auto memory = TargetMemory::Open(request_.point.pid, request_.point.tid);
  if (!memory.ok()) return FailureFromProc(memory.status());
  facts_.memory.emplace(*std::move(memory));
  return StepOk();
}

// A forked child has its parent's collector, which notices the fork when it is started.
// The mapped library must be the one that reports to us; the stub finds it by its name.
StepResult TargetInspection::AcceptCollector(const StepResult& refusal) {
  const pid_t pid = request_.point.pid;
  auto status = ReadThreadStatus(pid, pid);
  auto ticks = ReadStartTicks(pid);
  if (!status.ok() || !ticks.ok()) return refusal;
  const auto collector = FindMappedCollector(*facts_.maps, *facts_.memory,
                                             {pid, *ticks}, status->inner_tid);
  if (!collector.has_value() || !collector->inherited) return refusal;
  if (collector->runtime_was_open) {
    return AttachFailure{AttachReason::kInheritedRuntime, 0,
                         ExplainInheritedRuntime(*collector)};
  }
  RETURN_IF_FAILED(CheckInheritedLibrary(*facts_.maps, request_, *collector));
  earlier_ = EarlierAttach::kForkedChild;
  facts_.stub_kind = StubKind::kByPath;
  facts_.collector_path = ROCATTACH_COLLECTOR_NAME;
  facts_.why_sent.clear();
  return CheckMappings(*facts_.maps, facts_.collector_path, true);
}

StepResult TargetInspection::CoverAddress(RemoteAddress address) {
  const bool may_lack = maps_are_old_ || !facts_.maps->whole();
  if (!may_lack || facts_.maps->Find(address) != nullptr) return StepOk();
  auto around = Maps::ReadFiles(request_.point.tid, address);
  if (!around.ok()) return FailureFromProc(around.status());
  facts_.maps.emplace(*std::move(around));
  return StepOk();
}

// A process that starts its runtime again still has our stub from the last time. The
// thread that ran it has reported from inside the collector, but may still be restoring
// its registers in the stub. The only parameter that it still needs is its return
// address, so a stub with the same return address can be written over the old one at
// any time.
StepResult TargetInspection::FindCave(uint64_t return_ip) {
  return FindCodeCave(
      request_.point.tid, *facts_.maps, *facts_.memory, cache_,
      RemoteAddress(request_.point.window_ip), StubBytes(facts_.stub_kind),
      &facts_.cave, [this, return_ip](absl::string_view room) {
        const RemoteAddress back = ReturnAddressOf(room, facts_.stub_kind);
        if (request_.keep_stubs || back.is_null()) return false;
        if (earlier_ == EarlierAttach::kForkedChild) return true;
        if (earlier_ != EarlierAttach::kReplaceStub) return false;
        if (return_ip != 0) return back.value() == return_ip;
        return back.value() - request_.point.window_ip <= kWindowBytes;
      });
}

}  // namespace rocattach
