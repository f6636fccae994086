// HSA_TOOLS_LIB for the runtime's eyes only.
//
// setenv and putenv are of no use in a running program: other threads may be inside
// getenv, and the array and strings that they walk would move or vanish. So the change
// is a new array, and the `environ` pointer is swapped to it and back with single
// stores. Nothing is ever freed: a reader may still hold any of it.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_ENVIRONMENT_H_
#define ROCATTACH_USERSPACE_COLLECTOR_ENVIRONMENT_H_

#include <stddef.h>

#include "userspace/collector/atomics.h"

namespace rocattach::collector {

// One installation of "HSA_TOOLS_LIB=<what the user had> <path>" into an environment.
// Thread-safe; Install and Restore may be called any number of times.
class Environment {
 public:
  // `place` is the address of the process's `environ`.
  explicit constexpr Environment(char*** place) : place_(place) {}
  constexpr Environment() = default;

  void set_place(char*** place) { place_ = place; }

  // 0, also if it was installed already; ENOMEM with nothing changed.
  int Install(const char* path);

  // Undoes Install. If nobody has touched the environment since then, the old array
  // returns; else our entry alone is taken out or set back to the user's.
  void Restore();

  bool installed() const { return LoadAcquire(&installed_) != 0; }

 private:
  void RestoreInPlace(char** array);

  char*** place_ = nullptr;
  TinyLock lock_;
  int installed_ = 0;
  char** old_array_ = nullptr;
  char** our_array_ = nullptr;
  char** snapshot_ = nullptr;  // what our_array_ held when it was installed
  size_t count_ = 0;           // entries in our_array_, without the terminator
  char* our_entry_ = nullptr;
  char* old_entry_ = nullptr;  // the user's own, or nullptr
};

// Writes `path` to `out` as one word of HSA_TOOLS_LIB: the runtime splits at blanks and
// knows double quotes and backslashes, so these three are escaped by a backslash.
// Returns the length without the NUL. `out` holds 2 * strlen(path) + 1 bytes.
size_t QuoteToolPath(const char* path, char* out);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_ENVIRONMENT_H_
