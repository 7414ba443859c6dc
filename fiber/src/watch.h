/*
 * watch.h: waiting for a descriptor, as one of the things that a wait is for. Fibers only.
 */
#ifndef MILLRACE_FIBER_WATCH_H
#define MILLRACE_FIBER_WATCH_H

#include "wait.h"

typedef struct mf_watch {
    mf_operation operation;
    mf_node node; /* in the registry of those who wait for a descriptor number */
    int descriptor;
} mf_watch;

/* Claims `wait` with `outcome` when the descriptor is ready (MR_WAIT_READABLE, MR_WAIT_WRITABLE), bad, or closed. `flags`:
 * MR_TRIED, or 0. */
void mf_watch_begin(mf_watch *watch, mf_wait *wait, int outcome, int descriptor, mr_kind kind, uint32_t flags);

/* The same for closing alone. */
void mf_watch_begin_for_close(mf_watch *watch, mf_wait *wait, int outcome, int descriptor);

/* Has it end soon: before mf_watch_end, where there are several to be ended. */
void mf_watch_cancel(mf_watch *watch);

enum { MF_WATCH_REPLACED = 1 };

/* Returns when nothing of it is left: 0, the error that the descriptor ended with, or MF_WATCH_REPLACED: who knows what
 * its number means by now. */
int mf_watch_end(mf_watch *watch);

/* Waits for one descriptor, which is not ready as far as the caller knows. 0 (look again), -EBADF (also when it is
 * closed meanwhile), MF_DEADLINE_PASSED, or the error of an interruption. */
int mf_watch_wait(int descriptor, mr_kind kind, uint64_t deadline_ns);

/* The numbers from `first` to `last` are about to lose their meaning: everybody who waits for one gets -EBADF. [any
 * thread] */
void mf_watch_note_close(int first, int last);

/* They have lost it. Whoever began to wait in between waits for what they meant before, or for what they mean now:
 * MF_WATCH_REPLACED has them look again. errno stays as it is. [any thread] */
void mf_watch_note_closed(int first, int last);

/* How often a number has lost its meaning: what is known of a descriptor holds as long as this stays the same. [any
 * thread] */
unsigned mf_watch_closes(void);

/* The process whose descriptors are watched is this one; nothing is watched yet. */
void mf_watch_start(void);

/* Is this that process? Not between vfork and exec: the child shares this memory, but its descriptors and its mask of
 * signals are its own, and nobody but itself can work for it. errno stays as it is. [any thread] */
bool mf_watch_is_own_process(void);

/* Is the caller a fiber, and in that process? errno stays as it is. */
bool mf_watch_is_fiber(void);

#endif
