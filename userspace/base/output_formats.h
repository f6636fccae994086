// The names of the formats that recordings can be converted to.
#ifndef ROCATTACH_USERSPACE_BASE_OUTPUT_FORMATS_H_
#define ROCATTACH_USERSPACE_BASE_OUTPUT_FORMATS_H_

namespace rocattach {

// In the order of the help. Their writers are in userspace/export/.
inline constexpr const char* kOutputFormats[] = {
    "csv",     "json",  "ndjson",       "rocpd",
    "pftrace", "pprof", "otlp-profile", "compute-workload"};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_OUTPUT_FORMATS_H_
