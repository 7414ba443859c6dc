/* attempt.h: one operation, tried once by calls of POSIX, without blocking and without SIGPIPE. */
#ifndef MILLRACE_ATTEMPT_H
#define MILLRACE_ATTEMPT_H

#include "loop.h"

/* An error for a Unix socket whose listener's queue is full: nothing announces when to try again. */
#define MR_QUEUE_FULL 10001

/* -EAGAIN: it would block, or has not finished. */
int64_t mr_attempt(mr_loop *loop, mr_slot *slot);

/* 0 or a negative errno; the number is free in either case. */
int mr_descriptor_close(mr_loop *loop, int number);

#endif
