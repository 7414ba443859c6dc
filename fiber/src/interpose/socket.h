/* socket.h: what read and write on a socket share with receiving and sending. */
#ifndef MILLRACE_FIBER_INTERPOSE_SOCKET_H
#define MILLRACE_FIBER_INTERPOSE_SOCKET_H

#include "blocking.h"

#include <sys/socket.h>

/* A socket whose messages have no bounds? */
bool mf_is_stream(int descriptor);

/* errno stays as it is. */
bool mf_is_unix(int descriptor);

/* Does SO_LINGER make closing it wait until the peer has acknowledged everything? errno stays as it is. */
bool mf_may_linger(int descriptor);

/* The end or an error is all that a receive would get. After a part these are the next call's to tell. errno stays as
 * it is. */
bool mf_has_only_its_end(int descriptor);

/* Sends without waiting. After a wait on a Unix socket its end is told as to a thread that was waiting for room: by the error
 * that it has ended with, and without SIGPIPE (sock_alloc_send_pskb in net/core/sock.c). */
ssize_t mf_send_once(const mf_patient_call *call, const struct msghdr *message, int flags);

/*
 * Goes on sending after the first `sent` bytes of a message were taken, until all are or something prevents it, which
 * the next call will tell. Returns how many were sent altogether. Raises no SIGPIPE: nor does the kernel after a part.
 */
ssize_t mf_send_rest(mf_patient_call *call, const struct msghdr *message, int flags, size_t sent);

#endif
