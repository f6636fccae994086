// rocattach report: summarises recordings.
#include "userspace/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/export/common/output_file.h"
#include "userspace/report/html/html_page.h"
#include "userspace/report/kernel_groups.h"
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
  std::vector<std::string> groups;
  std::string html;
  bool force = false;
};

// Reads all files; reports the first one that is invalid.
bool ReadGroups(const std::vector<std::string>& paths, KernelGroups* groups) {
  for (const std::string& path : paths) {
    const absl::Status status = groups->AddFile(path);
    if (status.ok()) continue;
    fprintf(stderr, "rocattach: %s\n", std::string(status.message()).c_str());
    return false;
  }
  return true;
}

// The reason why a page cannot have this name; empty if it can.
std::string NameProblem(const std::string& path, bool force) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return "";
  if (S_ISDIR(info.st_mode)) return "is a directory";
  // A device or a link must not be replaced by a page.
  if (!S_ISREG(info.st_mode)) return "exists and is not a regular file";
  return force ? "" : "exists; --force replaces it";
}

// Writes the page to options.html; reports errors.
bool WritePage(const ReportOptions& options, const std::string& page,
               std::unique_ptr<OutputFile> file) {
  absl::Status status = file->Append(page);
  if (status.ok()) status = file->Complete();
  if (!status.ok()) {
    fprintf(stderr, "rocattach: %s; what was written is %s\n",
            std::string(status.message()).c_str(), file->name().c_str());
    return false;
  }
  if (!options.json) fprintf(stderr, "rocattach: wrote %s\n", options.html.c_str());
  return true;
}

// Like RunReport, with a page.
int RunHtmlReport(const ReportOptions& options, const KernelGroups& groups) {
  // Checked before the input is read, which can take long.
  const std::string problem = NameProblem(options.html, options.force);
  if (!problem.empty()) {
    fprintf(stderr, "rocattach: %s %s\n", options.html.c_str(), problem.c_str());
    return kExitUnreadable;
  }
  ExportOptions how;
  how.force = options.force;
  auto file = OutputFile::Create(options.html, how);
  if (!file.ok()) {
    fprintf(stderr, "rocattach: %s\n", std::string(file.status().message()).c_str());
    return kExitUnreadable;
  }
  PageBuilder builder;
  StreamDecoder decoder(&builder);
  const int exit_status = ReadStreams(options.paths, options.follow, &decoder);
  const Report report = builder.Finish(decoder.stats());
  if (report.recordings.empty()) {
    unlink((*file)->name().c_str());
    return exit_status != kExitOk ? exit_status : kExitUnreadable;
  }
  const std::string page = FormatHtmlPage(report, builder.FinishData(), groups);
  bool written = WritePage(options, page, *std::move(file));
  if (options.json) written &= WriteStdout(FormatReportJson(report, groups));
  if (exit_status != kExitOk) return exit_status;
  if (!written) return kExitUnreadable;
  return report.HasLosses() ? kExitLosses : kExitOk;
}

int RunReport(const ReportOptions& options) {
  KernelGroups groups;
  if (!ReadGroups(options.groups, &groups)) return kExitUsage;
  StopReadingOnSignals();
  if (!options.html.empty()) return RunHtmlReport(options, groups);
  ReportBuilder builder;
  StreamDecoder decoder(&builder);
  int exit_status = ReadStreams(options.paths, options.follow, &decoder);
  Report report = builder.Finish(decoder.stats());
  bool nothing = report.recordings.empty();
  bool written = true;
  if (options.json) {
    written = WriteStdout(FormatReportJson(report, groups));
  } else if (!nothing) {
    TextReportOptions text;
    text.width = TerminalWidth();
    text.color = text.width > 0 && getenv("NO_COLOR") == nullptr;
    text.top = options.top;
    text.limit = options.limit;
    text.groups = &groups;
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
      ->check(CLI::Range(int64_t{0}, int64_t{UINT32_MAX}).description(""))
      ->capture_default_str()
      ->type_name("N");
  report
      ->add_option("--limit", options->limit,
                   "Processes shown per recording, those with losses and failures "
                   "first; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{UINT32_MAX}).description(""))
      ->capture_default_str()
      ->type_name("N");
  report
      ->add_option("--groups", options->groups,
                   "Also sum up kernels by groups: a file with regular expressions for "
                   "each group (repeatable)")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  CLI::Option* html =
      report
          ->add_option("--html", options->html,
                       "Write a page for browsers with a timeline, kernels, their "
                       "histograms and counters, and a flame graph, instead of text")
          ->type_name("FILE");
  report->add_flag("--force", options->force, "Replace FILE of --html if it exists")
      ->needs(html);
  report->footer(
      "Examples:\n"
      "  rocattach report run.rwa\n"
      "  rocattach report --top 0 --limit 0 node*/run.rwa\n"
      "  rocattach report --groups ml.yaml run.rwa\n"
      "  rocattach report --html run.html run.rwa\n"
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
