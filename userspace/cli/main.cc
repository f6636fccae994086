// rocattach: what rocattach-watch recorded, its sessions, and the machine.
#include <google/protobuf/stubs/logging.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "userspace/base/version.h"
#include "userspace/cli/common/guarded_main.h"
#include "userspace/cli/options/help_formatter.h"
#include "userspace/cli/options/usage_error.h"
#include "userspace/cli/subcommands.h"

namespace {

int Main(int argc, char** argv) {
  // Damage in a stream is reported by its reader instead.
  google::protobuf::SetLogHandler(nullptr);

  CLI::App app(
      "rocattach: attaches to running GPU processes, reads recordings, controls "
      "sessions,\n"
      "lists counters and checks the machine.",
      "rocattach");
  app.set_version_flag("--version", std::string("rocattach ") + ROCATTACH_VERSION);
  app.formatter(std::make_shared<rocattach::HelpFormatter>());
  app.require_subcommand(1);
  app.failure_message(rocattach::UsageError);
  app.footer("Run 'rocattach COMMAND --help' for more about a command.");
  std::function<int()> run;
  rocattach::RegisterAttach(&app, &run);
  rocattach::RegisterProfile(&app, &run);
  rocattach::RegisterReport(&app, &run);
  rocattach::RegisterCompare(&app, &run);
  rocattach::RegisterDump(&app, &run);
  rocattach::RegisterConvert(&app, &run);
  rocattach::RegisterRecover(&app, &run);
  rocattach::RegisterMerge(&app, &run);
  rocattach::RegisterCounters(&app, &run);
  rocattach::RegisterSession(&app, &run);
  rocattach::RegisterTop(&app, &run);
  rocattach::RegisterWhy(&app, &run);
  rocattach::RegisterDoctor(&app, &run);
  rocattach::LastValueWins(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? rocattach::kExitOk : rocattach::kExitUsage;
  }
  return run();
}

}  // namespace

int main(int argc, char** argv) {
  return rocattach::GuardedMain("rocattach", rocattach::kExitUnreadable, Main, argc,
                                argv);
}
