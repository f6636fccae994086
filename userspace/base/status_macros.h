// Early returns for absl::Status; Debian 12's Abseil has none of its own.
#ifndef ROCATTACH_USERSPACE_BASE_STATUS_MACROS_H_
#define ROCATTACH_USERSPACE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ROCATTACH_CONCAT_INNER_(a, b) a##b
#define ROCATTACH_CONCAT_(a, b) ROCATTACH_CONCAT_INNER_(a, b)

// Returns the status from the enclosing function unless it is OK.
#define RETURN_IF_ERROR(expr)                                               \
  do {                                                                      \
    if (absl::Status rocattach_status_ = (expr); !rocattach_status_.ok()) { \
      return rocattach_status_;                                             \
    }                                                                       \
  } while (false)

// ASSIGN_OR_RETURN(auto x, F()): x is F()'s value, or F()'s error is returned.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL_(ROCATTACH_CONCAT_(rocattach_or_, __LINE__), lhs, expr)
// A declaration cannot be parenthesized. NOLINTBEGIN(bugprone-macro-parentheses)
#define ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr)   \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // ROCATTACH_USERSPACE_BASE_STATUS_MACROS_H_
