#define _GNU_SOURCE
#include "tests/simgpu/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/simgpu/aql.h"
#include "tests/simgpu/clock.h"
#include "tests/simgpu/device_file.h"
#include "tests/simgpu/engine.h"
#include "tests/simgpu/event.h"
#include "tests/simgpu/kfd_later.h"
#include "tests/simgpu/memory.h"
#include "tests/simgpu/options.h"
#include "tests/simgpu/sdma.h"
#include "tests/simgpu/topology.h"

static struct {
  atomic_bool opened;  // by this process, not by the one it was forked from
  atomic_bool runtime_enabled;
} driver;

// --- Opening, forking, ending ---

static void before_fork(void) {
  simgpu_engine_before_fork();
  simgpu_event_before_fork();
  simgpu_memory_before_fork();
}

static void after_fork_parent(void) {
  simgpu_memory_after_fork_parent();
  simgpu_event_after_fork_parent();
  simgpu_engine_after_fork_parent();
}

// A forked child has no GPU context until it opens the device itself.
static void after_fork_child(void) {
  simgpu_memory_after_fork_child();
  simgpu_event_after_fork_child();
  simgpu_engine_after_fork_child();
  simgpu_file_after_fork_child();
  simgpu_aql_forget_statistics();
  simgpu_sdma_forget_statistics();
  driver.opened = false;
  driver.runtime_enabled = false;
}

static void write_statistics(int status, void* unused) {
  (void)status;
  (void)unused;
  if (!driver.opened) return;
  // From here on the numbers do not change any more: the last packets are complete.
  simgpu_engine_halt();
  const char* path = simgpu_options_get()->stats_path;
  FILE* file = path != NULL ? fopen(path, "ae") : NULL;
  if (file == NULL) return;
  fprintf(file, "pid=%d dispatches=%llu copies=%llu unrung=%llu kernel_ns=%llu\n",
          (int)getpid(), (unsigned long long)simgpu_aql_dispatches(),
          (unsigned long long)simgpu_sdma_copies(),
          (unsigned long long)simgpu_aql_unrung_packets(),
          (unsigned long long)simgpu_aql_kernel_ns());
  fclose(file);
}

__attribute__((constructor)) static void library_loaded(void) {
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  // Unlike a destructor, this runs after those of all libraries, which use the GPU.
  on_exit(write_statistics, NULL);
}

int simgpu_driver_open(int flags) {
  // The options cannot change while there are queues.
  if (simgpu_engine_queues() == 0 && !simgpu_options_load()) {
    errno = ENODEV;
    return -1;
  }
  int fd = simgpu_file_open((flags & O_CLOEXEC) != 0);
  if (fd >= 0) driver.opened = true;
  return fd;
}

int simgpu_driver_open_render(unsigned gpu, int flags) {
  if (!simgpu_options_ready() || gpu >= simgpu_options_get()->gpu_count) {
    errno = ENOENT;
    return -1;
  }
  return simgpu_file_open((flags & O_CLOEXEC) != 0);
}

// For the simulated rocprofiler-sdk, whose device counting sees everything the device
// executes, from any queue.
__attribute__((visibility("default"))) void simgpu_observe_dispatches(
    void (*observer)(uint32_t node, const void* packet, void* data), void* data);
void simgpu_observe_dispatches(void (*observer)(uint32_t node, const void* packet,
                                                void* data),
                               void* data) {
  simgpu_aql_observe(observer, data);
}

static void* pointer(uint64_t address) {
  return (void*)(uintptr_t)address;
}

// --- The driver and its devices ---

static int get_version(void* argument) {
  struct kfd_ioctl_get_version_args* a = argument;
  a->major_version = KFD_IOCTL_MAJOR_VERSION;
  a->minor_version = SIMGPU_KFD_MINOR;
  return 0;
}

static int get_clock_counters(void* argument) {
  struct kfd_ioctl_get_clock_counters_args* a = argument;
  unsigned gpu;
  const uint64_t now = simgpu_system_ns();
  a->gpu_clock_counter =
      simgpu_gpu_of_id(a->gpu_id, &gpu) ? simgpu_gpu_ticks_at(gpu, now) : 0;
  a->cpu_clock_counter = simgpu_cpu_ns();
  a->system_clock_counter = now;
  a->system_clock_freq = 1000000000;
  return 0;
}

// The apertures of gfx9; the range for the rest covers all of the host's addresses.
static void put_apertures(unsigned gpu, struct kfd_process_device_apertures* a) {
  *a = (struct kfd_process_device_apertures){.lds_base = 0x1000000000000u,
                                             .lds_limit = 0x10000ffffffffu,
                                             .scratch_base = 0x2000000000000u,
                                             .scratch_limit = 0x20000ffffffffu,
                                             .gpuvm_base = 0x4000,
                                             .gpuvm_limit = 0x7fffffffffffu,
                                             .gpu_id = simgpu_gpu_id(gpu)};
}

static int get_process_apertures(void* argument) {
  struct kfd_ioctl_get_process_apertures_args* a = argument;
  const unsigned count = simgpu_options_get()->gpu_count;
  a->num_of_nodes = count < NUM_OF_SUPPORTED_GPUS ? count : NUM_OF_SUPPORTED_GPUS;
  for (unsigned i = 0; i < a->num_of_nodes; i++) {
    put_apertures(i, &a->process_apertures[i]);
  }
  return 0;
}

static int get_process_apertures_new(void* argument) {
  struct kfd_ioctl_get_process_apertures_new_args* a = argument;
  const unsigned count = simgpu_options_get()->gpu_count;
  if (a->num_of_nodes != 0) {
    struct kfd_process_device_apertures* to =
        pointer(a->kfd_process_device_apertures_ptr);
    for (unsigned i = 0; i < count && i < a->num_of_nodes; i++) {
      put_apertures(i, &to[i]);
    }
  }
  a->num_of_nodes = count;
  return 0;
}

static int acquire_vm(void* argument) {
  const struct kfd_ioctl_acquire_vm_args* a = argument;
  unsigned gpu;
  if (!simgpu_gpu_of_id(a->gpu_id, &gpu)) return EINVAL;
  return simgpu_file_is((int)a->drm_fd) ? 0 : EBADF;
}

static int get_tile_config(void* argument) {
  struct kfd_ioctl_get_tile_config_args* a = argument;
  unsigned gpu;
  if (!simgpu_gpu_of_id(a->gpu_id, &gpu)) return EINVAL;
  // No tiling tables on gfx9; only the image code reads the address configuration.
  a->num_tile_configs = 0;
  a->num_macro_tile_configs = 0;
  a->gb_addr_config = 0x2a114042;
  a->num_banks = 4;
  a->num_ranks = 1;
  return 0;
}

static int set_xnack_mode(void* argument) {
  struct kfd_ioctl_set_xnack_mode_args* a = argument;
  if (a->xnack_enabled > 0) return EPERM;
  a->xnack_enabled = 0;
  return 0;
}

static int runtime_enable(void* argument) {
  struct simgpu_kfd_runtime_enable* a = argument;
  const bool enable = (a->mode & SIMGPU_KFD_RUNTIME_ENABLE_BIT) != 0;
  a->capabilities = 0;
  if (!enable) {
    // The driver accepts this even if it is not enabled.
    driver.runtime_enabled = false;
    return 0;
  }
  return atomic_exchange(&driver.runtime_enabled, true) ? EBUSY : 0;
}

// Returns a descriptor on which no event ever arrives.
static int smi_events(void* argument) {
  struct kfd_ioctl_smi_events_args* a = argument;
  int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return errno;
  a->anon_fd = (uint32_t)fd;
  return 0;
}

// For operations that have no meaning here.
static int accept(void* argument) {
  (void)argument;
  return 0;
}

// --- Events ---

static int create_event(void* argument) {
  struct kfd_ioctl_create_event_args* a = argument;
  const uint32_t id = simgpu_event_create(
      a->event_type == KFD_IOC_EVENT_SIGNAL ? SIMGPU_EVENT_SIGNAL : SIMGPU_EVENT_OTHER,
      a->auto_reset != 0);
  if (id == 0) return ENOSPC;
  // The mailboxes are in memory that the client has given, by slot. The client uses
  // that only if it also gets an offset at which it could map the driver's.
  a->event_page_offset = SIMGPU_FILE_EVENTS;
  a->event_id = id;
  a->event_trigger_data = id;
  a->event_slot_index = id;
  return 0;
}

static int destroy_event(void* argument) {
  const struct kfd_ioctl_destroy_event_args* a = argument;
  return simgpu_event_destroy(a->event_id) ? 0 : EINVAL;
}

static int set_event(void* argument) {
  const struct kfd_ioctl_set_event_args* a = argument;
  return simgpu_event_set(a->event_id) ? 0 : EINVAL;
}

static int reset_event(void* argument) {
  const struct kfd_ioctl_reset_event_args* a = argument;
  return simgpu_event_reset(a->event_id) ? 0 : EINVAL;
}

static struct simgpu_kfd_signal_event* signal_part(struct kfd_event_data* data) {
  return (struct simgpu_kfd_signal_event*)data;
}

static int wait_events(void* argument) {
  struct kfd_ioctl_wait_events_args* a = argument;
  struct kfd_event_data* data = pointer(a->events_ptr);
  const uint32_t count = a->num_events;
  if (count == 0 || count > SIMGPU_EVENTS) return EINVAL;
  uint32_t few_ids[16], *ids = few_ids;
  uint64_t few_ages[16], *ages = few_ages;
  if (count > 16) {
    ids = malloc(count * sizeof(*ids));
    ages = malloc(count * sizeof(*ages));
  }
  int error = ids == NULL || ages == NULL ? ENOMEM : 0;
  if (error == 0) {
    for (uint32_t i = 0; i < count; i++) {
      ids[i] = data[i].event_id;
      ages[i] = signal_part(&data[i])->last_age;
    }
    switch (simgpu_event_wait(ids, ages, count, a->wait_for_all != 0, a->timeout)) {
      case SIMGPU_WAIT_DONE:
        for (uint32_t i = 0; i < count; i++) {
          if (ages[i] != 0) signal_part(&data[i])->last_age = ages[i];
        }
        a->wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
        break;
      case SIMGPU_WAIT_TIMEOUT:
        a->wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
        break;
      default:
        a->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
        error = EIO;
    }
  }
  if (ids != few_ids) free(ids);
  if (ages != few_ages) free(ages);
  return error;
}

// --- Queues ---

static int create_queue(void* argument) {
  struct kfd_ioctl_create_queue_args* a = argument;
  struct simgpu_queue_request request = {
      .ring = pointer(a->ring_base_address),
      .ring_bytes = a->ring_size,
      .read_index = pointer(a->read_pointer_address)};
  if (!simgpu_gpu_of_id(a->gpu_id, &request.gpu)) return EINVAL;
  switch (a->queue_type) {
    case KFD_IOC_QUEUE_TYPE_COMPUTE_AQL:
      request.kind = SIMGPU_QUEUE_AQL;
      break;
    case KFD_IOC_QUEUE_TYPE_SDMA:
    case KFD_IOC_QUEUE_TYPE_SDMA_XGMI:
    case SIMGPU_KFD_QUEUE_SDMA_BY_ENGINE:
      request.kind = SIMGPU_QUEUE_SDMA;
      break;
    default:
      return EINVAL;
  }
  const struct simgpu_kfd_save_area* area = pointer(a->ctx_save_restore_address);
  if (driver.runtime_enabled && request.kind == SIMGPU_QUEUE_AQL && area != NULL &&
      area->error_payload != 0) {
    request.error_reason = pointer(area->error_payload);
    request.error_event = area->error_event;
  }
  unsigned slot;
  const int error = simgpu_engine_create_queue(&request, &a->queue_id, &slot);
  if (error != 0) return error;
  a->doorbell_offset = SIMGPU_FILE_DOORBELLS(request.gpu) + slot * 8;
  return 0;
}

static int destroy_queue(void* argument) {
  const struct kfd_ioctl_destroy_queue_args* a = argument;
  return simgpu_engine_destroy_queue(a->queue_id);
}

static int update_queue(void* argument) {
  const struct kfd_ioctl_update_queue_args* a = argument;
  return simgpu_engine_suspend_queue(a->queue_id, a->queue_percentage == 0);
}

static int alloc_queue_gws(void* argument) {
  struct kfd_ioctl_alloc_queue_gws_args* a = argument;
  a->first_gws = 0;
  return 0;
}

// --- Memory ---

static int alloc_memory(void* argument) {
  struct kfd_ioctl_alloc_memory_of_gpu_args* a = argument;
  struct simgpu_buffer buffer = {
      .address = a->va_addr, .bytes = a->size, .raw_flags = a->flags};
  if (!simgpu_gpu_of_id(a->gpu_id, &buffer.gpu)) return EINVAL;
  if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
    buffer.kind = SIMGPU_MEMORY_REGISTERS;
    buffer.offset = SIMGPU_FILE_DOORBELLS(buffer.gpu);
  } else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) {
    buffer.kind = SIMGPU_MEMORY_REGISTERS;
    buffer.offset = SIMGPU_FILE_REGISTERS(buffer.gpu);
  } else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
    buffer.kind = SIMGPU_MEMORY_USER;
    buffer.host = a->mmap_offset;
  } else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT) {
    buffer.kind = SIMGPU_MEMORY_HOST;
  } else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) {
    buffer.kind = a->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC ? SIMGPU_MEMORY_VISIBLE
                                                            : SIMGPU_MEMORY_DEVICE;
    if (buffer.bytes > simgpu_memory_bytes() - simgpu_memory_used(buffer.gpu)) {
      return ENOMEM;
    }
  } else {
    return EINVAL;
  }
  uint64_t handle;
  const int error = simgpu_memory_allocate(&buffer, &handle);
  if (error != 0) return error;
  a->handle = handle;
  if (buffer.kind != SIMGPU_MEMORY_USER) a->mmap_offset = buffer.offset;
  return 0;
}

static int free_memory(void* argument) {
  const struct kfd_ioctl_free_memory_of_gpu_args* a = argument;
  return simgpu_memory_free(a->handle);
}

static int map_memory(void* argument) {
  struct kfd_ioctl_map_memory_to_gpu_args* a = argument;
  const int error = simgpu_memory_make_accessible(a->handle);
  if (error == 0) a->n_success = a->n_devices;
  return error;
}

static int unmap_memory(void* argument) {
  struct kfd_ioctl_unmap_memory_from_gpu_args* a = argument;
  struct simgpu_buffer buffer;
  if (!simgpu_memory_get(a->handle, &buffer)) return EINVAL;
  a->n_success = a->n_devices;
  return 0;
}

static int available_memory(void* argument) {
  struct kfd_ioctl_get_available_memory_args* a = argument;
  unsigned gpu;
  if (!simgpu_gpu_of_id(a->gpu_id, &gpu)) return EINVAL;
  a->available = simgpu_memory_bytes() - simgpu_memory_used(gpu);
  return 0;
}

// Attributes are accepted; all GPUs may use all memory.
static int svm(void* argument) {
  struct kfd_ioctl_svm_args* a = argument;
  if (a->op != KFD_IOCTL_SVM_OP_GET_ATTR) return 0;
  for (uint32_t i = 0; i < a->nattr; i++) {
    switch (a->attrs[i].type) {
      case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
      case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
        a->attrs[i].value = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
        break;
      case KFD_IOCTL_SVM_ATTR_GRANULARITY:
        a->attrs[i].value = 9;
        break;
      case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
      case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
        a->attrs[i].value = 0;
        break;
      default:
        break;
    }
  }
  return 0;
}

// --- Dispatch ---

#define NUMBER(request) _IOC_NR(request)

// The size of an argument that ends with this member.
#define SIZE_UP_TO(type, member) \
  (offsetof(type, member) + sizeof(((type*)NULL)->member))

struct operation {
  int (*run)(void* argument);
  size_t bytes;  // minimum size of its argument
};

static const struct operation operations[] = {
    [NUMBER(AMDKFD_IOC_GET_VERSION)] = {get_version, 8},
    // Later headers have more members, which older clients do not pass.
    [NUMBER(AMDKFD_IOC_CREATE_QUEUE)] = {create_queue,
                                         SIZE_UP_TO(struct kfd_ioctl_create_queue_args,
                                                    ctl_stack_size)},
    [NUMBER(AMDKFD_IOC_DESTROY_QUEUE)] = {destroy_queue, 4},
    [NUMBER(AMDKFD_IOC_SET_MEMORY_POLICY)] = {accept, 0},
    [NUMBER(AMDKFD_IOC_GET_CLOCK_COUNTERS)] =
        {get_clock_counters, sizeof(struct kfd_ioctl_get_clock_counters_args)},
    [NUMBER(AMDKFD_IOC_GET_PROCESS_APERTURES)] =
        {get_process_apertures, sizeof(struct kfd_ioctl_get_process_apertures_args)},
    [NUMBER(AMDKFD_IOC_UPDATE_QUEUE)] = {update_queue,
                                         sizeof(struct kfd_ioctl_update_queue_args)},
    [NUMBER(AMDKFD_IOC_CREATE_EVENT)] = {create_event,
                                         sizeof(struct kfd_ioctl_create_event_args)},
    [NUMBER(AMDKFD_IOC_DESTROY_EVENT)] = {destroy_event, 4},
    [NUMBER(AMDKFD_IOC_SET_EVENT)] = {set_event, 4},
    [NUMBER(AMDKFD_IOC_RESET_EVENT)] = {reset_event, 4},
    [NUMBER(AMDKFD_IOC_WAIT_EVENTS)] = {wait_events,
                                        sizeof(struct kfd_ioctl_wait_events_args)},
    [NUMBER(AMDKFD_IOC_SET_SCRATCH_BACKING_VA)] = {accept, 0},
    [NUMBER(AMDKFD_IOC_GET_TILE_CONFIG)] = {get_tile_config,
                                            sizeof(
                                                struct kfd_ioctl_get_tile_config_args)},
    [NUMBER(AMDKFD_IOC_SET_TRAP_HANDLER)] = {accept, 0},
    [NUMBER(AMDKFD_IOC_GET_PROCESS_APERTURES_NEW)] =
        {get_process_apertures_new,
         sizeof(struct kfd_ioctl_get_process_apertures_new_args)},
    [NUMBER(AMDKFD_IOC_ACQUIRE_VM)] = {acquire_vm,
                                       sizeof(struct kfd_ioctl_acquire_vm_args)},
    [NUMBER(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU)] =
        {alloc_memory, sizeof(struct kfd_ioctl_alloc_memory_of_gpu_args)},
    [NUMBER(AMDKFD_IOC_FREE_MEMORY_OF_GPU)] = {free_memory, 8},
    [NUMBER(AMDKFD_IOC_MAP_MEMORY_TO_GPU)] =
        {map_memory, sizeof(struct kfd_ioctl_map_memory_to_gpu_args)},
    [NUMBER(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU)] =
        {unmap_memory, sizeof(struct kfd_ioctl_unmap_memory_from_gpu_args)},
    [NUMBER(AMDKFD_IOC_SET_CU_MASK)] = {accept, 0},
    [NUMBER(AMDKFD_IOC_ALLOC_QUEUE_GWS)] = {alloc_queue_gws,
                                            sizeof(
                                                struct kfd_ioctl_alloc_queue_gws_args)},
    [NUMBER(AMDKFD_IOC_SMI_EVENTS)] = {smi_events,
                                       sizeof(struct kfd_ioctl_smi_events_args)},
    [NUMBER(AMDKFD_IOC_SVM)] = {svm, sizeof(struct kfd_ioctl_svm_args)},
    [NUMBER(AMDKFD_IOC_SET_XNACK_MODE)] = {set_xnack_mode, 4},
    [NUMBER(AMDKFD_IOC_AVAILABLE_MEMORY)] =
        {available_memory, sizeof(struct kfd_ioctl_get_available_memory_args)},
    [SIMGPU_KFD_RUNTIME_ENABLE] = {runtime_enable,
                                   sizeof(struct simgpu_kfd_runtime_enable)},
};

bool simgpu_driver_may_be(unsigned long request) {
  return _IOC_TYPE(request) == AMDKFD_IOCTL_BASE;
}

int simgpu_driver_ioctl(unsigned long request, void* argument) {
  const unsigned number = _IOC_NR(request);
  // As in the driver: later clients may pass larger arguments than are known here.
  if (number >= sizeof(operations) / sizeof(operations[0]) ||
      operations[number].run == NULL) {
    return ENOTTY;
  }
  if (_IOC_SIZE(request) < operations[number].bytes) return EINVAL;
  return operations[number].run(argument);
}
