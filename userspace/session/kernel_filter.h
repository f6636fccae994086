// Include and exclude expressions on kernel names.
#ifndef ROCATTACH_USERSPACE_SESSION_KERNEL_FILTER_H_
#define ROCATTACH_USERSPACE_SESSION_KERNEL_FILTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/demangler.h"

namespace re2 {
class RE2;
}

namespace rocattach {

// Matches in time linear in the name's length for any expression: RE2 does not
// backtrack, and its memory is limited. It therefore supports no back-references and no
// look-around; errors point this out.
class KernelFilter {
 public:
  // Selects every kernel.
  KernelFilter();
  ~KernelFilter();
  KernelFilter(KernelFilter&&) noexcept;
  KernelFilter& operator=(KernelFilter&&) noexcept;

  // FILTER_DATA_CORRUPTED for an expression that is empty, longer than 4096 characters,
  // malformed or too large to compile, and for more than 256 of them.
  static absl::StatusOr<KernelFilter> Create(const std::vector<std::string>& include,
                                             const std::vector<std::string>& exclude);

  // True if the filter restricts anything.
  bool restricts() const { return !include_.empty() || !exclude_.empty(); }

  // True if the kernel is selected: one of the include expressions (if there are any)
  // and none of the exclude expressions matches a part of the symbol or of its
  // demangled form, if `demangler` returns one.
  bool Matches(const std::string& symbol, Demangler* demangler) const;

 private:
  std::vector<std::unique_ptr<re2::RE2>> include_;
  std::vector<std::unique_ptr<re2::RE2>> exclude_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_KERNEL_FILTER_H_
