/* A wait for a futex that changes no register but the flags, and those in a known way
 * (1 compared to 0): a thread in it is blocked like one that waits for attachers. */
#define SYS_futex 202
/* FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, as glibc's condition variables wait. */
#define FUTEX_WAIT_BITSET_PRIVATE 137

    .text
    .globl listener_wait
    .type listener_wait, @function
    .balign 16
listener_wait:
    mov     %rax, saved(%rip)
    mov     %rcx, saved + 8(%rip)
    mov     %rdx, saved + 16(%rip)
    mov     %rsi, saved + 24(%rip)
    mov     %rdi, saved + 32(%rip)
    mov     %r10, saved + 40(%rip)
    mov     %r11, saved + 48(%rip)
    mov     %r9, saved + 56(%rip)
.Lwait:
    mov     $SYS_futex, %eax
    lea     listener_flag(%rip), %rdi
    mov     $FUTEX_WAIT_BITSET_PRIVATE, %esi
    mov     $0, %edx
    mov     listener_timeout(%rip), %r10
    mov     $-1, %r9d
    syscall
    incl    listener_wakes(%rip)
    cmpl    $0, listener_flag(%rip)
    je      .Lwait
    mov     saved(%rip), %rax
    mov     saved + 8(%rip), %rcx
    mov     saved + 16(%rip), %rdx
    mov     saved + 24(%rip), %rsi
    mov     saved + 32(%rip), %rdi
    mov     saved + 40(%rip), %r10
    mov     saved + 48(%rip), %r11
    mov     saved + 56(%rip), %r9
    /* incl leaves the carry flag; the comparison sets them all. */
    cmpl    $0, listener_flag(%rip)
    ret
    .size listener_wait, . - listener_wait

    .data
    .balign 16
    .globl listener_flag
listener_flag:
    .long 0
    .globl listener_wakes
listener_wakes:
    .long 0
    .balign 16
    .globl listener_timeout
listener_timeout: /* a struct timespec, or none */
    .quad 0
saved:
    .skip 64

    .section .note.GNU-stack, "", @progbits
