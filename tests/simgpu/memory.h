// Memory that the GPUs know: buffers that the runtime had the driver allocate, and host
// memory that it registered. A GPU reads and writes it through its own addresses; the
// runtime chooses them, and they are the host's except for some registered memory.
// Thread-safe.
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
  uint64_t host;       // SIMGPU_MEMORY_USER: where it really lies
  uint32_t raw_flags;  // as the client gave them
};

// Adds a buffer. Fills in `offset`, except for registers. 0, or an errno. `*handle` is
// never 0.
int simgpu_memory_allocate(struct simgpu_buffer* buffer, uint64_t* handle);

// Forgets a buffer and what is in it.
int simgpu_memory_free(uint64_t handle);

// What is behind a handle; false if that is nothing.
bool simgpu_memory_get(uint64_t handle, struct simgpu_buffer* buffer);

// Lets this process, of which the simulated GPUs are threads, use the buffer at its
// address.
int simgpu_memory_make_accessible(uint64_t handle);

// How much of a GPU's own memory is allocated.
uint64_t simgpu_memory_used(unsigned gpu);

// The buffer around a GPU's address; false if there is none.
bool simgpu_memory_find(uint64_t address, uint64_t* start, uint64_t* size);

// Where the host finds what a GPU has at this address.
void* simgpu_memory_host(uint64_t address);

// Whether that is another address for any memory.
bool simgpu_memory_any_moved(void);

// Changes whenever memory was freed: what was learned about addresses is then void.
uint64_t simgpu_memory_generation(void);

// Around fork(): hold the lock, let go in the parent, start over in the child.
void simgpu_memory_before_fork(void);
void simgpu_memory_after_fork_parent(void);
void simgpu_memory_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_MEMORY_H_
