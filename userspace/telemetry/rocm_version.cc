#include "userspace/telemetry/rocm_version.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rocattach {
namespace {

// ROCm's number follows the library's own, and has two digits for each part but the
// first: 60403, 70001.
std::string FromFileName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  uint32_t number = 0;
  const bool digits = std::all_of(parts.back().begin(), parts.back().end(), [](char c) {
    return absl::ascii_isdigit(static_cast<uint8_t>(c));
  });
  if (!digits || (parts.back().size() != 5 && parts.back().size() != 6)) return "";
  if (!absl::SimpleAtoi(parts.back(), &number) || number < 10'000) return "";
  return absl::StrCat(number / 10'000, ".", number / 100 % 100, ".", number % 100);
}

bool IsVersion(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (parts.size() < 2 || parts.size() > 3) return false;
  return std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
    uint32_t number = 0;
    return part.size() <= 3 && absl::SimpleAtoi(part, &number) &&
           absl::ascii_isdigit(static_cast<uint8_t>(part[0]));
  });
}

}  // namespace

std::string RocmVersionOf(absl::string_view library_path) {
  absl::ConsumeSuffix(&library_path, " (deleted)");
  const std::vector<absl::string_view> folders = absl::StrSplit(library_path, '/');
  if (std::string version = FromFileName(folders.back()); !version.empty()) {
    return version;
  }
  for (absl::string_view folder : folders) {
    if (absl::ConsumePrefix(&folder, "rocm-") && IsVersion(folder)) {
      return std::string(folder);
    }
  }
  return "";
}

}  // namespace rocattach
