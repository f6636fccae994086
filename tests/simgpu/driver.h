// The kernel driver as a process sees it: the ioctls of /dev/kfd.
#ifndef ROCATTACH_TESTS_SIMGPU_DRIVER_H_
#define ROCATTACH_TESTS_SIMGPU_DRIVER_H_

#include <stdbool.h>

// Opens /dev/kfd. -1 with errno, after a message, if the options are not valid.
int simgpu_driver_open(int flags);

// Opens the render node of a GPU.
int simgpu_driver_open_render(unsigned gpu, int flags);

// True if an ioctl with this number may be one of the driver's.
bool simgpu_driver_may_be(unsigned long request);

// Executes an ioctl on a descriptor of the device's file. 0, or an errno.
int simgpu_driver_ioctl(unsigned long request, void* argument);

#endif  // ROCATTACH_TESTS_SIMGPU_DRIVER_H_
