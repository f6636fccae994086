// The functions of libdrm that newer runtimes call with a handle from the thunk. There is
// no such device for the real ones. What concerns buffers that processes share answers
// that it is invalid, as the thunk's own functions for that do.
#include <errno.h>
#include <string.h>

#include "tests/simgpu/clock.h"
#include "tests/simgpu/options.h"
#include "tests/simgpu/thunk_later.h"
#include "tests/simgpu/topology.h"

void* simgpu_drm_handle(unsigned gpu) {
  return (void*)(uintptr_t)(gpu + 1);
}

int amdgpu_query_gpu_info(void* device, struct simgpu_drm_gpu_info* info) {
  const uintptr_t number = (uintptr_t)device;
  if (number == 0 || number > simgpu_options_get()->gpu_count) return -EINVAL;
  memset(info, 0, sizeof(*info));
  info->device_id = simgpu_device_id();
  info->family_id = SIMGPU_FAMILY_AI;
  info->counter_khz = SIMGPU_CLOCK_HZ / 1000;
  return 0;
}

#define ABSENT(name) \
  int name(void);    \
  int name(void) {   \
    return -EINVAL;  \
  }

ABSENT(amdgpu_bo_cpu_map)
ABSENT(amdgpu_bo_export)
ABSENT(amdgpu_bo_free)
ABSENT(amdgpu_bo_import)
ABSENT(amdgpu_bo_va_op)
ABSENT(amdgpu_device_deinitialize)
ABSENT(amdgpu_device_initialize)
ABSENT(drmCommandWriteRead)
