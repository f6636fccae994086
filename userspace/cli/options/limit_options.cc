#include "userspace/cli/options/limit_options.h"

#include <CLI/CLI.hpp>

#include "userspace/cli/options/help_groups.h"

namespace rocattach {

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

// What the processes of one user may cost; see docs/security.md.
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
