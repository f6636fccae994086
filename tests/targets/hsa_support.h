// Shared by the plain HSA programs. Every failure ends the program with status 1 and a
// message: the programs test whatever runs them, and have nothing to recover.
#ifndef ROCATTACH_TESTS_TARGETS_HSA_SUPPORT_H_
#define ROCATTACH_TESTS_TARGETS_HSA_SUPPORT_H_

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Ends the program if `status` is an error; `call` names the call.
void check(hsa_status_t status, const char* call);

// printf to stderr, then exit(1).
void die(const char* format, ...) __attribute__((noreturn, format(printf, 1, 2)));

struct kernel {
  uint64_t object;
  uint32_t kernarg_bytes;
  uint32_t group_bytes;
  uint32_t private_bytes;
};

struct machine {
  hsa_agent_t cpu;
  hsa_agent_t gpu;  // the first one
  unsigned gpu_count;
  char isa[64];                   // "gfx90a"
  hsa_amd_memory_pool_t host;     // fine-grained system memory
  hsa_amd_memory_pool_t kernarg;  // system memory for kernel arguments
  hsa_amd_memory_pool_t device;   // the GPU's local memory
};

// Finds the agents and pools; call after hsa_init().
void find_machine(struct machine* machine);

// Memory that the GPU may access; freed with hsa_amd_memory_pool_free().
void* allocate(const struct machine* machine, hsa_amd_memory_pool_t pool, size_t bytes);

// Loads the code object of kernels.cl for the machine's GPU.
hsa_executable_t load_kernels(const struct machine* machine);

// A kernel of `executable`, by its name without the suffix ".kd".
struct kernel find_kernel(const struct machine* machine, hsa_executable_t executable,
                          const char* name);

hsa_queue_t* create_queue(const struct machine* machine, uint32_t packets, bool shared);

// Writes one dispatch of `work_items` in groups of 64 and rings the doorbell. Waits
// while the queue is full. `completion` may be {0}.
void dispatch(hsa_queue_t* queue, const struct kernel* kernel, void* kernarg,
              uint32_t work_items, hsa_signal_t completion);

// Writes the packet that dispatch() writes into a slot that is reserved and free,
// without ringing the doorbell.
void write_dispatch(hsa_queue_t* queue, uint64_t index, const struct kernel* kernel,
                    void* kernarg, uint32_t work_items, hsa_signal_t completion);

// The header of a packet of type `type` that waits for the packets before it and makes
// all memory visible.
uint16_t packet_header(hsa_packet_type_t type);

// Copies a packet of 64 bytes and rings the doorbell. Waits while the queue is full.
void submit(hsa_queue_t* queue, const void* packet);

// Sets whether doorbells are rung by a store to the hardware's address, bypassing the
// runtime's functions, if the doorbell of a queue is one of the hardware's. Some
// runtimes on top of HSA do so.
void ring_directly(bool directly);

// Writes a barrier-AND packet without dependencies.
void barrier(hsa_queue_t* queue, hsa_signal_t completion);

hsa_signal_t create_signal(int64_t value);

// Waits until the value is 0.
void wait_for_zero(hsa_signal_t signal);

// Between hsa_init() and hsa_shut_down(): makes a queue, dispatches `count` times,
// checks the result and cleans up. May be called from several threads at once.
void run_increments(uint64_t count);

// Waits for `count` children. True if all have ended with status 0.
bool children_succeed(uint64_t count);

// Creates an empty file.
void create_file(const char* path);

// The path of `name` in this program's own directory.
void path_beside_program(const char* name, char* path, size_t path_bytes);

// Parses a number, the argument of `option`.
uint64_t parse_number(const char* option, const char* text);

void pause_msec(uint64_t msec);

#ifdef __cplusplus
}
#endif

#endif  // ROCATTACH_TESTS_TARGETS_HSA_SUPPORT_H_
