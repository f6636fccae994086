/* The machine code that the held thread runs by itself.
 *
 * It is copied, parameters and all, into the target; the injector sets the thread's
 * instruction pointer to its first byte and is not needed any more. It saves what the
 * thread has, opens the collector, calls its start function, puts everything back and
 * jumps to where the thread was. Position-independent; it writes nothing but the
 * thread's own stack, because it lies in memory that the target cannot write.
 *
 * Frame, from the thread's stack pointer downwards:
 *   128 bytes   the red zone of the interrupted function, untouched
 *   flags, 15 registers
 *   return address, rbp: a frame record, so that profilers can walk through
 *   xstate area, 64-byte aligned (its size is a parameter)
 *   16 bytes    the thread's signal mask
 * While it calls: rbp the frame record, rbx the xstate area, r12 0 if the signal mask
 * was changed, r13 errno's value, r14 errno's address.
 *
 * With a shadow stack on, calls and returns here are paired and the way in and out is
 * by a changed instruction pointer and a jump, so that the two stacks stay equal.
 */
#define SYS_rt_sigprocmask 14
#define SIG_SETMASK 2
#define SIGSET_BYTES 8
#define RTLD_NOW 2
#define RED_ZONE 128
#define XSTATE_HEADER 512
/* Reserved bit 1 only: direction, trap and alignment-check flags off. */
#define CLEAN_FLAGS 2

    .section .rodata.rocattach_stub, "a", @progbits
    .balign 16
    .globl rocattach_stub_begin
    .hidden rocattach_stub_begin
    .globl rocattach_stub_parameters
    .hidden rocattach_stub_parameters
    .globl rocattach_stub_end
    .hidden rocattach_stub_end

rocattach_stub_begin:
    /* lea leaves the flags alone until they are saved. */
    lea     -RED_ZONE(%rsp), %rsp
    pushfq
    push    %rax
    push    %rbx
    push    %rcx
    push    %rdx
    push    %rsi
    push    %rdi
    push    %r8
    push    %r9
    push    %r10
    push    %r11
    push    %r12
    push    %r13
    push    %r14
    push    %r15
    pushq   return_ip(%rip)
    push    %rbp
    mov     %rsp, %rbp
    pushq   $CLEAN_FLAGS
    popfq

    /* All of the enabled xstate. The header must be zero before XSAVE: it sets the bits
     * of what it stores, and XRSTOR faults on what else it finds there. */
    mov     xstate_bytes(%rip), %eax
    sub     %rax, %rsp
    and     $-64, %rsp
    mov     %rsp, %rbx
    xor     %eax, %eax
    lea     XSTATE_HEADER(%rbx), %rdi
    mov     $8, %ecx
    rep stosq
    mov     $-1, %eax
    mov     $-1, %edx
    xsave64 (%rbx)

    /* Signals wait until the stub is done: a handler that leaves by longjmp would leave
     * the dynamic loader locked. The faults' own signals stay open. */
    sub     $16, %rsp
    mov     $SIG_SETMASK, %edi
    lea     signal_mask(%rip), %rsi
    mov     %rsp, %rdx
    mov     $SIGSET_BYTES, %r10d
    mov     $SYS_rt_sigprocmask, %eax
    syscall
    mov     %eax, %r12d

    call    *errno_location(%rip)
    mov     %rax, %r14
    mov     (%rax), %r13d

    lea     collector_path(%rip), %rdi
    mov     $RTLD_NOW, %esi
    call    *dlopen(%rip)
    test    %rax, %rax
    jz      .Lno_collector
    mov     %rax, %rdi
    lea     start_name(%rip), %rsi
    call    *dlsym(%rip)
    test    %rax, %rax
    jz      .Lno_collector
    lea     config(%rip), %rdi
    call    *%rax
    jmp     .Lrestore
.Lno_collector:
    /* Takes the error text, so that the target's next dlerror() does not show it. */
    call    *dlerror(%rip)

.Lrestore:
    mov     %r13d, (%r14)
    test    %r12d, %r12d
    jnz     .Lmask_unchanged
    mov     $SIG_SETMASK, %edi
    mov     %rsp, %rsi
    xor     %edx, %edx
    mov     $SIGSET_BYTES, %r10d
    mov     $SYS_rt_sigprocmask, %eax
    syscall
.Lmask_unchanged:
    mov     $-1, %eax
    mov     $-1, %edx
    xrstor64 (%rbx)
    mov     %rbp, %rsp
    pop     %rbp
    lea     8(%rsp), %rsp
    pop     %r15
    pop     %r14
    pop     %r13
    pop     %r12
    pop     %r11
    pop     %r10
    pop     %r9
    pop     %r8
    pop     %rdi
    pop     %rsi
    pop     %rdx
    pop     %rcx
    pop     %rbx
    pop     %rax
    popfq
    lea     RED_ZONE(%rsp), %rsp
    jmp     *return_ip(%rip)

/* Filled in for each attach: struct StubParameters in stub.cc. */
    .balign 16
rocattach_stub_parameters:
return_ip:      .quad 0
errno_location: .quad 0
dlopen:         .quad 0
dlsym:          .quad 0
dlerror:        .quad 0
signal_mask:    .quad 0
xstate_bytes:   .long 0
                .long 0
start_name:     .skip 40
config:         .skip 64
collector_path:   .skip 256
                .quad 0
rocattach_stub_end:

    .section .note.GNU-stack, "", @progbits
