// Additions to the driver's interface since version 1.11, the version of the installed
// header.
#ifndef ROCATTACH_TESTS_SIMGPU_KFD_LATER_H_
#define ROCATTACH_TESTS_SIMGPU_KFD_LATER_H_

#include <linux/kfd_ioctl.h>
#include <stdint.h>

// The version reported to clients: it has runtime enabling and the age of events.
#define SIMGPU_KFD_MINOR 14

// 1.12
struct simgpu_kfd_export_dmabuf {
  uint64_t handle;
  uint32_t flags;
  uint32_t fd;  // from the driver
};
#define SIMGPU_KFD_EXPORT_DMABUF 0x24

// 1.13
#define SIMGPU_KFD_RUNTIME_ENABLE_BIT 1u
struct simgpu_kfd_runtime_enable {
  uint64_t r_debug;
  uint32_t mode;
  uint32_t capabilities;  // from the driver
};
#define SIMGPU_KFD_RUNTIME_ENABLE 0x25

// 1.14: the contents of the union in kfd_event_data for signal events.
struct simgpu_kfd_signal_event {
  uint64_t last_age;
};

// 1.17
#define SIMGPU_KFD_QUEUE_SDMA_BY_ENGINE 4

// The header of the memory in which the state of a queue would be saved.
struct simgpu_kfd_save_area {
  uint32_t control_stack_offset, control_stack_bytes;
  uint32_t wave_state_offset, wave_state_bytes;
  uint32_t debug_offset, debug_bytes;
  uint64_t error_payload;  // address for errors of the queue; 0: not reported
  uint32_t error_event;
  uint32_t reserved;
};

#endif  // ROCATTACH_TESTS_SIMGPU_KFD_LATER_H_
