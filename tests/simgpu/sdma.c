#include "tests/simgpu/sdma.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/simgpu/clock.h"
#include "tests/simgpu/event.h"
#include "tests/simgpu/memory.h"
#include "tests/simgpu/options.h"

#define PACKETS_PER_STEP 32
#define LONGEST_PACKET_DWORDS 16

// Bits 0-7 of a packet's first dword; bits 8-15 are the sub-operation.
enum {
  OP_NOP = 0,
  OP_COPY = 1,
  OP_FENCE = 5,
  OP_TRAP = 6,
  OP_POLL_REGMEM = 8,
  OP_ATOMIC = 10,
  OP_CONST_FILL = 11,
  OP_TIMESTAMP = 13
};
enum { COPY_LINEAR = 0, COPY_LINEAR_RECT = 4 };
enum { ATOMIC_ADD_64 = 0x2f };

static atomic_uint_fast64_t copies;

uint64_t simgpu_sdma_copies(void) {
  return copies;
}

void simgpu_sdma_forget_statistics(void) {
  copies = 0;
}

static void* address_at(const uint32_t* dwords) {
  return simgpu_memory_host((uint64_t)dwords[1] << 32 | dwords[0]);
}

static uint64_t value_at(const uint32_t* dwords) {
  return (uint64_t)dwords[1] << 32 | dwords[0];
}

static uint32_t bits(uint32_t dword, int low, int count) {
  return dword >> low & ((1u << count) - 1);
}

// Keeps the engine busy with a transfer of this size from now on.
static void occupy(struct simgpu_queue* queue, uint64_t bytes) {
  atomic_fetch_add_explicit(&copies, 1, memory_order_relaxed);
  const struct simgpu_options* options = simgpu_options_get();
  uint64_t ns = options->copy_latency_ns +
                (uint64_t)((unsigned __int128)bytes * 1000 / options->copy_mbps);
  queue->busy_until_ticks = simgpu_gpu_ticks(queue->gpu) + simgpu_ns_to_ticks(ns);
}

static void copy_linear(struct simgpu_queue* queue, const uint32_t* packet) {
  uint64_t bytes = (uint64_t)bits(packet[1], 0, 30) + 1;
  memmove(address_at(packet + 5), address_at(packet + 3), bytes);
  occupy(queue, bytes);
}

// One side of a rectangle copy: five dwords. Pitches are stored minus one; all numbers
// are in elements.
struct rect_side {
  uint8_t* base;
  uint64_t pitch, slice_pitch;
};

static struct rect_side rect_side(const uint32_t* dwords, unsigned log2_element) {
  uint64_t x = bits(dwords[2], 0, 14), y = bits(dwords[2], 16, 14);
  uint64_t z = bits(dwords[3], 0, 11);
  struct rect_side side;
  side.pitch = (uint64_t)bits(dwords[3], 13, 19) + 1;
  side.slice_pitch = (uint64_t)bits(dwords[4], 0, 28) + 1;
  uint64_t offset = x + y * side.pitch + z * side.slice_pitch;
  side.base = (uint8_t*)address_at(dwords) + (offset << log2_element);
  return side;
}

static void copy_rect(struct simgpu_queue* queue, const uint32_t* packet) {
  unsigned log2_element = bits(packet[0], 29, 3);
  struct rect_side source = rect_side(packet + 1, log2_element);
  struct rect_side destination = rect_side(packet + 6, log2_element);
  uint64_t width = ((uint64_t)bits(packet[11], 0, 14) + 1) << log2_element;
  uint64_t rows = (uint64_t)bits(packet[11], 16, 14) + 1;
  uint64_t slices = (uint64_t)bits(packet[12], 0, 11) + 1;
  for (uint64_t z = 0; z < slices; z++) {
    for (uint64_t y = 0; y < rows; y++) {
      uint64_t from = (z * source.slice_pitch + y * source.pitch) << log2_element;
      uint64_t to = (z * destination.slice_pitch + y * destination.pitch)
                    << log2_element;
      // The program chooses the addresses. NOLINTNEXTLINE(clang-analyzer-core.*)
      memmove(destination.base + to, source.base + from, width);
    }
  }
  occupy(queue, width * rows * slices);
}

static void constant_fill(struct simgpu_queue* queue, const uint32_t* packet) {
  uint32_t* to = address_at(packet + 1);
  // The field is the number of bytes minus those of one dword.
  uint64_t dwords = bits(packet[4], 2, 28) + 1;
  for (uint64_t i = 0; i < dwords; i++) to[i] = packet[3];
  occupy(queue, dwords * 4);
}

static bool poll_satisfied(const uint32_t* packet) {
  bool memory = bits(packet[0], 31, 1);
  bool flush = bits(packet[0], 26, 1);
  if (!memory || flush) return true;  // a register: the data-path flush, a no-op here
  uint32_t value = __atomic_load_n((uint32_t*)address_at(packet + 1), __ATOMIC_ACQUIRE);
  value &= packet[4];
  uint32_t reference = packet[3];
  switch (bits(packet[0], 28, 3)) {
    case 1:
      return value < reference;
    case 2:
      return value <= reference;
    case 3:
      return value == reference;
    case 4:
      return value != reference;
    case 5:
      return value >= reference;
    case 6:
      return value > reference;
    default:
      return true;
  }
}

// Length of a packet in dwords; 0 if the operation is not known.
static uint32_t packet_dwords(uint32_t header) {
  switch (header & 0xff) {
    case OP_NOP:
      return 1 + bits(header, 16, 14);
    case OP_COPY:
      if (bits(header, 8, 8) == COPY_LINEAR) return 7;
      return bits(header, 8, 8) == COPY_LINEAR_RECT ? 13 : 0;
    case OP_FENCE:
      return 4;
    case OP_TRAP:
      return 2;
    case OP_POLL_REGMEM:
      return 6;
    case OP_ATOMIC:
      return 8;
    case OP_CONST_FILL:
      return 5;
    case OP_TIMESTAMP:
      return 3;
    default:
      return 0;
  }
}

// False if the packet has to wait.
static bool execute(struct simgpu_queue* queue, const uint32_t* packet) {
  switch (packet[0] & 0xff) {
    case OP_COPY:
      if (bits(packet[0], 8, 8) == COPY_LINEAR) {
        copy_linear(queue, packet);
      } else {
        copy_rect(queue, packet);
      }
      return true;
    case OP_CONST_FILL:
      constant_fill(queue, packet);
      return true;
    case OP_FENCE:
      __atomic_store_n((uint32_t*)address_at(packet + 1), packet[3], __ATOMIC_RELEASE);
      return true;
    case OP_TRAP:
      simgpu_event_fire(bits(packet[1], 0, 28));
      return true;
    case OP_POLL_REGMEM:
      return poll_satisfied(packet);
    case OP_ATOMIC:
      if (bits(packet[0], 25, 7) == ATOMIC_ADD_64) {
        __atomic_fetch_add((uint64_t*)address_at(packet + 1), value_at(packet + 3),
                           __ATOMIC_SEQ_CST);
      }
      return true;
    case OP_TIMESTAMP: {
      uint64_t now = simgpu_gpu_ticks(queue->gpu);
      __atomic_store_n((uint64_t*)address_at(packet + 1), now, __ATOMIC_RELEASE);
      return true;
    }
    default:
      return true;
  }
}

enum simgpu_step simgpu_sdma_step(struct simgpu_queue* queue) {
  if (queue->halted) return SIMGPU_IDLE;
  uint64_t end = *queue->doorbell;
  if (end == SIMGPU_DOORBELL_SILENT) return SIMGPU_IDLE;
  const uint64_t ring_dwords = queue->ring_bytes / 4;
  const uint32_t* ring = queue->ring;
  enum simgpu_step result = SIMGPU_IDLE;
  for (int done = 0; done < PACKETS_PER_STEP && queue->read_bytes < end; done++) {
    if (queue->busy_until_ticks != 0) {
      if (simgpu_gpu_ticks(queue->gpu) < queue->busy_until_ticks) {
        return result == SIMGPU_PROGRESS ? result : SIMGPU_RUNNING;
      }
      queue->busy_until_ticks = 0;
    }
    uint64_t at = queue->read_bytes / 4;
    uint32_t header = ring[at % ring_dwords];
    uint32_t dwords = packet_dwords(header);
    if (dwords == 0) {
      fprintf(stderr, "simgpu: SDMA operation %#x is not simulated\n", header & 0xffff);
      queue->halted = true;
      return SIMGPU_IDLE;
    }
    uint32_t packet[LONGEST_PACKET_DWORDS] = {0};
    for (uint32_t i = 0; i < dwords && i < LONGEST_PACKET_DWORDS; i++) {
      packet[i] = ring[(at + i) % ring_dwords];
    }
    if (!execute(queue, packet)) {
      return result == SIMGPU_PROGRESS ? result : SIMGPU_BLOCKED;
    }
    queue->read_bytes += (uint64_t)dwords * 4;
    __atomic_store_n(queue->read_word, queue->read_bytes, __ATOMIC_RELEASE);
    result = SIMGPU_PROGRESS;
  }
  return result;
}
