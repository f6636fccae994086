// rocattach compare: what has changed between two recordings.
#include <stdio.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/report/comparison.h"

namespace rocattach {
namespace {

constexpr double kPercent = 100;

struct CompareOptions {
  std::string before, after;
  bool json = false;
  double threshold = ComparisonOptions().threshold * kPercent;
  double confidence = ComparisonOptions().confidence * kPercent;
  double min_share = ComparisonOptions().min_share * kPercent;
  size_t top = ComparisonTextOptions().top;
};

// False if it cannot be read, which is reported.
bool ReadReport(const std::string& path, Report* report) {
  ReportBuilder builder;
  StreamDecoder decoder(&builder);
  const int status = ReadStreams({path}, /*follow=*/false, &decoder);
  *report = builder.Finish(decoder.stats());
  return status == kExitOk;
}

int RunCompare(const CompareOptions& options) {
  StopReadingOnSignals();
  Report before, after;
  if (!ReadReport(options.before, &before) || !ReadReport(options.after, &after)) {
    return kExitUnreadable;
  }
  if (ReadingStopped()) {
    fprintf(stderr, "rocattach: stopped by a signal; nothing was compared\n");
    return kExitUnreadable;
  }
  ComparisonOptions how;
  how.threshold = options.threshold / kPercent;
  how.confidence = options.confidence / kPercent;
  how.min_share = options.min_share / kPercent;
  const Comparison comparison = CompareReports(before, after, how);
  ComparisonTextOptions text;
  text.width = TerminalWidth();
  text.color = text.width > 0 && getenv("NO_COLOR") == nullptr;
  text.top = options.top;
  if (!WriteStdout(options.json ? FormatComparisonJson(comparison)
                                : FormatComparison(comparison, text))) {
    return kExitUnreadable;
  }
  if (comparison.regressions > 0) return kExitRegressions;
  return before.HasLosses() || after.HasLosses() ? kExitLosses : kExitOk;
}

}  // namespace

void RegisterCompare(CLI::App* app, std::function<int()>* run) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* compare = app->add_subcommand(
      "compare", "Compare the kernels of two recordings; for regressions");
  compare->add_option("A", options->before, "The recording to compare with")
      ->required()
      ->type_name("");
  compare->add_option("B", options->after, "The recording in question")
      ->required()
      ->type_name("");
  compare->add_flag("--json", options->json, "Print one JSON object, with all kernels");
  compare
      ->add_option("--threshold", options->threshold,
                   "Changes of a kernel's mean up to this percentage are none")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 10000.0).description(""))
      ->type_name("PERCENT");
  compare
      ->add_option("--confidence", options->confidence,
                   "How certain the intervals are, 50 to 99.99")
      ->capture_default_str()
      ->check(CLI::Range(50.0, 99.99).description(""))
      ->type_name("PERCENT");
  compare
      ->add_option("--min-share", options->min_share,
                   "Kernels with less of the kernel time are no regressions")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0).description(""))
      ->type_name("PERCENT");
  compare->add_option("--top", options->top, "Kernels shown; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{UINT32_MAX}).description(""))
      ->capture_default_str()
      ->type_name("N");
  compare->footer(
      "Kernels are compared by name. A kernel is slower if the whole confidence "
      "interval "
      "of\n"
      "its change lies above the threshold (Welch's t on the logarithm of the means).\n"
      "\n"
      "Examples:\n"
      "  rocattach compare before.rwa after.rwa\n"
      "  rocattach compare --threshold 2 --json before.rwa after.rwa | jq "
      ".regressions\n"
      "\n"
      "Exit status: 0 no kernel is slower; 1 the same, but a recording is damaged or "
      "lost\n"
      "data; 2 usage error; 3 a recording cannot be read; 4 a kernel is slower.");
  compare->callback(
      [options, run] { *run = [options] { return RunCompare(*options); }; });
}

}  // namespace rocattach
