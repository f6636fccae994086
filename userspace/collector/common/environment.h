// Environment variables that only the runtime is meant to see.
//
// setenv and putenv are of no use in a running program: other threads may be inside
// getenv, and the array and strings that they walk would move or vanish. Instead, the
// change is made in a new array, and the `environ` pointer is switched to it and back
// with single stores. Nothing is ever freed: a reader may still hold any of it.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_ENVIRONMENT_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_ENVIRONMENT_H_

#include <stddef.h>

#include "userspace/abi/atomics.h"

namespace rocattach::collector {

// The variables to install; they determine how the collector, or the SDK, is loaded.
enum class ToolVariables {
  // HSA_TOOLS_LIB="<what the user had> <path>".
  kHsaTools,
  // In addition ROCP_TOOL_LIBRARIES="<what the user had>:<path>:" for the SDK, and, if
  // the user has no SDK tools, HSA_TOOLS_ROCPROFILER_V1_TOOLS=1: without that, a
  // runtime that has loaded the SDK ignores the tools of HSA_TOOLS_LIB, including the
  // user's, and it has loaded the SDK only because of us.
  kSdk,
  // HSA_TOOLS_LIB, and HSA_TOOLS_ROCPROFILER_V1_TOOLS=1 as above: the SDK was loaded
  // late, and would keep the tools out when the runtime starts again.
  kHsaToolsBesideSdk,
  // For loading the SDK late; the path is the SDK's. The variables that it sets with
  // setenv are put in place first, so that setenv replaces strings and does not move
  // the array: ROCPROFILER_REGISTER_FORCE_LOAD, ROCPROFILER_REGISTER_LIBRARY and
  // HSA_TOOLS_ROCPROFILER_V1_TOOLS.
  kLateSdk,
};

// Installs these variables into an environment and removes them. Thread-safe; Install
// and Restore may be called any number of times. Repeating an installation in an
// environment that has not changed meanwhile takes no further memory.
class Environment {
 public:
  // `variable` is the address of the process's `environ`.
  explicit constexpr Environment(char*** variable) : variable_(variable) {}
  constexpr Environment() = default;

  void set_variable(char*** variable) { variable_ = variable; }

  // 0, also if already installed; ENOMEM, or EINVAL for a path that the variable cannot
  // hold, with nothing changed. `path` must not change as long as this object is used.
  int Install(const char* path, ToolVariables variables = ToolVariables::kHsaTools);

  // Undoes Install. If the environment has not been changed since, the old array is
  // restored; otherwise only our entries are removed or reset to the user's. After
  // kSdk, the variables that the SDK itself sets are removed too, unless they were set
  // before: a child that inherits them would load the SDK. After kLateSdk, its
  // variables get their earlier values back, whatever has been written to them.
  void Restore();

  bool installed() const { return LoadAcquire(&installed_) != 0; }
  // True if the tools of HSA_TOOLS_LIB are called although the SDK is loaded.
  bool tools_beside_sdk() const { return count_changes_ > 2; }

 private:
  static constexpr size_t kMaxChanges = 3;
  struct Change {
    const char* name;  // with '='
    char* ours;
    char* old;  // the user's own entry, or nullptr
  };

  bool CanReinstall(char* const* array, const char* path,
                    ToolVariables variables) const;
  bool MakeChanges(char** array, const char* path, ToolVariables variables);
  void RestoreInPlace(char** array);
  bool LeftBySdk(const char* entry) const;

  char*** variable_ = nullptr;
  TinyLock lock_;
  int installed_ = 0;
  char** old_array_ = nullptr;
  char** our_array_ = nullptr;
  char** snapshot_ = nullptr;   // contents of our_array_ when it was installed
  size_t count_ = 0;            // entries in our_array_, without the terminator
  const char* path_ = nullptr;  // path of the last Install
  ToolVariables variables_ = ToolVariables::kHsaTools;
  size_t count_changes_ = 0;
  Change changes_[kMaxChanges] = {};
};

// Writes `path` to `out` as one word of HSA_TOOLS_LIB: the runtime splits at blanks and
// knows double quotes and backslashes, so these three are escaped by a backslash.
// Returns the length without the NUL. `out` holds 2 * strlen(path) + 1 bytes.
size_t QuoteToolPath(const char* path, char* out);

// The value of `name` ("X=") in an environment; nullptr if it is not set.
const char* FindVariable(char* const* array, const char* name);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_ENVIRONMENT_H_
