/*
 * http3_stream.c - requests and their responses. Must not know: GHC, sockets, the clock.
 *
 * A stream's record is freed when the stream is closed and its handler has released it. Only then may the client open another stream: a
 * client that resets its requests cannot have more handlers running than it may have requests.
 *
 * ngtcp2 and libnghttp3 do not copy bodies and fields. So these stay until the client has acknowledged them, or the stream is closed.
 */
#include <stdlib.h>
#include <string.h>

#include "http3_internal.h"
#include "millrace_check.h"

/* This many bytes of a body are given to libnghttp3 at a time, at most, as one DATA frame. */
#define GIVEN_MOST 65536u

/* A writer also waits while this many bytes of its body are unacknowledged. */
#define UNACKNOWLEDGED_MAX 4194304u

/* The bytes of all bodies of a connection that may wait: to be sent, and to be acknowledged. Beyond it each stream may have a few kilobytes, so
 * that streams whose windows are closed hold up no other one. */
#define COMMON_OUTPUT_MAX (UINT64_C(8) << 20)
#define OWN_OUTPUT_MIN    4096u

/* An answer is sent when this many bytes of its body are there, or it is complete, or it was flushed. */
#define HELD_MOST 16384u

/* ------------------------------------------------------------------------------------------------------------------
 * Notices */

static void wake_reader(http3_inner *stream)
{
    if (stream->reader_waits) {
        stream->reader_waits = 0;
        http3_push_notice(stream->endpoint, stream->seen.key, HTTP3_READABLE);
    }
}

static void wake_writer(http3_inner *stream)
{
    if (stream->writer_waits) {
        stream->writer_waits = 0;
        http3_push_notice(stream->endpoint, stream->seen.key, HTTP3_WRITABLE);
    }
}

static void wake_for_window(http3_inner *stream)
{
    if (stream->waits_for_window) {
        stream->waits_for_window = 0;
        if (stream->connection != NULL)
            stream->connection->window_waiters--;
        http3_push_notice(stream->endpoint, stream->seen.key, HTTP3_WRITABLE);
    }
}

/* A window may have opened. Those that wait look again. */
void http3_note_windows(http3_connection *connection)
{
    if (connection->window_waiters > 0 && ngtcp2_conn_get_max_data_left(connection->quic) > 0)
        for (http3_inner *stream = connection->streams; stream != NULL; stream = stream->next)
            if (ngtcp2_conn_get_max_stream_data_left(connection->quic, stream->seen.id) > 0)
                wake_for_window(stream);
}

static void wake_all(http3_inner *stream)
{
    wake_reader(stream);
    wake_writer(stream);
    wake_for_window(stream);
    if (stream->close_waits) {
        stream->close_waits = 0;
        http3_push_notice(stream->endpoint, stream->seen.key, HTTP3_CLOSED);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * The bodies of a connection together */

static int64_t room_of(const http3_connection *connection)
{
    int64_t room = (int64_t)COMMON_OUTPUT_MAX;
    for (const http3_inner *stream = connection->streams; stream != NULL; stream = stream->next)
        room -= (int64_t)stream->output.length;
    return room;
}

/* The bytes that may be added to the stream's body because of those of all bodies. If there is no room, writers are woken when there is. */
static int64_t common_room(const http3_inner *stream)
{
    int64_t own = (int64_t)OWN_OUTPUT_MIN - (int64_t)stream->output.length;
    if (stream->connection == NULL)
        return own;
    int64_t room = room_of(stream->connection);
    if (room <= 0)
        stream->connection->lacks_room = 1;
    return room > own ? room : own;
}

static int has_common_room(const http3_inner *stream)
{
    return stream->output.length < OWN_OUTPUT_MIN || common_room(stream) > 0;
}

/* Bytes of bodies are gone. Writers that wait for common room look again when half of it is free: the connection's streams are many. */
static void note_room(http3_connection *connection)
{
    if (connection == NULL || !connection->lacks_room || room_of(connection) < (int64_t)COMMON_OUTPUT_MAX / 2)
        return;
    connection->lacks_room = 0;
    for (http3_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
        wake_writer(stream);
        wake_for_window(stream);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Records */

/* While a request is served, and neither side sends, the client is asked now and then whether it is there. Otherwise the connection would
 * end when it has been idle for so long as one without requests may be. A client that has gone does not answer: then it does end. */
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

http3_inner *http3_new_stream(http3_connection *connection, int64_t id)
{
    http3_endpoint *endpoint = connection->endpoint;
    http3_inner *stream = http_take_zeroed(sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->endpoint = endpoint;
    stream->connection = connection;
    stream->seen.id = id;
    stream->seen.connection = connection->number;
    stream->seen.key = ++endpoint->next_key;
    stream->moved_at = endpoint->now;
    stream->others_accepted = connection->accepted;
    stream->next = connection->streams;
    if (stream->next != NULL)
        stream->next->previous = stream;
    connection->streams = stream;
    if (connection->open_streams++ == 0)
        watch_client(connection);
    connection->active_at = endpoint->now;
    connection->had_requests = 1;
    endpoint->stream_count++;
    return stream;
}

static void unlink_stream(http3_inner *stream)
{
    http3_connection *connection = stream->connection;
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        connection->streams = stream->next;
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    stream->next = stream->previous = NULL;
    if (connection->writing == stream)
        connection->writing = NULL;
    if (--connection->open_streams == 0)
        watch_client(connection);
    connection->active_at = connection->endpoint->now;
    stream->connection = NULL;
}

static void free_stream(http3_inner *stream)
{
    http3_connection *connection = stream->connection;
    if (connection != NULL) {
        connection->heads_size -= stream->head_size;
        unlink_stream(stream);
        if (connection->quic != NULL) {
            ngtcp2_conn_extend_max_streams_bidi(connection->quic, 1);
            http3_make_pending(connection);
        }
    }
    stream->endpoint->stream_count--;
    http_building_drop(&stream->building);
    http_body_clear(&stream->input);
    http_body_clear(&stream->output);
    http_give(stream->fields.head);
    http_give(stream->fields.trailers);
    http_give(stream->answer);
    http_give(stream->trailers);
    http_give(stream);
}

static void copy_address(uint8_t *target, uint32_t *length, const ngtcp2_addr *source)
{
    *length = source->addrlen <= HTTP3_ADDRESS_MAX ? (uint32_t)source->addrlen : 0;
    memcpy(target, source->addr, *length);
}

void http3_make_ready(http3_inner *stream)
{
    http3_endpoint *endpoint = stream->endpoint;
    const ngtcp2_path *path = ngtcp2_conn_get_path(stream->connection->quic);
    copy_address(stream->seen.remote, &stream->seen.remote_length, &path->remote);
    copy_address(stream->seen.local, &stream->seen.local_length, &path->local);
    stream->is_ready = 1;
    http_list_append(&endpoint->ready, offsetof(http3_inner, next_ready), stream);
}

void http3_hold(http3_inner *stream)
{
    stream->is_held = 1;
    http_list_append(&stream->connection->held, offsetof(http3_inner, next_ready), stream);
}

/* The request will not be served. */
static void leave_lists(http3_inner *stream)
{
    http3_endpoint *endpoint = stream->endpoint;
    if (stream->is_ready)
        http_list_remove(&endpoint->ready, offsetof(http3_inner, next_ready), stream);
    if (stream->is_held)
        http_list_remove(&stream->connection->held, offsetof(http3_inner, next_ready), stream);
    stream->is_ready = stream->is_held = 0;
}

/* Lets the answer be sent. The beginning of a body that was not flushed is kept back, as over HTTP/1, so that another answer
 * can take its place if the handler fails; unless its writer has to wait until it is sent. */
static void push_answered(http3_inner *stream)
{
    http3_connection *connection = stream->connection;
    if (stream->answer_state != HTTP3_ANSWER_HELD || stream->in_answered ||
        !(stream->is_finished || stream->output.length >= HELD_MOST || !has_common_room(stream)))
        return;
    stream->in_answered = 1;
    http_list_append(&connection->answered, offsetof(http3_inner, next_answered), stream);
    http3_make_pending(connection);
}

static void remove_answered(http3_inner *stream)
{
    http3_connection *connection = stream->connection;
    if (stream->in_answered)
        http_list_remove(&connection->answered, offsetof(http3_inner, next_answered), stream);
    stream->in_answered = 0;
}

/* Neither libnghttp3 nor ngtcp2 refers to the stream's bytes any more: it is closed. */
static void drop_memory(http3_inner *stream)
{
    http_body_clear(&stream->output);
    http_give(stream->answer);
    http_give(stream->trailers);
    stream->answer = stream->trailers = NULL;
}

/* Opens the client's windows by this many bytes that are no longer kept. ngtcp2 tells the client when half of a window has been read. So
 * sending is of no use before an eighth of the first window has been. */
static void open_windows(http3_inner *stream, uint64_t length)
{
    const http3_settings *settings = &stream->endpoint->settings;
    http3_connection *connection = stream->connection;
    if (length == 0 || connection == NULL || connection->quic == NULL)
        return;
    if (!stream->seen.is_closed && !stream->seen.has_ended)
        (void)ngtcp2_conn_extend_max_stream_offset(connection->quic, stream->seen.id, length);
    ngtcp2_conn_extend_max_offset(connection->quic, length);
    stream->opened += length;
    connection->opened += length;
    if (stream->opened >= settings->stream_window / 8 || connection->opened >= settings->connection_window / 8) {
        stream->opened = connection->opened = 0;
        http3_make_pending(connection);
    }
}

static void drop_input(http3_inner *stream)
{
    open_windows(stream, stream->input.length);
    http_body_clear(&stream->input);
    stream->seen.unread = 0;
}

static void close_record(http3_inner *stream)
{
    stream->seen.is_closed = 1;
    stream->seen.was_reset = stream->has_failed || !stream->seen.has_ended || !stream->is_finished ||
                             stream->output.length > 0 || stream->confirmed < stream->accepted;
    leave_lists(stream);
    remove_answered(stream);
    drop_memory(stream);
    note_room(stream->connection);
    http_building_drop(&stream->building);
    if (!stream->seen.has_ended)
        drop_input(stream);
    wake_all(stream);
}

void http3_close_stream(http3_inner *stream)
{
    if (stream->seen.is_closed)
        return;
    close_record(stream);
    if (!stream->is_taken || stream->is_released) {
        drop_input(stream);
        free_stream(stream);
    }
}

void http3_orphan_stream(http3_inner *stream)
{
    if (!stream->seen.is_closed)
        close_record(stream);
    unlink_stream(stream);
    if (!stream->is_taken || stream->is_released)
        free_stream(stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input */

void http3_end_input(http3_inner *stream)
{
    stream->seen.has_ended = 1;
    wake_reader(stream);
}

/* Is so little left of the request's body that it is read and dropped? Otherwise the client is told to stop. At least the stream's
 * first window is dropped, because this many bytes may be on their way already. */
static int is_little_left(const http3_inner *stream)
{
    const http3_settings *settings = &stream->endpoint->settings;
    uint64_t most = settings->skipped_max > settings->stream_window ? settings->skipped_max : settings->stream_window;
    if (stream->seen.head.content_length >= 0)
        return (uint64_t)stream->seen.head.content_length - stream->seen.received <= most;
    return stream->skipped <= most;
}

void http3_stop_client(http3_inner *stream)
{
    http3_connection *connection = stream->connection;
    if (stream->has_stopped || stream->seen.has_ended || stream->seen.is_closed || !stream->drops_input ||
        !stream->end_is_given || is_little_left(stream))
        return;
    stream->has_stopped = 1;
    (void)nghttp3_conn_shutdown_stream_read(connection->http, stream->seen.id);
    (void)ngtcp2_conn_shutdown_stream_read(connection->quic, 0, stream->seen.id, HTTP3_NO_ERROR);
    http3_make_pending(connection);
}

void http3_take_input(http3_inner *stream, const uint8_t *bytes, size_t length)
{
    stream->seen.received += length;
    if (stream->drops_input || stream->has_failed || stream->seen.head.error != 0) {
        if (stream->drops_input && stream->end_is_given)
            stream->skipped += length;
        open_windows(stream, length);
        return;
    }
    if (http_body_append(&stream->input, bytes, length, HTTP_MORE_FOLLOWS) != 0) {
        http3_fail(stream->connection, HTTP3_INTERNAL_ERROR);
        return;
    }
    stream->seen.unread = stream->input.length;
    wake_reader(stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Output */

void http3_lose_stream(http3_inner *stream)
{
    if (stream->seen.is_closed)
        return;
    stream->has_failed = 1;
    stream->is_aborted = 0;
    remove_answered(stream);
    http_body_cut(&stream->output, 0);
    leave_lists(stream);
    wake_all(stream);
    note_room(stream->connection);
}

void http3_shut_stream(http3_inner *stream, uint64_t code)
{
    http3_connection *connection = stream->connection;
    http3_lose_stream(stream);
    stream->has_stopped = 1;
    (void)nghttp3_conn_shutdown_stream_read(connection->http, stream->seen.id);
    nghttp3_conn_shutdown_stream_write(connection->http, stream->seen.id);
    (void)ngtcp2_conn_shutdown_stream(connection->quic, 0, stream->seen.id, code);
    http3_make_pending(connection);
}

static void reset(http3_inner *stream, uint64_t code)
{
    if (stream->seen.is_closed || (stream->has_failed && !stream->is_aborted))
        return;
    if (stream->connection->quic == NULL)
        http3_lose_stream(stream);
    else
        http3_shut_stream(stream, code);
}

static uint64_t unsent(const http3_inner *stream)
{
    return stream->output.ungiven;
}

static void count_sent(http3_inner *stream)
{
    stream->seen.sent = stream->accepted < stream->given ? stream->accepted : stream->given;
}

/* May a writer that waits until at most `most` bytes are unsent continue? */
static int has_room(const http3_inner *stream, uint64_t most)
{
    return unsent(stream) <= most && stream->output.length < UNACKNOWLEDGED_MAX && has_common_room(stream);
}

static void wake_writer_with_room(http3_inner *stream)
{
    if (stream->writer_waits && has_room(stream, stream->writer_mark))
        wake_writer(stream);
}

static nghttp3_ssize read_output(nghttp3_conn *http, int64_t id, nghttp3_vec *pieces, size_t count, uint32_t *flags,
                                 void *data, void *stream_data)
{
    (void)http, (void)id, (void)data;
    return http3_give_output(stream_data, pieces, count, flags);
}

nghttp3_ssize http3_give_output(http3_inner *stream, nghttp3_vec *pieces, size_t count, uint32_t *flags)
{
    http3_connection *connection = stream->connection;
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
    stream->given += before - stream->output.ungiven;
    if (stream->output.ungiven == 0 && stream->is_finished) {
        *flags |= NGHTTP3_DATA_FLAG_EOF;
        stream->end_is_given = 1;
        if (stream->trailers != NULL &&
            nghttp3_conn_submit_trailers(connection->http, stream->seen.id, nv_of(stream->trailers),
                                         stream->trailers->count) == 0)
            *flags |= NGHTTP3_DATA_FLAG_NO_END_STREAM;
        stream->end_waits = used == 0;
        http3_stop_client(stream);
    }
    wake_writer_with_room(stream);
    return (nghttp3_ssize)used;
}

/* Gives an answer to libnghttp3. It cannot be taken back afterwards. */
static void submit_answer(http3_inner *stream)
{
    http3_connection *connection = stream->connection;
    nghttp3_data_reader reader = {read_output};
    remove_answered(stream);
    stream->answer_state = HTTP3_ANSWER_SUBMITTED;
    if (!stream->has_body)
        stream->end_is_given = 1;
    if (nghttp3_conn_submit_response(connection->http, stream->seen.id, nv_of(stream->answer), stream->answer->count,
                                     stream->has_body ? &reader : NULL) != 0)
        reset(stream, HTTP3_INTERNAL_ERROR);
    else if (stream->end_is_given)
        http3_stop_client(stream);
    http3_make_pending(connection);
}

void http3_submit_answers(http3_connection *connection)
{
    while (connection->answered.first != NULL)
        submit_answer(connection->answered.first);
}

/* A response that was aborted is cut off when the client has what was flushed before: a reset would take back what is on its way. */
static void reset_if_confirmed(http3_inner *stream)
{
    if (stream->is_aborted && stream->output.length == 0 && stream->accepted > 0 &&
        stream->confirmed == stream->accepted)
        reset(stream, HTTP3_INTERNAL_ERROR);
}

void http3_note_accepted(http3_inner *stream, uint64_t length)
{
    stream->accepted += length;
    count_sent(stream);
    stream->stalled_since = 0;
    stream->moved_at = stream->endpoint->now;
}

void http3_note_acknowledged(http3_inner *stream, uint64_t length)
{
    MR_CHECK(stream->output.length - stream->output.ungiven >= length);
    http_body_drop(&stream->output, length);
    stream->seen.acknowledged += length;
    wake_writer_with_room(stream);
    if (stream->output.length < OWN_OUTPUT_MIN)
        wake_for_window(stream);
    note_room(stream->connection);
}

void http3_note_confirmed(http3_inner *stream, uint64_t length)
{
    stream->confirmed += length;
    stream->moved_at = stream->endpoint->now;
    reset_if_confirmed(stream);
}

/* A number that grows while the client takes what it can. What is sent of the stream counts, and what is acknowledged. The bytes of
 * other streams count while the client's window of this one is open: then it waits behind the others, or for the
 * connection's window. */
static uint64_t progress_of(http3_inner *stream)
{
    const http3_connection *connection = stream->connection;
    if (connection != NULL && connection->quic != NULL) {
        uint64_t others = connection->accepted - stream->accepted;
        if (ngtcp2_conn_get_max_stream_data_left(connection->quic, stream->seen.id) > 0)
            stream->behind_others += others - stream->others_accepted;
        stream->others_accepted = others;
    }
    return stream->accepted + stream->confirmed + stream->behind_others;
}

uint64_t http3_progress(http3_stream *seen)
{
    http3_inner *stream = inner_of(seen);
    http3_lock(stream->endpoint);
    uint64_t progress = progress_of(stream);
    http3_unlock(stream->endpoint);
    return progress;
}

/* Has the stream made no progress for so long? */
static int is_still(http3_inner *stream, uint64_t now, uint64_t limit)
{
    int has_output = stream->output.length > 0 || stream->confirmed < stream->accepted;
    if (!has_output)
        return stream->drops_input && stream->end_is_given && now - stream->moved_at >= limit;
    if (stream->answer_state != HTTP3_ANSWER_SUBMITTED)
        return 0; /* it waits for its handler */
    uint64_t progress = progress_of(stream);
    if (stream->stalled_since == 0 || progress != stream->stalled_progress) {
        stream->stalled_since = now;
        stream->stalled_progress = progress;
    }
    return now - stream->stalled_since >= limit;
}

uint32_t http3_reset_stalled(http3_endpoint *endpoint, uint64_t now, uint64_t limit)
{
    uint32_t count = 0;
    http3_lock(endpoint);
    for (http3_connection *connection = endpoint->connections; connection != NULL; connection = connection->next)
        for (http3_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
            if (stream->seen.is_closed || (stream->has_failed && !stream->is_aborted) || !is_still(stream, now, limit))
                continue;
            reset(stream, stream->output.length > 0 ? HTTP3_REQUEST_CANCELLED : HTTP3_NO_ERROR);
            count++;
        }
    http3_unlock(endpoint);
    return count;
}

uint32_t http3_reset_unfinished(http3_endpoint *endpoint, uint64_t now, uint64_t limit)
{
    uint32_t count = 0;
    http3_lock(endpoint);
    for (http3_connection *connection = endpoint->connections; connection != NULL; connection = connection->next)
        for (http3_inner *stream = connection->streams; stream != NULL; stream = stream->next) {
            int is_unfinished = !stream->is_taken && !stream->is_ready && !stream->is_held && !stream->seen.is_closed &&
                                !stream->has_failed;
            if (!is_unfinished || now < stream->moved_at || now - stream->moved_at < limit)
                continue;
            reset(stream, HTTP3_REQUEST_REJECTED);
            count++;
        }
    http3_unlock(endpoint);
    return count;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The functions for handlers */

http3_stream *http3_next_request(http3_endpoint *endpoint)
{
    http3_lock(endpoint);
    http3_inner *stream = http_list_shift(&endpoint->ready, offsetof(http3_inner, next_ready));
    if (stream != NULL) {
        stream->is_ready = 0;
        stream->is_taken = 1;
    }
    http3_unlock(endpoint);
    return stream == NULL ? NULL : &stream->seen;
}

void http3_copy_head(http3_stream *seen, uint8_t *destination)
{
    http3_inner *stream = inner_of(seen);
    memcpy(destination, stream->fields.head, seen->head.field_count * sizeof(http_field) + seen->head.text_length);
    http_give(stream->fields.head);
    stream->fields.head = NULL;
}

int64_t http3_read(http3_stream *seen, uint8_t *destination, size_t room, int waits)
{
    http3_inner *stream = inner_of(seen);
    int64_t result;
    http3_lock(stream->endpoint);
    /* NOLINTNEXTLINE(bugprone-branch-clone): the order of the conditions matters */
    if (stream->is_read) {
        result = -HTTP3_GONE;
    } else if (stream->input.length > 0) {
        size_t count = http_body_take(&stream->input, destination, room);
        seen->unread = stream->input.length;
        open_windows(stream, count);
        result = (int64_t)count;
    } else if (seen->has_ended) {
        result = 0;
    } else if (seen->is_closed || stream->has_failed) {
        result = -HTTP3_GONE;
    } else {
        stream->reader_waits = waits != 0;
        result = -HTTP3_WAIT;
    }
    http3_unlock(stream->endpoint);
    return result;
}

void http3_end_reading(http3_stream *seen)
{
    http3_inner *stream = inner_of(seen);
    http3_lock(stream->endpoint);
    stream->is_read = 1;
    wake_reader(stream);
    http3_unlock(stream->endpoint);
}

int http3_await_close(http3_stream *seen)
{
    http3_inner *stream = inner_of(seen);
    http3_lock(stream->endpoint);
    int result = seen->is_closed || stream->has_failed ? HTTP3_GONE : HTTP3_WAIT;
    if (result == HTTP3_WAIT)
        stream->close_waits = 1;
    http3_unlock(stream->endpoint);
    return result;
}

static int is_gone(const http3_inner *stream)
{
    return stream->seen.is_closed || stream->has_failed;
}

static int append_output(http3_inner *stream, const uint8_t *bytes, size_t length, http_more more)
{
    if (length == 0)
        return 0;
    if (unsent(stream) == 0)
        stream->stalled_since = 0;
    if (http_body_append(&stream->output, bytes, length, more) != 0)
        return -1;
    stream->written += length;
    return 0;
}

int http3_answer(http3_stream *seen, int status, const http3_rows *fields, int64_t length, const uint8_t *body,
                 size_t body_length, int is_whole, int64_t *given)
{
    http3_inner *stream = inner_of(seen);
    const http3_settings *settings = &stream->endpoint->settings;
    http_server_name server = {settings->server_name, settings->server_name_length};
    http_block *block;
    int result = http_block_make(&block, server, status, fields, length, given);
    if (result != HTTP3_OK)
        return result;
    if (is_whole && *given >= 0 && length >= 0 && *given != length) {
        http_give(block);
        return HTTP3_OK; /* The caller compares *given with `length`. */
    }
    http3_lock(stream->endpoint);
    if (is_gone(stream) || stream->answer_state != HTTP3_UNANSWERED ||
        append_output(stream, body, body_length, is_whole ? HTTP_NOTHING_FOLLOWS : HTTP_MORE_FOLLOWS) != 0) {
        http_give(block);
        result = HTTP3_GONE;
    } else {
        stream->answer = block;
        stream->answer_state = HTTP3_ANSWER_HELD;
        stream->is_finished = is_whole != 0;
        stream->has_body = !is_whole || body_length > 0;
        push_answered(stream);
    }
    http3_unlock(stream->endpoint);
    return result;
}

int http3_take_back(http3_stream *seen)
{
    http3_inner *stream = inner_of(seen);
    int result = HTTP3_OK;
    http3_lock(stream->endpoint);
    if (stream->answer_state == HTTP3_ANSWER_HELD && !seen->is_closed) {
        remove_answered(stream);
        drop_memory(stream);
        stream->written = 0;
        stream->answer_state = HTTP3_UNANSWERED;
        stream->is_finished = 0;
    } else if (stream->answer_state == HTTP3_ANSWER_SUBMITTED) {
        result = HTTP3_GONE;
    }
    http3_unlock(stream->endpoint);
    return result;
}

static void resume(http3_inner *stream)
{
    if (!stream->is_deferred)
        return;
    stream->is_deferred = 0;
    (void)nghttp3_conn_resume_stream(stream->connection->http, stream->seen.id);
    http3_make_pending(stream->connection);
}

/* The result of adding to a body. */
static int written(http3_inner *stream)
{
    push_answered(stream);
    resume(stream);
    return has_room(stream, HTTP3_OUTPUT_HIGH - 1) ? HTTP3_OK : HTTP3_WAIT;
}

static int takes_output(const http3_inner *stream)
{
    return !is_gone(stream) && !stream->is_finished && stream->answer_state != HTTP3_UNANSWERED;
}

int http3_write(http3_stream *seen, const uint8_t *bytes, size_t length)
{
    http3_inner *stream = inner_of(seen);
    int result = HTTP3_GONE;
    http3_lock(stream->endpoint);
    if (takes_output(stream) && append_output(stream, bytes, length, HTTP_MORE_FOLLOWS) == 0)
        result = written(stream);
    http3_unlock(stream->endpoint);
    return result;
}

int http3_write_piece(http3_stream *seen, http_piece *piece, size_t length)
{
    http3_inner *stream = inner_of(seen);
    int result = HTTP3_GONE;
    http3_lock(stream->endpoint);
    if (takes_output(stream) && length > 0) {
        if (unsent(stream) == 0)
            stream->stalled_since = 0;
        http_body_append_piece(&stream->output, piece, length);
        stream->written += length;
        piece = NULL;
        result = written(stream);
    }
    http3_unlock(stream->endpoint);
    http_free_piece(piece);
    return result;
}

int http3_await_output(http3_stream *seen, uint32_t most)
{
    http3_inner *stream = inner_of(seen);
    int result = HTTP3_OK;
    http3_lock(stream->endpoint);
    if (is_gone(stream)) {
        result = HTTP3_GONE;
    } else if (!has_room(stream, most)) {
        stream->writer_waits = 1;
        stream->writer_mark = most;
        result = HTTP3_WAIT;
    }
    http3_unlock(stream->endpoint);
    return result;
}

/* Bytes that wait and that the client's window takes. */
static uint64_t promised(const http3_inner *stream)
{
    uint64_t own = ngtcp2_conn_get_max_stream_data_left(stream->connection->quic, stream->seen.id);
    return own < unsent(stream) ? own : unsent(stream);
}

int64_t http3_await_window(http3_stream *seen)
{
    http3_inner *stream = inner_of(seen);
    http3_connection *connection = stream->connection;
    int64_t result = -HTTP3_GONE;
    http3_lock(stream->endpoint);
    if (!is_gone(stream) && connection != NULL && connection->quic != NULL) {
        int64_t own = (int64_t)ngtcp2_conn_get_max_stream_data_left(connection->quic, seen->id);
        int64_t common = (int64_t)ngtcp2_conn_get_max_data_left(connection->quic);
        own -= (int64_t)unsent(stream);
        for (const http3_inner *other = connection->streams; other != NULL; other = other->next)
            if (unsent(other) > 0)
                common -= (int64_t)promised(other);
        result = own < common ? own : common;
        int64_t room = common_room(stream);
        result = result < room ? result : room;
        if (result <= 0) {
            connection->window_waiters += !stream->waits_for_window;
            stream->waits_for_window = 1;
            result = -HTTP3_WAIT;
        }
    }
    http3_unlock(stream->endpoint);
    return result;
}

int http3_finish(http3_stream *seen, const http3_rows *trailers)
{
    http3_inner *stream = inner_of(seen);
    http_block *block = NULL;
    if (trailers->count > 0) {
        int result = http_block_make_plain(&block, 0, trailers);
        if (result != HTTP3_OK)
            return result;
    }
    int result = HTTP3_GONE;
    http3_lock(stream->endpoint);
    if (takes_output(stream)) {
        stream->trailers = block;
        stream->is_finished = 1;
        stream->connection->has_late_end |= unsent(stream) == 0;
        push_answered(stream);
        resume(stream);
        block = NULL;
        result = HTTP3_OK;
    }
    http3_unlock(stream->endpoint);
    http_give(block);
    return result;
}

int http3_inform(http3_stream *seen, int status, const http3_rows *fields)
{
    http3_inner *stream = inner_of(seen);
    http_block *block;
    int result = http_block_make_plain(&block, status, fields);
    if (result != HTTP3_OK)
        return result;
    http3_lock(stream->endpoint);
    if (!is_gone(stream) && stream->answer_state == HTTP3_UNANSWERED) {
        for (uint32_t i = 0; i < block->count; i++)
            block->fields[i].flags = NGHTTP3_NV_FLAG_NONE; /* libnghttp3 must copy: the block is freed below */
        (void)nghttp3_conn_submit_info(stream->connection->http, seen->id, nv_of(block), block->count);
        http3_make_pending(stream->connection);
    }
    http3_unlock(stream->endpoint);
    http_give(block);
    return HTTP3_OK;
}

/* The handler has failed. What it had flushed is sent first. */
static void abort_stream(http3_inner *stream)
{
    if (is_gone(stream))
        return;
    if (!stream->is_flushed) {
        reset(stream, HTTP3_INTERNAL_ERROR);
        return;
    }
    stream->has_failed = stream->is_aborted = 1;
    stream->is_finished = 0;
    http_body_cut(&stream->output, stream->flushed > stream->given ? stream->flushed - stream->given : 0);
    note_room(stream->connection);
    wake_all(stream);
    reset_if_confirmed(stream);
}

void http3_abort(http3_stream *seen)
{
    http3_inner *stream = inner_of(seen);
    http3_lock(stream->endpoint);
    abort_stream(stream);
    http3_unlock(stream->endpoint);
}

void http3_flush(http3_stream *seen)
{
    http3_inner *stream = inner_of(seen);
    http3_lock(stream->endpoint);
    if (!is_gone(stream) && stream->answer_state != HTTP3_UNANSWERED) {
        if (stream->answer_state == HTTP3_ANSWER_HELD)
            submit_answer(stream);
        stream->is_flushed = 1;
        stream->flushed = stream->written;
    }
    http3_unlock(stream->endpoint);
}

void http3_reset(http3_stream *seen, uint64_t code)
{
    http3_inner *stream = inner_of(seen);
    http3_lock(stream->endpoint);
    reset(stream, code);
    http3_unlock(stream->endpoint);
}

size_t http3_trailers(http3_stream *seen, uint8_t *destination, size_t room)
{
    http3_inner *stream = inner_of(seen);
    http3_lock(stream->endpoint);
    size_t length = stream->fields.trailers_length;
    if (length > 0 && length <= room)
        memcpy(destination, stream->fields.trailers, length);
    http3_unlock(stream->endpoint);
    return length;
}

uint64_t http3_release(http3_stream *seen, uint64_t now)
{
    http3_inner *stream = inner_of(seen);
    http3_endpoint *endpoint = stream->endpoint;
    http3_lock(endpoint);
    stream->is_released = 1;
    if (stream->connection != NULL)
        http_conduct_forgive(&stream->connection->conduct, &seen->cancellation,
                             now > endpoint->now ? now : endpoint->now);
    if (seen->is_closed) {
        drop_input(stream);
        free_stream(stream);
    } else {
        if (!stream->is_finished || stream->answer_state == HTTP3_UNANSWERED)
            abort_stream(stream);
        drop_input(stream);
        stream->drops_input = 1;
        wake_all(stream); /* whoever waits for the end of the stream: the request has ended */
        http3_stop_client(stream);
    }
    uint64_t flags = http3_flags(endpoint);
    http3_unlock(endpoint);
    return flags;
}
