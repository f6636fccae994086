/* A library whose hsa_init waits at its entry, within the first 16 bytes, until the
 * test sets a flag: a thread in it is where a held thread would be. It changes no
 * register but the flags, and those in a known way (1 compared to 0). */
    .text
    .globl hsa_init
    .type hsa_init, @function
    .balign 16
hsa_init:
window:
    pause
    cmpl    $0, flag(%rip)
    je      window
    ret
    .size hsa_init, . - hsa_init

/* An executable would see its own PLT entry as hsa_init and its own copy of the flag:
 * the library says where both are. */
    .globl window_address
    .type window_address, @function
window_address:
    lea     window(%rip), %rax
    ret
    .size window_address, . - window_address

    .globl window_flag_address
    .type window_flag_address, @function
window_flag_address:
    lea     flag(%rip), %rax
    ret
    .size window_flag_address, . - window_flag_address

    .data
    .balign 16
flag:
    .long 0

    .section .note.GNU-stack, "", @progbits
