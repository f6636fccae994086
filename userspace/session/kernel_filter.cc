#include "userspace/session/kernel_filter.h"

#include <re2/re2.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
constexpr size_t kMaxPatterns = 256;
// Memory of one compiled expression; RE2 falls back to a slower, still linear algorithm
// when its cache is full.
constexpr int64_t kPatternMemory = 1 << 20;

absl::StatusOr<std::vector<std::unique_ptr<re2::RE2>>> Compile(
    const std::vector<std::string>& patterns) {
  auto error = [](absl::string_view what) {
    return SessionError(SessionStatus::kFilterDataCorrupted, what);
  };
  if (patterns.size() > kMaxPatterns) {
    return error(absl::StrCat("more than ", kMaxPatterns, " kernel name expressions"));
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // any bytes can be a name
  std::vector<std::unique_ptr<re2::RE2>> compiled;
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) return error("empty kernel name expression");
    if (pattern.size() > kMaxPatternBytes) {
      return error("kernel name expression longer than 4096 characters");
    }
    auto re = std::make_unique<re2::RE2>(pattern, options);
    if (!re->ok()) {
      return error(absl::StrCat(
          "kernel name expression \"", pattern, "\": ", re->error(),
          re->error_code() == re2::RE2::ErrorBadEscape ||
                  re->error_code() == re2::RE2::ErrorBadPerlOp
              ? " (back-references and look-around are not offered: matching is linear)"
              : ""));
    }
    compiled.push_back(std::move(re));
  }
  return compiled;
}

}  // namespace

KernelFilter::KernelFilter() = default;
KernelFilter::~KernelFilter() = default;
KernelFilter::KernelFilter(KernelFilter&&) noexcept = default;
KernelFilter& KernelFilter::operator=(KernelFilter&&) noexcept = default;

absl::StatusOr<KernelFilter> KernelFilter::Create(
    const std::vector<std::string>& include, const std::vector<std::string>& exclude) {
  KernelFilter filter;
  ASSIGN_OR_RETURN(filter.include_, Compile(include));
  ASSIGN_OR_RETURN(filter.exclude_, Compile(exclude));
  return filter;
}

bool KernelFilter::Matches(const std::string& symbol, Demangler* demangler) const {
  if (!restricts()) return true;
  const std::string demangled = demangler->Demangle(symbol);
  auto any = [&](const std::vector<std::unique_ptr<re2::RE2>>& expressions) {
    for (const auto& re : expressions) {
      if (re2::RE2::PartialMatch(demangled, *re)) return true;
      if (demangled != symbol && re2::RE2::PartialMatch(symbol, *re)) return true;
    }
    return false;
  };
  return (include_.empty() || any(include_)) && !any(exclude_);
}

}  // namespace rocattach
