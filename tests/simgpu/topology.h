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

// Each fills what the hsaKmtGetNode… function of similar name returns; `node` is valid.
void simgpu_node_properties(uint32_t node, HsaNodeProperties* properties);
void simgpu_node_memory(uint32_t node, uint32_t count, HsaMemoryProperties* banks);
void simgpu_node_caches(uint32_t node, uint32_t count, HsaCacheProperties* caches);
void simgpu_node_links(uint32_t node, uint32_t count, HsaIoLinkProperties* links);

#endif  // ROCATTACH_TESTS_SIMGPU_TOPOLOGY_H_
