// The simulated machine as the thunk describes it: node 0 is the CPU, nodes 1 to
// SIMGPU_COUNT are GPUs, all linked with each other.
#ifndef ROCATTACH_TESTS_SIMGPU_TOPOLOGY_H_
#define ROCATTACH_TESTS_SIMGPU_TOPOLOGY_H_

#include <hsakmt.h>
#include <stdbool.h>
#include <stdint.h>

uint32_t simgpu_node_count(void);

// True for a GPU's node; `*gpu` is then its index from 0.
bool simgpu_node_is_gpu(uint32_t node, unsigned* gpu);

// The words of HsaNodeProperties.Reserved.
enum {
  SIMGPU_LATER_NUM_XCC,     // parts of the GPU that work side by side; never 0
  SIMGPU_LATER_KFD_GPU_ID,  // the driver's number of the GPU
  SIMGPU_LATER_FAMILY_ID,   // the hardware's family, as amdgpu numbers them
  SIMGPU_LATER_WORDS
};
#define SIMGPU_FAMILY_AI 141  // of gfx9

uint32_t simgpu_kfd_gpu_id(unsigned gpu);
// The PCI device number of all GPUs.
uint32_t simgpu_device_id(void);
// A GPU's memory; 0 for the CPU's node.
uint64_t simgpu_node_memory_bytes(uint32_t node);

// Each fills what the hsaKmtGetNode… function of similar name returns; `node` is valid.
void simgpu_node_properties(uint32_t node, HsaNodeProperties* properties);
void simgpu_node_memory(uint32_t node, uint32_t count, HsaMemoryProperties* banks);
void simgpu_node_caches(uint32_t node, uint32_t count, HsaCacheProperties* caches);
void simgpu_node_links(uint32_t node, uint32_t count, HsaIoLinkProperties* links);

#endif  // ROCATTACH_TESTS_SIMGPU_TOPOLOGY_H_
