/*
 * http3_requests.c - requests on libnghttp3. Its callbacks run within http3_read_packet, http3_write_packets and
 * http3_expire, with the endpoint's lock held. They only change records and queue notices. If one finds a reason to
 * end the connection, it notes it; the end comes when the library has returned. Must not know: GHC, sockets, the
 * clock.
 */
#include "http3_internal.h"

/* A HEADERS frame may be this many bytes longer than head_max, although it is compressed. */
#define HEAD_BYTES_SPARE 16384u

#define GENERAL_PROTOCOL_ERROR UINT64_C(0x101)

/* ------------------------------------------------------------------------------------------------------------------
 * libnghttp3's callbacks */

static void open_windows(http3_connection *connection, int64_t id, uint64_t length)
{
    ngtcp2_conn_extend_max_stream_offset(connection->quic, id, length);
    ngtcp2_conn_extend_max_offset(connection->quic, length);
}

static int begin_section(http_stream *stream, http_section section)
{
    http3_endpoint *endpoint = http3_endpoint_of(stream);
    if (http3_own(stream)->building == NULL) {
        http3_own(stream)->building = endpoint->spare;
        endpoint->spare = NULL;
    }
    return http_building_begin(&http3_own(stream)->building, &endpoint->limits, section, stream, &stream->head,
                               &stream->fields) == 0
               ? 0
               : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static void end_building(http_stream *stream)
{
    http3_endpoint *endpoint = http3_endpoint_of(stream);
    if (endpoint->spare == NULL) {
        endpoint->spare = http3_own(stream)->building;
        http3_own(stream)->building = NULL;
    } else {
        http_building_drop(&http3_own(stream)->building);
    }
}

static int on_begin_headers(nghttp3_conn *http, int64_t id, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http_stream *stream = connection->reading;
    (void)stream_data;
    http3_own(stream)->has_head = 1;
    http3_own(stream)->came_early = connection->reads_early;
    nghttp3_conn_set_stream_user_data(http, id, stream);
    return begin_section(stream, HTTP_SECTION_HEAD);
}

static int on_begin_trailers(nghttp3_conn *http, int64_t id, void *data, void *stream_data)
{
    (void)http, (void)id, (void)data;
    return stream_data == NULL ? 0 : begin_section(stream_data, HTTP_SECTION_TRAILERS);
}

/* libnghttp3 1.8 reports a value of one byte that is a control character, instead of leaving it out. */
static int is_control_byte(const uint8_t *value, size_t length)
{
    return length == 1 && (value[0] < 0x20 || value[0] == 0x7f);
}

/* Resets a stream whose request is not served. For the client's allowance, that is as if it had reset the stream
 * itself. */
static int refuse(http3_connection *connection, http_stream *stream, uint64_t code)
{
    http3_shut_stream(stream, code);
    return http3_is_refused_too_often(connection) ? -1 : 0;
}

/* Also counts those of a section that still arrives. Returns 0 if they exceed the limit of all. */
static int count_fields(http_stream *stream)
{
    const http_building *building = http3_own(stream)->building;
    return http_count_fields(stream, building == NULL ? 0 : http_building_size(building));
}

/* Refuses a request whose fields exceed the limit together with those of the others: the client may send it again
 * later (RFC 9114, section 4.1.1). If its trailers are what is too much, it is served already. */
static int refuse_fields(http3_connection *connection, http_stream *stream, http_section section)
{
    end_building(stream);
    http_drop_section(&stream->fields, section);
    return refuse(connection, stream, section == HTTP_SECTION_HEAD ? HTTP3_REQUEST_REJECTED : HTTP3_EXCESSIVE_LOAD);
}

static int on_header(nghttp3_conn *http, int64_t id, int32_t token, nghttp3_rcbuf *name, nghttp3_rcbuf *value,
                     uint8_t flags, void *data, void *stream_data)
{
    http_stream *stream = stream_data;
    (void)http, (void)id, (void)token, (void)flags;
    if (stream == NULL || http3_own(stream)->building == NULL)
        return 0;
    nghttp3_vec name_bytes = nghttp3_rcbuf_get_buf(name), value_bytes = nghttp3_rcbuf_get_buf(value);
    if (is_control_byte(value_bytes.base, value_bytes.len))
        return 0;
    http3_own(stream)->lines[http3_own(stream)->building->section]++;
    if (http_building_field(http3_own(stream)->building, name_bytes.base, name_bytes.len, value_bytes.base,
                            value_bytes.len) != 0) {
        http3_exceed(data, HTTP_LIMIT_HEADS);
        return NGHTTP3_ERR_CALLBACK_FAILURE;
    }
    if (count_fields(stream) || refuse_fields(data, stream, http3_own(stream)->building->section) == 0)
        return 0;
    return NGHTTP3_ERR_CALLBACK_FAILURE;
}

/* A request of 0-RTT may be one that somebody repeats. The application learns of that by a field (RFC 8470, section
 * 5.1), as it would from a proxy. */
static int mark_early(http_stream *stream)
{
    static const char name[] = "early-data", value[] = "1";
    return http_building_field(http3_own(stream)->building, (const uint8_t *)name, sizeof name - 1,
                               (const uint8_t *)value, sizeof value - 1);
}

typedef enum http3_start {
    HTTP3_START,       /* it is served now */
    HTTP3_START_EARLY, /* the same, though it may be a repetition: that changes nothing */
    HTTP3_START_LATER  /* after the handshake, when it is none */
} http3_start;

static http3_start start_of(const http3_connection *connection, const http_stream *stream)
{
    http_method method = (http_method)stream->head.method;
    if (!http3_own(stream)->came_early || connection->is_established)
        return HTTP3_START;
    return method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD ? HTTP3_START_EARLY : HTTP3_START_LATER;
}

static void begin_request(http3_connection *connection, http_stream *stream, http3_start start)
{
    http_conduct_earn(&connection->streams.conduct, HTTP_REQUEST_FRAMES);
    connection->requests++;
    if (start == HTTP3_START_LATER) {
        http_enlist(stream, &connection->held);
        return;
    }
    http3_own(stream)->is_early = start == HTTP3_START_EARLY;
    http3_tell_open(connection);
    http3_make_ready(stream);
}

/* Whether libnghttp3 has left out a field of the section that ends. */
static int lacks_line(const http_stream *stream, http_section section)
{
    return http3_own(stream)->lines[section] < http3_own(stream)->frames.lines[section];
}

static int end_section(http3_connection *connection, http_stream *stream)
{
    http_section section = http3_own(stream)->building->section;
    http3_start start = start_of(connection, stream);
    int result = section == HTTP_SECTION_HEAD && start == HTTP3_START_EARLY ? mark_early(stream) : 0;
    if (result == 0)
        result = http_building_end(http3_own(stream)->building, HTTP_SECURE);
    end_building(stream);
    if (lacks_line(stream, section))
        return refuse(connection, stream, HTTP3_MESSAGE_ERROR);
    if (result != 0)
        return refuse(connection, stream, result < 0 ? HTTP3_INTERNAL_ERROR : HTTP3_EXCESSIVE_LOAD);
    if (!count_fields(stream))
        return refuse_fields(connection, stream, section);
    if (section == HTTP_SECTION_HEAD)
        begin_request(connection, stream, start);
    return 0;
}

static int on_end_headers(nghttp3_conn *http, int64_t id, int fin, void *data, void *stream_data)
{
    http_stream *stream = stream_data;
    (void)http, (void)id, (void)fin;
    return stream == NULL || http3_own(stream)->building == NULL || end_section(data, stream) == 0
               ? 0
               : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static int on_body(nghttp3_conn *http, int64_t id, const uint8_t *bytes, size_t length, void *data, void *stream_data)
{
    http3_connection *connection = data;
    (void)http;
    if (stream_data == NULL)
        open_windows(connection, id, length);
    else if (http_take_input(stream_data, bytes, length) != 0)
        http3_fail(connection, HTTP3_INTERNAL_ERROR);
    return 0;
}

/* Bytes that waited for the QPACK table were processed. */
static int on_deferred(nghttp3_conn *http, int64_t id, size_t length, void *data, void *stream_data)
{
    (void)http, (void)stream_data;
    open_windows(data, id, length);
    return 0;
}

static int on_end_stream(nghttp3_conn *http, int64_t id, void *data, void *stream_data)
{
    (void)http, (void)id, (void)data;
    if (stream_data != NULL)
        http_end_input(stream_data);
    return 0;
}

static int on_http_close(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    (void)http, (void)id, (void)code, (void)data;
    if (stream_data != NULL)
        http3_close_stream(stream_data);
    return 0;
}

/* The record of a request that libnghttp3 refuses. NULL: the stream carries none. */
static http_stream *refused(const http3_connection *connection, int64_t id, http_stream *known)
{
    return known == NULL && ngtcp2_is_bidi_stream(id) ? connection->reading : known;
}

static int on_stop_wanted(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http_stream *stream = refused(connection, id, stream_data);
    if (stream != NULL) {
        stream->has_stopped = 1;
        http_lose_stream(stream);
        (void)nghttp3_conn_shutdown_stream_read(http, id);
    } else if (http3_is_useless(connection, 1)) { /* a stream of an unknown type */
        return NGHTTP3_ERR_CALLBACK_FAILURE;
    }
    return ngtcp2_conn_shutdown_stream_read(connection->quic, 0, id, code) == 0 ? 0 : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static int on_reset_wanted(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http_stream *stream = refused(connection, id, stream_data);
    (void)http;
    if (stream != NULL)
        http_lose_stream(stream);
    if (http3_is_refused_too_often(connection))
        return NGHTTP3_ERR_CALLBACK_FAILURE;
    return ngtcp2_conn_shutdown_stream_write(connection->quic, 0, id, code) == 0 ? 0 : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static int on_body_acknowledged(nghttp3_conn *http, int64_t id, uint64_t length, void *data, void *stream_data)
{
    (void)http, (void)id, (void)data;
    if (stream_data != NULL)
        http3_note_acknowledged(stream_data, length);
    return 0;
}

static const nghttp3_callbacks http_callbacks = {
    .acked_stream_data = on_body_acknowledged,
    .stream_close = on_http_close,
    .recv_data = on_body,
    .deferred_consume = on_deferred,
    .begin_headers = on_begin_headers,
    .recv_header = on_header,
    .end_headers = on_end_headers,
    .begin_trailers = on_begin_trailers,
    .recv_trailer = on_header,
    .end_trailers = on_end_headers,
    .stop_sending = on_stop_wanted,
    .end_stream = on_end_stream,
    .reset_stream = on_reset_wanted,
};

/* Begins with HTTP as soon as packets can be protected (RFC 9114, section 3.3). */
int http3_begin_http(http3_connection *connection)
{
    const http3_settings *limits = &connection->endpoint->settings;
    int64_t *own = connection->own_streams;
    nghttp3_settings settings;
    if (connection->http != NULL)
        return 0;
    nghttp3_settings_default(&settings);
    settings.max_field_section_size = limits->common.head_max + 32 * (uint64_t)limits->common.fields_max;
    settings.qpack_max_dtable_capacity = limits->common.table_max;
    settings.qpack_encoder_max_dtable_capacity = limits->common.table_max;
    settings.qpack_blocked_streams = limits->blocked_max;
    settings.enable_connect_protocol = 1;
    if (ngtcp2_conn_get_streams_uni_left(connection->quic) < HTTP3_OWN_STREAMS) {
        http3_fail(connection, GENERAL_PROTOCOL_ERROR);
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    if (nghttp3_conn_server_new(&connection->http, &http_callbacks, &settings, &connection->http_memory, connection) !=
        0)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    nghttp3_conn_set_max_client_streams_bidi(connection->http, limits->common.streams_max);
    for (unsigned i = 0; i < HTTP3_OWN_STREAMS; i++)
        if (ngtcp2_conn_open_uni_stream(connection->quic, &own[i], NULL) != 0)
            return NGTCP2_ERR_CALLBACK_FAILURE;
    if (nghttp3_conn_bind_control_stream(connection->http, own[0]) != 0 ||
        nghttp3_conn_bind_qpack_streams(connection->http, own[1], own[2]) != 0)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Bytes of requests */

/* Whether the request is malformed because of the lengths of its frames. libnghttp3 would end the whole connection.
 * It takes what a client says of the length of a tunnel for nothing, and so does this. */
static int contradicts_length(const http_stream *stream, int is_end)
{
    const http_request_head *head = &stream->head;
    if (!http3_own(stream)->has_head || http3_own(stream)->building != NULL || head->content_length < 0 ||
        (head->method == HTTP_METHOD_CONNECT && head->protocol_length == 0))
        return 0;
    uint64_t length = (uint64_t)head->content_length;
    return http3_own(stream)->frames.body > length || (is_end && http3_own(stream)->frames.body < length);
}

/* Of a head that waits for the QPACK table, libnghttp3 decodes all at once when it need not wait any more. */
static int waits_with_many_lines(const http_stream *stream)
{
    const http3_frames *frames = &http3_own(stream)->frames;
    return frames->lines[frames->section] - http3_own(stream)->lines[frames->section] >
           http3_endpoint_of(stream)->settings.common.fields_max + HTTP3_SLICE_LINES;
}

/* Why the request is refused before libnghttp3 sees these bytes. HTTP3_NO_ERROR: it is not. */
static uint64_t fault_of(const http_stream *stream, int is_end)
{
    const http3_frames *frames = &http3_own(stream)->frames;
    if (is_end && frames->sections_ended == 0 && http3_frames_is_between(frames))
        return HTTP3_REQUEST_INCOMPLETE;
    if (contradicts_length(stream, is_end && http3_frames_is_between(frames)))
        return HTTP3_MESSAGE_ERROR;
    return waits_with_many_lines(stream) ? HTTP3_EXCESSIVE_LOAD : HTTP3_NO_ERROR;
}

static int is_long_head(http3_connection *connection, const http3_frames *frames)
{
    if (!http3_frames_in_section(frames) ||
        frames->length <= connection->endpoint->settings.common.head_max + HEAD_BYTES_SPARE)
        return 0;
    http3_exceed(connection, HTTP_LIMIT_HEADS);
    return 1;
}

/* Gives bytes to libnghttp3. Returns how many of them it has used up, or -1. Those of bodies do not count, nor those
 * that wait for the QPACK table. */
nghttp3_ssize http3_read_bytes(http3_connection *connection, int64_t id, const uint8_t *bytes, size_t length,
                               int is_end)
{
    nghttp3_ssize used = nghttp3_conn_read_stream(connection->http, id, bytes, length, is_end);
    if (used < 0) {
        (void)http3_failed(connection, used);
        return -1;
    }
    open_windows(connection, id, (uint64_t)used);
    return connection->has_error ? -1 : used;
}

static uint32_t lines_of(const uint32_t *lines)
{
    return lines[HTTP_SECTION_HEAD] + lines[HTTP_SECTION_TRAILERS];
}

/* Gives libnghttp3 the next bytes of a request, with as many field lines as it may look at in vain. Returns how many
 * bytes that were, or -1. */
static nghttp3_ssize read_slice(http3_connection *connection, http_stream *stream, const uint8_t *bytes, size_t length,
                                int is_last)
{
    http3_frames *frames = &http3_own(stream)->frames;
    uint64_t passed = frames->passed;
    uint32_t lines = lines_of(frames->lines);
    size_t slice = http3_frames_follow(frames, bytes, length);
    int is_end = is_last && slice == length;
    if (is_long_head(connection, frames))
        return -1;
    uint64_t fault = fault_of(stream, is_end);
    if (fault != HTTP3_NO_ERROR) {
        open_windows(connection, http3_id_of(stream), length);
        return refuse(connection, stream, fault) == 0 ? (nghttp3_ssize)length : -1;
    }
    nghttp3_ssize used = http3_read_bytes(connection, http3_id_of(stream), bytes, slice, is_end);
    if (used < 0)
        return -1;
    int has_decoded = (uint64_t)used + (frames->passed - passed) == slice && lines < lines_of(frames->lines);
    if (has_decoded && !stream->has_failed && lines_of(http3_own(stream)->lines) < lines_of(frames->lines) &&
        refuse(connection, stream, HTTP3_MESSAGE_ERROR) != 0)
        return -1;
    return (nghttp3_ssize)slice;
}

int http3_read_request(http3_connection *connection, http_stream *stream, const uint8_t *bytes, size_t length,
                       int is_last)
{
    size_t read = 0;
    do {
        /* What still comes of a request that is not wanted. */
        if (stream->has_stopped) {
            open_windows(connection, http3_id_of(stream), length - read);
            return 0;
        }
        nghttp3_ssize slice = read_slice(connection, stream, bytes + read, length - read, is_last);
        if (slice < 0)
            return -1;
        read += (size_t)slice;
    } while (read < length);
    http_stop_client(stream);
    return 0;
}

int http3_tell_acknowledged(http3_connection *connection, int64_t id, uint64_t length)
{
    int result = nghttp3_conn_add_ack_offset(connection->http, id, length);
    return result == 0 ? 0 : http3_failed(connection, result);
}
