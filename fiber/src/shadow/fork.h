/*
 * fork.h: what the child of fork() forgets of shadowed calls: fibers that waited in them and locks that they held, which
 * do not exist there.
 */
#ifndef MILLRACE_FIBER_SHADOW_FORK_H
#define MILLRACE_FIBER_SHADOW_FORK_H

void mf_waiters_forget_after_fork(void);
void mf_pthread_forget_after_fork(void);
void mf_stream_forget_after_fork(void);
void mf_socket_forget_after_fork(void);

#endif
