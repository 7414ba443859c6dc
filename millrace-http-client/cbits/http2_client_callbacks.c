/* http2_client_callbacks.c - what libnghttp2 says of responses: http2_client_internal.h. Must not know: GHC, sockets,
   the clock. */
#include <stdlib.h>

#include "http2_client_internal.h"

static http2_client_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)data;
    if (stream == NULL)
        return 0;
    http2_client_free_block(stream->building);
    stream->building = calloc(1, sizeof *stream->building);
    return stream->building == NULL ? http2_client_out_of_memory(stream) : 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    http2_client *client = data;
    http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)flags;
    if (stream == NULL || stream->building == NULL || stream->is_released)
        return 0;
    if (name_length > 0 && name[0] == ':') {
        /* libnghttp2 has checked that :status is three digits and comes once. */
        if (name_length == 7 && value_length == 3)
            stream->building->status = 100 * (value[0] - '0') + 10 * (value[1] - '0') + (value[2] - '0');
        return 0;
    }
    stream->building->charge += name_length + value_length + 32;
    if (stream->building->charge > client->settings.head_max) {
        http2_client_fail(stream, HTTP2_CLIENT_TOO_LONG, 0);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return http2_client_add_field(stream->building, name, name_length, value, value_length) != 0
               ? http2_client_out_of_memory(stream)
               : 0;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)name, (void)name_length, (void)value, (void)value_length, (void)flags, (void)data;
    if (stream != NULL)
        http2_client_fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_PROTOCOL_ERROR);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int take_block(http2_client *client, http2_client_stream *stream, int ends)
{
    http2_client_block *built = stream->building;
    stream->building = NULL;
    if (built == NULL)
        return 0;
    if (stream->has_final_head) {
        http2_client_free_block(stream->trailers);
        stream->trailers = built;
    } else {
        built->ends = (uint32_t)ends;
        if (built->status >= 200)
            stream->has_final_head = 1;
        else if (++stream->interims > client->settings.interim_max) {
            http2_client_free_block(built);
            http2_client_fail(stream, HTTP2_CLIENT_TOO_LONG, 0);
            http2_client_reset_now(stream, NGHTTP2_ENHANCE_YOUR_CALM);
            return 0;
        }
        if (stream->heads == NULL)
            stream->heads = built;
        else
            stream->heads_last->next = built;
        stream->heads_last = built;
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_client *client = data;
    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        if (!client->is_ready && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            client->is_ready = 1;
            client->has_new_state = 1;
        }
        return 0;
    case NGHTTP2_GOAWAY:
        http2_client_begin_leaving(client);
        return 0;
    case NGHTTP2_RST_STREAM: {
        http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
        if (stream != NULL)
            stream->was_reset = 1;
        return 0;
    }
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA: {
        http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
        int ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        if (stream == NULL)
            return 0;
        if (frame->hd.type == NGHTTP2_HEADERS)
            take_block(client, stream, ends);
        if (ends)
            stream->has_ended = 1;
        if (ends || frame->hd.type == NGHTTP2_HEADERS)
            http2_client_wake_reader(stream);
        return 0;
    }
    default:
        return 0;
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length, void *data)
{
    http2_client *client = data;
    http2_client_stream *stream = stream_of(session, id);
    (void)flags;
    http2_client_must_tell(client, nghttp2_session_consume_connection(session, length));
    if (stream == NULL || stream->is_released) {
        http2_client_must_tell(client, nghttp2_session_consume_stream(session, id, length));
        return 0;
    }
    if (http2_client_append(&stream->input, bytes, length) != 0)
        http2_client_give_up(stream);
    http2_client_wake_reader(stream);
    return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_client_stream *stream = frame->hd.type == NGHTTP2_HEADERS ? stream_of(session, frame->hd.stream_id) : NULL;
    (void)data;
    if (stream == NULL || stream->has_sent_head)
        return 0;
    stream->has_sent_head = 1;
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && stream->is_finished && stream->output.length == 0 &&
        http2_client_submit_end(stream) != 0)
        http2_client_give_up(stream);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    http2_client_stream *stream = stream_of(session, id);
    (void)data;
    if (stream == NULL)
        return 0;
    /* libnghttp2 uses the same code for streams above the last one of a GOAWAY. */
    if (!stream->has_sent_head || (code == NGHTTP2_REFUSED_STREAM && !stream->has_final_head))
        http2_client_fail(stream, HTTP2_CLIENT_REFUSED, code);
    else if (!stream->has_ended)
        http2_client_fail(stream, stream->was_reset ? HTTP2_CLIENT_RESET : HTTP2_CLIENT_BROKEN, code);
    http2_client_stream_over(stream);
    return 0;
}

/* libnghttp2 resets a stream whose response is malformed by itself. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *data)
{
    http2_client_stream *stream = frame->hd.stream_id > 0 ? stream_of(session, frame->hd.stream_id) : NULL;
    (void)error, (void)data;
    if (stream != NULL)
        http2_client_fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_PROTOCOL_ERROR);
    return 0;
}

nghttp2_session *http2_client_new_session(http2_client *client)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *options = NULL;
    nghttp2_session *session = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&options) == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_option_set_no_auto_window_update(options, 1);
        nghttp2_option_set_max_settings(options, 32);
        if (nghttp2_session_client_new2(&session, callbacks, client, options) != 0)
            session = NULL;
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(options);
    return session;
}
