/* eventfd.h: the descriptor that wakes a loop, for Linux's backends. Must not know: backends. */
#ifndef MILLRACE_EVENTFD_H
#define MILLRACE_EVENTFD_H

#include "loop.h"

/* Opens loop->wake_descriptor. 0 or a negative errno. */
int mr_eventfd_open(mr_loop *loop);
void mr_eventfd_close(mr_loop *loop);

/* Makes it readable. [any thread] */
void mr_eventfd_ring(mr_loop *loop);
/* Makes it unreadable again. */
void mr_eventfd_drain(mr_loop *loop);

#endif
