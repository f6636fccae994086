// The outermost frame of a program.
#ifndef ROCATTACH_USERSPACE_CLI_COMMON_GUARDED_MAIN_H_
#define ROCATTACH_USERSPACE_CLI_COMMON_GUARDED_MAIN_H_

#include <cstdio>
#include <exception>

#include "userspace/base/deadlock_checks.h"

namespace rocattach {

// Runs `run`. Our own code throws nothing; an exception from a library (above all, out
// of memory) ends the program with its message and the exit status `failure`, after
// destructors have released all resources.
inline int GuardedMain(const char* program, int failure, int (*run)(int, char**),
                       int argc, char** argv) {
  IgnorePotentialDeadlocks();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
  } catch (...) {
    std::fprintf(stderr, "%s: an unknown exception\n", program);
  }
  return failure;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_COMMON_GUARDED_MAIN_H_
