// rocattach merge: recordings of several machines or processes as one, on one clock.
#include "userspace/stream/merge.h"

#include <signal.h>
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/terminal/convert_console.h"

namespace rocattach {
namespace {

struct MergeArguments {
  std::vector<std::string> paths;
  std::string output;
  uint32_t sync_error_usec = 1000;
};

// "node8: times shifted by -3.20 s, at most 1.02 ms wrong".
std::string AlignmentText(const MergedRecording& recording, bool first) {
  const std::string& host = recording.header.hostname();
  const std::string name = absl::StrCat(recording.path, " (",
                                        host.empty() ? "unknown machine" : host, "): ");
  if (first) return absl::StrCat(name, "the others have its clock now");
  if (recording.alignment.same_clock) {
    return absl::StrCat(name, "recorded with the same clock");
  }
  const auto offset = static_cast<int64_t>(recording.alignment.offset_ns);
  return absl::StrCat(name, "times shifted by ", offset < 0 ? "-" : "+",
                      HumanDuration(static_cast<uint64_t>(std::llabs(offset))),
                      ", at most ", HumanDuration(recording.error_ns), " wrong");
}

int RunMerge(const MergeArguments& arguments) {
  StopReadingOnSignals();
  signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error that is reported
  MergeOptions options;
  options.sync_error_ns = uint64_t{arguments.sync_error_usec} * 1000;
  auto result =
      MergeStreams(arguments.paths, arguments.output, options, ReadingStopped);
  if (!result.ok()) {
    fprintf(stderr, "rocattach: %s\n", std::string(result.status().message()).c_str());
    return kExitUnreadable;
  }
  std::string text =
      absl::StrCat(arguments.output, ": ", HumanCount(result->recordings.size()),
                   " recordings, ", HumanBytes(result->bytes_written), "\n");
  for (size_t i = 0; i < result->recordings.size(); ++i) {
    absl::StrAppend(&text, AlignmentText(result->recordings[i], i == 0), "\n");
  }
  if (!WriteStdout(text)) return kExitUnreadable;
  std::vector<std::string> missing = MissingFromInput({}, result->read);
  if (result->frames_left_out > 0) {
    missing.push_back(absl::StrCat(HumanCount(result->frames_left_out), " frames with ",
                                   HumanCount(result->records_left_out),
                                   " records, whose times could not be shifted"));
  }
  if (missing.empty()) return kExitOk;
  fprintf(stderr, "rocattach: the inputs are incomplete: they lack %s\n",
          absl::StrJoin(missing, ", ").c_str());
  return kExitLosses;
}

}  // namespace

void RegisterMerge(CLI::App* app, std::function<int()>* run) {
  auto arguments = std::make_shared<MergeArguments>();
  CLI::App* merge =
      app->add_subcommand("merge", "Put recordings together, with one clock");
  merge
      ->add_option("FILE", arguments->paths,
                   "Recordings of one or more machines; the first one's clock is kept")
      ->required()
      ->type_name("");
  merge
      ->add_option("-o,--output-file", arguments->output,
                   "New recording; must not exist")
      ->required()
      ->type_name("FILE");
  merge
      ->add_option("--sync-error-usec", arguments->sync_error_usec,
                   "How far the machines' times of day may be apart: part of the error "
                   "that is stated")
      ->type_name("USEC")
      ->capture_default_str();
  merge->footer(
      "Example:\n"
      "  rocattach merge node7.rwa node8.rwa -o job.rwa\n"
      "  rocattach convert job.rwa -f pftrace -o job\n"
      "\n"
      "Recordings of one boot of a machine have the same clock. Those of others are "
      "shifted\n"
      "by the difference of the machines' times of day, as each recording begins.\n"
      "Exit status: 0 everything was merged; 1 an input is damaged or has no end, and "
      "what\n"
      "is intact was merged; 2 usage error; 3 a FILE cannot be read, is not a "
      "recording "
      "or\n"
      "was given twice, or the new one cannot be written (it is then removed).");
  merge->callback(
      [arguments, run] { *run = [arguments] { return RunMerge(*arguments); }; });
}

}  // namespace rocattach
