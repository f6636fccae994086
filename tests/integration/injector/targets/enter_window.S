#include "machine_state.h"

    .bss
    .balign 64
    .globl state_wanted
state_wanted:   .skip STATE_BYTES
    .globl state_observed
state_observed: .skip STATE_BYTES
    .globl window_function
window_function: .skip 8
vector_kind:    .skip 8
default_mxcsr:  .skip 8

    .text
    .altmacro
    .macro load_vectors op, register, count
    i = 0
    .rept \count
    load_one \op, \register, %i
    i = i + 1
    .endr
    .endm
    .macro load_one op, register, number
    \op state_wanted + STATE_VECTOR + 64 * \number(%rip), %\register\number
    .endm
    .macro store_vectors op, register, count
    i = 0
    .rept \count
    store_one \op, \register, %i
    i = i + 1
    .endr
    .endm
    .macro store_one op, register, number
    \op %\register\number, state_observed + STATE_VECTOR + 64 * \number(%rip)
    .endm
    .macro load_masks
    i = 0
    .rept 8
    load_mask %i
    i = i + 1
    .endr
    .endm
    .macro load_mask number
    kmovq state_wanted + STATE_MASK + 8 * \number(%rip), %k\number
    .endm
    .macro store_masks
    i = 0
    .rept 8
    store_mask %i
    i = i + 1
    .endr
    .endm
    .macro store_mask number
    kmovq %k\number, state_observed + STATE_MASK + 8 * \number(%rip)
    .endm
    .macro red_zone_in
    i = 0
    .rept RED_ZONE_WORDS
    red_zone_in_one %i
    i = i + 1
    .endr
    .endm
    /* Below the return address that the call will push. */
    .macro red_zone_in_one number
    mov     state_wanted + STATE_RED_ZONE + 8 * \number(%rip), %rax
    mov     %rax, -16 - 8 * \number(%rsp)
    .endm
    .macro red_zone_out
    i = 0
    .rept RED_ZONE_WORDS
    red_zone_out_one %i
    i = i + 1
    .endr
    .endm
    .macro red_zone_out_one number
    mov     -16 - 8 * \number(%rsp), %rax
    mov     %rax, state_observed + STATE_RED_ZONE + 8 * \number(%rip)
    .endm

    .globl enter_window
    .type enter_window, @function
enter_window:
    push    %rbx
    push    %rbp
    push    %r12
    push    %r13
    push    %r14
    push    %r15
    sub     $8, %rsp
    mov     %edi, vector_kind(%rip)
    stmxcsr default_mxcsr(%rip)

    cmpl    $VECTOR_AVX512, vector_kind(%rip)
    je      .Lload_512
    cmpl    $VECTOR_AVX, vector_kind(%rip)
    je      .Lload_256
    load_vectors movdqa, xmm, 16
    jmp     .Lloaded
.Lload_256:
    load_vectors vmovdqa, ymm, 16
    jmp     .Lloaded
.Lload_512:
    load_vectors vmovdqa64, zmm, 32
    load_masks
.Lloaded:
    ldmxcsr state_wanted + STATE_MXCSR(%rip)
    fldt    state_wanted + STATE_X87 + 16(%rip)
    fldt    state_wanted + STATE_X87(%rip)
    fldcw   state_wanted + STATE_X87_CW(%rip)
    red_zone_in
    mov     %rsp, state_wanted + STATE_RSP(%rip)

    /* Registers first, flags last: the push and pop use the slot of the return address. */
    mov     state_wanted + STATE_GPR + 0(%rip), %rax
    mov     state_wanted + STATE_GPR + 8(%rip), %rbx
    mov     state_wanted + STATE_GPR + 16(%rip), %rcx
    mov     state_wanted + STATE_GPR + 24(%rip), %rdx
    mov     state_wanted + STATE_GPR + 32(%rip), %rsi
    mov     state_wanted + STATE_GPR + 40(%rip), %rdi
    mov     state_wanted + STATE_GPR + 48(%rip), %rbp
    mov     state_wanted + STATE_GPR + 56(%rip), %r8
    mov     state_wanted + STATE_GPR + 64(%rip), %r9
    mov     state_wanted + STATE_GPR + 72(%rip), %r10
    mov     state_wanted + STATE_GPR + 80(%rip), %r11
    mov     state_wanted + STATE_GPR + 88(%rip), %r12
    mov     state_wanted + STATE_GPR + 96(%rip), %r13
    mov     state_wanted + STATE_GPR + 104(%rip), %r14
    mov     state_wanted + STATE_GPR + 112(%rip), %r15
    pushq   state_wanted + STATE_FLAGS(%rip)
    popfq
    call    *window_function(%rip)
    mov     %rax, state_observed + STATE_GPR + 0(%rip)
    pushfq
    popq    state_observed + STATE_FLAGS(%rip)
    pushq   $2
    popfq
    mov     %rsp, state_observed + STATE_RSP(%rip)
    mov     %rbx, state_observed + STATE_GPR + 8(%rip)
    mov     %rcx, state_observed + STATE_GPR + 16(%rip)
    mov     %rdx, state_observed + STATE_GPR + 24(%rip)
    mov     %rsi, state_observed + STATE_GPR + 32(%rip)
    mov     %rdi, state_observed + STATE_GPR + 40(%rip)
    mov     %rbp, state_observed + STATE_GPR + 48(%rip)
    mov     %r8, state_observed + STATE_GPR + 56(%rip)
    mov     %r9, state_observed + STATE_GPR + 64(%rip)
    mov     %r10, state_observed + STATE_GPR + 72(%rip)
    mov     %r11, state_observed + STATE_GPR + 80(%rip)
    mov     %r12, state_observed + STATE_GPR + 88(%rip)
    mov     %r13, state_observed + STATE_GPR + 96(%rip)
    mov     %r14, state_observed + STATE_GPR + 104(%rip)
    mov     %r15, state_observed + STATE_GPR + 112(%rip)
    red_zone_out
    stmxcsr state_observed + STATE_MXCSR(%rip)
    fnstcw  state_observed + STATE_X87_CW(%rip)
    fstpt   state_observed + STATE_X87(%rip)
    fstpt   state_observed + STATE_X87 + 16(%rip)

    cmpl    $VECTOR_AVX512, vector_kind(%rip)
    je      .Lstore_512
    cmpl    $VECTOR_AVX, vector_kind(%rip)
    je      .Lstore_256
    store_vectors movdqa, xmm, 16
    jmp     .Lstored
.Lstore_256:
    store_vectors vmovdqa, ymm, 16
    vzeroupper
    jmp     .Lstored
.Lstore_512:
    store_vectors vmovdqa64, zmm, 32
    store_masks
    vzeroupper
.Lstored:
    ldmxcsr default_mxcsr(%rip)
    fninit
    add     $8, %rsp
    pop     %r15
    pop     %r14
    pop     %r13
    pop     %r12
    pop     %rbp
    pop     %rbx
    ret
    .size enter_window, . - enter_window

    .section .note.GNU-stack, "", @progbits
