// Shared by the HIP programs.
#ifndef ROCATTACH_TESTS_TARGETS_HIP_SUPPORT_H_
#define ROCATTACH_TESTS_TARGETS_HIP_SUPPORT_H_

#include <hip/hip_runtime.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Ends the program if a HIP call fails.
#define HIP_CHECK(call)                                                            \
  do {                                                                             \
    hipError_t hip_check_error = (call);                                           \
    if (hip_check_error != hipSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(hip_check_error)); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

// The number after an option; ends the program if it is not one.
inline uint64_t ParseNumber(const char* option, const char* text) {
  char* end = nullptr;
  errno = 0;
  unsigned long long value = std::strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *text == '-') {
    std::fprintf(stderr, "%s: %s is not a number\n", option, text);
    std::exit(2);
  }
  return value;
}

#endif  // ROCATTACH_TESTS_TARGETS_HIP_SUPPORT_H_
