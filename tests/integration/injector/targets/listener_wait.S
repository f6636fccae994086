/* A wait for a futex that changes no register but the flags, and those in a known way
 * (1 compared to 0): a thread in it is blocked as one that waits for attachers. */
#define SYS_futex 202
#define FUTEX_WAIT_PRIVATE 128

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
.Lwait:
    mov     $SYS_futex, %eax
    lea     listener_flag(%rip), %rdi
    mov     $FUTEX_WAIT_PRIVATE, %esi
    mov     $0, %edx
    mov     $0, %r10d
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
saved:
    .skip 56

    .section .note.GNU-stack, "", @progbits
