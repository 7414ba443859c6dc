/* watch.h: waiting for a descriptor, as one of the things that a wait can be for. Fibers only. */
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

/* The same for closing alone. */
void mf_watch_begin_for_close(mf_watch *watch, mf_wait *wait, int outcome, int descriptor);

/* Makes the watch end soon. If several must end, call this for all before mf_watch_end. */
void mf_watch_cancel(mf_watch *watch);

enum { MF_WATCH_REPLACED = 1 };

/* Returns when the watch is completely gone: 0, the error that the descriptor ended with, or MF_WATCH_REPLACED: the
 * number may mean another file by now. */
int mf_watch_end(mf_watch *watch);

/* Waits for one descriptor that is not ready as far as the caller knows. Returns 0 (look again), -EBADF (also when
 * it is closed meanwhile), MF_DEADLINE_PASSED, or the error of an interruption. */
int mf_watch_wait(int descriptor, mr_kind kind, uint64_t deadline_ns);

/* Call this before the numbers from `first` to `last` lose their meaning: every waiter for one of them gets -EBADF.
 * [any thread] */
void mf_watch_note_close(int first, int last);

/* Call this after they have lost it. A waiter that began in between may wait for the old meaning or for the new one.
 * MF_WATCH_REPLACED makes it look again. errno stays as it is. [any thread] */
void mf_watch_note_closed(int first, int last);

/* How often a number has lost its meaning. What is known about a descriptor holds as long as this count stays the
 * same. [any thread] */
unsigned mf_watch_closes(void);

/* Declares this process the one whose descriptors are watched. Nothing is watched yet. */
void mf_watch_start(void);

/* Is this that process? Not between vfork and exec: the child shares this memory, but its descriptors and its signal
 * mask are its own, and no other thread can work for it. errno stays as it is. [any thread] */
bool mf_watch_is_own_process(void);

/* Is the caller a fiber, and in that process? errno stays as it is. */
bool mf_watch_is_fiber(void);

#endif
