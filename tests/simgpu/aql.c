#include "tests/simgpu/aql.h"

#include <hsa/hsa_ext_amd.h>
#include <stdatomic.h>
#include <stddef.h>

#include "tests/simgpu/clock.h"
#include "tests/simgpu/event.h"
#include "tests/simgpu/kernel.h"
#include "tests/simgpu/options.h"
#include "tests/simgpu/signal.h"

// Packets per visit, limited so that one busy queue does not starve the others.
#define PACKETS_PER_STEP 32

// Values of amd_queue_t.queue_inactive_signal with which the packet processor of gfx9
// reports an error to the runtime.
enum {
  ERROR_SCRATCH = 1,  // the only error from which the queue recovers
  ERROR_INVALID_DIMENSION = 2,
  ERROR_INVALID_CODE = 8,
  ERROR_INVALID_PACKET = 32
};

// The same errors as bits of the reason that a driver reports to runtimes which have
// enabled that.
enum {
  REASON_DIMENSION_INVALID = 1 << (16 - 1),
  REASON_CODE_INVALID = 1 << (18 - 1),
  REASON_PACKET_UNSUPPORTED = 1 << (20 - 1)
};

// Formats of vendor-specific packets.
enum {
  VENDOR_PM4_INDIRECT_BUFFER = 1,
  VENDOR_BARRIER_VALUE = HSA_AMD_PACKET_TYPE_BARRIER_VALUE,
  VENDOR_EXT_KERNEL_DISPATCH = 3,
  VENDOR_IB_JUMP = 7
};

// The layout in hsa_ext_amd.h of interface 1.31.
struct ext_dispatch {
  uint16_t header;
  uint8_t format, setup;
  uint16_t workgroup_size[3], reserved;
  uint32_t clusters_x;
  uint16_t clusters_y, clusters_z;
  uint8_t cluster_size[3], hint;
  uint32_t private_segment_size, group_segment_size;
  uint64_t kernel_object;
  uint64_t kernarg_address;
  hsa_signal_t dependency;
  hsa_signal_t completion_signal;
};
// Runs packets outside of the ring.
struct ib_jump {
  uint16_t header;
  uint8_t format, reserved1;
  uint32_t packets;
  uint64_t base;
  uint64_t flags;
  uint64_t reserved2[3];
  hsa_signal_t completion_signal;
  uint64_t reserved3;
};

union packet {
  uint16_t header;
  hsa_kernel_dispatch_packet_t dispatch;
  hsa_barrier_and_packet_t barrier;  // barrier-or has the same layout
  hsa_amd_barrier_value_packet_t barrier_value;
  hsa_amd_vendor_packet_header_t vendor;
  struct ext_dispatch ext;
  struct ib_jump jump;
};
_Static_assert(sizeof(struct ext_dispatch) == 64 && sizeof(struct ib_jump) == 64,
               "as packet processors read them");

static atomic_uint_fast64_t unrung_packets;
static atomic_uint_fast64_t dispatches;
static atomic_uint_fast64_t kernel_ticks;

uint64_t simgpu_aql_unrung_packets(void) {
  return unrung_packets;
}
uint64_t simgpu_aql_dispatches(void) {
  return dispatches;
}
uint64_t simgpu_aql_kernel_ns(void) {
  return simgpu_ticks_to_ns(kernel_ticks);
}

static struct {
  void (*_Atomic call)(uint32_t node, const void* packet, void* data);
  void* _Atomic data;
} observer;

void simgpu_aql_observe(void (*call)(uint32_t node, const void* packet, void* data),
                        void* data) {
  observer.data = data;
  observer.call = call;
}

void simgpu_aql_forget_statistics(void) {
  observer.call = NULL;
  unrung_packets = 0;
  dispatches = 0;
  kernel_ticks = 0;
}

static union packet* packet_at(const struct simgpu_queue* queue, uint64_t index) {
  return (union packet*)queue->ring +
         index % (queue->ring_bytes / sizeof(union packet));
}

// True if the packet at `read` may be consumed: announced, and its header written.
static bool may_consume(struct simgpu_queue* queue, uint64_t read,
                        const union packet* packet) {
  uint64_t bell = *queue->doorbell;
  if (bell != SIMGPU_DOORBELL_SILENT && bell + 1 > queue->rung) queue->rung = bell + 1;
  uint16_t header = __atomic_load_n(&packet->header, __ATOMIC_ACQUIRE);
  if ((header & 0xff) == HSA_PACKET_TYPE_INVALID) {
    queue->unrung_since_ns = 0;
    return false;
  }
  if (read < queue->rung) {
    queue->unrung_since_ns = 0;
    return true;
  }
  uint64_t now = simgpu_system_ns();
  if (queue->unrung_since_ns == 0) {
    queue->unrung_since_ns = now;
    queue->unrung_until =
        __atomic_load_n(&queue->amd_queue->write_dispatch_id, __ATOMIC_ACQUIRE);
    return false;
  }
  // A valid packet below the write index whose doorbell has not been seen for this long
  // is processed anyway: several producers may ring out of order, and since the
  // doorbell is a polled word, a smaller value may have replaced a larger one
  // unnoticed. As a rule, the time is longer than a producer loses its CPU between
  // writing and ringing; a real processor would not look at such a packet at all.
  if (now - queue->unrung_since_ns < simgpu_options_get()->unrung_ns) return false;
  // All packets that were reserved when the period began have had that time.
  atomic_fetch_add(&unrung_packets, queue->unrung_until - read);
  queue->rung = queue->unrung_until;
  queue->unrung_since_ns = 0;
  return true;
}

static bool profiling(const struct simgpu_queue* queue) {
  return (queue->amd_queue->queue_properties & AMD_QUEUE_PROPERTIES_ENABLE_PROFILING) !=
         0;
}

static int64_t reason_of(int64_t error) {
  switch (error) {
    case ERROR_INVALID_DIMENSION:
      return REASON_DIMENSION_INVALID;
    case ERROR_INVALID_CODE:
      return REASON_CODE_INVALID;
    default:
      return REASON_PACKET_UNSUPPORTED;
  }
}

static void report_error(struct simgpu_queue* queue, int64_t error) {
  if (error != ERROR_SCRATCH) queue->halted = true;
  if (error != ERROR_SCRATCH && queue->error_reason != NULL) {
    __atomic_fetch_or(queue->error_reason, reason_of(error), __ATOMIC_SEQ_CST);
    simgpu_event_fire(queue->error_event);
    return;
  }
  if (queue->amd_queue->queue_inactive_signal.handle != 0) {
    simgpu_signal_store(queue->amd_queue->queue_inactive_signal, error);
  }
}

// Frees the slot, then signals: a waiter may rely on room in the queue.
static void retire(struct simgpu_queue* queue, union packet* packet, uint64_t read,
                   hsa_signal_t completion, uint64_t start, uint64_t end) {
  if (profiling(queue)) simgpu_signal_set_times(completion, start, end);
  __atomic_store_n(&packet->header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
  __atomic_store_n(&queue->amd_queue->read_dispatch_id, read + 1, __ATOMIC_RELEASE);
  simgpu_signal_complete(completion);
}

static void retire_now(struct simgpu_queue* queue, union packet* packet, uint64_t read,
                       hsa_signal_t completion) {
  uint64_t now = 0;
  if (profiling(queue) && completion.handle != 0) now = simgpu_gpu_ticks(queue->gpu);
  retire(queue, packet, read, completion, now, now);
}

static int64_t dispatch_error(const hsa_kernel_dispatch_packet_t* dispatch) {
  if (dispatch->kernel_object == 0) return ERROR_INVALID_CODE;
  if (dispatch->workgroup_size_x == 0 || dispatch->workgroup_size_y == 0 ||
      dispatch->workgroup_size_z == 0 || dispatch->grid_size_x == 0 ||
      dispatch->grid_size_y == 0 || dispatch->grid_size_z == 0) {
    return ERROR_INVALID_DIMENSION;
  }
  return 0;
}

// False while the runtime has yet to provide scratch memory for this dispatch.
static bool scratch_ready(struct simgpu_queue* queue,
                          const hsa_kernel_dispatch_packet_t* dispatch) {
  amd_queue_t* amd_queue = queue->amd_queue;
  if (queue->waiting_for_scratch) {
    if (simgpu_signal_load(amd_queue->queue_inactive_signal) != 0) return false;
    queue->waiting_for_scratch = false;
  }
  if (dispatch->private_segment_size <= amd_queue->scratch_wave64_lane_byte_size) {
    return true;
  }
  queue->waiting_for_scratch = true;
  report_error(queue, ERROR_SCRATCH);
  return false;
}

static enum simgpu_step start_dispatch(struct simgpu_queue* queue,
                                       const hsa_kernel_dispatch_packet_t* dispatch) {
  int64_t error = dispatch_error(dispatch);
  if (error != 0) {
    report_error(queue, error);
    return SIMGPU_IDLE;
  }
  if (!scratch_ready(queue, dispatch)) return SIMGPU_BLOCKED;
  queue->start_ticks = simgpu_gpu_ticks(queue->gpu);
  queue->end_ticks =
      queue->start_ticks + simgpu_ns_to_ticks(simgpu_options_get()->kernel_ns);
  queue->running = true;
  // A real processor does not wait for its own writes to memory; the simulator would,
  // for a line that was last used by another core.
  if (dispatch->completion_signal.handle != 0) {
    __builtin_prefetch((const void*)(uintptr_t)dispatch->completion_signal.handle, 1);
  }
  // The stand-in's own time is the host's, not the kernel's: it delays the completion
  // if it is longer than the kernel, but does not show in the timestamps.
  simgpu_kernel_execute(dispatch);
  return SIMGPU_PROGRESS;
}

static hsa_kernel_dispatch_packet_t as_dispatch(const struct ext_dispatch* ext) {
  return (hsa_kernel_dispatch_packet_t){
      .header = HSA_PACKET_TYPE_KERNEL_DISPATCH,
      .setup = ext->setup,
      .workgroup_size_x = ext->workgroup_size[0],
      .workgroup_size_y = ext->workgroup_size[1],
      .workgroup_size_z = ext->workgroup_size[2],
      .grid_size_x = ext->clusters_x * ext->cluster_size[0] * ext->workgroup_size[0],
      .grid_size_y =
          (uint32_t)ext->clusters_y * ext->cluster_size[1] * ext->workgroup_size[1],
      .grid_size_z =
          (uint32_t)ext->clusters_z * ext->cluster_size[2] * ext->workgroup_size[2],
      .private_segment_size = ext->private_segment_size,
      .group_segment_size = ext->group_segment_size,
      .kernel_object = ext->kernel_object,
      .kernarg_address = (void*)(uintptr_t)ext->kernarg_address,
      .completion_signal = ext->completion_signal};
}

static enum simgpu_step start_ext_dispatch(struct simgpu_queue* queue,
                                           const struct ext_dispatch* ext) {
  if (ext->dependency.handle != 0 && simgpu_signal_load(ext->dependency) != 0) {
    return SIMGPU_BLOCKED;
  }
  const hsa_kernel_dispatch_packet_t dispatch = as_dispatch(ext);
  return start_dispatch(queue, &dispatch);
}

// The packets behind a jump have no completion signals of their own, and take no time.
static enum simgpu_step jump(struct simgpu_queue* queue, union packet* packet,
                             uint64_t read) {
  const union packet* target = (const union packet*)(uintptr_t)packet->jump.base;
  for (uint32_t i = 0; i < packet->jump.packets; i++) {
    int64_t error = (target[i].header & 0xff) == HSA_PACKET_TYPE_KERNEL_DISPATCH
                        ? dispatch_error(&target[i].dispatch)
                        : ERROR_INVALID_PACKET;
    if (error != 0) {
      report_error(queue, error);
      return SIMGPU_IDLE;
    }
    simgpu_kernel_execute(&target[i].dispatch);
    atomic_fetch_add_explicit(&dispatches, 1, memory_order_relaxed);
  }
  retire_now(queue, packet, read, packet->jump.completion_signal);
  return SIMGPU_PROGRESS;
}

static bool barrier_satisfied(const hsa_barrier_and_packet_t* barrier, bool any) {
  bool has_dependency = false;
  for (int i = 0; i < 5; i++) {
    hsa_signal_t dependency = barrier->dep_signal[i];
    if (dependency.handle == 0) continue;
    has_dependency = true;
    bool zero = simgpu_signal_load(dependency) == 0;
    if (any && zero) return true;
    if (!any && !zero) return false;
  }
  return !any || !has_dependency;
}

static bool barrier_value_satisfied(const hsa_amd_barrier_value_packet_t* barrier) {
  if (barrier->signal.handle == 0) return true;
  int64_t value = simgpu_signal_load(barrier->signal) & barrier->mask;
  switch (barrier->cond) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == barrier->value;
    case HSA_SIGNAL_CONDITION_NE:
      return value != barrier->value;
    case HSA_SIGNAL_CONDITION_LT:
      return value < barrier->value;
    case HSA_SIGNAL_CONDITION_GTE:
      return value >= barrier->value;
    default:
      return true;
  }
}

// Starts the packet at the head, or waits for it.
static enum simgpu_step consume(struct simgpu_queue* queue, union packet* packet,
                                uint64_t read) {
  switch (packet->header & 0xff) {
    case HSA_PACKET_TYPE_KERNEL_DISPATCH:
      return start_dispatch(queue, &packet->dispatch);
    case HSA_PACKET_TYPE_BARRIER_AND:
    case HSA_PACKET_TYPE_BARRIER_OR: {
      bool any = (packet->header & 0xff) == HSA_PACKET_TYPE_BARRIER_OR;
      if (!barrier_satisfied(&packet->barrier, any)) return SIMGPU_BLOCKED;
      retire_now(queue, packet, read, packet->barrier.completion_signal);
      return SIMGPU_PROGRESS;
    }
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
      if (packet->vendor.AmdFormat == VENDOR_BARRIER_VALUE) {
        if (!barrier_value_satisfied(&packet->barrier_value)) return SIMGPU_BLOCKED;
        retire_now(queue, packet, read, packet->barrier_value.completion_signal);
        return SIMGPU_PROGRESS;
      }
      if (packet->vendor.AmdFormat == VENDOR_PM4_INDIRECT_BUFFER) {
        // Cache maintenance, which has no meaning here. The completion signal is at the
        // same place as in all AQL packets.
        retire_now(queue, packet, read, packet->barrier.completion_signal);
        return SIMGPU_PROGRESS;
      }
      if (packet->vendor.AmdFormat == VENDOR_EXT_KERNEL_DISPATCH) {
        return start_ext_dispatch(queue, &packet->ext);
      }
      if (packet->vendor.AmdFormat == VENDOR_IB_JUMP) return jump(queue, packet, read);
      break;
    default:
      break;
  }
  report_error(queue, ERROR_INVALID_PACKET);
  return SIMGPU_IDLE;
}

static bool finish_running(struct simgpu_queue* queue, uint64_t read) {
  uint64_t nothing_to_wait_for = queue->start_ticks;
  if (queue->end_ticks != nothing_to_wait_for &&
      simgpu_gpu_ticks(queue->gpu) < queue->end_ticks) {
    return false;
  }
  union packet* packet = packet_at(queue, read);
  queue->running = false;
  atomic_fetch_add_explicit(&dispatches, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&kernel_ticks, queue->end_ticks - queue->start_ticks,
                            memory_order_relaxed);
  void (*call)(uint32_t, const void*, void*) = observer.call;
  if (call != NULL) {
    const bool ext =
        (packet->header & 0xff) == HSA_PACKET_TYPE_VENDOR_SPECIFIC;  // an ext dispatch
    const hsa_kernel_dispatch_packet_t dispatch =
        ext ? as_dispatch(&packet->ext) : packet->dispatch;
    call(queue->node, &dispatch, observer.data);
  }
  retire(queue, packet, read, packet->dispatch.completion_signal, queue->start_ticks,
         queue->end_ticks);
  return true;
}

enum simgpu_step simgpu_aql_step(struct simgpu_queue* queue) {
  if (queue->halted) return SIMGPU_IDLE;
  enum simgpu_step result = SIMGPU_IDLE;
  for (int done = 0; done < PACKETS_PER_STEP; done++) {
    uint64_t read = queue->amd_queue->read_dispatch_id;
    if (queue->running) {
      if (!finish_running(queue, read)) {
        return result == SIMGPU_PROGRESS ? result : SIMGPU_RUNNING;
      }
      result = SIMGPU_PROGRESS;
      continue;
    }
    uint64_t write =
        __atomic_load_n(&queue->amd_queue->write_dispatch_id, __ATOMIC_ACQUIRE);
    if (read >= write) return result;
    union packet* packet = packet_at(queue, read);
    if (!may_consume(queue, read, packet)) {
      return result == SIMGPU_PROGRESS ? result : SIMGPU_BLOCKED;
    }
    enum simgpu_step step = consume(queue, packet, read);
    if (step != SIMGPU_PROGRESS) return result == SIMGPU_PROGRESS ? result : step;
    result = step;
  }
  return result;
}
