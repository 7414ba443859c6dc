/*
 * http2_engine.c for Windows, where libnghttp2 is not packaged: there is no HTTP/2, so nobody has a connection or a
 * stream to call the other functions with. Must not know: GHC, sockets, the clock.
 */
#include "http2_engine.h"

#include <stdlib.h>

/* NOLINTBEGIN(readability-non-const-parameter): the types are those of the header */

int http2_is_supported(void)
{
    return 0;
}

http2_connection *http2_open(const http_settings *settings, int is_secure)
{
    (void)settings, (void)is_secure;
    return NULL;
}

_Noreturn void http2_close(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn void http2_free(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn uint64_t http2_feed(http2_connection *connection, const uint8_t *bytes, size_t length, uint64_t now)
{
    (void)connection, (void)bytes, (void)length, (void)now;
    abort();
}

_Noreturn uint64_t http2_collect(http2_connection *connection, uint8_t *out, size_t capacity, http_sender sender)
{
    (void)connection, (void)out, (void)capacity, (void)sender;
    abort();
}

_Noreturn int http2_has_much(const http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn uint8_t *http2_alloc_output(void)
{
    abort();
}

_Noreturn void http2_free_output(uint8_t *memory)
{
    (void)memory;
    abort();
}

_Noreturn void http2_stop_sending(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn void http2_resume_sending(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn int http2_await_backlog(http2_connection *connection, uint32_t most)
{
    (void)connection, (void)most;
    abort();
}

_Noreturn http_stream *http2_next_request(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn uint32_t http2_stream_count(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn void http_stream_copy_head(http_stream *stream, uint8_t *destination)
{
    (void)stream, (void)destination;
    abort();
}

_Noreturn int64_t http2_next_notice(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn int64_t http_stream_read(http_stream *stream, uint8_t *destination, size_t capacity, int waits)
{
    (void)stream, (void)destination, (void)capacity, (void)waits;
    abort();
}

_Noreturn void http_stream_end_reading(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn int http_stream_await_close(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn int http_stream_answer(http_stream *stream, int status, const http_rows *fields, int64_t length,
                                 const uint8_t *body, size_t body_length, int is_whole, int64_t *given)
{
    (void)stream, (void)status, (void)fields, (void)length, (void)body, (void)body_length, (void)is_whole, (void)given;
    abort();
}

_Noreturn int http_stream_take_back(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn int http_stream_write(http_stream *stream, const uint8_t *bytes, size_t length)
{
    (void)stream, (void)bytes, (void)length;
    abort();
}

_Noreturn int http_stream_write_piece(http_stream *stream, http_piece *piece, size_t length)
{
    (void)stream, (void)piece, (void)length;
    abort();
}

_Noreturn int http_stream_await_output(http_stream *stream, uint32_t most)
{
    (void)stream, (void)most;
    abort();
}

_Noreturn int64_t http_stream_await_window(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn int http_stream_finish(http_stream *stream, const http_rows *trailers)
{
    (void)stream, (void)trailers;
    abort();
}

_Noreturn int http_stream_inform(http_stream *stream, int status, const http_rows *fields)
{
    (void)stream, (void)status, (void)fields;
    abort();
}

_Noreturn void http_stream_reset(http_stream *stream, uint64_t code)
{
    (void)stream, (void)code;
    abort();
}

_Noreturn void http_stream_flush(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn void http_stream_abort(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn size_t http_stream_trailers(http_stream *stream, uint8_t *destination, size_t capacity)
{
    (void)stream, (void)destination, (void)capacity;
    abort();
}

_Noreturn int http2_needs_sender(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn uint64_t http2_release(http_stream *stream, uint64_t now)
{
    (void)stream, (void)now;
    abort();
}

_Noreturn http_limit http2_take_limit(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn uint64_t http2_stop_due(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn uint32_t http2_stop_clients(http2_connection *connection, uint64_t now)
{
    (void)connection, (void)now;
    abort();
}

_Noreturn uint64_t http_stream_sent(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn uint64_t http_stream_progress(http_stream *stream)
{
    (void)stream;
    abort();
}

_Noreturn uint32_t http2_reset_stalled(http2_connection *connection, uint64_t now, uint64_t limit)
{
    (void)connection, (void)now, (void)limit;
    abort();
}

_Noreturn void http2_announce_end(http2_connection *connection, http_end end)
{
    (void)connection, (void)end;
    abort();
}

_Noreturn void http2_end_calm(http2_connection *connection)
{
    (void)connection;
    abort();
}

/* NOLINTEND(readability-non-const-parameter) */

_Noreturn void http2_end_input(http2_connection *connection)
{
    (void)connection;
    abort();
}

_Noreturn int http2_await_rest(http2_connection *connection)
{
    (void)connection;
    abort();
}
