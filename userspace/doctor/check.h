// The finding of one check of 'rocattach doctor', and the verdict from all of them.
#ifndef ROCATTACH_USERSPACE_DOCTOR_CHECK_H_
#define ROCATTACH_USERSPACE_DOCTOR_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// In rising order of severity: the worst one decides the verdict.
enum class CheckState : uint8_t {
  kOk = 0,
  kNote = 1,       // worth knowing; rocattach-watch is not affected
  kUnchecked = 2,  // could not be checked, usually for lack of a privilege
  kWarning = 3,    // degraded: something works with limitations
  kFailed = 4,     // attaching cannot work until this is fixed
};
// Stable lower-case names, as used in the output and in JSON.
absl::string_view CheckStateName(CheckState state);

// One of several things that a check looked at: a library copy, a capability.
struct CheckItem {
  std::string name = {};
  CheckState state = CheckState::kOk;
  std::string found = {};  // empty: the name is enough
};

struct Check {
  std::string name = {};  // stable, lower case, words joined by '-'
  CheckState state = CheckState::kOk;
  std::string found = {};    // the finding, in a few words
  std::string meaning = {};  // its meaning for profiling; may be empty if passed
  std::string remedy = {};   // how to fix it; empty if there is nothing to fix
  std::vector<CheckItem> items = {};
};

// The verdict on how well attaching works on a machine.
enum class DoctorVerdict : uint8_t {
  kFull = 0,     // everything needed is available
  kPartial = 1,  // degraded: it works, with limitations
  kNone = 2,     // attaching cannot work
};
absl::string_view DoctorVerdictName(DoctorVerdict verdict);
// One sentence for users.
absl::string_view DoctorVerdictHelp(DoctorVerdict verdict);

// Exit status of the command; 2 is for usage errors.
inline constexpr int kDoctorExitFull = 0;
inline constexpr int kDoctorExitPartial = 1;
inline constexpr int kDoctorExitNone = 3;

struct DoctorReport {
  std::vector<Check> checks;

  DoctorVerdict verdict() const;
  int exit_status() const;
  // The check with that name; null if there is none.
  const Check* Find(absl::string_view name) const;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_CHECK_H_
