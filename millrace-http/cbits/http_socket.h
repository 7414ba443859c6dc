/*
 * http_socket.h - what the kernel knows of sockets and their other sides. Must not know: requests, responses.
 */
#ifndef HTTP_SOCKET_H
#define HTTP_SOCKET_H

#include <stdint.h>

/* Bytes that were sent and that the other side has not acknowledged (on a Unix socket: not read, overhead included);
 * 0 if the kernel does not say. Does not block. */
int64_t http_socket_queued(int descriptor);

/* Milliseconds since anything was sent or received on the connection, or since it began; -1 if the kernel does not say. */
int64_t http_socket_quiet_millis(int descriptor);

/* 1 if there is something to receive, or on a listening socket a connection to take, else 0. Does not block. */
int http_socket_pending(int descriptor);

/* Makes the kernel ignore new handshakes on a listening TCP socket; those that have begun are finished. Clients try again
 * after a second, and reach another socket on the port if there is one then. 0, or -1 if the kernel does not do it. */
int http_socket_turn_away(int descriptor);

/* What a descriptor is, for one that is to be served. */
enum {
    HTTP_SOCKET_LISTENS,   /* a stream socket, and listening */
    HTTP_SOCKET_CLOSED,    /* not open */
    HTTP_SOCKET_NONE,      /* no socket */
    HTTP_SOCKET_NO_STREAM, /* a socket of datagrams, for one */
    HTTP_SOCKET_NOT_LISTENING
};
int http_socket_kind(int descriptor);

/* Another descriptor of the same socket, to be closed by itself; or -1 and errno. */
int http_socket_duplicate(int descriptor);

#endif
