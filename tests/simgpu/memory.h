// Memory that the GPU knows: what was allocated through the thunk, and host memory that
// was registered. GPU addresses are CPU addresses. Thread-safe.
#ifndef ROCATTACH_TESTS_SIMGPU_MEMORY_H_
#define ROCATTACH_TESTS_SIMGPU_MEMORY_H_

#include <hsakmt.h>
#include <stdbool.h>
#include <stdint.h>

// Allocates zeroed, lazily backed memory. With flags.FixedAddress, `*address` is where.
HSAKMT_STATUS simgpu_memory_allocate(uint32_t node, uint64_t size, HsaMemFlags flags,
                                     void** address);
// The same at a multiple of `alignment`: a power of two of at least a page, or 0 for
// none in particular.
HSAKMT_STATUS simgpu_memory_allocate_aligned(uint32_t node, uint64_t size,
                                             uint64_t alignment, HsaMemFlags flags,
                                             void** address);

// How much is allocated on a node, without the address space of scratch memory.
uint64_t simgpu_memory_used(uint32_t node);

// Frees what simgpu_memory_allocate() returned.
HSAKMT_STATUS simgpu_memory_free(void* address, uint64_t size);

// Registers host memory; the same range may be registered several times.
HSAKMT_STATUS simgpu_memory_register(void* address, uint64_t size, HsaMemFlags flags);

// Undoes one simgpu_memory_register() of a range that starts at `address`.
HSAKMT_STATUS simgpu_memory_deregister(void* address);

// Notes which GPUs a range is mapped to; nothing more is needed for access.
HSAKMT_STATUS simgpu_memory_map(void* address, uint64_t node_count,
                                const uint32_t* nodes);
HSAKMT_STATUS simgpu_memory_unmap(void* address);

HSAKMT_STATUS simgpu_memory_query(const void* address, HsaPointerInfo* info);
HSAKMT_STATUS simgpu_memory_set_user_data(const void* address, void* user_data);

// The allocation around `address`; false if there is none.
bool simgpu_memory_find(const void* address, uintptr_t* start, uint64_t* size);

// Changes whenever memory was freed: what was learned about addresses is then void.
uint64_t simgpu_memory_generation(void);

// Around fork(): hold the lock, let go in the parent, start over in the child.
void simgpu_memory_before_fork(void);
void simgpu_memory_after_fork_parent(void);
void simgpu_memory_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_MEMORY_H_
