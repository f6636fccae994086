/* The machine code by which a waiting thread of the target calls one function.
 *
 * As stub_code.S it is copied into the target with its parameters, the injector sets the
 * thread's instruction pointer to its first byte and is no longer needed. It saves the
 * thread's state, calls the function with two arguments, notes its result, restores
 * everything and jumps to where the thread was. It makes no system calls. A third
 * argument is always 1: functions of two ignore it, and setenv() overwrites.
 *
 * On the thread's stack, from its stack pointer downwards:
 *   128 bytes   the red zone of the interrupted function, untouched
 *   flags, 14 registers; return address, rbp: a frame record for profilers
 * and at some distance below what the injector has put there (struct CallBlock, the
 * arguments, zeros for the xstate area), with the stack of the function under it. The
 * state and the result are read from there by the injector, also after the thread has
 * left: nothing else uses the stack of a thread that waits.
 * While it calls: rbp the frame record, rbx the block, r12 the xstate area, r13 errno's
 * value, r14 errno's address or 0.
 *
 * Signals stay as they are: the threads that this is for block all of them. */
#include "injector/stub/call_frame.h"
#include "injector/stub/saved_registers.inc"

    .section .rodata.rocattach_call_stub, "a", @progbits
    .balign 16
    .globl rocattach_call_stub_begin
    .hidden rocattach_call_stub_begin
    .globl rocattach_call_stub_parameters
    .hidden rocattach_call_stub_parameters
    .globl rocattach_call_stub_end
    .hidden rocattach_call_stub_end

rocattach_call_stub_begin:
    SAVE_REGISTERS return_ip

    mov     block(%rip), %rbx
    movl    $CALL_ENTERED, CALL_STATE(%rbx)
    /* All of the enabled xstate. The area is zero, as XSAVE's header must be. */
    mov     xstate(%rip), %r12
    mov     $-1, %eax
    mov     $-1, %edx
    xsave64 (%r12)
    mov     %r12, %rsp

    xor     %r14d, %r14d
    cmpq    $0, errno_location(%rip)
    jz      .Lcall
    call    *errno_location(%rip)
    mov     %rax, %r14
    mov     (%rax), %r13d
.Lcall:
    mov     first(%rip), %rdi
    mov     second(%rip), %rsi
    mov     $1, %edx
    xor     %eax, %eax
    call    *function(%rip)
    mov     %rax, CALL_RESULT(%rbx)
    test    %r14, %r14
    jz      .Lrestore
    mov     %r13d, (%r14)
.Lrestore:
    mov     $-1, %eax
    mov     $-1, %edx
    xrstor64 (%r12)
    /* Behind the result: stores become visible in their order. */
    movl    $CALL_RETURNED, CALL_STATE(%rbx)
    RESTORE_REGISTERS_AND_CONTINUE return_ip

/* Filled in for each call: struct CallParameters in call_stub.cc. */
    .balign 16
rocattach_call_stub_parameters:
return_ip:      .quad 0
block:          .quad 0
xstate:         .quad 0
errno_location: .quad 0
function:       .quad 0
first:          .quad 0
second:         .quad 0
                .quad 0 /* purpose */
                .quad 0 /* end mark */
rocattach_call_stub_end:

    .section .note.GNU-stack, "", @progbits
