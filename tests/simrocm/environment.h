// Environment variables as the simulated libraries read them, and the buffer in which
// an attacher passes variables to rocprofiler_register_attach.
#ifndef ROCATTACH_TESTS_SIMROCM_ENVIRONMENT_H_
#define ROCATTACH_TESTS_SIMROCM_ENVIRONMENT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simrocm {

// The variable's value, or "" if it is not set.
std::string GetString(const char* name);

// 0, n, no, f, false and off in any case are false, everything else that is not empty
// is true; unset or empty: `fallback`.
bool GetBool(const char* name, bool fallback);

using Variables = std::vector<std::pair<std::string, std::string>>;

// Reads a native uint32_t number of pairs, then that many pairs of NUL-terminated names
// and values. NULL is an empty list. The ABI has no length, so a wrong count cannot be
// noticed; but a count above 65536 is assumed to be wrong and gives an empty list.
Variables ParseEnvironmentBuffer(const char* buffer);

// Sets variables and can restore the old values.
class EnvironmentChange {
 public:
  // Sets each variable, except ROCPROFILER_REGISTER_TOOL_ATTACHED, which is internal.
  explicit EnvironmentChange(const Variables& variables);
  EnvironmentChange(const EnvironmentChange&) = delete;
  EnvironmentChange& operator=(const EnvironmentChange&) = delete;

  // Restores the previous values; call it once.
  void Restore();

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> old_;
};

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_ENVIRONMENT_H_
