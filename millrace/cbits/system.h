/*
 * system.h: calls that every operating system has under other names: those that set up sockets, and the news of a fork.
 *
 * posix/ and windows/ have one each; millrace.cabal chooses. All are for `unsafe` calls from Haskell, and fail as POSIX's
 * do: with -1 and errno. Where a simulation runs (simulation.h) they are its machine's.
 */
#ifndef MILLRACE_SYSTEM_H
#define MILLRACE_SYSTEM_H

#include "millrace.h"

/* Sockets that never block and that child processes do not inherit. */
int mrh_socket(int domain, int type, int protocol);
int mrh_socketpair(int domain, int type, int protocol, int pair[2]); /* EOPNOTSUPP on Windows */
/* Makes a socket from elsewhere such a one. */
int mrh_make_ours(int descriptor);
/* Another descriptor of the same socket, such a one as well. EOPNOTSUPP for a simulated one. */
int mrh_duplicate(int descriptor);

int mrh_bind(int descriptor, const struct sockaddr *address, socklen_t length);
int mrh_listen(int descriptor, int backlog);
int mrh_getsockname(int descriptor, struct sockaddr *address, socklen_t *length);
int mrh_getpeername(int descriptor, struct sockaddr *address, socklen_t *length);
int mrh_getsockopt(int descriptor, int level, int name, void *value, socklen_t *length);
int mrh_setsockopt(int descriptor, int level, int name, const void *value, socklen_t length);
/* SO_LINGER, which is a structure; 0: off. */
int mrh_linger_seconds(int descriptor);
int mrh_set_linger_seconds(int descriptor, int seconds);
/* 1 if the other end has ended the connection or its half of it, even if bytes that came before are still to be received,
 * or if this end is shut down for receiving; else 0. */
int mrh_ended(int descriptor);
/* 1 if poll(2) reports an error. One in the queue of errors that a program has asked for (IP_RECVERR, SO_TIMESTAMPING) is
 * reported as long as it is there. */
int mrh_has_error(int descriptor);
/* Of datagrams; EAGAIN if they would have to wait. */
int64_t mrh_send_to(int descriptor, const void *bytes, size_t size, const struct sockaddr *address, socklen_t length);
/* On a connection the sender is the peer. Of one without a name, the family is told. `address` has room for any,
 * and is zeroed. */
int64_t mrh_receive_from(int descriptor, void *buffer, size_t size, struct sockaddr *address, socklen_t *length);
/* Of descriptors that a Unix socket passes, with a byte to carry each; EAGAIN if they would have to wait, EOPNOTSUPP on
 * Windows and for a simulated socket. Receiving returns the descriptor, which exec closes; ENOMSG if something else came. */
int64_t mrh_send_descriptor(int descriptor, int passed);
int64_t mrh_receive_descriptor(int descriptor);
/* Of sockets, and of files (files.h). */
int mrh_close(int descriptor);

/* Has what the end of a thread needs loaded while there are descriptors: glibc opens libgcc_s at the first pthread_exit,
 * which GHC's run-time system calls, and ends the process if it cannot. Without descriptors nothing is done: to be called
 * again then. */
void mrh_prepare_thread_ends(void);

/* Of helper threads (posix/pool.h): how many there are, how many are idle, how many jobs wait and are being done, and how many
 * helpers there can be. All 0 where there are none. */
void mrh_count_helpers(int64_t counts[5]);

/* At the end of the run-time system: no helper thread uses its memory any more (posix/pool.h). */
void mrh_stop_helpers(void);

/* Has `in_child` called in every child process that a fork makes from here on. 0, or a negative errno. */
int mrh_watch_forks(void (*in_child)(void));

#endif
