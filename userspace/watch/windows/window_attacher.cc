#include "userspace/watch/windows/window_attacher.h"

#include <utility>

#include "userspace/base/clock.h"

namespace rocattach {

Window WindowAttacher::NewWindow(const rocattach_event& event) const {
  Window window;
  window.event = event;
  if (options_.libraries != nullptr) {
    window.hsa_library =
        options_.libraries->PathOf(event.cookie & ~ROCATTACH_COOKIE_LATE);
  }
  return window;
}

WindowAttacher::Request WindowAttacher::MakeRequest(Window* window) {
  window->attach_tried = true;
  const ProcessId process = ProcessIdOf(window->event);
  Request request;
  request.attach = requests_.Build(window->event);
  if (IsLate(window->event)) {
    if (preparations_.FailedAttemptOf(process).loaded) {
      request.attach.earlier = EarlierAttach::kReplaceStub;
    }
    request.prepared = preparations_.Take(process);
    request.attach.known.prepared = request.prepared.get();
  }
  ChooseBackendFor(window, &request.attach);
  if (options_.stub_remover != nullptr) {
    request.reattach =
        std::make_shared<StubRemover::Reattach>(options_.stub_remover, process.pid);
    request.attach.keep_stubs = !request.reattach->ok();
  }
  awaited_.Add(window->event.time_ns, BootNs());
  return request;
}

void WindowAttacher::ChooseBackendFor(Window* window, AttachRequest* request) const {
  // After a late attach it is too late to enter through the SDK; the collector's answer
  // says what the SDK can still provide.
  if (!needs_sdk() || IsLate(window->event)) return;
  // Reads the process, which delays only windows of services with sessions that need
  // the SDK.
  BackendChoice choice = ChooseBackend(request->point.pid, options_.sdk_search);
  request->config.backend = choice.backend;
  window->sdk_missing = std::move(choice.missing);
}

void WindowAttacher::Settle(Window* window) {
  if (window->outcome.ok()) return;  // open until the collector reports
  (void)ForgetReport(window->event);
  // After any failure, the thread must not be held until its deadline.
  probe_->Release(window->event);
  SetAttachVerdict(window);
}

void WindowAttacher::Finish(Window window) {
  const rocattach_event& event = window.event;
  if (window.outcome.ok() && window.reason.empty() && IsLate(event)) {
    window.reason = preparations_.FailedAttemptOf(ProcessIdOf(event)).why;
  }
  if (window.process.id.pid == 0) {
    // Read only now, not before the stop: the process runs on meanwhile.
    window.process = ProcessOf(event);
  }
  if (window.outcome.ok()) {
    crash_breaker_.OnAttached(window.process.id, window.process.executable, BootNs());
  }
  sink_->OnWindow(std::move(window));
}

}  // namespace rocattach
