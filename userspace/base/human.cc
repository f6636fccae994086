#include "userspace/base/human.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rocattach {
namespace {

std::string ThreeDigits(double value, const char* unit) {
  int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

}  // namespace

std::string HumanDuration(uint64_t ns) {
  double value = static_cast<double>(ns);
  if (ns < 1'000) return absl::StrCat(ns, " ns");
  if (value < 999.5e3) return ThreeDigits(value / 1e3, "us");
  if (value < 999.5e6) return ThreeDigits(value / 1e6, "ms");
  if (ns < 120'000'000'000) return ThreeDigits(value / 1e9, "s");
  uint64_t minutes = ns / 60'000'000'000;
  if (minutes < 120) {
    return absl::StrFormat("%d min %02d s", minutes, ns / 1'000'000'000 % 60);
  }
  return absl::StrFormat("%d h %02d min", minutes / 60, minutes % 60);
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  while (value >= 1023.5 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return ThreeDigits(value, units[unit]);
}

std::string HumanCount(uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

}  // namespace rocattach
