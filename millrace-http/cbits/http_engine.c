/* http_engine.c - see http_engine.h. Must not know: GHC, sockets, the clock, libnghttp2, libnghttp3. */
#include "http_engine.h"

#include <string.h>

#include "http_memory.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Notices */

uint64_t http_engine_flags(const http_engine *engine)
{
    return (engine->ready.first != NULL ? HTTP_HAS_REQUESTS : 0) |
           (engine->noticed.first != NULL || engine->notices != 0 ? HTTP_HAS_NOTICES : 0);
}

int http_engine_begin(http_engine *engine, const http_protocol *protocol)
{
    engine->protocol = protocol;
    engine->output_high = HTTP_OUTPUT_HIGH;
    return pthread_mutex_init(&engine->lock, NULL) == 0 ? 0 : -1;
}

void http_engine_end(http_engine *engine)
{
    pthread_mutex_destroy(&engine->lock);
}

void http_notify(http_stream *stream, http_event event)
{
    if (stream->notices == 0)
        http_list_append(&stream->engine->noticed, offsetof(http_stream, next_noticed), stream);
    stream->notices |= (uint8_t)(1u << event);
}

void http_notify_engine(http_engine *engine, http_event event)
{
    engine->notices |= (uint8_t)(1u << event);
}

/* Nobody waits for the stream any more. */
static void forget_notices(http_stream *stream)
{
    if (stream->notices != 0)
        http_list_remove(&stream->engine->noticed, offsetof(http_stream, next_noticed), stream);
    stream->notices = 0;
}

/* Takes one of the notices that there are. */
static int64_t take_notice(uint64_t key, uint8_t *notices)
{
    http_event event = HTTP_READABLE;
    while (!(*notices & 1u << event))
        event++;
    *notices &= (uint8_t) ~(1u << event);
    return 4 * (int64_t)key + (int64_t)event;
}

int64_t http_next_notice(http_engine *engine)
{
    int64_t notice = -1;
    http_lock(engine);
    http_stream *stream = engine->noticed.first;
    if (engine->notices != 0) {
        notice = take_notice(HTTP_NO_STREAM, &engine->notices);
    } else if (stream != NULL) {
        notice = take_notice(stream->key, &stream->notices);
        if (stream->notices == 0)
            http_list_shift(&engine->noticed, offsetof(http_stream, next_noticed));
    }
    http_unlock(engine);
    return notice;
}

void http_wake_reader(http_stream *stream)
{
    if (stream->reader_waits) {
        stream->reader_waits = 0;
        http_notify(stream, HTTP_READABLE);
    }
}

void http_wake_all(http_stream *stream)
{
    if (!(stream->reader_waits | stream->writer_waits | stream->waits_for_window | stream->close_waits))
        return;
    http_wake_reader(stream);
    http_wake_writer(stream);
    http_wake_for_window(stream);
    if (stream->close_waits) {
        stream->close_waits = 0;
        http_notify(stream, HTTP_CLOSED);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Records and lists */

void http_enter_stream(http_stream *stream, http_engine *engine, http_streams *streams, uint64_t key)
{
    stream->engine = engine;
    stream->streams = streams;
    stream->key = key;
    stream->moved_at = engine->now;
    stream->others_accepted = streams->accepted;
    stream->next = streams->first;
    if (stream->next != NULL)
        stream->next->previous = stream;
    streams->first = stream;
}

void http_orphan_stream(http_stream *stream)
{
    http_streams *streams = stream->streams;
    if (streams == NULL)
        return;
    streams->heads_size -= stream->head_size;
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        streams->first = stream->next;
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    stream->next = stream->previous = NULL;
    stream->streams = NULL;
}

void http_free_stream(http_stream *stream)
{
    http_orphan_stream(stream);
    forget_notices(stream);
    http_body_clear(&stream->input);
    http_body_clear(&stream->output);
    http_free(stream->fields.head);
    http_free(stream->fields.trailers);
    http_free(stream);
}

void http_enlist(http_stream *stream, http_list *list)
{
    stream->list = list;
    http_list_append(list, offsetof(http_stream, next_listed), stream);
}

void http_unlist(http_stream *stream)
{
    if (stream->list != NULL)
        http_list_remove(stream->list, offsetof(http_stream, next_listed), stream);
    stream->list = NULL;
}

http_stream *http_take_listed(http_list *list)
{
    http_stream *stream = http_list_shift(list, offsetof(http_stream, next_listed));
    if (stream != NULL)
        stream->list = NULL;
    return stream;
}

http_stream *http_take_request(http_engine *engine)
{
    http_stream *stream = http_take_listed(&engine->ready);
    if (stream != NULL)
        stream->is_taken = 1;
    return stream;
}

int http_count_fields(http_stream *stream, uint64_t arriving)
{
    http_streams *streams = stream->streams;
    uint64_t size = http_head_size(&stream->head) + stream->fields.trailers_length + arriving;
    uint64_t others = streams->heads_size - stream->head_size;
    if (others > 0 && others + size > (uint64_t)HTTP_HEADS_AT_A_TIME * stream->engine->head_max)
        return 0;
    stream->head_size = (uint32_t)size;
    streams->heads_size = others + size;
    return 1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Requests */

void http_stream_copy_head(http_stream *stream, uint8_t *destination)
{
    memcpy(destination, stream->fields.head, stream->head.field_count * sizeof(http_field) + stream->head.text_length);
    http_free(stream->fields.head);
    stream->fields.head = NULL;
}

/* This many bytes are no longer kept. The client may send as many more. */
static void consume(http_stream *stream, uint64_t length)
{
    stream->unread = stream->input.length;
    if (length == 0 || stream->streams == NULL)
        return;
    stream->streams->unread -= length;
    stream->engine->protocol->consume(stream, length);
}

static void drop_input(http_stream *stream)
{
    uint64_t length = stream->input.length;
    if (length == 0)
        return;
    http_body_clear(&stream->input);
    consume(stream, length);
}

void http_end_input(http_stream *stream)
{
    stream->has_ended = 1;
    http_wake_reader(stream);
}

int http_take_input(http_stream *stream, const uint8_t *bytes, size_t length)
{
    stream->received += length;
    if (stream->drops_input || stream->has_failed || stream->head.error != 0) {
        if (stream->drops_input && stream->end_is_given)
            stream->skipped += length;
        if (length > 0) {
            stream->is_read |= stream->has_failed; /* what was dropped would be missing from the body */
            stream->engine->protocol->consume(stream, length);
        }
        return 0;
    }
    if (http_body_append(&stream->input, bytes, length, HTTP_MORE_FOLLOWS) != 0)
        return -1;
    stream->streams->unread += length;
    stream->unread = stream->input.length;
    http_wake_reader(stream);
    return 0;
}

/* Whether so little of the request's body is left that it is read and dropped. Otherwise the client is asked to stop.
 * At least the stream's first window is dropped, because this many bytes may be on their way already, and because
 * some clients report an error if they are reset while they send (curl 7.88). */
static int is_little_left(const http_stream *stream)
{
    uint64_t most = stream->engine->skipped_max;
    if (stream->head.content_length >= 0)
        return (uint64_t)stream->head.content_length - stream->received <= most;
    return stream->skipped <= most;
}

void http_stop_client(http_stream *stream)
{
    if (stream->has_stopped || !stream->drops_input || !stream->end_is_given || stream->has_ended ||
        stream->is_closed || is_little_left(stream))
        return;
    stream->has_stopped = 1;
    stream->engine->protocol->stop(stream);
}

int64_t http_stream_read(http_stream *stream, uint8_t *destination, size_t capacity, int waits)
{
    int64_t result;
    http_lock(stream->engine);
    /* NOLINTNEXTLINE(bugprone-branch-clone): the order of the conditions matters */
    if (stream->is_read) {
        result = -HTTP_GONE;
    } else if (stream->input.length > 0) {
        size_t count = http_body_take(&stream->input, destination, capacity);
        consume(stream, count);
        result = (int64_t)count;
    } else if (stream->has_ended) {
        result = 0;
    } else if (stream->is_closed || stream->has_failed || stream->has_left) {
        result = -HTTP_GONE;
    } else {
        stream->reader_waits = waits != 0;
        result = -HTTP_WAIT;
    }
    http_unlock(stream->engine);
    return result;
}

void http_stream_end_reading(http_stream *stream)
{
    http_lock(stream->engine);
    stream->is_read = 1;
    http_wake_reader(stream);
    http_unlock(stream->engine);
}

size_t http_stream_trailers(http_stream *stream, uint8_t *destination, size_t capacity)
{
    http_lock(stream->engine);
    size_t length = stream->fields.trailers_length;
    if (length > 0 && length <= capacity)
        memcpy(destination, stream->fields.trailers, length);
    http_unlock(stream->engine);
    return length;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The end of a stream */

int http_stream_await_close(http_stream *stream)
{
    http_lock(stream->engine);
    int result = stream->is_closed || stream->has_failed || stream->has_left ? HTTP_GONE : HTTP_WAIT;
    if (result == HTTP_WAIT)
        stream->close_waits = 1;
    http_unlock(stream->engine);
    return result;
}

int http_close_stream(http_stream *stream, int was_reset)
{
    stream->is_closed = 1;
    stream->was_reset = was_reset != 0;
    http_unlist(stream);
    http_drop_answer(stream);
    int is_over = !stream->is_taken || stream->is_released;
    if (is_over || (!stream->has_ended && !stream->engine->protocol->keeps_input))
        drop_input(stream);
    http_wake_all(stream);
    return is_over;
}

int http_end_handler(http_stream *stream, uint64_t now)
{
    uint64_t latest = stream->engine->now;
    stream->is_released = 1;
    if (stream->streams != NULL)
        http_conduct_forgive(&stream->streams->conduct, &stream->cancellation, now > latest ? now : latest);
    if (stream->is_closed) {
        drop_input(stream);
        return 1;
    }
    if (!stream->is_finished || stream->answer_state == HTTP_UNANSWERED)
        http_abort(stream);
    drop_input(stream);
    stream->drops_input = 1;
    http_wake_all(stream); /* the request has ended for threads that wait for the end of the stream */
    http_stop_client(stream);
    return 0;
}
