/*
 * switch.S: leaves one stack and goes on with another. Must not know: fibers.
 *
 * void mf_switch(void **from, void *to): stores where the running context can be continued, and continues `to`. Saves
 * what a called function must preserve (System V AMD64 ABI, section 3.2.1; AAPCS64, sections 6.1.1 and 6.1.2) and
 * nothing else: the signal mask belongs to the thread.
 *
 * mf_entry: where a context that has never run begins. The values that context.c lays out on its stack arrive in
 * preserved registers. Unwinders stop here.
 *
 * __sigsetjmp: libc's, which must find its caller's registers and stack as they are, after mf_jump_prepare (jump.c).
 */
#if defined(__x86_64__)

    .text
    .globl mf_switch
    .hidden mf_switch
    .type mf_switch, @function
    .p2align 4
mf_switch:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .cfi_endproc
    .size mf_switch, . - mf_switch

    .globl mf_entry
    .hidden mf_entry
    .type mf_entry, @function
    .p2align 4
mf_entry:
    .cfi_startproc
    .cfi_undefined rip
    xorl %ebp, %ebp
    movq %r12, %rdi
    callq *%r13
    ud2
    .cfi_endproc
    .size mf_entry, . - mf_entry

    .globl __sigsetjmp
    .type __sigsetjmp, @function
    .p2align 4
__sigsetjmp:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    callq mf_jump_prepare
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmpq *%rax
    .cfi_endproc
    .size __sigsetjmp, . - __sigsetjmp

#elif defined(__aarch64__)

    .text
    .globl mf_switch
    .hidden mf_switch
    .type mf_switch, %function
    .p2align 4
mf_switch:
    .cfi_startproc
    sub sp, sp, #176
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mrs x9, fpcr
    str x9, [sp, #160]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldr x9, [sp, #160]
    msr fpcr, x9
    ldp d14, d15, [sp, #144]
    ldp d12, d13, [sp, #128]
    ldp d10, d11, [sp, #112]
    ldp d8, d9, [sp, #96]
    ldp x29, x30, [sp, #80]
    ldp x27, x28, [sp, #64]
    ldp x25, x26, [sp, #48]
    ldp x23, x24, [sp, #32]
    ldp x21, x22, [sp, #16]
    ldp x19, x20, [sp, #0]
    add sp, sp, #176
    ret
    .cfi_endproc
    .size mf_switch, . - mf_switch

    .globl mf_entry
    .hidden mf_entry
    .type mf_entry, %function
    .p2align 4
mf_entry:
    .cfi_startproc
    .cfi_undefined x30
    mov x29, xzr
    mov x0, x19
    blr x20
    brk #0
    .cfi_endproc
    .size mf_entry, . - mf_entry

    .globl __sigsetjmp
    .type __sigsetjmp, %function
    .p2align 4
__sigsetjmp:
    .cfi_startproc
    stp x29, x30, [sp, #-32]!
    .cfi_adjust_cfa_offset 32
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp x0, x1, [sp, #16]
    bl mf_jump_prepare
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_adjust_cfa_offset -32
    .cfi_restore x29
    .cfi_restore x30
    br x16
    .cfi_endproc
    .size __sigsetjmp, . - __sigsetjmp

#else
#error "Fibers need an entry in switch.S and one in context.c for this processor."
#endif

    .section .note.GNU-stack, "", %progbits
