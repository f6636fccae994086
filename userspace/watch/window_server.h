// The threads that meet windows: they take events from the kernel and attach.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOW_SERVER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOW_SERVER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "injector/attach.h"
#include "injector/library_facts.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/backend_choice.h"
#include "userspace/watch/budget.h"
#include "userspace/watch/collector_file.h"
#include "userspace/watch/follower_keeper.h"
#include "userspace/watch/kernel_probe.h"
#include "userspace/watch/policy.h"
#include "userspace/watch/preseizer.h"
#include "userspace/watch/stub_remover.h"
#include "userspace/watch/window.h"

namespace rocattach {

struct WindowServerOptions {
  PolicyRules policy;
  bool attach = false;   // --auto; else windows are only reported
  bool dry_run = false;  // say what would be done
  bool hold = true;      // false: the user has switched holding off
  // What targets load, and what those load that do not see it (empty path: nothing).
  CollectorFile::Choice collector, other_collector;
  rocattach_collector_config collector_config = {};
  uint64_t collector_memory_bytes = 0;  // that the collector makes of this config
  std::vector<std::string> libraries;   // by cookie - 1
  uint32_t hold_timeout_msec = 250;
  int threads = 64;
  // Must outlive the server; null: nothing is removed.
  StubRemover* stub_remover = nullptr;
  BudgetLimits budget;
  // Why one process more cannot be attached now; empty if it can.
  std::function<std::string()> full;
  // Whether sessions want what only rocprofiler-sdk has.
  std::function<bool()> needs_sdk;
  SdkSearch sdk_search;
};

// Leader and followers: one thread, the leader, waits for the kernel's events. It deals
// with small ones on the spot. When it has to wait for a held thread, or when others
// wait meanwhile, it hands the lead to the thread that has been idle for the shortest
// time. So an event never changes threads (ptrace belongs to a thread, and a hand-over
// costs a wake-up), as many windows are served at once as there are threads, and few
// windows meet few threads, whose caches and heaps are warm.
class WindowServer {
 public:
  // `probe` and `sink` must outlive the server.
  WindowServer(KernelProbe* probe, WindowSink* sink, WindowServerOptions options);
  ~WindowServer();

  absl::Status Start();
  // Serves what is waiting, then ends the threads.
  void Stop();
  // True if the threads run with real-time priority.
  bool realtime() const { return realtime_; }

 private:
  // One of the threads.
  struct Worker {
    bool leading = false;
    std::binary_semaphore lead{0};  // the lead has been handed to it
  };

  void StartThread();
  void Run();
  // Goes through the steps of an attach on this process, so that the first held thread
  // does not wait for page faults, heaps and the parsing of libraries.
  void WarmUp();
  // Waits until there is no other leader.
  void Lead(Worker* worker);
  void HandOver(Worker* worker);
  // The leader waits until it has taken one event; false when stopping.
  bool Take(rocattach_event* event);
  // False if this thread must end at once (AttachOutcome::tracer_must_exit).
  bool Serve(const rocattach_event& event, Worker* worker);
  bool ServeWindow(const rocattach_event& event, Worker* worker);
  void ServeReady(const rocattach_event& event);
  // True if it is clear from the event alone that the window is to be attached.
  bool IsWantedAtOnce(const rocattach_event& event, std::string* reason) const;
  // The first steps of an attach, before anything is prepared for the others.
  void Begin(const rocattach_event& event, AttachStart* start) const;
  // Refuses the window if a budget of the service is used up; true if so.
  bool RefuseOverBudget(Window* window) const;
  // Fills in verdict and reason of a window that is not to be attached; true if so.
  bool ShouldSkip(Window* window, Worker* worker);
  // Verdict and reason of a process that shares its memory with another one.
  static void RefuseShared(Window* window);
  // The verdict of a process that could not be looked at.
  static void CannotLook(const absl::Status& status, Window* window);
  // False, with verdict and reason, if the rules forbid to attach.
  bool IsWanted(Window* window, Worker* worker);
  // Why the kernel did not hold it.
  std::string WhyDenied(Window* window);
  // Gives the kernel those rules that it can apply without the service.
  absl::Status PublishRules();
  // Fills in what the kernel knows of the held process.
  void AddKnown(const Window& window, AttachRequest* request);
  // Tries the attach, which may have begun; false if the preseizer has taken the window
  // over.
  bool Attach(Window* window, Worker* worker, AttachStart* start);
  AttachRequest MakeRequest(const rocattach_event& event) const;
  // Verdict and reason of an attach that has been tried.
  void Judge(Window* window);
  void Finish(Window window);
  bool Wants(pid_t pid) const;

  KernelProbe* probe_;
  WindowSink* sink_;
  WindowServerOptions options_;
  bool policy_reads_process_;
  LibraryCache cache_;
  FilesystemViewCache filesystem_views_;
  KnownFiles files_;
  // Windows that this service has attached at. Another service on the machine puts its
  // probe on the same collector: its targets report to us too, and are not ours to
  // read.
  std::mutex attempted_mutex_;
  absl::flat_hash_set<uint64_t> attempted_;
  FollowerKeeper followers_;
  std::unique_ptr<Preseizer> preseizer_;  // in the signal hold mode only
  std::mutex lead_mutex_;
  bool has_leader_ = false;    // guarded by lead_mutex_
  std::vector<Worker*> idle_;  // guarded by lead_mutex_; the last one is next
  std::mutex threads_mutex_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;  // guarded by threads_mutex_
  UniqueFd stop_fd_;
  std::atomic<bool> realtime_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOW_SERVER_H_
