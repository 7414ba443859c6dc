/*
 * system.h: calls whose names differ between operating systems: those that set up sockets, and the notice of a fork.
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
/* Makes a socket from elsewhere non-blocking and not inherited. */
int mrh_make_ours(int descriptor);
/* Another descriptor of the same socket, not inherited either. EOPNOTSUPP for a simulated one. */
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
/* 1 if poll(2) reports an error. It reports an error in a queue that the program has requested (IP_RECVERR, SO_TIMESTAMPING)
 * until the error is taken out. */
int mrh_has_error(int descriptor);
/* For datagrams; EAGAIN if the call would have to wait, here and below. */
int64_t mrh_send_to(int descriptor, const void *bytes, size_t size, const struct sockaddr *address, socklen_t length);
/* On a connection the sender is the peer. For a sender without a name, only the family is set. `address` has room for any
 * address, and is zeroed. */
int64_t mrh_receive_from(int descriptor, void *buffer, size_t size, struct sockaddr *address, socklen_t *length);
/* Pass a descriptor over a Unix socket, with one byte. EAGAIN if they would have to wait, EOPNOTSUPP on Windows and for a
 * simulated socket. Receiving returns the descriptor, which exec closes; ENOMSG if no descriptor came. */
int64_t mrh_send_descriptor(int descriptor, int passed);
int64_t mrh_receive_descriptor(int descriptor);
/* Closes sockets, and files (files.h). */
int mrh_close(int descriptor);

/* Loads libgcc_s. glibc opens it at the first pthread_exit, which GHC's run-time system calls, and ends the process if it
 * cannot, for instance because no descriptor is free. If none is free now, this does nothing: call it again later. */
void mrh_prepare_thread_ends(void);

/* Counts (posix/pool.h): helper threads, idle ones, jobs that wait, jobs that run, and the most helpers that there can be. All
 * are 0 where there are no helper threads. */
void mrh_count_helpers(int64_t counts[6]);

/* For the end of the run-time system: afterwards no helper thread uses its memory (posix/pool.h). */
void mrh_stop_helpers(void);

/* From here on, every child process of a fork calls `in_child`. 0, or a negative errno. */
int mrh_watch_forks(void (*in_child)(void));

#endif
