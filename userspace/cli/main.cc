// rocattach: looks at what rocattach-watch recorded, and at the machine.
#include <google/protobuf/stubs/logging.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "userspace/base/version.h"
#include "userspace/cli/subcommands.h"
#ifdef ROCATTACH_HAS_DOCTOR
#include "userspace/cli/doctor.h"
#endif

int main(int argc, char** argv) {
  // Damage in a stream is reported by its reader, in its own words.
  google::protobuf::SetLogHandler(nullptr);

  CLI::App app("rocattach: reads recordings of GPU processes.");
  app.set_version_flag("--version", std::string("rocattach ") + ROCATTACH_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  app.footer("rocattach COMMAND --help tells more about a command.");
  std::function<int()> run;
  rocattach::RegisterReport(&app, &run);
  rocattach::RegisterDump(&app, &run);
#ifdef ROCATTACH_HAS_DOCTOR
  // Its exit status is known once parsing is over; nothing is left to run then.
  int doctor_status = rocattach::kExitOk;
  rocattach::AddDoctorCommand(&app, &doctor_status);
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? rocattach::kExitOk : rocattach::kExitUsage;
  }
#ifdef ROCATTACH_HAS_DOCTOR
  if (!run) return doctor_status;
#endif
  return run();
}
