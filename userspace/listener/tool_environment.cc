#include "userspace/listener/tool_environment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/elf/exported_functions.h"
#include "injector/elf/symbol_lookup.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

absl::StatusOr<ToolEnvironment> ToolEnvironment::Open(pid_t pid, const Maps& maps) {
  for (const Mapping& mapping : maps.mappings()) {
    if (!mapping.executable || !mapping.is_file() || !IsLibcName(mapping.basename()))
      continue;
    ASSIGN_OR_RETURN(
        const auto functions,
        FindExportedFunctions(pid, mapping, {"getenv", "setenv", "unsetenv"}));
    if (std::any_of(functions.begin(), functions.end(),
                    [](RemoteAddress address) { return address.is_null(); })) {
      break;
    }
    ASSIGN_OR_RETURN(TargetMemory memory, TargetMemory::Open(pid, pid));
    ToolEnvironment environment(std::move(memory));
    environment.getenv_ = functions[0];
    environment.setenv_ = functions[1];
    environment.unsetenv_ = functions[2];
    return environment;
  }
  return absl::NotFoundError(absl::StrCat(
      "process ", pid, " has no C library with getenv(), setenv() and unsetenv()"));
}

absl::StatusOr<std::optional<std::string>> ToolEnvironment::Get(
    const std::string& name, const Caller& call) const {
  ASSIGN_OR_RETURN(const uint64_t result,
                   call("getenv", getenv_, {name + '\0', std::nullopt}));
  if (result == 0) return std::optional<std::string>();
  std::string value;
  // Read to the end of each page: the page after the text need not be mapped.
  for (uint64_t at = result; value.size() < kMaxValue;) {
    std::string part(kPage - at % kPage, '\0');
    RETURN_IF_ERROR(memory_.Read(RemoteAddress(at), part.data(), part.size()));
    const size_t end = part.find('\0');
    value.append(part, 0, end);
    if (end != std::string::npos) return std::optional<std::string>(std::move(value));
    at += part.size();
  }
  return absl::OutOfRangeError(
      absl::StrCat("the value of ", name, " has more than ", kMaxValue, " bytes"));
}

absl::Status ToolEnvironment::Remember(const Variables& variables, const Caller& call) {
  saved_.clear();
  for (const auto& [name, value] : variables) {
    ASSIGN_OR_RETURN(std::optional<std::string> before, Get(name, call));
    saved_.push_back({name, value, std::move(before)});
  }
  return absl::OkStatus();
}

absl::Status ToolEnvironment::RestoreOne(const Saved& saved, const Caller& call) const {
  if (saved.before == saved.value) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<std::string> now, Get(saved.name, call));
  if (now != saved.value) return absl::OkStatus();
  if (!saved.before.has_value()) {
    return call("unsetenv", unsetenv_, {saved.name + '\0', std::nullopt}).status();
  }
  ASSIGN_OR_RETURN(const uint64_t result,
                   call("setenv", setenv_, {saved.name + '\0', *saved.before + '\0'}));
  if (result == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("setenv(", saved.name, ") failed: the process has no memory"));
}

absl::Status ToolEnvironment::Restore(const Caller& call) const {
  absl::Status all;
  for (const Saved& saved : saved_) all.Update(RestoreOne(saved, call));
  return all;
}

}  // namespace rocattach
