/* attempt.h: tries an operation once by calls of POSIX, without blocking and without SIGPIPE. */
#ifndef MILLRACE_ATTEMPT_H
#define MILLRACE_ATTEMPT_H

#include "loop.h"

/* The error of a connect to a Unix socket whose listener's queue is full. No event tells when to try again. */
#define MR_QUEUE_FULL 10001

/* Tries an operation once. Returns its result; -EAGAIN if it would block, or has not finished. */
int64_t mr_attempt(mr_loop *loop, mr_slot *slot);

/* Closes a descriptor. Returns 0 or a negative errno; the number is free in either case. */
int mr_descriptor_close(mr_loop *loop, int number);

#endif
