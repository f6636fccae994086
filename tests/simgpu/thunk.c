// The hsaKmt front end: argument checks, then the core. What only newer runtimes call is
// in thunk_later.c, what they import and nothing here simulates in thunk_absent.c.
// Functions that no supported runtime imports are left out: a program that needs one
// fails to link, with its name.
#define _GNU_SOURCE
#include <hsakmt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/simgpu/abi.h"
#include "tests/simgpu/aql.h"
#include "tests/simgpu/clock.h"
#include "tests/simgpu/engine.h"
#include "tests/simgpu/event.h"
#include "tests/simgpu/memory.h"
#include "tests/simgpu/options.h"
#include "tests/simgpu/sdma.h"
#include "tests/simgpu/thunk.h"
#include "tests/simgpu/topology.h"

struct simgpu_device simgpu_device = {.lock = PTHREAD_MUTEX_INITIALIZER};
#define device simgpu_device

// --- Opening, forking, ending ---

static void before_fork(void) {
  pthread_mutex_lock(&device.lock);
  simgpu_engine_before_fork();
  simgpu_event_before_fork();
  simgpu_memory_before_fork();
}

static void after_fork_parent(void) {
  simgpu_memory_after_fork_parent();
  simgpu_event_after_fork_parent();
  simgpu_engine_after_fork_parent();
  pthread_mutex_unlock(&device.lock);
}

// A forked child has no GPU context until it opens the device itself: calls before
// that fail, as the real thunk's do.
static void after_fork_child(void) {
  simgpu_memory_after_fork_child();
  simgpu_event_after_fork_child();
  simgpu_engine_after_fork_child();
  simgpu_aql_forget_statistics();
  simgpu_sdma_forget_statistics();
  pthread_mutex_init(&device.lock, NULL);
  device.inherited = device.inherited || device.open_count > 0;
  device.open_count = 0;
  device.opened_once = false;
  device.runtime_enabled = false;
}

__attribute__((constructor)) static void library_loaded(void) {
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static void write_statistics(void) {
  const char* path = simgpu_options_get()->stats_path;
  if (path == NULL || !device.opened_once) return;
  FILE* file = fopen(path, "ae");
  if (file == NULL) return;
  fprintf(file, "pid=%d dispatches=%llu copies=%llu unrung=%llu kernel_ns=%llu\n",
          (int)getpid(), (unsigned long long)simgpu_aql_dispatches(),
          (unsigned long long)simgpu_sdma_copies(),
          (unsigned long long)simgpu_aql_unrung_packets(),
          (unsigned long long)simgpu_aql_kernel_ns());
  fclose(file);
}

__attribute__((destructor)) static void library_unloaded(void) {
  // The thread must not run code that is about to be unmapped.
  simgpu_engine_stop();
  write_statistics();
}

HSAKMT_STATUS hsaKmtOpenKFD(void) {
  pthread_mutex_lock(&device.lock);
  bool ok = device.open_count > 0 || simgpu_options_load();
  if (ok) {
    device.open_count++;
    device.opened_once = true;
  }
  pthread_mutex_unlock(&device.lock);
  return ok ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
}

HSAKMT_STATUS hsaKmtCloseKFD(void) {
  REQUIRE_OPEN();
  pthread_mutex_lock(&device.lock);
  bool last = device.open_count > 0 && --device.open_count == 0;
  if (last) simgpu_engine_stop();
  pthread_mutex_unlock(&device.lock);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo* version) {
  REQUIRE_OPEN();
  REQUIRE(version != NULL);
  // 1.0 would make the runtime do without interrupts.
  version->KernelInterfaceMajorVersion = 1;
  version->KernelInterfaceMinorVersion = CALLERS_DRIVER();
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRuntimeEnable(void* r_debug, bool setup_ttmp) {
  (void)r_debug;
  (void)setup_ttmp;
  // Queue errors then arrive through the inactive signal.
  if (CALLERS_DRIVER() < DRIVER_WITH_RUNTIME) return HSAKMT_STATUS_NOT_SUPPORTED;
  REQUIRE_OPEN();
  return atomic_exchange(&device.runtime_enabled, true) ? HSAKMT_STATUS_UNAVAILABLE
                                                        : HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRuntimeDisable(void) {
  if (CALLERS_DRIVER() < DRIVER_WITH_RUNTIME) return HSAKMT_STATUS_NOT_SUPPORTED;
  REQUIRE_OPEN_OR_GONE();
  // The driver does not mind if it is not enabled.
  device.runtime_enabled = false;
  return HSAKMT_STATUS_SUCCESS;
}

// --- Topology and clocks ---

HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties* properties) {
  REQUIRE_OPEN();
  REQUIRE(properties != NULL);
  memset(properties, 0, sizeof(*properties));
  properties->NumNodes = simgpu_node_count();
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtReleaseSystemProperties(void) {
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeProperties(HSAuint32 node, HsaNodeProperties* properties) {
  REQUIRE_OPEN();
  REQUIRE(properties != NULL && valid_node(node));
  HsaNodeProperties known;
  simgpu_node_properties(node, &known);
  simgpu_abi_put_node(CALLERS_ABI(), &known, properties);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeMemoryProperties(HSAuint32 node, HSAuint32 count,
                                            HsaMemoryProperties* banks) {
  REQUIRE_OPEN();
  REQUIRE(banks != NULL && valid_node(node));
  simgpu_node_memory(node, count, banks);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeCacheProperties(HSAuint32 node, HSAuint32 processor,
                                           HSAuint32 count,
                                           HsaCacheProperties* caches) {
  (void)processor;
  REQUIRE_OPEN();
  REQUIRE(caches != NULL && valid_node(node));
  simgpu_node_caches(node, count, caches);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32 node, HSAuint32 count,
                                            HsaIoLinkProperties* links) {
  REQUIRE_OPEN();
  REQUIRE(links != NULL && valid_node(node));
  const enum simgpu_abi abi = CALLERS_ABI();
  HsaIoLinkProperties known[SIMGPU_MAX_GPUS];
  const HSAuint32 have = count < SIMGPU_MAX_GPUS ? count : SIMGPU_MAX_GPUS;
  simgpu_node_links(node, have, known);
  uint8_t* to = (uint8_t*)links;
  for (HSAuint32 i = 0; i < have; i++) to += simgpu_abi_put_link(abi, &known[i], to);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetClockCounters(HSAuint32 node, HsaClockCounters* counters) {
  REQUIRE_OPEN();
  REQUIRE(counters != NULL && valid_node(node));
  unsigned gpu = 0;
  bool is_gpu = simgpu_node_is_gpu(node, &gpu);
  uint64_t now = simgpu_system_ns();
  counters->SystemClockCounter = now;
  counters->SystemClockFrequencyHz = 1000000000;
  counters->CPUClockCounter = simgpu_cpu_ns();
  counters->GPUClockCounter = is_gpu ? simgpu_gpu_ticks_at(gpu, now) : 0;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetTileConfig(HSAuint32 node, HsaGpuTileConfig* config) {
  REQUIRE_OPEN();
  unsigned gpu;
  REQUIRE(config != NULL && simgpu_node_is_gpu(node, &gpu));
  // No tiling tables on gfx9; the address configuration is what the image code reads.
  config->NumTileConfigs = 0;
  config->NumMacroTileConfigs = 0;
  config->GbAddrConfig = 0x2a114042;
  config->NumBanks = 4;
  config->NumRanks = 1;
  return HSAKMT_STATUS_SUCCESS;
}

// --- Events ---

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor* descriptor, bool manual_reset,
                                bool signaled, HsaEvent** event) {
  REQUIRE_OPEN();
  REQUIRE(descriptor != NULL && event != NULL);
  return simgpu_event_create(descriptor, manual_reset, signaled, event);
}

HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent* event) {
  REQUIRE_OPEN_OR_GONE();
  if (event == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_destroy(event);
}

HSAKMT_STATUS hsaKmtSetEvent(HsaEvent* event) {
  REQUIRE_OPEN();
  if (event == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_set(event);
}

HSAKMT_STATUS hsaKmtResetEvent(HsaEvent* event) {
  REQUIRE_OPEN();
  if (event == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_reset(event);
}

HSAKMT_STATUS hsaKmtQueryEventState(HsaEvent* event) {
  REQUIRE_OPEN();
  if (event == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_query(event);
}

HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent* event, HSAuint32 milliseconds) {
  REQUIRE_OPEN();
  if (event == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_wait(&event, 1, true, milliseconds);
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent* events[], HSAuint32 count, bool all,
                                         HSAuint32 milliseconds) {
  REQUIRE_OPEN();
  if (events == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  return simgpu_event_wait(events, count, all, milliseconds);
}

// --- Queues ---

HSAKMT_STATUS hsaKmtCreateQueue(HSAuint32 node, HSA_QUEUE_TYPE type,
                                HSAuint32 percentage, HSA_QUEUE_PRIORITY priority,
                                void* ring, HSAuint64 ring_bytes, HsaEvent* event,
                                HsaQueueResource* resource) {
  (void)percentage;
  (void)priority;
  REQUIRE_OPEN();
  unsigned gpu;
  REQUIRE(resource != NULL && simgpu_node_is_gpu(node, &gpu));
  if (type != HSA_QUEUE_COMPUTE_AQL && type != HSA_QUEUE_SDMA &&
      type != HSA_QUEUE_SDMA_XGMI) {
    return HSAKMT_STATUS_NOT_SUPPORTED;
  }
  const bool reports = device.runtime_enabled && resource->ErrorReason != NULL;
  return simgpu_engine_create_queue(node, type, ring, ring_bytes,
                                    reports ? event : NULL, resource);
}

HSAKMT_STATUS hsaKmtDestroyQueue(HSA_QUEUEID queue) {
  REQUIRE_OPEN_OR_GONE();
  return simgpu_engine_destroy_queue(queue);
}

HSAKMT_STATUS hsaKmtUpdateQueue(HSA_QUEUEID queue, HSAuint32 percentage,
                                HSA_QUEUE_PRIORITY priority, void* ring,
                                HSAuint64 ring_bytes, HsaEvent* event) {
  (void)priority;
  (void)ring;
  (void)ring_bytes;
  (void)event;
  REQUIRE_OPEN();
  return simgpu_engine_suspend_queue(queue, percentage == 0);
}

HSAKMT_STATUS hsaKmtSetQueueCUMask(HSA_QUEUEID queue, HSAuint32 count,
                                   HSAuint32* mask) {
  (void)queue;
  REQUIRE_OPEN();
  REQUIRE(count != 0 && mask != NULL && count % 32 == 0);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtAllocQueueGWS(HSA_QUEUEID queue, HSAuint32 count,
                                  HSAuint32* first) {
  (void)queue;
  (void)count;
  REQUIRE_OPEN();
  if (first != NULL) *first = 0;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetTrapHandler(HSAuint32 node, void* handler,
                                   HSAuint64 handler_bytes, void* buffer,
                                   HSAuint64 buffer_bytes) {
  (void)handler;
  (void)handler_bytes;
  (void)buffer;
  (void)buffer_bytes;
  REQUIRE_OPEN();
  REQUIRE(valid_node(node));
  return HSAKMT_STATUS_SUCCESS;
}

// --- Memory ---

// Not of the real thunk: for the simulated rocprofiler-sdk, whose device counting sees
// what the whole device does, through whatever queue.
void hsaKmtSimgpuObserveDispatches(void (*observer)(uint32_t node, const void* packet,
                                                    void* data),
                                   void* data) {
  simgpu_aql_observe(observer, data);
}

HSAKMT_STATUS hsaKmtSetMemoryPolicy(HSAuint32 node, HSAuint32 default_policy,
                                    HSAuint32 alternate_policy, void* alternate,
                                    HSAuint64 bytes) {
  (void)default_policy;
  (void)alternate_policy;
  (void)alternate;
  (void)bytes;
  REQUIRE_OPEN();
  REQUIRE(valid_node(node));
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtAllocMemory(HSAuint32 node, HSAuint64 bytes, HsaMemFlags flags,
                                void** address) {
  REQUIRE_OPEN();
  REQUIRE(address != NULL && valid_node(node));
  return simgpu_memory_allocate(node, bytes, flags, address);
}

HSAKMT_STATUS hsaKmtFreeMemory(void* address, HSAuint64 bytes) {
  REQUIRE_OPEN_OR_GONE();
  return simgpu_memory_free(address, bytes);
}

HSAKMT_STATUS hsaKmtRegisterMemoryWithFlags(void* address, HSAuint64 bytes,
                                            HsaMemFlags flags) {
  REQUIRE_OPEN();
  return simgpu_memory_register(address, bytes, flags);
}

HSAKMT_STATUS hsaKmtDeregisterMemory(void* address) {
  REQUIRE_OPEN_OR_GONE();
  return simgpu_memory_deregister(address);
}

HSAKMT_STATUS hsaKmtMapMemoryToGPU(void* address, HSAuint64 bytes,
                                   HSAuint64* gpu_address) {
  (void)bytes;
  REQUIRE_OPEN();
  if (gpu_address != NULL) *gpu_address = (HSAuint64)address;
  return simgpu_memory_map(address, 0, NULL);
}

HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void* address, HSAuint64 bytes,
                                        HSAuint64* gpu_address, HsaMemMapFlags flags,
                                        HSAuint64 node_count, HSAuint32* nodes) {
  (void)bytes;
  (void)flags;
  REQUIRE_OPEN();
  if (gpu_address != NULL) *gpu_address = (HSAuint64)address;
  return simgpu_memory_map(address, node_count, nodes);
}

HSAKMT_STATUS hsaKmtUnmapMemoryToGPU(void* address) {
  REQUIRE_OPEN_OR_GONE();
  return simgpu_memory_unmap(address);
}

HSAKMT_STATUS hsaKmtQueryPointerInfo(const void* pointer, HsaPointerInfo* info) {
  REQUIRE_OPEN();
  REQUIRE(info != NULL);
  return simgpu_memory_query(pointer, info);
}

HSAKMT_STATUS hsaKmtSetMemoryUserData(const void* pointer, void* user_data) {
  REQUIRE_OPEN();
  return simgpu_memory_set_user_data(pointer, user_data);
}

HSAKMT_STATUS hsaKmtGetXNACKMode(HSAint32* enabled) {
  REQUIRE_OPEN();
  REQUIRE(enabled != NULL);
  *enabled = 0;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetXNACKMode(HSAint32 enable) {
  REQUIRE_OPEN();
  return enable ? HSAKMT_STATUS_NOT_SUPPORTED : HSAKMT_STATUS_SUCCESS;
}

// --- Not simulated: memory shared between processes, graphics, shared virtual memory
// ---

HSAKMT_STATUS hsaKmtShareMemory(void* address, HSAuint64 bytes,
                                HsaSharedMemoryHandle* handle) {
  (void)address;
  (void)bytes;
  (void)handle;
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandle(const HsaSharedMemoryHandle* handle,
                                         void** address, HSAuint64* bytes) {
  (void)handle;
  (void)address;
  (void)bytes;
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandleToNodes(const HsaSharedMemoryHandle* handle,
                                                void** address, HSAuint64* bytes,
                                                HSAuint64 node_count,
                                                HSAuint32* nodes) {
  (void)handle;
  (void)address;
  (void)bytes;
  (void)node_count;
  (void)nodes;
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtRegisterGraphicsHandleToNodes(HSAuint64 resource,
                                                  HsaGraphicsResourceInfo* info,
                                                  HSAuint64 node_count,
                                                  HSAuint32* nodes) {
  (void)resource;
  (void)info;
  (void)node_count;
  (void)nodes;
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtSVMSetAttr(void* start, HSAuint64 bytes, unsigned int count,
                               HSA_SVM_ATTRIBUTE* attributes) {
  (void)start;
  (void)bytes;
  (void)count;
  (void)attributes;
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtSVMGetAttr(void* start, HSAuint64 bytes, unsigned int count,
                               HSA_SVM_ATTRIBUTE* attributes) {
  (void)start;
  (void)bytes;
  (void)count;
  (void)attributes;
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
