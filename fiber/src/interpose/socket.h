/* socket.h: functions on sockets that read and write share with the calls of sockets. */
#ifndef MILLRACE_FIBER_INTERPOSE_SOCKET_H
#define MILLRACE_FIBER_INTERPOSE_SOCKET_H

#include "blocking.h"

#include <sys/socket.h>

/* True for a stream socket. */
bool mf_is_stream(int descriptor);

/* True for a Unix socket. Keeps errno. */
bool mf_is_unix(int descriptor);

/* True if closing the socket may wait, by SO_LINGER, until the peer has acknowledged everything. Keeps errno. */
bool mf_may_linger(int descriptor);

/* True if a receive would get only the end or an error. After a part has arrived, these are left to the next call.
 * Keeps errno. */
bool mf_is_at_end(int descriptor);

/* Sends without waiting. After a wait, the end of a Unix socket is reported as to a blocked thread: by the socket's
 * error, and without SIGPIPE (sock_alloc_send_pskb in net/core/sock.c). */
ssize_t mf_send_once(const mf_blocking_call *call, const struct msghdr *message, int flags);

/*
 * Continues a message whose first `sent` bytes were sent, until all are sent or an error occurs, which is left to the
 * next call. Returns the total number of bytes sent. Raises no SIGPIPE, as the kernel raises none after a part.
 */
ssize_t mf_send_rest(mf_blocking_call *call, const struct msghdr *message, int flags, size_t sent);

#endif
