/*
 * epoll_poller.h: the events of Linux's epoll, for the backends that wait by it. The policy is in readiness.c.
 *
 * Must not know: backends.
 */
#ifndef MILLRACE_EPOLL_POLLER_H
#define MILLRACE_EPOLL_POLLER_H

#include "readiness.h"

extern const mr_poller mr_epoll_poller;

/* 0, or why epoll cannot be used here: a negative errno and a sentence. */
int mr_epoll_probe(char *reason, size_t reason_size);

/* Opens loop->poll_descriptor, and the descriptor that wakes the loop. 0 or a negative errno. */
int mr_epoll_open(mr_loop *loop);
/* Closing the copies of a child of a fork does not touch the parent's registrations. */
void mr_epoll_close(mr_loop *loop);

/* From now on a wait also ends when this descriptor is readable. No event tells of it. 0 or a negative errno. */
int mr_epoll_add_companion(mr_loop *loop, int number);

/* Blocks until there are events, or the time has come. */
void mr_epoll_wait(const mr_loop *loop, uint64_t until_ns);

#endif
