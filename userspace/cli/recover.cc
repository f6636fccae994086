// rocattach recover: the intact frames of a damaged recording, as a new one.
#include <signal.h>
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/stream/record_counts.h"
#include "userspace/stream/recovery.h"

namespace rocattach {
namespace {

struct RecoverOptions {
  std::string path;
  std::string output;
};

// The losses in the old file, or "nothing was lost".
std::string Lost(const RecoveryResult& result) {
  const ReadStats& read = result.read;
  std::vector<std::string> lost;
  if (read.skipped_bytes > 0) {
    lost.push_back(
        absl::StrCat(HumanCount(read.skipped_bytes), " bytes outside intact frames"));
  }
  if (read.missing_frames > 0) {
    lost.push_back(absl::StrCat(HumanCount(read.missing_frames), " missing frames"));
  }
  if (result.lost.frames_left_out() > 0) {
    lost.push_back(
        absl::StrCat(HumanCount(result.lost.frames_left_out()), " invalid frames"));
  }
  if (result.lost.records_lost() > 0) {
    lost.push_back(
        absl::StrCat("at least ", HumanCount(result.lost.records_lost()), " records"));
  }
  if (result.headers_made > 0) {
    lost.push_back(absl::StrCat(HumanCount(result.headers_made), " stream headers"));
  }
  if (result.ends_made > 0) {
    lost.push_back(absl::StrCat(HumanCount(result.ends_made), " ends"));
  }
  return lost.empty() ? "nothing was lost" : "lost: " + absl::StrJoin(lost, ", ");
}

int RunRecover(const RecoverOptions& options) {
  StopReadingOnSignals();
  signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error that is reported
  auto result = RecoverStream(options.path, options.output, ReadingStopped);
  if (!result.ok()) {
    fprintf(stderr, "rocattach: %s\n", std::string(result.status().message()).c_str());
    return kExitUnreadable;
  }
  const ReadStats& read = result->read;
  const bool written = WriteStdout(absl::StrCat(
      options.output, ": ", HumanCount(result->frames_written), " frames, ",
      HumanBytes(result->bytes_written), "; ", HumanCount(read.recordings),
      read.recordings == 1 ? " recording" : " recordings", " with ",
      HumanCount(read.records[RecordKind::kDispatch]), " dispatches and ",
      HumanCount(read.records[RecordKind::kCopy]), " copies\n", options.path, ": ",
      Lost(*result), "\n"));
  if (!written) return kExitUnreadable;
  return result->incomplete() ? kExitLosses : kExitOk;
}

}  // namespace

void RegisterRecover(CLI::App* app, std::function<int()>* run) {
  auto options = std::make_shared<RecoverOptions>();
  CLI::App* recover =
      app->add_subcommand("recover", "Copy the intact part of a damaged recording");
  recover->add_option("FILE", options->path, "Damaged recording; it is not changed")
      ->required()
      ->type_name("");
  recover
      ->add_option("-o,--output-file", options->output, "New recording; must not exist")
      ->required()
      ->type_name("FILE");
  recover->footer(
      "Example:\n"
      "  rocattach recover torn.rwa -o whole.rwa\n"
      "\n"
      "The new file reads without errors. Its end frame, and so `rocattach report`, "
      "states\n"
      "what was lost.\n"
      "Exit status: 0 nothing was lost; 1 data was lost, and what is intact was "
      "written;\n"
      "2 usage error; 3 FILE cannot be read or is not a recording, or the new one "
      "cannot be\n"
      "written (it is then removed).");
  recover->callback(
      [options, run] { *run = [options] { return RunRecover(*options); }; });
}

}  // namespace rocattach
