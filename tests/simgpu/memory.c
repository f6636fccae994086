#define _GNU_SOURCE
#include "tests/simgpu/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/simgpu/options.h"

#define PAGE_BYTES 4096u

struct range {
  uintptr_t start;
  uint64_t size;
  HSA_POINTER_TYPE type;
  uint32_t node;
  HsaMemFlags flags;
  unsigned registrations;
  void* user_data;
  uint32_t mapped_count;
  uint32_t mapped[SIMGPU_MAX_GPUS + 1];
};

// Pointers, sorted by start: HsaPointerInfo hands out the address of range.mapped,
// which must not move when a neighbour comes or goes.
static struct {
  pthread_mutex_t lock;
  struct range** ranges;
  size_t count;
  size_t capacity;
  atomic_uint_fast64_t generation;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Index of the first range that starts above `address`.
static size_t upper_bound(uintptr_t address) {
  size_t low = 0, high = memory.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (memory.ranges[middle]->start <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Registered ranges may overlap, so all ranges that start below are candidates; the
// nearest one that contains the address wins.
static struct range* find_containing(uintptr_t address) {
  for (size_t i = upper_bound(address); i > 0; i--) {
    struct range* range = memory.ranges[i - 1];
    if (address - range->start < range->size) return range;
  }
  return NULL;
}

static struct range* find_start(uintptr_t start, HSA_POINTER_TYPE type) {
  for (size_t i = upper_bound(start); i > 0; i--) {
    struct range* range = memory.ranges[i - 1];
    if (range->start != start) break;
    if (range->type == type) return range;
  }
  return NULL;
}

enum { kPointer = sizeof(void*) };  // of an entry of memory.ranges

static bool insert(struct range* range) {
  if (memory.count == memory.capacity) {
    size_t capacity = memory.capacity ? memory.capacity * 2 : 256;
    struct range** grown = realloc(memory.ranges, capacity * kPointer);
    if (grown == NULL) return false;
    memory.ranges = grown;
    memory.capacity = capacity;
  }
  size_t at = upper_bound(range->start);
  memmove(&memory.ranges[at + 1], &memory.ranges[at], (memory.count - at) * kPointer);
  memory.ranges[at] = range;
  memory.count++;
  return true;
}

static void erase(struct range* range) {
  for (size_t i = upper_bound(range->start); i > 0; i--) {
    if (memory.ranges[i - 1] != range) continue;
    memmove(&memory.ranges[i - 1], &memory.ranges[i], (memory.count - i) * kPointer);
    memory.count--;
    free(range);
    return;
  }
}

static HSAKMT_STATUS add_range(void* address, uint64_t size, HSA_POINTER_TYPE type,
                               uint32_t node, HsaMemFlags flags) {
  struct range* range = calloc(1, sizeof(*range));
  if (range == NULL) return HSAKMT_STATUS_NO_MEMORY;
  range->start = (uintptr_t)address;
  range->size = size;
  range->type = type;
  range->node = node;
  range->flags = flags;
  range->registrations = 1;
  pthread_mutex_lock(&memory.lock);
  bool inserted = insert(range);
  pthread_mutex_unlock(&memory.lock);
  if (inserted) return HSAKMT_STATUS_SUCCESS;
  free(range);
  return HSAKMT_STATUS_NO_MEMORY;
}

// MAP_FAILED if there is no room. `fixed`: where it must be, NULL for anywhere.
static void* map_pages(void* fixed, uint64_t size) {
  const int anywhere = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const int flags = fixed != NULL ? anywhere | MAP_FIXED_NOREPLACE : anywhere;
  return mmap(fixed, size, PROT_READ | PROT_WRITE, flags, -1, 0);
}

// The same at a multiple of `alignment`: what is mapped too much is given back.
static void* map_aligned(uint64_t size, uint64_t alignment) {
  if (size > SIZE_MAX - alignment) return MAP_FAILED;
  uint8_t* mapped = map_pages(NULL, size + alignment);
  if (mapped == MAP_FAILED) return MAP_FAILED;
  uintptr_t start = ((uintptr_t)mapped + alignment - 1) & ~(uintptr_t)(alignment - 1);
  const uint64_t before = start - (uintptr_t)mapped, behind = alignment - before;
  if (before > 0) munmap(mapped, before);
  if (behind > 0) munmap((void*)(start + size), behind);
  return (void*)start;
}

HSAKMT_STATUS simgpu_memory_allocate(uint32_t node, uint64_t size, HsaMemFlags flags,
                                     void** address) {
  return simgpu_memory_allocate_aligned(node, size, 0, flags, address);
}

HSAKMT_STATUS simgpu_memory_allocate_aligned(uint32_t node, uint64_t size,
                                             uint64_t alignment, HsaMemFlags flags,
                                             void** address) {
  if (size == 0 || size % PAGE_BYTES != 0) return HSAKMT_STATUS_INVALID_PARAMETER;
  if (alignment != 0 &&
      (alignment < PAGE_BYTES || (alignment & (alignment - 1)) != 0)) {
    return HSAKMT_STATUS_INVALID_PARAMETER;
  }
  const bool fixed = flags.ui32.FixedAddress;
  if (fixed && alignment != 0 && (uintptr_t)*address % alignment != 0) {
    return HSAKMT_STATUS_INVALID_PARAMETER;
  }
  void* mapped = fixed || alignment <= PAGE_BYTES
                     ? map_pages(fixed ? *address : NULL, size)
                     : map_aligned(size, alignment);
  if (mapped == MAP_FAILED) return HSAKMT_STATUS_NO_MEMORY;
  HSAKMT_STATUS status = add_range(mapped, size, HSA_POINTER_ALLOCATED, node, flags);
  if (status != HSAKMT_STATUS_SUCCESS) {
    munmap(mapped, size);
    return status;
  }
  *address = mapped;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS simgpu_memory_free(void* address, uint64_t size) {
  pthread_mutex_lock(&memory.lock);
  struct range* range = find_start((uintptr_t)address, HSA_POINTER_ALLOCATED);
  if (range == NULL || range->size != size) {
    pthread_mutex_unlock(&memory.lock);
    return HSAKMT_STATUS_INVALID_PARAMETER;
  }
  erase(range);
  // Under the lock: no new allocation can get these addresses before the entry of the
  // old one is gone, and no reader keeps conclusions about them.
  munmap(address, size);
  atomic_fetch_add_explicit(&memory.generation, 1, memory_order_release);
  pthread_mutex_unlock(&memory.lock);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS simgpu_memory_register(void* address, uint64_t size, HsaMemFlags flags) {
  if (address == NULL || size == 0) return HSAKMT_STATUS_INVALID_PARAMETER;
  pthread_mutex_lock(&memory.lock);
  struct range* range = find_start((uintptr_t)address, HSA_POINTER_REGISTERED_USER);
  bool again = range != NULL && range->size == size;
  if (again) range->registrations++;
  pthread_mutex_unlock(&memory.lock);
  if (again) return HSAKMT_STATUS_SUCCESS;
  return add_range(address, size, HSA_POINTER_REGISTERED_USER, 0, flags);
}

HSAKMT_STATUS simgpu_memory_deregister(void* address) {
  pthread_mutex_lock(&memory.lock);
  struct range* range = find_start((uintptr_t)address, HSA_POINTER_REGISTERED_USER);
  if (range != NULL && --range->registrations == 0) erase(range);
  pthread_mutex_unlock(&memory.lock);
  return range != NULL ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_MEMORY_NOT_REGISTERED;
}

HSAKMT_STATUS simgpu_memory_map(void* address, uint64_t node_count,
                                const uint32_t* nodes) {
  pthread_mutex_lock(&memory.lock);
  struct range* range = find_containing((uintptr_t)address);
  if (range != NULL && nodes != NULL) {
    uint32_t count = 0;
    for (uint64_t i = 0; i < node_count && count < SIMGPU_MAX_GPUS + 1; i++) {
      range->mapped[count++] = nodes[i];
    }
    range->mapped_count = count;
  }
  pthread_mutex_unlock(&memory.lock);
  return range != NULL ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS simgpu_memory_unmap(void* address) {
  pthread_mutex_lock(&memory.lock);
  struct range* range = find_containing((uintptr_t)address);
  if (range != NULL) range->mapped_count = 0;
  pthread_mutex_unlock(&memory.lock);
  return range != NULL ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

HSAKMT_STATUS simgpu_memory_query(const void* address, HsaPointerInfo* info) {
  memset(info, 0, sizeof(*info));
  pthread_mutex_lock(&memory.lock);
  const struct range* range = find_containing((uintptr_t)address);
  if (range != NULL) {
    info->Type = range->type;
    info->Node = range->node;
    info->MemFlags = range->flags;
    info->CPUAddress = (void*)range->start;
    info->GPUAddress = range->start;
    info->SizeInBytes = range->size;
    info->NMappedNodes = range->mapped_count;
    info->MappedNodes = range->mapped;
    info->UserData = range->user_data;
  } else {
    info->Type = HSA_POINTER_UNKNOWN;
  }
  pthread_mutex_unlock(&memory.lock);
  return range != NULL ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_ERROR;
}

HSAKMT_STATUS simgpu_memory_set_user_data(const void* address, void* user_data) {
  pthread_mutex_lock(&memory.lock);
  struct range* range = find_containing((uintptr_t)address);
  if (range != NULL) range->user_data = user_data;
  pthread_mutex_unlock(&memory.lock);
  return range != NULL ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}

uint64_t simgpu_memory_used(uint32_t node) {
  uint64_t used = 0;
  pthread_mutex_lock(&memory.lock);
  for (size_t i = 0; i < memory.count; i++) {
    const struct range* range = memory.ranges[i];
    if (range->type == HSA_POINTER_ALLOCATED && range->node == node &&
        !range->flags.ui32.Scratch) {
      used += range->size;
    }
  }
  pthread_mutex_unlock(&memory.lock);
  return used;
}

bool simgpu_memory_find(const void* address, uintptr_t* start, uint64_t* size) {
  pthread_mutex_lock(&memory.lock);
  const struct range* range = find_containing((uintptr_t)address);
  if (range != NULL) {
    *start = range->start;
    *size = range->size;
  }
  pthread_mutex_unlock(&memory.lock);
  return range != NULL;
}

uint64_t simgpu_memory_generation(void) {
  return atomic_load_explicit(&memory.generation, memory_order_acquire);
}

void simgpu_memory_before_fork(void) {
  pthread_mutex_lock(&memory.lock);
}

void simgpu_memory_after_fork_parent(void) {
  pthread_mutex_unlock(&memory.lock);
}

void simgpu_memory_after_fork_child(void) {
  // The parent's ranges are not this process's: forget them, but leave them mapped
  // (they are private copies), because destructors that run in the child may still read
  // them.
  pthread_mutex_init(&memory.lock, NULL);
  memory.count = 0;
}
