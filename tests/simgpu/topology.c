#define _GNU_SOURCE
#include "tests/simgpu/topology.h"

#include <string.h>
#include <unistd.h>

#include "tests/simgpu/options.h"

#define GIB (1024ull * 1024 * 1024)
#define SIMDS_PER_CU 4
#define CPU_CACHES 1
#define GPU_CACHES 2
#define GPU_BANKS 3

// What differs between the architectures, from the products' data sheets.
struct model {
  const char* marketing_name;
  const char* family;
  uint16_t device_id;
  unsigned isa_major, isa_minor, isa_stepping;
  unsigned compute_units, shader_engines, max_waves_per_simd;
  unsigned clock_mhz, memory_clock_mhz, memory_width_bits;
  unsigned l2_kib, vgpr_bytes_per_cu;
  bool sram_ecc;
  uint64_t memory_bytes;
};

static const struct model models[] = {
    [SIMGPU_ARCH_GFX90A] = {"Simulated AMD Instinct MI210", "aldebaran", 0x740f, 9, 0,
                            10, 104, 8, 8, 1700, 1600, 4096, 8192, 512 * 1024, true,
                            64 * GIB},
    [SIMGPU_ARCH_GFX906] = {"Simulated AMD Radeon Instinct MI50", "vega20", 0x66a1, 9,
                            0, 6, 60, 4, 10, 1725, 1000, 4096, 4096, 256 * 1024, false,
                            32 * GIB},
};

static const struct model* model(void) {
  return &models[simgpu_options_get()->arch];
}

uint32_t simgpu_node_count(void) {
  return 1 + simgpu_options_get()->gpu_count;
}

bool simgpu_node_is_gpu(uint32_t node, unsigned* gpu) {
  if (node == 0 || node >= simgpu_node_count()) return false;
  *gpu = node - 1;
  return true;
}

static uint32_t link_count(uint32_t node) {
  // The CPU sees every GPU; a GPU sees the CPU and all other GPUs.
  (void)node;
  return simgpu_options_get()->gpu_count;
}

static void cpu_properties(HsaNodeProperties* p) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  p->NumCPUCores = cores > 0 ? (uint32_t)cores : 1;
  p->NumMemoryBanks = 1;
  p->NumCaches = CPU_CACHES;
  p->MaxEngineClockMhzCCompute = 3000;
  static const char name[] = "Simulated host CPU";
  for (size_t i = 0; i < sizeof(name); i++) p->MarketingName[i] = (uint8_t)name[i];
}

static void gpu_properties(unsigned gpu, HsaNodeProperties* p) {
  const struct model* m = model();
  p->NumFComputeCores = m->compute_units * SIMDS_PER_CU;
  p->NumSIMDPerCU = SIMDS_PER_CU;
  p->NumMemoryBanks = GPU_BANKS;
  p->NumCaches = GPU_CACHES;
  p->FComputeIdLo = 0x80000000u + gpu * 0x1000u;
  p->Capability.ui32.QueueSizePowerOfTwo = 1;
  p->Capability.ui32.WatchPointsSupported = 1;
  p->Capability.ui32.WatchPointsTotalBits = 2;
  // 2: a doorbell takes the 64-bit index of the last packet, as on gfx9 and later.
  p->Capability.ui32.DoorbellType = 2;
  p->Capability.ui32.SRAM_EDCSupport = m->sram_ecc;
  p->Capability.ui32.DebugSupportedFirmware = 1;
  p->MaxWavesPerSIMD = m->max_waves_per_simd;
  p->LDSSizeInKB = 64;
  p->WaveFrontSize = 64;
  p->NumShaderBanks = m->shader_engines;
  p->NumArrays = 1;
  p->NumCUPerArray = m->compute_units / m->shader_engines;
  p->MaxSlotsScratchCU = 32;
  p->EngineId.ui32.uCode = 70;
  p->EngineId.ui32.Major = m->isa_major;
  p->EngineId.ui32.Minor = m->isa_minor;
  p->EngineId.ui32.Stepping = m->isa_stepping;
  p->VendorId = 0x1002;
  p->DeviceId = m->device_id;
  p->LocationId = (0x03 + 0x20 * gpu) << 8;
  p->LocalMemSize = m->memory_bytes;
  p->MaxEngineClockMhzFCompute = m->clock_mhz;
  p->MaxEngineClockMhzCCompute = 3000;
  p->DrmRenderMinor = 128 + (int)gpu;
  for (size_t i = 0; i < strlen(m->marketing_name); i++) {
    p->MarketingName[i] = (uint8_t)m->marketing_name[i];
  }
  memcpy(p->AMDName, m->family, strlen(m->family));
  p->uCodeEngineVersions.uCodeSDMA = 8;
  p->HiveID = simgpu_options_get()->gpu_count > 1 ? 0x51a6b00000000001u : 0;
  p->NumSdmaEngines = 2;
  p->NumSdmaXgmiEngines = simgpu_options_get()->gpu_count > 1 ? 3 : 0;
  p->NumSdmaQueuesPerEngine = 8;
  p->NumCpQueues = 24;
  p->NumGws = 64;
  p->UniqueID = 0x51a6b00000001000u + gpu;
  p->VGPRSizePerCU = m->vgpr_bytes_per_cu;
  p->SGPRSizePerCU = 16 * 1024;
  // Words that drivers since ROCm 5.7 report. Debian's header calls them reserved.
  const uint32_t later[SIMGPU_LATER_WORDS] = {
      [SIMGPU_LATER_NUM_XCC] = 1,
      [SIMGPU_LATER_KFD_GPU_ID] = simgpu_kfd_gpu_id(gpu),
      [SIMGPU_LATER_FAMILY_ID] = SIMGPU_FAMILY_AI,
  };
  _Static_assert(sizeof(p->Reserved) == sizeof(later), "three words");
  memcpy(p->Reserved, later, sizeof(later));
}

uint32_t simgpu_kfd_gpu_id(unsigned gpu) {
  return 0x1001u + gpu;
}

uint32_t simgpu_device_id(void) {
  return model()->device_id;
}

uint64_t simgpu_node_memory_bytes(uint32_t node) {
  unsigned gpu;
  return simgpu_node_is_gpu(node, &gpu) ? model()->memory_bytes : 0;
}

void simgpu_node_properties(uint32_t node, HsaNodeProperties* properties) {
  memset(properties, 0, sizeof(*properties));
  properties->NumIOLinks = link_count(node);
  unsigned gpu;
  if (simgpu_node_is_gpu(node, &gpu)) {
    gpu_properties(gpu, properties);
  } else {
    cpu_properties(properties);
  }
}

void simgpu_node_memory(uint32_t node, uint32_t count, HsaMemoryProperties* banks) {
  HsaMemoryProperties all[GPU_BANKS];
  memset(all, 0, sizeof(all));
  uint32_t have = 1;
  unsigned gpu;
  if (simgpu_node_is_gpu(node, &gpu)) {
    const struct model* m = model();
    have = GPU_BANKS;
    all[0].HeapType = HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE;
    all[0].SizeInBytes = m->memory_bytes;
    all[0].Width = m->memory_width_bits;
    all[0].MemoryClockMax = m->memory_clock_mhz;
    // The apertures: only the upper halves matter, and both must differ from zero.
    all[1].HeapType = HSA_HEAPTYPE_GPU_LDS;
    all[1].SizeInBytes = 64 * 1024;
    all[1].VirtualBaseAddress = 0x1000000000000u;
    all[2].HeapType = HSA_HEAPTYPE_GPU_SCRATCH;
    all[2].SizeInBytes = 4 * GIB;
    all[2].VirtualBaseAddress = 0x2000000000000u;
  } else {
    long pages = sysconf(_SC_PHYS_PAGES);
    all[0].HeapType = HSA_HEAPTYPE_SYSTEM;
    all[0].SizeInBytes = pages > 0 ? (uint64_t)pages * 4096 : 4 * GIB;
    all[0].Width = 64;
    all[0].MemoryClockMax = 3200;
  }
  memcpy(banks, all, sizeof(all[0]) * (count < have ? count : have));
}

void simgpu_node_caches(uint32_t node, uint32_t count, HsaCacheProperties* caches) {
  memset(caches, 0, sizeof(*caches) * count);
  unsigned gpu;
  bool is_gpu = simgpu_node_is_gpu(node, &gpu);
  uint32_t have = is_gpu ? GPU_CACHES : CPU_CACHES;
  for (uint32_t i = 0; i < count && i < have; i++) {
    HsaCacheProperties* cache = &caches[i];
    cache->CacheLevel = i + 1;
    cache->CacheLineSize = 64;
    cache->CacheType.ui32.Data = 1;
    cache->CacheType.ui32.CPU = !is_gpu;
    cache->CacheType.ui32.HSACU = is_gpu;
    cache->CacheSize = !is_gpu ? 32 : i == 0 ? 16 : model()->l2_kib;
    cache->CacheAssociativity = 16;
  }
}

void simgpu_node_links(uint32_t node, uint32_t count, HsaIoLinkProperties* links) {
  memset(links, 0, sizeof(*links) * count);
  uint32_t filled = 0;
  for (uint32_t to = 0; to < simgpu_node_count() && filled < count; to++) {
    if (to == node) continue;
    HsaIoLinkProperties* link = &links[filled++];
    bool between_gpus = node != 0 && to != 0;
    link->IoLinkType = between_gpus ? HSA_IOLINK_TYPE_XGMI : HSA_IOLINKTYPE_PCIEXPRESS;
    link->NodeFrom = node;
    link->NodeTo = to;
    link->Weight = between_gpus ? 15 : 20;
    link->MinimumBandwidth = link->MaximumBandwidth = between_gpus ? 50000 : 32000;
  }
}
