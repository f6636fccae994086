// The texts that users see for each reason for which an attach ends: one table, from
// which the names and help texts of outcome.h come.
#ifndef ROCATTACH_INJECTOR_ATTACH_REASONS_H_
#define ROCATTACH_INJECTOR_ATTACH_REASONS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "injector/outcome.h"

namespace rocattach {

struct AttachReasonEntry {
  AttachReason reason;
  // Stable, lower case, words joined by '-'.
  absl::string_view name;
  // One sentence for users: what the reason means and what they can do.
  absl::string_view help;
};

// Every reason, in the order of their values, which have no gap.
absl::Span<const AttachReasonEntry> AttachReasons();

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ATTACH_REASONS_H_
