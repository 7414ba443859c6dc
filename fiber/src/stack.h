/*
 * stack.h: memory for stacks: committed when touched, with a guard at the lower end, and kept for reuse up to a limit.
 */
#ifndef MILLRACE_FIBER_STACK_H
#define MILLRACE_FIBER_STACK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_stack {
    char *bottom;        /* the lowest usable byte; the guard lies below */
    size_t size_bytes;   /* usable */
    const char *deepest; /* the lowest address that has been seen in use */
} mf_stack;

/* The number of stacks of each size that are kept. */
void mf_stack_set_kept(unsigned count);

/* Allocates a stack of at least this size. Returns 0, -ENOMEM, or -EINVAL if it is too large for the address space.
 * [any thread] */
int mf_stack_alloc(mf_stack *stack, size_t size_bytes);

/* Records the stack pointer at which the fiber on it has stopped. */
static inline void mf_stack_note_use(mf_stack *stack, const void *address)
{
    if ((const char *)address < stack->deepest)
        stack->deepest = address;
}

/* Frees a stack on which nothing runs. [any thread] */
void mf_stack_free(const mf_stack *stack);

/* Whether a stack of this size is possible. */
bool mf_stack_is_possible(size_t size_bytes);

/* Frees all kept stacks. */
void mf_stack_drop_kept(void);

/* Call this in the child of fork(). It drops the list of kept stacks, which another thread may have been changing. */
void mf_stack_forget_kept(void);

/* Whether the address is in the guard of this stack. */
bool mf_stack_guards(const mf_stack *stack, const void *address);

#endif
