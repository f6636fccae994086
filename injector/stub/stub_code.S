/* The machine code that the held thread runs.
 *
 * It is copied into the target with its parameters; the injector sets the thread's
 * instruction pointer to its first byte and is no longer needed. It saves the thread's
 * state, maps its own stack, opens the collector, calls its start function, restores
 * everything and jumps to where the thread was. Position-independent; it writes only to
 * the two stacks, because it is in memory that the target cannot write.
 *
 * On the thread's stack, from its stack pointer downwards (STUB_FRAME bytes in all; the
 * thread may have no more than a function needs: a signal stack, a coroutine):
 *   128 bytes   the red zone of the interrupted function, untouched
 *   flags, 14 registers
 *   return address, rbp: a frame record, so that profilers can unwind through it
 *   48 bytes    the thread's signal mask; at the end a set of signals and an action
 * On its own stack, which has an inaccessible page below it:
 *   xstate area, 64-byte aligned (its size is a parameter)
 *   32 bytes    the remaining attempts to take the loader's lock; the start function;
 *               the pause between attempts
 * While it calls: rbp the frame record, rbx the xstate area, r12 0 if the signal mask
 * was changed, r13 errno's value, r14 errno's address, r15 the own stack's mapping.
 *
 * dlopen takes the loader's lock and would wait for it. A thread that holds it may be
 * waiting for this one, so the stub only tries the lock, a limited number of times, and
 * keeps it across dlopen: it is recursive. It is not kept across the start function,
 * because a child that another thread forks meanwhile could never take it. The lock of
 * the list of libraries (dl_iterate_phdr) is tried and released, for the same reason.
 *
 * With a shadow stack, calls and returns here are paired, and entry and exit are by a
 * changed instruction pointer and a jump, so that the two stacks stay in step.
 *
 * There are two stubs. One opens the collector by its path. The other is for a process
 * that does not see the file (stub_by_descriptor.S): it makes a socket with a name that
 * the service has chosen; at the end of that call, while the thread is stopped, the
 * service sends the file there; and the stub opens what it has received. It waits for
 * nothing: if nothing was sent, the collector is not loaded. Anybody in the network
 * namespace might send something, so the message must begin with the key that is among
 * the parameters. With the file comes another one, for the text of an error.
 * Additional on the thread's stack, behind the mask: 4 bytes the socket, 8 bytes the
 * received descriptors. On its own stack: the message's header, vector, control data
 * and contents; the file's path under /proc. */
#include "injector/stub/saved_registers.inc"
#include "injector/stub/stub_frame.h"

#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
#define NAME(name) rocattach_descriptor_stub_##name
#else
#define NAME(name) rocattach_stub_##name
#endif

#define SYS_write 1
#define SYS_close 3
#define SYS_mmap 9
#define SYS_mprotect 10
#define SYS_munmap 11
#define SYS_rt_sigaction 13
#define SYS_rt_sigprocmask 14
#define SYS_socket 41
#define SYS_recvmsg 47
#define SYS_bind 49
#define SYS_rt_sigpending 127
#define SYS_ppoll 271
#define PROT_NONE 0
#define PROT_READ_WRITE 3
/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK */
#define OWN_STACK_FLAGS 0x24022
#define LAST_ERRNO 4095
#define SIG_BLOCK 0
#define SIG_SETMASK 2
#define SIGSET_BYTES 8
#define SIG_IGN 1
#define SIGCANCEL 32
#define EINTR 4
#define RTLD_NOW 2
#define AF_UNIX 1
/* SOCK_DGRAM | SOCK_CLOEXEC */
#define SOCKET_TYPE 0x80002
/* MSG_DONTWAIT | MSG_CMSG_CLOEXEC */
#define RECEIVE_FLAGS 0x40000040
/* Length of a control message with two descriptors; its level SOL_SOCKET and its type
 * SCM_RIGHTS, as one word. */
#define TWO_RIGHTS_BYTES 24
#define SOCKET_RIGHTS 0x100000001
/* Pause between two attempts to take the loader's lock, and their number. */
#define LOCK_PAUSE_NS 500000
#define LOCK_TRIES 200

/* On the thread's stack, from the signal mask upwards. */
#define LOCALS 48
#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
#define SOCKET 8
#define RECEIVED 12
#endif
/* At the end, when the descriptors are closed: struct sigaction of the kernel, and a
 * set of signals in the same place before it. */
#define PENDING 8
#define HANDLER 8
#define HANDLER_FLAGS 16
/* On the own stack, behind the 32 bytes that both stubs use. */
#define MESSAGE 32
#define VECTOR 88
#define CONTROL 104
#define CONTROL_BYTES 24
#define CONTENTS 128
#define PATH_END 207
#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
#define OWN_LOCALS 208 /* 16-byte aligned, as calls need it */
#else
#define OWN_LOCALS 32
#endif

    .section .rodata.rocattach_stub, "a", @progbits
    .balign 16
    .globl NAME(begin)
    .hidden NAME(begin)
    .globl NAME(parameters)
    .hidden NAME(parameters)
    .globl NAME(end)
    .hidden NAME(end)
#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
    .globl NAME(socket_made)
    .hidden NAME(socket_made)
    .globl NAME(socket_bound)
    .hidden NAME(socket_bound)
#endif

NAME(begin):
    SAVE_REGISTERS return_ip

    /* Signals are blocked until the stub is done: a handler that leaves by longjmp
     * would leave the dynamic loader locked. Signals of faults stay as they are: one
     * that the program blocks may be pending, and unblocked it would end the process. */
    sub     $LOCALS, %rsp
    mov     $SIG_BLOCK, %edi
    lea     signal_mask(%rip), %rsi
    mov     %rsp, %rdx
    mov     $SIGSET_BYTES, %r10d
    mov     $SYS_rt_sigprocmask, %eax
    syscall
    mov     %eax, %r12d

#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
    movq    $-1, RECEIVED(%rsp)
    mov     $AF_UNIX, %edi
    mov     $SOCKET_TYPE, %esi
    xor     %edx, %edx
    mov     $SYS_socket, %eax
    syscall
NAME(socket_made):
    mov     %eax, SOCKET(%rsp)
    test    %eax, %eax
    js      .Lown_stack
    mov     %eax, %edi
    lea     socket_name(%rip), %rsi
    mov     $SOCKET_NAME_BYTES, %edx
    mov     $SYS_bind, %eax
    syscall
NAME(socket_bound):
.Lown_stack:
#endif

    xor     %edi, %edi
    mov     $STUB_STACK_BYTES, %esi
    mov     $PROT_NONE, %edx
    mov     $OWN_STACK_FLAGS, %r10d
    mov     $-1, %r8
    xor     %r9d, %r9d
    mov     $SYS_mmap, %eax
    syscall
    cmp     $-LAST_ERRNO, %rax
    jae     .Lrestore_mask
    mov     %rax, %r15
    lea     STUB_STACK_GUARD(%rax), %rdi
    mov     $STUB_STACK_BYTES - STUB_STACK_GUARD, %esi
    mov     $PROT_READ_WRITE, %edx
    mov     $SYS_mprotect, %eax
    syscall
    test    %eax, %eax
    jnz     .Lunmap
    lea     STUB_STACK_BYTES(%r15), %rsp

    /* All of the enabled xstate. The header must be zero before XSAVE, which sets the
     * bits of what it stores; XRSTOR faults on other nonzero bits there. The mapping is
     * fresh and zero. */
    mov     xstate_bytes(%rip), %eax
    sub     %rax, %rsp
    and     $-64, %rsp
    mov     %rsp, %rbx
    mov     $-1, %eax
    mov     $-1, %edx
    xsave64 (%rbx)
    sub     $OWN_LOCALS, %rsp

    call    *errno_location(%rip)
    mov     %rax, %r14
    mov     (%rax), %r13d

    movl    $LOCK_TRIES, (%rsp)
    cmpq    $0, load_lock(%rip)
    jz      .Lopen
.Ltry:
    mov     load_lock(%rip), %rdi
    call    *mutex_trylock(%rip)
    test    %eax, %eax
    jnz     .Lbusy
    mov     list_lock(%rip), %rdi
    call    *mutex_trylock(%rip)
    test    %eax, %eax
    jz      .Llocked
    mov     load_lock(%rip), %rdi
    call    *mutex_unlock(%rip)
.Lbusy:
    decl    (%rsp)
    jz      .Lrestore
    /* Not nanosleep: it would overwrite what the kernel needs to restart a call that
     * was interrupted before. ppoll without descriptors keeps nothing there. It writes
     * the time that is left back; the seconds are 0 on the fresh stack. */
    movq    $LOCK_PAUSE_NS, 24(%rsp)
    xor     %edi, %edi
    xor     %esi, %esi
    lea     16(%rsp), %rdx
    xor     %r10d, %r10d
    xor     %r8d, %r8d
    mov     $SYS_ppoll, %eax
    syscall
    jmp     .Ltry
.Llocked:
    mov     list_lock(%rip), %rdi
    call    *mutex_unlock(%rip)

.Lopen:
#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
    /* Everything that is not used is 0. */
    xor     %eax, %eax
    lea     MESSAGE(%rsp), %rdi
    mov     $(PATH_END + 1 - MESSAGE) / 8, %ecx
    rep stosq
    lea     VECTOR(%rsp), %rax
    mov     %rax, MESSAGE + 16(%rsp)
    movq    $1, MESSAGE + 24(%rsp)
    lea     CONTROL(%rsp), %rax
    mov     %rax, MESSAGE + 32(%rsp)
    movq    $CONTROL_BYTES, MESSAGE + 40(%rsp)
    lea     CONTENTS(%rsp), %rax
    mov     %rax, VECTOR(%rsp)
    movq    $SOCKET_KEY_BYTES, VECTOR + 8(%rsp)
    mov     SOCKET - LOCALS(%rbp), %edi
    lea     MESSAGE(%rsp), %rsi
    mov     $RECEIVE_FLAGS, %edx
    mov     $SYS_recvmsg, %eax
    syscall
    movabs  $SOCKET_RIGHTS, %rax
    cmp     %rax, CONTROL + 8(%rsp)
    jne     .Lno_file
    /* They are open from here on, whoever sent them. Where there was room for one
     * only, the second is still -1. */
    mov     CONTROL + 16(%rsp), %eax
    mov     %eax, RECEIVED - LOCALS(%rbp)
    cmpq    $TWO_RIGHTS_BYTES, CONTROL(%rsp)
    jne     .Lno_file
    mov     CONTROL + 20(%rsp), %ecx
    mov     %ecx, RECEIVED + 4 - LOCALS(%rbp)
    mov     CONTENTS(%rsp), %rdx
    cmp     socket_key(%rip), %rdx
    jne     .Lno_file
    mov     CONTENTS + 8(%rsp), %rdx
    cmp     8 + socket_key(%rip), %rdx
    jne     .Lno_file
    /* The path, from its end: the number, then what is in front of it. */
    lea     PATH_END(%rsp), %rdi
    mov     $10, %ecx
.Ldigit:
    xor     %edx, %edx
    div     %ecx
    add     $'0', %dl
    dec     %rdi
    mov     %dl, (%rdi)
    test    %eax, %eax
    jnz     .Ldigit
    mov     $DESCRIPTOR_PATH_BYTES, %ecx
    sub     %rcx, %rdi
    mov     %rdi, %rdx
    lea     descriptor_path(%rip), %rsi
    rep movsb
    mov     %rdx, %rdi
#else
    lea     collector_path(%rip), %rdi
#endif
    mov     $RTLD_NOW, %esi
    call    *dlopen(%rip)
    test    %rax, %rax
    jz      .Lno_collector
#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
    /* The loader keeps the path as the library's name (l_name, the second word of
     * struct link_map). The number will soon mean another file, which a debugger or a
     * symbolizer inside the process would open: another name takes its place, which is
     * no longer. It is changed once only. */
    mov     8(%rax), %rdi
    mov     descriptor_path(%rip), %rcx
    cmp     %rcx, (%rdi)
    jne     .Lnamed
    lea     loaded_name(%rip), %rsi
    mov     $LOADED_NAME_BYTES, %ecx
    rep movsb
.Lnamed:
#endif
    mov     %rax, %rdi
    lea     start_name(%rip), %rsi
    call    *dlsym(%rip)
    mov     %rax, 8(%rsp)
    test    %rax, %rax
    jnz     .Lunlock
.Lno_collector:
    /* Consumes the error, so that the target's next dlerror() does not return it. */
    call    *dlerror(%rip)
#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
    test    %rax, %rax
    jz      .Lno_file
    mov     %rax, %rsi
    xor     %edx, %edx
.Lcount:
    cmpb    $0, (%rsi, %rdx)
    je      .Lwrite
    inc     %edx
    cmp     $STUB_ERROR_BYTES, %edx
    jb      .Lcount
.Lwrite:
    mov     RECEIVED + 4 - LOCALS(%rbp), %edi
    mov     $SYS_write, %eax
    syscall
.Lno_file:
#endif
    movq    $0, 8(%rsp)
.Lunlock:
    mov     load_lock(%rip), %rdi
    test    %rdi, %rdi
    jz      .Lstart
    call    *mutex_unlock(%rip)
.Lstart:
    mov     8(%rsp), %rax
    test    %rax, %rax
    jz      .Lrestore
    lea     config(%rip), %rdi
    call    *%rax

.Lrestore:
    mov     %r13d, (%r14)
    mov     $-1, %eax
    mov     $-1, %edx
    xrstor64 (%rbx)
    lea     -LOCALS(%rbp), %rsp
.Lunmap:
    mov     %r15, %rdi
    mov     $STUB_STACK_BYTES, %esi
    mov     $SYS_munmap, %eax
    syscall
.Lrestore_mask:
#ifdef ROCATTACH_STUB_BY_DESCRIPTOR
    /* Those that are negative are not open. */
    mov     SOCKET(%rsp), %edi
    mov     $SYS_close, %eax
    syscall
    mov     RECEIVED(%rsp), %edi
    mov     $SYS_close, %eax
    syscall
    mov     RECEIVED + 4(%rsp), %edi
    mov     $SYS_close, %eax
    syscall
#endif
    xor     %r14d, %r14d
    test    %r12d, %r12d
    jnz     .Lmask_unchanged
    cmpl    $0, restart_flags(%rip)
    jz      .Lset_mask
    /* The thread goes back to a call that is to begin again. A handler that runs first
     * might have ended it: the program may rely on that. */
    lea     PENDING(%rsp), %rdi
    mov     $SIGSET_BYTES, %esi
    mov     $SYS_rt_sigpending, %eax
    syscall
    test    %eax, %eax
    jnz     .Lset_mask
    mov     (%rsp), %rbx
    not     %rbx
    and     PENDING(%rsp), %rbx
    lea     HANDLER(%rsp), %rdx
    xor     %esi, %esi
    mov     $SIGSET_BYTES, %r10d
.Lnext_signal:
    bsf     %rbx, %rdi
    jz      .Lset_mask
    btr     %rdi, %rbx
    inc     %edi
    mov     $SYS_rt_sigaction, %eax
    syscall
    test    %eax, %eax
    jnz     .Lnext_signal
    cmpq    $SIG_IGN, HANDLER(%rsp)
    jbe     .Lnext_signal
    /* The wrappers of newer versions of glibc end the thread only when the call has
     * returned EINTR, whatever the flags of its handler. */
    cmp     $SIGCANCEL, %edi
    je      .Linterrupted
    mov     HANDLER_FLAGS(%rsp), %eax
    test    restart_flags(%rip), %eax
    jnz     .Lnext_signal
.Linterrupted:
    inc     %r14d
    movq    $-EINTR, SAVED_RAX(%rbp)
.Lset_mask:
    mov     $SIG_SETMASK, %edi
    mov     %rsp, %rsi
    xor     %edx, %edx
    mov     $SIGSET_BYTES, %r10d
    mov     $SYS_rt_sigprocmask, %eax
    syscall
.Lmask_unchanged:
    test    %r14d, %r14d
    jnz     .Lbehind_call
    RESTORE_REGISTERS_AND_CONTINUE return_ip
.Lbehind_call:
    RESTORE_REGISTERS_AND_CONTINUE behind_call

/* Filled in for each attach: struct StubParameters in stub.cc. */
    .balign 16
NAME(parameters):
return_ip:      .quad 0
errno_location: .quad 0
dlopen:         .quad 0
dlsym:          .quad 0
dlerror:        .quad 0
signal_mask:    .quad 0
load_lock:      .quad 0
list_lock:      .quad 0
mutex_trylock:  .quad 0
mutex_unlock:   .quad 0
xstate_bytes:   .long 0
restart_flags:  .long 0
behind_call:    .quad 0
start_name:     .skip 40
config:         .skip 64
collector_path: .skip 256
clock_offset:   .skip 8
                .quad 0
NAME(end):

/* A name is short where there is no path: the rest of its field has what is needed to
 * receive a file. */
    .set    descriptor_path, collector_path + DESCRIPTOR_PATH
    .set    loaded_name, collector_path + LOADED_NAME
    .set    socket_name, collector_path + SOCKET_NAME
    .set    socket_key, collector_path + SOCKET_KEY

    .section .note.GNU-stack, "", @progbits
