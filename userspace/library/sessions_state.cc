#include "userspace/library/sessions_state.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "userspace/library/ticker.h"

namespace rocattach {
namespace {

// State that outlives a call.
struct Api {
  absl::Mutex mutex;
  std::shared_ptr<SessionEngine> engine ABSL_GUARDED_BY(mutex);
  // Exists once a buffer has a flush interval.
  std::unique_ptr<Ticker> ticker ABSL_GUARDED_BY(mutex);
};

Api& TheApi() {
  static Api* api = new Api;  // never destroyed: callers may use it while exiting
  return *api;
}

thread_local std::string error_detail;

// The process that uses the library, if this is a child that it has created with
// fork(); else 0.
pid_t ForkedFrom() {
  static std::atomic<pid_t> owner = 0;
  const pid_t self = getpid();
  pid_t present = 0;
  if (owner.compare_exchange_strong(present, self) || present == self) return 0;
  return present;
}

}  // namespace

void StartSessionsTicker(const std::shared_ptr<SessionEngine>& engine) {
  Api& api = TheApi();
  absl::MutexLock lock(&api.mutex);
  if (api.ticker == nullptr) api.ticker = std::make_unique<Ticker>(engine);
}

void StopSessionsTicker() {
  std::unique_ptr<Ticker> ticker;
  {
    Api& api = TheApi();
    absl::MutexLock lock(&api.mutex);
    ticker = std::move(api.ticker);
  }
}

void KeepErrorDetail(const absl::Status& status) {
  if (!status.ok()) error_detail = std::string(status.message());
}

const char* ErrorDetail() {
  return error_detail.c_str();
}

absl::StatusOr<std::shared_ptr<SessionEngine>> UsableSessionsEngine(
    SessionStatus in_child) {
  if (const pid_t parent = ForkedFrom(); parent != 0) {
    return SessionError(
        in_child,
        absl::StrCat("process ", getpid(), " was forked from process ", parent,
                     ", which the library belongs to; use it there, or in a program "
                     "that this process executes"));
  }
  std::shared_ptr<SessionEngine> engine = SessionsEngine();
  if (engine == nullptr) {
    return SessionError(SessionStatus::kError, "no session engine");
  }
  return engine;
}

void SetSessionsRunner(std::shared_ptr<SessionRunner> runner) {
  StopSessionsTicker();
  auto engine = std::make_shared<SessionEngine>(std::move(runner));
  Api& api = TheApi();
  absl::MutexLock lock(&api.mutex);
  api.engine.swap(engine);
}

std::shared_ptr<SessionEngine> SessionsEngine() {
  Api& api = TheApi();
  absl::MutexLock lock(&api.mutex);
  if (api.engine == nullptr) {
    std::shared_ptr<SessionRunner> runner = DefaultSessionRunner();
    if (runner == nullptr) return nullptr;
    api.engine = std::make_shared<SessionEngine>(std::move(runner));
  }
  return api.engine;
}

}  // namespace rocattach
