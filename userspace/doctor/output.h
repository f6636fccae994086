// A doctor's report as text and as JSON.
#ifndef ROCATTACH_USERSPACE_DOCTOR_OUTPUT_H_
#define ROCATTACH_USERSPACE_DOCTOR_OUTPUT_H_

#include <string>

#include "userspace/doctor/check.h"

namespace rocattach {

struct DoctorTextOptions {
  bool color = false;
  bool verbose = false;  // also the meaning and the items of passed checks
  size_t width = 88;     // columns to wrap at
};

// Aligned text that ends with the verdict.
std::string DoctorText(const DoctorReport& report, const DoctorTextOptions& options);

// One JSON object, indented, with a newline at the end.
std::string DoctorJson(const DoctorReport& report);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_OUTPUT_H_
