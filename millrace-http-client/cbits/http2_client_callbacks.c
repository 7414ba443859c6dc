/* http2_client_callbacks.c - what libnghttp2 says of responses: http2_client_internal.h. Must not know: GHC, sockets,
   the clock. */
#include <stdlib.h>

#include "http2_client_internal.h"

static http_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* Without memory for a head the stream fails. */
static int refuse_without_memory(http_stream *stream)
{
    return http2_client_refuse(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_INTERNAL_ERROR);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)data;
    if (stream == NULL)
        return 0;
    http2_client_stream *own = http2_client_own(stream);
    http2_client_free_head(own->building);
    own->building = calloc(1, sizeof *own->building);
    return own->building == NULL ? refuse_without_memory(stream) : 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    http2_client *client = data;
    http_stream *stream = stream_of(session, frame->hd.stream_id);
    http2_client_head *building = stream == NULL ? NULL : http2_client_own(stream)->building;
    (void)flags;
    if (building == NULL || stream->is_released)
        return 0;
    if (name_length > 0 && name[0] == ':') {
        /* libnghttp2 has checked that :status is three digits and comes once. */
        if (name_length == 7 && value_length == 3)
            building->status = 100 * (value[0] - '0') + 10 * (value[1] - '0') + (value[2] - '0');
        return 0;
    }
    building->charge += name_length + value_length + 32;
    if (building->charge > client->settings.head_max)
        return http2_client_refuse(stream, HTTP2_CLIENT_TOO_LONG, 0);
    return http2_client_add_field(building, name, name_length, value, value_length) != 0 ? refuse_without_memory(stream)
                                                                                         : 0;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    http_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)name, (void)name_length, (void)value, (void)value_length, (void)flags, (void)data;
    return stream != NULL ? http2_client_refuse(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_PROTOCOL_ERROR)
                          : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void take_trailers(http_stream *stream, http2_client_head *built)
{
    http_drop_section(&stream->fields, HTTP_SECTION_TRAILERS);
    stream->fields.trailers = built->rows;
    stream->fields.trailers_length = built->length;
    stream->fields.trailers_count = built->count;
    built->rows = NULL;
    http2_client_free_head(built);
}

static void take_head(http2_client *client, http_stream *stream, http2_client_part part)
{
    http2_client_stream *own = http2_client_own(stream);
    http2_client_head *built = own->building;
    own->building = NULL;
    if (built == NULL)
        return;
    if (own->has_final_head) {
        take_trailers(stream, built);
        return;
    }
    built->part = part;
    if (built->status >= 200)
        own->has_final_head = 1;
    else if (++own->interims > client->settings.interim_max) {
        http2_client_free_head(built);
        http2_client_fail(stream, HTTP2_CLIENT_TOO_LONG, 0);
        http_reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
        return;
    }
    http_list_append(&own->heads, offsetof(http2_client_head, next), built);
}

static void on_message(http2_client *client, http_stream *stream, const nghttp2_frame *frame)
{
    int ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        take_head(client, stream, ends ? HTTP2_CLIENT_NOTHING_FOLLOWS : HTTP2_CLIENT_BODY_FOLLOWS);
        http_wake_reader(stream);
    }
    if (ends && !stream->has_failed)
        http_end_input(stream);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_client *client = data;
    http_stream *stream = frame->hd.stream_id > 0 ? stream_of(session, frame->hd.stream_id) : NULL;
    if (frame->hd.type == NGHTTP2_SETTINGS && !client->is_ready && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        client->is_ready = 1;
        http2_client_note_state(client);
    } else if (frame->hd.type == NGHTTP2_GOAWAY)
        http2_client_begin_leaving(client);
    else if (frame->hd.type == NGHTTP2_RST_STREAM && stream != NULL)
        http2_client_own(stream)->server_has_reset = 1;
    else if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && stream != NULL)
        on_message(client, stream, frame);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length, void *data)
{
    http2_client *client = data;
    http_stream *stream = stream_of(session, id);
    (void)flags;
    http2_client_note_result(client, nghttp2_session_consume_connection(session, length));
    if (stream == NULL)
        http2_client_note_result(client, nghttp2_session_consume_stream(session, id, length));
    else if (http_take_input(stream, bytes, length) != 0)
        http2_client_give_up(stream);
    return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http_stream *stream = frame->hd.type == NGHTTP2_HEADERS ? stream_of(session, frame->hd.stream_id) : NULL;
    (void)data;
    if (stream == NULL || http2_client_own(stream)->has_sent_head)
        return 0;
    http2_client_own(stream)->has_sent_head = 1;
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && stream->is_finished && stream->output.length == 0 &&
        http2_client_submit_end(stream) != 0)
        http2_client_give_up(stream);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    http_stream *stream = stream_of(session, id);
    (void)data;
    if (stream == NULL)
        return 0;
    http2_client_stream *own = http2_client_own(stream);
    /* libnghttp2 uses the same code for streams above the last one of a GOAWAY. */
    if (!own->has_sent_head || (code == NGHTTP2_REFUSED_STREAM && !own->has_final_head))
        http2_client_fail(stream, HTTP2_CLIENT_REFUSED, code);
    else if (!stream->has_ended)
        http2_client_fail(stream, own->server_has_reset ? HTTP2_CLIENT_RESET : HTTP2_CLIENT_BROKEN, code);
    http2_client_close_stream(stream);
    return 0;
}

/* libnghttp2 resets a stream whose response is malformed by itself. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *data)
{
    http_stream *stream = frame->hd.stream_id > 0 ? stream_of(session, frame->hd.stream_id) : NULL;
    (void)error, (void)data;
    if (stream != NULL)
        (void)http2_client_refuse(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_PROTOCOL_ERROR);
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
