#include "userspace/record/output/output_path.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

constexpr size_t kMaxPartBytes = 96;

std::string Environment(const OutputKeys& keys, absl::string_view name,
                        absl::string_view fallback) {
  if (!keys.environment) return std::string(fallback);
  auto value = keys.environment(name);
  return value.has_value() ? CleanPathPart(*value) : std::string(fallback);
}

std::string Tag(const OutputKeys& keys) {
  if (keys.process.arguments.empty()) return CleanPathPart(keys.process.comm);
  absl::string_view first = keys.process.arguments[0];
  size_t slash = first.rfind('/');
  return CleanPathPart(slash == absl::string_view::npos ? first
                                                        : first.substr(slash + 1));
}

std::string Arguments(const OutputKeys& keys, size_t first) {
  std::vector<std::string> parts;
  for (size_t i = first; i < keys.process.arguments.size(); ++i) {
    parts.push_back(CleanPathPart(keys.process.arguments[i]));
  }
  return absl::StrJoin(parts, "_");
}

std::string JobRank(const OutputKeys& keys) {
  for (const char* name : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    std::string value = Environment(keys, name, "");
    if (!value.empty()) return value;
  }
  return "";
}

std::string JobSize(const OutputKeys& keys) {
  for (const char* name : {"SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    std::string value = Environment(keys, name, "");
    if (!value.empty()) return value;
  }
  return "1";
}

// The value of a long key, nullopt if there is no such key.
std::optional<std::string> LongKey(absl::string_view key, const OutputKeys& keys) {
  const ProcessInfo& process = keys.process;
  if (key == "pid") return absl::StrCat(process.id.pid);
  if (key == "ppid") return absl::StrCat(process.parent);
  if (key == "pgid" || key == "psid") {
    if (keys.recorded) return "0";
    return absl::StrCat(key == "pgid" ? getpgid(process.id.pid)
                                      : getsid(process.id.pid));
  }
  if (key == "hostname") return CleanPathPart(keys.hostname);
  if (key == "tag") return Tag(keys);
  if (key == "argv" || key == "argt") return Arguments(keys, 0);
  if (key == "args") return Arguments(keys, 1);
  if (key == "job") return Environment(keys, "SLURM_JOB_ID", "0");
  if (key == "rank") return JobRank(keys).empty() ? "0" : JobRank(keys);
  if (key == "size" || key == "psize") return JobSize(keys);
  if (key == "nid") {
    std::string rank = JobRank(keys);
    return rank.empty() ? absl::StrCat(process.id.pid) : rank;
  }
  if (key == "cwd") return keys.working_directory;
  if (key == "launch_date") return keys.launch_date;
  if (key == "launch_time") return keys.launch_time;
  uint32_t number;
  absl::string_view rest = key;
  if (absl::ConsumePrefix(&rest, "arg") && absl::SimpleAtoi(rest, &number)) {
    if (number >= process.arguments.size()) return "";
    return CleanPathPart(process.arguments[number]);
  }
  return std::nullopt;
}

std::optional<std::string> ShortKey(char key, const OutputKeys& keys) {
  switch (key) {
    case 'h':
      return LongKey("hostname", keys);
    case 'p':
      return LongKey("pid", keys);
    case 'j':
      return LongKey("job", keys);
    case 'r':
      return LongKey("rank", keys);
    case 's':
      return LongKey("size", keys);
    default:
      return std::nullopt;
  }
}

// Finds an environment key at the start of `text`: its name, and the key's length.
bool EnvironmentKey(absl::string_view text, absl::string_view* name, size_t* length) {
  struct Form {
    absl::string_view open, close;
  };
  for (const Form& form : {Form{"%env{", "}%"}, Form{"$ENV{", "}"}, Form{"%q{", "}"}}) {
    if (!absl::StartsWith(text, form.open)) continue;
    size_t end = text.find(form.close, form.open.size());
    if (end == absl::string_view::npos) continue;
    *name = text.substr(form.open.size(), end - form.open.size());
    *length = end + form.close.size();
    return true;
  }
  return false;
}

// The key at the start of `text`, if any: its value and its length.
std::optional<std::string> KeyAt(absl::string_view text, const OutputKeys& keys,
                                 size_t* length) {
  absl::string_view name;
  if (EnvironmentKey(text, &name, length)) return Environment(keys, name, "");
  char close = text[0] == '{' ? '}' : '%';
  size_t end = text.find(close, 1);
  if (end != absl::string_view::npos && end > 1) {
    if (auto value = LongKey(text.substr(1, end - 1), keys)) {
      *length = end + 1;
      return value;
    }
  }
  if (text[0] == '%' && text.size() > 1) {
    *length = 2;
    return ShortKey(text[1], keys);
  }
  return std::nullopt;
}

std::optional<std::string> ProcessVariable(pid_t pid, absl::string_view name) {
  auto text = ReadEnvironment(pid);
  if (!text.ok()) return std::nullopt;
  for (absl::string_view entry : absl::StrSplit(*text, '\0')) {
    if (absl::ConsumePrefix(&entry, name) && absl::ConsumePrefix(&entry, "=")) {
      return std::string(entry);
    }
  }
  return std::nullopt;
}

}  // namespace

std::string CleanPathPart(absl::string_view text) {
  std::string part;
  for (char c : text.substr(0, kMaxPartBytes)) {
    bool plain = absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '/';
    part.push_back(plain ? c : '_');
  }
  if (part == "." || part == "..") return "_";
  return part;
}

OutputKeys CurrentOutputKeys(ProcessInfo process) {
  OutputKeys keys;
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) keys.hostname = host;
  time_t now = time(nullptr);
  tm local;
  localtime_r(&now, &local);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%d", &local);
  keys.launch_date = text;
  strftime(text, sizeof(text), "%H.%M.%S", &local);
  keys.launch_time = text;
  char cwd[PATH_MAX];
  if (getcwd(cwd, sizeof(cwd)) != nullptr) keys.working_directory = cwd;
  pid_t pid = process.id.pid;
  keys.environment = [pid](absl::string_view name) -> std::optional<std::string> {
    if (pid != 0) return ProcessVariable(pid, name);
    const char* value = getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  keys.process = std::move(process);
  return keys;
}

std::string ExpandOutputKeys(absl::string_view pattern, const OutputKeys& keys) {
  std::string out;
  while (!pattern.empty()) {
    size_t length = 0;
    char c = pattern[0];
    if (c == '%' || c == '{' || c == '$') {
      if (auto value = KeyAt(pattern, keys, &length)) {
        out += *value;
        pattern.remove_prefix(length);
        continue;
      }
    }
    out.push_back(c);
    pattern.remove_prefix(1);
  }
  return out;
}

bool NamesOneFilePerProcess(absl::string_view pattern) {
  OutputKeys one;
  one.process.id.pid = 1;
  one.process.parent = 1;
  one.process.arguments = {"1"};
  OutputKeys other;
  other.process.id.pid = 2;
  other.process.parent = 2;
  other.process.arguments = {"2"};
  return ExpandOutputKeys(pattern, one) != ExpandOutputKeys(pattern, other);
}

void SplitOffDirectory(std::string* directory, std::string* file) {
  if (file->empty() || file->front() != '/') return;
  const size_t slash = file->rfind('/', file->find_first_of("%{"));
  *directory = slash == 0 ? "/" : file->substr(0, slash);
  file->erase(0, slash + 1);
}

}  // namespace rocattach
