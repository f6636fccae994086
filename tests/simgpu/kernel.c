#include "tests/simgpu/kernel.h"

#include <stdio.h>
#include <string.h>

#include "tests/simgpu/blit.h"
#include "tests/simgpu/elf_image.h"
#include "tests/simgpu/memory.h"
#include "tests/simgpu/standin.h"

#define CACHE_SLOTS 1024
#define MAX_NAME 1024

// Resolved kernels, by kernel object. A direct-mapped cache: if two kernels share a
// slot, they only have to be resolved again.
struct entry {
  uint64_t object;         // 0: free
  simgpu_standin standin;  // NULL: no stand-in
};

static struct entry cache[CACHE_SLOTS];
static uint64_t cache_generation;

static simgpu_standin resolve(uint64_t object) {
  uint64_t start, size;
  if (!simgpu_memory_find(object, &start, &size)) return NULL;
  char symbol[MAX_NAME];
  if (!simgpu_elf_kernel_name(start, size, object, symbol, sizeof(symbol))) {
    // Not in a code object: one of the runtime's own shaders, which it writes to memory
    // without an ELF image around them.
    return simgpu_blit_shader;
  }
  char* suffix = strrchr(symbol, '.');
  if (suffix != NULL && strcmp(suffix, ".kd") == 0) *suffix = '\0';
  simgpu_standin builtin = simgpu_blit_kernel(symbol);
  if (builtin != NULL) return builtin;
  char standin[MAX_NAME + sizeof("simgpu_kernel_")];
  snprintf(standin, sizeof(standin), "simgpu_kernel_%s", symbol);
  return (simgpu_standin)simgpu_elf_host_symbol(standin);
}

// The maximum size of a kernel's arguments.
#define MOST_ARGUMENT_BYTES 4096

// Copies the arguments, and changes addresses in them to those at which the host finds
// the same memory, because a stand-in needs the host's. It is not known here which
// arguments are addresses; that a number looks like one is very unlikely.
static const void* for_the_host(const void* arguments,
                                uint64_t copy[MOST_ARGUMENT_BYTES / 8]) {
  uint64_t start, size;
  const uint64_t at = (uint64_t)(uintptr_t)arguments;
  if (arguments == NULL || !simgpu_memory_find(at, &start, &size)) return arguments;
  uint64_t bytes = start + size - at;
  if (bytes > MOST_ARGUMENT_BYTES) bytes = MOST_ARGUMENT_BYTES;
  memcpy(copy, simgpu_memory_host(at), bytes);
  for (uint64_t i = 0; i < bytes / 8; i++) {
    if (copy[i] != 0) copy[i] = (uint64_t)(uintptr_t)simgpu_memory_host(copy[i]);
  }
  return copy;
}

void simgpu_kernel_execute(const hsa_kernel_dispatch_packet_t* dispatch) {
  uint64_t generation = simgpu_memory_generation();
  if (generation != cache_generation) {
    // Memory was freed since then: its addresses may hold other kernels by now.
    memset(cache, 0, sizeof(cache));
    cache_generation = generation;
  }
  uint64_t object = dispatch->kernel_object;
  struct entry* entry = &cache[object / 64 % CACHE_SLOTS];  // descriptors: 64-aligned
  if (entry->object != object) {
    entry->standin = resolve(object);
    entry->object = object;
  }
  if (entry->standin == NULL) return;
  uint64_t copy[MOST_ARGUMENT_BYTES / 8];
  const void* arguments = dispatch->kernarg_address;
  if (simgpu_memory_any_moved()) arguments = for_the_host(arguments, copy);
  const struct simgpu_launch launch = {
      .kernarg = arguments,
      .grid_size = {dispatch->grid_size_x, dispatch->grid_size_y,
                    dispatch->grid_size_z},
      .workgroup_size = {dispatch->workgroup_size_x, dispatch->workgroup_size_y,
                         dispatch->workgroup_size_z}};
  entry->standin(&launch);
}
