/*
 * http2_engine.h - one HTTP/2 connection of a server, on libnghttp2, purely in memory: received bytes go in, requests and
 * bytes to send come out. No callback leaves this file's implementation. Must not know: GHC, sockets, the clock.
 *
 * Any thread may call any function. Each takes the connection's lock for at most the time that processing 16 KiB of input or
 * 80 KiB of output takes. No function waits for the network.
 *
 * A stream that http2_next_request has returned belongs to its caller until http2_release. Its record stays valid after the
 * client has reset the stream, and after the connection has ended.
 */
#ifndef HTTP2_ENGINE_H
#define HTTP2_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "http_body.h"
#include "http_memory.h"
#include "http_limit.h"
#include "http_request_head.h"
#include "http_response_fields.h"

typedef struct http2_connection http2_connection;

#define HTTP2_SERVER_NAME_MAX 255u

/* The settings of all connections of a server. They must outlive the connections. */
typedef struct http2_settings {
    uint32_t streams_max; /* open streams; also the limit of running handlers, including those of reset streams */
    uint32_t fields_max;  /* fields of a request head; the parts of a cookie are one */
    uint32_t head_max;    /* bytes of a request head: names and values */
    uint32_t target_max;  /* bytes of :path */
    uint32_t
        stream_window; /* the first window of a stream, in bytes: sent by the client and not read by the application yet */
    uint32_t connection_window; /* the first window of a connection */
    uint32_t window_max;        /* the limit of a connection's window; a stream's grows to half of it */
    uint32_t deflate_table_max; /* bytes of memory for compressing response heads */
    uint32_t skipped_max;       /* bytes of a request body that are read and dropped after the answer */
    http_allowances allowances;
    uint32_t allowed;            /* HTTP_ALLOW_* of http_parser.h */
    uint32_t server_name_length; /* 0: no server field */
    uint8_t server_name[HTTP2_SERVER_NAME_MAX];
} http2_settings;

/* A writer waits when this many bytes of its stream's body are unsent (high), and continues when so few are (low). */
#define HTTP2_OUTPUT_HIGH 65536u
#define HTTP2_OUTPUT_LOW  32768u

/* The least `room` for http2_collect, in bytes. */
#define HTTP2_COLLECT_MIN 16384u

/* The `room` for http2_collect if much is to be sent (http2_has_much). */
#define HTTP2_COLLECT_MUCH HTTP_OUTPUT_SIZE

/* A request and the state of its stream. Haskell reads it. All fields but the head may change at any time. */
typedef struct http2_stream {
    http_request_head head; /* complete when http2_next_request returns the stream, and constant */
    int32_t id;
    uint8_t has_ended; /* the client sends nothing more */
    uint8_t is_closed; /* both sides have ended, or one has reset the stream, or the connection is over */
    uint8_t was_reset; /* the stream was closed before both sides had ended */
    uint8_t has_left;  /* the client has ended its side of the connection: http2_end_input */
    uint64_t unread;   /* bytes of the request's body that have arrived and were not read */
    uint64_t received; /* bytes of the request's body that have arrived */
    uint64_t sent;     /* bytes of the response's body that were handed to the transport */
} http2_stream;

/* Makes a connection. It expects the client's preface first. `is_secure`: it is served over TLS. Returns NULL without memory, or on
 * a system without HTTP/2. */
http2_connection *http2_open(const http2_settings *settings, int is_secure);

/* Whether this system has HTTP/2. */
int http2_is_supported(void);

/* Ends the connection: closes all its streams. Threads that wait get notices. */
void http2_close(http2_connection *connection);

/* Frees a closed connection. All streams must have been released. No thread may use the connection afterwards. */
void http2_free(http2_connection *connection);

/* Flags of a result. */
#define HTTP2_HAS_REQUESTS (UINT64_C(1) << 32) /* http2_next_request has something to return */
#define HTTP2_HAS_NOTICES  (UINT64_C(1) << 33) /* http2_next_notice has something to return */
#define HTTP2_IS_OVER      (UINT64_C(1) << 34) /* nothing more will be sent or received */
#define HTTP2_HAS_FAILED   (UINT64_C(1) << 35) /* the client has violated the protocol; the output has a GOAWAY for it */
#define HTTP2_IS_BUSY      (UINT64_C(1) << 36) /* another thread sends */
#define HTTP2_HAS_ENDED    (UINT64_C(1) << 37) /* the caller no longer has the right to send */
#define HTTP2_HAS_LIMIT    (UINT64_C(1) << 39) /* http2_take_limit has something to return */
#define HTTP2_IN_HEAD      (UINT64_C(1) << 38) /* a request head, or the preface, is incomplete */

/* Processes received bytes. `now`: the current time in nanoseconds. The caller must call http2_collect afterwards. Returns
 * flags. */
uint64_t http2_feed(http2_connection *connection, const uint8_t *bytes, size_t length, uint64_t now);

/* The limit for which the connection ends, the first time. */
http_limit http2_take_limit(http2_connection *connection);

/* Who calls http2_collect. */
typedef enum http2_sender {
    HTTP2_SENDER_NEW = 0,   /* a thread that wants the right to send */
    HTTP2_SENDER_AGAIN = 1, /* the thread that has it, and has sent the bytes of the previous call */
    HTTP2_SENDER_DRIVER =
        2, /* the thread that receives, when it wants the right: if no request is being served, no other thread can
                                have output, and the call that returns the last bytes also ends the right */
} http2_sender;

/*
 * Writes bytes to send to `out`. Returns flags and, in the lower half, the number of bytes. One thread at a time has the right to
 * send. A caller that gets bytes must send them and call again, until a call returns HTTP2_HAS_ENDED: that ends its right.
 */
uint64_t http2_collect(http2_connection *connection, uint8_t *out, size_t room, http2_sender sender);

/* Whether more than HTTP2_COLLECT_MIN bytes of bodies are unsent. The client's windows may hold them back. Takes no lock: the answer
 * may be old. */
int http2_has_much(const http2_connection *connection);

/* Memory of HTTP2_COLLECT_MUCH bytes for http2_collect; NULL without memory. Any thread may give it back. */
uint8_t *http2_take_output(void);
void http2_give_output(uint8_t *memory);

/* Gives the right to send back after sending has failed. */
void http2_stop_sending(http2_connection *connection);

/* Takes the right to send again, if the bytes that came with HTTP2_HAS_ENDED could not be sent at once. No other thread may have
 * it: aborts otherwise. */
void http2_resume_sending(http2_connection *connection);

/* Returns HTTP2_WAIT if another thread sends and more than `most` frames are queued, not counting frames that the client's windows
 * hold back; otherwise HTTP2_OK. After HTTP2_WAIT there will be a notice: HTTP2_WRITABLE for HTTP2_NO_STREAM. */
#define HTTP2_NO_STREAM 0
int http2_await_backlog(http2_connection *connection, uint32_t most);

/* The next request, which the caller must serve. NULL if there is none, or if streams_max requests are being served. */
http2_stream *http2_next_request(http2_connection *connection);

/* The number of open streams or of unreleased ones, whichever is larger. */
uint32_t http2_stream_count(http2_connection *connection);

/* Copies the head, field_count records of http_field and then text_length bytes, and frees it. Call it once. */
void http2_copy_head(http2_stream *stream, uint8_t *destination);

/* What a thread may wait for: input, room for output, or the end of the stream. */
typedef enum http2_event { HTTP2_READABLE = 0, HTTP2_WRITABLE = 1, HTTP2_CLOSED = 2 } http2_event;

/* The next notice: a thread that waits for this event of this stream must be woken. As 4 * id + event; -1: none. */
int64_t http2_next_notice(http2_connection *connection);

/* Results of the functions on a stream. For invalid fields they return an http_head_result. */
#define HTTP2_OK   0
#define HTTP2_WAIT 16 /* the caller must wait: there will be a notice */
#define HTTP2_GONE 17 /* the stream is closed */

/* Reads at most `room` bytes of the request's body. Returns the number, 0 at the end, -HTTP2_GONE, or -HTTP2_WAIT if none have
 * arrived: then there will be a notice of HTTP2_READABLE if `waits` is set. */
int64_t http2_read(http2_stream *stream, uint8_t *destination, size_t room, int waits);

/* Makes reading fail from now on. A thread that waits to read gets a notice. */
void http2_end_reading(http2_stream *stream);

/* Asks for a notice of HTTP2_CLOSED. Returns HTTP2_WAIT, or HTTP2_GONE if the stream is closed, or the client has left, already. */
int http2_await_close(http2_stream *stream);

/* The fields of an answer. */
typedef http_rows http2_rows;

#define HTTP2_LENGTH_NONE    HTTP_LENGTH_NONE
#define HTTP2_LENGTH_UNKNOWN HTTP_LENGTH_UNKNOWN

/*
 * Answers with a head and the first bytes of a body, or all of them (`is_whole`). Nothing is sent before the next http2_collect, and
 * nothing of a body before it is whole or flushed, or has HTTP2_COLLECT_MIN bytes.
 * `length` is the content-length, or one of the constants above. Stores in *given the content-length in the fields, -1 if there is
 * none. If that differs from `length` in a whole answer, nothing is answered. Returns HTTP2_OK, HTTP2_GONE or an http_head_result.
 */
int http2_answer(http2_stream *stream, int status, const http2_rows *fields, int64_t length, const uint8_t *body,
                 size_t body_length, int is_whole, int64_t *given);

/* Takes an answer back, so that another one can be given. Returns HTTP2_GONE if it was collected or flushed already, otherwise
 * HTTP2_OK. */
int http2_take_back(http2_stream *stream);

/* Adds to the body. Takes all bytes. Returns HTTP2_OK; HTTP2_GONE; or HTTP2_WAIT if the caller must call http2_await_output before
 * it writes more. */
int http2_write(http2_stream *stream, const uint8_t *bytes, size_t length);

/* Adds the first `length` bytes of a piece to the body, without copying them. The piece is freed even if that fails. Otherwise as
 * http2_write. */
int http2_write_piece(http2_stream *stream, http_piece *piece, size_t length);

/* Returns HTTP2_WAIT if more than `most` bytes of the body are unsent; then there will be a notice of HTTP2_WRITABLE. Otherwise
 * HTTP2_OK or HTTP2_GONE. */
int http2_await_output(http2_stream *stream, uint32_t most);

/* How many more bytes of the body the client's windows take now, at least 1. -HTTP2_WAIT if they take none: a writer should leave the bytes
 * where they are, and there will be a notice of HTTP2_WRITABLE. Or -HTTP2_GONE. */
int64_t http2_await_window(http2_stream *stream);

/* Ends the body, with trailers if there are any. Returns HTTP2_OK, HTTP2_GONE or an http_head_result. */
int http2_finish(http2_stream *stream, const http2_rows *trailers);

/* Sends an interim response (1xx), unless the stream is answered or closed. Returns HTTP2_OK or an http_head_result. */
int http2_inform(http2_stream *stream, int status, const http2_rows *fields);

/* The handler flushes: the answer so far can no longer be taken back, and is sent even if the handler fails. The caller sends it. */
void http2_flush(http2_stream *stream);

/* Resets the stream at once, with an error code of RFC 9113, section 7. What is unsent is dropped. */
void http2_reset(http2_stream *stream, uint32_t code);

/* The same with INTERNAL_ERROR for a handler that has failed, but what it had flushed is sent first. */
void http2_abort(http2_stream *stream);

/* Copies the request's trailers, as rows, if they fit into `room` bytes. Returns their length; 0 if there are none (yet). */
size_t http2_trailers(http2_stream *stream, uint8_t *destination, size_t room);

/* True unless the connection is closed, a thread sends, or a thread is about to call http2_collect anyway. After giving output to
 * the engine, a thread must send it if this is true. */
int http2_needs_sender(http2_connection *connection);

/* Gives the stream back after its handler has ended. Aborts it if the response is incomplete. Returns flags. `now`: as for http2_feed, if
 * the stream was reset: a handler that runs on after its client has cancelled the request wastes work, which resets_max limits. */
uint64_t http2_release(http2_stream *stream, uint64_t now);

/* A number that grows while the client takes what it can of a response: the bytes that were sent of it, and those of other streams
 * behind which it had to wait although the client's window of this stream was open. */
uint64_t http2_progress(http2_stream *stream);

/* Resets streams that have waited for the client for `limit` nanoseconds: they have output and made no progress (http2_progress), or,
 * after the answer, the client has not ended its request. `now`: as for http2_feed. Returns how many. */
uint32_t http2_reset_stalled(http2_connection *connection, uint64_t now, uint64_t limit);

/* When http2_stop_clients is to be called, in nanoseconds; 0: there is no need to. It resets streams whose clients still send much of a body
 * although they have had half a second for reading their answer. Returns how many. `now`: as for http2_feed. */
uint64_t http2_stop_due(http2_connection *connection);
uint32_t http2_stop_clients(http2_connection *connection, uint64_t now);

/* The client has ended its side of the connection: nothing more will be fed. It may still receive. Threads that wait for input or for
 * the end of a stream get notices. What its windows hold back is reset when all else is sent. */
void http2_end_input(http2_connection *connection);

/* Whether there is nothing left to be done after http2_end_input: every request that has arrived is answered, and the answers are
 * sent; or sending has failed. HTTP2_OK, or HTTP2_WAIT: then there will be a notice, HTTP2_CLOSED for HTTP2_NO_STREAM. */
int http2_await_rest(http2_connection *connection);

/* Announces the end of the connection by GOAWAY: HTTP2_END_NOTICE first, then HTTP2_END_LAST, when the client has had time to stop.
 * HTTP2_END_CALM ends it at once, with ENHANCE_YOUR_CALM. */
typedef enum http2_end { HTTP2_END_NOTICE = 0, HTTP2_END_LAST = 1, HTTP2_END_CALM = 2 } http2_end;
void http2_announce_end(http2_connection *connection, http2_end end);

#endif
