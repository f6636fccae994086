#include "userspace/cli/tool_attach.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/clock.h"
#include "userspace/base/human.h"
#include "userspace/base/json.h"
#include "userspace/base/process.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/terminal/enter_key.h"
#include "userspace/cli/terminal/input_end.h"
#include "userspace/listener/listener_session.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/service/run_duration.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach {
namespace {

constexpr int kLookMsec = 20;

// Number of requests to end: the first one waits for attaches, a second cancels them.
std::atomic<int> stop_requests = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void OnAttachSignal(int) {
  stop_requests.fetch_add(1, std::memory_order_relaxed);
}

void StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = OnAttachSignal;
  action.sa_flags = SA_RESTART;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

struct Target {
  pid_t pid = 0;
  std::string comm;
  std::unique_ptr<ListenerSession> session;
  bool attached = false;
  std::string problem;  // empty: none
  // Valid once the detach has begun.
  bool had_ended = false;
  std::optional<ToolFailure> not_detached;
  std::thread detaching;
};

// Tells whether the duration is over. A process that does not answer its attach delays
// the start of the duration only briefly.
class Duration {
 public:
  explicit Duration(uint64_t msec) : ns_(msec * 1'000'000) {}

  void OnAttached() {
    uint64_t none = 0;
    first_ns_.compare_exchange_strong(none, BootNs());
  }
  // `ready`: no attach is under way. Call it on one thread at a time.
  bool IsOver(bool ready) {
    if (ns_ == 0) return false;
    const uint64_t now_ns = BootNs();
    const uint64_t began_ns = began_.BeganNs(now_ns, first_ns_, ready);
    return began_ns != 0 && now_ns >= began_ns + ns_;
  }

 private:
  const uint64_t ns_;  // 0: there is none
  std::atomic<uint64_t> first_ns_ = 0;
  RunDuration began_;
};

class ToolAttach {
 public:
  ToolAttach(const ToolAttachOptions& options, const std::vector<pid_t>& pids)
      : options_(options), duration_(options.duration_msec) {
    if (options.timeout_msec != 0) {
      limits_.attach_msec = limits_.detach_msec = options.timeout_msec;
    }
    for (pid_t pid : pids) {
      Target target;
      target.pid = pid;
      if (auto info = ReadProcessInfo(pid); info.ok()) target.comm = info->comm;
      targets_.push_back(std::move(target));
    }
  }

  int Run();
  void Refuse(pid_t pid, const std::string& reason, const std::string& detail);

 private:
  void Print(const Json& json) const;
  void Say(absl::string_view text) const;
  void AttachAll();
  void Attach(Target* target);
  void Wait();
  // Begins to detach from all attached processes, each on a thread of its own, so that
  // none waits for another one's answer.
  void BeginDetach() ABSL_LOCKS_EXCLUDED(mutex_);
  void Detach(Target* target);
  bool AnyAttached() const;

  const ToolAttachOptions& options_;
  ToolLimits limits_;
  Duration duration_;
  // Guards the members of a target that are read while others are being attached to:
  // `attached` and the members after it.
  absl::Mutex mutex_;
  std::vector<Target> targets_;
  std::string not_detached_;
  bool all_ = true;
};

void ToolAttach::Print(const Json& json) const {
  const std::string line = DumpJson(json);
  fprintf(stdout, "%s\n", line.c_str());
  fflush(stdout);
}

void ToolAttach::Say(absl::string_view text) const {
  fprintf(stderr, "rocattach: %s\n", CleanText(std::string(text)).c_str());
}

void ToolAttach::Refuse(pid_t pid, const std::string& reason,
                        const std::string& detail) {
  all_ = false;
  if (options_.json) {
    Print(Json{{"event", "not_attached"},
               {"pid", pid},
               {"reason", reason},
               {"detail", detail}});
  } else {
    Say(detail);
  }
}

void ToolAttach::AttachAll() {
  std::atomic<bool> attaching = true;
  std::thread watch([&] {
    while (attaching && !duration_.IsOver(/*ready=*/false)) usleep(kLookMsec * 1000);
    if (attaching) BeginDetach();
  });
  for (Target& target : targets_) Attach(&target);
  attaching = false;
  watch.join();
}

void ToolAttach::Attach(Target* target) {
  target->session = std::make_unique<ListenerSession>(target->pid, limits_);
  auto failure = target->session->Attach(options_.tools, ToolVariables(environ), [] {
    return stop_requests.load(std::memory_order_relaxed) > 1;
  });
  {
    absl::MutexLock lock(&mutex_);
    target->attached = !failure.has_value();
  }
  if (!failure.has_value()) duration_.OnAttached();
  if (failure.has_value()) {
    all_ = false;
    target->problem = failure->detail;
    target->session.reset();
    if (options_.json) {
      Print(Json{{"event", "not_attached"},
                 {"pid", target->pid},
                 {"comm", target->comm},
                 {"reason", failure->reason},
                 {"detail", failure->detail},
                 {"target_modified", failure->target_modified}});
    } else {
      Say(absl::StrCat("process ", target->pid, " (", target->comm,
                       ") was not attached to: ", failure->detail));
    }
    return;
  }
  if (options_.json) {
    Print(Json{{"event", "attached"},
               {"pid", target->pid},
               {"comm", target->comm},
               {"entry", "listener"},
               {"tool", target->session->tool()},
               {"call_ns", target->session->call_ns()}});
  } else if (!options_.quiet) {
    Say(absl::StrCat("attached ", target->session->tool(), " to process ", target->pid,
                     " (", target->comm, "), which took ",
                     HumanDuration(target->session->call_ns())));
  }
}

bool ToolAttach::AnyAttached() const {
  for (const Target& target : targets_) {
    if (target.attached && !target.session->target_ended()) return true;
  }
  return false;
}

void ToolAttach::Wait() {
  InputEnd input_end(options_.detach_on_eof, [] { stop_requests.fetch_add(1); });
  EnterKey enter(/*wanted=*/!options_.detach_on_eof);
  if (enter.watching() && !options_.quiet && !options_.json) {
    Say("press Enter or Ctrl-C to detach");
  }
  while (AnyAttached() && stop_requests.load() == 0) {
    if (duration_.IsOver(/*ready=*/true)) return;
    if (!enter.watching()) {
      usleep(kLookMsec * 1000);
    } else if (enter.Pressed(kLookMsec)) {
      return;
    }
  }
}

void ToolAttach::BeginDetach() {
  absl::MutexLock lock(&mutex_);
  for (Target& target : targets_) {
    if (!target.attached || target.detaching.joinable()) continue;
    target.had_ended = target.session->target_ended();
    target.detaching =
        std::thread([&target] { target.not_detached = target.session->Detach(); });
  }
}

void ToolAttach::Detach(Target* target) {
  std::string status = "not-attached";
  if (target->attached) {
    target->detaching.join();
    const std::optional<ToolFailure>& failure = target->not_detached;
    status = failure.has_value() ? "not-detached"
             : target->had_ended ? "ended"
                                 : "detached";
    if (failure.has_value()) {
      all_ = false;
      target->problem = not_detached_ = failure->detail;
    }
  }
  if (options_.json) {
    Print(Json{{"event", "result"},
               {"pid", target->pid},
               {"comm", target->comm},
               {"status", status},
               {"entry", target->attached ? "listener" : "none"},
               {"detail", target->problem},
               {"variables_kept",
                target->session == nullptr ? "" : target->session->variables_kept()}});
  } else if (target->attached && !target->problem.empty()) {
    Say(absl::StrCat("process ", target->pid, " (", target->comm,
                     ") was not detached from: ", target->problem));
  } else if (target->attached && !options_.quiet) {
    Say(absl::StrCat("process ", target->pid, " (", target->comm, ") ",
                     status == "ended" ? "has ended" : "was detached from"));
    if (!target->session->variables_kept().empty()) {
      Say(absl::StrCat("process ", target->pid,
                       " keeps the variables that the tool got in its environment: ",
                       target->session->variables_kept()));
    }
  }
}

int ToolAttach::Run() {
  StopOnSignals();
  AttachAll();
  if (options_.json) Print(Json{{"event", "ready"}});
  Wait();
  BeginDetach();
  for (Target& target : targets_) Detach(&target);
  if (options_.json) {
    Json line = {{"event", "end"}, {"complete", all_}, {"files", Json::array()}};
    if (!not_detached_.empty()) line["output_error"] = not_detached_;
    Print(line);
  }
  return all_ ? kExitOk : kExitLosses;
}

}  // namespace

int RunToolAttach(const ToolAttachOptions& options, const std::vector<pid_t>& pids) {
  std::vector<pid_t> wanted;
  std::vector<std::pair<pid_t, absl::Status>> refused;
  std::set<pid_t> seen;
  for (pid_t pid : pids) {
    if (!seen.insert(pid).second) continue;
    if (absl::Status status = CheckIsProcess(pid); status.ok()) {
      wanted.push_back(pid);
    } else {
      refused.emplace_back(pid, status);
    }
  }
  ToolAttach run(options, options.children ? WithDescendants(wanted) : wanted);
  for (const auto& [pid, status] : refused) {
    run.Refuse(pid, absl::IsNotFound(status) ? "no-such-process" : "not-a-process",
               std::string(status.message()));
  }
  return run.Run();
}

}  // namespace rocattach
