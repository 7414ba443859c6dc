/*
 * http3_stream.c - what HTTP/3 does for streams: http_protocol on ngtcp2 and libnghttp3. Must not know: GHC, sockets,
 * the clock.
 *
 * A stream's record is freed when the stream is closed and its handler has released it. Only then may the client open
 * another stream: a client that resets its requests cannot have more handlers running than it may have requests.
 *
 * ngtcp2 and libnghttp3 do not copy bodies and fields. So these stay until the client has acknowledged them, or the
 * stream is closed.
 */
#include <string.h>

#include "http3_internal.h"
#include "millrace_check.h"

/* This many bytes of a body are given to libnghttp3 at a time, at most, as one DATA frame. */
#define GIVEN_MOST 65536u

/* The bytes of all bodies of a connection that may wait: to be sent, and to be acknowledged. */
#define QUEUED_MAX (UINT64_C(8) << 20)

/* ------------------------------------------------------------------------------------------------------------------
 * Records */

/* While a request is served, and neither side sends, the client is asked now and then whether it is there. Otherwise
 * the connection would end when it has been idle for as long as one without requests may be. A client that has gone
 * does not answer: then it does end. */
static void watch_client(http3_connection *connection)
{
    uint64_t idle = connection->endpoint->settings.idle_ms * HTTP3_MILLISECOND;
    if (connection->quic == NULL)
        return;
    const ngtcp2_transport_params *client = ngtcp2_conn_get_remote_transport_params(connection->quic);
    if (client != NULL && client->max_idle_timeout > 0 && (idle == 0 || client->max_idle_timeout < idle))
        idle = client->max_idle_timeout;
    ngtcp2_conn_set_keep_alive_timeout(connection->quic,
                                       connection->open_streams > 0 && idle > 0 ? idle / 2 : UINT64_MAX);
}

http_stream *http3_new_stream(http3_connection *connection, int64_t id)
{
    http3_endpoint *endpoint = connection->endpoint;
    http3_stream *stream = http_alloc_zeroed(sizeof *stream);
    if (stream == NULL)
        return NULL;
    http_enter_stream(&stream->common, &endpoint->engine, &connection->streams, ++endpoint->next_key);
    stream->id = id;
    stream->connection_number = connection->number;
    if (connection->open_streams++ == 0)
        watch_client(connection);
    connection->active_at = endpoint->engine.now;
    connection->had_requests = 1;
    endpoint->stream_count++;
    return &stream->common;
}

static void leave(http_stream *stream)
{
    http3_connection *connection = http3_connection_of(stream);
    if (connection->writing == stream)
        connection->writing = NULL;
    if (--connection->open_streams == 0)
        watch_client(connection);
    connection->active_at = stream->engine->now;
    http_orphan_stream(stream);
}

static void free_stream(http_stream *stream)
{
    http3_connection *connection = http3_connection_of(stream);
    if (connection != NULL) {
        leave(stream);
        if (connection->quic != NULL) {
            ngtcp2_conn_extend_max_streams_bidi(connection->quic, 1);
            http3_make_pending(connection);
        }
    }
    http3_endpoint_of(stream)->stream_count--;
    http_building_drop(&http3_own(stream)->building);
    http_free_stream(stream);
}

static void copy_address(uint8_t *target, uint32_t *length, const ngtcp2_addr *source)
{
    *length = source->addrlen <= HTTP3_ADDRESS_MAX ? (uint32_t)source->addrlen : 0;
    memcpy(target, source->addr, *length);
}

void http3_make_ready(http_stream *stream)
{
    http3_stream *own = http3_own(stream);
    const ngtcp2_path *path = ngtcp2_conn_get_path(http3_connection_of(stream)->quic);
    copy_address(own->remote, &own->remote_length, &path->remote);
    copy_address(own->local, &own->local_length, &path->local);
    http_enlist(stream, &stream->engine->ready);
}

/* Returns whether nobody uses the record any more. */
static int close_record(http_stream *stream)
{
    http_building_drop(&http3_own(stream)->building);
    return http_close_stream(stream, stream->has_failed || !stream->has_ended || !stream->is_finished ||
                                         stream->output.length > 0 || http3_own(stream)->confirmed < stream->accepted);
}

void http3_close_stream(http_stream *stream)
{
    if (!stream->is_closed && close_record(stream))
        free_stream(stream);
}

void http3_orphan_stream(http_stream *stream)
{
    if (!stream->is_closed)
        (void)close_record(stream);
    leave(stream);
    if (!stream->is_taken || stream->is_released)
        free_stream(stream);
}

http_stream *http3_next_request(http3_endpoint *endpoint)
{
    http_lock(&endpoint->engine);
    http_stream *stream = http_take_request(&endpoint->engine);
    http_unlock(&endpoint->engine);
    return stream;
}

uint64_t http3_release(http_stream *stream, uint64_t now)
{
    http3_endpoint *endpoint = http3_endpoint_of(stream);
    http_lock(&endpoint->engine);
    if (http_end_handler(stream, now))
        free_stream(stream);
    uint64_t flags = http3_flags(endpoint);
    http_unlock(&endpoint->engine);
    return flags;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Resets */

static void shut(http_stream *stream, uint64_t code)
{
    http3_connection *connection = http3_connection_of(stream);
    if (connection->quic == NULL)
        return;
    stream->has_stopped = 1;
    (void)nghttp3_conn_shutdown_stream_read(connection->http, http3_id_of(stream));
    nghttp3_conn_shutdown_stream_write(connection->http, http3_id_of(stream));
    (void)ngtcp2_conn_shutdown_stream(connection->quic, 0, http3_id_of(stream), code);
    http3_make_pending(connection);
}

void http3_shut_stream(http_stream *stream, uint64_t code)
{
    http_lose_stream(stream);
    shut(stream, code);
}

static void stop(http_stream *stream)
{
    http3_connection *connection = http3_connection_of(stream);
    (void)nghttp3_conn_shutdown_stream_read(connection->http, http3_id_of(stream));
    (void)ngtcp2_conn_shutdown_stream_read(connection->quic, 0, http3_id_of(stream), HTTP3_NO_ERROR);
    http3_make_pending(connection);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Windows */

/* ngtcp2 tells the client when half of a window has been read. So sending is of no use before an eighth of the first
   window has been. */
static void consume(http_stream *stream, uint64_t length)
{
    const http_settings *settings = &http3_endpoint_of(stream)->settings.common;
    http3_connection *connection = http3_connection_of(stream);
    http3_stream *own = http3_own(stream);
    if (connection->quic == NULL)
        return;
    if (!stream->is_closed && !stream->has_ended)
        (void)ngtcp2_conn_extend_max_stream_offset(connection->quic, http3_id_of(stream), length);
    ngtcp2_conn_extend_max_offset(connection->quic, length);
    own->opened += length;
    connection->opened += length;
    if (own->opened >= settings->stream_window / 8 || connection->opened >= settings->connection_window / 8) {
        own->opened = connection->opened = 0;
        http3_make_pending(connection);
    }
}

static int64_t stream_window(const http_stream *stream)
{
    ngtcp2_conn *quic = http3_connection_of(stream)->quic;
    return quic == NULL ? 0 : (int64_t)ngtcp2_conn_get_max_stream_data_left(quic, http3_id_of(stream));
}

static int64_t connection_window(const http_streams *streams)
{
    ngtcp2_conn *quic = ((const http3_connection *)streams)->quic;
    return quic == NULL ? 0 : (int64_t)ngtcp2_conn_get_max_data_left(quic);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Output */

static nghttp3_ssize read_output(nghttp3_conn *http, int64_t id, nghttp3_vec *pieces, size_t count, uint32_t *flags,
                                 void *data, void *stream_data)
{
    http_stream *stream = stream_data;
    http3_connection *connection = data;
    (void)http, (void)id;
    connection->writing = stream;
    if (stream->output.ungiven == 0 && !stream->is_finished) {
        stream->is_deferred = 1;
        return NGHTTP3_ERR_WOULDBLOCK;
    }
    uint64_t before = stream->output.ungiven;
    size_t used = 0;
    for (uint64_t most = GIVEN_MOST; used < count && most > 0; used++) {
        const uint8_t *bytes;
        size_t length = http_body_give(&stream->output, &bytes, most);
        if (length == 0)
            break;
        pieces[used] = (nghttp3_vec){(uint8_t *)bytes, length};
        most -= length;
    }
    http_note_given(stream, before - stream->output.ungiven);
    if (stream->output.ungiven == 0 && stream->is_finished) {
        *flags |= NGHTTP3_DATA_FLAG_EOF;
        stream->end_is_given = 1;
        if (stream->trailers != NULL &&
            nghttp3_conn_submit_trailers(connection->http, http3_id_of(stream), nv_of(stream->trailers),
                                         stream->trailers->count) == 0)
            *flags |= NGHTTP3_DATA_FLAG_NO_END_STREAM;
        http3_own(stream)->end_waits = used == 0;
        http_stop_client(stream);
    }
    return (nghttp3_ssize)used;
}

static void submit(http_stream *stream)
{
    http3_connection *connection = http3_connection_of(stream);
    nghttp3_data_reader reader = {read_output};
    if (!stream->has_body)
        stream->end_is_given = 1;
    if (nghttp3_conn_submit_response(connection->http, http3_id_of(stream), nv_of(stream->answer),
                                     stream->answer->count, stream->has_body ? &reader : NULL) != 0)
        http_reset(stream, HTTP3_INTERNAL_ERROR);
    else
        http_stop_client(stream);
    http3_make_pending(connection);
}

static void resume(http_stream *stream)
{
    http3_connection *connection = http3_connection_of(stream);
    connection->has_late_end |= stream->is_finished && stream->output.ungiven == 0;
    if (stream->is_deferred)
        (void)nghttp3_conn_resume_stream(connection->http, http3_id_of(stream));
    if (stream->is_deferred || stream->answer_state == HTTP_ANSWER_HELD)
        http3_make_pending(connection);
    stream->is_deferred = 0;
}

static void inform(http_stream *stream, const http_block *block)
{
    http3_connection *connection = http3_connection_of(stream);
    (void)nghttp3_conn_submit_info(connection->http, http3_id_of(stream), nv_of(block), block->count);
    http3_make_pending(connection);
}

static void note_through(http_stream *stream)
{
    stream->is_through = stream->accepted > 0 && http3_own(stream)->confirmed == stream->accepted;
}

void http3_note_accepted(http_stream *stream, uint64_t length)
{
    http_note_accepted(stream, length);
    note_through(stream);
}

void http3_note_acknowledged(http_stream *stream, uint64_t length)
{
    MR_CHECK(stream->output.length - stream->output.ungiven >= length);
    http_body_drop(&stream->output, length);
    http_note_dropped(stream, length);
}

void http3_note_confirmed(http_stream *stream, uint64_t length)
{
    http3_own(stream)->confirmed += length;
    stream->progress += length;
    stream->moved_at = stream->engine->now;
    note_through(stream);
    http_end_aborted(stream);
}

const http_protocol http3_protocol = {.submit = submit,
                                      .resume = resume,
                                      .inform = inform,
                                      .reset = shut,
                                      .stop = stop,
                                      .consume = consume,
                                      .stream_window = stream_window,
                                      .connection_window = connection_window,
                                      .queued_max = QUEUED_MAX,
                                      .no_error = HTTP3_NO_ERROR,
                                      .internal_error = HTTP3_INTERNAL_ERROR,
                                      .cancelled = HTTP3_REQUEST_CANCELLED};

/* ------------------------------------------------------------------------------------------------------------------
 * Time */

uint32_t http3_reset_stalled(http3_endpoint *endpoint, uint64_t now, uint64_t limit)
{
    uint32_t count = 0;
    http_lock(&endpoint->engine);
    for (http3_connection *connection = endpoint->connections; connection != NULL; connection = connection->next)
        count += http_reset_stalled(&connection->streams, now, limit);
    http_unlock(&endpoint->engine);
    return count;
}

uint32_t http3_reset_unfinished(http3_endpoint *endpoint, uint64_t now, uint64_t limit)
{
    uint32_t count = 0;
    http_lock(&endpoint->engine);
    for (http3_connection *connection = endpoint->connections; connection != NULL; connection = connection->next)
        for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next) {
            int is_unfinished = !stream->is_taken && stream->list == NULL && !stream->is_closed && !stream->has_failed;
            if (!is_unfinished || now < stream->moved_at || now - stream->moved_at < limit)
                continue;
            http_reset(stream, HTTP3_REQUEST_REJECTED);
            count++;
        }
    http_unlock(&endpoint->engine);
    return count;
}
