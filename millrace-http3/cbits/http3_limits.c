/*
 * http3_limits.c - why a connection must end: errors, what its client has done (http_limit.h), how much memory the
 * libraries take for it. Must not know: GHC, sockets, the clock.
 */
#include <string.h>

#include "http3_internal.h"

/* The time that a client which has made as many requests as it may has to stop, before those that follow are
   refused. */
#define NOTICE_TIME (250 * HTTP3_MILLISECOND)

/* ------------------------------------------------------------------------------------------------------------------
 * The reasons for an end */

void http3_fail(http3_connection *connection, uint64_t code)
{
    if (connection->has_error)
        return;
    connection->has_error = 1;
    ngtcp2_ccerr_set_application_error(&connection->error, code, NULL, 0);
}

/* For a callback of ngtcp2, after libnghttp3 has failed. */
int http3_failed(http3_connection *connection, nghttp3_ssize result)
{
    http3_fail(connection, nghttp3_err_infer_quic_app_error_code((int)result));
    return NGTCP2_ERR_CALLBACK_FAILURE;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Limits: http_limit.h. Each of these functions returns whether the connection must end at once. */

void http3_fail_for_limit(http3_connection *connection)
{
    const char *text = http_limit_text(connection->streams.conduct.limit);
    if (connection->has_error)
        return;
    connection->has_error = 1;
    ngtcp2_ccerr_set_application_error(&connection->error, HTTP3_EXCESSIVE_LOAD, (const uint8_t *)text, strlen(text));
}

void http3_exceed(http3_connection *connection, http_limit limit)
{
    http_conduct_exceed(&connection->streams.conduct, limit);
    http3_fail_for_limit(connection);
}

static int obey(http3_connection *connection, http_verdict verdict)
{
    if (verdict == HTTP_GO_ON)
        return 0;
    http3_fail_for_limit(connection);
    return 1;
}

int http3_is_useless(http3_connection *connection, double frames)
{
    const http3_endpoint *endpoint = connection->endpoint;
    return obey(connection, http_conduct_useless(&connection->streams.conduct, &endpoint->settings.common.allowances,
                                                 frames, endpoint->engine.now));
}

int http3_is_refused_too_often(http3_connection *connection)
{
    const http3_endpoint *endpoint = connection->endpoint;
    return obey(connection, http_conduct_reset(&connection->streams.conduct, &endpoint->settings.common.allowances,
                                               endpoint->engine.now));
}

/* The client cancels a request, with RESET_STREAM or STOP_SENDING. That is no waste if there is an answer already.
 * NULL: nothing of the request has come. */
int http3_is_cancelled_too_often(http3_connection *connection, http_stream *stream)
{
    const http3_endpoint *endpoint = connection->endpoint;
    if (stream == NULL)
        return http3_is_useless(connection, HTTP3_PACKET_FRAMES);
    if (stream->has_failed)
        return 0;
    int is_begun = stream->is_taken || stream->list != NULL;
    if (http3_is_useless(connection, 1))
        return 1;
    return is_begun && stream->answer_state == HTTP_UNANSWERED &&
           obey(connection, http_conduct_cancel(&connection->streams.conduct, &endpoint->settings.common.allowances,
                                                &stream->cancellation, stream->is_taken, endpoint->engine.now));
}

/* ------------------------------------------------------------------------------------------------------------------
 * The announced end */

void http3_announce(http3_connection *connection, http_end end)
{
    if (connection->phase != HTTP3_OPEN || connection->http == NULL)
        return;
    http3_wake(connection);
    if (end == HTTP_END_NOTICE) {
        (void)nghttp3_conn_submit_shutdown_notice(connection->http);
    } else {
        (void)nghttp3_conn_shutdown(connection->http);
        connection->is_last_announced = 1;
    }
    http3_make_pending(connection);
}

/* When the client has gone beyond a limit, or made as many requests as it may, it is reported once, and the
 * connection ends when what was begun is finished. Not within callbacks. */
void http3_begin_end(http3_connection *connection)
{
    const http3_endpoint *endpoint = connection->endpoint;
    uint32_t most = endpoint->settings.requests_max;
    if (http_conduct_tell(&connection->streams.conduct) != HTTP_LIMIT_NONE) {
        if (connection->is_told)
            http3_push_change(connection, HTTP3_LIMITED);
        if (connection->is_established)
            http3_announce(connection, HTTP_END_LAST);
        else
            http3_fail_for_limit(connection);
    } else if (most > 0 && connection->requests >= most && !connection->is_last_announced &&
               connection->last_at == UINT64_MAX) {
        connection->last_at = endpoint->engine.now + NOTICE_TIME;
        http3_announce(connection, HTTP_END_NOTICE);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Memory */

/* What a client sends in the wrong order waits in small records, which may have a hundred times the size of its bytes.
 * So the libraries' memory for a connection has a limit. It does not make allocation fail: the connection ends when the
 * library has returned. */
#define HANDSHAKE_MEMORY_MAX 262144u
#define MEMORY_SPARE         4194304u

static void *note_taken(http3_connection *connection, void *memory)
{
    const http_settings *limits = &connection->endpoint->settings.common;
    /* The window grows as the client's bytes are read. */
    uint64_t window = limits->connection_window + connection->received;
    uint64_t most = HANDSHAKE_MEMORY_MAX;
    if (connection->is_established)
        most = MEMORY_SPARE + (window < limits->window_max ? window : limits->window_max);
    if (connection->memory.bytes > most)
        http3_exceed(connection, HTTP_LIMIT_MEMORY);
    return memory;
}

static void *take(size_t size, void *data)
{
    return note_taken(data, http3_memory_alloc(&((http3_connection *)data)->memory, size));
}

static void give(void *memory, void *data)
{
    http3_memory_free(&((http3_connection *)data)->memory, memory);
}

static void *take_zeroed(size_t count, size_t size, void *data)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return note_taken(data, http3_memory_alloc_zeroed(&((http3_connection *)data)->memory, count * size));
}

static void *resize(void *memory, size_t size, void *data)
{
    return note_taken(data, http3_memory_realloc(&((http3_connection *)data)->memory, memory, size));
}

void http3_begin_memory(http3_connection *connection)
{
    connection->quic_memory = (ngtcp2_mem){connection, take, give, take_zeroed, resize};
    connection->http_memory = (nghttp3_mem){connection, take, give, take_zeroed, resize};
}

/* Must be called before the libraries are, unless a packet has just arrived or something was just due. */
void http3_wake(http3_connection *connection)
{
    http3_memory_unpack(&connection->memory);
}
