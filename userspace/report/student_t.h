// Quantiles of Student's t distribution.
#ifndef ROCATTACH_USERSPACE_REPORT_STUDENT_T_H_
#define ROCATTACH_USERSPACE_REPORT_STUDENT_T_H_

namespace rocattach {

// The t below which a fraction `probability` (0.5 to 1, exclusive) of the distribution
// with `freedom` degrees of freedom (at least 1, need not be whole) lies.
double StudentQuantile(double probability, double freedom);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_STUDENT_T_H_
