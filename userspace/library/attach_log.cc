#include "userspace/library/attach_log.h"

#include <stdlib.h>
#include <unistd.h>

#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr absl::string_view kLevelNames[] = {"fatal", "error", "warning", "info",
                                             "trace"};

}  // namespace

AttachLogLevel ParseLogLevel(absl::string_view text) {
  for (size_t i = 0; i < std::size(kLevelNames); ++i) {
    if (absl::EqualsIgnoreCase(text, kLevelNames[i]))
      return static_cast<AttachLogLevel>(i);
  }
  return AttachLogLevel::kWarning;
}

void AttachLog(AttachLogLevel level, absl::string_view text) {
  const char* wanted = secure_getenv("ROCATTACH_LOG_LEVEL");
  if (level > ParseLogLevel(wanted == nullptr ? "" : wanted)) return;
  // One write, so that lines of several threads do not mix.
  (void)WriteAll(STDERR_FILENO,
                 absl::StrCat("rocattach: ", kLevelNames[static_cast<size_t>(level)],
                              ": ", absl::StripTrailingAsciiWhitespace(text), "\n"));
}

}  // namespace rocattach
