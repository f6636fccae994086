// What the files of the front end share.
#ifndef ROCATTACH_TESTS_SIMGPU_THUNK_H_
#define ROCATTACH_TESTS_SIMGPU_THUNK_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/simgpu/abi.h"
#include "tests/simgpu/topology.h"

struct simgpu_device {
  pthread_mutex_t lock;  // orders opening and closing
  atomic_uint open_count;
  atomic_bool opened_once;      // in this process, not in one that it was forked from
  atomic_bool inherited;        // forked from a process that had the device open
  atomic_bool runtime_enabled;  // hsaKmtRuntimeEnable(), until …Disable()
};
extern struct simgpu_device simgpu_device;

#define REQUIRE_OPEN() \
  if (simgpu_device.open_count == 0) return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED
// For calls that release something: in a forked child it is gone already, and the
// runtime's destructors, which run there too at exit(), insist on success.
#define REQUIRE_OPEN_OR_GONE()                                  \
  if (simgpu_device.open_count == 0 && simgpu_device.inherited) \
    return HSAKMT_STATUS_SUCCESS;                               \
  REQUIRE_OPEN()
#define REQUIRE(condition) \
  if (!(condition)) return HSAKMT_STATUS_INVALID_PARAMETER

static inline bool valid_node(uint32_t node) {
  return node < simgpu_node_count();
}

// In an exported function: the interface that its caller was built for, and the minor
// version of the driver that a caller of that age finds.
#define CALLERS_ABI() simgpu_abi_of(__builtin_return_address(0))
#define CALLERS_DRIVER() simgpu_driver_of(CALLERS_ABI())

// The driver knows of runtimes, and reports errors of queues to them.
#define DRIVER_WITH_RUNTIME 13

static inline uint32_t simgpu_driver_of(enum simgpu_abi abi) {
  // Linux 6.1, and 6.6, which has the age of events.
  return abi == SIMGPU_ABI_DEBIAN ? 11 : 14;
}

#endif  // ROCATTACH_TESTS_SIMGPU_THUNK_H_
