/*
 * http_socket.h - what the kernel knows of a connection's other side. Knows nothing of what is said on it.
 */
#ifndef HTTP_SOCKET_H
#define HTTP_SOCKET_H

#include <stdint.h>

/* Bytes that were sent and that the other side has not acknowledged (on a Unix socket: not read, overhead included);
 * 0 if the kernel does not say. Does not block. */
int64_t http_socket_queued(int descriptor);

/* 1 if the other side has ended the connection or its half of it, even if bytes that came before are still to be read;
 * else 0. Does not block. */
int http_socket_ended(int descriptor);

#endif
