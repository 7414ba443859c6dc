/*
 * offload.h: runs work for which the core has no operation on helper threads, while the fiber waits.
 */
#ifndef MILLRACE_FIBER_OFFLOAD_H
#define MILLRACE_FIBER_OFFLOAD_H

typedef void (*mf_work)(void *argument);

/*
 * Runs work(argument) on one of a few helper threads, while the fiber waits. For work that ends soon by itself, such as
 * that of disks. An interruption does not end the wait. errno becomes that of the work, or stays if the work sets none.
 * Without any helper, and between vfork and exec, this thread does the work.
 */
void mf_offload(mf_work work, void *argument);

/* Runs work of name servers as mf_offload does. Such work never occupies all helpers, because a dead name server takes
 * many seconds. */
void mf_offload_name(mf_work work, void *argument);

/* Runs work as mf_offload does, but on a new thread: for work that may wait for ever, for example for another
 * process. */
void mf_offload_to_new_thread(mf_work work, void *argument);

enum { MF_OFFLOAD_NO_THREAD = 1, MF_NO_DESCRIPTOR = -1 };

/*
 * Runs one call of libc's on a new thread, a call that fails with EINTR if a signal comes while it waits. An
 * interruption of the fiber ends its wait, and so does closing the descriptor that the call waits for, if there is one.
 * Then the result is the error of the interruption, or -EBADF, and the call has failed. Otherwise the result is 0, and
 * the call's own result counts: for example, a descriptor that it has just opened belongs to the caller.
 * MF_OFFLOAD_NO_THREAD: nothing was done.
 */
int mf_offload_interruptible(mf_work work, void *argument, int descriptor);

/* Reserves the interrupting signal, once. Call it before the program reads SIGRTMAX, if possible. */
void mf_offload_prepare(void);

/* Ends the helper threads, which must be idle. */
void mf_offload_stop(void);

/* Call this in the child of fork(), where the threads do not exist. */
void mf_offload_forget_after_fork(void);

#endif
