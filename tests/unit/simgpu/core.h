// The C headers of the simulator's core, for C++ tests.
#ifndef ROCATTACH_TESTS_UNIT_SIMGPU_CORE_H_
#define ROCATTACH_TESTS_UNIT_SIMGPU_CORE_H_

extern "C" {
#include "tests/simgpu/blit.h"
#include "tests/simgpu/clock.h"
#include "tests/simgpu/device_file.h"
#include "tests/simgpu/driver.h"
#include "tests/simgpu/elf_image.h"
#include "tests/simgpu/event.h"
#include "tests/simgpu/memory.h"
#include "tests/simgpu/options.h"
#include "tests/simgpu/queue.h"
#include "tests/simgpu/sdma.h"
#include "tests/simgpu/topology.h"
}

#endif  // ROCATTACH_TESTS_UNIT_SIMGPU_CORE_H_
