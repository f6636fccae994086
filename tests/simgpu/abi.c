#define _GNU_SOURCE
#include "tests/simgpu/abi.h"

#include <stdint.h>
#include <string.h>

#include "tests/simgpu/elf_image.h"

// A field that a version has added, before this offset of Debian's structure.
struct gap {
  enum simgpu_abi since;
  size_t before;
  size_t bytes;
};

// NumNeuralCores; Capability2, behind Capability; OverrideEngineId, behind EngineId.
static const struct gap node_gaps[] = {
    {SIMGPU_ABI_2025, offsetof(HsaNodeProperties, NumMemoryBanks), 4},
    {SIMGPU_ABI_2025, offsetof(HsaNodeProperties, MaxWavesPerSIMD), 4},
    {SIMGPU_ABI_2024, offsetof(HsaNodeProperties, VendorId), 4},
};
// RecSdmaEngIdMask.
static const struct gap link_gaps[] = {
    {SIMGPU_ABI_2024, offsetof(HsaIoLinkProperties, Flags), 4},
};

static size_t put(enum simgpu_abi abi, const struct gap* gaps, size_t gap_count,
                  const void* structure, size_t bytes, void* to) {
  const uint8_t* from = structure;
  uint8_t* at = to;
  size_t copied = 0;
  for (size_t i = 0; i < gap_count; i++) {
    if (abi < gaps[i].since) continue;
    memcpy(at, from + copied, gaps[i].before - copied);
    at += gaps[i].before - copied;
    copied = gaps[i].before;
    memset(at, 0, gaps[i].bytes);
    at += gaps[i].bytes;
  }
  memcpy(at, from + copied, bytes - copied);
  at += bytes - copied;
  return (size_t)(at - (uint8_t*)to);
}

size_t simgpu_abi_put_node(enum simgpu_abi abi, const HsaNodeProperties* properties,
                           void* to) {
  return put(abi, node_gaps, sizeof(node_gaps) / sizeof(node_gaps[0]), properties,
             sizeof(*properties), to);
}

size_t simgpu_abi_put_link(enum simgpu_abi abi, const HsaIoLinkProperties* link,
                           void* to) {
  return put(abi, link_gaps, sizeof(link_gaps) / sizeof(link_gaps[0]), link,
             sizeof(*link), to);
}

enum simgpu_abi simgpu_abi_of(const void* code) {
  if (simgpu_elf_imports(code, "hsaKmtModelEnabled")) return SIMGPU_ABI_2025;
  if (simgpu_elf_imports(code, "hsaKmtCreateQueueExt")) return SIMGPU_ABI_2024;
  return SIMGPU_ABI_DEBIAN;
}
