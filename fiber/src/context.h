/*
 * context.h: a suspended computation with its own stack. Must not know: fibers.
 */
#ifndef MILLRACE_FIBER_CONTEXT_H
#define MILLRACE_FIBER_CONTEXT_H

/* Prepares a context that calls run(argument) when it is switched to; `run` must never return. `top` is the upper
 * end of its stack. Returns the argument for mf_switch. */
void *mf_context_make(void *top, void (*run)(void *argument), void *argument);

/* switch.S: saves the running context in *from and continues `to`. */
void mf_switch(void **from, void *to);

#endif
