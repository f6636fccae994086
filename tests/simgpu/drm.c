// The functions of libdrm that the runtimes call for a GPU. They are implemented here
// instead of through ioctls of the render node. Functions for buffers that processes
// share return an error.
#define _GNU_SOURCE
#include "tests/simgpu/drm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/simgpu/clock.h"
#include "tests/simgpu/device_file.h"
#include "tests/simgpu/driver.h"
#include "tests/simgpu/options.h"
#include "tests/simgpu/topology.h"

#define EXPORT __attribute__((visibility("default")))

// The object behind a device's handle.
struct device {
  int fd;
};

// All GPUs are of one model, so it does not matter to which one a handle belongs.
EXPORT int drmOpenRender(int minor) {
  if (minor < SIMGPU_FIRST_RENDER_MINOR) return -ENOENT;
  const unsigned gpu = (unsigned)(minor - SIMGPU_FIRST_RENDER_MINOR);
  int fd = simgpu_driver_open_render(gpu, O_RDWR | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

EXPORT int drmClose(int fd) {
  return (int)syscall(SYS_close, fd);
}

EXPORT int amdgpu_device_initialize(int fd, uint32_t* major, uint32_t* minor,
                                    void** device) {
  if (!simgpu_file_is(fd)) return -EBADF;
  struct device* made = malloc(sizeof(*made));
  if (made == NULL) return -ENOMEM;
  // The caller may close its own descriptor.
  made->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (made->fd < 0) {
    const int error = errno;
    free(made);
    return -error;
  }
  *major = 3;
  *minor = 54;
  *device = made;
  return 0;
}

EXPORT int amdgpu_device_deinitialize(void* device) {
  syscall(SYS_close, ((struct device*)device)->fd);
  free(device);
  return 0;
}

EXPORT int amdgpu_device_get_fd(void* device) {
  return ((const struct device*)device)->fd;
}

EXPORT const char* amdgpu_get_marketing_name(void* device) {
  (void)device;
  return simgpu_marketing_name();
}

EXPORT int amdgpu_query_gpu_info(void* device, struct simgpu_drm_gpu_info* info) {
  if (device == NULL || info == NULL) return -EINVAL;
  memset(info, 0, sizeof(*info));
  info->device_id = simgpu_device_id();
  info->family_id = SIMGPU_FAMILY_AI;
  info->counter_khz = SIMGPU_CLOCK_HZ / 1000;
  return 0;
}

#define ABSENT(name)      \
  EXPORT int name(void);  \
  EXPORT int name(void) { \
    return -EINVAL;       \
  }

ABSENT(amdgpu_bo_cpu_map)
ABSENT(amdgpu_bo_export)
ABSENT(amdgpu_bo_free)
ABSENT(amdgpu_bo_import)
ABSENT(amdgpu_bo_va_op)
ABSENT(amdgpu_query_info)
ABSENT(drmCommandWriteRead)
