#include "userspace/cli/options/output_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "userspace/base/output_formats.h"
#include "userspace/cli/options/help_groups.h"

namespace rocattach {
namespace {

// Lower limit: each file repeats the data known of all processes.
constexpr uint64_t kLeastFileBytes = 64 << 10;

}  // namespace

void AddOutput(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  app->add_option("-d,--output-directory", args->watcher.output_directory,
                  "Directory of output files; created if missing")
      ->type_name("DIR");
  app->add_option("-o,--output-file", args->watcher.output_file,
                  "Name of the output, '-' for standard output; keys as in rocprofv3: "
                  "%hostname% %pid% %tag% %argN% %job% %rank% %launch_date% "
                  "%launch_time% %env{X}% … With %pid% each process gets its own file")
      ->type_name("NAME");
  app->add_option(
         "-f,--output-format", args->formats,
         absl::StrCat("Convert each process's records when it has ended, as "
                      "'rocattach convert' does; formats, separated by commas: ",
                      absl::StrJoin(kOutputFormats, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FORMAT")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kOutputFormats),
                                                     std::end(kOutputFormats)))
                  .description(""));
  app->add_flag("--json", args->json,
                "Report events and the summary as JSON lines on standard output "
                "(standard error when a command runs or the stream goes there)");
  app->add_flag("-q,--quiet", args->quiet, "Report problems only");
}

void AddRotation(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  RotationOptions& rotation = args->watcher.rotation;
  app->add_option("--rotate-size", rotation.bytes,
                  "Begin another file when one has this size, such as 256M; each is a "
                  "complete recording, NAME.NNNNNN.rwa")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->type_name("SIZE");
  app->add_option("--rotate-age", args->rotate_age,
                  "Begin another file when one is this old, such as 90s, 30m, 6h, 1d")
      ->type_name("DURATION");
  app->add_option("--keep-files", rotation.keep_files,
                  "Completed recordings that are kept in the directory, by all runs "
                  "that used --rotate-* or --keep-*; the oldest are deleted")
      ->type_name("N");
  app->add_option("--keep-size", rotation.keep_bytes,
                  "The same by the size of all, such as 10G")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->type_name("SIZE");
}

void AddLogFormat(CLI::App* app, WatchArguments* args) {
  app->add_option("--log-format", args->log_format,
                  "Messages on standard error: text, or json, one object a line with "
                  "time, level, event and message")
      ->transform(
          CLI::Transformer(std::map<std::string, LogFormat>{{"text", LogFormat::kText},
                                                            {"json", LogFormat::kJson}})
              .description(""))
      ->type_name("FORMAT")
      ->group(kOutputGroup)
      ->default_str("text");
}

absl::Status CheckOutput(const WatcherOptions& watcher) {
  if (watcher.output_file != "-" || isatty(STDOUT_FILENO) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "-o - writes a binary recording to standard output, which is a terminal: pipe it "
      "into 'rocattach report -', or name a file with -o NAME");
}

absl::Status InterpretRotation(WatchArguments* args) {
  RotationOptions& rotation = args->watcher.rotation;
  if (!args->rotate_age.empty()) {
    absl::Duration age;
    std::string text = args->rotate_age;
    // absl has no days.
    uint64_t days = 0;
    if (absl::EndsWith(text, "d") &&
        absl::SimpleAtoi(absl::StripSuffix(text, "d"), &days)) {
      text = absl::StrCat(days * 24, "h");
    }
    if (!absl::ParseDuration(text, &age) || age < absl::Seconds(1) ||
        age > absl::Hours(24 * 366)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--rotate-age ", args->rotate_age,
          " is not a time from one second to a year, such as 90s, 30m, 6h or 1d"));
    }
    rotation.age_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(age));
  }
  if (rotation.bytes != 0 && rotation.bytes < kLeastFileBytes) {
    return absl::InvalidArgumentError("--rotate-size must be 64K at least");
  }
  if (!rotation.indexes()) return absl::OkStatus();
  if (args->watcher.output_file == "-") {
    return absl::InvalidArgumentError(
        "--rotate-* and --keep-* are for files, not for -o -");
  }
  if (rotation.splits() && !args->formats.empty()) {
    return absl::InvalidArgumentError(
        "-f converts whole recordings; with --rotate-size or --rotate-age run "
        "'rocattach convert' on completed files");
  }
  return absl::OkStatus();
}

// A conversion needs a recording in a file.
absl::Status CheckConversion(const WatchArguments& args) {
  if (args.formats.empty()) return absl::OkStatus();
  const WatcherOptions& watcher = args.watcher;
  const char* why = watcher.output_file == "-" ? "-o -: give a file"
                    : args.no_recording && watcher.session.filters.empty()
                        ? "--no-recording"
                    : watcher.dry_run ? "--dry-run"
                    : !watcher.attach ? nullptr
                                      : "";
  if (why == nullptr) {
    return absl::InvalidArgumentError("-f converts what is recorded; add --auto");
  }
  if (*why == '\0') return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("-f converts recordings, and there is none with ", why));
}

}  // namespace rocattach
