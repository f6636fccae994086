// Prints the write index that an application sees, and the one that the GPU sees, after
// each function that moves it and each store that rings the doorbell, in lines:
//   NAME before=N seen=N real=N after=N read=N
// before: the index that the function returned or was given; seen and real: the two
// indices before the doorbell; after: the real one after the doorbell; read: the GPU's
// read index once the packets are done.
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/targets/hsa_support.h"

static hsa_queue_t* queue;
static struct kernel increment;
static void* arguments;

static uint64_t real_index(void) {
  return __atomic_load_n(&((amd_queue_t*)queue)->write_dispatch_id, __ATOMIC_ACQUIRE);
}

static void write_packet(uint64_t index, hsa_signal_t done) {
  hsa_kernel_dispatch_packet_t* packet =
      (hsa_kernel_dispatch_packet_t*)queue->base_address + index % queue->size;
  memset((char*)packet + 4, 0, sizeof(*packet) - 4);
  packet->workgroup_size_x = 64;
  packet->grid_size_x = 64;
  packet->workgroup_size_y = 1;
  packet->grid_size_y = 1;
  packet->workgroup_size_z = 1;
  packet->grid_size_z = 1;
  packet->kernel_object = increment.object;
  packet->kernarg_address = arguments;
  packet->completion_signal = done;
  uint32_t first = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
                   1 << HSA_PACKET_HEADER_BARRIER |
                   HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                   HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE |
                   1u << (16 + HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS);
  __atomic_store_n((uint32_t*)packet, first, __ATOMIC_RELEASE);
}

// Submits one packet at `index`, rung with `store`, and prints the indices.
static void run(const char* name, uint64_t before, uint64_t index,
                void (*store)(hsa_signal_t, hsa_signal_value_t)) {
  uint64_t seen = hsa_queue_load_write_index_scacquire(queue);
  uint64_t real = real_index();
  hsa_signal_t done = create_signal(1);
  write_packet(index, done);
  store(queue->doorbell_signal, (hsa_signal_value_t)index);
  uint64_t after = real_index();
  wait_for_zero(done);
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  printf("%s before=%lu seen=%lu real=%lu after=%lu read=%lu\n", name, before, seen,
         real, after, hsa_queue_load_read_index_scacquire(queue));
}

#define ADD(order)                                                  \
  do {                                                              \
    uint64_t before = hsa_queue_add_write_index_##order(queue, 1);  \
    run("add_" #order, before, before, hsa_signal_store_screlease); \
  } while (0)
#define CAS(order)                                                             \
  do {                                                                         \
    uint64_t index = hsa_queue_load_write_index_relaxed(queue);                \
    uint64_t wrong = hsa_queue_cas_write_index_##order(queue, index + 9, 99);  \
    if (wrong != index) die("a compare and swap that should fail changed it"); \
    hsa_queue_cas_write_index_##order(queue, index, index + 1);                \
    run("cas_" #order, index, index, hsa_signal_store_screlease);              \
  } while (0)
#define STORE(order, doorbell)                                    \
  do {                                                            \
    uint64_t index = hsa_queue_load_write_index_scacquire(queue); \
    hsa_queue_store_write_index_##order(queue, index + 1);        \
    run("store_" #order "/" #doorbell, index, index, doorbell);   \
  } while (0)

int main(void) {
  check(hsa_init(), "hsa_init");
  struct machine machine;
  find_machine(&machine);
  hsa_executable_t executable = load_kernels(&machine);
  increment = find_kernel(&machine, executable, "increment");
  queue = create_queue(&machine, 64, false);
  uint64_t* counter = allocate(&machine, machine.host, sizeof(*counter));
  *counter = 0;
  arguments = allocate(&machine, machine.kernarg, 256);
  *(uint64_t**)arguments = counter;
  ADD(scacq_screl);
  ADD(scacquire);
  ADD(relaxed);
  ADD(screlease);
  CAS(scacq_screl);
  CAS(scacquire);
  CAS(relaxed);
  CAS(screlease);
  STORE(relaxed, hsa_signal_store_relaxed);
  STORE(screlease, hsa_signal_store_screlease);
  STORE(relaxed, hsa_signal_silent_store_relaxed);
  STORE(screlease, hsa_signal_silent_store_screlease);
  const amd_signal_t* doorbell = (const amd_signal_t*)queue->doorbell_signal.handle;
  printf("dispatches=%lu doorbell=%s queue_ptr=%d result=%s\n", *counter,
         doorbell->kind == AMD_SIGNAL_KIND_USER ? "user" : "hardware",
         doorbell->queue_ptr != NULL, *counter == 12 ? "ok" : "wrong");
  check(hsa_queue_destroy(queue), "hsa_queue_destroy");
  check(hsa_executable_destroy(executable), "hsa_executable_destroy");
  check(hsa_shut_down(), "hsa_shut_down");
  return *counter == 12 ? 0 : 1;
}
