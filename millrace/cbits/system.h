/*
 * system.h: calls whose names differ between operating systems: those that set up sockets, and the notice of a fork.
 *
 * posix/ and windows/ implement it; millrace.cabal chooses one. All functions are for `unsafe` calls from Haskell.
 * Unless noted otherwise they do not wait, and fail as POSIX functions do: with -1 and errno. On a capability that runs
 * a simulation (simulation.h), new sockets are those of the simulated machine.
 */
#ifndef MILLRACE_SYSTEM_H
#define MILLRACE_SYSTEM_H

#include "millrace.h"

/* Create sockets that never block and that child processes do not inherit. */
int mrh_socket(int domain, int type, int protocol);
int mrh_socketpair(int domain, int type, int protocol, int pair[2]); /* EOPNOTSUPP on Windows */
/* Makes a socket that other code created non-blocking and not inherited. */
int mrh_set_socket_flags(int descriptor);
/* Returns another descriptor of the same socket, which is not inherited either. EOPNOTSUPP for a simulated socket. */
int mrh_duplicate(int descriptor);

int mrh_bind(int descriptor, const struct sockaddr *address, socklen_t length);
int mrh_listen(int descriptor, int backlog);
int mrh_getsockname(int descriptor, struct sockaddr *address, socklen_t *length);
int mrh_getpeername(int descriptor, struct sockaddr *address, socklen_t *length);
int mrh_getsockopt(int descriptor, int level, int name, void *value, socklen_t *length);
int mrh_setsockopt(int descriptor, int level, int name, const void *value, socklen_t length);
/* Get and set SO_LINGER, whose value is a structure. 0 means off. */
int mrh_linger_seconds(int descriptor);
int mrh_set_linger_seconds(int descriptor, int seconds);
/* 1 if the other end has ended the connection or its half of it, even if bytes that came before are still to be
 * received, or if this end is shut down for receiving; else 0. */
int mrh_ended(int descriptor);
/* 1 if poll(2) reports an error. If the program has requested a queue of errors (IP_RECVERR, SO_TIMESTAMPING), poll
 * reports one until the queue is empty. */
int mrh_has_error(int descriptor);
/* Sends a datagram. EAGAIN if it would have to wait. */
int64_t mrh_send_to(int descriptor, const void *bytes, size_t size, const struct sockaddr *address, socklen_t length);
/* Receives a datagram and the sender's address. EAGAIN if it would have to wait. On a connection the sender is the
 * peer. If the sender has no name, only the family is set. `address` must be zeroed, and large enough for any
 * address. */
int64_t mrh_receive_from(int descriptor, void *buffer, size_t size, struct sockaddr *address, socklen_t *length);
/* Pass a descriptor over a Unix socket, with one byte. EAGAIN if they would have to wait; EOPNOTSUPP on Windows and for
 * a simulated socket. mrh_receive_descriptor returns a descriptor that exec closes, or fails with ENOMSG if the message
 * had none. */
int64_t mrh_send_descriptor(int descriptor, int passed);
int64_t mrh_receive_descriptor(int descriptor);
/* Closes a socket or a file (files.h). */
int mrh_close(int descriptor);

/* Loads libgcc_s. glibc opens this library at the first pthread_exit, which GHC's run-time system calls, and ends the
 * process if that fails, for instance because no descriptor is free. If none is free now, this function does nothing;
 * call it again later. */
void mrh_prepare_thread_ends(void);

/* Writes these counts (posix/pool.h): helper threads, idle helper threads, waiting jobs, running jobs, the limit of
 * helper threads, and jobs done. All are 0 on systems without helper threads. */
void mrh_count_helpers(int64_t counts[6]);

/* For the end of the run-time system: afterwards no helper thread uses memory of a submitter (posix/pool.h). Waits for
 * running jobs that do. */
void mrh_stop_helpers(void);

/* From now on, the child of every fork calls `in_child`. Returns 0 or a negative errno. */
int mrh_watch_forks(void (*in_child)(void));

#endif
