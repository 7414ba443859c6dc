/* lifetime.h: the end of a loop after a fork. millrace.h declares the rest of lifetime.c. Must not know: system
 * calls. */
#ifndef MILLRACE_LIFETIME_H
#define MILLRACE_LIFETIME_H

#include "loop.h"

/* In the child of a fork: frees the loop and this process's copies of what it holds in the kernel. */
void mr_loop_abandon(mr_loop *loop);

#endif
