/* watch.h: lets a wait wait for a descriptor. Fibers only. */
#ifndef MILLRACE_FIBER_WATCH_H
#define MILLRACE_FIBER_WATCH_H

#include "wait.h"

typedef struct mf_watch {
    mf_operation operation;
    mf_node node; /* in the registry of the waits for a descriptor number */
    int descriptor;
} mf_watch;

/* Claims `wait` with `outcome` when the descriptor is ready (MR_WAIT_READABLE, MR_WAIT_WRITABLE), bad, or closed.
 * `flags`: MR_TRIED, or 0. */
void mf_watch_begin(mf_watch *watch, mf_wait *wait, int outcome, int descriptor, mr_kind kind, uint32_t flags);

/* Claims `wait` with `outcome` when the descriptor is closed. */
void mf_watch_begin_for_close(mf_watch *watch, mf_wait *wait, int outcome, int descriptor);

/* Makes the watch end soon. If several must end, call this for all before mf_watch_end. */
void mf_watch_cancel(mf_watch *watch);

enum { MF_WATCH_REPLACED = 1 };

/* Ends the watch. Returns 0, the error of the descriptor, or MF_WATCH_REPLACED if the number may mean another file by
 * now. */
int mf_watch_end(mf_watch *watch);

/* Waits for one descriptor on which the caller has just failed. Returns 0 (try again), -EBADF (also if it is closed
 * meanwhile), MF_DEADLINE_PASSED, or the error of an interruption. */
int mf_watch_wait(int descriptor, mr_kind kind, uint64_t deadline_ns);

/* Call this before closing the numbers from `first` to `last`: every waiter for one of them gets -EBADF. [any
 * thread] */
void mf_watch_note_close(int first, int last);

/* Call this after closing them. A waiter that began in between may wait for the old file or the new one;
 * MF_WATCH_REPLACED makes it try again. Keeps errno. [any thread] */
void mf_watch_note_closed(int first, int last);

/* Counts closed numbers. What is known about a descriptor holds as long as this count stays the same. [any thread] */
unsigned mf_watch_closes(void);

/* Makes this process the one whose descriptors are watched, and clears all watches. */
void mf_watch_start(void);

/* True in that process. False between vfork and exec: the child shares this memory, but has other descriptors and
 * another signal mask, and no other thread can work for it. Keeps errno. [any thread] */
bool mf_watch_is_own_process(void);

/* True if the caller is a fiber in that process. Keeps errno. */
bool mf_watch_is_fiber(void);

#endif
