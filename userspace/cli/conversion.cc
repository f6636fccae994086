#include "userspace/cli/conversion.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/cli/stream_input.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/terminal/convert_console.h"
#include "userspace/export/common/output_file.h"
#include "userspace/export/exporter.h"
#include "userspace/record/output/output_path.h"
#include "userspace/stream/reader.h"

namespace rocattach {
namespace {

constexpr size_t kMostNamedPartial = 10;
constexpr auto kFlushInterval = std::chrono::milliseconds(200);

std::string LocalTime(uint64_t realtime_ns, const char* format) {
  const time_t seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
  tm local;
  localtime_r(&seconds, &local);
  char text[32];
  strftime(text, sizeof(text), format, &local);
  return text;
}

// The values of the keys when the process ran, as far as the recording has them.
// Variables are those of this program.
OutputKeys KeysOf(const ExportProcess& process) {
  OutputKeys keys = CurrentOutputKeys({});
  keys.recorded = true;
  const v1::Process& recorded = process.process();
  keys.process.id.pid = static_cast<pid_t>(recorded.pid());
  keys.process.parent = static_cast<pid_t>(recorded.parent_pid());
  keys.process.comm = recorded.comm();
  keys.process.arguments = {recorded.arguments().begin(), recorded.arguments().end()};
  if (!process.header().hostname().empty()) keys.hostname = process.header().hostname();
  if (uint64_t start = process.RealtimeNs(recorded.start_ns()); start != 0) {
    keys.launch_date = LocalTime(start, "%Y-%m-%d");
    keys.launch_time = LocalTime(start, "%H.%M.%S");
  }
  return keys;
}

// Many processes may need many open files.
void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Conversion {
 public:
  explicit Conversion(const ConversionRequest& options)
      : options_(options),
        exporter_(MakeOptions(options)),
        decoder_(&exporter_),
        progress_(options.quiet ? nullptr
                                : std::make_unique<ConvertProgress>(options.paths)) {}

  int Run() {
    for (size_t i = 0; i < options_.paths.size() && !Stop(); ++i) {
      ReadOne(options_.paths[i], i + 1 == options_.paths.size());
    }
    const bool interrupted =
        ReadingStopped() && !options_.output.follow && !options_.when_ended;
    // Interrupted outputs keep the names of partial ones.
    if (interrupted) {
      exporter_.WritePartial();
      AddMessage(kExitLosses, "interrupted");
    } else if (absl::Status status = exporter_.Finish(); !status.ok()) {
      AddMessage(kExitUnreadable, std::string(status.message()));
    }
    if (ReadingStopped() && options_.when_ended) {
      AddMessage(kExitLosses, "stopped before the recording had ended");
    }
    progress_.reset();
    for (const std::string& error : exporter_.process_errors()) {
      AddMessage(kExitUnreadable, error);
    }
    for (const std::string& clause : exporter_.Omissions())
      AddMessage(kExitLosses, clause);
    if (const uint64_t sampled_out = exporter_.sampled_out(); sampled_out > 0) {
      AddMessage(kExitOk,
                 absl::StrCat(sampled_out,
                              " dispatches were counted and not recorded, to keep a "
                              "budget: the outputs have a sample of all dispatches"));
    }
    if (exporter_.status().ok() && exporter_.processes() == 0 && exit_status_ == 0 &&
        !options_.when_ended) {
      AddMessage(kExitLosses,
                 "no process in the input was recorded: nothing was written");
    }
    return Report();
  }

 private:
  static ExporterOptions MakeOptions(const ConversionRequest& options) {
    ExporterOptions exporting;
    exporting.output = options.output;
    exporting.complete_with_process = options.when_ended;
    for (const std::string& name : options.formats) {
      const ExportFormat* format = FindExportFormat(name);
      const auto& chosen = exporting.formats;
      if (std::find(chosen.begin(), chosen.end(), format) == chosen.end()) {
        exporting.formats.push_back(format);
      }
    }
    exporting.base_name = [&options](const ExportProcess& process) {
      const OutputKeys keys = KeysOf(process);
      return absl::StrCat(ExpandOutputKeys(options.directory, keys), "/",
                          ExpandOutputKeys(options.file, keys));
    };
    return exporting;
  }

  bool Stop() const { return ReadingStopped() || !exporter_.status().ok(); }

  void ReadOne(const std::string& path, bool last) {
    const ReadStats before = decoder_.stats();
    ReadOptions reading;
    reading.follow = (options_.output.follow || options_.when_ended) && last;
    reading.stop = [this] {
      if (progress_ != nullptr) progress_->Update(decoder_.stats());
      const auto now = std::chrono::steady_clock::now();
      if (options_.output.follow && now - flushed_ > kFlushInterval) {
        flushed_ = now;
        exporter_.Flush();
      }
      return Stop();
    };
    const absl::Status status = ReadStream(path, reading, &decoder_);
    if (!status.ok()) {
      AddMessage(kExitUnreadable, std::string(status.message()));
    } else if (const auto missing = MissingFromInput(before, decoder_.stats());
               !missing.empty() && !Stop()) {
      AddMessage(kExitLosses, absl::StrCat(path, " is incomplete: it lacks ",
                                           absl::StrJoin(missing, ", "),
                                           "; so the outputs are partial"));
    }
  }

  // Adds a message; the worst exit status wins.
  void AddMessage(int exit_status, const std::string& message) {
    messages_.push_back(message);
    exit_status_ = std::max(exit_status_, exit_status);
  }

  // Prints the names of the outputs, then the messages.
  int Report() {
    std::vector<std::string> partial;
    std::string complete;
    const bool failed = !exporter_.status().ok();
    for (std::string& file : exporter_.Files()) {
      // Followed outputs have their final names from the start.
      if (absl::EndsWith(file, kPartialSuffix) || (failed && options_.output.follow)) {
        partial.push_back(std::move(file));
      } else {
        absl::StrAppend(&complete, file, "\n");
      }
    }
    if (!options_.quiet && !WriteStdout(complete)) exit_status_ = kExitUnreadable;
    for (const std::string& message : messages_) {
      fprintf(stderr, "rocattach: %s\n", message.c_str());
    }
    if (!partial.empty()) {
      const size_t named = std::min(partial.size(), kMostNamedPartial);
      std::string names = absl::StrJoin(
          partial.begin(), partial.begin() + static_cast<long>(named), ", ");
      if (partial.size() > named) {
        absl::StrAppend(&names, " and ", partial.size() - named, " more");
      }
      fprintf(stderr, "rocattach: partial results: %s\n", names.c_str());
    }
    return exit_status_;
  }

  const ConversionRequest& options_;
  Exporter exporter_;
  StreamDecoder decoder_;
  std::unique_ptr<ConvertProgress> progress_;
  std::chrono::steady_clock::time_point flushed_ = {};
  std::vector<std::string> messages_;
  int exit_status_ = kExitOk;
};

}  // namespace

int Convert(const ConversionRequest& request) {
  StopReadingOnSignals();
  signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error that is reported
  RaiseFileLimit();
  return Conversion(request).Run();
}

}  // namespace rocattach
