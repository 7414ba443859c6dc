/*
 * epoll_poller.h: watches descriptors and fetches events by Linux's epoll. readiness.c decides what to do with the
 * events.
 *
 * Must not know: backends.
 */
#ifndef MILLRACE_EPOLL_POLLER_H
#define MILLRACE_EPOLL_POLLER_H

#include "readiness.h"

extern const mr_poller mr_epoll_poller;

/* Returns 0, or a negative errno and a sentence with the reason if epoll cannot be used here. */
int mr_epoll_probe(char *reason, size_t reason_size);

/* Opens loop->poll_descriptor, and the descriptor that wakes the loop. 0 or a negative errno. */
int mr_epoll_open(mr_loop *loop);
/* Closes both. In the child of a fork this does not touch the parent's registrations. */
void mr_epoll_close(mr_loop *loop);

/* Makes a wait also end when this descriptor is readable. fetch reports no event for it. Returns 0 or a negative
 * errno. */
int mr_epoll_add_companion(mr_loop *loop, int number);

/* Blocks until there are events, or `until_ns` has come. */
void mr_epoll_wait(const mr_loop *loop, uint64_t until_ns);

#endif
