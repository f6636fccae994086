#include "tests/simgpu/kernel.h"

#include <stdio.h>
#include <string.h>

#include "tests/simgpu/blit.h"
#include "tests/simgpu/elf_image.h"
#include "tests/simgpu/memory.h"
#include "tests/simgpu/standin.h"

#define CACHE_SLOTS 1024
#define MAX_NAME 1024

// Resolved kernels, by kernel object. A direct-mapped cache: two kernels that share a
// slot only cost another resolution.
struct entry {
  uint64_t object;         // 0: free
  simgpu_standin standin;  // NULL: computes nothing
};

static struct entry cache[CACHE_SLOTS];
static uint64_t cache_generation;

static simgpu_standin resolve(uint64_t object) {
  uintptr_t start;
  uint64_t size;
  if (!simgpu_memory_find((const void*)(uintptr_t)object, &start, &size)) return NULL;
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

void simgpu_kernel_execute(const hsa_kernel_dispatch_packet_t* dispatch) {
  uint64_t generation = simgpu_memory_generation();
  if (generation != cache_generation) {
    // Memory was freed since: its addresses may hold other kernels by now.
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
  const struct simgpu_launch launch = {
      .kernarg = dispatch->kernarg_address,
      .grid_size = {dispatch->grid_size_x, dispatch->grid_size_y,
                    dispatch->grid_size_z},
      .workgroup_size = {dispatch->workgroup_size_x, dispatch->workgroup_size_y,
                         dispatch->workgroup_size_z}};
  entry->standin(&launch);
}
