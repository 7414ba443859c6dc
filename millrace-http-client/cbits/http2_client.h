/*
 * http2_client.h - one HTTP/2 connection of a client, on libnghttp2, purely in memory: requests and received bytes go in, bytes to
 * send and responses come out. Must not know: GHC, sockets, the clock.
 *
 * Any thread may call any function. Each takes the connection's lock for at most the time that processing 64 KiB takes. No function
 * waits for the network.
 *
 * Flow control follows the caller: the server may send one window on a stream, and more only after http2_client_read has taken
 * bytes. The connection's window is given back at once, so that a response that nobody reads does not stop the others.
 */
#ifndef HTTP2_CLIENT_H
#define HTTP2_CLIENT_H

#include <stddef.h>
#include <stdint.h>

typedef struct http2_client http2_client;
typedef struct http2_client_stream http2_client_stream;

/* The settings of a connection. */
typedef struct http2_client_settings {
    uint32_t stream_window;     /* bytes of a response that may arrive before they are read */
    uint32_t connection_window; /* bytes of all responses that may be on their way */
    uint32_t head_max;          /* bytes of a response's head or trailers: names and values, and 32 for each field */
    uint32_t interim_max;       /* interim responses (1xx) of one request */
    uint32_t output_max;        /* http2_client_write says "wait" when this many bytes of a stream are unsent */
} http2_client_settings;

/* Fields in rows: each has the lengths of name and value, 32 bits each, and their bytes. Names are in lower case. */
#define HTTP2_CLIENT_SECRET (UINT32_C(1) << 31) /* in the length of a name: the field is not kept for compression */

/* Results. */
#define HTTP2_CLIENT_OK      0
#define HTTP2_CLIENT_WAIT    (-1) /* there will be a notice */
#define HTTP2_CLIENT_GONE    (-2) /* the stream is closed; http2_client_failure says why */
#define HTTP2_CLIENT_FULL    (-3) /* the server allows no further stream now */
#define HTTP2_CLIENT_LEAVING (-4) /* the connection takes no further requests, or has no memory for them */
#define HTTP2_CLIENT_INVALID (-5) /* the fields are not valid */
#define HTTP2_CLIENT_BARRED  (-6) /* the server allows no stream at all: none is open, and none may be */

/* Why a stream is closed. */
typedef enum http2_client_cause {
    HTTP2_CLIENT_COMPLETE = 0, /* both sides have ended, or the stream is open */
    HTTP2_CLIENT_REFUSED = 1,  /* the server has not worked on the request, which may be sent again */
    HTTP2_CLIENT_RESET = 2,    /* the server has reset the stream */
    HTTP2_CLIENT_BROKEN = 3,   /* the response is malformed */
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

/* Closes all streams: the connection is over. Those that wait get notices. A connection without memory to tell the
 * server something ends like that by itself. */
void http2_client_end(http2_client *client);

/* Frees the connection and all streams. No thread may use them afterwards. */
void http2_client_free(http2_client *client);

/* Processes received bytes. The caller takes notices afterwards. */
void http2_client_feed(http2_client *client, const uint8_t *bytes, size_t length);

/* Writes bytes to send to `out`, and returns their number. One thread at a time may call it. When it returns 0, that
 * thread sleeps until http2_client_needs_writer has returned 1. */
size_t http2_client_collect(http2_client *client, uint8_t *out, size_t room);

/* The least `room`. */
#define HTTP2_CLIENT_ROOM_MIN 16393u

/* Is there something to send while the writer sleeps? Returns 1 once: the caller must wake it. */
int http2_client_needs_writer(http2_client *client);

uint32_t http2_client_state(http2_client *client);

/* How many streams are open, and how many the server allows. */
uint32_t http2_client_stream_count(http2_client *client);
uint32_t http2_client_streams_max(http2_client *client);

/* Something to wake: 2 * token for a thread that reads, 2 * token + 1 for one that writes; token 0 is the connection's
   state. -1: none. */
int64_t http2_client_next_notice(http2_client *client);

/* Sends PING. An answer counts as received bytes, like everything else. */
void http2_client_ping(http2_client *client);

/* Announces the end: no further requests. Open streams go on. */
void http2_client_leave(http2_client *client);

/* Begins a request. `rows` has `count` fields, the pseudo-fields first. `is_whole`: no body follows. The token, which
 * is not 0, is for notices. Stores the stream, which is the caller's until http2_client_release. */
int http2_client_start(http2_client *client, uint32_t token, const uint8_t *rows, uint32_t count, int is_whole,
                       http2_client_stream **stream);

/* Gives the stream back. Resets it, if it is not complete. */
void http2_client_release(http2_client_stream *stream);

/* Resets the stream with an error code of RFC 9113, section 7. */
void http2_client_reset(http2_client_stream *stream, uint32_t code);

/* Adds to the request's body. Takes all. WAIT: call http2_client_await_output before the next piece. */
int http2_client_write(http2_client_stream *stream, const uint8_t *bytes, size_t length);
int http2_client_await_output(http2_client_stream *stream);

/* Ends the request, with trailers if there are any. */
int http2_client_finish(http2_client_stream *stream, const uint8_t *rows, uint32_t count);

/* The length of the next head, in rows; WAIT or GONE. */
int64_t http2_client_await_head(http2_client_stream *stream);

/* Takes that head. Returns its status. Stores the number of its fields, and whether it ends the response. */
int http2_client_take_head(http2_client_stream *stream, uint8_t *destination, uint32_t *count, uint32_t *ends);

/* How many bytes of the body have arrived; 0 at the end; WAIT or GONE. */
int64_t http2_client_await_body(http2_client_stream *stream);

/* Takes bytes that have arrived. */
size_t http2_client_read(http2_client_stream *stream, uint8_t *destination, size_t room);

/* The length of the trailers in rows, and the trailers. 0: there are none. */
size_t http2_client_trailers_length(http2_client_stream *stream);
uint32_t http2_client_copy_trailers(http2_client_stream *stream, uint8_t *destination);

/* Why the stream is closed; *code is the server's error code, of RFC 9113, section 7. */
http2_client_cause http2_client_failure(http2_client_stream *stream, uint32_t *code);

#endif
