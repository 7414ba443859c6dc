/*
 * signal_to_self.h: system calls by number that send a signal to the calling thread.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_SIGNAL_TO_SELF_H
#define MILLRACE_FIBER_INTERPOSE_SIGNAL_TO_SELF_H

#include <stdbool.h>

enum { MF_SIGNAL_ARGUMENTS = 4 };

/* True for such a call on a fiber. */
bool mf_signal_is_to_oneself(long number, const long *arguments);

/* Makes the call. Returns 0, or -1 and errno, as the call does. */
int mf_signal_send_by_number(long number, const long *arguments);

#endif
