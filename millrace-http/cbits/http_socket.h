/*
 * http_socket.h - the kernel's information about sockets and their peers. Must not know: requests, responses.
 */
#ifndef HTTP_SOCKET_H
#define HTTP_SOCKET_H

#include <stdint.h>

/* The number of sent bytes that the peer has not acknowledged (on a Unix socket: not read, including overhead); 0 if
 * the kernel does not provide it. Does not block. */
int64_t http_socket_queued(int descriptor);

/* The number of bytes that can be received at once; 0 if the kernel does not provide it. Does not block. */
int64_t http_socket_arrived(int descriptor);

/* Milliseconds since the last byte was sent or received on the connection, or since it began; -1 if the kernel does not
 * provide it. */
int64_t http_socket_quiet_millis(int descriptor);

/* 1 if there are bytes to receive, or on a listening socket a connection to accept; else 0. Does not block. */
int http_socket_pending(int descriptor);

/* 1 if the connection is over in both directions, for example because the peer has reset it; else 0, also if the system
 * does not say. Does not block. */
int http_socket_is_over(int descriptor);

/* Makes the kernel ignore new handshakes on a listening TCP socket. Handshakes that have begun continue. Clients try
 * again after a second, and then reach another socket on the port if there is one. Connections that are accepted from
 * then on need `http_socket_welcome`. Returns 0, or -1 if the kernel cannot do it. */
int http_socket_turn_away(int descriptor);

/* Makes the kernel take what comes on a connection that was accepted from a socket that turns others away. Until then
 * the client has to send it again. */
void http_socket_welcome(int descriptor);

/* The kind of a descriptor that the server was given. */
enum {
    HTTP_SOCKET_LISTENS,   /* a stream socket, and listening */
    HTTP_SOCKET_CLOSED,    /* not open */
    HTTP_SOCKET_NONE,      /* not a socket */
    HTTP_SOCKET_NO_STREAM, /* another kind of socket, such as one for datagrams */
    HTTP_SOCKET_NOT_LISTENING
};
int http_socket_kind(int descriptor);

/* Returns another descriptor for the same socket, which must be closed separately; or -1 and errno. */
int http_socket_duplicate(int descriptor);

#endif
