/*
 * stack.h: memory for stacks: committed as it is touched, guarded at its lower end, kept for reuse up to a bound.
 */
#ifndef MILLRACE_FIBER_STACK_H
#define MILLRACE_FIBER_STACK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_stack {
    char *bottom;        /* the lowest usable byte; the guard lies below */
    size_t size_bytes;   /* usable */
    const char *deepest; /* the lowest place that has been seen in use */
} mf_stack;

/* How many stacks of each size are kept. */
void mf_stack_set_kept(unsigned count);

/* A stack of at least that size. 0, -ENOMEM, or -EINVAL when no machine could have it. [any thread] */
int mf_stack_take(mf_stack *stack, size_t size_bytes);

/* What ran on it has stopped there. */
static inline void mf_stack_note_use(mf_stack *stack, const void *place)
{
    if ((const char *)place < stack->deepest)
        stack->deepest = place;
}

/* Gives it back. Nothing may run on it. [any thread] */
void mf_stack_give(const mf_stack *stack);

/* Could there be a stack of that size? */
bool mf_stack_is_possible(size_t size_bytes);

/* Frees all that is kept. */
void mf_stack_drop_kept(void);

/* For the child of fork(): forgets all that is kept, which another thread may have been changing. */
void mf_stack_forget_kept(void);

/* Does the address lie in the guard of this stack? */
bool mf_stack_guards(const mf_stack *stack, const void *address);

#endif
