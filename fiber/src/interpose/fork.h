/*
 * fork.h: clears records in the child of fork(): of fibers that waited in interposed calls, and of locks that they
 * held. Those fibers do not exist in the child.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_FORK_H
#define MILLRACE_FIBER_INTERPOSE_FORK_H

void mf_waiters_forget_after_fork(void);
void mf_ownership_forget_after_fork(void);
void mf_rwlock_forget_after_fork(void);
void mf_stream_forget_after_fork(void);
void mf_socket_forget_after_fork(void);

#endif
