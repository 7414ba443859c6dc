/*
 * context.h: a suspended computation on a stack of its own. Must not know: fibers.
 */
#ifndef MILLRACE_FIBER_CONTEXT_H
#define MILLRACE_FIBER_CONTEXT_H

/* Lays out a context that, when it is switched to, calls run(argument), which must never return. `top` is the upper
 * end of its stack. Returns what mf_switch takes. */
void *mf_context_make(void *top, void (*run)(void *argument), void *argument);

/* switch.S */
void mf_switch(void **from, void *to);

#endif
