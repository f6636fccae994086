// rocattach report: summarises recordings.
#include "userspace/report/report.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/report/report_json.h"
#include "userspace/report/report_text.h"

namespace rocattach {
namespace {

struct ReportOptions {
  std::vector<std::string> paths;
  bool json = false;
  bool follow = false;
  size_t top = 10;
  size_t limit = TextReportOptions().limit;
};

int RunReport(const ReportOptions& options) {
  StopReadingOnSignals();
  ReportBuilder builder;
  StreamDecoder decoder(&builder);
  int exit_status = ReadStreams(options.paths, options.follow, &decoder);
  Report report = builder.Finish(decoder.stats());
  bool nothing = report.recordings.empty();
  bool written = true;
  if (options.json) {
    written = WriteStdout(FormatReportJson(report));
  } else if (!nothing) {
    TextReportOptions text;
    text.width = TerminalWidth();
    text.color = text.width > 0 && getenv("NO_COLOR") == nullptr;
    text.top = options.top;
    text.limit = options.limit;
    written = WriteStdout(FormatReport(report, text));
  }
  if (exit_status != kExitOk) return exit_status;
  if (!written) return kExitUnreadable;
  return report.HasLosses() ? kExitLosses : kExitOk;
}

}  // namespace

void RegisterReport(CLI::App* app, std::function<int()>* run) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = app->add_subcommand(
      "report", "Summarise recordings: processes, kernels, copies and losses");
  report->add_option("FILE", options->paths, "Recordings; - is standard input")
      ->required()
      ->type_name("");
  report->add_flag("--json", options->json,
                   "Print one JSON object, with all processes and kernels");
  report->add_flag(
      "-f,--follow", options->follow,
      "Wait until the recording ends or Ctrl-C is pressed (last FILE only). Not a "
      "format: 'rocattach convert -f' has those");
  report->add_option("--top", options->top, "Kernels shown per process; 0: all")
      ->capture_default_str()
      ->type_name("N");
  report
      ->add_option("--limit", options->limit,
                   "Processes shown per recording, those with losses and failures "
                   "first; 0: all")
      ->capture_default_str()
      ->type_name("N");
  report->footer(
      "Examples:\n"
      "  rocattach report run.rwa\n"
      "  rocattach report --top 0 --limit 0 node*/run.rwa\n"
      "  rocattach report --json run.rwa | jq '.recordings[].processes[].verdict'\n"
      "  rocattach-watch --auto -o - -- ./app | rocattach report -\n"
      "\n"
      "Exit status: 0 nothing was lost; 1 data is damaged or was lost, or the "
      "recording is\n"
      "incomplete (the report says which); 2 usage error; 3 a FILE cannot be read or "
      "is not\n"
      "a recording.");
  report->callback(
      [options, run] { *run = [options] { return RunReport(*options); }; });
}

}  // namespace rocattach
