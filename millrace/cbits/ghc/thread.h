/*
 * thread.h: keeps the Haskell thread that makes this call on its capability while it waits.
 *
 * For `unsafe` calls only: a thread's flags belong to the capability that runs it. staying.c decides when to keep a
 * thread. Must not know: loops.
 */
#ifndef MILLRACE_GHC_THREAD_H
#define MILLRACE_GHC_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* Keeps the calling thread on its capability until it calls mrh_thread_let_move. False: it may move, or forkOn keeps it
 * there anyway; then the caller must not call mrh_thread_let_move. The plain path always returns false. */
bool mrh_thread_hold(void);
void mrh_thread_let_move(void);

/* The calling thread's number, as `show` prints it for a ThreadId. The plain path returns 0. */
uint64_t mrh_thread_number(void);

#endif
