#define _GNU_SOURCE
#include "tests/targets/hsa_support.h"

#include <errno.h>
#include <hsa/amd_hsa_signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void die(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

void check(hsa_status_t status, const char* call) {
  // HSA_STATUS_INFO_BREAK is the only other code that is not an error.
  if (status == HSA_STATUS_SUCCESS || status == HSA_STATUS_INFO_BREAK) return;
  const char* text = "?";
  hsa_status_string(status, &text);
  die("%s: %#x %s", call, (unsigned)status, text);
}

// --- Agents and pools ---

static hsa_status_t visit_agent(hsa_agent_t agent, void* data) {
  struct machine* machine = data;
  hsa_device_type_t type;
  check(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type), "hsa_agent_get_info");
  if (type == HSA_DEVICE_TYPE_CPU && machine->cpu.handle == 0) machine->cpu = agent;
  if (type == HSA_DEVICE_TYPE_GPU && machine->gpu_count++ == 0) machine->gpu = agent;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t visit_pool(hsa_amd_memory_pool_t pool, void* data) {
  struct machine* machine = data;
  hsa_amd_segment_t segment;
  check(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment),
        "hsa_amd_memory_pool_get_info");
  if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
  uint32_t flags;
  check(
      hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags),
      "hsa_amd_memory_pool_get_info");
  if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) machine->kernarg = pool;
  bool fine = (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0;
  if (fine && machine->host.handle == 0) machine->host = pool;
  return HSA_STATUS_SUCCESS;
}

static hsa_status_t visit_device_pool(hsa_amd_memory_pool_t pool, void* data) {
  struct machine* machine = data;
  hsa_amd_segment_t segment;
  check(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment),
        "hsa_amd_memory_pool_get_info");
  if (segment == HSA_AMD_SEGMENT_GLOBAL && machine->device.handle == 0) {
    machine->device = pool;
  }
  return HSA_STATUS_SUCCESS;
}

void find_machine(struct machine* machine) {
  memset(machine, 0, sizeof(*machine));
  check(hsa_iterate_agents(visit_agent, machine), "hsa_iterate_agents");
  if (machine->gpu_count == 0) die("no GPU");
  check(hsa_agent_get_info(machine->gpu, HSA_AGENT_INFO_NAME, machine->isa),
        "hsa_agent_get_info");
  check(hsa_amd_agent_iterate_memory_pools(machine->cpu, visit_pool, machine),
        "hsa_amd_agent_iterate_memory_pools");
  check(hsa_amd_agent_iterate_memory_pools(machine->gpu, visit_device_pool, machine),
        "hsa_amd_agent_iterate_memory_pools");
  if (machine->host.handle == 0 || machine->kernarg.handle == 0 ||
      machine->device.handle == 0) {
    die("a memory pool is missing");
  }
}

void* allocate(const struct machine* machine, hsa_amd_memory_pool_t pool,
               size_t bytes) {
  void* memory = NULL;
  check(hsa_amd_memory_pool_allocate(pool, bytes, 0, &memory),
        "hsa_amd_memory_pool_allocate");
  hsa_agent_t agents[] = {machine->gpu, machine->cpu};
  // The CPU can always access host memory, and must not be named for device memory.
  check(hsa_amd_agents_allow_access(1, agents, NULL, memory),
        "hsa_amd_agents_allow_access");
  return memory;
}

// --- Kernels ---

// kernel_images.c: the code objects that were compiled from kernels.cl.
extern const char kernels_gfx906_start[], kernels_gfx906_end[];
extern const char kernels_gfx90a_start[], kernels_gfx90a_end[];

hsa_executable_t load_kernels(const struct machine* machine) {
  const char *start, *end;
  if (strcmp(machine->isa, "gfx906") == 0) {
    start = kernels_gfx906_start;
    end = kernels_gfx906_end;
  } else if (strcmp(machine->isa, "gfx90a") == 0) {
    start = kernels_gfx90a_start;
    end = kernels_gfx90a_end;
  } else {
    die("no code object for %s; this program has gfx906 and gfx90a", machine->isa);
  }
  hsa_code_object_reader_t reader;
  check(
      hsa_code_object_reader_create_from_memory(start, (size_t)(end - start), &reader),
      "hsa_code_object_reader_create_from_memory");
  hsa_executable_t executable;
  check(
      hsa_executable_create_alt(
          HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable),
      "hsa_executable_create_alt");
  check(hsa_executable_load_agent_code_object(executable, machine->gpu, reader, NULL,
                                              NULL),
        "hsa_executable_load_agent_code_object");
  check(hsa_executable_freeze(executable, NULL), "hsa_executable_freeze");
  check(hsa_code_object_reader_destroy(reader), "hsa_code_object_reader_destroy");
  return executable;
}

struct kernel find_kernel(const struct machine* machine, hsa_executable_t executable,
                          const char* name) {
  char symbol_name[256];
  snprintf(symbol_name, sizeof(symbol_name), "%s.kd", name);
  hsa_executable_symbol_t symbol;
  check(hsa_executable_get_symbol_by_name(executable, symbol_name, &machine->gpu,
                                          &symbol),
        symbol_name);
  struct kernel kernel;
  check(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
                                       &kernel.object),
        "hsa_executable_symbol_get_info");
  check(hsa_executable_symbol_get_info(
            symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE,
            &kernel.kernarg_bytes),
        "hsa_executable_symbol_get_info");
  check(hsa_executable_symbol_get_info(
            symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE,
            &kernel.group_bytes),
        "hsa_executable_symbol_get_info");
  check(hsa_executable_symbol_get_info(
            symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
            &kernel.private_bytes),
        "hsa_executable_symbol_get_info");
  return kernel;
}

// --- Queues and signals ---

static void queue_error(hsa_status_t status, hsa_queue_t* queue, void* data) {
  (void)queue;
  (void)data;
  const char* text = "?";
  hsa_status_string(status, &text);
  fprintf(stderr, "queue error %#x %s\n", (unsigned)status, text);
  abort();
}

hsa_queue_t* create_queue(const struct machine* machine, uint32_t packets,
                          bool shared) {
  hsa_queue_t* queue;
  check(hsa_queue_create(machine->gpu, packets,
                         shared ? HSA_QUEUE_TYPE_MULTI : HSA_QUEUE_TYPE_SINGLE,
                         queue_error, NULL, UINT32_MAX, UINT32_MAX, &queue),
        "hsa_queue_create");
  return queue;
}

// Reserves a packet; returns its index.
static uint64_t reserve(hsa_queue_t* queue) {
  uint64_t index = hsa_queue_add_write_index_scacq_screl(queue, 1);
  while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) {
  }
  return index;
}

static bool direct;

void ring_directly(bool directly) {
  direct = directly;
}

static void ring(hsa_queue_t* queue, uint64_t index) {
  const amd_signal_t* doorbell =
      (const amd_signal_t*)(uintptr_t)queue->doorbell_signal.handle;
  if (direct && doorbell->kind == AMD_SIGNAL_KIND_DOORBELL) {
    __atomic_store_n(doorbell->hardware_doorbell_ptr, index, __ATOMIC_RELEASE);
  } else {
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
  }
}

// Publishes a packet whose first four bytes are `header` and `setup`.
static void publish(void* packet, uint16_t header, uint16_t setup) {
  __atomic_store_n((uint32_t*)packet, header | (uint32_t)setup << 16, __ATOMIC_RELEASE);
}

uint16_t packet_header(hsa_packet_type_t type) {
  return (uint16_t)(type << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

void submit(hsa_queue_t* queue, const void* packet) {
  const uint64_t index = reserve(queue);
  char* slot = (char*)queue->base_address + 64 * (index % queue->size);
  uint16_t first[2];
  memcpy(first, packet, sizeof(first));
  memcpy(slot + sizeof(first), (const char*)packet + sizeof(first), 64 - sizeof(first));
  publish(slot, first[0], first[1]);
  ring(queue, index);
}

void dispatch(hsa_queue_t* queue, const struct kernel* kernel, void* kernarg,
              uint32_t work_items, hsa_signal_t completion) {
  uint64_t index = reserve(queue);
  write_dispatch(queue, index, kernel, kernarg, work_items, completion);
  ring(queue, index);
}

void write_dispatch(hsa_queue_t* queue, uint64_t index, const struct kernel* kernel,
                    void* kernarg, uint32_t work_items, hsa_signal_t completion) {
  hsa_kernel_dispatch_packet_t* packet =
      (hsa_kernel_dispatch_packet_t*)queue->base_address + index % queue->size;
  packet->workgroup_size_x = 64;
  packet->workgroup_size_y = 1;
  packet->workgroup_size_z = 1;
  packet->reserved0 = 0;
  packet->grid_size_x = work_items;
  packet->grid_size_y = 1;
  packet->grid_size_z = 1;
  packet->private_segment_size = kernel->private_bytes;
  packet->group_segment_size = kernel->group_bytes;
  packet->kernel_object = kernel->object;
  packet->kernarg_address = kernarg;
  packet->reserved2 = 0;
  packet->completion_signal = completion;
  publish(packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH),
          1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS);
}

void barrier(hsa_queue_t* queue, hsa_signal_t completion) {
  uint64_t index = reserve(queue);
  hsa_barrier_and_packet_t* packet =
      (hsa_barrier_and_packet_t*)queue->base_address + index % queue->size;
  memset((char*)packet + 4, 0, sizeof(*packet) - 4);
  packet->completion_signal = completion;
  publish(packet, packet_header(HSA_PACKET_TYPE_BARRIER_AND), 0);
  ring(queue, index);
}

hsa_signal_t create_signal(int64_t value) {
  hsa_signal_t signal;
  check(hsa_signal_create(value, 0, NULL, &signal), "hsa_signal_create");
  return signal;
}

void wait_for_zero(hsa_signal_t signal) {
  while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX,
                                   HSA_WAIT_STATE_BLOCKED) != 0) {
  }
}

void run_increments(uint64_t count) {
  struct machine machine;
  find_machine(&machine);
  hsa_executable_t executable = load_kernels(&machine);
  struct kernel increment = find_kernel(&machine, executable, "increment");
  hsa_queue_t* queue = create_queue(&machine, 256, false);
  uint64_t* counter = allocate(&machine, machine.host, sizeof(*counter));
  uint64_t** arguments = allocate(&machine, machine.kernarg, 256);
  *counter = 0;
  *arguments = counter;
  hsa_signal_t done = create_signal((hsa_signal_value_t)count);
  for (uint64_t i = 0; i < count; i++)
    dispatch(queue, &increment, arguments, 256, done);
  wait_for_zero(done);
  uint64_t counted = *counter;
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  check(hsa_queue_destroy(queue), "hsa_queue_destroy");
  check(hsa_amd_memory_pool_free(arguments), "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(counter), "hsa_amd_memory_pool_free");
  check(hsa_executable_destroy(executable), "hsa_executable_destroy");
  if (counted != count) {
    die("%llu dispatches counted to %llu", (unsigned long long)count,
        (unsigned long long)counted);
  }
}

bool children_succeed(uint64_t count) {
  bool right = true;
  for (uint64_t i = 0; i < count; i++) {
    int status;
    if (wait(&status) < 0) die("wait: %s", strerror(errno));
    right = right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return right;
}

void create_file(const char* path) {
  FILE* file = fopen(path, "w");
  if (file == NULL || fclose(file) != 0) die("%s: %s", path, strerror(errno));
}

void path_beside_program(const char* name, char* path, size_t path_bytes) {
  ssize_t length = readlink("/proc/self/exe", path, path_bytes - 1);
  if (length < 0) die("readlink /proc/self/exe: %s", strerror(errno));
  path[length] = '\0';
  char* file = strrchr(path, '/') + 1;
  if (strlen(name) >= path_bytes - (size_t)(file - path))
    die("%s: path too long", name);
  strcpy(file, name);
}

uint64_t parse_number(const char* option, const char* text) {
  char* end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *text == '-') {
    die("%s: %s is not a number", option, text);
  }
  return value;
}

void pause_msec(uint64_t msec) {
  if (msec == 0) return;
  struct timespec pause = {(time_t)(msec / 1000), (long)(msec % 1000) * 1000000};
  nanosleep(&pause, NULL);
}
