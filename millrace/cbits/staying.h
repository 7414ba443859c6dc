/*
 * staying.h: a thread that waits for an operation stays on its capability until it has run again.
 *
 * GHC moves threads that can run to capabilities that are idle. A loop wakes threads in batches, so there is
 * almost always a thread to move when another loop sleeps. A thread that is moved begins its next operation on that other
 * loop. If threads run for microseconds between two operations, moving them costs more than it gains: twice the CPU time
 * per request on two cores. If they compute, moving them makes them parallel. So threads stay as long as the threads of
 * their loop are quick. A loop that never sleeps lets one thread move now and then all the same. So connections that one
 * thread accepts spread over all capabilities.
 *
 * Only a loop's owner may call these, by an `unsafe` foreign call.
 */
#ifndef MILLRACE_STAYING_H
#define MILLRACE_STAYING_H

#include "millrace.h"

#include <stdbool.h>

/* The loop has just woken this many threads; and these have run. */
void mrh_begin_batch(const mr_loop *loop, int woken);
void mrh_end_batch(const mr_loop *loop);
/* The loop is going to sleep. */
void mrh_note_sleep(const mr_loop *loop);

/* The calling thread is going to wait for an operation of this loop. True if it stays; it then must call mrh_thread_let_move. */
bool mrh_stay(const mr_loop *loop);

#endif
