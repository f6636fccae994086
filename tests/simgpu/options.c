#include "tests/simgpu/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_OPTIONS                                                                \
  {                                                                                    \
    .arch = SIMGPU_ARCH_GFX90A, .gpu_count = 1, .kernel_ns = 5000, .copy_mbps = 16000, \
    .copy_latency_ns = 1000, .unrung_ns = 10000000, .stats_path = NULL                 \
  }

static struct simgpu_options options = DEFAULT_OPTIONS;
static bool tried;  // to read the options
static bool loaded_once;

static bool read_number(const char* name, uint64_t low, uint64_t high, uint64_t* out) {
  const char* text = getenv(name);
  if (text == NULL || *text == '\0') return true;
  char* end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || *text == '-' || value < low || value > high) {
    fprintf(stderr, "simgpu: %s=%s: want a number from %llu to %llu\n", name, text,
            (unsigned long long)low, (unsigned long long)high);
    return false;
  }
  *out = value;
  return true;
}

bool simgpu_options_load(void) {
  tried = true;
  struct simgpu_options loaded = DEFAULT_OPTIONS;
  const char* arch = getenv("SIMGPU_ARCH");
  if (arch != NULL && *arch != '\0') {
    if (strcmp(arch, "gfx90a") == 0) {
      loaded.arch = SIMGPU_ARCH_GFX90A;
    } else if (strcmp(arch, "gfx906") == 0) {
      loaded.arch = SIMGPU_ARCH_GFX906;
    } else {
      fprintf(stderr, "simgpu: SIMGPU_ARCH=%s: want gfx90a or gfx906\n", arch);
      return false;
    }
  }
  uint64_t count = loaded.gpu_count;
  // A kernel of more than an hour is taken for a typing error; the limit also keeps the
  // conversion to GPU ticks far from an overflow.
  const uint64_t hour_ns = 3600ull * 1000000000ull;
  bool ok =
      read_number("SIMGPU_COUNT", 1, SIMGPU_MAX_GPUS, &count) &&
      read_number("SIMGPU_KERNEL_NS", 0, hour_ns, &loaded.kernel_ns) &&
      read_number("SIMGPU_COPY_MBPS", 1, 100000000, &loaded.copy_mbps) &&
      read_number("SIMGPU_COPY_LATENCY_NS", 0, hour_ns, &loaded.copy_latency_ns) &&
      read_number("SIMGPU_UNRUNG_NS", 1000, hour_ns, &loaded.unrung_ns);
  if (!ok) return false;
  loaded.gpu_count = (unsigned)count;
  const char* stats = getenv("SIMGPU_STATS");
  if (stats != NULL && *stats != '\0') loaded.stats_path = stats;
  options = loaded;
  loaded_once = true;
  return true;
}

bool simgpu_options_ready(void) {
  return loaded_once || (!tried && simgpu_options_load());
}

const struct simgpu_options* simgpu_options_get(void) {
  return &options;
}
