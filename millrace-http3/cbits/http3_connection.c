/*
 * http3_connection.c - a connection on ngtcp2 and libnghttp3. Must not know: GHC, sockets, the clock.
 *
 * The libraries' callbacks run within http3_read_packet, http3_write_packets and http3_expire, with the endpoint's lock held. They only
 * change records and queue notices. If one finds a reason to end the connection, it notes it; the end comes when the library has
 * returned.
 *
 * A connection that ends gives back the libraries' memory at once. What remains is a small record with its last packet, so that
 * late packets of the client are recognised (RFC 9000, section 10.2).
 */
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "http3_internal.h"

/* Streams of the client that carry no requests: control, QPACK, and some of unknown types (RFC 9114, section 6.2). */
#define UNI_STREAMS       8u
#define UNI_STREAM_WINDOW 65536u

/* IDs that a client may give us (RFC 9000, section 18.2). */
#define CLIENT_IDS 4u

#define RANDOM_LENGTH (HTTP3_ID_LENGTH - 2)

/* Over Ethernet, larger datagrams are not tried, and this one is tried before larger ones. */
#define ORDINARY_DATAGRAM 1452u

/* The limit of records of ended connections. */
#define ENDING_MAX 4096u

/* A HEADERS frame may be this many bytes longer than head_max, although it is compressed. */
#define HEAD_BYTES_SPARE 16384u

#define GENERAL_PROTOCOL_ERROR UINT64_C(0x101)

/* What a packet costs of the allowance for frames without use. Packets that bring something earn that back. */
#define PACKET_FRAMES 0.25

/* A client that has made as many requests as it may has so long to stop, before those that follow are refused. */
#define NOTICE_TIME (250 * HTTP3_MILLISECOND)

/* ------------------------------------------------------------------------------------------------------------------
 * Memory */

/* What a client sends in the wrong order waits in small records, which may have a hundred times the size of its bytes. So the libraries'
 * memory for a connection has a limit. It does not make allocation fail: the connection ends when the library has returned. */
#define HANDSHAKE_MEMORY_MAX 262144u
#define MEMORY_SPARE         4194304u

static void exceed(http3_connection *connection, http_limit limit);

static void *note_taken(http3_connection *connection, void *memory)
{
    const http3_settings *limits = &connection->endpoint->settings;
    /* The window grows as the client's bytes are read. */
    uint64_t window = limits->connection_window + connection->received;
    uint64_t most = HANDSHAKE_MEMORY_MAX;
    if (connection->is_established)
        most = MEMORY_SPARE + (window < limits->window_max ? window : limits->window_max);
    if (connection->memory.bytes > most)
        exceed(connection, HTTP_LIMIT_MEMORY);
    return memory;
}

static void *take(size_t size, void *data)
{
    return note_taken(data, http3_memory_take(&((http3_connection *)data)->memory, size));
}

static void give(void *memory, void *data)
{
    http3_memory_give(&((http3_connection *)data)->memory, memory);
}

static void *take_zeroed(size_t count, size_t size, void *data)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return note_taken(data, http3_memory_take_zeroed(&((http3_connection *)data)->memory, count * size));
}

static void *resize(void *memory, size_t size, void *data)
{
    return note_taken(data, http3_memory_resize(&((http3_connection *)data)->memory, memory, size));
}

/* Must be called before the libraries are, unless a packet has just arrived or something was just due. */
static void wake(http3_connection *connection)
{
    http3_memory_unpack(&connection->memory);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Pending connections */

void http3_make_pending(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (connection->is_pending)
        return;
    connection->is_pending = 1;
    connection->next_pending = NULL;
    connection->previous_pending = endpoint->last_pending;
    if (endpoint->last_pending == NULL)
        endpoint->first_pending = connection;
    else
        endpoint->last_pending->next_pending = connection;
    endpoint->last_pending = connection;
}

void http3_leave_pending(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (!connection->is_pending)
        return;
    connection->is_pending = 0;
    if (connection->previous_pending == NULL)
        endpoint->first_pending = connection->next_pending;
    else
        connection->previous_pending->next_pending = connection->next_pending;
    if (connection->next_pending == NULL)
        endpoint->last_pending = connection->previous_pending;
    else
        connection->next_pending->previous_pending = connection->previous_pending;
}

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
static int failed(http3_connection *connection, nghttp3_ssize result)
{
    http3_fail(connection, nghttp3_err_infer_quic_app_error_code((int)result));
    return NGTCP2_ERR_CALLBACK_FAILURE;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Limits: http_limit.h. Each of these functions returns whether the connection must end at once. */

static void fail_for_limit(http3_connection *connection)
{
    const char *text = http_limit_text(connection->conduct.limit);
    if (connection->has_error)
        return;
    connection->has_error = 1;
    ngtcp2_ccerr_set_application_error(&connection->error, HTTP3_EXCESSIVE_LOAD, (const uint8_t *)text, strlen(text));
}

static void exceed(http3_connection *connection, http_limit limit)
{
    http_conduct_exceed(&connection->conduct, limit);
    fail_for_limit(connection);
}

static int obey(http3_connection *connection, http_verdict verdict)
{
    if (verdict == HTTP_GO_ON)
        return 0;
    fail_for_limit(connection);
    return 1;
}

static int is_useless(http3_connection *connection, double frames)
{
    const http3_endpoint *endpoint = connection->endpoint;
    return obey(connection,
                http_conduct_useless(&connection->conduct, &endpoint->settings.allowances, frames, endpoint->now));
}

static int is_refused_too_often(http3_connection *connection)
{
    const http3_endpoint *endpoint = connection->endpoint;
    return obey(connection, http_conduct_reset(&connection->conduct, &endpoint->settings.allowances, endpoint->now));
}

/* The client cancels a request, with RESET_STREAM or STOP_SENDING. That is no waste if there is an answer already. NULL: nothing of
 * the request has come. */
static int is_cancelled_too_often(http3_connection *connection, http3_inner *stream)
{
    const http3_endpoint *endpoint = connection->endpoint;
    if (stream == NULL)
        return is_useless(connection, PACKET_FRAMES);
    if (stream->has_failed)
        return 0;
    int is_begun = stream->is_taken || stream->is_ready || stream->is_held;
    if (is_useless(connection, 1))
        return 1;
    return is_begun && stream->answer_state == HTTP3_UNANSWERED &&
           obey(connection, http_conduct_cancel(&connection->conduct, &endpoint->settings.allowances,
                                                &stream->seen.cancellation, stream->is_taken, endpoint->now));
}

/* When the client has gone beyond a limit, or made as many requests as it may, it is told once, and the connection ends when what was begun
 * is finished. Not within callbacks. */
static void begin_end(http3_connection *connection)
{
    const http3_endpoint *endpoint = connection->endpoint;
    uint32_t most = endpoint->settings.requests_max;
    if (http_conduct_tell(&connection->conduct) != HTTP_LIMIT_NONE) {
        if (connection->is_told)
            http3_push_change(connection, HTTP3_LIMITED);
        if (connection->is_established)
            http3_announce(connection, HTTP3_END_LAST);
        else
            fail_for_limit(connection);
    } else if (most > 0 && connection->requests >= most && !connection->is_last_announced &&
               connection->last_at == UINT64_MAX) {
        connection->last_at = endpoint->now + NOTICE_TIME;
        http3_announce(connection, HTTP3_END_NOTICE);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * libnghttp3's callbacks */

static void open_windows(http3_connection *connection, int64_t id, uint64_t length)
{
    ngtcp2_conn_extend_max_stream_offset(connection->quic, id, length);
    ngtcp2_conn_extend_max_offset(connection->quic, length);
}

static int begin_section(http3_inner *stream, http_section section)
{
    http3_endpoint *endpoint = stream->endpoint;
    if (stream->building == NULL) {
        stream->building = endpoint->spare;
        endpoint->spare = NULL;
    }
    return http_building_begin(&stream->building, &endpoint->limits, section, stream, &stream->seen.head,
                               &stream->fields) == 0
               ? 0
               : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static void end_building(http3_inner *stream)
{
    http3_endpoint *endpoint = stream->endpoint;
    if (endpoint->spare == NULL) {
        endpoint->spare = stream->building;
        stream->building = NULL;
    } else {
        http_building_drop(&stream->building);
    }
}

static int on_begin_headers(nghttp3_conn *http, int64_t id, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http3_inner *stream = connection->reading;
    (void)stream_data;
    stream->has_head = 1;
    stream->came_early = connection->reads_early;
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
static int refuse(http3_connection *connection, http3_inner *stream, uint64_t code)
{
    http3_shut_stream(stream, code);
    return is_refused_too_often(connection) ? -1 : 0;
}

/* Counts the fields of a request, also those of a section that still arrives. Returns 0 if they exceed the limit of all. */
static int count_fields(http3_connection *connection, http3_inner *stream)
{
    uint64_t size = http_head_size(&stream->seen.head) + stream->fields.trailers_length;
    uint64_t others = connection->heads_size - stream->head_size;
    if (stream->building != NULL)
        size += http_building_size(stream->building);
    if (others > 0 && others + size > (uint64_t)HTTP_HEADS_AT_A_TIME * connection->endpoint->settings.head_max)
        return 0;
    stream->head_size = (uint32_t)size;
    connection->heads_size = others + size;
    return 1;
}

/* Refuses a request for which there is no room beside the others: the client may send it again later (RFC 9114, section 4.1.1). If its
 * trailers are what is too much, it is served already. */
static int refuse_fields(http3_connection *connection, http3_inner *stream, http_section section)
{
    end_building(stream);
    http_drop_section(&stream->fields, section);
    return refuse(connection, stream, section == HTTP_SECTION_HEAD ? HTTP3_REQUEST_REJECTED : HTTP3_EXCESSIVE_LOAD);
}

static int on_header(nghttp3_conn *http, int64_t id, int32_t token, nghttp3_rcbuf *name, nghttp3_rcbuf *value,
                     uint8_t flags, void *data, void *stream_data)
{
    http3_inner *stream = stream_data;
    (void)http, (void)id, (void)token, (void)flags;
    if (stream == NULL || stream->building == NULL)
        return 0;
    nghttp3_vec name_bytes = nghttp3_rcbuf_get_buf(name), value_bytes = nghttp3_rcbuf_get_buf(value);
    if (is_control_byte(value_bytes.base, value_bytes.len))
        return 0;
    stream->lines[stream->building->section]++;
    if (http_building_field(stream->building, name_bytes.base, name_bytes.len, value_bytes.base, value_bytes.len) !=
        0) {
        exceed(data, HTTP_LIMIT_HEADS);
        return NGHTTP3_ERR_CALLBACK_FAILURE;
    }
    if (count_fields(data, stream) || refuse_fields(data, stream, stream->building->section) == 0)
        return 0;
    return NGHTTP3_ERR_CALLBACK_FAILURE;
}

/* A connection counts from the end of its handshake on, or from an earlier request. */
static void tell_open(http3_connection *connection)
{
    if (!connection->is_told)
        http3_push_change(connection, HTTP3_OPENED);
    connection->is_told = 1;
}

/* A request of 0-RTT may be one that somebody repeats. The application learns of that by a field (RFC 8470, section 5.1), as it would from a
 * proxy. */
static int mark_early(http3_inner *stream)
{
    static const char name[] = "early-data", value[] = "1";
    return http_building_field(stream->building, (const uint8_t *)name, sizeof name - 1, (const uint8_t *)value,
                               sizeof value - 1);
}

typedef enum http3_start {
    HTTP3_START,       /* it is served now */
    HTTP3_START_EARLY, /* the same, though it may be a repetition: that changes nothing */
    HTTP3_START_LATER  /* after the handshake, when it is none */
} http3_start;

static http3_start start_of(const http3_connection *connection, const http3_inner *stream)
{
    http_method method = (http_method)stream->seen.head.method;
    if (!stream->came_early || connection->is_established)
        return HTTP3_START;
    return method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD ? HTTP3_START_EARLY : HTTP3_START_LATER;
}

static void begin_request(http3_connection *connection, http3_inner *stream, http3_start start)
{
    http_conduct_earn(&connection->conduct, HTTP_REQUEST_FRAMES);
    connection->requests++;
    if (start == HTTP3_START_LATER) {
        http3_hold(stream);
        return;
    }
    stream->seen.is_early = start == HTTP3_START_EARLY;
    tell_open(connection);
    http3_make_ready(stream);
}

/* Has libnghttp3 left out a field of the section that ends? */
static int lacks_line(const http3_inner *stream, http_section section)
{
    return stream->lines[section] < stream->frames.lines[section];
}

static int end_section(http3_connection *connection, http3_inner *stream)
{
    http_section section = stream->building->section;
    http3_start start = start_of(connection, stream);
    int result = section == HTTP_SECTION_HEAD && start == HTTP3_START_EARLY ? mark_early(stream) : 0;
    if (result == 0)
        result = http_building_end(stream->building, HTTP_SECURE);
    end_building(stream);
    if (lacks_line(stream, section))
        return refuse(connection, stream, HTTP3_MESSAGE_ERROR);
    if (result != 0)
        return refuse(connection, stream, result < 0 ? HTTP3_INTERNAL_ERROR : HTTP3_EXCESSIVE_LOAD);
    if (!count_fields(connection, stream))
        return refuse_fields(connection, stream, section);
    if (section == HTTP_SECTION_HEAD)
        begin_request(connection, stream, start);
    return 0;
}

static int on_end_headers(nghttp3_conn *http, int64_t id, int fin, void *data, void *stream_data)
{
    http3_inner *stream = stream_data;
    (void)http, (void)id, (void)fin;
    return stream == NULL || stream->building == NULL || end_section(data, stream) == 0 ? 0
                                                                                        : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static int on_body(nghttp3_conn *http, int64_t id, const uint8_t *bytes, size_t length, void *data, void *stream_data)
{
    http3_connection *connection = data;
    (void)http;
    if (stream_data == NULL)
        open_windows(connection, id, length);
    else
        http3_take_input(stream_data, bytes, length);
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
        http3_end_input(stream_data);
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
static http3_inner *refused(const http3_connection *connection, int64_t id, http3_inner *known)
{
    return known == NULL && ngtcp2_is_bidi_stream(id) ? connection->reading : known;
}

static int on_stop_wanted(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http3_inner *stream = refused(connection, id, stream_data);
    if (stream != NULL) {
        stream->has_stopped = 1;
        http3_lose_stream(stream);
        (void)nghttp3_conn_shutdown_stream_read(http, id);
    } else if (is_useless(connection, 1)) { /* a stream of an unknown type */
        return NGHTTP3_ERR_CALLBACK_FAILURE;
    }
    return ngtcp2_conn_shutdown_stream_read(connection->quic, 0, id, code) == 0 ? 0 : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static int on_reset_wanted(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http3_inner *stream = refused(connection, id, stream_data);
    (void)http;
    if (stream != NULL)
        http3_lose_stream(stream);
    if (is_refused_too_often(connection))
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
static int begin_http(http3_connection *connection)
{
    const http3_settings *limits = &connection->endpoint->settings;
    int64_t *own = connection->own_streams;
    nghttp3_settings settings;
    if (connection->http != NULL)
        return 0;
    nghttp3_settings_default(&settings);
    settings.max_field_section_size = limits->head_max + 32 * (uint64_t)limits->fields_max;
    settings.qpack_max_dtable_capacity = limits->table_max;
    settings.qpack_encoder_max_dtable_capacity = limits->table_max;
    settings.qpack_blocked_streams = limits->blocked_max;
    settings.enable_connect_protocol = 1;
    if (ngtcp2_conn_get_streams_uni_left(connection->quic) < HTTP3_OWN_STREAMS) {
        http3_fail(connection, GENERAL_PROTOCOL_ERROR);
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    if (nghttp3_conn_server_new(&connection->http, &http_callbacks, &settings, &connection->http_memory, connection) !=
        0)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    nghttp3_conn_set_max_client_streams_bidi(connection->http, limits->streams_max);
    for (unsigned i = 0; i < HTTP3_OWN_STREAMS; i++)
        if (ngtcp2_conn_open_uni_stream(connection->quic, &own[i], NULL) != 0)
            return NGTCP2_ERR_CALLBACK_FAILURE;
    if (nghttp3_conn_bind_control_stream(connection->http, own[0]) != 0 ||
        nghttp3_conn_bind_qpack_streams(connection->http, own[1], own[2]) != 0)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * ngtcp2's callbacks */

/* Is the request malformed because of the lengths of its frames? libnghttp3 would end the whole connection. It takes
 * what a client says of the length of a tunnel for nothing, and so does this. */
static int contradicts_length(const http3_inner *stream, int is_end)
{
    const http_request_head *head = &stream->seen.head;
    if (!stream->has_head || stream->building != NULL || head->content_length < 0 ||
        (head->method == HTTP_METHOD_CONNECT && head->protocol_length == 0))
        return 0;
    uint64_t length = (uint64_t)head->content_length;
    return stream->frames.body > length || (is_end && stream->frames.body < length);
}

/* Of a head that waits for the QPACK table, libnghttp3 decodes all at once when it need not wait any more. */
static int waits_with_many_lines(const http3_inner *stream)
{
    const http3_frames *frames = &stream->frames;
    return frames->lines[frames->section] - stream->lines[frames->section] >
           stream->endpoint->settings.fields_max + HTTP3_SLICE_LINES;
}

/* Why the request is refused before libnghttp3 sees these bytes. HTTP3_NO_ERROR: it is not. */
static uint64_t fault_of(const http3_inner *stream, int is_end)
{
    const http3_frames *frames = &stream->frames;
    if (is_end && frames->sections_ended == 0 && http3_frames_is_between(frames))
        return HTTP3_REQUEST_INCOMPLETE;
    if (contradicts_length(stream, is_end && http3_frames_is_between(frames)))
        return HTTP3_MESSAGE_ERROR;
    return waits_with_many_lines(stream) ? HTTP3_EXCESSIVE_LOAD : HTTP3_NO_ERROR;
}

static int is_long_head(http3_connection *connection, const http3_frames *frames)
{
    if (!http3_frames_in_section(frames) ||
        frames->length <= connection->endpoint->settings.head_max + HEAD_BYTES_SPARE)
        return 0;
    exceed(connection, HTTP_LIMIT_HEADS);
    return 1;
}

/* Gives bytes to libnghttp3. Returns how many of them it has used up, or -1. Those of bodies do not count, nor those
 * that wait for the QPACK table. */
static nghttp3_ssize read_bytes(http3_connection *connection, int64_t id, const uint8_t *bytes, size_t length,
                                int is_end)
{
    nghttp3_ssize used = nghttp3_conn_read_stream(connection->http, id, bytes, length, is_end);
    if (used < 0) {
        (void)failed(connection, used);
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
static nghttp3_ssize read_slice(http3_connection *connection, http3_inner *stream, const uint8_t *bytes, size_t length,
                                int is_last)
{
    http3_frames *frames = &stream->frames;
    uint64_t passed = frames->passed;
    uint32_t lines = lines_of(frames->lines);
    size_t slice = http3_frames_follow(frames, bytes, length);
    int is_end = is_last && slice == length;
    if (is_long_head(connection, frames))
        return -1;
    uint64_t fault = fault_of(stream, is_end);
    if (fault != HTTP3_NO_ERROR) {
        open_windows(connection, stream->seen.id, length);
        return refuse(connection, stream, fault) == 0 ? (nghttp3_ssize)length : -1;
    }
    nghttp3_ssize used = read_bytes(connection, stream->seen.id, bytes, slice, is_end);
    if (used < 0)
        return -1;
    int has_decoded = (uint64_t)used + (frames->passed - passed) == slice && lines < lines_of(frames->lines);
    if (has_decoded && !stream->has_failed && lines_of(stream->lines) < lines_of(frames->lines) &&
        refuse(connection, stream, HTTP3_MESSAGE_ERROR) != 0)
        return -1;
    return (nghttp3_ssize)slice;
}

static int read_request(http3_connection *connection, http3_inner *stream, const uint8_t *bytes, size_t length,
                        int is_last)
{
    size_t read = 0;
    do {
        /* What still comes of a request that is not wanted. */
        if (stream->has_stopped) {
            open_windows(connection, stream->seen.id, length - read);
            return 0;
        }
        nghttp3_ssize slice = read_slice(connection, stream, bytes + read, length - read, is_last);
        if (slice < 0)
            return -1;
        read += (size_t)slice;
    } while (read < length);
    http3_stop_client(stream);
    return 0;
}

/* The record of a request, from its first byte on. */
static http3_inner *request_of(http3_connection *connection, int64_t id, http3_inner *known)
{
    http3_inner *stream = known == NULL ? http3_new_stream(connection, id) : known;
    if (stream != known)
        (void)ngtcp2_conn_set_stream_user_data(connection->quic, id, stream);
    return stream;
}

static int on_stream_data(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t offset, const uint8_t *bytes,
                          size_t length, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http3_inner *known = stream_data;
    int is_last = (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0;
    (void)quic, (void)offset;
    if (connection->http == NULL)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    connection->received += length;
    connection->reads_early = (flags & NGTCP2_STREAM_DATA_FLAG_0RTT) != 0;
    if (!ngtcp2_is_bidi_stream(id))
        return read_bytes(connection, id, bytes, length, is_last) < 0 ? NGTCP2_ERR_CALLBACK_FAILURE : 0;
    if (length > 0 && known != NULL && known->has_head)
        http_conduct_earn(&connection->conduct, PACKET_FRAMES);
    connection->reading = request_of(connection, id, known);
    return connection->reading == NULL || read_request(connection, connection->reading, bytes, length, is_last) != 0
               ? NGTCP2_ERR_CALLBACK_FAILURE
               : 0;
}

static int tell_acknowledged(http3_connection *connection, int64_t id, uint64_t length)
{
    int result = nghttp3_conn_add_ack_offset(connection->http, id, length);
    return result == 0 ? 0 : failed(connection, result);
}

/* libnghttp3 1.8 forgets an end without bytes that waits, for instance for the congestion window, when it hears that all before it was
 * acknowledged. So it hears that later. */
static int on_acknowledged(ngtcp2_conn *quic, int64_t id, uint64_t offset, uint64_t length, void *data,
                           void *stream_data)
{
    http3_connection *connection = data;
    http3_inner *stream = stream_data;
    (void)quic, (void)offset;
    if (connection->http == NULL)
        return 0;
    http_conduct_earn(&connection->conduct, 2 * PACKET_FRAMES);
    if (stream != NULL && stream->end_waits)
        stream->untold += length;
    else if (tell_acknowledged(connection, id, length) != 0)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    if (stream != NULL)
        http3_note_confirmed(stream, length);
    return 0;
}

static int on_stream_close(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http3_inner *stream = stream_data;
    if (connection->http == NULL)
        return 0;
    if (!(flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET))
        code = HTTP3_NO_ERROR;
    /* The client wanted nothing more of the response (STOP_SENDING), before there was anything to be sent. */
    else if (stream != NULL && !stream->has_stopped && is_cancelled_too_often(connection, stream))
        return NGTCP2_ERR_CALLBACK_FAILURE;
    http3_inner *unknown = stream != NULL && !stream->has_head ? stream : NULL; /* to libnghttp3 */
    int result = nghttp3_conn_close_stream(connection->http, id, code);         /* may free the record */
    if (result != 0 && result != NGHTTP3_ERR_STREAM_NOT_FOUND)
        return failed(connection, result);
    if (!ngtcp2_is_bidi_stream(id)) {
        if (!ngtcp2_conn_is_local_stream(quic, id))
            ngtcp2_conn_extend_max_streams_uni(quic, 1);
    } else if (stream == NULL) { /* nothing had arrived */
        ngtcp2_conn_extend_max_streams_bidi(quic, 1);
    } else if (unknown != NULL) {
        http3_close_stream(unknown);
    }
    return 0;
}

static int on_stream_reset(ngtcp2_conn *quic, int64_t id, uint64_t size, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http3_inner *stream = stream_data;
    (void)size, (void)code;
    /* It was told to stop, and so it does. A response that there is goes on (RFC 9114, section 4.1). */
    if (stream != NULL && stream->has_stopped)
        return 0;
    if (is_cancelled_too_often(connection, stream))
        return NGTCP2_ERR_CALLBACK_FAILURE;
    int result = connection->http == NULL ? 0 : nghttp3_conn_shutdown_stream_read(connection->http, id);
    if (result != 0)
        return failed(connection, result);
    if (ngtcp2_is_bidi_stream(id) && (stream == NULL || !stream->seen.has_ended)) {
        if (stream != NULL)
            http3_lose_stream(stream);
        ngtcp2_conn_shutdown_stream_write(quic, 0, id, HTTP3_REQUEST_CANCELLED);
    }
    return 0;
}

static int on_stream_window(ngtcp2_conn *quic, int64_t id, uint64_t most, void *data, void *stream_data)
{
    http3_connection *connection = data;
    (void)quic, (void)most, (void)stream_data;
    int result = connection->http == NULL ? 0 : nghttp3_conn_unblock_stream(connection->http, id);
    return result == 0 ? 0 : failed(connection, result);
}

static int on_more_streams(ngtcp2_conn *quic, uint64_t most, void *data)
{
    http3_connection *connection = data;
    (void)quic;
    if (connection->http != NULL)
        nghttp3_conn_set_max_client_streams_bidi(connection->http, most);
    return 0;
}

static void fill_random(uint8_t *bytes, size_t length, const ngtcp2_rand_ctx *context)
{
    (void)context;
    (void)gnutls_rnd(GNUTLS_RND_NONCE, bytes, length);
}

/* Makes a connection ID that leads to this endpoint. */
static int make_id(const http3_endpoint *endpoint, ngtcp2_cid *id)
{
    uint16_t owner = endpoint->settings.owner;
    id->datalen = HTTP3_ID_LENGTH;
    id->data[0] = (uint8_t)(owner >> 8);
    id->data[1] = (uint8_t)owner;
    return http3_random(id->data + 2, RANDOM_LENGTH);
}

static int on_new_id(ngtcp2_conn *quic, ngtcp2_cid *id, uint8_t *token, size_t length, void *data)
{
    http3_connection *connection = data;
    const http3_endpoint *endpoint = connection->endpoint;
    (void)quic, (void)length;
    return make_id(endpoint, id) == 0 &&
                   ngtcp2_crypto_generate_stateless_reset_token(token, endpoint->settings.secret, HTTP3_SECRET_LENGTH,
                                                                id) == 0 &&
                   http3_add_id(connection, id->data, id->datalen) == 0
               ? 0
               : NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_id_retired(ngtcp2_conn *quic, const ngtcp2_cid *id, void *data)
{
    (void)quic;
    http3_remove_id(data, id->data, id->datalen);
    return 0;
}

/* After the handshake a client has nothing to say in TLS (RFC 9001, section 4.4 and 6). */
static int on_crypto(ngtcp2_conn *quic, ngtcp2_encryption_level level, uint64_t offset, const uint8_t *bytes,
                     size_t length, void *data)
{
    http3_connection *connection = data;
    if (connection->tls != NULL && connection->takes_early)
        http3_early_protect(&connection->endpoint->early, connection->tls, connection->endpoint->now);
    if (connection->tls != NULL)
        return ngtcp2_crypto_recv_crypto_data_cb(quic, level, offset, bytes, length, data);
    ngtcp2_conn_set_tls_alert(quic, GNUTLS_A_UNEXPECTED_MESSAGE);
    return NGTCP2_ERR_CRYPTO;
}

static int on_key(ngtcp2_conn *quic, ngtcp2_encryption_level level, void *data)
{
    (void)quic;
    return level == NGTCP2_ENCRYPTION_LEVEL_1RTT ? begin_http(data) : 0;
}

/* With the token, the client need not prove its address when it comes back (RFC 9000, section 8.1.3). */
static void send_token(http3_connection *connection, const ngtcp2_path *path)
{
    uint8_t token[NGTCP2_CRYPTO_MAX_REGULAR_TOKENLEN];
    const http3_endpoint *endpoint = connection->endpoint;
    ngtcp2_ssize length = ngtcp2_crypto_generate_regular_token(token, endpoint->settings.secret, HTTP3_SECRET_LENGTH,
                                                               path->remote.addr, path->remote.addrlen, endpoint->now);
    if (length > 0)
        (void)ngtcp2_conn_submit_new_token(connection->quic, token, (size_t)length);
}

static int on_handshake(ngtcp2_conn *quic, void *data)
{
    http3_connection *connection = data;
    http3_endpoint *endpoint = connection->endpoint;
    connection->is_established = 1;
    connection->active_at = endpoint->now;
    endpoint->port->handshake_count--;
    endpoint->counts.connections++;
    tell_open(connection);
    http3_inner *held;
    while ((held = http_list_shift(&connection->held, offsetof(http3_inner, next_ready))) != NULL) {
        held->is_held = 0;
        http3_make_ready(held);
    }
    send_token(connection, ngtcp2_conn_get_path(quic));
    if (endpoint->is_ending)
        http3_announce(connection, endpoint->is_last ? HTTP3_END_LAST : HTTP3_END_NOTICE);
    return 0;
}

static int on_path(ngtcp2_conn *quic, uint32_t flags, const ngtcp2_path *path, const ngtcp2_path *before,
                   ngtcp2_path_validation_result result, void *data)
{
    (void)quic, (void)before;
    if (result == NGTCP2_PATH_VALIDATION_RESULT_SUCCESS && (flags & NGTCP2_PATH_VALIDATION_FLAG_NEW_TOKEN))
        send_token(data, path);
    return 0;
}

static const ngtcp2_callbacks quic_callbacks = {
    .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
    .recv_crypto_data = on_crypto,
    .handshake_completed = on_handshake,
    .encrypt = ngtcp2_crypto_encrypt_cb,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .recv_stream_data = on_stream_data,
    .acked_stream_data_offset = on_acknowledged,
    .stream_close = on_stream_close,
    .rand = fill_random,
    .get_new_connection_id = on_new_id,
    .remove_connection_id = on_id_retired,
    .update_key = ngtcp2_crypto_update_key_cb,
    .path_validation = on_path,
    .stream_reset = on_stream_reset,
    .extend_max_remote_streams_bidi = on_more_streams,
    .extend_max_stream_data = on_stream_window,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
    .recv_tx_key = on_key,
};

/* ------------------------------------------------------------------------------------------------------------------
 * The beginning */

static ngtcp2_conn *connection_of(ngtcp2_crypto_conn_ref *reference)
{
    return ((http3_connection *)reference->user_data)->quic;
}

static int open_quic(http3_connection *connection, const ngtcp2_path *path, const ngtcp2_pkt_hd *head,
                     const ngtcp2_cid *original, ngtcp2_token_type token_type, uint64_t now)
{
    http3_endpoint *endpoint = connection->endpoint;
    const http3_settings *limits = &endpoint->settings;
    /* Those after the first one are for tunnels, and the last one for larger packets than those of Ethernet. */
    const uint16_t probes[] = {ORDINARY_DATAGRAM, 1406, 1342, 1232, (uint16_t)limits->datagram_max};
    ngtcp2_cid id;
    ngtcp2_settings settings;
    ngtcp2_transport_params parameters;
    ngtcp2_settings_default(&settings);
    settings.initial_ts = now;
    settings.cc_algo = limits->congestion == HTTP3_CUBIC ? NGTCP2_CC_ALGO_CUBIC : NGTCP2_CC_ALGO_BBR;
    settings.token = head->token;
    settings.tokenlen = head->tokenlen;
    settings.token_type = token_type;
    settings.max_window = limits->window_max;
    settings.max_stream_window = limits->window_max / 2;
    settings.handshake_timeout = limits->handshake_ms == 0 ? UINT64_MAX : limits->handshake_ms * HTTP3_MILLISECOND;
    settings.max_tx_udp_payload_size = limits->datagram_max;
    if (limits->datagram_max > ORDINARY_DATAGRAM) {
        settings.pmtud_probes = probes;
        settings.pmtud_probeslen = sizeof probes / sizeof *probes;
    }
    settings.no_pmtud = limits->datagram_max <= NGTCP2_MAX_UDP_PAYLOAD_SIZE;
#if NGTCP2_VERSION_NUM >= 0x010f00 /* 1.15 */
    /* It counts useless frames, also those of honest clients: windows of streams of which all was sent. This engine's limit (frames_max)
     * allows them to clients that take what they ask for. */
    settings.glitch_ratelim_burst = UINT32_MAX;
    settings.glitch_ratelim_rate = UINT32_MAX;
#endif
    ngtcp2_transport_params_default(&parameters);
    parameters.initial_max_stream_data_bidi_remote = limits->stream_window;
    parameters.initial_max_stream_data_uni = UNI_STREAM_WINDOW;
    parameters.initial_max_data = limits->connection_window;
    parameters.initial_max_streams_bidi = limits->streams_max;
    parameters.initial_max_streams_uni = UNI_STREAMS;
    parameters.max_idle_timeout = limits->idle_ms * HTTP3_MILLISECOND;
    parameters.active_connection_id_limit = CLIENT_IDS;
    parameters.grease_quic_bit = 1;
    parameters.original_dcid = original != NULL ? *original : head->dcid;
    parameters.original_dcid_present = 1;
    if (original != NULL) {
        parameters.retry_scid = head->dcid;
        parameters.retry_scid_present = 1;
    }
    parameters.stateless_reset_token_present = 1;
    if (make_id(endpoint, &id) != 0 ||
        ngtcp2_crypto_generate_stateless_reset_token(parameters.stateless_reset_token, limits->secret,
                                                     HTTP3_SECRET_LENGTH, &id) != 0 ||
        ngtcp2_conn_server_new(&connection->quic, &head->scid, &id, path, head->version, &quic_callbacks, &settings,
                               &parameters, &connection->quic_memory, connection) != 0)
        return -1;
    connection->credentials = http3_credentials_share(endpoint->credentials);
    /* Without a token of an earlier connection, the sender's address may be a lie. Then only the tickets are for 0-RTT. */
    if (endpoint->settings.early)
        http3_early_note(&endpoint->early, now);
    connection->takes_early = endpoint->settings.early && token_type == NGTCP2_TOKEN_TYPE_NEW_TOKEN;
    connection->tls =
        http3_new_session(connection->credentials, endpoint->ticket_key,
                          endpoint->settings.early ? HTTP3_EARLY_DATA : HTTP3_NO_EARLY_DATA, &connection->reference);
    if (connection->tls == NULL)
        return -1;
    ngtcp2_conn_set_tls_native_handle(connection->quic, connection->tls);
    return http3_add_id(connection, id.data, id.datalen) == 0 &&
                   http3_add_id(connection, head->dcid.data, head->dcid.datalen) == 0
               ? 0
               : -1;
}

static void copy_address(http3_address *target, const ngtcp2_addr *source)
{
    target->length = source->addrlen <= HTTP3_ADDRESS_MAX ? (uint32_t)source->addrlen : 0;
    memcpy(target->bytes, source->addr, target->length);
}

static int is_address(const void *bytes, uint32_t length, const http3_address *address)
{
    return length == address->length && memcmp(bytes, address->bytes, length) == 0;
}

http3_connection *http3_new_connection(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_pkt_hd *head,
                                       const ngtcp2_cid *original, ngtcp2_token_type token_type, uint64_t now)
{
    http3_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->endpoint = endpoint;
    http3_memory_begin(&connection->memory, &endpoint->rooms);
    connection->number = ++endpoint->next_number;
    connection->reference = (ngtcp2_crypto_conn_ref){.get_conn = connection_of, .user_data = connection};
    connection->quic_memory = (ngtcp2_mem){connection, take, give, take_zeroed, resize};
    connection->http_memory = (nghttp3_mem){connection, take, give, take_zeroed, resize};
    connection->active_at = now;
    http_conduct_begin(&connection->conduct, &endpoint->settings.allowances, now);
    connection->last_at = UINT64_MAX;
    copy_address(&connection->remote, &path->remote);
    copy_address(&connection->local, &path->local);
    connection->latest = connection->remote;
    ngtcp2_ccerr_default(&connection->error);
    if (http3_enter_heap(connection, UINT64_MAX) != 0) {
        http3_memory_end(&connection->memory, &endpoint->rooms);
        free(connection);
        return NULL;
    }
    connection->next = endpoint->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    endpoint->connections = connection;
    endpoint->open_count++;
    endpoint->port->open_count++;
    endpoint->port->handshake_count++;
    if (open_quic(connection, path, head, original, token_type, now) != 0) {
        http3_drop_connection(connection);
        return NULL;
    }
    return connection;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The end */

static void end_tls(http3_connection *connection)
{
    if (connection->tls != NULL)
        gnutls_deinit(connection->tls);
    http3_credentials_free(connection->credentials);
    connection->tls = NULL;
    connection->credentials = NULL;
}

/* Gives the libraries' memory back, and ends all streams. */
static void end_libraries(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    wake(connection);
    nghttp3_conn_del(connection->http);
    ngtcp2_conn_del(connection->quic);
    end_tls(connection);
    http3_memory_end(&connection->memory, &endpoint->rooms);
    connection->http = NULL;
    connection->quic = NULL;
    connection->writing = NULL;
    while (connection->streams != NULL)
        http3_orphan_stream(connection->streams);
    endpoint->open_count--;
    endpoint->port->open_count--;
    if (connection->is_told)
        http3_push_change(connection, HTTP3_ENDED);
    if (!connection->is_established)
        endpoint->port->handshake_count--;
}

void http3_drop_connection(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (connection->phase == HTTP3_OPEN)
        end_libraries(connection);
    else
        endpoint->ending_count--;
    http3_remove_ids(connection);
    http3_leave_pending(connection);
    http3_leave_heap(connection);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        endpoint->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    http_give(connection->close_packet);
    free(connection);
}

static void enter_phase(http3_connection *connection, http3_phase phase, uint64_t now)
{
    http3_endpoint *endpoint = connection->endpoint;
    uint64_t patience = 3 * ngtcp2_conn_get_pto(connection->quic);
    end_libraries(connection);
    connection->phase = phase;
    endpoint->ending_count++;
    http3_set_expiry(connection, endpoint->ending_count > ENDING_MAX ? now : now + patience);
}

/* Makes the CONNECTION_CLOSE packet. Returns whether there is one. */
static int make_close_packet(http3_connection *connection, int result, uint64_t now)
{
    uint8_t packet[NGTCP2_MAX_UDP_PAYLOAD_SIZE];
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info;
    if (!connection->has_error && result == NGTCP2_ERR_CRYPTO)
        ngtcp2_ccerr_set_tls_alert(&connection->error, ngtcp2_conn_get_tls_alert(connection->quic), NULL, 0);
    else if (!connection->has_error)
        ngtcp2_ccerr_set_liberr(&connection->error, result, NULL, 0);
    ngtcp2_path_storage_zero(&path);
    ngtcp2_ssize length = ngtcp2_conn_write_connection_close(connection->quic, &path.path, &info, packet, sizeof packet,
                                                             &connection->error, now);
    if (length <= 0)
        return 0;
    copy_address(&connection->remote, &path.path.remote);
    copy_address(&connection->local, &path.path.local);
    connection->close_packet = http_take((size_t)length);
    if (connection->close_packet == NULL)
        return 0;
    memcpy(connection->close_packet, packet, (size_t)length);
    connection->close_length = (uint32_t)length;
    return 1;
}

void http3_end_connection(http3_connection *connection, int result, uint64_t now)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (connection->phase != HTTP3_OPEN)
        return;
    wake(connection);
    begin_end(connection);
    switch (result) {
    case NGTCP2_ERR_IDLE_CLOSE:
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
    case NGTCP2_ERR_DROP_CONN:
        http3_drop_connection(connection);
        return;
    case NGTCP2_ERR_DRAINING:
        enter_phase(connection, HTTP3_DRAINING, now);
        return;
    default:
        break;
    }
    if (!connection->has_error || connection->error.error_code != HTTP3_NO_ERROR)
        endpoint->counts.violations++;
    if (!make_close_packet(connection, result, now)) {
        http3_drop_connection(connection);
        return;
    }
    enter_phase(connection, HTTP3_CLOSING, now);
    connection->close_is_due = 1;
    connection->close_next = 1;
    http3_make_pending(connection);
}

void http3_end_failed(http3_connection *connection, uint64_t now)
{
    if (connection->phase == HTTP3_OPEN && connection->has_error)
        http3_end_connection(connection, 0, now);
}

void http3_announce(http3_connection *connection, http3_end end)
{
    if (connection->phase != HTTP3_OPEN || connection->http == NULL)
        return;
    wake(connection);
    if (end == HTTP3_END_NOTICE) {
        (void)nghttp3_conn_submit_shutdown_notice(connection->http);
    } else {
        (void)nghttp3_conn_shutdown(connection->http);
        connection->is_last_announced = 1;
    }
    http3_make_pending(connection);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input */

/* The CONNECTION_CLOSE is repeated for the 1st, 2nd, 4th, 8th ... packet that arrives. */
static void answer_late_packet(http3_connection *connection)
{
    if (connection->phase != HTTP3_CLOSING || ++connection->close_received < connection->close_next)
        return;
    connection->close_next *= 2;
    connection->close_is_due = 1;
    http3_make_pending(connection);
}

/* When a client seems to be at another address, ngtcp2 asks there for a confirmation, and goes back to the old address if none comes. But
 * version 1.11 forgets to look at the time if it may not send more to the new address. Then somebody who repeats a packet from another
 * address could stop a response. So it is called so often, for a time in which the confirmation must have come. */
#define LOOK_STEP (500 * HTTP3_MILLISECOND)
#define LOOK_TIME (10 * HTTP3_SECOND)

static void note_address(http3_connection *connection, const ngtcp2_addr *remote, uint64_t now)
{
    if (is_address(remote->addr, (uint32_t)remote->addrlen, &connection->latest))
        return;
    copy_address(&connection->latest, remote);
    connection->looks_until = now + LOOK_TIME;
}

/* Tells ngtcp2 when packets were sent, so that it sets the time for the next ones. That is when it wants to be called again, even if there are
 * no next ones. So it is told just before its next call: until then it wants none for that. */
static void note_sent(http3_connection *connection)
{
    if (connection->sent_at == 0)
        return;
    ngtcp2_conn_update_pkt_tx_time(connection->quic, connection->sent_at);
    connection->sent_at = 0;
}

int http3_read_packet(http3_connection *connection, const ngtcp2_path *path, uint32_t ecn, const uint8_t *bytes,
                      size_t length, uint64_t now)
{
    ngtcp2_pkt_info info = {.ecn = (uint8_t)(ecn & 3)};
    if (connection->phase != HTTP3_OPEN) {
        answer_late_packet(connection);
        return 0;
    }
    wake(connection);
    note_sent(connection);
    connection->heard_at = now;
    int result = 0;
    if (!is_useless(connection, PACKET_FRAMES))
        result = ngtcp2_conn_read_pkt(connection->quic, path, &info, bytes, length, now);
    note_address(connection, &path->remote, now);
    if (result == NGTCP2_ERR_RETRY) {
        http3_drop_connection(connection);
        return result;
    }
    begin_end(connection);
    if (result != 0 || connection->has_error) {
        http3_end_connection(connection, result, now);
        return 0;
    }
    if (connection->is_established && connection->tls != NULL) {
        /* The handshake is over, and session tickets are with ngtcp2: the session is of no more use, and has much memory. */
        end_tls(connection);
        ngtcp2_conn_set_tls_native_handle(connection->quic, NULL);
    }
    http3_note_windows(connection);
    http3_make_pending(connection);
    return 0;
}

void http3_expire(http3_connection *connection, uint64_t now)
{
    if (connection->phase != HTTP3_OPEN) {
        http3_drop_connection(connection);
        return;
    }
    wake(connection);
    note_sent(connection);
    int result = ngtcp2_conn_handle_expiry(connection->quic, now);
    if (result != 0) {
        http3_end_connection(connection, result, now);
        return;
    }
    if (connection->last_at <= now) {
        connection->last_at = UINT64_MAX;
        http3_announce(connection, HTTP3_END_LAST);
    }
    http3_set_expiry(connection, UINT64_MAX); /* until it has written */
    http3_make_pending(connection);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Output */

/* A train of more, or larger ones, is refused by Linux (UDP_MAX_SEGMENTS). */
#define TRAIN_PACKETS 64u
#define TRAIN_BYTES   65000u

static int fits_behind(const http3_train *train, const http3_address *local, const http3_address *remote, uint32_t ecn,
                       size_t length)
{
    return train->ecn == ecn && length <= train->segment && train->length % train->segment == 0 &&
           train->length / train->segment < TRAIN_PACKETS && train->length + length <= TRAIN_BYTES &&
           is_address(train->remote, train->remote_length, remote) &&
           is_address(train->local, train->local_length, local);
}

int http3_add_packet(http3_output *output, const http3_address *local, const http3_address *remote, uint32_t ecn,
                     size_t length)
{
    http3_train *last = output->train_count == 0 ? NULL : &output->trains[output->train_count - 1];
    if (last != NULL && fits_behind(last, local, remote, ecn, length)) {
        last->length += (uint32_t)length;
    } else {
        if (output->train_count == output->trains_max)
            return 0;
        http3_train *train = &output->trains[output->train_count++];
        *train = (http3_train){.offset = (uint32_t)output->length,
                               .length = (uint32_t)length,
                               .segment = (uint32_t)length,
                               .ecn = ecn,
                               .remote_length = remote->length,
                               .local_length = local->length};
        memcpy(train->remote, remote->bytes, remote->length);
        memcpy(train->local, local->bytes, local->length);
    }
    output->length += length;
    return 1;
}

int http3_rest(http3_connection *connection, uint64_t now, uint64_t quiet)
{
    int is_busy = connection->streams != NULL || connection->is_pending || connection->tls != NULL ||
                  connection->has_error || connection->expiry < now + quiet || now < connection->heard_at + quiet;
    return connection->phase == HTTP3_OPEN && connection->is_established && !is_busy &&
           http3_memory_pack(&connection->memory);
}

static http3_written write_close(http3_connection *connection, http3_output *output)
{
    if (!connection->close_is_due)
        return HTTP3_NO_MORE;
    if (output->room - output->length < connection->close_length || output->train_count == output->trains_max)
        return HTTP3_MORE_LATER;
    memcpy(output->bytes + output->length, connection->close_packet, connection->close_length);
    http3_add_packet(output, &connection->local, &connection->remote, 0, connection->close_length);
    connection->close_is_due = 0;
    return HTTP3_NO_MORE;
}

static http3_inner *stream_with(http3_connection *connection, int64_t id)
{
    if (connection->writing != NULL && connection->writing->seen.id == id)
        return connection->writing;
    for (http3_inner *stream = connection->streams; stream != NULL; stream = stream->next)
        if (stream->seen.id == id) {
            connection->writing = stream;
            return stream;
        }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------------
 * While the client's window of the connection is closed, libnghttp3 is not asked for output: nothing could be sent. But the end of a body that comes
 * without bytes needs no window. Then it is asked, and each stream that has bytes must wait until the window opens. */

static int may_write(const http3_connection *connection)
{
    return connection->http != NULL &&
           (connection->has_late_end || ngtcp2_conn_get_max_data_left(connection->quic) > 0);
}

/* The stream has bytes, and the window is closed. */
static void block_stream(http3_connection *connection, int64_t id)
{
    nghttp3_conn_block_stream(connection->http, id);
    http3_inner *stream = ngtcp2_is_bidi_stream(id) ? stream_with(connection, id) : NULL;
    if (stream != NULL)
        stream->is_blocked = 1;
    connection->has_blocked = 1;
}

static void unblock_streams(http3_connection *connection)
{
    if (!connection->has_blocked || ngtcp2_conn_get_max_data_left(connection->quic) == 0)
        return;
    connection->has_blocked = 0;
    for (unsigned i = 0; i < HTTP3_OWN_STREAMS; i++)
        (void)nghttp3_conn_unblock_stream(connection->http, connection->own_streams[i]);
    for (http3_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
        if (stream->is_blocked && !stream->seen.is_closed)
            (void)nghttp3_conn_unblock_stream(connection->http, stream->seen.id);
        stream->is_blocked = 0;
    }
}

/* ngtcp2 has taken the end of a stream. */
static int note_end(http3_connection *connection, http3_inner *stream)
{
    uint64_t untold = stream->untold;
    stream->end_waits = 0;
    stream->untold = 0;
    return untold == 0 ? 0 : tell_acknowledged(connection, stream->seen.id, untold);
}

/* ngtcp2 has taken bytes of a stream, perhaps with its end. */
static int note_accepted(http3_connection *connection, int64_t id, ngtcp2_ssize length, int is_end)
{
    int result = nghttp3_conn_add_write_offset(connection->http, id, (size_t)length);
    if (result != 0) {
        (void)failed(connection, result);
        return -1;
    }
    connection->accepted += (uint64_t)length;
    http3_inner *stream = ngtcp2_is_bidi_stream(id) ? stream_with(connection, id) : NULL;
    if (stream == NULL)
        return 0;
    http3_note_accepted(stream, (uint64_t)length);
    return is_end ? note_end(connection, stream) : 0;
}

/* ngtcp2 takes no more of a stream. Either it was reset here, or the client wants nothing more of it (STOP_SENDING), which ngtcp2 answers with a
 * reset, and does not tell. */
static void lose_output(http3_connection *connection, int64_t id)
{
    http3_inner *stream = ngtcp2_is_bidi_stream(id) ? stream_with(connection, id) : NULL;
    nghttp3_conn_shutdown_stream_write(connection->http, id);
    if (stream != NULL && !stream->has_failed) {
        (void)is_cancelled_too_often(connection, stream);
        http3_lose_stream(stream);
    }
}

#define PIECES 16u

/* Writes one packet. Returns its length, 0 if there is none to be sent now, or a negative number when the connection must end. */
static ngtcp2_ssize write_packet(http3_connection *connection, ngtcp2_path *path, ngtcp2_pkt_info *info, uint8_t *out,
                                 size_t room, uint64_t now)
{
    for (;;) {
        nghttp3_vec pieces[PIECES];
        nghttp3_ssize count = 0;
        ngtcp2_ssize taken = -1;
        int64_t id = -1;
        int is_end = 0;
        if (may_write(connection)) {
            count = nghttp3_conn_writev_stream(connection->http, &id, &is_end, pieces, PIECES);
            if (count < 0) {
                (void)failed(connection, count);
                return -1;
            }
            if (id < 0)
                connection->has_late_end = 0;
            if (nghttp3_vec_len(pieces, (size_t)count) > 0 && ngtcp2_conn_get_max_data_left(connection->quic) == 0) {
                block_stream(connection, id);
                continue;
            }
        }
        ngtcp2_ssize length =
            ngtcp2_conn_writev_stream(connection->quic, path, info, out, room, &taken,
                                      NGTCP2_WRITE_STREAM_FLAG_MORE | (is_end ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0), id,
                                      (const ngtcp2_vec *)pieces, (size_t)count, now);
        if (length == NGTCP2_ERR_STREAM_DATA_BLOCKED)
            nghttp3_conn_block_stream(connection->http, id);
        else if (length == NGTCP2_ERR_STREAM_SHUT_WR || length == NGTCP2_ERR_STREAM_NOT_FOUND)
            lose_output(connection, id);
        else if (length < 0 && length != NGTCP2_ERR_WRITE_MORE)
            return length;
        int takes_end = is_end && taken == (ngtcp2_ssize)nghttp3_vec_len(pieces, (size_t)count);
        if (taken >= 0 && id >= 0 && note_accepted(connection, id, taken, takes_end) != 0)
            return -1;
        if (length >= 0)
            return length;
    }
}

/* How long a connection that was told to end stays after its last request. The client has received the answer, but its program may not have
 * read all of it, and clients forget what was not read when the connection ends. */
#define LINGER HTTP3_SECOND

/* When a connection that was told to end does so. UINT64_MAX: not before other things happen. */
static uint64_t end_of(const http3_connection *connection)
{
    /* A client that has gone beyond a limit does not stay for handlers that work for nobody. */
    int has_work = connection->open_streams > 0 && connection->conduct.limit == HTTP_LIMIT_NONE;
    if (!connection->is_last_announced || has_work || !nghttp3_conn_is_drained(connection->http))
        return UINT64_MAX;
    return connection->active_at + LINGER;
}

static void set_next_expiry(http3_connection *connection, uint64_t now)
{
    uint64_t expiry = ngtcp2_conn_get_expiry(connection->quic), end = end_of(connection);
    if (now < connection->looks_until && expiry > now + LOOK_STEP)
        expiry = now + LOOK_STEP;
    if (end < expiry)
        expiry = end;
    if (connection->last_at < expiry)
        expiry = connection->last_at;
    http3_set_expiry(connection, expiry);
}

http3_written http3_write_packets(http3_connection *connection, http3_output *output, uint64_t now)
{
    ngtcp2_conn *quic = connection->quic;
    if (connection->phase != HTTP3_OPEN)
        return write_close(connection, output);
    note_sent(connection);
    unblock_streams(connection);
    http3_submit_answers(connection);
    size_t burst = ngtcp2_conn_get_send_quantum(quic), written = 0;
    for (;;) {
        ngtcp2_path_storage path;
        ngtcp2_pkt_info info = {0};
        http3_address local, remote;
        size_t most = ngtcp2_conn_get_max_tx_udp_payload_size(quic);
        if (written >= burst || output->room - output->length < most || output->train_count == output->trains_max) {
            connection->sent_at = now;
            note_sent(connection);
            set_next_expiry(connection, now);
            return HTTP3_MORE_LATER;
        }
        ngtcp2_path_storage_zero(&path);
        ngtcp2_ssize length = write_packet(connection, &path.path, &info, output->bytes + output->length, most, now);
        if (length < 0) {
            http3_end_connection(connection, connection->has_error ? 0 : (int)length, now);
            return HTTP3_NO_MORE;
        }
        if (length == 0)
            break;
        copy_address(&local, &path.path.local);
        copy_address(&remote, &path.path.remote);
        http3_add_packet(output, &local, &remote, info.ecn, (size_t)length);
        written += (size_t)length;
    }
    http3_leave_pending(connection); /* what was noted meanwhile was tried, too */
    if (written > 0)
        connection->sent_at = now;
    set_next_expiry(connection, now);
    begin_end(connection);
    if (connection->has_error || end_of(connection) <= now) {
        if (connection->conduct.limit != HTTP_LIMIT_NONE)
            fail_for_limit(connection);
        http3_fail(connection, HTTP3_NO_ERROR);
        http3_end_connection(connection, 0, now);
    }
    return HTTP3_NO_MORE;
}
