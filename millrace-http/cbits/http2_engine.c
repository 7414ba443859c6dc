/*
 * http2_engine.c - connections and streams of HTTP/2 on libnghttp2. Must not know: GHC, sockets, the clock.
 *
 * libnghttp2's callbacks run within http2_feed and http2_collect, with the lock held. They only change records and queue
 * notices. A stream's record is freed when libnghttp2 has closed the stream and its handler has released it.
 */
#include <stdlib.h>
#include <string.h>

#include "http2_internal.h"
#include "millrace_check.h"

#define FRAME_HEAD 9u

/* A DATA frame always fits into the least output. */
#define PAYLOAD_MAX (HTTP2_COLLECT_MIN - FRAME_HEAD)

/* A DATA frame is not cut to less than this because the output is nearly full: it waits for the next output. */
#define PAYLOAD_MIN 512u

/* A DATA frame with at least this many bytes adds to the allowance for useless frames. */
#define USEFUL 512u

/* A WINDOW_UPDATE that gives back at least this many bytes of what was sent counts as useful. */
#define RETURN_MIN 100u

/* The bytes of all bodies of a connection that may wait to be sent. Beyond it each stream may have a few kilobytes, so that streams whose
 * windows are closed hold up no other one. */
#define COMMON_OUTPUT_MAX (UINT64_C(2) << 20)
#define OWN_OUTPUT_MIN    4096u

/* How long a client that still sends a body after its answer has for reading the answer, before the stream is reset. */
#define STOP_PAUSE (SECOND / 2)

#define CONTINUATIONS_MAX 64u

/* NGHTTP2_ERR_TOO_MANY_CONTINUATIONS. Older headers do not have it. */
#define TOO_MANY_CONTINUATIONS (-905)

#define SECOND UINT64_C(1000000000)

static void lock(http2_connection *connection)
{
    pthread_mutex_lock(&connection->lock);
}

static void unlock(http2_connection *connection)
{
    pthread_mutex_unlock(&connection->lock);
}

/* After libnghttp2 has failed for want of memory, the connection ends: a frame is missing for which the client, or a thread, would wait. */
static void note_result(http2_connection *connection, int result)
{
    if (nghttp2_is_fatal(result))
        connection->has_failed = 1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Notices */

static void push_notice(http2_connection *connection, int32_t id, http2_event event)
{
    if (connection->notice_count == connection->notice_capacity) {
        uint32_t capacity = connection->notice_capacity == 0 ? 8 : 2 * connection->notice_capacity;
        int64_t *notices = http2_grow(connection->notices, capacity * sizeof *notices);
        if (notices == NULL)
            abort(); /* A thread would wait for ever. */
        connection->notices = notices;
        connection->notice_capacity = capacity;
    }
    connection->notices[connection->notice_count++] = 4 * (int64_t)id + event;
}

void http2_notify(http2_inner *stream, http2_event event)
{
    push_notice(stream->connection, stream->seen.id, event);
}

static void wake_driver(http2_connection *connection)
{
    if (connection->driver_waits) {
        connection->driver_waits = 0;
        push_notice(connection, HTTP2_NO_STREAM, HTTP2_WRITABLE);
    }
}

static void wake_reader(http2_inner *stream)
{
    if (stream->reader_waits) {
        stream->reader_waits = 0;
        http2_notify(stream, HTTP2_READABLE);
    }
}

static void wake_writer(http2_inner *stream)
{
    if (stream->writer_waits) {
        stream->writer_waits = 0;
        http2_notify(stream, HTTP2_WRITABLE);
    }
}

static void wake_for_window(http2_inner *stream)
{
    if (stream->waits_for_window) {
        stream->waits_for_window = 0;
        stream->connection->window_waiters--;
        http2_notify(stream, HTTP2_WRITABLE);
    }
}

/* A window may have opened, or bytes that others had for the connection's window are gone. Those that wait look again. */
static void note_window(http2_connection *connection)
{
    if (connection->window_waiters > 0)
        for (http2_inner *stream = connection->streams; stream != NULL; stream = stream->next)
            wake_for_window(stream);
}

void http2_wake_all(http2_inner *stream)
{
    wake_reader(stream);
    wake_writer(stream);
    wake_for_window(stream);
    if (stream->close_waits) {
        stream->close_waits = 0;
        http2_notify(stream, HTTP2_CLOSED);
    }
}

int64_t http2_next_notice(http2_connection *connection)
{
    int64_t notice = -1;
    lock(connection);
    if (connection->notices_taken < connection->notice_count)
        notice = connection->notices[connection->notices_taken++];
    if (connection->notices_taken == connection->notice_count)
        connection->notices_taken = connection->notice_count = 0;
    unlock(connection);
    return notice;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Streams */

static http2_inner *new_stream(http2_connection *connection, int32_t id)
{
    http2_inner *stream = http_take_zeroed(sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->seen.id = id;
    stream->connection = connection;
    stream->moved_at = connection->now;
    stream->others_sent = connection->sent;
    stream->next = connection->streams;
    if (stream->next != NULL)
        stream->next->previous = stream;
    connection->streams = stream;
    connection->stream_count++;
    return stream;
}

static void unlink_stream(http2_inner *stream)
{
    http2_connection *connection = stream->connection;
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        connection->streams = stream->next;
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    stream->next = stream->previous = NULL;
}

static void free_stream(http2_inner *stream)
{
    stream->connection->heads_size -= stream->head_size;
    http_body_clear(&stream->input);
    http_body_clear(&stream->output);
    http_give(stream->fields.head);
    http_give(stream->answer);
    http_give(stream->trailers);
    http_give(stream->fields.trailers);
    http_give(stream);
}

static void push_ready(http2_inner *stream)
{
    http2_connection *connection = stream->connection;
    stream->is_ready = 1;
    http_list_append(&connection->ready, offsetof(http2_inner, next_ready), stream);
}

static uint64_t queued_by(const http2_connection *connection)
{
    return atomic_load_explicit(&connection->queued, memory_order_relaxed);
}

static int has_common_room(const http2_inner *stream)
{
    return queued_by(stream->connection) < COMMON_OUTPUT_MAX || stream->output.length < OWN_OUTPUT_MIN;
}

/* Lets http2_collect send the answer. The beginning of a stream that was not flushed is kept back, as over HTTP/1, so that another answer
 * can take its place if the handler fails; unless its writer has to wait until it is sent. */
static void push_answered(http2_inner *stream)
{
    http2_connection *connection = stream->connection;
    if (stream->answer_state != HTTP2_ANSWER_HELD || stream->in_answered ||
        !(stream->is_finished || stream->output.length >= HTTP2_COLLECT_MIN || !has_common_room(stream)))
        return;
    stream->in_answered = 1;
    http_list_append(&connection->answered, offsetof(http2_inner, next_answered), stream);
}

static void remove_answered(http2_inner *stream)
{
    http2_connection *connection = stream->connection;
    if (stream->in_answered)
        http_list_remove(&connection->answered, offsetof(http2_inner, next_answered), stream);
    stream->in_answered = 0;
}

/* Notes a reset. libnghttp2 is told only immediately before it sends (submit_resets). Once told, it ignores the client's frames on
 * the stream, even END_STREAM, but counts the stream as open until RST_STREAM is sent. If the client then ended this stream and
 * opened another one at the limit of streams, libnghttp2 would end the whole connection. */
static void push_reset(http2_inner *stream, uint32_t code)
{
    http2_connection *connection = stream->connection;
    if (stream->in_resets)
        return;
    stream->in_resets = 1;
    stream->reset_code = code;
    http_list_append(&connection->resetting, offsetof(http2_inner, next_reset), stream);
}

static void remove_reset(http2_inner *stream)
{
    http2_connection *connection = stream->connection;
    if (stream->in_resets)
        http_list_remove(&connection->resetting, offsetof(http2_inner, next_reset), stream);
    stream->in_resets = 0;
}

/* Only with the lock held. */
static void set_queued(http2_connection *connection, uint64_t length)
{
    atomic_store_explicit(&connection->queued, length, memory_order_relaxed);
}

/* Takes sent or dropped bytes from those that wait. If there is room again, writers that wait for it look. They look when half is free: the
 * connection's streams are many. */
static void unqueue(http2_connection *connection, uint64_t length)
{
    uint64_t before = queued_by(connection);
    set_queued(connection, before - length);
    if (before < COMMON_OUTPUT_MAX / 2 || before - length >= COMMON_OUTPUT_MAX / 2)
        return;
    for (http2_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
        wake_for_window(stream);
        wake_writer(stream);
    }
}

/* Keeps the first `length` bytes, and at least those for which libnghttp2 has made a frame already. */
static void cut_output(http2_inner *stream, uint64_t length)
{
    const http2_connection *connection = stream->connection;
    if (connection->held_stream == stream && length < connection->held_length)
        length = connection->held_length;
    if (length >= stream->output.length)
        return;
    unqueue(stream->connection, stream->output.length - length);
    http_body_cut(&stream->output, length);
    note_window(stream->connection);
}

static void drop_output(http2_inner *stream)
{
    cut_output(stream, 0);
}

/* Drops bytes that will not be read, and opens the connection's window by as many. */
static void drop_input(http2_inner *stream)
{
    http2_connection *connection = stream->connection;
    if (stream->input.length > 0 && connection->session != NULL && !connection->is_closed)
        note_result(connection, nghttp2_session_consume_connection(connection->session, stream->input.length));
    connection->unread -= stream->input.length;
    http_body_clear(&stream->input);
    stream->seen.unread = 0;
}

/* The same when the request is over and its stream is still open. It opens the stream's window, too: otherwise a client that has used it
 * up could neither send the rest nor be told to stop. */
static void skip_input(http2_inner *stream)
{
    uint64_t length = stream->input.length;
    drop_input(stream);
    if (length > 0 && !stream->seen.has_ended && !stream->has_failed && !stream->connection->is_closed)
        note_result(stream->connection,
                    nghttp2_session_consume_stream(stream->connection->session, stream->seen.id, length));
}

/* Called when libnghttp2 has closed the stream, or the session is about to be deleted. */
static void close_stream(http2_inner *stream, uint32_t code)
{
    http2_connection *connection = stream->connection;
    if (stream->seen.is_closed)
        return;
    stream->seen.is_closed = 1;
    stream->seen.was_reset = code != NGHTTP2_NO_ERROR || !stream->seen.has_ended || stream->has_failed;
    if (connection->building != NULL && connection->building->owner == stream)
        connection->building->owner = NULL;
    if (stream->is_ready)
        http_list_remove(&connection->ready, offsetof(http2_inner, next_ready), stream);
    stream->is_ready = 0;
    remove_answered(stream);
    remove_reset(stream);
    if (connection->held_stream == stream)
        connection->held_stream = NULL; /* libnghttp2 drops the frame with the stream */
    drop_output(stream);
    if (!stream->seen.has_ended)
        drop_input(stream);
    http2_wake_all(stream);
    connection->stream_count--;
    unlink_stream(stream);
    if (!stream->is_taken || stream->is_released) {
        drop_input(stream);
        free_stream(stream);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Closed streams (RFC 9113, section 5.1). libnghttp2 keeps no records of them (see make_option), so a few are remembered here. */

static void remember(http2_memory *memory, int32_t id)
{
    uint32_t place = memory->next++ % HTTP2_REMEMBERED;
    memory->ids[place] = id;
    memory->reset_by_us &= ~(1u << place);
}

static void remember_reset(http2_memory *memory, int32_t id)
{
    for (uint32_t place = 0; place < HTTP2_REMEMBERED; place++)
        if (memory->ids[place] == id)
            memory->reset_by_us |= 1u << place;
}

/* The client has reset the stream, too. Frames that it sends afterwards are errors, even if the server has also reset it. */
static void forget_reset(http2_memory *memory, int32_t id)
{
    for (uint32_t place = 0; place < HTTP2_REMEMBERED; place++)
        if (memory->ids[place] == id)
            memory->reset_by_us &= ~(1u << place);
}

/* Returns the error code for a frame on a stream that is not open; NGHTTP2_NO_ERROR if it may be all right. */
static uint32_t judge_closed(const http2_connection *connection, int32_t id, int is_headers)
{
    const http2_memory *memory = &connection->memory;
    int32_t oldest = INT32_MAX, newest = 0;
    for (uint32_t place = 0; place < HTTP2_REMEMBERED; place++) {
        if (memory->ids[place] == id)
            return memory->reset_by_us >> place & 1 ? NGHTTP2_NO_ERROR : NGHTTP2_STREAM_CLOSED;
        if (memory->ids[place] != 0 && memory->ids[place] < oldest)
            oldest = memory->ids[place];
        if (memory->ids[place] > newest)
            newest = memory->ids[place];
    }
    /* A new stream, or one that is too old to be remembered. */
    if (id > newest || (id < oldest && memory->next > HTTP2_REMEMBERED))
        return NGHTTP2_NO_ERROR;
    return is_headers ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED;
}

static void violate(http2_connection *connection, uint32_t code)
{
    if (connection->violation == 0)
        connection->violation = code;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Limits: http_limit.h. end_for_limit begins the end. */

static void obey(http2_connection *connection, http_verdict verdict)
{
    if (verdict == HTTP_END_AT_ONCE)
        violate(connection, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* ------------------------------------------------------------------------------------------------------------------
 * libnghttp2's callbacks */

static http2_inner *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int begin_section(http2_connection *connection, http2_inner *stream, http_section section)
{
    const http2_settings *settings = connection->settings;
    http_head_limits limits = {.fields_max = settings->fields_max,
                               .head_max = settings->head_max,
                               .target_max = settings->target_max,
                               .allowed = settings->allowed};
    return http_building_begin(&connection->building, &limits, section, stream, &stream->seen.head, &stream->fields);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_connection *connection = data;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        remember(&connection->memory, frame->hd.stream_id);
        /* The last GOAWAY says that the client may repeat this request. libnghttp2 refuses it only when that frame is sent. */
        if (connection->takes_no_more)
            return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM) ==
                           0
                       ? 0
                       : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        http2_inner *stream = new_stream(connection, frame->hd.stream_id);
        if (stream == NULL)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
        return begin_section(connection, stream, HTTP_SECTION_HEAD) == 0 ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    http2_inner *stream = stream_of(session, frame->hd.stream_id);
    if (stream != NULL)
        (void)begin_section(connection, stream, HTTP_SECTION_TRAILERS);
    return 0;
}

static void exceed(http2_connection *connection, http_limit limit)
{
    http_conduct_exceed(&connection->conduct, limit);
    violate(connection, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int is_building(const http2_connection *connection, int32_t id)
{
    const http2_inner *stream = connection->building != NULL ? connection->building->owner : NULL;
    return stream != NULL && stream->seen.id == id;
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
    exceed(connection, HTTP_LIMIT_HEADS);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* An invalid field makes the request malformed (RFC 9113, section 8.1.1). By default libnghttp2 would leave it out. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    (void)session, (void)frame, (void)name, (void)name_length, (void)value, (void)value_length, (void)flags, (void)data;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void end_input(http2_inner *stream)
{
    stream->seen.has_ended = 1;
    wake_reader(stream);
}

/* Counts the head and the trailers of a request. Returns 0 if they exceed the limit of all. */
static int count_fields(http2_inner *stream)
{
    http2_connection *connection = stream->connection;
    uint64_t size = http_head_size(&stream->seen.head) + stream->fields.trailers_length;
    uint64_t others = connection->heads_size - stream->head_size;
    if (others > 0 && others + size > (uint64_t)HTTP_HEADS_AT_A_TIME * connection->settings->head_max)
        return 0;
    stream->head_size = (uint32_t)size;
    connection->heads_size = others + size;
    return 1;
}

/* Refuses a request for which there is no room beside the others: the client may send it again later (RFC 9113, section 8.7). A client may
 * send thousands of them before RST_STREAM goes out, so their memory is freed at once. */
static void refuse_head(http2_inner *stream, nghttp2_session *session)
{
    stream->has_failed = stream->drops_input = 1;
    http_drop_section(&stream->fields, HTTP_SECTION_HEAD);
    note_result(stream->connection,
                nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->seen.id, NGHTTP2_REFUSED_STREAM));
}

/* Refuses trailers for which there is no room. Their request is served already, so its stream ends. */
static void refuse_trailers(http2_inner *stream, nghttp2_session *session)
{
    http_drop_section(&stream->fields, HTTP_SECTION_TRAILERS);
    note_result(stream->connection,
                nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->seen.id, NGHTTP2_ENHANCE_YOUR_CALM));
}

static int end_head(http2_connection *connection, nghttp2_session *session, const nghttp2_frame *frame)
{
    if (!is_building(connection, frame->hd.stream_id))
        return 0;
    http2_inner *stream = connection->building->owner;
    int is_request = connection->building->section == HTTP_SECTION_HEAD;
    int result = http_building_end(connection->building, connection->is_secure ? HTTP_SECURE : HTTP_CLEAR_TEXT);
    if (result != 0) {
        uint32_t code = result < 0 ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_ENHANCE_YOUR_CALM;
        note_result(connection, nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, code));
    } else if (!count_fields(stream)) {
        (is_request ? refuse_head : refuse_trailers)(stream, session);
    } else if (is_request) {
        http_conduct_earn(&connection->conduct, HTTP_REQUEST_FRAMES);
        push_ready(stream);
    }
    return 0;
}

static void end_probe(http2_connection *connection);
static void note_known_window(http2_connection *connection, nghttp2_session *session);

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_connection *connection = data;
    int result = 0;
    connection->has_begun = 1;
    if (frame->hd.type == NGHTTP2_HEADERS)
        result = end_head(connection, session, frame);
    else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        end_probe(connection);
    else if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        note_known_window(connection, session);
    else if (frame->hd.type == NGHTTP2_SETTINGS || frame->hd.type == NGHTTP2_WINDOW_UPDATE)
        note_window(connection);
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        http2_inner *stream = stream_of(session, frame->hd.stream_id);
        if (stream != NULL)
            end_input(stream);
    }
    return result;
}

/* Is so little left of the request's body that the server reads and drops it? Otherwise it resets the stream. At least the stream's
 * window is dropped, because this many bytes may be on their way already, and because some clients report an error if they are reset
 * while they send (curl 7.88). */
static int is_little_left(const http2_inner *stream)
{
    const http2_settings *settings = stream->connection->settings;
    uint64_t most = settings->skipped_max > settings->stream_window ? settings->skipped_max : settings->stream_window;
    if (stream->seen.head.content_length >= 0)
        return (uint64_t)stream->seen.head.content_length - stream->seen.received <= most;
    return stream->skipped <= most;
}

/* A stream whose answer is complete will be reset if the client has much of the body still to send (RFC 9113, section 8.1). Not at once: some
 * clients lose an answer that they have not read when the reset comes (curl 7.88). Meanwhile their window stays as it is. */
static void stop_client(http2_inner *stream)
{
    if (stream->is_stopping || !stream->drops_input || stream->seen.has_ended || is_little_left(stream))
        return;
    stream->is_stopping = 1;
    stream->stops_at = stream->connection->now + STOP_PAUSE;
}

/* Is the answer sent, and only the rest of a request that is dropped still to come? */
static int is_only_skipped(const http2_inner *stream)
{
    return stream->drops_input && !stream->seen.has_ended && stream->answer_state == HTTP2_ANSWER_SUBMITTED &&
           nghttp2_session_get_stream_local_close(stream->connection->session, stream->seen.id) == 1;
}

/* libnghttp2 has ended the connection: it neither sends nor receives any more. */
static int is_over(const http2_connection *connection)
{
    return !nghttp2_session_want_read(connection->session) && !nghttp2_session_want_write(connection->session);
}

/* Is all sent that can be sent after the client has ended its side? What it has not sent of a request will not come. */
static int is_at_rest(const http2_connection *connection)
{
    if (connection->is_closed || connection->is_broken)
        return 1;
    if (connection->is_sending)
        return 0;
    if (connection->has_failed || is_over(connection))
        return 1;
    if (connection->served > 0 || connection->ready.first != NULL)
        return 0;
    for (const http2_inner *stream = connection->streams; stream != NULL; stream = stream->next)
        if (stream->is_taken && !is_only_skipped(stream))
            return 0;
    return 1;
}

static void wake_at_rest(http2_connection *connection)
{
    if (connection->rest_waits && is_at_rest(connection)) {
        connection->rest_waits = 0;
        push_notice(connection, HTTP2_NO_STREAM, HTTP2_CLOSED);
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length, void *data)
{
    http2_connection *connection = data;
    http2_inner *stream = stream_of(session, id);
    (void)flags;
    connection->probe_bytes += length;
    if (length >= USEFUL)
        http_conduct_earn(&connection->conduct, 1);
    if (stream == NULL || stream->drops_input || stream->seen.head.error != 0) {
        if (stream != NULL && !stream->has_failed && !stream->is_stopping)
            nghttp2_session_consume(session, id, length);
        else
            nghttp2_session_consume_connection(session, length);
        if (stream != NULL)
            stream->seen.received += length;
        if (stream != NULL && is_only_skipped(stream)) {
            stream->skipped += length;
            stop_client(stream);
        }
        return 0;
    }
    if (http_body_append(&stream->input, bytes, length, HTTP_MORE_FOLLOWS) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    connection->unread += length;
    stream->seen.unread = stream->input.length;
    stream->seen.received += length;
    wake_reader(stream);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    http2_inner *stream = stream_of(session, id);
    (void)data;
    if (stream != NULL) {
        nghttp2_session_set_stream_user_data(session, id, NULL);
        close_stream(stream, code);
    }
    return 0;
}

static int is_interim(const nghttp2_headers *head)
{
    return head->nvlen > 0 && head->nva[0].namelen == 7 && head->nva[0].value[0] == '1'; /* :status */
}

static void reset_if_all_sent(http2_inner *stream)
{
    if (stream->is_aborted && stream->head_is_sent && stream->output.length == 0)
        push_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_connection *connection = data;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        uint32_t code = frame->rst_stream.error_code;
        remember_reset(&connection->memory, frame->hd.stream_id);
        if (code != NGHTTP2_NO_ERROR && code != NGHTTP2_INTERNAL_ERROR && code != NGHTTP2_CANCEL)
            obey(connection,
                 http_conduct_reset(&connection->conduct, &connection->settings->allowances, connection->now));
    } else if (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) {
        http2_inner *stream = stream_of(session, frame->hd.stream_id);
        if (stream != NULL) {
            if (frame->hd.type == NGHTTP2_HEADERS && !is_interim(&frame->headers))
                stream->head_is_sent = 1;
            if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
                stop_client(stream);
            reset_if_all_sent(stream);
        }
    }
    return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): nghttp2 gives the type */
static ssize_t read_output(nghttp2_session *session, int32_t id, uint8_t *target, size_t room, uint32_t *flags,
                           nghttp2_data_source *source, void *data)
{
    http2_connection *connection = data;
    http2_inner *stream = source->ptr;
    (void)target;
    size_t here = connection->out_room - connection->out_length;
    size_t most = here > FRAME_HEAD + PAYLOAD_MIN ? here - FRAME_HEAD : PAYLOAD_MAX;
    size_t count = stream->output.length;
    if (count == 0 && !stream->is_finished) {
        stream->is_deferred = 1;
        return NGHTTP2_ERR_DEFERRED;
    }
    stream->sent_tiny_frame = count > room && room < USEFUL; /* the client's window is tiny */
    count = count < room ? count : room;
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

static int send_output(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
                       nghttp2_data_source *source, void *data)
{
    http2_connection *connection = data;
    http2_inner *stream = source->ptr;
    (void)session, (void)frame;
    if (connection->out_room - connection->out_length < FRAME_HEAD + length) {
        connection->is_blocked = 1;
        connection->held_stream = stream;
        connection->held_length = length;
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    connection->held_stream = NULL;
    MR_CHECK(stream->output.length >= length);
    memcpy(connection->out + connection->out_length, head, FRAME_HEAD);
    connection->out_length += FRAME_HEAD;
    http_body_take(&stream->output, connection->out + connection->out_length, length);
    connection->out_length += length;
    unqueue(connection, length);
    stream->seen.sent += length;
    connection->sent += length;
    connection->lent[HTTP2_LENT_BY_CONNECTION] += length;
    connection->lent[HTTP2_LENT_BY_STREAMS] += length;
    stream->stalled_since_ns = 0;
    stream->moved_at = connection->now;
    if (!stream->sent_tiny_frame)
        http_conduct_earn(&connection->conduct, 2);
    if (stream->output.length <= stream->writer_mark)
        wake_writer(stream);
    if (stream->output.length < OWN_OUTPUT_MIN)
        wake_for_window(stream);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Windows
 *
 * While bodies arrive, a PING measures how many bytes come within a round trip. libnghttp2 sends a WINDOW_UPDATE when half of a
 * window has been read. So a window must have room for two round trips, or the client has to wait. A smaller one is made sixteen
 * times as large: two such steps lead from the first window to the largest one. The effect of a step shows two round trips later,
 * so with smaller steps an upload over a long link would end before the window is large. A window never shrinks. It costs memory
 * only if the application does not read, so it does not grow while much is unread. */

#define GROWTH 16u

#define PROBE_PAUSE     (SECOND / 10)
#define PROBES_IN_A_ROW 10u

static const uint8_t probe_text[8] = {'m', 'i', 'l', 'l', 'r', 'a', 'c', 'e'};

static uint32_t smaller_of(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* Half of the connection's: one stream whose body is not read leaves room for the others. */
static uint32_t stream_most(const http2_connection *connection)
{
    return connection->settings->window_max / 2;
}

static int are_widest(const http2_connection *connection)
{
    return connection->stream_window >= stream_most(connection) &&
           connection->connection_window >= connection->settings->window_max;
}

/* Called when the client has acknowledged the settings. */
static void note_known_window(http2_connection *connection, nghttp2_session *session)
{
    connection->known_window = nghttp2_session_get_local_settings(session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
}

/* Has the client not yet acknowledged the current window of streams? RFC 9113's initial window does not count, because measuring
 * with that one is useful, too. */
static int has_news(const http2_connection *connection)
{
    return connection->known_window != connection->stream_window &&
           connection->known_window != NGHTTP2_INITIAL_WINDOW_SIZE;
}

static void begin_probe(http2_connection *connection)
{
    if (connection->is_probing || connection->probe_bytes == 0 || are_widest(connection) || has_news(connection) ||
        (connection->idle_probes >= PROBES_IN_A_ROW && connection->now < connection->probe_after))
        return;
    if (nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, probe_text) != 0)
        return;
    connection->is_probing = 1;
    connection->probe_sent_at = connection->now;
    connection->probe_bytes = 0;
    connection->probed_window = smaller_of(connection->known_window, connection->connection_window);
}

static uint32_t widened(uint32_t window, uint32_t most)
{
    if (window >= most)
        return window;
    return window > most / GROWTH ? most : GROWTH * window;
}

static void widen_windows(http2_connection *connection)
{
    connection->connection_window = widened(connection->connection_window, connection->settings->window_max);
    connection->stream_window = widened(connection->stream_window, stream_most(connection));
    note_result(connection, nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
                                                                  (int32_t)connection->connection_window));
    nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, connection->stream_window};
    note_result(connection, nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, &entry, 1));
}

static void end_probe(http2_connection *connection)
{
    if (!connection->is_probing)
        return;
    connection->is_probing = 0;
    if (connection->probe_bytes >= (uint64_t)connection->probed_window / 8 * 3 &&
        connection->unread <= connection->probe_bytes / 2) {
        widen_windows(connection);
        connection->idle_probes = 0;
    } else {
        connection->idle_probes++;
        connection->probe_after = connection->now + PROBE_PAUSE;
    }
    connection->probe_bytes = 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Connections */

static nghttp2_session_callbacks *make_callbacks(void)
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
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_output);
    return callbacks;
}

static nghttp2_option *make_option(const http2_settings *settings)
{
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, settings->deflate_table_max);
    nghttp2_option_set_max_send_header_block_length(option, HTTP_RESPONSE_HEAD_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX); /* http_limit.h counts resets. */
#if NGHTTP2_VERSION_NUM >= 0x014400
    /* It counts frames that http_limit.h counts, also those of honest clients. */
    nghttp2_option_set_glitch_rate_limit(option, UINT64_MAX, UINT64_MAX);
#endif
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
    return option;
}

static int submit_settings(http2_connection *connection)
{
    const http2_settings *settings = connection->settings;
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings->head_max + 32 * settings->fields_max},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
    if (nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, entries, sizeof entries / sizeof *entries) != 0)
        return -1;
    return nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
                                                 (int32_t)settings->connection_window);
}

static nghttp2_session_callbacks *callbacks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_callbacks_once(void)
{
    callbacks = make_callbacks();
}

static int open_session(http2_connection *connection)
{
    pthread_once(&once, make_callbacks_once);
    nghttp2_option *option = make_option(connection->settings);
    if (callbacks == NULL || option == NULL)
        return -1;
    nghttp2_mem memory = http2_allocator(connection);
    int result = nghttp2_session_server_new3(&connection->session, callbacks, connection, option, &memory);
    nghttp2_option_del(option);
    if (result == 0)
        result = submit_settings(connection);
    http2_settle_in(connection);
    return result == 0 ? 0 : -1;
}

int http2_is_supported(void)
{
    return 1;
}

http2_connection *http2_open(const http2_settings *settings, int is_secure)
{
    http2_connection *connection = http2_enter_home();
    if (connection == NULL)
        return NULL;
    connection->settings = settings;
    connection->stream_window = settings->stream_window;
    connection->known_window = NGHTTP2_INITIAL_WINDOW_SIZE;
    connection->connection_window = settings->connection_window;
    http_conduct_begin(&connection->conduct, &settings->allowances, 0);
    connection->is_promised = 1;
    connection->is_secure = is_secure != 0;
    connection->payload_left = NGHTTP2_CLIENT_MAGIC_LEN;
    pthread_mutex_init(&connection->lock, NULL);
    if (open_session(connection) != 0) {
        if (connection->session != NULL)
            nghttp2_session_del(connection->session);
        pthread_mutex_destroy(&connection->lock);
        http2_leave_home(connection);
        return NULL;
    }
    return connection;
}

void http2_free(http2_connection *connection)
{
    pthread_mutex_destroy(&connection->lock);
    http2_give_grown(connection->notices);
    http2_leave_home(connection);
}

void http2_close(http2_connection *connection)
{
    lock(connection);
    connection->is_closed = 1;
    while (connection->streams != NULL)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): close_stream takes the stream off this list */
        close_stream(connection->streams, NGHTTP2_CONNECT_ERROR);
    http_building_drop(&connection->building);
    wake_driver(connection);
    nghttp2_session_del(connection->session);
    connection->session = NULL;
    unlock(connection);
}

static uint64_t flags_of(const http2_connection *connection)
{
    uint64_t flags = 0;
    if (connection->ready.first != NULL && connection->served < connection->settings->streams_max)
        flags |= HTTP2_HAS_REQUESTS;
    if (connection->notices_taken < connection->notice_count)
        flags |= HTTP2_HAS_NOTICES;
    if (connection->has_failed)
        flags |= HTTP2_HAS_FAILED;
    if (connection->conduct.limit != HTTP_LIMIT_NONE && !connection->conduct.is_told)
        flags |= HTTP2_HAS_LIMIT;
    if (!connection->has_begun || (connection->building != NULL && connection->building->owner != NULL))
        flags |= HTTP2_IN_HEAD;
    return flags;
}

static void end_for_limit(http2_connection *connection)
{
    if (connection->conduct.limit == HTTP_LIMIT_NONE || connection->ends_for_limit || connection->violation != 0)
        return;
    const char *text = http_limit_text(connection->conduct.limit);
    connection->ends_for_limit = connection->takes_no_more = 1;
    note_result(connection, nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                                                  nghttp2_session_get_last_proc_stream_id(connection->session),
                                                  NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)text, strlen(text)));
}

static void end_for_client(http2_connection *connection)
{
    end_for_limit(connection);
    if (connection->violation != 0 && !connection->has_failed) {
        connection->has_failed = 1;
        note_result(connection, nghttp2_session_terminate_session(connection->session, connection->violation));
    }
}

/* libnghttp2 has failed. The default is for clients that cause too long a queue of acknowledgements. */
static void note_failure(http2_connection *connection, ssize_t result)
{
    switch (result) {
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        violate(connection, NGHTTP2_PROTOCOL_ERROR);
        break;
    case NGHTTP2_ERR_NOMEM:
        violate(connection, NGHTTP2_INTERNAL_ERROR);
        break;
    case TOO_MANY_CONTINUATIONS:
        exceed(connection, HTTP_LIMIT_HEADS);
        break;
    default:
        exceed(connection, HTTP_LIMIT_FRAMES);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input
 *
 * The head of each frame is checked before libnghttp2 gets it, because libnghttp2 does not report frames that it ignores. */

static uint32_t number_at(const uint8_t *bytes, size_t count)
{
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* The bytes of a frame that are checked: its head, and the number with which the payload of some types begins. */
static size_t checked_length(const uint8_t *frame)
{
    int has_number = (frame[3] == NGHTTP2_WINDOW_UPDATE || frame[3] == NGHTTP2_PRIORITY) && number_at(frame, 3) >= 4;
    return FRAME_HEAD + (has_number ? 4 : 0);
}

/* That number, without its reserved bit. Frames that are too short for one are errors, which libnghttp2 finds. */
static uint32_t first_number(const uint8_t *frame)
{
    return checked_length(frame) > FRAME_HEAD ? number_at(frame + FRAME_HEAD, 4) & INT32_MAX : UINT32_MAX;
}

/* Is this a WINDOW_UPDATE by 0, an error (RFC 9113, section 6.9)? libnghttp2 detects it only on open streams. */
static int is_empty_update(const uint8_t *frame)
{
    return frame[3] == NGHTTP2_WINDOW_UPDATE && first_number(frame) == 0;
}

/* Must libnghttp2 process the earlier frames before this one is checked, because the check depends on which streams are open? */
static int needs_order(const http2_connection *connection, const uint8_t *frame)
{
    uint8_t type = frame[3];
    return type == NGHTTP2_DATA || type == NGHTTP2_PRIORITY || type == NGHTTP2_RST_STREAM || is_empty_update(frame) ||
           (type == NGHTTP2_HEADERS && (int32_t)(number_at(frame + 5, 4) & INT32_MAX) <= connection->newest);
}

/* Does a WINDOW_UPDATE give back what was sent? A client that reads little at a time sends two for each time, and each is due to bytes
 * that were sent before. What the client gives beyond that costs, and so does a handful of bytes. */
static int gives_back(http2_connection *connection, int32_t id, uint32_t increment)
{
    uint64_t *lent = &connection->lent[id == 0 ? HTTP2_LENT_BY_CONNECTION : HTTP2_LENT_BY_STREAMS];
    if (increment < RETURN_MIN || increment > *lent)
        return 0;
    *lent -= increment;
    return 1;
}

static int is_useless(http2_connection *connection, const uint8_t *frame, int32_t id)
{
    uint8_t flags = frame[4];
    switch (frame[3]) {
    case NGHTTP2_HEADERS:
        return 0;
    case NGHTTP2_DATA:
        return number_at(frame, 3) == 0 && !(flags & NGHTTP2_FLAG_END_STREAM);
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
        return !(flags & NGHTTP2_FLAG_ACK);
    case NGHTTP2_WINDOW_UPDATE:
        return !gives_back(connection, id, first_number(frame));
    default:
        return 1;
    }
}

/* A stream must not depend on itself (RFC 7540, section 5.3.1). RFC 9113 has dropped the rule, but the error is the client's. */
static void check_priority(http2_connection *connection, int32_t id, const uint8_t *frame)
{
    if (id == 0 || first_number(frame) == (uint32_t)id)
        violate(connection, NGHTTP2_PROTOCOL_ERROR);
}

/* The client cancels a request. That is no waste if there is an answer already. */
static void note_cancelled(http2_connection *connection, int32_t id)
{
    http2_inner *stream = nghttp2_session_get_stream_user_data(connection->session, id);
    if (stream == NULL || stream->answer_state != HTTP2_UNANSWERED || stream->has_failed)
        return;
    obey(connection, http_conduct_cancel(&connection->conduct, &connection->settings->allowances, &stream->cancellation,
                                         stream->is_taken, connection->now));
}

/* `frame`: at least the bytes that are checked. */
static void begin_frame(http2_connection *connection, const uint8_t *frame)
{
    uint8_t type = frame[3];
    int32_t id = (int32_t)(number_at(frame + 5, 4) & INT32_MAX);
    connection->payload_left = number_at(frame, 3);
    if (type == NGHTTP2_PRIORITY)
        check_priority(connection, id, frame);
    if (type == NGHTTP2_RST_STREAM) {
        forget_reset(&connection->memory, id);
        note_cancelled(connection, id);
    }
    if (is_empty_update(frame) && id != 0 && id <= connection->newest &&
        nghttp2_session_find_stream(connection->session, id) == NULL)
        violate(connection, NGHTTP2_PROTOCOL_ERROR);
    if (type == NGHTTP2_HEADERS && id > connection->newest) {
        connection->newest = id;
    } else if ((type == NGHTTP2_HEADERS || type == NGHTTP2_DATA) && id % 2 == 1 &&
               nghttp2_session_find_stream(connection->session, id) == NULL) {
        uint32_t code = judge_closed(connection, id, type == NGHTTP2_HEADERS);
        if (code != NGHTTP2_NO_ERROR)
            violate(connection, code);
    }
    if (is_useless(connection, frame, id))
        obey(connection,
             http_conduct_useless(&connection->conduct, &connection->settings->allowances, 1, connection->now));
}

static void give(http2_connection *connection, const uint8_t *bytes, size_t length)
{
    if (length == 0 || connection->has_failed || connection->violation != 0)
        return;
    ssize_t result = nghttp2_session_mem_recv(connection->session, bytes, length);
    if (result < 0 && connection->violation == 0)
        note_failure(connection, result);
}

/* Keeps the beginning of a frame of which not all that is checked has arrived. Returns how many bytes it took. */
static size_t keep_head(http2_connection *connection, const uint8_t *bytes, size_t left)
{
    size_t wanted = connection->head_length < FRAME_HEAD ? FRAME_HEAD : checked_length(connection->head);
    size_t count = wanted - connection->head_length;
    count = count < left ? count : left;
    memcpy(connection->head + connection->head_length, bytes, count);
    connection->head_length += (uint8_t)count;
    return count;
}

static void give_kept_head(http2_connection *connection)
{
    size_t length = connection->head_length;
    if (length < FRAME_HEAD || length < checked_length(connection->head))
        return;
    connection->head_length = 0;
    begin_frame(connection, connection->head);
    connection->payload_left -= (uint32_t)(length - FRAME_HEAD);
    give(connection, connection->head, length);
}

static void give_frames(http2_connection *connection, const uint8_t *bytes, size_t length)
{
    size_t given = 0, at = 0;
    while (at < length && !connection->has_failed && connection->violation == 0) {
        size_t left = length - at;
        if (connection->payload_left > 0) {
            size_t count = left < connection->payload_left ? left : connection->payload_left;
            connection->payload_left -= (uint32_t)count;
            at += count;
        } else if (connection->head_length > 0 || left < FRAME_HEAD || left < checked_length(bytes + at)) {
            give(connection, bytes + given, at - given);
            given = at += keep_head(connection, bytes + at, left);
            give_kept_head(connection);
        } else {
            if (needs_order(connection, bytes + at)) {
                give(connection, bytes + given, at - given);
                given = at;
            }
            begin_frame(connection, bytes + at);
            at += FRAME_HEAD;
        }
    }
    give(connection, bytes + given, length - given);
}

uint64_t http2_feed(http2_connection *connection, const uint8_t *bytes, size_t length, uint64_t now)
{
    lock(connection);
    connection->now = now;
    connection->is_promised = 1;
    if (!connection->has_failed && !connection->is_closed) {
        give_frames(connection, bytes, length);
        end_for_client(connection);
        begin_probe(connection);
    }
    if (connection->building != NULL && connection->building->owner == NULL)
        http_building_drop(&connection->building);
    uint64_t flags = flags_of(connection);
    unlock(connection);
    return flags;
}

/* Is the whole body with libnghttp2, and its end is not? */
static int has_only_end(const http2_inner *stream)
{
    return stream->is_finished && stream->output.length == 0;
}

/* Gives libnghttp2 the end of an answer whose bytes it has. It sends no DATA frame while a window is closed, not even an empty one, which
 * needs no window (RFC 9113, section 6.9.1). So an end without trailers is trailers without fields here, and make_end makes a DATA frame
 * of them. */
static void submit_end(http2_inner *stream)
{
    const http_block *trailers = stream->trailers;
    note_result(stream->connection, nghttp2_submit_trailer(stream->connection->session, stream->seen.id,
                                                           trailers == NULL ? NULL : nv_of(trailers),
                                                           trailers == NULL ? 0 : trailers->count));
}

/* Gives an answer to libnghttp2. It cannot be taken back afterwards. */
static void submit_answer(http2_inner *stream)
{
    int ends_with_trailers = has_only_end(stream) && stream->trailers != NULL;
    remove_answered(stream);
    stream->answer_state = HTTP2_ANSWER_SUBMITTED;
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_output};
    nghttp2_data_provider *body = stream->has_body && (!has_only_end(stream) || ends_with_trailers) ? &provider : NULL;
    note_result(stream->connection, nghttp2_submit_response(stream->connection->session, stream->seen.id,
                                                            nv_of(stream->answer), stream->answer->count, body));
    if (ends_with_trailers)
        submit_end(stream);
}

static void submit_resets(http2_connection *connection)
{
    while (connection->resetting.first != NULL) {
        http2_inner *stream = connection->resetting.first;
        remove_reset(stream);
        note_result(connection, nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, stream->seen.id,
                                                          stream->reset_code));
    }
}

/* Returns how many bytes libnghttp2 has to send next, in connection->left. Sending a frame may add a reset (on_frame_send). */
static ssize_t next_output(http2_connection *connection)
{
    for (;;) {
        submit_resets(connection);
        ssize_t count = nghttp2_session_mem_send(connection->session, &connection->left);
        if (count != 0 || connection->resetting.first == NULL)
            return count;
    }
}

/* The frame of an end without bytes (submit_end). */
static void make_end(http2_connection *connection)
{
    if (connection->left_length != FRAME_HEAD || connection->left[3] != NGHTTP2_HEADERS ||
        number_at(connection->left, 3) != 0)
        return;
    memcpy(connection->end, connection->left, FRAME_HEAD);
    connection->end[3] = NGHTTP2_DATA;
    connection->end[4] = NGHTTP2_FLAG_END_STREAM;
    connection->left = connection->end;
}

static void copy_left(http2_connection *connection)
{
    size_t count = connection->out_room - connection->out_length;
    if (count > connection->left_length)
        count = connection->left_length;
    memcpy(connection->out + connection->out_length, connection->left, count);
    connection->out_length += count;
    connection->left += count;
    connection->left_length -= count;
}

static void fill_output(http2_connection *connection, uint8_t *out, size_t room)
{
    connection->out = out;
    connection->out_room = room;
    connection->out_length = 0;
    connection->is_blocked = 0;
    while (connection->out_length < room && !connection->is_blocked) {
        if (connection->left_length == 0) {
            ssize_t count = next_output(connection);
            if (count <= 0) {
                if (count < 0)
                    connection->has_failed = 1;
                break;
            }
            connection->left_length = (size_t)count;
            make_end(connection);
        }
        copy_left(connection);
    }
    end_for_client(connection);
}

/* The number of queued frames, without those that the client's windows hold back. */
static uint32_t backlog_of(http2_connection *connection)
{
    return (uint32_t)nghttp2_session_get_outbound_queue_size(connection->session);
}

static void give_up(http2_inner *stream)
{
    stream->has_failed = 1;
    stream->is_aborted = 0;
    push_reset(stream, stream->output.length > 0 ? NGHTTP2_CANCEL : NGHTTP2_NO_ERROR);
    http2_wake_all(stream);
}

/* When the client has ended its side, no window opens any more. If nothing can be sent, resets the streams that wait for that. Returns
 * how many there were. */
static int give_up_stuck(http2_connection *connection)
{
    int count = 0;
    if (!connection->has_left || connection->out_length > 0)
        return 0;
    for (http2_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
        int is_waiting = stream->answer_state == HTTP2_ANSWER_SUBMITTED &&
                         (stream->output.length > 0 || stream->is_finished) &&
                         nghttp2_session_get_stream_local_close(connection->session, stream->seen.id) == 0;
        if (is_waiting && (!stream->has_failed || stream->is_aborted)) {
            give_up(stream);
            count++;
        }
    }
    return count;
}

uint64_t http2_collect(http2_connection *connection, uint8_t *out, size_t room, http2_sender sender)
{
    lock(connection);
    if (connection->is_closed) {
        connection->is_sending = 0;
        unlock(connection);
        return HTTP2_IS_OVER | HTTP2_HAS_ENDED;
    }
    if (sender != HTTP2_SENDER_AGAIN && connection->is_sending) {
        if (sender == HTTP2_SENDER_DRIVER)
            connection->is_promised = 0;
        uint64_t flags = flags_of(connection) | HTTP2_IS_BUSY;
        unlock(connection);
        return flags;
    }
    connection->is_sending = 1;
    if (sender == HTTP2_SENDER_DRIVER)
        connection->is_promised = 0;
    while (connection->answered.first != NULL)
        submit_answer(connection->answered.first);
    fill_output(connection, out, room);
    if (give_up_stuck(connection) > 0)
        fill_output(connection, out, room);
    if (connection->out_length == 0 || backlog_of(connection) <= connection->driver_mark)
        wake_driver(connection);
    uint64_t flags = 0;
    int is_all = connection->left_length == 0 && !connection->is_blocked && connection->out_length < room;
    if (is_all && is_over(connection))
        flags |= HTTP2_IS_OVER;
    if (connection->out_length == 0 || (sender == HTTP2_SENDER_DRIVER && is_all && connection->served == 0)) {
        connection->is_sending = 0;
        wake_at_rest(connection);
        flags |= HTTP2_HAS_ENDED;
    }
    flags |= flags_of(connection) | connection->out_length;
    unlock(connection);
    return flags;
}

int http2_has_much(const http2_connection *connection)
{
    return queued_by(connection) > HTTP2_COLLECT_MIN;
}

uint8_t *http2_take_output(void)
{
    return http_take(HTTP2_COLLECT_MUCH);
}

void http2_give_output(uint8_t *memory)
{
    http_give(memory);
}

void http2_stop_sending(http2_connection *connection)
{
    lock(connection);
    connection->is_sending = 0;
    connection->is_broken = 1;
    wake_driver(connection);
    wake_at_rest(connection);
    unlock(connection);
}

void http2_resume_sending(http2_connection *connection)
{
    lock(connection);
    if (connection->is_sending)
        abort(); /* Two threads would interleave their bytes. */
    connection->is_sending = 1;
    unlock(connection);
}

int http2_needs_sender(http2_connection *connection)
{
    lock(connection);
    int needs = !connection->is_promised && !connection->is_sending && !connection->is_closed;
    unlock(connection);
    return needs;
}

int http2_await_backlog(http2_connection *connection, uint32_t most)
{
    int result = HTTP2_OK;
    lock(connection);
    if (!connection->is_closed && connection->is_sending && backlog_of(connection) > most) {
        connection->driver_waits = 1;
        connection->driver_mark = most;
        result = HTTP2_WAIT;
    }
    unlock(connection);
    return result;
}

http_limit http2_take_limit(http2_connection *connection)
{
    lock(connection);
    http_limit limit = http_conduct_tell(&connection->conduct);
    unlock(connection);
    return limit;
}

uint32_t http2_stream_count(http2_connection *connection)
{
    lock(connection);
    uint32_t count = connection->stream_count > connection->served ? connection->stream_count : connection->served;
    unlock(connection);
    return count;
}

/* A number that grows while the client takes what it can. The bytes that were sent of the stream count. Those of other streams count
 * while the client's window of this one is open: then the stream waits behind the others, because they are more urgent or have the
 * connection's window. A stream whose own window is closed waits for its client, whatever else the client takes. */
static uint64_t progress_of(http2_inner *stream)
{
    const http2_connection *connection = stream->connection;
    uint64_t others = connection->sent - stream->seen.sent;
    if (connection->session != NULL &&
        nghttp2_session_get_stream_remote_window_size(connection->session, stream->seen.id) > 0)
        stream->behind_others += others - stream->others_sent;
    stream->others_sent = others;
    return stream->seen.sent + stream->behind_others;
}

uint64_t http2_progress(http2_stream *seen)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    uint64_t progress = progress_of(stream);
    unlock(stream->connection);
    return progress;
}

/* Has the stream made no progress for `limit` nanoseconds? connection->now advances only with input, so the time since when output
 * waits is not known. The first call measures from its own time. */
static int is_still(http2_inner *stream, uint64_t now, uint64_t limit)
{
    if (stream->output.length == 0)
        return is_only_skipped(stream) && now - stream->moved_at >= limit;
    if (stream->answer_state != HTTP2_ANSWER_SUBMITTED)
        return 0; /* it waits for its handler */
    uint64_t progress = progress_of(stream);
    if (stream->stalled_since_ns == 0 || progress != stream->stalled_progress) {
        stream->stalled_since_ns = now;
        stream->stalled_progress = progress;
    }
    return now - stream->stalled_since_ns >= limit;
}

uint64_t http2_stop_due(http2_connection *connection)
{
    uint64_t due = 0;
    lock(connection);
    for (const http2_inner *stream = connection->streams; stream != NULL; stream = stream->next)
        if (stream->is_stopping && !stream->in_resets && !stream->has_failed && (due == 0 || stream->stops_at < due))
            due = stream->stops_at;
    unlock(connection);
    return due;
}

uint32_t http2_stop_clients(http2_connection *connection, uint64_t now)
{
    uint32_t count = 0;
    lock(connection);
    for (http2_inner *stream = connection->streams; stream != NULL; stream = stream->next)
        if (stream->is_stopping && !stream->in_resets && !stream->has_failed && now >= stream->stops_at) {
            push_reset(stream, NGHTTP2_NO_ERROR);
            count++;
        }
    unlock(connection);
    return count;
}

uint32_t http2_reset_stalled(http2_connection *connection, uint64_t now, uint64_t limit)
{
    uint32_t count = 0;
    lock(connection);
    for (http2_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
        if ((stream->has_failed && !stream->is_aborted) || !is_still(stream, now, limit))
            continue;
        give_up(stream);
        count++;
    }
    unlock(connection);
    return count;
}

void http2_end_input(http2_connection *connection)
{
    lock(connection);
    connection->has_left = 1;
    for (http2_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
        stream->seen.has_left = 1;
        http2_wake_all(stream);
    }
    unlock(connection);
}

int http2_await_rest(http2_connection *connection)
{
    lock(connection);
    int result = is_at_rest(connection) ? HTTP2_OK : HTTP2_WAIT;
    connection->rest_waits = result == HTTP2_WAIT;
    unlock(connection);
    return result;
}

void http2_announce_end(http2_connection *connection, http2_end end)
{
    lock(connection);
    if (connection->session != NULL) {
        connection->is_promised = 1;
        if (end == HTTP2_END_NOTICE)
            note_result(connection, nghttp2_submit_shutdown_notice(connection->session));
        else if (end == HTTP2_END_CALM)
            note_result(connection, nghttp2_session_terminate_session(connection->session, NGHTTP2_ENHANCE_YOUR_CALM));
        else if (nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                                       nghttp2_session_get_last_proc_stream_id(connection->session), NGHTTP2_NO_ERROR,
                                       NULL, 0) == 0)
            connection->takes_no_more = 1;
    }
    unlock(connection);
}

/* ------------------------------------------------------------------------------------------------------------------
 * The functions for handlers */

http2_stream *http2_next_request(http2_connection *connection)
{
    lock(connection);
    http2_inner *stream = NULL;
    if (connection->served < connection->settings->streams_max)
        stream = http_list_shift(&connection->ready, offsetof(http2_inner, next_ready));
    if (stream != NULL) {
        stream->is_ready = 0;
        stream->is_taken = 1;
        connection->served++;
    }
    unlock(connection);
    return stream == NULL ? NULL : &stream->seen;
}

void http2_copy_head(http2_stream *seen, uint8_t *destination)
{
    http2_inner *stream = inner_of(seen);
    memcpy(destination, stream->fields.head, seen->head.field_count * sizeof(http_field) + seen->head.text_length);
    http_give(stream->fields.head);
    stream->fields.head = NULL;
}

int64_t http2_read(http2_stream *seen, uint8_t *destination, size_t room, int waits)
{
    http2_inner *stream = inner_of(seen);
    http2_connection *connection = stream->connection;
    int64_t result;
    lock(connection);
    /* NOLINTNEXTLINE(bugprone-branch-clone): the order of the conditions matters */
    if (stream->is_read) {
        result = -HTTP2_GONE;
    } else if (stream->input.length > 0) {
        size_t count = http_body_take(&stream->input, destination, room);
        connection->unread -= count;
        seen->unread = stream->input.length;
        if (!connection->is_closed) {
            if (seen->is_closed || seen->has_ended)
                note_result(connection, nghttp2_session_consume_connection(connection->session, count));
            else
                note_result(connection, nghttp2_session_consume(connection->session, seen->id, count));
        }
        result = (int64_t)count;
    } else if (seen->has_ended) {
        result = 0;
    } else if (seen->is_closed || stream->has_failed || seen->has_left) {
        result = -HTTP2_GONE;
    } else {
        stream->reader_waits = waits != 0;
        result = -HTTP2_WAIT;
    }
    unlock(connection);
    return result;
}

void http2_end_reading(http2_stream *seen)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    stream->is_read = 1;
    wake_reader(stream);
    unlock(stream->connection);
}

int http2_await_close(http2_stream *seen)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    int result = seen->is_closed || seen->has_left ? HTTP2_GONE : HTTP2_WAIT;
    if (result == HTTP2_WAIT)
        stream->close_waits = 1;
    unlock(stream->connection);
    return result;
}

static int is_gone(const http2_inner *stream)
{
    return stream->seen.is_closed || stream->has_failed;
}

/* Must be called before this many bytes are added to a body. */
static void note_output(http2_inner *stream, size_t length)
{
    if (stream->output.length == 0)
        stream->stalled_since_ns = 0;
    set_queued(stream->connection, queued_by(stream->connection) + length);
}

static int append_output(http2_inner *stream, const uint8_t *bytes, size_t length, http_more more)
{
    if (length == 0)
        return 0;
    note_output(stream, length);
    if (http_body_append(&stream->output, bytes, length, more) == 0)
        return 0;
    set_queued(stream->connection, queued_by(stream->connection) - length);
    return -1;
}

int http2_answer(http2_stream *seen, int status, const http2_rows *fields, int64_t length, const uint8_t *body,
                 size_t body_length, int is_whole, int64_t *given)
{
    http2_inner *stream = inner_of(seen);
    http_block *block;
    const http2_settings *settings = stream->connection->settings;
    http_server_name server = {settings->server_name, settings->server_name_length};
    int result = http_block_make(&block, server, status, fields, length, given);
    if (result != HTTP2_OK)
        return result;
    if (is_whole && *given >= 0 && length >= 0 && *given != length) {
        http_give(block);
        return HTTP2_OK; /* The caller compares *given with `length`. */
    }
    lock(stream->connection);
    if (is_gone(stream) || stream->answer_state != HTTP2_UNANSWERED ||
        append_output(stream, body, body_length, is_whole ? HTTP_NOTHING_FOLLOWS : HTTP_MORE_FOLLOWS) != 0) {
        http_give(block);
        result = HTTP2_GONE;
    } else {
        stream->answer = block;
        stream->status = status;
        stream->answer_state = HTTP2_ANSWER_HELD;
        stream->is_finished = is_whole != 0;
        stream->has_body = !is_whole || body_length > 0;
        push_answered(stream);
    }
    unlock(stream->connection);
    return result;
}

int http2_take_back(http2_stream *seen)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    int result = HTTP2_OK;
    if (stream->answer_state == HTTP2_ANSWER_HELD) {
        remove_answered(stream);
        drop_output(stream);
        http_give(stream->answer);
        http_give(stream->trailers);
        stream->answer = stream->trailers = NULL;
        stream->answer_state = HTTP2_UNANSWERED;
        stream->is_finished = 0;
    } else if (stream->answer_state == HTTP2_ANSWER_SUBMITTED) {
        result = HTTP2_GONE;
    }
    unlock(stream->connection);
    return result;
}

static void resume(http2_inner *stream)
{
    if (stream->is_deferred) {
        stream->is_deferred = 0;
        note_result(stream->connection, nghttp2_session_resume_data(stream->connection->session, stream->seen.id));
    }
}

/* The result of adding to a body. */
static int written(http2_inner *stream)
{
    push_answered(stream);
    resume(stream);
    return stream->output.length >= HTTP2_OUTPUT_HIGH || !has_common_room(stream) ? HTTP2_WAIT : HTTP2_OK;
}

static int takes_output(const http2_inner *stream)
{
    return !is_gone(stream) && !stream->is_finished;
}

int http2_write(http2_stream *seen, const uint8_t *bytes, size_t length)
{
    http2_inner *stream = inner_of(seen);
    int result = HTTP2_GONE;
    lock(stream->connection);
    if (takes_output(stream) && append_output(stream, bytes, length, HTTP_MORE_FOLLOWS) == 0)
        result = written(stream);
    unlock(stream->connection);
    return result;
}

int http2_write_piece(http2_stream *seen, http_piece *piece, size_t length)
{
    http2_inner *stream = inner_of(seen);
    int result = HTTP2_GONE;
    lock(stream->connection);
    if (takes_output(stream) && length > 0) {
        note_output(stream, length);
        http_body_append_piece(&stream->output, piece, length);
        piece = NULL;
        result = written(stream);
    }
    unlock(stream->connection);
    http_free_piece(piece);
    return result;
}

int http2_await_output(http2_stream *seen, uint32_t most)
{
    http2_inner *stream = inner_of(seen);
    int result = HTTP2_OK;
    lock(stream->connection);
    if (is_gone(stream)) {
        result = HTTP2_GONE;
    } else if (stream->output.length > most || !has_common_room(stream)) {
        stream->writer_waits = 1;
        stream->writer_mark = most;
        result = HTTP2_WAIT;
    }
    unlock(stream->connection);
    return result;
}

static int64_t window_of(const http2_inner *stream)
{
    return nghttp2_session_get_stream_remote_window_size(stream->connection->session, stream->seen.id);
}

/* The part of the connection's window that waiting bytes of no stream will use. Bytes that a stream's own window holds back need none. */
static int64_t free_window(const http2_connection *connection)
{
    int64_t left = nghttp2_session_get_remote_window_size(connection->session);
    for (const http2_inner *stream = connection->streams; stream != NULL; stream = stream->next)
        if (stream->output.length > 0) {
            int64_t own = window_of(stream), length = (int64_t)stream->output.length;
            left -= own <= 0 ? 0 : own < length ? own : length;
        }
    return left;
}

/* The bytes that may be added to the stream's body because of those of all bodies that wait. */
static int64_t common_room(const http2_inner *stream)
{
    int64_t room = (int64_t)COMMON_OUTPUT_MAX - (int64_t)queued_by(stream->connection);
    int64_t own = (int64_t)OWN_OUTPUT_MIN - (int64_t)stream->output.length;
    return room > own ? room : own;
}

int64_t http2_await_window(http2_stream *seen)
{
    http2_inner *stream = inner_of(seen);
    http2_connection *connection = stream->connection;
    int64_t result = -HTTP2_GONE;
    lock(connection);
    /* After the client has ended its side no window opens any more: what waits is given up (give_up_stuck). */
    if (!is_gone(stream) && seen->has_left) {
        result = 1;
    } else if (!is_gone(stream)) {
        int64_t own = window_of(stream) - (int64_t)stream->output.length, common = free_window(connection);
        result = own < common ? own : common;
        int64_t room = common_room(stream);
        result = result < room ? result : room;
        if (result <= 0) {
            connection->window_waiters += !stream->waits_for_window;
            stream->waits_for_window = 1;
            result = -HTTP2_WAIT;
        }
    }
    unlock(connection);
    return result;
}

int http2_finish(http2_stream *seen, const http2_rows *trailers)
{
    http2_inner *stream = inner_of(seen);
    http_block *block = NULL;
    if (trailers->count > 0) {
        int result = http_block_make_plain(&block, 0, trailers);
        if (result != HTTP2_OK)
            return result;
    }
    int result = HTTP2_GONE;
    lock(stream->connection);
    if (!is_gone(stream) && !stream->is_finished) {
        stream->trailers = block;
        stream->is_finished = 1;
        if (stream->answer_state == HTTP2_ANSWER_SUBMITTED && has_only_end(stream)) {
            submit_end(stream);
        } else {
            push_answered(stream);
            resume(stream);
        }
        block = NULL;
        result = HTTP2_OK;
    }
    unlock(stream->connection);
    http_give(block);
    return result;
}

int http2_inform(http2_stream *seen, int status, const http2_rows *fields)
{
    http2_inner *stream = inner_of(seen);
    http_block *block;
    int result = http_block_make_plain(&block, status, fields);
    if (result != HTTP2_OK)
        return result;
    lock(stream->connection);
    if (!is_gone(stream) && stream->answer_state == HTTP2_UNANSWERED) {
        for (uint32_t i = 0; i < block->count; i++)
            block->fields[i].flags = NGHTTP2_NV_FLAG_NONE; /* libnghttp2 must copy: the block is freed below */
        note_result(stream->connection, nghttp2_submit_headers(stream->connection->session, NGHTTP2_FLAG_NONE, seen->id,
                                                               NULL, nv_of(block), block->count, NULL));
    }
    unlock(stream->connection);
    http_give(block);
    return HTTP2_OK;
}

static void reset(http2_inner *stream, uint32_t code)
{
    if (is_gone(stream))
        return;
    stream->has_failed = 1;
    remove_answered(stream);
    drop_output(stream);
    push_reset(stream, code);
    http2_wake_all(stream);
}

/* The handler has failed. What it had flushed is sent first. */
static void abort_stream(http2_inner *stream)
{
    uint64_t sent = stream->seen.sent;
    uint64_t left = stream->flushed > sent ? stream->flushed - sent : 0;
    if (is_gone(stream))
        return;
    if (!stream->is_flushed || (left == 0 && stream->head_is_sent)) {
        reset(stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    stream->has_failed = stream->is_aborted = 1;
    stream->is_finished = 0;
    cut_output(stream, left);
    http2_wake_all(stream);
}

void http2_abort(http2_stream *seen)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    abort_stream(stream);
    unlock(stream->connection);
}

void http2_flush(http2_stream *seen)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    if (!is_gone(stream) && stream->answer_state != HTTP2_UNANSWERED) {
        if (stream->answer_state == HTTP2_ANSWER_HELD)
            submit_answer(stream);
        stream->is_flushed = 1;
        stream->flushed = seen->sent + stream->output.length;
    }
    unlock(stream->connection);
}

void http2_reset(http2_stream *seen, uint32_t code)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    reset(stream, code);
    unlock(stream->connection);
}

size_t http2_trailers(http2_stream *seen, uint8_t *destination, size_t room)
{
    http2_inner *stream = inner_of(seen);
    lock(stream->connection);
    size_t length = stream->fields.trailers_length;
    if (length > 0 && length <= room)
        memcpy(destination, stream->fields.trailers, length);
    unlock(stream->connection);
    return length;
}

uint64_t http2_release(http2_stream *seen, uint64_t now)
{
    http2_inner *stream = inner_of(seen);
    http2_connection *connection = stream->connection;
    lock(connection);
    connection->served--;
    stream->is_released = 1;
    http_conduct_forgive(&connection->conduct, &stream->cancellation, now);
    if (seen->is_closed) {
        drop_input(stream);
        free_stream(stream);
    } else {
        if (!stream->is_finished || stream->answer_state == HTTP2_UNANSWERED)
            abort_stream(stream);
        skip_input(stream);
        stream->drops_input = 1;
        http2_wake_all(stream); /* whoever waits for the end of the stream: the request has ended */
        if (is_only_skipped(stream))
            stop_client(stream);
    }
    wake_at_rest(connection);
    uint64_t flags = flags_of(connection);
    unlock(connection);
    return flags;
}
