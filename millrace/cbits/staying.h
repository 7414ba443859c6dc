/*
 * staying.h: a thread that waits for an operation stays on its capability until it has run again.
 *
 * GHC moves runnable threads to idle capabilities. A loop wakes threads in batches, so there is almost always a thread
 * to move when another loop sleeps. A thread that has moved begins its next operation on the other loop. If threads run
 * for microseconds between two operations, moving them costs more than it gains: twice the CPU time per request on two
 * cores. If they compute, moving makes them parallel. So threads stay while the threads of their loop run briefly. A
 * loop that never sleeps nevertheless lets a thread move now and then, so that connections accepted by one thread
 * spread over all capabilities.
 *
 * Only a loop's owner may call these functions, by an `unsafe` foreign call.
 */
#ifndef MILLRACE_STAYING_H
#define MILLRACE_STAYING_H

#include "millrace.h"

#include <stdbool.h>

/* The loop has just woken this many threads (begin); they have run (end). */
void mrh_begin_batch(const mr_loop *loop, int woken);
void mrh_end_batch(const mr_loop *loop);
/* The loop is going to sleep. */
void mrh_record_sleep(const mr_loop *loop);

/* For a thread that is about to wait for an operation of this loop. True: it stays, and must call mrh_thread_let_move
 * afterwards. */
bool mrh_thread_stays(const mr_loop *loop);

#endif
