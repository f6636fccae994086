#include "tests/simgpu/blit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// HIP's kernels. The argument lists are those of the kernels' declarations, which the
// library contains as source text.

struct ulong4 {
  uint64_t x, y, z, w;
} __attribute__((aligned(32)));

struct copy_arguments {
  const uint8_t* source;
  uint8_t* destination;
  uint64_t source_origin;
  uint64_t destination_origin;
  uint64_t size;
  uint32_t tail;  // copyBuffer: see below; copyBufferAligned: bytes per element
};

// The arguments since HIP 6.
struct copy_arguments_6 {
  const uint8_t* source;
  uint8_t* destination;
  uint64_t size;       // in bytes
  uint32_t remainder;  // of these, bytes not copied in larger elements
  uint32_t element;
  uint64_t end;  // start of the remainder in the destination
};

// `size` bytes if the tail is 8; else size - 1 dwords and then `tail` bytes.
static void copy_buffer(const struct simgpu_launch* launch) {
  const struct copy_arguments_6* later = launch->kernarg;
  // In the earlier list this field is a size, never an address.
  if (later->end ==
      (uint64_t)(uintptr_t)later->destination + later->size - later->remainder) {
    memmove(later->destination, later->source, later->size);
    return;
  }
  const struct copy_arguments* a = launch->kernarg;
  if (a->size == 0) return;
  uint64_t bytes = a->tail == 8 ? a->size : (a->size - 1) * 4 + a->tail;
  memmove(a->destination + a->destination_origin, a->source + a->source_origin, bytes);
}

// Origins and size in elements of 16 or 4 bytes.
static void copy_buffer_aligned(const struct simgpu_launch* launch) {
  const struct copy_arguments* a = launch->kernarg;
  uint64_t element = a->tail == 16 ? 16 : 4;
  memmove(a->destination + a->destination_origin * element,
          a->source + a->source_origin * element, a->size * element);
}

struct copy_rect_arguments {
  const uint8_t* source;
  uint8_t* destination;
  struct ulong4 source_rect;  // x: row pitch, y: slice pitch, z: offset
  struct ulong4 destination_rect;
  struct ulong4 size;
};

static void copy_rect(const struct simgpu_launch* launch, uint64_t element) {
  const struct copy_rect_arguments* a = launch->kernarg;
  for (uint64_t z = 0; z < a->size.z; z++) {
    for (uint64_t y = 0; y < a->size.y; y++) {
      uint64_t from = a->source_rect.z + y * a->source_rect.x + z * a->source_rect.y;
      uint64_t to =
          a->destination_rect.z + y * a->destination_rect.x + z * a->destination_rect.y;
      memmove(a->destination + to * element, a->source + from * element,
              a->size.x * element);
    }
  }
}

static void copy_buffer_rect(const struct simgpu_launch* launch) {
  copy_rect(launch, 1);
}

static void copy_buffer_rect_aligned(const struct simgpu_launch* launch) {
  copy_rect(launch, 4);
}

struct fill_arguments {
  // The same buffer; the pointer that is not null determines the size of an element.
  uint8_t* by_1;
  uint8_t* by_2;
  uint8_t* by_4;
  uint8_t* by_8;
  const uint8_t* pattern;
  uint32_t pattern_elements;
  uint64_t offset;  // in elements, like the fields below
  uint64_t size;    // 1D: repetitions of the pattern. 2D: width, in repetitions
  uint64_t height;
  uint64_t pitch;
};

// The arguments for one dimension since HIP 6.
struct fill_arguments_6 {
  uint8_t* buffer;
  const uint8_t* pattern;
  uint32_t pattern_elements;
  uint32_t element;
  uint64_t end;
};

static void fill_row(const struct fill_arguments* a, uint64_t row_offset) {
  uint64_t element = a->by_8 ? 8 : a->by_4 ? 4 : a->by_2 ? 2 : 1;
  uint8_t* base = a->by_8 ? a->by_8 : a->by_4 ? a->by_4 : a->by_2 ? a->by_2 : a->by_1;
  uint64_t pattern_bytes = a->pattern_elements * element;
  uint8_t* to = base + (a->offset + row_offset) * element;
  for (uint64_t i = 0; i < a->size; i++, to += pattern_bytes) {
    memcpy(to, a->pattern, pattern_bytes);
  }
}

static void fill_buffer(const struct simgpu_launch* launch) {
  const struct fill_arguments_6* later = launch->kernarg;
  // The earlier list has only one pointer to the buffer that is not null.
  if (later->buffer != NULL && later->pattern != NULL) {
    const uint64_t bytes = (uint64_t)later->pattern_elements * later->element;
    uint8_t* to = later->buffer;
    uint8_t* end = (uint8_t*)(uintptr_t)later->end;
    for (; bytes > 0 && to < end; to += bytes) memcpy(to, later->pattern, bytes);
    return;
  }
  fill_row(launch->kernarg, 0);
}

static void fill_buffer_2d(const struct simgpu_launch* launch) {
  const struct fill_arguments* a = launch->kernarg;
  for (uint64_t y = 0; y < a->height; y++) fill_row(a, y * a->pitch);
}

struct stream_write_arguments {
  volatile uint32_t* by_4;
  volatile uint64_t* by_8;
  uint64_t value;
};

static void stream_write(const struct simgpu_launch* launch) {
  const struct stream_write_arguments* a = launch->kernarg;
  if (a->by_4 != NULL) {
    *a->by_4 = (uint32_t)a->value;
  } else {
    *a->by_8 = a->value;
  }
}

simgpu_standin simgpu_blit_kernel(const char* name) {
  static const struct {
    const char* name;
    simgpu_standin standin;
  } kernels[] = {
      {"copyBuffer", copy_buffer},
      {"copyBufferAligned", copy_buffer_aligned},
      {"copyBufferRect", copy_buffer_rect},
      {"copyBufferRectAligned", copy_buffer_rect_aligned},
      {"fillBufferAligned", fill_buffer},
      {"fillBufferAligned2D", fill_buffer_2d},
      {"streamOpsWrite", stream_write},
  };
  static const char prefix[] = "__amd_rocclr_";
  if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) return NULL;
  name += sizeof(prefix) - 1;
  for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
    if (strcmp(name, kernels[i].name) == 0) return kernels[i].standin;
  }
  return NULL;
}

// The HSA runtime's shaders divide their work into phases (head, body in vectors,
// tail), each defined by its start. As a whole they copy or fill from the first start
// to the last end.

struct shader_copy_aligned {
  struct {
    uint64_t source, destination;
  } phase[5];  // the last one is the end
  uint32_t work_items;
};

struct shader_copy_misaligned {
  struct {
    uint64_t source, destination;
  } phase[3];
  uint32_t work_items;
};

struct shader_fill {
  uint64_t phase[3];
  uint32_t value;
  uint32_t work_items;
};

// True if the phases' sources and destinations advance in step.
static bool phases_agree(const uint64_t* pairs, int count) {
  for (int i = 1; i < count; i++) {
    uint64_t source_bytes = pairs[2 * i] - pairs[2 * i - 2];
    uint64_t destination_bytes = pairs[2 * i + 1] - pairs[2 * i - 1];
    if (source_bytes != destination_bytes || source_bytes > UINT64_MAX / 2)
      return false;
  }
  return true;
}

static void copy_pairs(const uint64_t* pairs, int count) {
  memmove((void*)(uintptr_t)pairs[1], (const void*)(uintptr_t)pairs[0],
          pairs[2 * count - 2] - pairs[0]);
}

void simgpu_blit_shader(const struct simgpu_launch* launch) {
  const uint32_t work_items = launch->grid_size[0];
  const struct shader_copy_aligned* aligned = launch->kernarg;
  const struct shader_copy_misaligned* misaligned = launch->kernarg;
  const struct shader_fill* fill = launch->kernarg;
  if (launch->kernarg == NULL) return;
  const uint64_t* pairs = launch->kernarg;
  // Checks the shape with the most conditions first, and that with the fewest last.
  if (aligned->work_items == work_items && phases_agree(pairs, 5)) {
    copy_pairs(pairs, 5);
  } else if (misaligned->work_items == work_items && phases_agree(pairs, 3)) {
    copy_pairs(pairs, 3);
  } else if (fill->work_items == work_items && fill->phase[0] <= fill->phase[1] &&
             fill->phase[1] <= fill->phase[2]) {
    uint32_t* to = (uint32_t*)(uintptr_t)fill->phase[0];
    uint32_t* end = (uint32_t*)(uintptr_t)fill->phase[2];
    while (to < end) *to++ = fill->value;
  } else {
    fprintf(stderr, "simgpu: a kernel outside of any code object was not recognised\n");
  }
}
