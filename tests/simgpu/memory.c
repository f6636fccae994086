#define _GNU_SOURCE
#include "tests/simgpu/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/simgpu/device_file.h"

#define PAGE_BYTES 4096u

// Buffers by handle (index + 1), and those with an address, sorted by the address.
static struct {
  pthread_mutex_t lock;
  struct simgpu_buffer** by_handle;
  size_t handles;
  size_t free_hint;  // no handle below is free
  struct simgpu_buffer** sorted;
  size_t count;
  size_t capacity;
  uint64_t next_offset;
  atomic_size_t moved;  // buffers whose address is not the host's
  atomic_uint_fast64_t generation;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { kPointer = sizeof(void*) };  // size of an entry of both lists

// Index of the first buffer that starts above `address`.
static size_t upper_bound(uint64_t address) {
  size_t low = 0, high = memory.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (memory.sorted[middle]->address <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The nearest buffer that starts at or below the address and contains it: registered
// memory may overlap, but not by much, which bounds the search.
static struct simgpu_buffer* find_containing(uint64_t address) {
  size_t tried = 0;
  for (size_t i = upper_bound(address); i > 0 && tried < 64; i--, tried++) {
    struct simgpu_buffer* buffer = memory.sorted[i - 1];
    if (address - buffer->address < buffer->bytes) return buffer;
  }
  return NULL;
}

// Caller holds the lock.
static bool insert_sorted(struct simgpu_buffer* buffer) {
  if (memory.count == memory.capacity) {
    size_t capacity = memory.capacity ? memory.capacity * 2 : 256;
    struct simgpu_buffer** grown = realloc(memory.sorted, capacity * kPointer);
    if (grown == NULL) return false;
    memory.sorted = grown;
    memory.capacity = capacity;
  }
  size_t at = upper_bound(buffer->address);
  memmove(&memory.sorted[at + 1], &memory.sorted[at], (memory.count - at) * kPointer);
  memory.sorted[at] = buffer;
  memory.count++;
  return true;
}

// Caller holds the lock.
static void erase_sorted(const struct simgpu_buffer* buffer) {
  for (size_t i = upper_bound(buffer->address); i > 0; i--) {
    if (memory.sorted[i - 1] != buffer) continue;
    memmove(&memory.sorted[i - 1], &memory.sorted[i], (memory.count - i) * kPointer);
    memory.count--;
    return;
  }
}

// Caller holds the lock. 0 if there is no room.
static uint64_t take_handle(struct simgpu_buffer* buffer) {
  size_t i = memory.free_hint;
  while (i < memory.handles && memory.by_handle[i] != NULL) i++;
  if (i == memory.handles) {
    size_t handles = memory.handles ? memory.handles * 2 : 256;
    struct simgpu_buffer** grown = realloc(memory.by_handle, handles * kPointer);
    if (grown == NULL) return 0;
    memset(grown + memory.handles, 0, (handles - memory.handles) * kPointer);
    memory.by_handle = grown;
    memory.handles = handles;
  }
  memory.by_handle[i] = buffer;
  memory.free_hint = i + 1;
  return i + 1;
}

// Caller holds the lock.
static void drop_handle(uint64_t handle) {
  memory.by_handle[handle - 1] = NULL;
  if (handle - 1 < memory.free_hint) memory.free_hint = handle - 1;
}

// Caller holds the lock.
static struct simgpu_buffer* at_handle(uint64_t handle) {
  return handle == 0 || handle > memory.handles ? NULL : memory.by_handle[handle - 1];
}

static bool is_moved(const struct simgpu_buffer* buffer) {
  return buffer->kind == SIMGPU_MEMORY_USER && buffer->host != buffer->address;
}

int simgpu_memory_allocate(struct simgpu_buffer* buffer, uint64_t* handle) {
  if (buffer->bytes == 0 || buffer->bytes > (1ull << 43)) return EINVAL;
  struct simgpu_buffer* added = malloc(sizeof(*added));
  if (added == NULL) return ENOMEM;
  pthread_mutex_lock(&memory.lock);
  if (buffer->kind != SIMGPU_MEMORY_USER && buffer->kind != SIMGPU_MEMORY_REGISTERS) {
    // Offsets are never reused: a client's forgotten mapping of a freed buffer must not
    // show another one.
    if (memory.next_offset == 0) memory.next_offset = SIMGPU_FILE_BUFFERS;
    buffer->offset = memory.next_offset;
    memory.next_offset +=
        (buffer->bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
  }
  *added = *buffer;
  *handle = take_handle(added);
  bool ok = *handle != 0;
  if (ok && added->address != 0 && !insert_sorted(added)) {
    drop_handle(*handle);
    ok = false;
  }
  if (ok && is_moved(added)) memory.moved++;
  pthread_mutex_unlock(&memory.lock);
  if (!ok) free(added);
  return ok ? 0 : ENOMEM;
}

int simgpu_memory_free(uint64_t handle) {
  pthread_mutex_lock(&memory.lock);
  struct simgpu_buffer* buffer = at_handle(handle);
  if (buffer != NULL) {
    drop_handle(handle);
    if (buffer->address != 0) erase_sorted(buffer);
    if (is_moved(buffer)) memory.moved--;
    atomic_fetch_add_explicit(&memory.generation, 1, memory_order_release);
  }
  pthread_mutex_unlock(&memory.lock);
  if (buffer == NULL) return EINVAL;
  if (buffer->kind != SIMGPU_MEMORY_USER && buffer->kind != SIMGPU_MEMORY_REGISTERS) {
    simgpu_file_discard(buffer->offset, buffer->bytes);
  }
  free(buffer);
  return 0;
}

bool simgpu_memory_get(uint64_t handle, struct simgpu_buffer* buffer) {
  pthread_mutex_lock(&memory.lock);
  const struct simgpu_buffer* found = at_handle(handle);
  if (found != NULL) *buffer = *found;
  pthread_mutex_unlock(&memory.lock);
  return found != NULL;
}

int simgpu_memory_make_accessible(uint64_t handle) {
  struct simgpu_buffer buffer;
  if (!simgpu_memory_get(handle, &buffer)) return EINVAL;
  // Memory that the host can use has been mapped by the host itself.
  if (buffer.kind != SIMGPU_MEMORY_DEVICE || buffer.address == 0) return 0;
  // The runtime has reserved the address.
  return simgpu_file_map_at(buffer.address, buffer.offset, buffer.bytes) ? 0 : ENOMEM;
}

uint64_t simgpu_memory_used(unsigned gpu) {
  uint64_t used = 0;
  pthread_mutex_lock(&memory.lock);
  for (size_t i = 0; i < memory.handles; i++) {
    const struct simgpu_buffer* buffer = memory.by_handle[i];
    if (buffer != NULL && buffer->gpu == gpu &&
        (buffer->kind == SIMGPU_MEMORY_DEVICE ||
         buffer->kind == SIMGPU_MEMORY_VISIBLE)) {
      used += buffer->bytes;
    }
  }
  pthread_mutex_unlock(&memory.lock);
  return used;
}

bool simgpu_memory_find(uint64_t address, uint64_t* start, uint64_t* size) {
  pthread_mutex_lock(&memory.lock);
  const struct simgpu_buffer* buffer = find_containing(address);
  if (buffer != NULL) {
    *start = buffer->address;
    *size = buffer->bytes;
  }
  pthread_mutex_unlock(&memory.lock);
  return buffer != NULL;
}

bool simgpu_memory_any_moved(void) {
  return memory.moved > 0;
}

void* simgpu_memory_host(uint64_t address) {
  if (memory.moved == 0) return (void*)(uintptr_t)address;
  uint64_t host = address;
  pthread_mutex_lock(&memory.lock);
  const struct simgpu_buffer* buffer = find_containing(address);
  if (buffer != NULL && is_moved(buffer)) {
    host = buffer->host + (address - buffer->address);
  }
  pthread_mutex_unlock(&memory.lock);
  return (void*)(uintptr_t)host;
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
  // The parent's buffers are not this process's.
  pthread_mutex_init(&memory.lock, NULL);
  for (size_t i = 0; i < memory.handles; i++) {
    free(memory.by_handle[i]);
    memory.by_handle[i] = NULL;
  }
  memory.free_hint = 0;
  memory.count = 0;
  memory.next_offset = 0;
  memory.moved = 0;
  memory.generation++;
}
