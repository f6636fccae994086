#include "userspace/library/attach_settings.h"

#include <stdlib.h>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rocattach {
namespace {

struct Flag {
  const char* variable;
  const char* option;
};
constexpr Flag kFlags[] = {
    {"ROCPROF_KERNEL_TRACE", "--kernel-trace"},
    {"ROCPROF_MEMORY_COPY_TRACE", "--memory-copy-trace"},
    {"ROCPROF_HIP_RUNTIME_API_TRACE", "--hip-trace"},
    {"ROCPROF_HIP_COMPILER_API_TRACE", "--hip-trace"},
    {"ROCPROF_HSA_CORE_API_TRACE", "--hsa-trace"},
    {"ROCPROF_HSA_AMD_EXT_API_TRACE", "--hsa-trace"},
    {"ROCPROF_HSA_IMAGE_EXT_API_TRACE", "--hsa-trace"},
    {"ROCPROF_HSA_FINALIZER_EXT_API_TRACE", "--hsa-trace"},
    {"ROCPROF_MARKER_API_TRACE", "--marker-trace"},
    {"ROCPROF_RCCL_API_TRACE", "--rccl-trace"},
    {"ROCPROF_MEMORY_ALLOCATION_TRACE", "--memory-allocation-trace"},
    {"ROCPROF_SCRATCH_MEMORY_TRACE", "--scratch-memory-trace"},
};
constexpr Flag kValues[] = {
    {"ROCPROF_KERNEL_FILTER_INCLUDE_REGEX", "--kernel-include-regex"},
    {"ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX", "--kernel-exclude-regex"},
    {"ROCPROF_KERNEL_FILTER_RANGE", "--kernel-iteration-range"},
};
// Flags for kinds of records that are not supported here.
constexpr const char* kUnsupported[] = {
    "ROCPROF_ROCDECODE_API_TRACE",
    "ROCPROF_ROCJPEG_API_TRACE",
    "ROCPROF_PC_SAMPLING_BETA_ENABLED",
    "ROCPROF_ADVANCED_THREAD_TRACE",
    "ROCPROF_KERNEL_RENAME",
};
// Formats that ROCm's tool has as well.
constexpr const char* kFormats[] = {"csv", "json", "pftrace", "rocpd"};

constexpr char kDefaultPattern[] = "rocattach-%pid%";

void AddOption(const char* option, AttachSettings* settings) {
  if (absl::c_linear_search(settings->options, option)) return;
  settings->options.push_back(option);
}

void AddOutput(const EnvironmentReader& environment, AttachSettings* settings) {
  const std::string path = environment("ROCPROF_OUTPUT_PATH").value_or("");
  std::string name = environment("ROCPROF_OUTPUT_FILE_NAME").value_or("");
  if (name == "-") name = "./-";  // a name, and not standard output
  // Keys are replaced only in the file's name.
  const bool keys = absl::StrContains(path, '%') || absl::StrContains(path, '{');
  if (keys) {
    name = absl::StrCat(path, "/", name.empty() ? kDefaultPattern : name);
    settings->options.push_back("--output-directory");
    settings->options.push_back(absl::StartsWith(path, "/") ? "/" : ".");
  } else if (!path.empty()) {
    settings->options.push_back("--output-directory");
    settings->options.push_back(path);
  } else if (absl::StartsWith(name, "/")) {
    settings->options.push_back("--output-directory");
    settings->options.push_back("/");
  }
  if (!name.empty()) settings->options.push_back(absl::StrCat("--output-file=", name));
}

// Each line, such as "pmc: A B" or "A,B", becomes one --pmc option.
void AddCounters(const EnvironmentReader& environment, AttachSettings* settings) {
  const auto wanted = environment("ROCPROF_COUNTER_COLLECTION");
  if (wanted.has_value() && !wanted->empty() && !IsSet(*wanted)) return;
  const std::string text =
      absl::StrCat(environment("ROCPROF_COUNTERS").value_or(""), "\n",
                   environment("ROCPROF_COUNTER_GROUPS").value_or(""));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    (void)absl::ConsumePrefix(&line, "pmc:");
    const std::vector<std::string> names =
        absl::StrSplit(line, absl::ByAnyChar(", \t"), absl::SkipEmpty());
    if (names.empty()) continue;
    settings->options.push_back(absl::StrCat("--pmc=", absl::StrJoin(names, ",")));
  }
}

// After flags and counters: a filter needs something that it applies to.
void AddFilters(const EnvironmentReader& environment, AttachSettings* settings) {
  bool any = false;
  for (const Flag& value : kValues) {
    const std::string text = environment(value.variable).value_or("");
    if (text.empty()) continue;
    any = true;
    settings->options.push_back(absl::StrCat(value.option, "=", text));
  }
  const bool counters = absl::c_any_of(
      settings->options,
      [](const std::string& option) { return absl::StartsWith(option, "--pmc="); });
  if (any && !counters) AddOption("--kernel-trace", settings);
}

// "CSV,ROCPD", also separated by blanks, semicolons or colons.
void AddFormats(const EnvironmentReader& environment, AttachSettings* settings) {
  const std::string text = environment("ROCPROF_OUTPUT_FORMAT").value_or("");
  std::vector<std::string> formats;
  for (absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" ,;:"), absl::SkipEmpty())) {
    const std::string format = absl::AsciiStrToLower(word);
    if (!absl::c_linear_search(kFormats, format)) {
      settings->ignored.push_back(absl::StrCat("ROCPROF_OUTPUT_FORMAT=", word));
    } else if (!absl::c_linear_search(formats, format)) {
      formats.push_back(format);
    }
  }
  if (formats.empty()) return;
  settings->options.push_back(
      absl::StrCat("--output-format=", absl::StrJoin(formats, ",")));
}

// "DELAY:DURATION:REPEAT" in nanoseconds, several separated by semicolons. Outside of
// the periods nothing is recorded.
void AddPeriods(const EnvironmentReader& environment, AttachSettings* settings) {
  const std::string text = environment("ROCPROF_COLLECTION_PERIOD").value_or("");
  bool any = false;
  for (absl::string_view period : absl::StrSplit(text, ';')) {
    period = absl::StripAsciiWhitespace(period);
    if (period.empty()) continue;
    any = true;
    settings->options.push_back(absl::StrCat("--collection-period=", period));
  }
  if (!any) return;
  settings->options.push_back("--collection-period-unit=nsec");
  settings->options.push_back("--no-recording");
  AddOption("--kernel-trace", settings);
}

bool IsOurs(absl::string_view library) {
  const absl::string_view name = library.substr(library.rfind('/') + 1);
  for (const char* ours :
       {"librocattach-collector.so", "librocattach.so",
        "librocprofiler-sdk-rocattach.so", "librocprofv3-attach.so"}) {
    absl::string_view rest = name;
    if (absl::ConsumePrefix(&rest, ours) && (rest.empty() || rest[0] == '.'))
      return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> ReadEnvironment(const char* name) {
  const char* value = secure_getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

bool IsSet(absl::string_view text) {
  if (text.empty()) return false;
  for (const char* no : {"0", "n", "no", "f", "false", "off"}) {
    if (absl::EqualsIgnoreCase(text, no)) return false;
  }
  return true;
}

AttachSettings ReadAttachSettings(const EnvironmentReader& environment) {
  AttachSettings settings;
  AddOutput(environment, &settings);
  for (const Flag& flag : kFlags) {
    if (IsSet(environment(flag.variable).value_or(""))) {
      AddOption(flag.option, &settings);
    }
  }
  AddCounters(environment, &settings);
  AddFilters(environment, &settings);
  AddPeriods(environment, &settings);
  AddFormats(environment, &settings);
  for (const char* name : kUnsupported) {
    if (IsSet(environment(name).value_or(""))) settings.ignored.push_back(name);
  }
  // Set by the Python module. ROCPROF_ATTACH_DURATION is for commands: programs detach.
  (void)absl::SimpleAtoi(environment("ROCATTACH_DURATION_MSEC").value_or(""),
                         &settings.duration_msec);
  const std::string libraries = environment("ROCPROF_ATTACH_TOOL_LIBRARY").value_or("");
  for (absl::string_view library : absl::StrSplit(libraries, ':', absl::SkipEmpty())) {
    if (!IsOurs(library)) settings.tool_libraries.emplace_back(library);
  }
  return settings;
}

}  // namespace rocattach
