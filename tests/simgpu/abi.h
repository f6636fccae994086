// Which version of the thunk's interface a caller was built for. Newer runtimes (see
// README.md) call the same functions, but two of the structures that these fill have
// grown in the middle, so one binary serves both only if it knows who calls.
#ifndef ROCATTACH_TESTS_SIMGPU_ABI_H_
#define ROCATTACH_TESTS_SIMGPU_ABI_H_

#include <hsakmt.h>
#include <stddef.h>

// In the order of time.
enum simgpu_abi {
  SIMGPU_ABI_DEBIAN,  // 5.2.3, and layouts that differ in reserved words only
  SIMGPU_ABI_2024,    // ROCr of autumn 2024
  SIMGPU_ABI_2025     // ROCr 1.18, August 2025
};

// The version that the program or library around `code` was built for: it imports
// functions of the thunk that earlier versions do not have. SIMGPU_ABI_DEBIAN if that
// cannot be found out. Takes a look at every imported symbol: for calls at start-up.
enum simgpu_abi simgpu_abi_of(const void* code);

// Writes the structure as `abi` lays it out, and returns its size there. Fields that
// only later versions have are 0.
size_t simgpu_abi_put_node(enum simgpu_abi abi, const HsaNodeProperties* properties,
                           void* to);
size_t simgpu_abi_put_link(enum simgpu_abi abi, const HsaIoLinkProperties* link,
                           void* to);

#endif  // ROCATTACH_TESTS_SIMGPU_ABI_H_
