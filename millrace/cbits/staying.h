/*
 * staying.h: a thread that waits for an operation stays on its capability until it has run again.
 *
 * GHC moves threads that can run to capabilities that are idle. A loop wakes threads in batches, so that there is
 * always somebody to move when another loop sleeps; and a thread that is moved begins its next operation on that other
 * loop, which wakes it there. Where threads run for microseconds between two operations, moving them costs more than it
 * gains: twice the CPU time per request on two cores. Where they compute, it is what makes them parallel. So threads
 * stay as long as those of their loop are quick. Of a loop that does not get to sleep, one may be moved now and then all
 * the same: that is how the connections that one thread accepts spread over all capabilities.
 *
 * Only a loop's owner may call these, by an `unsafe` foreign call.
 */
#ifndef MILLRACE_STAYING_H
#define MILLRACE_STAYING_H

#include "millrace.h"

#include <stdbool.h>

/* The loop has just woken so many threads; and they have run since. */
void mrh_begin_batch(const mr_loop *loop, int woken);
void mrh_end_batch(const mr_loop *loop);
/* It is going to sleep. */
void mrh_note_sleep(const mr_loop *loop);

/* The calling thread is going to wait for an operation of this loop. True if it stays; it then must call mrh_thread_let_move. */
bool mrh_stay(const mr_loop *loop);

#endif
