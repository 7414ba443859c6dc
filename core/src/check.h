/* check.h: whether a loop is as it should be. mr_loop_check is in millrace_check.h. */
#ifndef MILLRACE_CHECK_LOOP_H
#define MILLRACE_CHECK_LOOP_H

#include "loop.h"

/* mr_loop_check, after a poll of a loop of a group that asks for it. */
void mr_loop_check_after_poll(mr_loop *loop);

#endif
