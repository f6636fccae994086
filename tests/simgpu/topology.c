#define _GNU_SOURCE
#include "tests/simgpu/topology.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simgpu/options.h"

#define GIB (1024ull * 1024 * 1024)
#define SIMDS_PER_CU 4
#define COPY_ENGINES 2
#define PEER_COPY_ENGINES 3
#define GPU_CACHES 2

// Kinds of memory and links, as the driver numbers them.
enum { HEAP_SYSTEM = 0, HEAP_FRAME_BUFFER_PRIVATE = 2 };
enum { LINK_PCIE = 2, LINK_XGMI = 11 };
enum { CACHE_DATA = 1, CACHE_CPU = 4, CACHE_GPU = 8 };

// Bits of a node's capabilities.
#define CAP_QUEUE_SIZE_POWER_OF_TWO (1u << 3)
#define CAP_WATCH_POINTS (1u << 7)
#define CAP_WATCH_POINTS_LOG2(count) ((uint32_t)(count) << 8)
// A doorbell takes the 64-bit index of the last packet, as on gfx9 and later.
#define CAP_DOORBELL_64 (2u << 12)
#define CAP_SRAM_ECC (1u << 26)
#define CAP_SVM (1u << 27)

// Properties that differ between the architectures, from the products' data sheets.
struct model {
  const char* marketing_name;
  const char* family;
  uint16_t device_id;
  unsigned target_version;  // ISA: major, minor and stepping in decimal
  unsigned compute_units, shader_engines, max_waves_per_simd;
  unsigned clock_mhz, memory_clock_mhz, memory_width_bits;
  unsigned l2_kib;
  bool sram_ecc;
  uint64_t memory_bytes;
};

static const struct model models[] = {
    [SIMGPU_ARCH_GFX90A] = {"Simulated AMD Instinct MI210", "aldebaran", 0x740f, 90010,
                            104, 8, 8, 1700, 1600, 4096, 8192, true, 64 * GIB},
    [SIMGPU_ARCH_GFX906] = {"Simulated AMD Radeon Instinct MI50", "vega20", 0x66a1,
                            90006, 60, 4, 10, 1725, 1000, 4096, 4096, false, 32 * GIB},
};

static const struct model* model(void) {
  return &models[simgpu_options_get()->arch];
}

static unsigned gpu_count(void) {
  return simgpu_options_get()->gpu_count;
}

uint32_t simgpu_gpu_id(unsigned gpu) {
  return 0x1001u + gpu;
}

bool simgpu_gpu_of_id(uint32_t gpu_id, unsigned* gpu) {
  *gpu = gpu_id - 0x1001u;
  return *gpu < gpu_count();
}

uint32_t simgpu_device_id(void) {
  return model()->device_id;
}

const char* simgpu_marketing_name(void) {
  return model()->marketing_name;
}

unsigned simgpu_compute_units(void) {
  return model()->compute_units;
}

unsigned simgpu_copy_engines(void) {
  return COPY_ENGINES + (gpu_count() > 1 ? PEER_COPY_ENGINES : 0);
}

uint64_t simgpu_memory_bytes(void) {
  return model()->memory_bytes;
}

// --- Text ---

// Text under construction. Text that is too long is left out, which the tests notice.
struct text {
  char bytes[4096];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text* text,
                                                      const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t room = sizeof(text->bytes) - text->used;
  const int length = vsnprintf(text->bytes + text->used, room, format, arguments);
  va_end(arguments);
  if (length > 0 && (size_t)length < room) text->used += (size_t)length;
}

static void property(struct text* text, const char* name, uint64_t value) {
  add(text, "%s %llu\n", name, (unsigned long long)value);
}

// Adds a name in a folder.
static void entry(struct text* text, const char* name) {
  add(text, "%s%c", name, '\0');
}

static void numbered_entries(struct text* text, unsigned count) {
  for (unsigned i = 0; i < count; i++) add(text, "%u%c", i, '\0');
}

// --- Nodes ---

static void cpu_properties(struct text* text) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  property(text, "cpu_cores_count", cores > 0 ? (uint64_t)cores : 1);
  property(text, "simd_count", 0);
  property(text, "mem_banks_count", 1);
  property(text, "caches_count", 1);
  property(text, "io_links_count", gpu_count());
  property(text, "max_engine_clk_ccompute", 3000);
}

static void gpu_properties(struct text* text, unsigned gpu) {
  const struct model* m = model();
  const bool peers = gpu_count() > 1;
  property(text, "cpu_cores_count", 0);
  property(text, "simd_count", m->compute_units * SIMDS_PER_CU);
  property(text, "mem_banks_count", 1);
  property(text, "caches_count", GPU_CACHES);
  property(text, "io_links_count", gpu_count());
  property(text, "p2p_links_count", 0);
  property(text, "cpu_core_id_base", 0);
  property(text, "simd_id_base", 0x80000000u + gpu * 0x1000u);
  property(text, "max_waves_per_simd", m->max_waves_per_simd);
  property(text, "lds_size_in_kb", 64);
  property(text, "gds_size_in_kb", 0);
  property(text, "num_gws", 64);
  property(text, "wave_front_size", 64);
  property(text, "array_count", m->shader_engines);
  property(text, "simd_arrays_per_engine", 1);
  property(text, "cu_per_simd_array", m->compute_units / m->shader_engines);
  property(text, "simd_per_cu", SIMDS_PER_CU);
  property(text, "max_slots_scratch_cu", 32);
  property(text, "gfx_target_version", m->target_version);
  property(text, "vendor_id", 0x1002);
  property(text, "device_id", m->device_id);
  property(text, "location_id", (0x03 + 0x20 * gpu) << 8);
  property(text, "domain", 0);
  property(text, "drm_render_minor", SIMGPU_FIRST_RENDER_MINOR + gpu);
  property(text, "hive_id", peers ? 0x51a6b00000000001u : 0);
  property(text, "num_sdma_engines", COPY_ENGINES);
  property(text, "num_sdma_xgmi_engines", peers ? PEER_COPY_ENGINES : 0);
  property(text, "num_sdma_queues_per_engine", 8);
  property(text, "num_cp_queues", 24);
  property(text, "max_engine_clk_fcompute", m->clock_mhz);
  property(text, "local_mem_size", 0);  // the memory bank has the size
  property(text, "fw_version", 70);
  property(text, "capability",
           CAP_QUEUE_SIZE_POWER_OF_TWO | CAP_WATCH_POINTS | CAP_WATCH_POINTS_LOG2(2) |
               CAP_DOORBELL_64 | (m->sram_ecc ? CAP_SRAM_ECC : 0) | CAP_SVM);
  property(text, "debug_prop", 0);
  property(text, "sdma_fw_version", 8);
  property(text, "unique_id", 0x51a6b00000001000u + gpu);
  property(text, "num_xcc", 1);
  property(text, "max_engine_clk_ccompute", 3000);
}

static void bank(struct text* text, bool is_gpu) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const uint64_t host = pages > 0 ? (uint64_t)pages * 4096 : 4 * GIB;
  property(text, "heap_type", is_gpu ? HEAP_FRAME_BUFFER_PRIVATE : HEAP_SYSTEM);
  property(text, "size_in_bytes", is_gpu ? model()->memory_bytes : host);
  property(text, "flags", 0);
  property(text, "width", is_gpu ? model()->memory_width_bits : 64);
  property(text, "mem_clk_max", is_gpu ? model()->memory_clock_mhz : 3200);
}

static void cache(struct text* text, bool is_gpu, unsigned index) {
  property(text, "processor_id_low", 0);
  property(text, "level", index + 1);
  property(text, "size", !is_gpu ? 32 : index == 0 ? 16 : model()->l2_kib);
  property(text, "cache_line_size", 64);
  property(text, "cache_lines_per_tag", 1);
  property(text, "association", 16);
  property(text, "latency", 0);
  property(text, "type", CACHE_DATA | (is_gpu ? CACHE_GPU : CACHE_CPU));
  add(text, "sibling_map 1\n");
}

static void describe_link(struct text* text, unsigned from, unsigned index) {
  const unsigned to = index < from ? index : index + 1;
  const bool between_gpus = from != 0 && to != 0;
  property(text, "type", between_gpus ? LINK_XGMI : LINK_PCIE);
  property(text, "version_major", 0);
  property(text, "version_minor", 0);
  property(text, "node_from", from);
  property(text, "node_to", to);
  property(text, "weight", between_gpus ? 15 : 20);
  property(text, "min_latency", 0);
  property(text, "max_latency", 0);
  property(text, "min_bandwidth", between_gpus ? 50000 : 32000);
  property(text, "max_bandwidth", between_gpus ? 50000 : 32000);
  property(text, "recommended_transfer_size", 0);
  property(text, "flags", 1);
}

// --- Paths ---

// True if `*path` begins with this name, which is then removed from it.
static bool take(const char** path, const char* name) {
  const char* at = *path;
  while (*at == '/') at++;
  const size_t length = strlen(name);
  if (strncmp(at, name, length) != 0 || (at[length] != '/' && at[length] != '\0')) {
    return false;
  }
  *path = at + length;
  return true;
}

static bool take_number(const char** path, unsigned below, unsigned* number) {
  const char* at = *path;
  while (*at == '/') at++;
  char* end;
  const unsigned long value = strtoul(at, &end, 10);
  if (end == at || (*end != '/' && *end != '\0') || *at == '-' || value >= below) {
    return false;
  }
  *number = (unsigned)value;
  *path = end;
  return true;
}

static bool at_end(const char* path) {
  while (*path == '/') path++;
  return *path == '\0';
}

// A folder of `count` folders, each with a file "properties".
static enum simgpu_path bundle(const char* path, unsigned count, struct text* text,
                               unsigned* index) {
  if (at_end(path)) {
    numbered_entries(text, count);
    return SIMGPU_PATH_FOLDER;
  }
  if (!take_number(&path, count, index)) return SIMGPU_PATH_ABSENT;
  if (at_end(path)) {
    entry(text, "properties");
    return SIMGPU_PATH_FOLDER;
  }
  return take(&path, "properties") && at_end(path) ? SIMGPU_PATH_FILE
                                                   : SIMGPU_PATH_ABSENT;
}

static enum simgpu_path node_at(const char* path, unsigned node, struct text* text) {
  const bool is_gpu = node > 0;
  unsigned index;
  if (at_end(path)) {
    static const char* const names[] = {"gpu_id", "name",     "properties", "mem_banks",
                                        "caches", "io_links", "p2p_links"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) entry(text, names[i]);
    return SIMGPU_PATH_FOLDER;
  }
  if (take(&path, "mem_banks")) {
    const enum simgpu_path found = bundle(path, 1, text, &index);
    if (found == SIMGPU_PATH_FILE) bank(text, is_gpu);
    return found;
  }
  if (take(&path, "caches")) {
    const enum simgpu_path found = bundle(path, is_gpu ? GPU_CACHES : 1, text, &index);
    if (found == SIMGPU_PATH_FILE) cache(text, is_gpu, index);
    return found;
  }
  if (take(&path, "io_links")) {
    // The CPU sees every GPU; a GPU sees the CPU and all other GPUs.
    const enum simgpu_path found = bundle(path, gpu_count(), text, &index);
    if (found == SIMGPU_PATH_FILE) describe_link(text, node, index);
    return found;
  }
  if (take(&path, "p2p_links")) return bundle(path, 0, text, &index);
  if (take(&path, "gpu_id")) {
    add(text, "%u\n", is_gpu ? simgpu_gpu_id(node - 1) : 0);
  } else if (take(&path, "name")) {
    add(text, "%s\n", is_gpu ? model()->family : "");
  } else if (take(&path, "properties")) {
    if (is_gpu) {
      gpu_properties(text, node - 1);
    } else {
      cpu_properties(text);
    }
  } else {
    return SIMGPU_PATH_ABSENT;
  }
  return at_end(path) ? SIMGPU_PATH_FILE : SIMGPU_PATH_ABSENT;
}

static enum simgpu_path topology_at(const char* path, struct text* text) {
  if (at_end(path)) {
    entry(text, "generation_id");
    entry(text, "system_properties");
    entry(text, "nodes");
    return SIMGPU_PATH_FOLDER;
  }
  if (take(&path, "nodes")) {
    unsigned node;
    if (at_end(path)) {
      numbered_entries(text, 1 + gpu_count());
      return SIMGPU_PATH_FOLDER;
    }
    if (!take_number(&path, 1 + gpu_count(), &node)) return SIMGPU_PATH_ABSENT;
    return node_at(path, node, text);
  }
  if (take(&path, "generation_id")) {
    add(text, "1\n");
  } else if (take(&path, "system_properties")) {
    add(text, "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
  } else {
    return SIMGPU_PATH_ABSENT;
  }
  return at_end(path) ? SIMGPU_PATH_FILE : SIMGPU_PATH_ABSENT;
}

static enum simgpu_path find(const char* path, struct text* text) {
  // For lsmod, with which programs look for the driver. No other module matters.
  if (take(&path, "proc/modules")) {
    add(text, "amdgpu 1 0 - Live 0x0000000000000000\n");
    return at_end(path) ? SIMGPU_PATH_FILE : SIMGPU_PATH_ABSENT;
  }
  if (take(&path, "sys/module/amdgpu")) {
    if (at_end(path)) return SIMGPU_PATH_FOLDER;
    if (take(&path, "holders") && at_end(path)) return SIMGPU_PATH_FOLDER;
    if (!take(&path, "initstate") || !at_end(path)) return SIMGPU_PATH_ABSENT;
    add(text, "live\n");
    return SIMGPU_PATH_FILE;
  }
  if (!take(&path, "sys/class/kfd") && !take(&path, "sys/devices/virtual/kfd")) {
    return SIMGPU_PATH_OTHER;
  }
  if (at_end(path)) {
    entry(text, "kfd");
    return SIMGPU_PATH_FOLDER;
  }
  if (!take(&path, "kfd")) return SIMGPU_PATH_ABSENT;
  if (at_end(path)) {
    entry(text, "topology");
    return SIMGPU_PATH_FOLDER;
  }
  return take(&path, "topology") ? topology_at(path, text) : SIMGPU_PATH_ABSENT;
}

bool simgpu_topology_may_be(const char* path) {
  return path != NULL &&
         (strncmp(path, "/sys/", 5) == 0 || strcmp(path, "/proc/modules") == 0);
}

enum simgpu_path simgpu_topology_at(const char* path, char** text, size_t* bytes) {
  if (!simgpu_topology_may_be(path) || !simgpu_options_ready()) {
    return SIMGPU_PATH_OTHER;
  }
  struct text written = {.used = 0};
  const enum simgpu_path found = find(path, &written);
  if (text != NULL) {
    *text = malloc(written.used + 1);
    if (*text != NULL) {
      memcpy(*text, written.bytes, written.used);
      (*text)[written.used] = '\0';
      *bytes = written.used;
    }
  }
  return found;
}
