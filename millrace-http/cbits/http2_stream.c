/*
 * http2_stream.c - what HTTP/2 does for streams: http_protocol on libnghttp2. Must not know: GHC, sockets, the clock.
 */
#include <string.h>

#include "http2_internal.h"
#include "millrace_check.h"

/* A DATA frame always fits into the least output. */
#define PAYLOAD_MAX (HTTP2_COLLECT_MIN - HTTP2_FRAME_HEAD)

/* A DATA frame is not cut to less than this because the output is nearly full: it waits for the next output. */
#define PAYLOAD_MIN 512u

/* The bytes of all bodies of a connection that may wait to be sent. */
#define QUEUED_MAX (UINT64_C(2) << 20)

/* A client that still sends a body after its answer gets this time to read the answer. Then the stream is reset. */
#define STOP_PAUSE (HTTP2_SECOND / 2)

/* ------------------------------------------------------------------------------------------------------------------
 * Records */

http_stream *http2_new_stream(http2_connection *connection, int32_t id)
{
    http2_stream *stream = http_alloc_zeroed(sizeof *stream);
    if (stream == NULL)
        return NULL;
    http_enter_stream(&stream->common, &connection->engine, &connection->streams, (uint64_t)id);
    connection->stream_count++;
    return &stream->common;
}

void http2_close_stream(http_stream *stream, uint32_t code)
{
    http2_connection *connection = http2_connection_of(stream);
    if (stream->is_closed)
        return;
    if (connection->building != NULL && connection->building->owner == stream)
        connection->building->owner = NULL;
    connection->stream_count--;
    if (http_close_stream(stream, code != NGHTTP2_NO_ERROR || !stream->has_ended || stream->has_failed))
        http_free_stream(stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Resets */

/* Notes a reset. libnghttp2 gets it only immediately before it sends (http2_submit_resets). From then on it ignores the
 * client's frames on the stream, even END_STREAM, but keeps it open until RST_STREAM is sent. If the client then ended
 * this stream and opened another one at the limit of streams, that would be refused. */
static void push_reset(http_stream *stream, uint64_t code)
{
    http2_own(stream)->reset_code = (uint32_t)code;
    http_enlist(stream, &http2_connection_of(stream)->resetting);
}

/* Streams whose answers are complete do not count: when an answer comes early, some clients forget the request
 * without ending it (grpc-go 1.82). Such streams are reset when others need their slots. */
int http2_has_slot(http2_connection *connection)
{
    uint32_t most = connection->settings->streams_max, count = 0;
    if (connection->stream_count < most)
        return 1;
    for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next) {
        count += !stream->end_is_given;
        if (http2_is_only_skipped(stream) && stream->list == NULL)
            push_reset(stream, NGHTTP2_NO_ERROR);
    }
    return count < most;
}

int http2_submit_resets(http2_connection *connection)
{
    http_stream *stream;
    int result = 0;
    while (!nghttp2_is_fatal(result) && (stream = http_take_listed(&connection->resetting)) != NULL)
        result = nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, http2_id(stream),
                                           http2_own(stream)->reset_code);
    return nghttp2_is_fatal(result) ? result : 0;
}

/* The stream will be reset. Not at once: some clients lose an answer that they have not read when the reset comes (curl
 * 7.88). Meanwhile their window stays as it is. */
static void stop(http_stream *stream)
{
    http2_own(stream)->stops_at = stream->engine->now + STOP_PAUSE;
}

static int is_stopping(const http_stream *stream, const http2_connection *connection)
{
    return stream->has_stopped && !stream->is_closed && !stream->has_failed && stream->list != &connection->resetting;
}

uint64_t http2_stop_due(http2_connection *connection)
{
    uint64_t due = 0;
    http_lock(&connection->engine);
    for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next)
        if (is_stopping(stream, connection) && (due == 0 || http2_own(stream)->stops_at < due))
            due = http2_own(stream)->stops_at;
    http_unlock(&connection->engine);
    return due;
}

uint32_t http2_stop_clients(http2_connection *connection, uint64_t now)
{
    uint32_t count = 0;
    http_lock(&connection->engine);
    for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next)
        if (is_stopping(stream, connection) && now >= http2_own(stream)->stops_at) {
            push_reset(stream, NGHTTP2_NO_ERROR);
            count++;
        }
    http_unlock(&connection->engine);
    return count;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input and windows */

/* While the stream may still be written to, its window opens, too: otherwise a client that has used it up could neither
 * send the rest nor learn that it should stop. */
static void consume(http_stream *stream, uint64_t length)
{
    http2_connection *connection = http2_connection_of(stream);
    if (connection->session == NULL || connection->is_closed)
        return;
    int takes_more = !stream->is_closed && !stream->has_ended && !stream->has_failed && !stream->has_stopped;
    http2_note_result(connection, takes_more ? nghttp2_session_consume(connection->session, http2_id(stream), length)
                                             : nghttp2_session_consume_connection(connection->session, length));
}

static int64_t stream_window(const http_stream *stream)
{
    nghttp2_session *session = http2_connection_of(stream)->session;
    return session == NULL ? 0 : nghttp2_session_get_stream_remote_window_size(session, http2_id(stream));
}

static int64_t connection_window(const http_streams *streams)
{
    nghttp2_session *session = ((const http2_connection *)streams)->session;
    return session == NULL ? 0 : nghttp2_session_get_remote_window_size(session);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Output */

/* NOLINTNEXTLINE(readability-non-const-parameter): nghttp2 gives the type */
static ssize_t read_output(nghttp2_session *session, int32_t id, uint8_t *target, size_t capacity, uint32_t *flags,
                           nghttp2_data_source *source, void *data)
{
    http2_connection *connection = data;
    http_stream *stream = source->ptr;
    (void)target;
    size_t here = connection->out_capacity - connection->out_length;
    size_t most = here > HTTP2_FRAME_HEAD + PAYLOAD_MIN ? here - HTTP2_FRAME_HEAD : PAYLOAD_MAX;
    size_t count = stream->output.length;
    if (count == 0 && !stream->is_finished) {
        stream->is_deferred = 1;
        return NGHTTP2_ERR_DEFERRED;
    }
    connection->sends_tiny_frame = count > capacity && capacity < HTTP2_USEFUL; /* the client's window is tiny */
    count = count < capacity ? count : capacity;
    count = count < most ? count : most;
    count = count < PAYLOAD_MAX ? count : PAYLOAD_MAX;
    if (count == stream->output.length && stream->is_finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->trailers != NULL) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(session, id, nv_of(stream->trailers), stream->trailers->count);
        }
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    return (ssize_t)count;
}

int http2_send_output(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
                      nghttp2_data_source *source, void *data)
{
    http2_connection *connection = data;
    http_stream *stream = source->ptr;
    (void)session, (void)frame;
    if (connection->out_capacity - connection->out_length < HTTP2_FRAME_HEAD + length) {
        connection->is_blocked = 1;
        stream->held = (uint32_t)length; /* libnghttp2 will ask for the same bytes again */
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    stream->held = 0;
    MR_CHECK(stream->output.length >= length);
    memcpy(connection->out + connection->out_length, head, HTTP2_FRAME_HEAD);
    connection->out_length += HTTP2_FRAME_HEAD;
    http_body_take(&stream->output, connection->out + connection->out_length, length);
    connection->out_length += length;
    connection->lent[HTTP2_LENT_BY_CONNECTION] += length;
    connection->lent[HTTP2_LENT_BY_STREAMS] += length;
    if (!connection->sends_tiny_frame)
        http_conduct_earn(&connection->streams.conduct, 2);
    http_note_given(stream, length);
    http_note_accepted(stream, length);
    http_note_dropped(stream, length);
    return 0;
}

/* Whether libnghttp2 has the whole body, but not its end. */
static int has_only_end(const http_stream *stream)
{
    return stream->is_finished && stream->output.length == 0;
}

/* Gives libnghttp2 the end of an answer whose bytes it has. It sends no DATA frame while a window is closed, not even
 * an empty one, which needs no window (RFC 9113, section 6.9.1). So an end without trailers is trailers without fields
 * here, and make_end makes a DATA frame of them. */
static void submit_end(http_stream *stream)
{
    const http_block *trailers = stream->trailers;
    http2_note_result(http2_connection_of(stream),
                      nghttp2_submit_trailer(http2_connection_of(stream)->session, http2_id(stream),
                                             trailers == NULL ? NULL : nv_of(trailers),
                                             trailers == NULL ? 0 : trailers->count));
}

static void submit(http_stream *stream)
{
    http2_connection *connection = http2_connection_of(stream);
    int ends_with_trailers = has_only_end(stream) && stream->trailers != NULL;
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_output};
    nghttp2_data_provider *body = stream->has_body && (!has_only_end(stream) || ends_with_trailers) ? &provider : NULL;
    http2_note_result(connection, nghttp2_submit_response(connection->session, http2_id(stream), nv_of(stream->answer),
                                                          stream->answer->count, body));
    if (ends_with_trailers)
        submit_end(stream);
}

static void resume(http_stream *stream)
{
    http2_connection *connection = http2_connection_of(stream);
    if (stream->answer_state == HTTP_ANSWER_SUBMITTED && has_only_end(stream)) {
        submit_end(stream);
    } else if (stream->is_deferred) {
        stream->is_deferred = 0;
        http2_note_result(connection, nghttp2_session_resume_data(connection->session, http2_id(stream)));
    }
}

static void inform(http_stream *stream, const http_block *block)
{
    http2_connection *connection = http2_connection_of(stream);
    http2_note_result(connection, nghttp2_submit_headers(connection->session, NGHTTP2_FLAG_NONE, http2_id(stream), NULL,
                                                         nv_of(block), block->count, NULL));
}

const http_protocol http2_protocol = {.submit = submit,
                                      .resume = resume,
                                      .inform = inform,
                                      .reset = push_reset,
                                      .stop = stop,
                                      .consume = consume,
                                      .stream_window = stream_window,
                                      .connection_window = connection_window,
                                      .queued_max = QUEUED_MAX,
                                      .no_error = NGHTTP2_NO_ERROR,
                                      .internal_error = NGHTTP2_INTERNAL_ERROR,
                                      .cancelled = NGHTTP2_CANCEL};
