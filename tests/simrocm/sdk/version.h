// The version that the simulated SDK reports, and checks for it.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_VERSION_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_VERSION_H_

#include <cstdint>
#include <string>
#include <tuple>

namespace simrocm::sdk {

struct Version {
  uint32_t major, minor, patch;

  uint32_t number() const { return major * 10000 + minor * 100 + patch; }
  bool IsAtLeast(uint32_t a_minor, uint32_t a_patch) const {
    return std::tie(minor, patch) >= std::tie(a_minor, a_patch);
  }
};

// SIMROCM_SDK_VERSION, or 1.3.5. Anything other than three numbers ends the process.
const Version& TheVersion();
const std::string& TheVersionText();

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_VERSION_H_
