// Functions that the thunk has gained since 5.2.3, as far as newer runtimes call them
// (README.md). The installed header does not declare them.
#define _GNU_SOURCE
#include <hsakmt.h>

#include "tests/simgpu/event.h"
#include "tests/simgpu/memory.h"
#include "tests/simgpu/thunk.h"
#include "tests/simgpu/thunk_later.h"

// --- Events ---

HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent* event, HSAuint32 milliseconds,
                                    uint64_t* age) {
  REQUIRE_OPEN();
  if (event == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_wait_ages(&event, 1, true, milliseconds, age);
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents_Ext(HsaEvent* events[], HSAuint32 count,
                                             bool all, HSAuint32 milliseconds,
                                             uint64_t* ages) {
  REQUIRE_OPEN();
  if (events == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_wait_ages(events, count, all, milliseconds, ages);
}

// --- Queues ---

HSAKMT_STATUS hsaKmtCreateQueueExt(HSAuint32 node, HSA_QUEUE_TYPE type,
                                   HSAuint32 percentage, HSA_QUEUE_PRIORITY priority,
                                   HSAuint32 sdma_engine, void* ring,
                                   HSAuint64 ring_bytes, HsaEvent* event,
                                   HsaQueueResource* resource) {
  if ((int)type == SIMGPU_QUEUE_SDMA_BY_ENGINE) {
    REQUIRE_OPEN();
    unsigned gpu;
    REQUIRE(simgpu_node_is_gpu(node, &gpu));
    HsaNodeProperties properties;
    simgpu_node_properties(node, &properties);
    REQUIRE(sdma_engine < properties.NumSdmaEngines + properties.NumSdmaXgmiEngines);
    type = HSA_QUEUE_SDMA;
  }
  return hsaKmtCreateQueue(node, type, percentage, priority, ring, ring_bytes, event,
                           resource);
}

// --- Memory ---

HSAKMT_STATUS hsaKmtAllocMemoryAlign(HSAuint32 node, HSAuint64 bytes,
                                     HSAuint64 alignment, HsaMemFlags flags,
                                     void** address) {
  REQUIRE_OPEN();
  REQUIRE(address != NULL && valid_node(node));
  return simgpu_memory_allocate_aligned(node, bytes, alignment, flags, address);
}

HSAKMT_STATUS hsaKmtAvailableMemory(HSAuint32 node, HSAuint64* bytes) {
  REQUIRE_OPEN();
  unsigned gpu;
  REQUIRE(bytes != NULL && simgpu_node_is_gpu(node, &gpu));
  const uint64_t all = simgpu_node_memory_bytes(node), used = simgpu_memory_used(node);
  *bytes = used < all ? all - used : 0;
  return HSAKMT_STATUS_SUCCESS;
}

// --- The driver and its devices ---

HSAKMT_STATUS hsaKmtCheckRuntimeDebugSupport(void) {
  REQUIRE_OPEN();
  return CALLERS_DRIVER() < DRIVER_WITH_RUNTIME ? HSAKMT_STATUS_NOT_SUPPORTED
                                                : HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetRuntimeCapabilities(HSAuint32* capabilities) {
  REQUIRE_OPEN();
  REQUIRE(capabilities != NULL);
  // The GPU's core dumps are the driver's business, which here writes none: the runtime
  // would read a real device's memory for them.
  *capabilities = simgpu_device.runtime_enabled ? SIMGPU_CORE_DUMPS_BY_DRIVER : 0;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetAMDGPUDeviceHandle(HSAuint32 node, void** handle) {
  REQUIRE_OPEN();
  unsigned gpu;
  REQUIRE(handle != NULL && simgpu_node_is_gpu(node, &gpu));
  *handle = simgpu_drm_handle(gpu);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtModelEnabled(bool* enabled) {
  REQUIRE(enabled != NULL);
  *enabled = false;  // the runtime's own model, not this one
  return HSAKMT_STATUS_SUCCESS;
}
