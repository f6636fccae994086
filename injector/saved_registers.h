/* Entry and exit of the stubs: the interrupted thread's registers, on its own stack.
 * For assembly only. */
#ifndef ROCATTACH_INJECTOR_SAVED_REGISTERS_H_
#define ROCATTACH_INJECTOR_SAVED_REGISTERS_H_

#define RED_ZONE 128
/* Reserved bit 1 only: direction, trap and alignment-check flags off. */
#define CLEAN_FLAGS 2

/* Below the red zone: flags, 14 registers, and return address with rbp, a frame record
 * by which profilers unwind. rbp points to it afterwards. */
.macro SAVE_REGISTERS return_ip
    /* lea leaves the flags unchanged until they are saved. */
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
    pushq   \return_ip(%rip)
    push    %rbp
    mov     %rsp, %rbp
    pushq   $CLEAN_FLAGS
    popfq
.endm

/* Restores them, rbp being as SAVE_REGISTERS left it, and continues where the thread
 * was. */
.macro RESTORE_REGISTERS_AND_CONTINUE return_ip
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
    jmp     *\return_ip(%rip)
.endm

#endif /* ROCATTACH_INJECTOR_SAVED_REGISTERS_H_ */
