// The version that the simulated SDK says it is.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_VERSION_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_VERSION_H_

#include <cstdint>

namespace simrocm::sdk {

inline constexpr uint32_t kMajor = 1, kMinor = 3, kPatch = 5;
inline constexpr uint32_t kVersion = kMajor * 10000 + kMinor * 100 + kPatch;
inline constexpr char kVersionText[] = "1.3.5 (simulated)";

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_VERSION_H_
