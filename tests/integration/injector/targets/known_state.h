/* Sets a known machine state, and checks it afterwards. */
#ifndef ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGETS_KNOWN_STATE_H_
#define ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGETS_KNOWN_STATE_H_

#include <stdatomic.h>
#include <string.h>

#include "machine_state.h"
#include "say.h"

static int use_alignment_check = 0;
static atomic_int failures;

static void expect(int condition, const char* what) {
  if (condition) return;
  atomic_fetch_add(&failures, 1);
  say("changed: %s\n", what);
}

static int vector_kind(void) {
  if (__builtin_cpu_supports("avx512bw")) return VECTOR_AVX512;
  return __builtin_cpu_supports("avx") ? VECTOR_AVX : VECTOR_SSE;
}

static void prepare_state(void) {
  struct machine_state* state = &state_wanted;
  for (int i = 0; i < 15; ++i) {
    state->gpr[i] = 0x1111111111111111ull * (uint64_t)(i + 1) ^ 0xa5u;
  }
  /* Interrupts, direction, identification; the comparison in the window clears the
   * arithmetic flags. */
  state->flags = 0x202 | 0x400 | 0x200000 | (use_alignment_check ? 0x40000 : 0);
  state->mxcsr = 0x3f80 | 0x40; /* round down, denormals are zero */
  state->x87_cw = 0x077f;       /* round down, double precision */
  long double values[2] = {1.25L, -3.5e300L};
  for (int i = 0; i < 2; ++i) memcpy(state->x87[i], &values[i], 10);
  for (int i = 0; i < RED_ZONE_WORDS; ++i)
    state->red_zone[i] = 0xbadc0ffee0ddf00dull + (uint64_t)i;
  for (int i = 0; i < 8; ++i)
    state->mask[i] = 0x0123456789abcdefull * (uint64_t)(i + 1);
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 64; ++j) state->vector[i][j] = (uint8_t)(i * 64 + j * 7 + 3);
  }
}

static void check_state(int kind) {
  const struct machine_state *wanted = &state_wanted, *seen = &state_observed;
  static const char* const names[15] = {"rax", "rbx", "rcx", "rdx", "rsi",
                                        "rdi", "rbp", "r8",  "r9",  "r10",
                                        "r11", "r12", "r13", "r14", "r15"};
  for (int i = 0; i < 15; ++i) expect(wanted->gpr[i] == seen->gpr[i], names[i]);
  expect(wanted->flags == seen->flags, "rflags");
  expect(wanted->rsp == seen->rsp, "rsp");
  expect(wanted->mxcsr == seen->mxcsr, "mxcsr");
  expect(wanted->x87_cw == seen->x87_cw, "x87 control word");
  expect(memcmp(wanted->x87, seen->x87, sizeof(wanted->x87)) == 0, "x87 stack");
  expect(memcmp(wanted->red_zone, seen->red_zone, sizeof(wanted->red_zone)) == 0,
         "red zone");
  const int count = kind == VECTOR_AVX512 ? 32 : 16;
  const size_t bytes = kind == VECTOR_AVX512 ? 64 : kind == VECTOR_AVX ? 32 : 16;
  for (int i = 0; i < count; ++i) {
    expect(memcmp(wanted->vector[i], seen->vector[i], bytes) == 0, "vector register");
  }
  if (kind == VECTOR_AVX512) {
    expect(memcmp(wanted->mask, seen->mask, sizeof(wanted->mask)) == 0,
           "mask register");
  }
}

#endif
