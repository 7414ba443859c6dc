/*
 * http2_client.h - one HTTP/2 connection of a client, on libnghttp2, purely in memory: requests and received bytes go
 * in, bytes to send and responses come out. Must not know: GHC, sockets, the clock.
 *
 * Any thread may call any function. Each takes the connection's lock for at most the time that processing 64 KiB
 * takes. No function waits for the network.
 *
 * A request and its response are an http_stream, as for the servers: http_stream_write, http_stream_await_output,
 * http_stream_finish and http_stream_reset send the request; http_stream_read and http_stream_trailers receive the
 * response's body. Only its heads have functions here. A stream that http2_client_request has returned belongs to its
 * caller until http2_client_release.
 *
 * Flow control follows the caller: the server may send one window on a stream, and more only after http_stream_read
 * has taken bytes. The connection's window is given back at once, so that a response that nobody reads does not stop
 * the others.
 */
#ifndef HTTP2_CLIENT_H
#define HTTP2_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "http_stream.h"

typedef struct http2_client http2_client;

/* The settings of a connection. */
typedef struct http2_client_settings {
    uint32_t stream_window;     /* bytes of a response that may arrive before they are read */
    uint32_t connection_window; /* bytes of all responses that may be on their way */
    uint32_t head_max;          /* bytes of a response's head or trailers: names and values, and 32 for each field */
    uint32_t interim_max;       /* interim responses (1xx) of one request */
    uint32_t output_high;       /* http_stream_write returns HTTP_WAIT when this many bytes of a stream are unsent */
} http2_client_settings;

/* In the length of a name, in the rows of a request: the field is not kept for compression. */
#define HTTP2_CLIENT_SECRET (UINT32_C(1) << 31)

/* Results of http2_client_request, besides HTTP_OK. */
#define HTTP2_CLIENT_FULL    18 /* the server allows no further stream now */
#define HTTP2_CLIENT_BARRED  19 /* the server allows no stream at all: none is open, and none may be */
#define HTTP2_CLIENT_LEAVING 20 /* the connection takes no further requests, or has no memory for them */
#define HTTP2_CLIENT_INVALID 21 /* the fields are not valid */

/* Why a stream has failed. */
typedef enum http2_client_cause {
    HTTP2_CLIENT_COMPLETE = 0, /* both sides have ended, or the stream is open */
    HTTP2_CLIENT_REFUSED = 1,  /* the server has not worked on the request, which may be sent again */
    HTTP2_CLIENT_RESET = 2,    /* the server has reset the stream */
    HTTP2_CLIENT_BROKEN = 3,   /* the response is malformed, or this side has reset the stream */
    HTTP2_CLIENT_TOO_LONG = 4, /* the head is longer than the limit, or there are too many */
    HTTP2_CLIENT_LOST = 5      /* the connection is over */
} http2_client_cause;

/* The state of a connection: flags of http2_client_state. */
#define HTTP2_CLIENT_IS_READY    1u  /* the server's settings have arrived */
#define HTTP2_CLIENT_IS_LEAVING  2u  /* it takes no further requests */
#define HTTP2_CLIENT_IS_OVER     4u  /* nothing more will be sent or received */
#define HTTP2_CLIENT_HAS_FAILED  8u  /* the server has violated the protocol */
#define HTTP2_CLIENT_CAN_CONNECT 16u /* the server takes extended CONNECT (RFC 8441) */

/* Makes a connection. Its first output is the preface. NULL without memory. */
http2_client *http2_client_open(const http2_client_settings *settings);

/* Ends the connection: closes all its streams. Threads that wait get notices. A connection that has no memory for what
 * the server must know ends in the same way. */
void http2_client_close(http2_client *client);

/* Frees the connection and all its streams. No thread may use them afterwards. */
void http2_client_free(http2_client *client);

/* Processes received bytes. The caller takes notices afterwards. */
void http2_client_feed(http2_client *client, const uint8_t *bytes, size_t length);

/* Writes bytes to send to `out`, and returns their number. One thread at a time may call it. When it returns 0, that
 * thread sleeps until http2_client_needs_sender has returned 1. */
size_t http2_client_collect(http2_client *client, uint8_t *out, size_t capacity);

/* The least `capacity` for http2_client_collect, in bytes. */
#define HTTP2_CLIENT_COLLECT_MIN 16393u

/* Returns 1 if there is something to send while the sending thread sleeps: once, so the caller must wake it. */
int http2_client_needs_sender(http2_client *client);

uint32_t http2_client_state(http2_client *client);

/* The number of open streams, and the number that the server allows. */
uint32_t http2_client_stream_count(http2_client *client);
uint32_t http2_client_streams_max(http2_client *client);

/* The next notice: a thread that waits for this event must be woken. As 4 * key + event; -1: none. The key is that of
 * a stream, or HTTP_NO_STREAM: HTTP_READABLE, the connection's state has changed. */
int64_t http2_client_next_notice(http2_client *client);

/* Sends PING. An answer counts as received bytes, like everything else. */
void http2_client_ping(http2_client *client);

/* Announces the end of the connection by GOAWAY: it takes no further requests. Open streams continue. */
void http2_client_announce_end(http2_client *client);

/* What follows the head of a message. */
typedef enum http2_client_part { HTTP2_CLIENT_NOTHING_FOLLOWS = 0, HTTP2_CLIENT_BODY_FOLLOWS = 1 } http2_client_part;

/* Begins a request. `rows` has `count` fields in the form of http_rows, the pseudo-fields first and names in lower
 * case. Stores the stream. Returns HTTP_OK or HTTP2_CLIENT_*. */
int http2_client_request(http2_client *client, const uint8_t *rows, uint32_t count, http2_client_part part,
                         http_stream **stream);

/* Gives the stream back. Resets it if it is not complete. */
void http2_client_release(http_stream *stream);

/* The length of the next head of the response, in rows; -HTTP_GONE; or -HTTP_WAIT: then there will be a notice of
 * HTTP_READABLE. */
int64_t http2_client_await_head(http_stream *stream);

/* Copies that head, and frees it. Returns its status. Stores the number of its fields, and what follows. */
int http2_client_copy_head(http_stream *stream, uint8_t *destination, uint32_t *count, uint32_t *part);

/* Why the stream has failed. *code is the error code of RFC 9113, section 7. */
http2_client_cause http2_client_failure(http_stream *stream, uint32_t *code);

#endif
