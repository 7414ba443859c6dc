/*
 * http2_session.c - connections of HTTP/2 on libnghttp2: their beginning and end, bytes in and out, and who sends.
 * Must not know: GHC, sockets, the clock.
 */
#include <stdlib.h>
#include <string.h>

#include "http2_internal.h"

#define CONTINUATIONS_MAX 64u

/* ------------------------------------------------------------------------------------------------------------------
 * Notices of the connection */

static void wake_driver(http2_connection *connection)
{
    if (connection->driver_waits) {
        connection->driver_waits = 0;
        http_notify_engine(&connection->engine, HTTP_WRITABLE);
    }
}

/* libnghttp2 has ended the connection: it neither sends nor receives any more. */
static int is_over(const http2_connection *connection)
{
    return !nghttp2_session_want_read(connection->session) && !nghttp2_session_want_write(connection->session);
}

/* Whether all is sent that can be sent after the client has ended its side. The rest of an incomplete request will not
   come. */
static int is_at_rest(const http2_connection *connection)
{
    if (connection->is_closed || connection->is_broken)
        return 1;
    if (connection->is_sending)
        return 0;
    if (connection->has_failed || is_over(connection))
        return 1;
    if (connection->served > 0 || connection->engine.ready.first != NULL)
        return 0;
    for (const http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next)
        if (stream->is_taken && !http2_is_only_skipped(stream))
            return 0;
    return 1;
}

static void wake_at_rest(http2_connection *connection)
{
    if (connection->rest_waits && is_at_rest(connection)) {
        connection->rest_waits = 0;
        http_notify_engine(&connection->engine, HTTP_CLOSED);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * The beginning and the end */

static nghttp2_option *make_option(const http_settings *settings)
{
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, settings->table_max);
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
    const http_settings *settings = connection->settings;
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, UINT32_MAX}, /* see put_streams_max */
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings->head_max + 32 * settings->fields_max},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}};
    _Static_assert(HTTP2_CHANGED_MAX == HTTP2_FRAME_HEAD + 6 * (sizeof entries / sizeof *entries),
                   "the first SETTINGS");
    if (nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, entries, sizeof entries / sizeof *entries) != 0)
        return -1;
    return nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
                                                 (int32_t)settings->connection_window);
}

/* For all connections. Those that found no memory for them did not begin, and the next one tries again. NULL without
   memory. */
static nghttp2_session_callbacks *callbacks(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static nghttp2_session_callbacks *made;
    pthread_mutex_lock(&lock);
    if (made == NULL)
        made = http2_make_callbacks();
    nghttp2_session_callbacks *result = made;
    pthread_mutex_unlock(&lock);
    return result;
}

static int open_session(http2_connection *connection)
{
    const nghttp2_session_callbacks *shared = callbacks();
    nghttp2_option *option = shared == NULL ? NULL : make_option(connection->settings);
    if (option == NULL)
        return -1;
    nghttp2_mem memory = http2_allocator(connection);
    int result = nghttp2_session_server_new3(&connection->session, shared, connection, option, &memory);
    nghttp2_option_del(option);
    if (result == 0)
        result = submit_settings(connection);
    http2_arena_seal(connection);
    return result == 0 ? 0 : -1;
}

static int open_engine(http2_connection *connection)
{
    const http_settings *settings = connection->settings;
    http_engine *engine = &connection->engine;
    engine->allowances = &settings->allowances;
    engine->server = (http_server_name){settings->server_name, settings->server_name_length};
    engine->head_max = settings->head_max;
    engine->skipped_max =
        settings->skipped_max > settings->stream_window ? settings->skipped_max : settings->stream_window;
    return http_engine_begin(engine, &http2_protocol);
}

int http2_is_supported(void)
{
    return 1;
}

http2_connection *http2_open(const http_settings *settings, int is_secure)
{
    http2_connection *connection = http2_arena_open();
    if (connection == NULL)
        return NULL;
    connection->settings = settings;
    connection->stream_window = settings->stream_window;
    connection->known_window = NGHTTP2_INITIAL_WINDOW_SIZE;
    connection->connection_window = settings->connection_window;
    http_conduct_begin(&connection->streams.conduct, &settings->allowances, 0);
    connection->is_promised = 1;
    connection->is_secure = is_secure != 0;
    connection->payload_left = NGHTTP2_CLIENT_MAGIC_LEN;
    if (open_engine(connection) != 0 || open_session(connection) != 0) {
        if (connection->session != NULL)
            nghttp2_session_del(connection->session);
        http_engine_end(&connection->engine);
        http2_arena_close(connection);
        return NULL;
    }
    return connection;
}

void http2_free(http2_connection *connection)
{
    http_engine_end(&connection->engine);
    http2_arena_close(connection);
}

void http2_close(http2_connection *connection)
{
    http_lock(&connection->engine);
    connection->is_closed = 1;
    for (http_stream *stream = connection->streams.first, *next; stream != NULL; stream = next) {
        next = stream->next;
        http2_close_stream(stream, NGHTTP2_CONNECT_ERROR);
    }
    http_building_drop(&connection->building);
    wake_driver(connection);
    nghttp2_session_del(connection->session);
    connection->session = NULL;
    http_unlock(&connection->engine);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input */

static uint64_t flags_of(const http2_connection *connection)
{
    uint64_t flags = http_engine_flags(&connection->engine);
    if (connection->served >= connection->settings->streams_max)
        flags &= ~HTTP_HAS_REQUESTS;
    if (connection->has_failed)
        flags |= HTTP2_HAS_FAILED;
    if (connection->streams.conduct.limit != HTTP_LIMIT_NONE && !connection->streams.conduct.is_told)
        flags |= HTTP2_HAS_LIMIT;
    if (!connection->has_begun || (connection->building != NULL && connection->building->owner != NULL))
        flags |= HTTP2_IN_HEAD;
    return flags;
}

static void end_for_limit(http2_connection *connection)
{
    if (connection->streams.conduct.limit == HTTP_LIMIT_NONE || connection->ends_for_limit ||
        connection->violation != 0)
        return;
    const char *text = http_limit_text(connection->streams.conduct.limit);
    connection->ends_for_limit = connection->takes_no_more = 1;
    http2_note_result(connection,
                      nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                                            nghttp2_session_get_last_proc_stream_id(connection->session),
                                            NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)text, strlen(text)));
}

static void end_for_client(http2_connection *connection)
{
    end_for_limit(connection);
    if (connection->violation != 0 && !connection->has_failed) {
        connection->has_failed = 1;
        http2_note_result(connection, nghttp2_session_terminate_session(connection->session, connection->violation));
    }
}

uint64_t http2_feed(http2_connection *connection, const uint8_t *bytes, size_t length, uint64_t now)
{
    http_lock(&connection->engine);
    connection->engine.now = now;
    connection->is_promised = 1;
    if (!connection->has_failed && !connection->is_closed) {
        http2_give_frames(connection, bytes, length);
        end_for_client(connection);
        http2_begin_probe(connection);
    }
    if (connection->building != NULL && connection->building->owner == NULL)
        http_building_drop(&connection->building);
    uint64_t flags = flags_of(connection);
    http_unlock(&connection->engine);
    return flags;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Output */

/* Returns how many bytes libnghttp2 has to send next, in connection->left. Sending a frame may add a reset
   (on_frame_send). */
static ssize_t next_output(http2_connection *connection)
{
    for (;;) {
        int failed = http2_submit_resets(connection);
        if (failed != 0)
            return failed; /* without its reset, what was sent of an answer could be taken for the whole */
        ssize_t count = nghttp2_session_mem_send(connection->session, &connection->left);
        if (count != 0 || connection->resetting.first == NULL)
            return count;
    }
}

/* The frame of an end without bytes (submit_end). */
static void make_end(http2_connection *connection)
{
    if (connection->left_length != HTTP2_FRAME_HEAD || connection->left[3] != NGHTTP2_HEADERS ||
        http2_number_at(connection->left, 3) != 0)
        return;
    memcpy(connection->changed, connection->left, HTTP2_FRAME_HEAD);
    connection->changed[3] = NGHTTP2_DATA;
    connection->changed[4] = NGHTTP2_FLAG_END_STREAM;
    connection->left = connection->changed;
}

/* Puts the number of streams into the first SETTINGS frame. libnghttp2 knows no such number, because it would end the
 * connection of a client that opens one more. http2_has_slot decides instead, and only that stream is refused. */
static void put_streams_max(http2_connection *connection)
{
    uint8_t *value = connection->changed + HTTP2_FRAME_HEAD + 2;
    if (connection->left_length != HTTP2_CHANGED_MAX || connection->left[3] != NGHTTP2_SETTINGS ||
        http2_number_at(connection->left + HTTP2_FRAME_HEAD, 2) != NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        return;
    memcpy(connection->changed, connection->left, HTTP2_CHANGED_MAX);
    for (int i = 0; i < 4; i++)
        value[i] = (uint8_t)(connection->settings->streams_max >> (24 - 8 * i));
    connection->left = connection->changed;
}

static void copy_left(http2_connection *connection)
{
    size_t count = connection->out_capacity - connection->out_length;
    if (count > connection->left_length)
        count = connection->left_length;
    memcpy(connection->out + connection->out_length, connection->left, count);
    connection->out_length += count;
    connection->left += count;
    connection->left_length -= count;
}

static void fill_output(http2_connection *connection, uint8_t *out, size_t capacity)
{
    connection->out = out;
    connection->out_capacity = capacity;
    connection->out_length = 0;
    connection->is_blocked = 0;
    while (connection->out_length < capacity && !connection->is_blocked && !connection->makes_no_more) {
        if (connection->left_length == 0) {
            ssize_t count = next_output(connection);
            if (count <= 0) {
                if (count < 0)
                    connection->has_failed = connection->makes_no_more = 1;
                break;
            }
            connection->left_length = (size_t)count;
            make_end(connection);
            put_streams_max(connection);
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

/* When the client has ended its side, no window opens any more. If nothing can be sent, resets the streams that wait
 * for that. Returns how many there were. */
static int give_up_stuck(http2_connection *connection)
{
    int count = 0;
    if (!connection->has_left || connection->out_length > 0)
        return 0;
    for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next) {
        int is_waiting = stream->answer_state == HTTP_ANSWER_SUBMITTED &&
                         (stream->output.length > 0 || stream->is_finished) &&
                         nghttp2_session_get_stream_local_close(connection->session, http2_id(stream)) == 0;
        if (is_waiting && (!stream->has_failed || stream->is_aborted)) {
            http_reset(stream, stream->output.length > 0 ? NGHTTP2_CANCEL : NGHTTP2_NO_ERROR);
            count++;
        }
    }
    return count;
}

uint64_t http2_collect(http2_connection *connection, uint8_t *out, size_t capacity, http_sender sender)
{
    http_lock(&connection->engine);
    if (connection->is_closed) {
        connection->is_sending = 0;
        http_unlock(&connection->engine);
        return HTTP_IS_OVER | HTTP_HAS_ENDED;
    }
    if (sender != HTTP_SENDER_AGAIN && connection->is_sending) {
        if (sender == HTTP_SENDER_DRIVER)
            connection->is_promised = 0;
        uint64_t flags = flags_of(connection) | HTTP_IS_BUSY;
        http_unlock(&connection->engine);
        return flags;
    }
    connection->is_sending = 1;
    if (sender == HTTP_SENDER_DRIVER)
        connection->is_promised = 0;
    http_submit_answers(&connection->streams);
    fill_output(connection, out, capacity);
    if (give_up_stuck(connection) > 0)
        fill_output(connection, out, capacity);
    if (connection->out_length == 0 || backlog_of(connection) <= connection->driver_mark)
        wake_driver(connection);
    uint64_t flags = 0;
    int is_all = connection->left_length == 0 && !connection->is_blocked && connection->out_length < capacity;
    if (is_all && is_over(connection))
        flags |= HTTP_IS_OVER;
    if (connection->out_length == 0 || (sender == HTTP_SENDER_DRIVER && is_all && connection->served == 0)) {
        connection->is_sending = 0;
        wake_at_rest(connection);
        flags |= HTTP_HAS_ENDED;
    }
    flags |= flags_of(connection) | connection->out_length;
    http_unlock(&connection->engine);
    return flags;
}

int http2_has_much(const http2_connection *connection)
{
    return atomic_load_explicit(&connection->streams.queued, memory_order_relaxed) > HTTP2_COLLECT_MIN;
}

uint8_t *http2_alloc_output(void)
{
    return http_alloc(HTTP2_COLLECT_MUCH);
}

void http2_free_output(uint8_t *memory)
{
    http_free(memory);
}

void http2_stop_sending(http2_connection *connection)
{
    http_lock(&connection->engine);
    connection->is_sending = 0;
    connection->is_broken = 1;
    wake_driver(connection);
    wake_at_rest(connection);
    http_unlock(&connection->engine);
}

void http2_resume_sending(http2_connection *connection)
{
    http_lock(&connection->engine);
    if (connection->is_sending)
        abort(); /* Two threads would interleave their bytes. */
    connection->is_sending = 1;
    http_unlock(&connection->engine);
}

int http2_needs_sender(http2_connection *connection)
{
    http_lock(&connection->engine);
    int needs = !connection->is_promised && !connection->is_sending && !connection->is_closed;
    http_unlock(&connection->engine);
    return needs;
}

int http2_await_backlog(http2_connection *connection, uint32_t most)
{
    int result = HTTP_OK;
    http_lock(&connection->engine);
    if (!connection->is_closed && connection->is_sending && backlog_of(connection) > most) {
        connection->driver_waits = 1;
        connection->driver_mark = most;
        result = HTTP_WAIT;
    }
    http_unlock(&connection->engine);
    return result;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Streams */

http_limit http2_take_limit(http2_connection *connection)
{
    http_lock(&connection->engine);
    http_limit limit = http_conduct_tell(&connection->streams.conduct);
    http_unlock(&connection->engine);
    return limit;
}

uint32_t http2_stream_count(http2_connection *connection)
{
    http_lock(&connection->engine);
    uint32_t count = connection->stream_count > connection->served ? connection->stream_count : connection->served;
    http_unlock(&connection->engine);
    return count;
}

uint32_t http2_reset_stalled(http2_connection *connection, uint64_t now, uint64_t limit)
{
    http_lock(&connection->engine);
    uint32_t count = http_reset_stalled(&connection->streams, now, limit);
    http_unlock(&connection->engine);
    return count;
}

void http2_end_input(http2_connection *connection)
{
    http_lock(&connection->engine);
    connection->has_left = 1;
    for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next) {
        stream->has_left = 1;
        http_wake_all(stream);
    }
    http_unlock(&connection->engine);
}

int http2_await_rest(http2_connection *connection)
{
    http_lock(&connection->engine);
    int result = is_at_rest(connection) ? HTTP_OK : HTTP_WAIT;
    connection->rest_waits = result == HTTP_WAIT;
    http_unlock(&connection->engine);
    return result;
}

void http2_announce_end(http2_connection *connection, http_end end)
{
    http_lock(&connection->engine);
    if (connection->session != NULL) {
        connection->is_promised = 1;
        if (end == HTTP_END_NOTICE)
            http2_note_result(connection, nghttp2_submit_shutdown_notice(connection->session));
        else if (nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                                       nghttp2_session_get_last_proc_stream_id(connection->session), NGHTTP2_NO_ERROR,
                                       NULL, 0) == 0)
            connection->takes_no_more = 1;
    }
    http_unlock(&connection->engine);
}

void http2_end_calm(http2_connection *connection)
{
    http_lock(&connection->engine);
    if (connection->session != NULL) {
        connection->is_promised = 1;
        http2_note_result(connection,
                          nghttp2_session_terminate_session(connection->session, NGHTTP2_ENHANCE_YOUR_CALM));
    }
    http_unlock(&connection->engine);
}

int64_t http2_next_notice(http2_connection *connection)
{
    return http_next_notice(&connection->engine);
}

http_stream *http2_next_request(http2_connection *connection)
{
    http_stream *stream = NULL;
    http_lock(&connection->engine);
    if (connection->served < connection->settings->streams_max)
        stream = http_take_request(&connection->engine);
    connection->served += stream != NULL;
    http_unlock(&connection->engine);
    return stream;
}

uint64_t http2_release(http_stream *stream, uint64_t now)
{
    http2_connection *connection = http2_connection_of(stream);
    http_lock(&connection->engine);
    connection->served--;
    if (http_end_handler(stream, now))
        http_free_stream(stream);
    wake_at_rest(connection);
    uint64_t flags = flags_of(connection);
    http_unlock(&connection->engine);
    return flags;
}
