/*
 * http2_engine.h - one HTTP/2 connection of a server, on libnghttp2, purely in memory: received bytes go in, requests
 * and bytes to send come out. No callback leaves this file's implementation. Must not know: GHC, sockets, the clock.
 *
 * Any thread may call any function. Each takes the connection's lock for at most the time that processing 16 KiB of
 * input or 80 KiB of output takes. No function waits for the network.
 *
 * A stream that http2_next_request has returned belongs to its caller until http2_release. Its record stays valid
 * after the client has reset the stream, and after the connection has ended.
 */
#ifndef HTTP2_ENGINE_H
#define HTTP2_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "http_limit.h"
#include "http_memory.h"
#include "http_settings.h"
#include "http_stream.h"

typedef struct http2_connection http2_connection;

/* The least `capacity` for http2_collect, in bytes. */
#define HTTP2_COLLECT_MIN 16384u

/* The `capacity` for http2_collect if much is to be sent (http2_has_much). */
#define HTTP2_COLLECT_MUCH HTTP_OUTPUT_SIZE

/* Makes a connection. It expects the client's preface first. The settings must outlive it. `is_secure`: it is served
 * over TLS. Returns NULL without memory, or on a system without HTTP/2. */
http2_connection *http2_open(const http_settings *settings, int is_secure);

/* Whether this system has HTTP/2. */
int http2_is_supported(void);

/* Ends the connection: closes all its streams. Threads that wait get notices. */
void http2_close(http2_connection *connection);

/* Frees a closed connection. All streams must have been released. No thread may use the connection afterwards. */
void http2_free(http2_connection *connection);

/* Flags of a result, besides those of http_stream.h. */
#define HTTP2_HAS_FAILED (UINT64_C(1) << 40) /* the client has violated the protocol; the output has a GOAWAY for it */
#define HTTP2_HAS_LIMIT  (UINT64_C(1) << 39) /* http2_take_limit has something to return */
#define HTTP2_IN_HEAD    (UINT64_C(1) << 38) /* a request head, or the preface, is incomplete */

/* Processes received bytes. `now`: the current time in nanoseconds. The caller must call http2_collect afterwards.
 * Returns flags. */
uint64_t http2_feed(http2_connection *connection, const uint8_t *bytes, size_t length, uint64_t now);

/* The limit for which the connection ends, the first time. */
http_limit http2_take_limit(http2_connection *connection);

/*
 * Writes bytes to send to `out`. Returns flags and, in the lower half, the number of bytes. One thread at a time has
 * the right to send. A caller that gets bytes must send them and call again, until a call returns HTTP_HAS_ENDED:
 * that ends its right. If no request is being served, no thread beside the driver can have output. Then the call that
 * returns the last bytes to HTTP_SENDER_DRIVER also ends its right.
 */
uint64_t http2_collect(http2_connection *connection, uint8_t *out, size_t capacity, http_sender sender);

/* Whether more than HTTP2_COLLECT_MIN bytes of bodies are unsent. The client's windows may hold them back. Takes no
 * lock: the answer may be old. */
int http2_has_much(const http2_connection *connection);

/* Memory of HTTP2_COLLECT_MUCH bytes for http2_collect; NULL without memory. Any thread may give it back. */
uint8_t *http2_alloc_output(void);
void http2_free_output(uint8_t *memory);

/* Gives the right to send back after sending has failed. */
void http2_stop_sending(http2_connection *connection);

/* Takes the right to send again, if the bytes that came with HTTP_HAS_ENDED could not be sent at once. No other thread
 * may have it: aborts otherwise. */
void http2_resume_sending(http2_connection *connection);

/* Returns HTTP_WAIT if another thread sends and more than `most` frames are queued, not counting frames that the
 * client's windows hold back; otherwise HTTP_OK. After HTTP_WAIT there will be a notice: HTTP_WRITABLE for
 * HTTP_NO_STREAM. */
int http2_await_backlog(http2_connection *connection, uint32_t most);

/* The next request, which the caller must serve. NULL if there is none, or if streams_max requests are being served. */
http_stream *http2_next_request(http2_connection *connection);

/* The number of open streams or of unreleased ones, whichever is larger. */
uint32_t http2_stream_count(http2_connection *connection);

/* The next notice: a thread that waits for this event of this stream must be woken. As 4 * id + event; -1: none. */
int64_t http2_next_notice(http2_connection *connection);

/* True unless the connection is closed, a thread sends, or a thread is about to call http2_collect anyway. After giving
 * output to the engine, a thread must send it if this is true. */
int http2_needs_sender(http2_connection *connection);

/* Gives the stream back after its handler has ended. Aborts it if the response is incomplete. Returns flags. `now`: as
 * for http2_feed, if the stream was reset: a handler that runs on after its client has cancelled the request wastes
 * work, which resets_max limits. */
uint64_t http2_release(http_stream *stream, uint64_t now);

/* Resets streams that have waited for the client for `limit` nanoseconds: they have output and made no progress
 * (http_stream_progress), or, after the answer, the client has not ended its request. `now`: as for http2_feed. Returns
 * how many. */
uint32_t http2_reset_stalled(http2_connection *connection, uint64_t now, uint64_t limit);

/* When http2_stop_clients is to be called, in nanoseconds; 0: there is no need to. It resets streams whose clients
 * still send much of a body although they have had half a second for reading their answer. Returns how many. `now`: as
 * for http2_feed. */
uint64_t http2_stop_due(http2_connection *connection);
uint32_t http2_stop_clients(http2_connection *connection, uint64_t now);

/* The client has ended its side of the connection: nothing more will be fed. It may still receive. Threads that wait
 * for input or for the end of a stream get notices. What its windows hold back is reset when all else is sent. */
void http2_end_input(http2_connection *connection);

/* Whether there is nothing left to be done after http2_end_input: every request that has arrived is answered, and the
 * answers are sent; or sending has failed. HTTP_OK, or HTTP_WAIT: then there will be a notice, HTTP_CLOSED for
 * HTTP_NO_STREAM. */
int http2_await_rest(http2_connection *connection);

/* Announces the end of the connection by GOAWAY. */
void http2_announce_end(http2_connection *connection, http_end end);

/* Ends the connection at once, with ENHANCE_YOUR_CALM. */
void http2_end_calm(http2_connection *connection);

#endif
