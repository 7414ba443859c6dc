/*
 * offload.h: work that no operation of the core can do, on OS threads of its own while the fiber waits.
 */
#ifndef MILLRACE_FIBER_OFFLOAD_H
#define MILLRACE_FIBER_OFFLOAD_H

typedef void (*mf_work)(void *argument);

/*
 * Runs work(argument) on one of a few helper threads, for work that ends soon by itself: that of disks. The fiber waits
 * for it, uninterrupted. errno is what the work left, and stays as it is if that is nothing. Without any thread, and
 * between vfork and exec, the work is done here.
 */
void mf_offload(mf_work work, void *argument);

/* The same for name servers, which leave one of the threads to others: one that is dead is asked for many seconds. */
void mf_offload_name(mf_work work, void *argument);

/* The same for work that may wait for ever, such as for another process: on a thread of its own. */
void mf_offload_alone(mf_work work, void *argument);

enum { MF_OFFLOAD_NO_THREAD = 1, MF_NO_DESCRIPTOR = -1 };

/*
 * The same for work that is one call of libc's and fails with EINTR when a signal comes while it waits. There an interruption
 * of the fiber ends it, and so does closing the descriptor that it waits for, if there is one: the result is the error of the
 * interruption, or -EBADF, and the call has failed. Otherwise 0, and the call has the result that it has: what it has opened
 * just then is the caller's. MF_OFFLOAD_NO_THREAD: nothing was done.
 */
int mf_offload_interruptible(mf_work work, void *argument, int descriptor);

/* Takes the signal that interrupting takes: once, before anybody has asked for SIGRTMAX if possible. */
void mf_offload_prepare(void);

/* Ends the helper threads, which must have no work. */
void mf_offload_stop(void);

/* For the child of fork(): the threads are the parent's. */
void mf_offload_forget_after_fork(void);

#endif
