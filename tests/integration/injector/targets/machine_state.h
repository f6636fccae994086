/* All of a thread's machine state that an injected call could change. */
#ifndef ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGETS_MACHINE_STATE_H_
#define ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGETS_MACHINE_STATE_H_

/* Offsets, for enter_window.S. */
#define STATE_GPR 0 /* rax rbx rcx rdx rsi rdi rbp r8..r15: 15 x 8 */
#define STATE_FLAGS 120
#define STATE_RSP 128 /* observed only: before and after must be equal */
#define STATE_MXCSR 136
#define STATE_X87_CW 140
#define STATE_X87 144      /* two values, 16 bytes each */
#define STATE_RED_ZONE 176 /* RED_ZONE_WORDS x 8 */
#define STATE_MASK 304     /* k0..k7 */
#define STATE_VECTOR 384   /* 32 x 64, 64-byte aligned */
#define STATE_BYTES 2432

/* Of the 16 words below the window's return address the lowest is left out: before the
 * call and after the return it is not part of the red zone, so a signal that arrives
 * just then overwrites it. */
#define RED_ZONE_WORDS 15

#define VECTOR_SSE 0
#define VECTOR_AVX 1
#define VECTOR_AVX512 2

#ifndef __ASSEMBLER__
#include <stdint.h>

struct machine_state {
  uint64_t gpr[15];
  uint64_t flags;
  uint64_t rsp;
  uint32_t mxcsr;
  uint16_t x87_cw, pad0;
  uint8_t x87[2][16];
  uint64_t red_zone[RED_ZONE_WORDS];
  uint64_t pad1;
  uint64_t mask[8];
  uint64_t pad2[2];
  uint8_t vector[32][64];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct machine_state) == STATE_BYTES, "as in the assembly");

extern struct machine_state state_wanted;   /* loaded before the window */
extern struct machine_state state_observed; /* as found after it */
extern void (*window_function)(void);       /* called in between */

/* Loads state_wanted, calls window_function, stores state_observed; `vector` is one of
 * VECTOR_*. Restores everything that the ABI requires before it returns. */
void enter_window(int vector);
#endif

#endif
