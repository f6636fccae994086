// What one check of 'rocattach doctor' found, and what all of them mean together.
#ifndef ROCATTACH_USERSPACE_DOCTOR_CHECK_H_
#define ROCATTACH_USERSPACE_DOCTOR_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// In rising order of weight: the worst one decides the verdict.
enum class CheckState : uint8_t {
  kOk = 0,
  kNote = 1,       // worth knowing; nothing that rocattach-watch does suffers
  kUnchecked = 2,  // could not be looked at, mostly for want of a privilege
  kWarning = 3,    // something works only in part
  kFailed = 4,     // attaching cannot work until this is remedied
};
// Stable lower-case names, as used in the output and in JSON.
absl::string_view CheckStateName(CheckState state);

// One of several things that a check looked at: a library copy, a capability.
struct CheckItem {
  std::string name = {};
  CheckState state = CheckState::kOk;
  std::string found = {};  // empty: the name says it all
};

struct Check {
  std::string name = {};  // stable, lower case, words joined by '-'
  CheckState state = CheckState::kOk;
  std::string found = {};    // what is there, in a few words
  std::string meaning = {};  // what it means for profiling; may be empty if all is well
  std::string remedy = {};   // how to get what is missing; empty when nothing is
  std::vector<CheckItem> items = {};
};

// What a machine is good for.
enum class DoctorVerdict : uint8_t {
  kFull = 0,     // everything that is needed is there
  kPartial = 1,  // it works, with less than there could be
  kNone = 2,     // attaching cannot work
};
absl::string_view DoctorVerdictName(DoctorVerdict verdict);
// One sentence for people.
absl::string_view DoctorVerdictHelp(DoctorVerdict verdict);

// Exit status of the command; 2 is for usage errors.
inline constexpr int kDoctorExitFull = 0;
inline constexpr int kDoctorExitPartial = 1;
inline constexpr int kDoctorExitNone = 3;

struct DoctorReport {
  std::vector<Check> checks;

  DoctorVerdict verdict() const;
  int exit_status() const;
  // The check of that name, null if there is none.
  const Check* Find(absl::string_view name) const;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_CHECK_H_
