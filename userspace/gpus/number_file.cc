#include "userspace/gpus/number_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

// A number and a line end.
constexpr size_t kMostFileBytes = 64;

}  // namespace

std::optional<uint64_t> NumberIn(absl::string_view text) {
  uint64_t value = 0;
  text = absl::StripTrailingAsciiWhitespace(text);
  // SimpleAtoi also accepts signs and blanks, which the kernel does not write.
  if (text.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) ||
      !absl::SimpleAtoi(text, &value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  const auto text = ReadFile(path, kMostFileBytes);
  return text.ok() ? NumberIn(*text) : std::nullopt;
}

}  // namespace rocattach
