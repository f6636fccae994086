// What the thunk has gained since 5.2.3 and this one has: thunk_later.c and drm.c.
#ifndef ROCATTACH_TESTS_SIMGPU_THUNK_LATER_H_
#define ROCATTACH_TESTS_SIMGPU_THUNK_LATER_H_

#include <hsakmt.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A further HSA_QUEUE_TYPE: a copy queue of the engine that is named.
#define SIMGPU_QUEUE_SDMA_BY_ENGINE 6
// A bit of hsaKmtGetRuntimeCapabilities().
#define SIMGPU_CORE_DUMPS_BY_DRIVER 0x80000000u

HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent* event, HSAuint32 milliseconds,
                                    uint64_t* age);
HSAKMT_STATUS hsaKmtWaitOnMultipleEvents_Ext(HsaEvent* events[], HSAuint32 count,
                                             bool all, HSAuint32 milliseconds,
                                             uint64_t* ages);
HSAKMT_STATUS hsaKmtCreateQueueExt(HSAuint32 node, HSA_QUEUE_TYPE type,
                                   HSAuint32 percentage, HSA_QUEUE_PRIORITY priority,
                                   HSAuint32 sdma_engine, void* ring,
                                   HSAuint64 ring_bytes, HsaEvent* event,
                                   HsaQueueResource* resource);
HSAKMT_STATUS hsaKmtAllocMemoryAlign(HSAuint32 node, HSAuint64 bytes,
                                     HSAuint64 alignment, HsaMemFlags flags,
                                     void** address);
HSAKMT_STATUS hsaKmtAvailableMemory(HSAuint32 node, HSAuint64* bytes);
HSAKMT_STATUS hsaKmtCheckRuntimeDebugSupport(void);
HSAKMT_STATUS hsaKmtGetRuntimeCapabilities(HSAuint32* capabilities);
HSAKMT_STATUS hsaKmtGetAMDGPUDeviceHandle(HSAuint32 node, void** handle);
HSAKMT_STATUS hsaKmtModelEnabled(bool* enabled);

// What a GPU's handle is, which means something to the functions of drm.c only.
void* simgpu_drm_handle(unsigned gpu);

// libdrm's amdgpu_gpu_info as far as it is filled in; the rest is 0.
struct simgpu_drm_gpu_info {
  uint32_t device_id;
  uint32_t unused[2];
  uint32_t family_id;
  uint32_t unused_too[14];
  uint32_t counter_khz;  // of the GPU's clock
  uint32_t rest[85];
};
// 0, or a negative errno.
int amdgpu_query_gpu_info(void* device, struct simgpu_drm_gpu_info* info);

#ifdef __cplusplus
}
#endif

#endif  // ROCATTACH_TESTS_SIMGPU_THUNK_LATER_H_
