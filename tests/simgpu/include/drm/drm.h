// The kernel's header of the driver includes this one and uses only these types of it;
// Debian has it in a package that is not needed otherwise.
#ifndef ROCATTACH_TESTS_SIMGPU_INCLUDE_DRM_DRM_H_
#define ROCATTACH_TESTS_SIMGPU_INCLUDE_DRM_DRM_H_

#include <linux/types.h>

#endif  // ROCATTACH_TESTS_SIMGPU_INCLUDE_DRM_DRM_H_
