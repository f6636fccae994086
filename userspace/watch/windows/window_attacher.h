// What attaches at all windows have in common: the request, and what follows from the
// outcome.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_ATTACHER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_ATTACHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bpf/watch_events.h"
#include "injector/attach.h"
#include "injector/elf/library_facts.h"
#include "injector/prepared_target.h"
#include "userspace/watch/crash_breaker.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/late/awaited_reports.h"
#include "userspace/watch/late/late_preparations.h"
#include "userspace/watch/windows/attach_request_builder.h"
#include "userspace/watch/windows/backend_choice.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/stub_remover.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

struct WindowAttacherOptions {
  CollectorOptions collector;
  uint32_t hold_timeout_msec = 250;
  // Must outlive the attacher; null: copies of the runtime have no paths.
  const KnownLibraries* libraries = nullptr;
  // Must outlive the attacher; null: nothing is removed.
  StubRemover* stub_remover = nullptr;
  // Called once for every window, also for those of late attaches and of collectors
  // that are taken over. If the window opens at a probe: before it is served, but after
  // its thread has been asked to stop. May be null.
  std::function<void(const rocattach_event&)> on_window;
  // True if sessions need what only rocprofiler-sdk provides. May be null.
  std::function<bool()> needs_sdk;
  SdkSearch sdk_search;
};

// Thread-safe.
class WindowAttacher {
 public:
  // A request, and what must exist until its attach is over.
  struct Request {
    AttachRequest attach;
    std::shared_ptr<StubRemover::Reattach> reattach;
    std::shared_ptr<PreparedTarget> prepared;  // null unless the attach is late
  };

  // `probe` and `sink` must outlive it.
  WindowAttacher(KernelProbe* probe, WindowSink* sink, WindowAttacherOptions options)
      : probe_(probe),
        sink_(sink),
        options_(std::move(options)),
        requests_(probe, options_.collector, options_.hold_timeout_msec) {}

  // A window of which nothing is known but its event.
  Window NewWindow(const rocattach_event& event) const;
  // The request for an attach at this window, whose report is awaited from now on.
  Request MakeRequest(Window* window);
  // True if sessions need what only rocprofiler-sdk provides.
  bool needs_sdk() const {
    return options_.needs_sdk != nullptr && options_.needs_sdk();
  }
  // Tells the service about a window.
  void Announce(const rocattach_event& event) const {
    if (options_.on_window != nullptr) options_.on_window(event);
  }
  // Decides the verdict after a failed attach, and lets the thread run on.
  void Settle(Window* window);
  // No report of this window is awaited any more. False if it was not.
  bool ForgetReport(const rocattach_event& window) {
    return awaited_.Remove(window.time_ns);
  }
  // Passes a window to the sink.
  void Finish(Window window);

  const std::string& collector_path() const { return options_.collector.file.path; }
  KernelProbe* probe() const { return probe_; }
  WindowSink* sink() const { return sink_; }
  AttachRequestBuilder& requests() { return requests_; }
  const AttachRequestBuilder& requests() const { return requests_; }
  LibraryCache& cache() { return cache_; }
  AwaitedReports& awaited() { return awaited_; }
  CrashBreaker& crash_breaker() { return crash_breaker_; }
  LatePreparations& preparations() { return preparations_; }

 private:
  // Adapts the request to what sessions need.
  void ChooseBackendFor(Window* window, AttachRequest* request) const;

  KernelProbe* const probe_;
  WindowSink* const sink_;
  const WindowAttacherOptions options_;
  CrashBreaker crash_breaker_;
  LibraryCache cache_;
  AttachRequestBuilder requests_;
  AwaitedReports awaited_;
  LatePreparations preparations_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_ATTACHER_H_
