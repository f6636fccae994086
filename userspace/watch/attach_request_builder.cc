#include "userspace/watch/attach_request_builder.h"

#include <vector>

namespace rocattach {

AttachRequest AttachRequestBuilder::Build(const rocattach_event& event) const {
  AttachRequest request;
  request.pid = static_cast<pid_t>(event.pid);
  request.tid = static_cast<pid_t>(event.tid);
  request.start_ns = event.start_ns;
  request.window_ip = event.ip;
  request.collector_path = collector_.file.path;
  request.collector_file = collector_.file.file;
  request.other_collector_path = collector_.other_file.path;
  request.other_collector_file = collector_.other_file.file;
  request.config = collector_.config;
  request.config.window_id = event.time_ns;
  request.attached_before = (event.window.flags & ROCATTACH_WINDOW_AGAIN) != 0;
  request.stop_timeout_msec = stop_timeout_msec_;
  request.memory_bytes = collector_.memory_bytes;
  return request;
}

void AttachRequestBuilder::AddKernelFacts(const rocattach_event& event,
                                          AttachRequest* request) {
  if ((event.window.flags & ROCATTACH_WINDOW_KNOWN) != 0) {
    request->cpu = static_cast<int>(event.window.cpu);
    request->known_harmless =
        (event.window.flags & (ROCATTACH_WINDOW_SECURE | ROCATTACH_WINDOW_STRICT)) == 0;
    request->known_unlimited = (event.window.flags & ROCATTACH_WINDOW_LIMITED) == 0;
    request->filesystem_view_id = event.window.filesystem_view_id;
    request->stack = event.sp;
    request->filesystem_views = &filesystem_views_;
  }
  if (probe_->describes_processes() && event.layout != 0) {
    request->read_layout = [this, &event](rocattach_layout* copy) {
      return probe_->ReadLayout(event, copy);
    };
    request->known_files = &files_;
    request->on_learned = [this](const std::vector<KnownFiles::Judgement>& learned) {
      for (const auto& [file, kind] : learned) probe_->SetFileKind(file, kind);
    };
  }
}

}  // namespace rocattach
