#include "userspace/doctor/check.h"

#include <algorithm>

namespace rocattach {

absl::string_view CheckStateName(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "ok";
    case CheckState::kNote:
      return "note";
    case CheckState::kUnchecked:
      return "unchecked";
    case CheckState::kWarning:
      return "warning";
    case CheckState::kFailed:
      return "failed";
  }
  return "unknown";
}

absl::string_view DoctorVerdictName(DoctorVerdict verdict) {
  switch (verdict) {
    case DoctorVerdict::kFull:
      return "full";
    case DoctorVerdict::kPartial:
      return "partial";
    case DoctorVerdict::kNone:
      return "none";
  }
  return "unknown";
}

absl::string_view DoctorVerdictHelp(DoctorVerdict verdict) {
  switch (verdict) {
    case DoctorVerdict::kFull:
      return "OK: everything needed for attaching is available";
    case DoctorVerdict::kPartial:
      return "degraded: attaching works, with limitations";
    case DoctorVerdict::kNone:
      return "attaching cannot work on this machine";
  }
  return "";
}

DoctorVerdict DoctorReport::verdict() const {
  CheckState worst = CheckState::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.state);
  if (worst == CheckState::kFailed) return DoctorVerdict::kNone;
  // An item that was not checked may be missing, so the verdict is not "full".
  if (worst >= CheckState::kUnchecked) return DoctorVerdict::kPartial;
  return DoctorVerdict::kFull;
}

int DoctorReport::exit_status() const {
  switch (verdict()) {
    case DoctorVerdict::kFull:
      return kDoctorExitFull;
    case DoctorVerdict::kPartial:
      return kDoctorExitPartial;
    case DoctorVerdict::kNone:
      break;
  }
  return kDoctorExitNone;
}

const Check* DoctorReport::Find(absl::string_view name) const {
  for (const Check& check : checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

}  // namespace rocattach
