/*
 * http_answer.c - answers of HTTP/2 and HTTP/3 and their bodies, until the protocol's library gets them:
 * http_engine.h. Must not know: GHC, sockets, the clock, libnghttp2, libnghttp3.
 */
#include "http_engine.h"
#include "http_memory.h"

/* A writer also waits while this many bytes of its body are kept, sent or not. */
#define KEPT_MOST 4194304u

static const http_protocol *protocol_of(const http_stream *stream)
{
    return stream->engine->protocol;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The bodies of a connection together */

static uint64_t queued_by(const http_streams *streams)
{
    return atomic_load_explicit(&streams->queued, memory_order_relaxed);
}

/* Only with the lock held. */
static void set_queued(http_streams *streams, uint64_t length)
{
    atomic_store_explicit(&streams->queued, length, memory_order_relaxed);
}

/* The bytes that may be added to the stream's body because of those of all bodies that wait. If there is no space,
 * writers are woken when there is. */
static int64_t common_space(const http_stream *stream)
{
    int64_t space = (int64_t)protocol_of(stream)->queued_max - (int64_t)queued_by(stream->streams);
    int64_t own = (int64_t)HTTP_OWN_OUTPUT_MIN - (int64_t)stream->output.length;
    if (space <= 0)
        stream->streams->lacks_space = 1;
    return space > own ? space : own;
}

static int has_common_space(const http_stream *stream)
{
    return stream->output.length < HTTP_OWN_OUTPUT_MIN || common_space(stream) > 0;
}

static uint64_t unsent(const http_stream *stream)
{
    return stream->output.ungiven;
}

/* Whether a writer that waits until at most `most` bytes are unsent may continue. */
static int has_space(const http_stream *stream, uint64_t most)
{
    return unsent(stream) <= most && stream->output.length < KEPT_MOST && has_common_space(stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Writers that wait */

void http_wake_writer(http_stream *stream)
{
    if (stream->writer_waits) {
        stream->writer_waits = 0;
        http_notify(stream, HTTP_WRITABLE);
    }
}

void http_wake_for_window(http_stream *stream)
{
    if (stream->waits_for_window) {
        stream->waits_for_window = 0;
        if (stream->streams != NULL)
            stream->streams->window_waiters--;
        http_notify(stream, HTTP_WRITABLE);
    }
}

/* Those that wait look again. */
void http_note_windows(http_streams *streams)
{
    if (streams->window_waiters == 0 || protocol_of(streams->first)->connection_window(streams) <= 0)
        return;
    for (http_stream *stream = streams->first; stream != NULL; stream = stream->next)
        if (stream->waits_for_window && protocol_of(stream)->stream_window(stream) > 0)
            http_wake_for_window(stream);
}

/* Takes sent or dropped bytes from those that wait. Writers that wait for common space look again when half of it is
 * free: the connection's streams are many. */
static void unqueue(http_stream *stream, uint64_t length)
{
    http_streams *streams = stream->streams;
    uint64_t left = queued_by(streams) - length;
    set_queued(streams, left);
    if (!streams->lacks_space || left > protocol_of(stream)->queued_max / 2)
        return;
    streams->lacks_space = 0;
    for (http_stream *other = streams->first; other != NULL; other = other->next) {
        http_wake_writer(other);
        http_wake_for_window(other);
    }
}

static void wake_writer_with_space(http_stream *stream)
{
    if (stream->writer_waits && has_space(stream, stream->writer_mark))
        http_wake_writer(stream);
}

void http_note_given(http_stream *stream, uint64_t length)
{
    stream->given += length;
    wake_writer_with_space(stream);
}

void http_note_dropped(http_stream *stream, uint64_t length)
{
    unqueue(stream, length);
    wake_writer_with_space(stream);
    if (stream->output.length < HTTP_OWN_OUTPUT_MIN)
        http_wake_for_window(stream);
}

/* This many bytes will not be sent. Others had to wait for the connection's window because of them, and look again. */
static void note_cut(http_stream *stream, uint64_t length)
{
    if (length == 0)
        return;
    unqueue(stream, length);
    http_note_windows(stream->streams);
}

void http_cut_output(http_stream *stream, uint64_t length)
{
    uint64_t before = stream->output.length;
    http_body_cut(&stream->output, length < stream->held ? stream->held : length);
    note_cut(stream, before - stream->output.length);
}

void http_drop_answer(http_stream *stream)
{
    uint64_t length = stream->output.length;
    stream->held = 0;
    if (length > 0) {
        http_body_clear(&stream->output);
        note_cut(stream, length);
    }
    http_free(stream->answer);
    http_free(stream->trailers);
    stream->answer = stream->trailers = NULL;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Answers */

/* Gives an answer to the library. It cannot be taken back afterwards. */
static void submit(http_stream *stream)
{
    http_unlist(stream);
    stream->answer_state = HTTP_ANSWER_SUBMITTED;
    protocol_of(stream)->submit(stream);
}

void http_submit_answers(http_streams *streams)
{
    while (streams->answered.first != NULL)
        submit(streams->answered.first);
}

/* There is more of the response. The beginning of an answer that was not flushed is kept back, as over HTTP/1, so that
 * it can be replaced if the handler fails; unless its writer has to wait until it is sent. */
static void offer(http_stream *stream)
{
    if (stream->answer_state == HTTP_ANSWER_HELD && stream->list == NULL &&
        (stream->is_finished || stream->output.length >= HTTP_HELD_MOST || !has_common_space(stream)))
        http_enlist(stream, &stream->streams->answered);
    if (stream->answer_state == HTTP_ANSWER_SUBMITTED || stream->list != NULL)
        protocol_of(stream)->resume(stream);
}

static int is_gone(const http_stream *stream)
{
    return stream->is_closed || stream->has_failed;
}

static int takes_output(const http_stream *stream)
{
    return !is_gone(stream) && !stream->is_finished && stream->answer_state != HTTP_UNANSWERED;
}

/* So many bytes were added to a body. */
static void note_output(http_stream *stream, size_t length)
{
    if (unsent(stream) == length)
        stream->stalled_since = 0;
    set_queued(stream->streams, queued_by(stream->streams) + length);
}

static int append_output(http_stream *stream, const uint8_t *bytes, size_t length, http_more more)
{
    if (length == 0)
        return 0;
    if (http_body_append(&stream->output, bytes, length, more) != 0)
        return -1;
    note_output(stream, length);
    return 0;
}

int http_stream_answer(http_stream *stream, int status, const http_rows *fields, int64_t length, const uint8_t *body,
                       size_t body_length, int is_whole, int64_t *given)
{
    http_block *block;
    int result = http_block_make(&block, stream->engine->server, status, fields, length, given);
    if (result != HTTP_OK)
        return result;
    if (is_whole && *given >= 0 && length >= 0 && *given != length) {
        http_free(block);
        return HTTP_OK; /* The caller compares *given with `length`. */
    }
    http_lock(stream->engine);
    if (is_gone(stream) || stream->answer_state != HTTP_UNANSWERED ||
        append_output(stream, body, body_length, is_whole ? HTTP_NOTHING_FOLLOWS : HTTP_MORE_FOLLOWS) != 0) {
        http_free(block);
        result = HTTP_GONE;
    } else {
        stream->answer = block;
        stream->answer_state = HTTP_ANSWER_HELD;
        stream->is_finished = is_whole != 0;
        stream->has_body = !is_whole || body_length > 0;
        offer(stream);
    }
    http_unlock(stream->engine);
    return result;
}

int http_stream_take_back(http_stream *stream)
{
    int result = HTTP_OK;
    http_lock(stream->engine);
    if (stream->answer_state == HTTP_ANSWER_HELD && !stream->is_closed) {
        if (!stream->has_failed)
            http_unlist(stream); /* otherwise it may wait for its reset */
        http_drop_answer(stream);
        stream->answer_state = HTTP_UNANSWERED;
        stream->is_finished = 0;
    } else if (stream->answer_state == HTTP_ANSWER_SUBMITTED) {
        result = HTTP_GONE;
    }
    http_unlock(stream->engine);
    return result;
}

void http_stream_flush(http_stream *stream)
{
    http_lock(stream->engine);
    if (!is_gone(stream) && stream->answer_state != HTTP_UNANSWERED) {
        if (stream->answer_state == HTTP_ANSWER_HELD)
            submit(stream);
        stream->is_flushed = 1;
        stream->flushed = stream->given + unsent(stream);
    }
    http_unlock(stream->engine);
}

int http_stream_inform(http_stream *stream, int status, const http_rows *fields)
{
    http_block *block;
    int result = http_block_make_plain(&block, status, fields);
    if (result != HTTP_OK)
        return result;
    http_lock(stream->engine);
    if (!is_gone(stream) && stream->answer_state == HTTP_UNANSWERED) {
        for (uint32_t i = 0; i < block->count; i++)
            block->fields[i].flags = 0; /* the library must copy: the block is freed below */
        protocol_of(stream)->inform(stream, block);
    }
    http_unlock(stream->engine);
    http_free(block);
    return HTTP_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Bodies */

/* The result of adding to a body. */
static int written(http_stream *stream)
{
    offer(stream);
    return has_space(stream, stream->engine->output_high - 1) ? HTTP_OK : HTTP_WAIT;
}

int http_stream_write(http_stream *stream, const uint8_t *bytes, size_t length)
{
    int result = HTTP_GONE;
    http_lock(stream->engine);
    if (takes_output(stream)) {
        if (append_output(stream, bytes, length, HTTP_MORE_FOLLOWS) == 0)
            result = written(stream);
        else
            http_abort(stream); /* the body would lack these bytes */
    }
    http_unlock(stream->engine);
    return result;
}

int http_stream_write_piece(http_stream *stream, http_piece *piece, size_t length)
{
    int result = HTTP_GONE;
    http_lock(stream->engine);
    if (takes_output(stream) && length > 0) {
        http_body_append_piece(&stream->output, piece, length);
        note_output(stream, length);
        piece = NULL;
        result = written(stream);
    }
    http_unlock(stream->engine);
    http_free_piece(piece);
    return result;
}

int http_stream_await_output(http_stream *stream, uint32_t most)
{
    int result = HTTP_OK;
    http_lock(stream->engine);
    if (is_gone(stream)) {
        result = HTTP_GONE;
    } else if (!has_space(stream, most)) {
        stream->writer_waits = 1;
        stream->writer_mark = most;
        result = HTTP_WAIT;
    }
    http_unlock(stream->engine);
    return result;
}

/* The part of the connection's window that waiting bytes of no stream will use. Bytes that a stream's own window holds
   back need none. */
static int64_t free_window(const http_streams *streams, const http_protocol *protocol)
{
    int64_t left = protocol->connection_window(streams);
    for (const http_stream *stream = streams->first; stream != NULL; stream = stream->next)
        if (unsent(stream) > 0) {
            int64_t own = protocol->stream_window(stream), length = (int64_t)unsent(stream);
            left -= own <= 0 ? 0 : own < length ? own : length;
        }
    return left;
}

int64_t http_stream_await_window(http_stream *stream)
{
    int64_t result = -HTTP_GONE;
    http_lock(stream->engine);
    /* After the client has ended its side no window opens any more: what waits is given up. */
    if (!is_gone(stream) && stream->has_left) {
        result = 1;
    } else if (!is_gone(stream)) {
        const http_protocol *protocol = protocol_of(stream);
        int64_t own = protocol->stream_window(stream) - (int64_t)unsent(stream);
        int64_t common = free_window(stream->streams, protocol), space = common_space(stream);
        result = own < common ? own : common;
        result = result < space ? result : space;
        if (result <= 0) {
            stream->streams->window_waiters += !stream->waits_for_window;
            stream->waits_for_window = 1;
            result = -HTTP_WAIT;
        }
    }
    http_unlock(stream->engine);
    return result;
}

int http_stream_finish(http_stream *stream, const http_rows *trailers)
{
    http_block *block = NULL;
    if (trailers->count > 0) {
        int result = http_block_make_plain(&block, 0, trailers);
        if (result != HTTP_OK)
            return result;
    }
    int result = HTTP_GONE;
    http_lock(stream->engine);
    if (takes_output(stream)) {
        stream->trailers = block;
        stream->is_finished = 1;
        offer(stream);
        block = NULL;
        result = HTTP_OK;
    }
    http_unlock(stream->engine);
    http_free(block);
    return result;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Resets */

void http_lose_stream(http_stream *stream)
{
    if (stream->is_closed)
        return;
    stream->has_failed = 1;
    stream->is_aborted = 0;
    http_unlist(stream);
    http_cut_output(stream, 0);
    http_wake_all(stream);
}

void http_reset(http_stream *stream, uint64_t code)
{
    if (stream->is_closed || (stream->has_failed && !stream->is_aborted))
        return;
    http_lose_stream(stream);
    protocol_of(stream)->reset(stream, code);
}

void http_end_aborted(http_stream *stream)
{
    if (stream->is_aborted && stream->is_through && stream->output.length == 0)
        http_reset(stream, protocol_of(stream)->internal_error);
}

/* The handler has failed. What it had flushed is sent first. A reset would take back what is on its way, so it comes
   when that is through. */
void http_abort(http_stream *stream)
{
    if (is_gone(stream))
        return;
    if (!stream->is_flushed) {
        http_reset(stream, protocol_of(stream)->internal_error);
        return;
    }
    stream->has_failed = stream->is_aborted = 1;
    stream->is_finished = 0;
    http_cut_output(stream, stream->flushed > stream->given ? stream->flushed - stream->given : 0);
    http_wake_all(stream);
    http_end_aborted(stream);
}

void http_stream_abort(http_stream *stream)
{
    http_lock(stream->engine);
    http_abort(stream);
    http_unlock(stream->engine);
}

void http_stream_reset(http_stream *stream, uint64_t code)
{
    http_lock(stream->engine);
    http_reset(stream, code);
    http_unlock(stream->engine);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Progress */

void http_note_accepted(http_stream *stream, uint64_t length)
{
    stream->accepted += length;
    stream->streams->accepted += length;
    stream->progress += length;
    stream->stalled_since = 0;
    stream->moved_at = stream->engine->now;
}

/* The bytes of other streams count while the client's window of this one is open: then the stream waits behind the
 * others, because they are more urgent or have the connection's window. A stream whose own window is closed waits for
 * its client, whatever else the client takes. */
static uint64_t progress_of(http_stream *stream)
{
    if (stream->streams != NULL) {
        uint64_t others = stream->streams->accepted - stream->accepted;
        if (protocol_of(stream)->stream_window(stream) > 0)
            stream->progress += others - stream->others_accepted;
        stream->others_accepted = others;
    }
    return stream->progress;
}

uint64_t http_stream_sent(http_stream *stream)
{
    http_lock(stream->engine);
    uint64_t sent = stream->accepted < stream->given ? stream->accepted : stream->given;
    http_unlock(stream->engine);
    return sent;
}

uint64_t http_stream_progress(http_stream *stream)
{
    http_lock(stream->engine);
    uint64_t progress = progress_of(stream);
    http_unlock(stream->engine);
    return progress;
}

/* Whether the stream has made no progress for `limit` nanoseconds. The engine's time advances only with input, so the
 * time since when output waits is not known. The first call measures from its own time. */
static int is_still(http_stream *stream, uint64_t now, uint64_t limit)
{
    int has_output = stream->output.length > 0 || (stream->accepted > 0 && !stream->is_through);
    if (!has_output)
        return stream->drops_input && stream->end_is_given && now - stream->moved_at >= limit;
    if (stream->answer_state != HTTP_ANSWER_SUBMITTED)
        return 0; /* it waits for its handler */
    uint64_t progress = progress_of(stream);
    if (stream->stalled_since == 0 || progress != stream->stalled_progress) {
        stream->stalled_since = now;
        stream->stalled_progress = progress;
    }
    return now - stream->stalled_since >= limit;
}

uint32_t http_reset_stalled(http_streams *streams, uint64_t now, uint64_t limit)
{
    uint32_t count = 0;
    for (http_stream *stream = streams->first; stream != NULL; stream = stream->next) {
        if (stream->is_closed || (stream->has_failed && !stream->is_aborted) || !is_still(stream, now, limit))
            continue;
        http_reset(stream, stream->output.length > 0 ? protocol_of(stream)->cancelled : protocol_of(stream)->no_error);
        count++;
    }
    return count;
}
