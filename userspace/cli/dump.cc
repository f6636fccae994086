// rocattach dump: every record of a stream, one line each.
#include <stdio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/report/record_printer.h"
#include "userspace/stream/sink.h"

namespace rocattach {
namespace {

struct DumpOptions {
  std::vector<std::string> paths;
  bool json = false;
  bool follow = false;
  std::vector<std::string> types;
};

int RunDump(const DumpOptions& options) {
  StopReadingOnSignals();
  PrinterOptions printing;
  printing.style = options.json ? LineWriter::Style::kJson : LineWriter::Style::kText;
  printing.types = options.types;
  printing.flush_lines = options.follow || isatty(STDOUT_FILENO);
  bool written = true;
  RecordPrinter printer(printing,
                        [&](absl::string_view text) { written &= WriteStdout(text); });
  StreamDecoder decoder(&printer);
  int exit_status = ReadStreams(options.paths, options.follow, &decoder);
  printer.Flush();
  const ReadStats& stats = decoder.stats();
  if (stats.damaged()) {
    fprintf(stderr,
            "rocattach: damaged: %s bytes skipped, %s frames missing, %s undecodable\n",
            HumanCount(stats.skipped_bytes).c_str(),
            HumanCount(stats.missing_frames).c_str(),
            HumanCount(stats.undecodable_frames).c_str());
  }
  if (exit_status != kExitOk) return exit_status;
  if (!written) return kExitUnreadable;
  return stats.damaged() ? kExitLosses : kExitOk;
}

}  // namespace

void RegisterDump(CLI::App* app, std::function<int()>* run) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* dump = app->add_subcommand("dump", "Print every record, one line each");
  dump->add_option("FILE", options->paths, "Recordings; - is standard input")
      ->required()
      ->type_name("");
  dump->add_flag("--json", options->json, "Print one JSON object per line");
  dump->add_flag("-f,--follow", options->follow,
                 "Wait for more data until the recording ends (last FILE only). Not a "
                 "format: 'rocattach convert -f' has those");
  dump->add_option("-t,--type", options->types,
                   "Only these types of records, separated by commas: " +
                       absl::StrJoin(RecordPrinter::RecordTypes(), ", "))
      ->delimiter(',')
      ->type_name("TYPE")
      ->check(CLI::IsMember(RecordPrinter::RecordTypes()).description(""));
  dump->footer(
      "Examples:\n"
      "  rocattach dump run.rwa | less\n"
      "  rocattach dump --json --type dispatch run.rwa | jq .duration_ns\n"
      "  rocattach dump --follow run.rwa\n"
      "  ssh node rocattach-watch --auto -o - | rocattach dump -\n"
      "\n"
      "Exit status: 0 everything was read; 1 the recording is damaged, and what is "
      "intact\n"
      "was printed; 2 usage error; 3 a FILE cannot be read or is not a recording.");
  dump->callback([options, run] { *run = [options] { return RunDump(*options); }; });
}

}  // namespace rocattach
