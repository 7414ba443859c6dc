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

/* A receive would get only the end or an error. After a part has arrived, these are left to the next call. errno
 * stays as it is. */
bool mf_has_only_its_end(int descriptor);

/* Sends without waiting. After a wait, the end of a Unix socket is reported as to a thread that waited for room: by
 * the socket's error, and without SIGPIPE (sock_alloc_send_pskb in net/core/sock.c). */
ssize_t mf_send_once(const mf_patient_call *call, const struct msghdr *message, int flags);

/*
 * Continues a message of which the first `sent` bytes were taken, until all are taken or an error occurs, which is
 * left to the next call. Returns how many bytes were sent altogether. Raises no SIGPIPE, as the kernel raises none
 * after a part.
 */
ssize_t mf_send_rest(mf_patient_call *call, const struct msghdr *message, int flags, size_t sent);

#endif
