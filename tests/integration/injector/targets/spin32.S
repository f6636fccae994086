/* A 32-bit program without a library: waits for ever at its entry. */
    .code32
    .text
    .globl _start
_start:
    pause
    jmp     _start
    .section .note.GNU-stack, "", @progbits
