// Memory that the GPUs know: buffers that the driver allocated for the runtime, and
// host memory that the runtime registered. A GPU reads and writes it through its own
// addresses; the runtime chooses them, and they are the same as the host's except for
// some registered memory. Thread-safe.
#ifndef ROCATTACH_TESTS_SIMGPU_MEMORY_H_
#define ROCATTACH_TESTS_SIMGPU_MEMORY_H_

#include <stdbool.h>
#include <stdint.h>

enum simgpu_memory_kind {
  SIMGPU_MEMORY_DEVICE,   // the GPU's own; only the GPU can use it
  SIMGPU_MEMORY_VISIBLE,  // the GPU's own, which the host maps as well
  SIMGPU_MEMORY_HOST,     // the host's, allocated by the driver
  SIMGPU_MEMORY_USER,     // the host's, registered
  SIMGPU_MEMORY_REGISTERS
};

struct simgpu_buffer {
  enum simgpu_memory_kind kind;
  unsigned gpu;
  uint64_t address;  // the GPU's; 0: none yet
  uint64_t bytes;
  uint64_t offset;     // in the device's file; SIMGPU_MEMORY_USER: none
  uint64_t host;       // SIMGPU_MEMORY_USER: the host's address
  uint32_t raw_flags;  // as the client passed them
};

// Adds a buffer. Sets `offset`, except for registers. Returns 0 or an errno. `*handle`
// is never 0.
int simgpu_memory_allocate(struct simgpu_buffer* buffer, uint64_t* handle);

// Removes a buffer and its contents.
int simgpu_memory_free(uint64_t handle);

// The buffer of a handle; false if there is none.
bool simgpu_memory_get(uint64_t handle, struct simgpu_buffer* buffer);

// Makes the buffer accessible at its address for this process, whose threads the
// simulated GPUs are.
int simgpu_memory_make_accessible(uint64_t handle);

// Number of bytes allocated of a GPU's own memory.
uint64_t simgpu_memory_used(unsigned gpu);

// The buffer that contains a GPU's address; false if there is none.
bool simgpu_memory_find(uint64_t address, uint64_t* start, uint64_t* size);

// The host's address of the memory that a GPU has at this address.
void* simgpu_memory_host(uint64_t address);

// True if the host's address differs for any memory.
bool simgpu_memory_any_moved(void);

// Changes whenever memory is freed, which invalidates what is known about addresses.
uint64_t simgpu_memory_generation(void);

// Called around fork(): takes the lock, releases it in the parent, resets in the child.
void simgpu_memory_before_fork(void);
void simgpu_memory_after_fork_parent(void);
void simgpu_memory_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_MEMORY_H_
