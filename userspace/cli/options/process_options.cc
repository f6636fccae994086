#include "userspace/cli/options/process_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "userspace/cli/options/help_groups.h"

namespace rocattach {

void AddSelection(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kWatchGroup);
  app->add_flag(
      "--auto", args->watcher.attach,
      "Hold and attach to new GPU processes (otherwise they are only reported)");
  app->add_flag("--dry-run", args->watcher.dry_run,
                "With --auto: report what would be done, without doing it");
  app->add_flag("--attach-running", args->watcher.all_running,
                "Also attach to processes that use the GPU already; implies --auto");
  app->add_option("-p,--pid,--process", args->processes,
                  "With --auto: only this process, which runs already; repeatable")
      ->type_name("PID")
      ->expected(1)
      ->take_all();
  app->add_option("-n,--name", args->watcher.policy.allow,
                  "Only processes whose name, executable path or script matches this "
                  "glob; repeatable")
      ->type_name("NAME|GLOB")
      ->expected(1)
      ->take_all();
  app->add_option("--uid", args->user, "Only processes of this user")
      ->type_name("UID|NAME");
  app->add_option(
         "--cgroup", args->cgroup,
         "Only processes of this control group (cgroup v2) and those below it: "
         "a directory, or a path as in /proc/PID/cgroup")
      ->type_name("PATH")
      ->envname("ROCATTACH_CGROUP");
  app->add_option("--deny", args->watcher.policy.deny,
                  "Never processes that match this glob; wins over --name; repeatable")
      ->type_name("NAME|GLOB")
      ->expected(1)
      ->take_all();
  app->add_flag(
      "--crash-breaker,!--no-crash-breaker", args->watcher.crash_breaker,
      "With --auto: after a process that crashed within five seconds of its "
      "attach, do not attach to its executable for ten minutes (default: on)");
}

void AddLibraries(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kWatchGroup);
  app->add_option("--library", args->watcher.extra_libraries,
                  "Additional HSA runtime library, or a directory that contains one; "
                  "repeatable")
      ->type_name("PATH")
      ->expected(1)
      ->take_all();
  app->add_option(
         "--collector", args->watcher.collector_path,
         "Collector library to inject (default: the one installed with this program)")
      ->type_name("FILE");
}

void AddTopology(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kCounterGroup);
  app->add_option("--kfd-topology", args->watcher.sdk_search.topology,
                  "KFD topology directory as processes see it, for simulated GPUs")
      ->type_name("DIR")
      ->capture_default_str();
}

// Options for how a process is entered and captured.
void AddEntryOptions(CLI::App* app, WatchArguments* args) {
  AddTimeLimits(app, args);
  StartGroup(app, kRecordGroup);
  app->add_option("--capture", args->capture,
                  "How dispatches are captured: auto, doorbell or intercept")
      ->check(CLI::IsMember({"auto", "doorbell", "intercept"}))
      ->capture_default_str();
  app->add_option(
         "--ring-slots", args->watcher.ring_slots,
         "Records that each thread's ring holds until they are read: a power of two")
      ->check(CLI::Validator(
          [](const std::string& text) {
            uint32_t slots = 0;
            const bool good = absl::SimpleAtoi(text, &slots) && slots >= 64 &&
                              slots <= 32768 && (slots & (slots - 1)) == 0;
            return good ? std::string() : "not a power of two from 64 to 32768";
          },
          ""))
      ->group(kLimitGroup)
      ->capture_default_str();
  app->add_flag("--no-recording", args->no_recording,
                "Attach, but leave the collectors idle");
  AddLibraries(app, args);
}

void AddBackend(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kSessionGroup);
  app->add_option("--backend", args->backend,
                  "Collector backend: auto uses rocprofiler-sdk if the first session "
                  "needs it; sdk uses it wherever it is available, so that later "
                  "sessions can measure counters; hsa never uses it")
      ->check(CLI::IsMember({"auto", "sdk", "hsa"}))
      ->capture_default_str();
}

void AddTimeLimits(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kLimitGroup);
  app->add_option(
         "--hold-timeout-msec", args->watcher.hold_timeout_msec,
         "Longest time that a thread is held so that the process can be entered")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app->add_option(
         "--session-wait-msec", args->watcher.session_wait_msec,
         "Longest time that a new process waits in its first hsa_init for its session, "
         "so that its first dispatch is included")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
}

void AddLoadBudget(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kLimitGroup);
  LoadBudget& budget = args->watcher.load_budget;
  app->add_option("--cpu-budget", budget.cpu_percent,
                  "Processor time that the service may use, in percent of one "
                  "processor; beyond it a part of the dispatches is recorded, and at "
                  "last they are only counted (default: no limit)")
      ->type_name("PERCENT")
      ->check(CLI::Range(0.1, 100'000.0));
  app->add_option("--disk-budget", budget.disk_bytes_per_second,
                  "The same for what is written to recordings, in bytes per second, "
                  "such as 10M (default: no limit)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50).description(""))
      ->type_name("BYTES");
}

// Limits of the cost of one user's processes; see docs/security.md.
void AddBudgets(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kLimitGroup);
  BudgetLimits& budget = args->watcher.budget;
  const auto add = [app](const char* name, uint32_t* limit, uint32_t most,
                         const char* help) {
    app->add_option(name, *limit, help)
        ->check(CLI::Range(uint32_t{0}, most))
        ->capture_default_str();
  };
  add("--windows-per-second", &budget.windows_per_second, 1'000'000,
      "First hsa_init calls per second by one user's processes; further ones are "
      "refused. 0, here and below: no limit");
  add("--processes-per-user", &budget.processes_per_user, 32'768,
      "Concurrent GPU processes of one user; further ones are refused");
  add("--max-processes", &budget.processes, 32'768,
      "Processes attached at the same time; further ones are refused");
  add("--max-libraries", &budget.libraries, 65'536,
      "Copies of the HSA runtime that are probed");
  add("--max-libraries-per-user", &budget.libraries_per_user, 65'536,
      "Copies of the HSA runtime that are probed among the files of one non-root user");
  add("--lines-per-second", &budget.lines_per_second, 1'000'000,
      "Lines printed about one user's processes; the rest are counted");
}

}  // namespace rocattach
