/*
 * overflow.h: says whose stack it was when a fiber runs into the guard of its stack.
 */
#ifndef MILLRACE_FIBER_OVERFLOW_H
#define MILLRACE_FIBER_OVERFLOW_H

enum { MF_SIGNAL_STACK_BYTES = 64 * 1024 };

/* Has SIGSEGV handled on `signal_stack` (of MF_SIGNAL_STACK_BYTES) while it happens on this thread. */
void mf_overflow_watch_thread(void *signal_stack);

/* The signal stack may be freed afterwards. */
void mf_overflow_unwatch_thread(void);

#endif
