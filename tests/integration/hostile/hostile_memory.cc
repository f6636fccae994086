// A process that passes its own memory to the service instead of the collector's.
//
//   hostile_memory MODE COLLECTOR [SECONDS]
//
// The stub in an attached process calls dlopen with the collector's path. The loader
// compares the path with the names of loaded objects, and this program has given itself
// the collector's name: so the stub gets the function below instead of the collector's.
// That function reports this program's memory by calling the real collector's function,
// on which the service has its probe.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <hsa/hsa.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "userspace/abi/geometry.h"
#include "userspace/abi/shared_memory.h"

using rocattach::collector::ComputeGeometry;
using rocattach::collector::Geometry;

namespace {

const char* mode = "";
const char* collector_path = "";
uint8_t* memory = nullptr;  // as reported to the service
uint64_t memory_bytes = 0;
rocattach_control* control = nullptr;  // null if the memory must not be written
Geometry geometry;
volatile sig_atomic_t stopped = 0;
bool punched_before = false;  // before the service knew of the memory

bool Is(const char* name) {
  return strcmp(mode, name) == 0;
}

[[noreturn]] void Fail(const char* what) {
  fprintf(stderr, "hostile_memory: %s: %s\n", what, strerror(errno));
  _exit(2);
}

uint64_t BootNs() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
}

int Memfd(unsigned flags, uint64_t bytes) {
  int fd = memfd_create(ROCATTACH_SHM_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (fd < 0) Fail("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) Fail("ftruncate");
  return fd;
}

void Seal(int fd) {
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    Fail("F_ADD_SEALS");
  }
}

void Map(int fd, uint64_t bytes) {
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) Fail("mmap");
  memory = static_cast<uint8_t*>(base);
  memory_bytes = bytes;
}

// Writes an honest collector's control block, with the sizes of `geometry`.
void FillControl(uint64_t window_id) {
  control = reinterpret_cast<rocattach_control*>(memory);
  control->magic = ROCATTACH_SHM_MAGIC;
  control->version = ROCATTACH_SHM_VERSION;
  control->control_bytes = sizeof(*control);
  control->total_bytes = geometry.total_bytes;
  control->rings_offset = geometry.rings_offset;
  control->ring_stride = geometry.ring_stride;
  control->ring_count = geometry.ring_count;
  control->ring_slots = geometry.ring_slots;
  control->inflight_offset = geometry.inflight_offset;
  control->inflight_count = geometry.inflight_count;
  control->inflight_bytes = sizeof(rocattach_inflight);
  control->dictionary_offset = geometry.dictionary_offset;
  control->dictionary_bytes = geometry.dictionary_bytes;
  control->plan_offset = geometry.plan_offset;
  control->plan_bytes = sizeof(rocattach_plan);
  control->window_id = window_id;
  control->pid = getpid();
  control->start_ns = BootNs();
  control->recording = 1;
  control->armed_ns = BootNs();
  control->state = ROCATTACH_STATE_ARMED;
}

// Makes memory without pages: any access to it raises SIGBUS.
void HugePagesWithHoles() {
  constexpr uint64_t kBytes = 32ull << 20;
  int fd = Memfd(MFD_HUGETLB, kBytes);
  Seal(fd);
  Map(fd, kBytes);
}

// Opening the file waits until the lease is given up, which does not happen.
void FileWithLease(bool sealed_memfd) {
  int fd = -1;
  if (sealed_memfd) {
    fd = Memfd(0, geometry.total_bytes);
    Seal(fd);
  } else {
    char name[] = "/tmp/hostile-lease.XXXXXX";
    fd = mkstemp(name);
    if (fd < 0) Fail("mkstemp");
    unlink(name);
    if (ftruncate(fd, static_cast<off_t>(geometry.total_bytes)) != 0) Fail("ftruncate");
  }
  Map(fd, geometry.total_bytes);
  signal(SIGIO, SIG_IGN);
  // The kernel grants no lease on a memfd that is mapped for writing; then the memfd is
  // like any other.
  if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0 && !sealed_memfd) Fail("F_SETLEASE");
}

void OrdinaryMemory() {
  int fd = Memfd(0, geometry.total_bytes);
  Seal(fd);
  Map(fd, geometry.total_bytes);
  close(fd);
}

// As large as the memory was once allowed to be: one ring, the rest dictionary.
void OtherGeometry(const rocattach_collector_config& configured) {
  rocattach_collector_config config = configured;
  config.ring_count = 1;
  config.ring_slots = 16;
  config.inflight_count = 16;
  config.dictionary_bytes = 4096;
  if (!ComputeGeometry(config, &geometry)) Fail("ComputeGeometry");
  const uint64_t more = (ROCATTACH_SHM_MAX_BYTES - geometry.total_bytes) / 4096 * 4096;
  geometry.dictionary_bytes += static_cast<uint32_t>(more);
  geometry.plan_offset += more;
  geometry.total_bytes += more;
}

rocattach_ring* Ring(uint32_t i) {
  return reinterpret_cast<rocattach_ring*>(memory + geometry.rings_offset +
                                           i * geometry.ring_stride);
}

// Fills the dictionary with as many of the smallest entries as fit.
void FillDictionary() {
  uint8_t* at = memory + geometry.dictionary_offset;
  uint64_t used = 0;
  for (uint32_t id = 1; used + sizeof(rocattach_entry) <= geometry.dictionary_bytes;
       ++id) {
    rocattach_entry entry = {};
    entry.bytes = sizeof(entry);
    entry.kind = ROCATTACH_ENTRY_KERNEL;
    entry.id = id;
    memcpy(at + used, &entry, sizeof(entry));
    used += sizeof(entry);
  }
  __atomic_store_n(&control->dictionary_used, used, __ATOMIC_RELEASE);
}

// Fills the dictionary with kernels whose names have `text` bytes and do not
// compress.
void FillDictionaryWithKernels(uint16_t text) {
  uint8_t* at = memory + geometry.dictionary_offset;
  const uint64_t bytes = (sizeof(rocattach_kernel_entry) + text + 7) / 8 * 8;
  uint64_t used = 0, noise = 88172645463325252u;
  for (uint32_t id = 1; used + bytes <= geometry.dictionary_bytes;
       ++id, used += bytes) {
    rocattach_kernel_entry kernel = {};
    kernel.entry.bytes = static_cast<uint32_t>(bytes);
    kernel.entry.kind = ROCATTACH_ENTRY_KERNEL;
    kernel.entry.id = id;
    kernel.entry.text_bytes = text;
    memcpy(at + used, &kernel, sizeof(kernel));
    for (uint16_t i = 0; i < text; ++i) {
      noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
      at[used + sizeof(kernel) + i] = static_cast<uint8_t>('!' + noise % 90);
    }
  }
  __atomic_store_n(&control->dictionary_used, used, __ATOMIC_RELEASE);
}

// Fills the dictionary with kernels that have different names; returns their number.
// `seed` makes the names of several processes different.
uint32_t FillDictionaryWithShortNames(uint32_t seed) {
  uint8_t* at = memory + geometry.dictionary_offset;
  constexpr uint16_t kText = 8;
  constexpr uint64_t kBytes = (sizeof(rocattach_kernel_entry) + kText + 7) / 8 * 8;
  uint64_t used = 0;
  uint32_t id = 0;
  for (; used + kBytes <= geometry.dictionary_bytes; used += kBytes) {
    rocattach_kernel_entry kernel = {};
    kernel.entry.bytes = static_cast<uint32_t>(kBytes);
    kernel.entry.kind = ROCATTACH_ENTRY_KERNEL;
    kernel.entry.id = ++id;
    kernel.entry.text_bytes = kText;
    memcpy(at + used, &kernel, sizeof(kernel));
    char name[kText + 1];
    snprintf(name, sizeof(name), "k%x%06x", seed % 16, id % 0x1000000);
    memcpy(at + used + sizeof(kernel), name, kText);
  }
  __atomic_store_n(&control->dictionary_used, used, __ATOMIC_RELEASE);
  printf("kernels=%u\n", id);
  return id;
}

// Sets positions as if everything were full; nothing is written there.
void ClaimHoles() {
  control->rings_used = geometry.ring_count;
  for (uint32_t i = 0; i < geometry.ring_count; ++i) {
    Ring(i)->inflight = 1;
    Ring(i)->dispatches_seen = geometry.ring_slots;
    __atomic_store_n(&Ring(i)->head, uint64_t{geometry.ring_slots}, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&control->dictionary_used, uint64_t{geometry.dictionary_bytes},
                   __ATOMIC_RELEASE);
}

// Fills every ring with plausible records of `kind`, which refer to `kernels` kernels
// in turn.
void FillRings(uint16_t kind, uint32_t kernels = 0) {
  control->rings_used = geometry.ring_count;
  for (uint32_t i = 0; i < geometry.ring_count; ++i) {
    auto* slots = reinterpret_cast<uint8_t*>(Ring(i)) + ROCATTACH_RING_HEADER_BYTES;
    for (uint64_t slot = 0; slot < geometry.ring_slots; ++slot) {
      rocattach_dispatch record = {};
      record.kind = kind;
      // Most refer to a queue that does not exist: they cost the service as much as
      // others, and the recording nothing.
      record.queue_id = kernels > 0 || slot % 16 == 0 ? 0 : 1;
      if (kernels > 0) {
        record.kernel_id =
            1 + static_cast<uint32_t>((i * geometry.ring_slots + slot) % kernels);
      }
      record.correlation_id = slot + 1;
      record.start_ns = 1000 + slot * 7919 % 100'000;
      record.end_ns = record.start_ns + slot * 104'729 % 100'000;
      memcpy(slots + slot * ROCATTACH_SLOT_BYTES, &record, sizeof(record));
    }
  }
}

// True if a hole can be punched into memory to which nothing has been written yet.
bool Punches() {
  return madvise(memory + geometry.plan_offset, sizeof(rocattach_plan), MADV_REMOVE) ==
         0;
}

// Tries that again when the service has mapped the memory; `before` must be true.
int PunchLater(bool before, uint64_t end_ns) {
  while (__atomic_load_n(&control->service_mapped, __ATOMIC_ACQUIRE) == 0) {
    if (BootNs() >= end_ns) return 4;
    usleep(1000);
  }
  return !before ? 5 : Punches() ? 6 : 0;
}

// Sets all rings' positions to full again, whatever has been drained.
void Flood() {
  for (uint32_t i = 0; i < geometry.ring_count; ++i) {
    const uint64_t tail = __atomic_load_n(&Ring(i)->tail, __ATOMIC_ACQUIRE);
    const uint64_t head = tail + geometry.ring_slots;
    __atomic_store_n(&Ring(i)->dispatches_seen, head, __ATOMIC_RELAXED);
    __atomic_store_n(&Ring(i)->head, head, __ATOMIC_RELEASE);
  }
}

void MakeMemory(const rocattach_collector_config* config) {
  if (!ComputeGeometry(*config, &geometry)) Fail("ComputeGeometry");
  if (Is("geometry")) {
    OtherGeometry(*config);
    OrdinaryMemory();
    FillControl(config->window_id);
    return FillDictionary();
  }
  if (Is("hugetlb")) return HugePagesWithHoles();
  if (Is("lease-file")) return FileWithLease(false);
  if (Is("lease-memfd")) {
    FileWithLease(true);
    return FillControl(config->window_id);
  }
  OrdinaryMemory();
  FillControl(config->window_id);
  if (Is("dictionary")) FillDictionary();
  if (Is("names")) FillDictionaryWithKernels(200);
  if (Is("kernels")) {
    FillRings(ROCATTACH_RECORD_DISPATCH,
              FillDictionaryWithShortNames(static_cast<uint32_t>(getpid())));
  }
  if (Is("holes")) ClaimHoles();
  if (Is("punch")) punched_before = Punches();
  if (Is("flood") || Is("full-exit")) FillRings(ROCATTACH_RECORD_DISPATCH);
  if (Is("clocks")) FillRings(ROCATTACH_RECORD_CLOCK);
  if (Is("full-exit")) Flood();
}

}  // namespace

// Called by the stub.
extern "C" __attribute__((visibility("default"))) int rocattach_collector_start(
    const rocattach_collector_config* config) {
  MakeMemory(config);
  char other_name[4096];
  snprintf(other_name, sizeof(other_name), "/proc/self/root%s", collector_path);
  void* real = dlopen(other_name, RTLD_NOW);
  if (real == nullptr) Fail(dlerror());
  auto* ready = reinterpret_cast<void (*)(const void*, uint64_t, uint64_t)>(
      dlsym(real, ROCATTACH_COLLECTOR_READY));
  if (ready == nullptr) Fail(dlerror());
  ready(memory, memory_bytes, config->window_id);
  printf("reported\n");
  fflush(stdout);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  mode = argv[1];
  collector_path = argv[2];
  const double seconds = argc > 3 ? atof(argv[3]) : 1;
  auto* self = static_cast<link_map*>(dlopen(nullptr, RTLD_NOW));
  // Targets load the service's copy of the collector, which every process can find.
  glob_t copies = {};
  if (glob("/{run,dev/shm,var/tmp,tmp}/rocattach-collector-*/*.so", GLOB_BRACE, nullptr,
           &copies) == 0) {
    collector_path = argv[2] = copies.gl_pathv[0];
  }
  self->l_name = argv[2];
  signal(SIGTERM, [](int) { stopped = 1; });
  if (hsa_init() != HSA_STATUS_SUCCESS) return 3;
  const uint64_t end = BootNs() + static_cast<uint64_t>(seconds * 1e9);
  if (Is("punch")) {
    if (const int failed = PunchLater(punched_before, end); failed != 0) return failed;
  }
  const bool floods = Is("flood") || Is("clocks") || Is("kernels");
  while (BootNs() < end && stopped == 0) {
    if (floods) Flood();
    usleep(floods ? 500 : 10'000);
  }
  printf("done\n");
  return 0;
}
