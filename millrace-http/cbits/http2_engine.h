/*
 * http2_engine.h - one HTTP/2 connection of a server, on libnghttp2, purely in memory: received bytes go in, requests and
 * bytes to send come out. No callback leaves this file's implementation. Must not know: GHC, sockets, the clock.
 *
 * Any thread may call any function: each takes the connection's lock, which is held for at most the time that 16 KiB of
 * input or output take.
 *
 * A stream that http2_next_request has returned belongs to its caller until http2_release. It stays readable when the client
 * has reset it, and when the connection is over.
 */
#ifndef HTTP2_ENGINE_H
#define HTTP2_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "http_parser.h"

typedef struct http2_connection http2_connection;

#define HTTP2_SERVER_NAME_MAX 255u

/* What all connections of a server have in common. It must outlive them. */
typedef struct http2_settings {
    uint32_t streams_max; /* open at a time; also handlers at a time, of streams that were reset too */
    uint32_t fields_max;  /* of a request head, each part of a cookie counted */
    uint32_t head_max;    /* bytes of a request head: names and values */
    uint32_t target_max;  /* bytes of :path */
    uint32_t
        stream_window; /* bytes that a client may send on a stream before the application has read them, at first */
    uint32_t connection_window; /* the same on a connection */
    uint32_t window_max;        /* how far both may grow while the application reads all that comes */
    uint32_t deflate_table_max; /* bytes of memory for compressing response heads */
    uint32_t skipped_max;       /* bytes of a request body that are skipped when the request is answered */
    uint32_t resets_max;        /* resets in a burst, of either side */
    uint32_t resets_per_second; /* resets for which the burst is refilled */
    uint32_t frames_max;        /* frames without use in a burst */
    uint32_t frames_per_second;
    uint32_t allowed;            /* HTTP_ALLOW_* of http_parser.h */
    uint32_t server_name_length; /* 0: no server field */
    uint8_t server_name[HTTP2_SERVER_NAME_MAX];
} http2_settings;

/* Bytes of a stream's body that may wait for the client before its writer has to wait, and from where on it goes on. */
#define HTTP2_OUTPUT_HIGH 65536u
#define HTTP2_OUTPUT_LOW  32768u

/* The least room that http2_collect may be given. */
#define HTTP2_COLLECT_MIN 16384u

/* A request, and what became of its stream. Haskell reads it; all but the head may change at any time. */
typedef struct http2_stream {
    /* The head: complete before anybody sees the stream, and constant until http2_copy_head. */
    uint32_t field_count, text_length;
    uint32_t method_offset, method_length, path_offset, path_length, query_offset, query_length;
    uint32_t protocol_offset, protocol_length; /* of an extended CONNECT (RFC 8441) */
    uint16_t host, range, referer, user_agent; /* index + 1 of the field; 0: absent */
    uint32_t flags;                            /* HTTP_REQUEST_* */
    int32_t error;                             /* http_error: why the request is refused; 0: it is not */
    int64_t content_length;                    /* -1: none given */
    int32_t id;
    uint8_t method;    /* http_method */
    uint8_t has_ended; /* the client sends nothing more */
    uint8_t is_closed; /* both sides have ended, or one has reset the stream, or the connection is over */
    uint8_t was_reset; /* the stream was closed before its end */
    uint64_t unread;   /* bytes of the body that have arrived and were not read */
    uint64_t received; /* ... that have arrived */
    uint64_t sent;     /* bytes of the response's body that were handed to the transport */
} http2_stream;

/* A connection whose first bytes are the client's preface; whether https is served on it. NULL without memory, or on systems
 * without HTTP/2. */
http2_connection *http2_open(const http2_settings *settings, int is_secure);

/* Whether this system has HTTP/2. */
int http2_is_supported(void);

/* The connection is over. All streams that are still there are closed, and threads that wait get notices. */
void http2_close(http2_connection *connection);

/* Frees a closed connection, which nobody may use any more. All streams must have been released. */
void http2_free(http2_connection *connection);

/* Flags of a result. */
#define HTTP2_HAS_REQUESTS (UINT64_C(1) << 32) /* http2_next_request has something to return */
#define HTTP2_HAS_NOTICES  (UINT64_C(1) << 33) /* http2_next_notice has */
#define HTTP2_IS_OVER      (UINT64_C(1) << 34) /* nothing more is to be sent or received */
#define HTTP2_HAS_FAILED   (UINT64_C(1) << 35) /* the client has broken the protocol; what is to be sent says so */
#define HTTP2_IS_BUSY      (UINT64_C(1) << 36) /* another thread sends */
#define HTTP2_HAS_ENDED    (UINT64_C(1) << 37) /* the caller no longer has the right to send */
#define HTTP2_IN_HEAD      (UINT64_C(1) << 38) /* a request head, or the preface, is incomplete */

/* Takes received bytes at a time in nanoseconds. From now on the caller owes a http2_collect. Returns flags. */
uint64_t http2_feed(http2_connection *connection, const uint8_t *bytes, size_t length, uint64_t now);

/* How the caller of http2_collect stands. */
typedef enum http2_sender {
    HTTP2_SENDER_NEW = 0,   /* wants the right to send */
    HTTP2_SENDER_AGAIN = 1, /* has it: it was returned bytes, and has sent them */
    HTTP2_SENDER_DRIVER =
        2, /* wants it, and is the thread that receives: if no other thread can have anything to send, it
                                loses the right with the bytes it gets */
} http2_sender;

/*
 * Takes bytes to send. Returns flags and, in the lower half, the number of bytes. One thread at a time has the right to send:
 * a caller that gets bytes has it until a call returns none (or HTTP2_HAS_ENDED), and must send them and call again.
 */
uint64_t http2_collect(http2_connection *connection, uint8_t *out, size_t room, http2_sender sender);

/* Gives the right to send back without sending: sending has failed. */
void http2_stop_sending(http2_connection *connection);

/* Takes the right to send after HTTP2_HAS_ENDED with bytes that could not be sent. Nobody else can have it. */
void http2_resume_sending(http2_connection *connection);

/* HTTP2_WAIT while another thread sends and more than `most` frames wait, as far as the client's windows do not hold them back. There
 * will be a notice of HTTP2_WRITABLE for HTTP2_NO_STREAM. */
#define HTTP2_NO_STREAM 0
int http2_await_backlog(http2_connection *connection, uint32_t most);

/* The next request, for the caller to serve; NULL: none, or as many are served as may be. */
http2_stream *http2_next_request(http2_connection *connection);

/* Open streams. */
uint32_t http2_stream_count(http2_connection *connection);

/* Copies the head: field_count http_field, then the text. Frees it. */
void http2_copy_head(http2_stream *stream, uint8_t *destination);

/* What a waiting thread waits for: to read, to write, or for the client to reset the stream. */
typedef enum http2_event { HTTP2_READABLE = 0, HTTP2_WRITABLE = 1, HTTP2_CLOSED = 2 } http2_event;

/* A stream and an event for which its thread has waited, as 4 * id + event; -1: none. */
int64_t http2_next_notice(http2_connection *connection);

/* Results of the functions on a stream. Those of http_head.h are for fields. */
#define HTTP2_OK   0
#define HTTP2_WAIT 16 /* the caller has to wait for the event: there will be a notice */
#define HTTP2_GONE 17 /* the stream is closed */

/* At most `room` bytes of the request's body. Returns the number: 0 at its end; or minus HTTP2_WAIT or HTTP2_GONE. */
int64_t http2_read(http2_stream *stream, uint8_t *destination, size_t room, int waits);

/* From now on reading fails, also for a thread that waits. */
void http2_end_reading(http2_stream *stream);

/* Waits for HTTP2_CLOSED: HTTP2_WAIT, or HTTP2_GONE if it is closed. */
int http2_await_close(http2_stream *stream);

/*
 * Fields are given as rows: the lengths of name and value, 32 bits each, and their bytes. Names must be tokens; they are
 * sent in lower case. What HTTP/2 must not send is left out.
 */
typedef struct http2_rows {
    const uint8_t *bytes;
    size_t length;
    uint32_t count;
} http2_rows;

#define HTTP2_LENGTH_NONE    (-1) /* no content-length, unless the fields give one */
#define HTTP2_LENGTH_UNKNOWN (-2) /* no content-length, whatever the fields give */

/*
 * Answers: the head, and the first bytes of a body. `is_whole`: these are all. Nothing is sent before the next http2_collect.
 * `length` is the content-length, or one of the constants. *given is the fields' own, -1 if there is none.
 */
int http2_answer(http2_stream *stream, int status, const http2_rows *fields, int64_t length, const uint8_t *body,
                 size_t body_length, int is_whole, int64_t *given);

/* Takes an answer back, unless it was collected. HTTP2_OK or HTTP2_GONE. */
int http2_take_back(http2_stream *stream);

/* Adds to the body. HTTP2_WAIT: all was taken, and the caller must wait before it writes more. */
int http2_write(http2_stream *stream, const uint8_t *bytes, size_t length);

/* HTTP2_WAIT while more than `most` bytes of the body wait to be sent. There will be a notice. */
int http2_await_output(http2_stream *stream, uint32_t most);

/* Ends the body, with trailers if there are any. */
int http2_finish(http2_stream *stream, const http2_rows *trailers);

/* An interim response (1xx). */
int http2_inform(http2_stream *stream, int status, const http2_rows *fields);

/* Resets the stream with an error code of RFC 9113, section 7. */
void http2_reset(http2_stream *stream, uint32_t code);

/* The fields of the trailer section: bytes of them as rows; 0 if there are none (yet). */
size_t http2_trailers(http2_stream *stream, uint8_t *destination, size_t room);

/* Whether output waits for somebody to send it. */
int http2_needs_sender(http2_connection *connection);

/* The handler is done with the stream. Returns flags. */
uint64_t http2_release(http2_stream *stream);

/* Resets streams of whose output nothing was sent for so many nanoseconds. Returns how many. */
uint32_t http2_reset_stalled(http2_connection *connection, uint64_t now, uint64_t limit);

/* Announces the end: HTTP2_END_NOTICE first, then HTTP2_END_LAST when the client has had time to stop. */
typedef enum http2_end { HTTP2_END_NOTICE = 0, HTTP2_END_LAST = 1, HTTP2_END_CALM = 2 } http2_end;
void http2_announce_end(http2_connection *connection, http2_end end);

#endif
