// Features of newer runtimes that Debian's lacks: queues from descriptors, rings in
// device memory, counted queues, batches of copies.
#define _GNU_SOURCE
#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simrocm/runtime/runtime.h"

enum { MOST_QUEUES = 1024, MOST_COUNTED = 256, COUNTED_PACKETS = 16384 };

typedef void queue_callback(hsa_status_t, hsa_queue_t*, void*);

// hsa_ext_amd.h of interface 1.31.
struct queue_descriptor {
  uint16_t version;
  uint16_t flags;
  uint8_t engine_type;
  uint8_t reserved1[3];
  uint32_t queue_bytes;
  uint32_t priority;
  queue_callback* callback;
  void* data;
  hsa_queue_t* queue;
  struct {
    const uint32_t* cu_mask;
    uint32_t type;
    uint32_t private_segment_size;
    uint32_t cu_mask_count;
    uint8_t reserved[12];
  } compute;
  uint32_t traffic_class;
  uint8_t reserved2[20];
};
_Static_assert(sizeof(struct queue_descriptor) == 96, "as programs have it");
enum { RING_IN_DEVICE = 1, QUEUE_IN_DEVICE = 2, ENGINE_COMPUTE = 0 };

struct copy_op {
  uint16_t version, type, entries, traffic_class;
  hsa_signal_t completion;
  union {
    void* src;
    void** src_list;
  };
  hsa_agent_t src_agent;
  union {
    hsa_agent_t dst_agent;
    hsa_agent_t* dst_agent_list;
  };
  union {
    void* dst;
    void** dst_list;
  };
  union {
    size_t size;
    size_t* size_list;
  };
  size_t second_size;
  uint8_t wait[32], signal[32];
};
_Static_assert(sizeof(struct copy_op) == 128, "as programs have it");
enum { COPY_LINEAR, COPY_BROADCAST, COPY_SWAP };

static struct {
  __typeof__(hsa_init)* init;
  __typeof__(hsa_shut_down)* shut_down;
  __typeof__(hsa_queue_create)* queue_create;
  __typeof__(hsa_queue_destroy)* queue_destroy;
  __typeof__(hsa_amd_pointer_info)* pointer_info;
  __typeof__(hsa_amd_memory_async_copy)* async_copy;
  __typeof__(hsa_memory_copy)* copy;
  __typeof__(hsa_queue_add_write_index_scacq_screl)* add_write_index;
  __typeof__(hsa_queue_load_write_index_scacquire)* load_write_index;
  __typeof__(hsa_queue_load_read_index_scacquire)* load_read_index;
} real;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// Queues that this file has created; entries without a queue are free.
static struct {
  hsa_queue_t* queue;
  hsa_agent_t agent;
  bool in_device;
} queues[MOST_QUEUES];

// Handles of counted queues. The hardware queues behind them are kept until the runtime is
// shut down.
static struct {
  hsa_queue_t* handle;
  hsa_queue_t* hardware;
} counted[MOST_COUNTED];
static struct {
  hsa_agent_t agent;
  hsa_queue_t* queue;
} hardware_queues[8];

static void remember(hsa_queue_t* queue, hsa_agent_t agent, bool in_device) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < MOST_QUEUES; i++) {
    if (queues[i].queue != NULL) continue;
    queues[i].queue = queue;
    queues[i].agent = agent;
    queues[i].in_device = in_device;
    break;
  }
  pthread_mutex_unlock(&mutex);
}

static hsa_status_t create_one(hsa_agent_t agent, struct queue_descriptor* d) {
  d->queue = NULL;
  if (d->version != 0 || d->engine_type != ENGINE_COMPUTE ||
      (d->flags & ~(RING_IN_DEVICE | QUEUE_IN_DEVICE)) != 0) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  hsa_queue_t* queue;
  const hsa_status_t status =
      real.queue_create(agent, d->queue_bytes / 64, d->compute.type, d->callback,
                        d->data, d->compute.private_segment_size, UINT32_MAX, &queue);
  if (status != HSA_STATUS_SUCCESS) return status;
  d->queue = queue;
  remember(queue, agent, (d->flags & RING_IN_DEVICE) != 0);
  return status;
}

// Keeps the queues that could be created, and returns the first error.
static hsa_status_t amd_queue_create(hsa_agent_t agent, struct queue_descriptor* list,
                                     uint32_t count) {
  if (list == NULL || count == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  hsa_status_t first = HSA_STATUS_SUCCESS;
  for (uint32_t i = 0; i < count; i++) {
    const hsa_status_t status = create_one(agent, &list[i]);
    if (first == HSA_STATUS_SUCCESS) first = status;
  }
  return first;
}

static hsa_status_t queue_destroy(hsa_queue_t* queue) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < MOST_QUEUES; i++) {
    if (queues[i].queue == queue) queues[i].queue = NULL;
  }
  pthread_mutex_unlock(&mutex);
  return real.queue_destroy(queue);
}

// The real ring is in host memory, but it is reported as the device's.
static hsa_status_t pointer_info(const void* pointer, hsa_amd_pointer_info_t* info,
                                 void* (*alloc)(size_t), uint32_t* count,
                                 hsa_agent_t** accessible) {
  const hsa_status_t status =
      real.pointer_info(pointer, info, alloc, count, accessible);
  if (status != HSA_STATUS_SUCCESS) return status;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < MOST_QUEUES; i++) {
    const hsa_queue_t* queue = queues[i].queue;
    if (queue != NULL && queues[i].in_device && queue->base_address == pointer) {
      info->agentOwner = queues[i].agent;
    }
  }
  pthread_mutex_unlock(&mutex);
  return status;
}

// --- Counted queues: several handles, one queue ---

static hsa_queue_t* hardware_of(const hsa_queue_t* handle) {
  for (int i = 0; i < MOST_COUNTED; i++) {
    if (__atomic_load_n(&counted[i].handle, __ATOMIC_ACQUIRE) == handle) {
      return counted[i].hardware;
    }
  }
  return (hsa_queue_t*)handle;
}

static hsa_queue_t* hardware_queue(hsa_agent_t agent, queue_callback* callback,
                                   void* data) {
  for (size_t i = 0; i < sizeof(hardware_queues) / sizeof(hardware_queues[0]); i++) {
    if (hardware_queues[i].agent.handle == agent.handle)
      return hardware_queues[i].queue;
    if (hardware_queues[i].queue != NULL) continue;
    hsa_queue_t* queue;
    if (real.queue_create(agent, COUNTED_PACKETS, HSA_QUEUE_TYPE_MULTI, callback, data,
                          UINT32_MAX, UINT32_MAX, &queue) != HSA_STATUS_SUCCESS) {
      return NULL;
    }
    hardware_queues[i].agent = agent;
    hardware_queues[i].queue = queue;
    return queue;
  }
  return NULL;
}

static hsa_status_t counted_queue_acquire(hsa_agent_t agent, hsa_queue_type_t type,
                                          uint32_t priority, queue_callback* callback,
                                          void* data, uint64_t flags,
                                          hsa_queue_t** queue) {
  (void)priority;
  (void)flags;
  if (queue == NULL || type != HSA_QUEUE_TYPE_MULTI) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  hsa_status_t status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  pthread_mutex_lock(&mutex);
  hsa_queue_t* hardware = hardware_queue(agent, callback, data);
  for (int i = 0; hardware != NULL && i < MOST_COUNTED; i++) {
    if (counted[i].handle != NULL) continue;
    hsa_queue_t* handle = aligned_alloc(64, 64);
    if (handle == NULL) break;
    memcpy(handle, hardware, sizeof(*handle));
    counted[i].hardware = hardware;
    __atomic_store_n(&counted[i].handle, handle, __ATOMIC_RELEASE);
    *queue = handle;
    status = HSA_STATUS_SUCCESS;
    break;
  }
  pthread_mutex_unlock(&mutex);
  return status;
}

static hsa_status_t counted_queue_release(hsa_queue_t* queue) {
  hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
  pthread_mutex_lock(&mutex);
  for (int i = 0; queue != NULL && i < MOST_COUNTED; i++) {
    if (counted[i].handle != queue) continue;
    __atomic_store_n(&counted[i].handle, (hsa_queue_t*)NULL, __ATOMIC_RELEASE);
    free(queue);
    status = HSA_STATUS_SUCCESS;
    break;
  }
  pthread_mutex_unlock(&mutex);
  return status;
}

// A separate lock: the runtime calls tools while it starts and ends, and they call it.
static pthread_mutex_t life_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;

static hsa_status_t init(void) {
  pthread_mutex_lock(&life_mutex);
  const hsa_status_t status = real.init();
  if (status == HSA_STATUS_SUCCESS) users++;
  pthread_mutex_unlock(&life_mutex);
  return status;
}

static hsa_status_t shut_down(void) {
  pthread_mutex_lock(&life_mutex);
  for (size_t i = 0;
       users == 1 && i < sizeof(hardware_queues) / sizeof(*hardware_queues); i++) {
    if (hardware_queues[i].queue != NULL) real.queue_destroy(hardware_queues[i].queue);
    hardware_queues[i].queue = NULL;
    hardware_queues[i].agent.handle = 0;
  }
  const hsa_status_t status = real.shut_down();
  // For the case of a future runtime that does not reset its tables.
  const bool resets = getenv("SIMROCM_RUNTIME_KEEPS_TABLES") == NULL;
  if (users > 0 && --users == 0 && resets) reset_tables();
  pthread_mutex_unlock(&life_mutex);
  return status;
}

static uint64_t add_write_index(const hsa_queue_t* queue, uint64_t count) {
  return real.add_write_index(hardware_of(queue), count);
}
static uint64_t load_write_index(const hsa_queue_t* queue) {
  return real.load_write_index(hardware_of(queue));
}
static uint64_t load_read_index(const hsa_queue_t* queue) {
  return real.load_read_index(hardware_of(queue));
}

// Supports only the attributes that callers ask for.
static hsa_status_t queue_get_info(hsa_queue_t* queue, uint32_t attribute,
                                   void* value) {
  enum { AGENT = 0, METADATA_RING = 8, ENGINE_TYPE = 10 };
  // Only its existence matters: the contents are for firmware.
  static char ring[1];
  if (queue == NULL || value == NULL) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < MOST_QUEUES; i++) {
    if (queues[i].queue != queue) continue;
    if (attribute == AGENT) memcpy(value, &queues[i].agent, sizeof(hsa_agent_t));
    if (attribute == ENGINE_TYPE) memset(value, ENGINE_COMPUTE, 1);
    if (attribute == METADATA_RING) {
      void* address = getenv("SIMROCM_METADATA_RINGS") != NULL ? ring : NULL;
      memcpy(value, &address, sizeof(address));
    }
    if (attribute == AGENT || attribute == METADATA_RING || attribute == ENGINE_TYPE) {
      status = HSA_STATUS_SUCCESS;
    }
  }
  pthread_mutex_unlock(&mutex);
  return status;
}

// --- Batches of copies ---

// Copies all entries but the last synchronously; the last has the operation's signal.
static hsa_status_t submit(const struct copy_op* op, uint32_t num_deps,
                           const hsa_signal_t* deps) {
  if (op->type == COPY_LINEAR && op->entries == 0) {
    return real.async_copy(op->dst, op->dst_agent, op->src, op->src_agent, op->size,
                           num_deps, deps, op->completion);
  }
  if (op->type > COPY_BROADCAST || op->entries == 0) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  for (uint32_t i = 0; i < op->entries; i++) {
    const bool list = op->type == COPY_LINEAR;
    void* const src = list ? op->src_list[i] : op->src;
    const size_t bytes = list ? op->size_list[i] : op->size;
    hsa_status_t status;
    if (i + 1u == op->entries) {
      status = real.async_copy(op->dst_list[i], op->dst_agent_list[i], src,
                               op->src_agent, bytes, num_deps, deps, op->completion);
    } else {
      status = real.copy(op->dst_list[i], src, bytes);
    }
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t async_batch_copy(const struct copy_op* ops, uint32_t count,
                                     uint32_t num_deps, const hsa_signal_t* deps) {
  if (ops == NULL || count == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < count; i++) {
    const hsa_status_t status = submit(&ops[i], num_deps, deps);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

#define REAL(member, name) \
  real.member = (__typeof__(real.member))(void*)real_function(name)
#define NEWER(name, function) set_entry(name, (runtime_function*)(void*)(function))

void find_functions(void) {
  REAL(init, "hsa_init");
  REAL(shut_down, "hsa_shut_down");
  REAL(queue_create, "hsa_queue_create");
  REAL(queue_destroy, "hsa_queue_destroy");
  REAL(pointer_info, "hsa_amd_pointer_info");
  REAL(async_copy, "hsa_amd_memory_async_copy");
  REAL(copy, "hsa_memory_copy");
  REAL(add_write_index, "hsa_queue_add_write_index_scacq_screl");
  REAL(load_write_index, "hsa_queue_load_write_index_scacquire");
  REAL(load_read_index, "hsa_queue_load_read_index_scacquire");
}

void set_newer_functions(void) {
  NEWER("hsa_init", init);
  NEWER("hsa_shut_down", shut_down);
  NEWER("hsa_queue_destroy", queue_destroy);
  NEWER("hsa_queue_add_write_index_scacq_screl", add_write_index);
  NEWER("hsa_queue_load_write_index_scacquire", load_write_index);
  NEWER("hsa_queue_load_read_index_scacquire", load_read_index);
  NEWER("hsa_amd_pointer_info", pointer_info);
  NEWER("hsa_amd_queue_create", amd_queue_create);
  NEWER("hsa_amd_queue_get_info", queue_get_info);
  NEWER("hsa_amd_counted_queue_acquire", counted_queue_acquire);
  NEWER("hsa_amd_counted_queue_release", counted_queue_release);
  NEWER("hsa_amd_memory_async_batch_copy", async_batch_copy);
}
