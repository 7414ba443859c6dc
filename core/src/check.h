/* check.h: checks the invariants of a loop. millrace.h declares mr_loop_check. */
#ifndef MILLRACE_CHECK_LOOP_H
#define MILLRACE_CHECK_LOOP_H

#include "loop.h"

/* Called after each poll of a loop whose group checks polls: runs mr_loop_check, or counts the poll. */
void mr_loop_check_after_poll(mr_loop *loop);

#endif
