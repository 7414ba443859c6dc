/*
 * http_stream.h - a request of HTTP/2 or HTTP/3 and its response: what a handler may do with them, whatever the
 * protocol. Must not know: GHC, sockets, the clock, libnghttp2, libnghttp3.
 *
 * The text is about servers. A client (millrace-http-client) has the same streams, mirrored: its request is what is
 * called an answer or a response here, and a server's response is what is called a request. It does not use the head,
 * http_stream_answer and what holds an answer back.
 *
 * Any thread may call any function. Each takes the lock of the stream's engine for a short time, and none waits for
 * the network. A stream that a protocol has given out belongs to its caller until that protocol's release. Its record
 * stays valid after the client has reset the stream, and after the connection has ended.
 */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "http_body.h"
#include "http_limit.h"
#include "http_list.h"
#include "http_request_head.h"
#include "http_response_fields.h"

/* Flags that both protocols return. Each has others from bit 38 on. The lower half is a number. */
#define HTTP_HAS_REQUESTS (UINT64_C(1) << 32) /* there is a request to be served */
#define HTTP_HAS_NOTICES  (UINT64_C(1) << 33) /* there is a notice */
#define HTTP_IS_OVER      (UINT64_C(1) << 34) /* nothing more will be sent or received */
#define HTTP_IS_BUSY      (UINT64_C(1) << 36) /* another thread sends */
#define HTTP_HAS_ENDED    (UINT64_C(1) << 37) /* the caller no longer has the right to send */

/* The part in sending of a thread that collects output. */
typedef enum http_sender {
    HTTP_SENDER_NEW = 0,   /* it wants the right to send */
    HTTP_SENDER_AGAIN = 1, /* it has the right, and has sent the output of the previous call */
    HTTP_SENDER_DRIVER = 2 /* it is the thread that receives, and wants the right */
} http_sender;

/* How the end of a connection is announced: first a notice, and the last GOAWAY when clients have had time to stop. */
typedef enum http_end { HTTP_END_NOTICE = 0, HTTP_END_LAST = 1 } http_end;

/* The events that a thread may wait for: input, space for output, or the end of the stream. A notice says that a
 * thread that waits for an event of a stream must be woken: 4 * key + event. */
typedef enum http_event { HTTP_READABLE = 0, HTTP_WRITABLE = 1, HTTP_CLOSED = 2 } http_event;

/* The key of notices that are about no stream. */
#define HTTP_NO_STREAM 0

/* Results. For invalid fields the functions return an http_head_result. */
#define HTTP_OK   0
#define HTTP_WAIT 16 /* the caller must wait: there will be a notice */
#define HTTP_GONE 17 /* the stream is closed, or was reset */

/* A writer waits when this many bytes of its stream's body are unsent (high), and continues when so few are (low). */
#define HTTP_OUTPUT_HIGH 65536u
#define HTTP_OUTPUT_LOW  32768u

/* Whether an answer is with the protocol's library. */
typedef enum http_answer_state {
    HTTP_UNANSWERED,
    HTTP_ANSWER_HELD, /* can be taken back */
    HTTP_ANSWER_SUBMITTED
} http_answer_state;

typedef struct http_stream {
    /* Haskell reads these. All but the head may change at any time. */
    http_request_head head;         /* complete when a protocol gives the stream out, and constant */
    uint64_t key;                   /* its number in its engine, for notices */
    uint8_t has_ended;              /* the client sends nothing more */
    uint8_t is_closed;              /* both sides have ended, or one has reset the stream, or the connection is over */
    uint8_t was_reset;              /* the stream was closed before both sides had ended */
    uint8_t has_left;               /* the client has ended its side of the connection */
    uint32_t head_size;             /* bytes of its fields that count in heads_size */
    uint64_t unread;                /* bytes of the request's body that have arrived and were not read */
    uint64_t received;              /* bytes of the request's body that have arrived */
    http_cancellation cancellation; /* by the client, while its handler ran */

    struct http_engine *engine;
    struct http_streams *streams;        /* of its connection; NULL: that has ended */
    struct http_stream *next, *previous; /* in these */
    http_list *list;                     /* where the stream waits for something; NULL: nowhere */
    struct http_stream *next_listed;     /* in that list */
    struct http_stream *next_noticed;    /* in the list of those with notices */
    http_request_fields fields;
    http_body input, output;
    http_block *answer, *trailers;
    uint64_t flushed;          /* bytes of the response's body until the latest flush */
    uint64_t given;            /* bytes of the response's body that the library has got */
    uint64_t accepted;         /* bytes of the stream that have left the library */
    uint64_t progress;         /* http_stream_progress, until the others were looked at */
    uint64_t others_accepted;  /* bytes of all other streams that had left then */
    uint64_t skipped;          /* bytes of the request that arrived and were dropped after the answer was sent */
    uint64_t moved_at;         /* when bytes of the stream moved last */
    uint64_t stalled_since;    /* when output was first found waiting; 0: none is known to wait */
    uint64_t stalled_progress; /* the progress at that time */
    uint32_t writer_mark;      /* a waiting writer continues when at most this many bytes are unsent */
    uint32_t held;             /* bytes at the front of the output for which the library has made a frame already */
    uint8_t answer_state;      /* an http_answer_state */
    uint8_t is_taken, is_released;
    uint8_t is_finished; /* the application has given the whole response */
    uint8_t has_body;    /* the response has a body, or is not finished */
    uint8_t is_deferred; /* the library asks for more output only after the operation resume */
    uint8_t has_failed;  /* reset by one side, or about to be */
    uint8_t is_flushed;  /* flushed after the answer */
    uint8_t is_aborted;  /* to be reset when everything flushed is through */
    /* The head of the answer, and what followed it to the library, is where a reset does not take it back. */
    uint8_t is_through;
    uint8_t is_read;      /* reading fails */
    uint8_t drops_input;  /* bytes that still arrive are dropped */
    uint8_t has_stopped;  /* the client was asked to send no more of the request, or has itself reset its side */
    uint8_t end_is_given; /* the library has the end of the response */
    uint8_t notices;      /* that are not fetched yet: a bit 1 << http_event for each */
    uint8_t reader_waits, writer_waits, close_waits;
    uint8_t waits_for_window; /* a writer waits until it may send */
} http_stream;

/* Copies the head, field_count records of http_field and then text_length bytes, and frees it. Call it once. */
void http_stream_copy_head(http_stream *stream, uint8_t *destination);

/* Reads at most `capacity` bytes of the request's body. Returns the number, 0 at the end, -HTTP_GONE, or -HTTP_WAIT
 * if none have arrived: then there will be a notice of HTTP_READABLE if `waits` is set. What is read opens the
 * client's window, of which the protocol may have to tell it. */
int64_t http_stream_read(http_stream *stream, uint8_t *destination, size_t capacity, int waits);

/* Makes reading fail from now on. A thread that waits to read gets a notice. */
void http_stream_end_reading(http_stream *stream);

/* Copies the request's trailers, as rows, if they fit into `capacity` bytes. Returns their length; 0 if there are none
   (yet). */
size_t http_stream_trailers(http_stream *stream, uint8_t *destination, size_t capacity);

/* Asks for a notice of HTTP_CLOSED. Returns HTTP_WAIT, or HTTP_GONE if the stream is closed or reset, or the client has
   left, already. */
int http_stream_await_close(http_stream *stream);

/*
 * Answers with a head and the first bytes of a body, or all of them (`is_whole`). Nothing is sent before the protocol
 * collects, and nothing of a body before it is whole or flushed, or has a certain size. `length` is the
 * content-length, or one of HTTP_LENGTH_*. Stores in *given the content-length in the fields, -1 if there is none. If
 * that differs from `length` in a whole answer, nothing is answered. Returns HTTP_OK, HTTP_GONE or an
 * http_head_result.
 */
int http_stream_answer(http_stream *stream, int status, const http_rows *fields, int64_t length, const uint8_t *body,
                       size_t body_length, int is_whole, int64_t *given);

/* Takes an answer back, so that another one can be given. Returns HTTP_GONE if it was collected or flushed already,
   otherwise HTTP_OK. */
int http_stream_take_back(http_stream *stream);

/* Adds to the body. Takes all bytes. Returns HTTP_OK; HTTP_GONE; or HTTP_WAIT if the caller must call
 * http_stream_await_output before it writes more. */
int http_stream_write(http_stream *stream, const uint8_t *bytes, size_t length);

/* Adds the first `length` bytes of a piece to the body, without copying them. The piece is freed even if that fails.
 * Otherwise as http_stream_write. */
int http_stream_write_piece(http_stream *stream, http_piece *piece, size_t length);

/* Returns HTTP_WAIT if more than `most` bytes of the body are unsent; then there will be a notice of HTTP_WRITABLE.
 * Otherwise HTTP_OK or HTTP_GONE. */
int http_stream_await_output(http_stream *stream, uint32_t most);

/* The number of bytes of the body that the client's windows take now, at least 1. -HTTP_WAIT if they take none: a
 * writer should leave the bytes where they are, and there will be a notice of HTTP_WRITABLE. Or -HTTP_GONE. */
int64_t http_stream_await_window(http_stream *stream);

/* Ends the body, with trailers if there are any. Returns HTTP_OK, HTTP_GONE or an http_head_result. */
int http_stream_finish(http_stream *stream, const http_rows *trailers);

/* Sends an interim response (1xx), unless the stream is answered or closed. Returns HTTP_OK or an http_head_result. */
int http_stream_inform(http_stream *stream, int status, const http_rows *fields);

/* Keeps the answer up to here: it can no longer be taken back, and is sent even if the handler fails. */
void http_stream_flush(http_stream *stream);

/* Resets the stream at once, with an error code of its protocol. What is unsent is dropped. */
void http_stream_reset(http_stream *stream, uint64_t code);

/* Resets the stream because its handler has failed, with the protocol's code for an internal error. What the handler
   had flushed is sent first. */
void http_stream_abort(http_stream *stream);

/* The bytes of the response's body that have left the library at least once. */
uint64_t http_stream_sent(http_stream *stream);

/* A number that grows while the client takes what it can of the response: its bytes, and those of other streams behind
 * which it had to wait although the client's window of this stream was open. */
uint64_t http_stream_progress(http_stream *stream);

#endif
