// rocattach doctor: checks whether this machine can attach, and how to fix it if not.
#include "userspace/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "userspace/cli/subcommands.h"
#include "userspace/doctor/output.h"

namespace rocattach {
namespace {

struct DoctorArguments {
  DoctorOptions doctor;
  bool json = false;
  bool verbose = false;
  std::string hold_mode = "yielding";
};

// Colours and the terminal's width on a terminal only.
DoctorTextOptions TextOptions(bool verbose) {
  DoctorTextOptions options;
  options.verbose = verbose;
  if (isatty(STDOUT_FILENO) == 0) return options;
  options.color = getenv("NO_COLOR") == nullptr;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = std::clamp<size_t>(size.ws_col, 60, 120);
  }
  return options;
}

int RunDoctorCommand(const DoctorArguments& arguments) {
  DoctorOptions options = arguments.doctor;
  options.best_hold_mode =
      arguments.hold_mode == "signal" ? HoldMode::kSignal : HoldMode::kYielding;
  DoctorReport report = RunDoctor(options);
  std::string text = arguments.json
                         ? DoctorJson(report)
                         : DoctorText(report, TextOptions(arguments.verbose));
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      fflush(stdout) != 0) {
    perror("rocattach doctor: writing the report");
  }
  return report.exit_status();
}

}  // namespace

void RegisterDoctor(CLI::App* app, std::function<int()>* run) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app->add_subcommand(
      "doctor",
      "Check whether this machine can attach, and how to fix what is missing");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->add_flag("-v,--verbose", arguments->verbose,
                    "Also explain the checks that pass");
  command
      ->add_option("--hold", arguments->hold_mode,
                   "Preferred hold mode: yielding or signal")
      ->check(CLI::IsMember({"yielding", "signal"}))
      ->capture_default_str();
  command
      ->add_option("--library", arguments->doctor.libraries,
                   "Additional HSA runtime library, or a directory that contains one; "
                   "repeatable")
      ->type_name("PATH")
      ->expected(1)
      ->take_all();
  command
      ->add_option(
          "--collector", arguments->doctor.collector,
          "Collector library to check (default: the one installed with this program)")
      ->type_name("FILE");
  command->footer(
      "Exit status: 0 OK; 1 degraded; 2 usage error; 3 attaching cannot work.");
  command->callback([arguments, run] {
    *run = [arguments] { return RunDoctorCommand(*arguments); };
  });
}

}  // namespace rocattach
