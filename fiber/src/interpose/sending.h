/*
 * sending.h: system calls by number that send a signal to the caller's own thread.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_SENDING_H
#define MILLRACE_FIBER_INTERPOSE_SENDING_H

#include <stdbool.h>

enum { MF_SIGNAL_ARGUMENTS = 4 };

/* Is it a call of that kind, made on a fiber? */
bool mf_signal_is_to_oneself(long number, const long *arguments);

/* Makes it. As the call: 0, or -1 and errno. */
int mf_signal_send_by_number(long number, const long *arguments);

#endif
