/*
 * fork.h: what the child of fork() forgets of interposed calls: fibers that waited in them and locks that they held, which
 * do not exist there.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_FORK_H
#define MILLRACE_FIBER_INTERPOSE_FORK_H

void mf_waiters_forget_after_fork(void);
void mf_ownership_forget_after_fork(void);
void mf_rwlock_forget_after_fork(void);
void mf_stream_forget_after_fork(void);
void mf_socket_forget_after_fork(void);

#endif
