/*
 * http2_callbacks.c - what libnghttp2 says of requests and of sent frames. Its callbacks run within http2_feed and
 * http2_collect, with the lock held. They only change records and queue notices. Must not know: GHC, sockets, the
 * clock.
 */
#include "http2_internal.h"

static int begin_section(http2_connection *connection, http_stream *stream, http_section section)
{
    const http_settings *settings = connection->settings;
    http_head_limits limits = {.fields_max = settings->fields_max,
                               .head_max = settings->head_max,
                               .target_max = settings->target_max,
                               .allowed = settings->allowed};
    return http_building_begin(&connection->building, &limits, section, stream, &stream->head, &stream->fields);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_connection *connection = data;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        http2_remember(&connection->memory, frame->hd.stream_id);
        /* The last GOAWAY says that the client may repeat this request. libnghttp2 refuses it only when that frame is
           sent. */
        if (connection->takes_no_more || !http2_has_slot(connection))
            return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM) ==
                           0
                       ? 0
                       : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        http_stream *stream = http2_new_stream(connection, frame->hd.stream_id);
        if (stream == NULL)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
        return begin_section(connection, stream, HTTP_SECTION_HEAD) == 0 ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    http_stream *stream = http2_stream_of(session, frame->hd.stream_id);
    if (stream != NULL)
        (void)begin_section(connection, stream, HTTP_SECTION_TRAILERS);
    return 0;
}

static int is_building(const http2_connection *connection, int32_t id)
{
    const http_stream *stream = connection->building != NULL ? connection->building->owner : NULL;
    return stream != NULL && http2_id(stream) == id;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    http2_connection *connection = data;
    (void)session;
    (void)flags;
    if (!is_building(connection, frame->hd.stream_id))
        return 0;
    if (http_building_field(connection->building, name, name_length, value, value_length) == 0)
        return 0;
    http2_exceed(connection, HTTP_LIMIT_HEADS);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* An invalid field makes the request malformed (RFC 9113, section 8.1.1). By default libnghttp2 would leave it out. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    (void)session, (void)frame, (void)name, (void)name_length, (void)value, (void)value_length, (void)flags, (void)data;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* Refuses a request whose fields exceed the limit together with those of the others: the client may send it again
 * later (RFC 9113, section 8.7). A client may send thousands of them before RST_STREAM goes out, so their memory is
 * freed at once. */
static void refuse_head(http_stream *stream, nghttp2_session *session)
{
    stream->has_failed = stream->drops_input = 1;
    http_drop_section(&stream->fields, HTTP_SECTION_HEAD);
    http2_note_result(http2_connection_of(stream),
                      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, http2_id(stream), NGHTTP2_REFUSED_STREAM));
}

/* Refuses trailers that exceed the limit of all fields. Their request is served already, so its stream ends. */
static void refuse_trailers(http_stream *stream, nghttp2_session *session)
{
    http_drop_section(&stream->fields, HTTP_SECTION_TRAILERS);
    http2_note_result(
        http2_connection_of(stream),
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, http2_id(stream), NGHTTP2_ENHANCE_YOUR_CALM));
}

static int end_head(http2_connection *connection, nghttp2_session *session, const nghttp2_frame *frame)
{
    if (!is_building(connection, frame->hd.stream_id))
        return 0;
    http_stream *stream = connection->building->owner;
    int is_request = connection->building->section == HTTP_SECTION_HEAD;
    int result = http_building_end(connection->building, connection->is_secure ? HTTP_SECURE : HTTP_CLEAR_TEXT);
    if (result != 0) {
        uint32_t code = result < 0 ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_ENHANCE_YOUR_CALM;
        http2_note_result(connection, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, code));
    } else if (!http_count_fields(stream, 0)) {
        (is_request ? refuse_head : refuse_trailers)(stream, session);
    } else if (is_request) {
        http_conduct_earn(&connection->streams.conduct, HTTP_REQUEST_FRAMES);
        http_enlist(stream, &connection->engine.ready);
    }
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_connection *connection = data;
    int result = 0;
    connection->has_begun = 1;
    if (frame->hd.type == NGHTTP2_HEADERS)
        result = end_head(connection, session, frame);
    else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        http2_end_probe(connection);
    else if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        http2_note_known_window(connection, session);
    else if (frame->hd.type == NGHTTP2_SETTINGS || frame->hd.type == NGHTTP2_WINDOW_UPDATE)
        http_note_windows(&connection->streams);
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        http_stream *stream = http2_stream_of(session, frame->hd.stream_id);
        if (stream != NULL)
            http_end_input(stream);
    }
    return result;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length, void *data)
{
    http2_connection *connection = data;
    http_stream *stream = http2_stream_of(session, id);
    (void)flags;
    connection->probe_bytes += length;
    if (length >= HTTP2_USEFUL)
        http_conduct_earn(&connection->streams.conduct, 1);
    if (stream == NULL) {
        nghttp2_session_consume_connection(session, length);
        return 0;
    }
    if (http_take_input(stream, bytes, length) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    http_stop_client(stream);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    http_stream *stream = http2_stream_of(session, id);
    (void)data;
    if (stream != NULL) {
        nghttp2_session_set_stream_user_data(session, id, NULL);
        http2_close_stream(stream, code);
    }
    return 0;
}

static int is_interim(const nghttp2_headers *head)
{
    return head->nvlen > 0 && head->nva[0].namelen == 7 && head->nva[0].value[0] == '1'; /* :status */
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_connection *connection = data;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        uint32_t code = frame->rst_stream.error_code;
        http2_remember_reset(&connection->memory, frame->hd.stream_id);
        int is_late = code == NGHTTP2_STREAM_CLOSED &&
                      http2_stream_of(session, frame->hd.stream_id) == NULL; /* refuse_behind_reset */
        if (code != NGHTTP2_NO_ERROR && code != NGHTTP2_INTERNAL_ERROR && code != NGHTTP2_CANCEL && !is_late)
            http2_obey(connection, http_conduct_reset(&connection->streams.conduct, &connection->settings->allowances,
                                                      connection->engine.now));
    } else if (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) {
        http_stream *stream = http2_stream_of(session, frame->hd.stream_id);
        if (stream != NULL) {
            if (frame->hd.type == NGHTTP2_HEADERS && !is_interim(&frame->headers))
                stream->is_through = 1;
            if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
                stream->end_is_given = 1;
                http_stop_client(stream);
            }
            http_end_aborted(stream);
        }
    }
    return 0;
}

nghttp2_session_callbacks *http2_make_callbacks(void)
{
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, http2_send_output);
    return callbacks;
}
