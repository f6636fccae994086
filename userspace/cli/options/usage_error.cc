#include "userspace/cli/options/usage_error.h"

#include <string.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/base/nearest_names.h"

namespace rocattach {
namespace {

constexpr char kRocprofv3[] = "rocprofv3";
constexpr char kCompute[] = "rocprof-compute";

// An option of ROCm's profilers that this program does not have.
struct RocmOption {
  // A common prefix of several names if it ends in '-'.
  absl::string_view name;
  absl::string_view program;
  absl::string_view instead;
};

constexpr absl::string_view kNoThreadTrace = "no thread traces are recorded";
constexpr absl::string_view kNoSampling = "programs are not sampled";
constexpr absl::string_view kAllHsa =
    "--hsa-trace records the calls of all HSA tables; --api-function selects some";
constexpr absl::string_view kAllHip =
    "--hip-trace records calls of HIP's compiler interface too; --api-function selects "
    "some";
constexpr absl::string_view kReport =
    "'rocattach report FILE' prints summaries, with --json for programs";
constexpr absl::string_view kNames =
    "recordings have both names of each kernel; outputs show the demangled one";
constexpr absl::string_view kPerfetto =
    "'rocattach convert -f pftrace' writes the trace, and needs no buffers";
constexpr absl::string_view kList =
    "'rocattach counters' lists counters, metrics, sets and blocks";
constexpr absl::string_view kMessages =
    "-q leaves out all but problems; 'rocattach doctor' finds causes";
constexpr absl::string_view kNoRoofline = "peak rates are not measured";
constexpr absl::string_view kNoStreaming =
    "counters are not streamed; --device-samples samples them";
constexpr absl::string_view kNoReplay =
    "kernels are not run again; several --pmc measure different dispatches of a kernel";
constexpr absl::string_view kFilter =
    "--kernel-include-regex and --dispatch-range of 'rocattach-watch --pmc' select "
    "dispatches";

constexpr RocmOption kOptions[] = {
    {"--att", kRocprofv3, kNoThreadTrace},
    {"--advanced-thread-trace", kRocprofv3, kNoThreadTrace},
    {"--att-", kRocprofv3, kNoThreadTrace},
    {"--pc-sampling-", kRocprofv3, kNoSampling},
    {"--spm", kRocprofv3, kNoStreaming},
    {"--spm-", kRocprofv3, kNoStreaming},
    {"--kfd-trace", kRocprofv3,
     "events of the kernel driver are not recorded; --metrics-listen has what it says "
     "of "
     "processes"},
    {"--hip-graph-trace", kRocprofv3,
     "the kernels of a graph are recorded as dispatches, and its launch by "
     "--hip-trace"},
    {"--hip-event-trace", kRocprofv3, "--hip-trace records calls that use events"},
    {"--rocshmem-trace", kRocprofv3, "calls of rocSHMEM are not recorded"},
    {"--hipfile-trace", kRocprofv3, "calls of hipFile are not recorded"},
    {"--ompt-trace", kRocprofv3, "calls of OpenMP's tools interface are not recorded"},
    {"--replay-mode", kRocprofv3, kNoReplay},
    {"--kernel-replay-beta-enabled", kRocprofv3, kNoReplay},
    {"--kokkos-trace", kRocprofv3,
     "calls of Kokkos are not recorded; ROCTx markers are, with --marker-trace"},
    {"--rocdecode-trace", kRocprofv3, "calls of rocDecode are not recorded"},
    {"--rocjpeg-trace", kRocprofv3, "calls of rocJPEG are not recorded"},
    {"--hip-compiler-trace", kRocprofv3, kAllHip},
    {"--hsa-core-trace", kRocprofv3, kAllHsa},
    {"--hsa-amd-trace", kRocprofv3, kAllHsa},
    {"--hsa-image-trace", kRocprofv3, kAllHsa},
    {"--hsa-finalizer-trace", kRocprofv3, kAllHsa},
    {"--summary", kRocprofv3, kReport},
    {"--summary-", kRocprofv3, kReport},
    {"--mangled-kernels", kRocprofv3, kNames},
    {"--truncate-kernels", kRocprofv3, kNames},
    {"--kernel-rename", kRocprofv3,
     "kernels keep their names; --marker-trace records the ranges they are in"},
    {"--selected-regions", kRocprofv3,
     "'rocattach session start' and 'stop' limit what is collected, or "
     "--collection-period"},
    {"--perfetto-", kRocprofv3, kPerfetto},
    {"--list-avail", kRocprofv3, kList},
    {"--group-by-queue", kRocprofv3,
     "traces are by queue; the stream of an operation is its argument hip_stream"},
    {"--log-level", kRocprofv3, kMessages},
    {"--output-config", kRocprofv3,
     "a recording says how it was made: 'rocattach dump'"},
    {"--minimum-output-data", kRocprofv3, "recordings are made whatever their size"},
    {"--disable-signal-handlers", kRocprofv3,
     "no signal handlers are installed in programs"},
    {"--preload", kRocprofv3, "nothing is preloaded into programs"},
    {"--suppress-marker-preload", kRocprofv3, "nothing is preloaded into programs"},
    {"--rocm-root", kRocprofv3, "each process uses the ROCm that it has loaded"},
    {"--sdk-", kRocprofv3, "each process uses the rocprofiler-sdk that it finds"},
    {"--profile-mpi-ranks", kRocprofv3,
     "--name, --uid and --cgroup select processes; %rank% names outputs"},
    {"--tool-version", kRocprofv3, "there is one version"},
    {"--roof-only", kCompute, kNoRoofline},
    {"--roofline-", kCompute, kNoRoofline},
    {"--mem-level", kCompute, kNoRoofline},
    {"--kernel-names", kCompute, kNoRoofline},
    {"--sort", kCompute, kNoRoofline},
    {"--kernel", kCompute, kFilter},
    {"--dispatch", kCompute, kFilter},
    {"--iteration-multiplexing", kCompute,
     "passes are always multiplexed across the dispatches of each kernel"},
    {"--list-metrics", kCompute, kList},
    {"--list-available-metrics", kCompute, kList},
    {"--list-sets", kCompute, kList},
    {"--list-blocks", kCompute, kList},
    {"--join-type", kCompute, "values of all passes are in one recording"},
    {"--subpath", kCompute, "results go to workloads/NAME/MODEL, or where --path says"},
    {"--format-rocprof-output", kCompute,
     "'rocattach convert' writes csv, rocpd and others from the recording"},
    {"--retain-rocpd-output", kCompute,
     "'rocattach convert -f rocpd' writes the database from the recording"},
    {"--rocprofiler-sdk-", kCompute,
     "each process uses the rocprofiler-sdk that it finds"},
    {"--pc-sampling", kCompute, kNoSampling},
    {"--experimental", kCompute, "what is there needs no such option"},
    {"--overwrite", kCompute,
     "a recording does not replace another one: choose a name"},
    {"--torch-trace", kCompute, "operators of PyTorch are not recorded"},
};

bool Matches(const RocmOption& known, absl::string_view option) {
  return absl::EndsWith(known.name, "-") ? absl::StartsWith(option, known.name)
                                         : option == known.name;
}

// "rocprofv3's --att is not available: …", with what can be done instead, for an option
// of rocprofv3 or of 'rocprof-compute profile' such as "--att"; empty for any other.
std::string RocmOptionText(absl::string_view option) {
  for (const RocmOption& known : kOptions) {
    if (!Matches(known, option)) continue;
    return absl::StrCat(known.program, "'s ", option,
                        " is not available: ", known.instead);
  }
  return "";
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  return names;
}

// The first word that could be meant as a command; empty: none was given.
std::string FirstWord(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    if (!absl::StartsWith(word, "-")) return word;
  }
  return "";
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

bool IsOption(absl::string_view word) {
  return word.size() >= 2 && word[0] == '-' && word != "--";
}

// The options among the words that the command did not expect, in the order given, each
// once and without a value.
std::vector<std::string> UnknownOptions(const CLI::App& program) {
  std::vector<std::string> options;
  for (const std::string& word : program.remaining(/*recurse=*/true)) {
    const std::string name = word.substr(0, word.find('='));
    const bool known = std::find(options.begin(), options.end(), name) != options.end();
    if (IsOption(word) && !known) options.push_back(name);
  }
  return options;
}

// One line for each unknown option.
std::string UnknownOptionsText(const CLI::App& program, const CLI::App& command) {
  const std::vector<std::string> known = OptionNames(command);
  // The profilers' options have no special meaning for commands that do not measure.
  const bool measures = std::find(known.begin(), known.end(), "block") != known.end();
  std::vector<std::string> lines;
  for (const std::string& option : UnknownOptions(program)) {
    std::string instead = measures ? RocmOptionText(option) : "";
    if (!instead.empty()) {
      lines.push_back(std::move(instead));
      continue;
    }
    std::vector<std::string> nearest;
    // Not for single letters: each is similar to every other one.
    if (absl::StartsWith(option, "--")) {
      nearest = NearestNames(absl::StripPrefix(option, "--"), known, 2);
      for (std::string& name : nearest) name.insert(0, "--");
    }
    lines.push_back(absl::StrCat("there is no option ", option, DidYouMean(nearest)));
  }
  return absl::StrJoin(lines, absl::StrCat("\n", program.get_name(), ": "));
}

// The full name of the command that was chosen: "rocattach session start".
std::string FullName(const CLI::App& app) {
  const CLI::App* chosen = &app;
  std::string name = app.get_name();
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    absl::StrAppend(&name, " ", chosen->get_name());
  }
  return name;
}

// std::to_string, which CLI11 uses, gives every number with a fraction six decimals.
std::string WithoutTrailingZeros(const std::string& text) {
  std::vector<std::string> words = absl::StrSplit(text, ' ');
  for (std::string& word : words) {
    double number = 0;
    if (!absl::StrContains(word, '.') || !absl::SimpleAtod(word, &number)) continue;
    word.erase(word.find_last_not_of('0') + 1);
    if (absl::EndsWith(word, ".")) word.pop_back();
  }
  return absl::StrJoin(words, " ");
}

// "Value 0 not in range 1 to 5", as older versions of CLI11 say it; newer ones say
// "range [1 - 5]".
std::string PlainRange(std::string text) {
  const size_t open = text.find(" range [");
  if (open != text.npos && absl::EndsWith(text, "]")) {
    text.pop_back();
    text.erase(open + strlen(" range "), 1);
    const size_t dash = text.find(" - ", open);
    if (dash != text.npos) text.replace(dash, 3, " to ");
  }
  return WithoutTrailingZeros(text);
}

}  // namespace

std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* chosen = app;
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
  }
  std::string what = error.what();
  const std::vector<std::string> commands = CommandNames(*chosen);
  const std::vector<std::string> unexpected = app->remaining(/*recurse=*/true);
  const std::string word = FirstWord(*chosen);
  const bool option_first = !unexpected.empty() && IsOption(unexpected.front());
  if (!commands.empty() && !word.empty() && !option_first) {
    what = absl::StrCat("there is no command '", word, "'",
                        DidYouMean(NearestNames(word, commands, 2)));
  } else if (std::string unknown = UnknownOptionsText(*app, *chosen);
             !unknown.empty()) {
    // Unknown options first: any other error may follow from a misspelt option.
    what = std::move(unknown);
  } else if (!commands.empty() && error.get_name() == "RequiredError") {
    what = "a command is missing";
  } else if (error.get_name() == "ExtrasError") {
    what = absl::StrCat("unexpected: ", absl::StrJoin(unexpected, " "));
  } else if (absl::StrContains(what, " not in range ")) {
    what = PlainRange(what);
  }
  const std::string name = FullName(*app);
  return absl::StrCat(app->get_name(), ": ", what, "\nRun '", name,
                      " --help' for more information.\n");
}

void LastValueWins(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const bool single = option->get_items_expected_max() == 1;
    if (single && !option->get_positional() &&
        option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw) {
      option->take_last();
    }
  }
  for (CLI::App* command : app->get_subcommands({})) LastValueWins(command);
}

}  // namespace rocattach
