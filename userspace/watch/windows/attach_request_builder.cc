#include "userspace/watch/windows/attach_request_builder.h"

#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "userspace/watch/windows/window.h"

namespace rocattach {

AttachRequest AttachRequestBuilder::Build(const rocattach_event& event) const {
  AttachRequest request;
  request.point = {static_cast<pid_t>(event.pid), static_cast<pid_t>(event.tid),
                   event.start_ns, event.ip};
  request.collector = {collector_.file.path, collector_.file.file};
  request.other_collector = {collector_.other_file.path, collector_.other_file.file};
  request.collector_fd = collector_.descriptor;
  request.config = collector_.config;
  request.config.window_id = event.time_ns;
  if (IsLate(event)) request.config.recording_flags |= ROCATTACH_RECORDING_LATE;
  // A late attach may come after a window at which nothing was loaded.
  if ((event.window.flags & ROCATTACH_WINDOW_AGAIN) != 0 && !IsLate(event)) {
    request.earlier = EarlierAttach::kReplaceStub;
  }
  request.stop_timeout_msec = stop_timeout_msec_;
  request.memory_bytes = collector_.memory_bytes;
  absl::MutexLock lock(&mutex_);
  request.inherited_libraries = inherited_libraries_;
  return request;
}

size_t AttachRequestBuilder::inherited_libraries() const {
  absl::MutexLock lock(&mutex_);
  return inherited_libraries_.size();
}

void AttachRequestBuilder::AddInheritedLibrary(const FileIdentity& library) {
  absl::MutexLock lock(&mutex_);
  inherited_libraries_.push_back(library);
}

bool AttachRequestBuilder::HasCollector(const FileIdentity& library) const {
  struct stat sent;
  if (library.IsSameFile(collector_.file.file) ||
      library.IsSameFile(collector_.other_file.file) ||
      (collector_.descriptor >= 0 && fstat(collector_.descriptor, &sent) == 0 &&
       library.IsSameFile(FileIdentity::Of(sent)))) {
    return true;
  }
  absl::MutexLock lock(&mutex_);
  return std::any_of(
      inherited_libraries_.begin(), inherited_libraries_.end(),
      [&library](const FileIdentity& known) { return known.IsSameFile(library); });
}

void AttachRequestBuilder::AddKernelFacts(const rocattach_event& event,
                                          AttachRequest* request) {
  KernelFacts& known = request->known;
  if ((event.window.flags & ROCATTACH_WINDOW_KNOWN) != 0) {
    known.cpu = static_cast<int>(event.window.cpu);
    known.harmless =
        (event.window.flags & (ROCATTACH_WINDOW_SECURE | ROCATTACH_WINDOW_STRICT)) == 0;
    known.unlimited = (event.window.flags & ROCATTACH_WINDOW_LIMITED) == 0;
    known.filesystem_view_id = event.window.filesystem_view_id;
    known.stack = event.sp;
    known.filesystem_views = &filesystem_views_;
  }
  if (probe_->describes_processes() && event.layout != 0) {
    known.read_layout = [this, &event](rocattach_layout* copy) {
      return probe_->ReadLayout(event, copy);
    };
    known.files = &files_;
    request->callbacks.on_learned =
        [this](const std::vector<KnownFiles::Judgement>& learned) {
          for (const auto& [file, kind] : learned) probe_->SetFileKind(file, kind);
        };
  }
}

}  // namespace rocattach
