/*
 * overflow.h: reports the fiber that has overflowed its stack.
 */
#ifndef MILLRACE_FIBER_OVERFLOW_H
#define MILLRACE_FIBER_OVERFLOW_H

enum { MF_SIGNAL_STACK_BYTES = 64 * 1024 };

/* Makes this thread handle SIGSEGV on `signal_stack` (MF_SIGNAL_STACK_BYTES). */
void mf_overflow_watch_thread(void *signal_stack);

/* The signal stack may be freed afterwards. */
void mf_overflow_unwatch_thread(void);

#endif
