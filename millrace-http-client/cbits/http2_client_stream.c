/*
 * http2_client_stream.c - requests and responses of an HTTP/2 client: http2_client.h, and http_protocol on
 * libnghttp2. Must not know: GHC, sockets, the clock.
 */
#include <stdlib.h>
#include <string.h>

#include "http2_client_internal.h"
#include "http_memory.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Fields */

void http2_client_free_head(http2_client_head *head)
{
    if (head == NULL)
        return;
    free(head->rows);
    free(head);
}

int http2_client_add_field(http2_client_head *to, const uint8_t *name, size_t name_length, const uint8_t *value,
                           size_t value_length)
{
    uint32_t lengths[2] = {(uint32_t)name_length, (uint32_t)value_length};
    size_t needed = to->length + sizeof lengths + name_length + value_length;
    if (needed > to->capacity) {
        size_t capacity = to->capacity == 0 ? 512 : 2 * to->capacity;
        if (capacity < needed)
            capacity = needed;
        uint8_t *rows = realloc(to->rows, capacity);
        if (rows == NULL)
            return -1;
        to->rows = rows;
        to->capacity = capacity;
    }
    uint8_t *at = to->rows + to->length;
    memcpy(at, lengths, sizeof lengths);
    memcpy(at + sizeof lengths, name, name_length);
    memcpy(at + sizeof lengths + name_length, value, value_length);
    to->length = needed;
    to->count++;
    return 0;
}

/* Fields in libnghttp2's form, which point into the rows. NULL without memory. */
static nghttp2_nv *fields_of(const uint8_t *rows, uint32_t count)
{
    nghttp2_nv *fields = malloc((count + 1) * sizeof *fields);
    if (fields == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lengths[2];
        memcpy(lengths, rows, sizeof lengths);
        rows += sizeof lengths;
        fields[i].flags =
            (uint8_t)((lengths[0] & HTTP2_CLIENT_SECRET) ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE);
        fields[i].namelen = lengths[0] & ~HTTP2_CLIENT_SECRET;
        fields[i].valuelen = lengths[1];
        fields[i].name = (uint8_t *)rows;
        rows += fields[i].namelen;
        fields[i].value = (uint8_t *)rows;
        rows += fields[i].valuelen;
    }
    return fields;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Records */

void http2_client_free_stream(http_stream *stream)
{
    http2_client_stream *own = http2_client_own(stream);
    http2_client_head *head;
    while ((head = http_list_shift(&own->heads, offsetof(http2_client_head, next))) != NULL)
        http2_client_free_head(head);
    http2_client_free_head(own->building);
    http_free_stream(stream);
}

void http2_client_close_stream(http_stream *stream)
{
    http2_client_of(stream)->stream_count--;
    if (http_close_stream(stream, http2_client_own(stream)->cause != HTTP2_CLIENT_COMPLETE))
        http2_client_free_stream(stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Failures */

/* The response counts as cut off, even if its end has come. */
void http2_client_fail(http_stream *stream, http2_client_cause cause, uint32_t code)
{
    http2_client_stream *own = http2_client_own(stream);
    if (own->cause == HTTP2_CLIENT_COMPLETE) {
        own->cause = cause;
        own->code = code;
        stream->has_ended = 0;
    }
}

int http2_client_refuse(http_stream *stream, http2_client_cause cause, uint32_t code)
{
    http2_client_fail(stream, cause, code);
    http_lose_stream(stream);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

void http2_client_give_up(http_stream *stream)
{
    http2_client_fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_INTERNAL_ERROR);
    http_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

http2_client_cause http2_client_failure(http_stream *stream, uint32_t *code)
{
    http_lock(stream->engine);
    http2_client_cause cause = http2_client_own(stream)->cause;
    *code = http2_client_own(stream)->code;
    http_unlock(stream->engine);
    return cause;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Requests */

int http2_client_submit_end(http_stream *stream)
{
    const http_block *trailers = stream->trailers;
    return nghttp2_submit_trailer(http2_client_of(stream)->session, http2_client_id(stream),
                                  trailers == NULL ? NULL : nv_of(trailers), trailers == NULL ? 0 : trailers->count);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): nghttp2 gives the type */
static ssize_t read_output(nghttp2_session *session, int32_t id, uint8_t *destination, size_t capacity, uint32_t *flags,
                           nghttp2_data_source *source, void *data)
{
    http_stream *stream = source->ptr;
    (void)session, (void)id, (void)data;
    size_t length = http_body_take(&stream->output, destination, capacity);
    if (length > 0) {
        http_note_given(stream, length);
        http_note_dropped(stream, length);
    }
    if (stream->output.length == 0 && stream->is_finished && !stream->has_failed) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->trailers != NULL) {
            if (http2_client_submit_end(stream) != 0)
                return http2_client_refuse(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_INTERNAL_ERROR);
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        }
    } else if (length == 0) {
        stream->is_deferred = 1;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)length;
}

static int request(http2_client *client, const uint8_t *rows, uint32_t count, http2_client_part part,
                   http_stream **stream)
{
    if (client->is_leaving || client->is_over || !nghttp2_session_check_request_allowed(client->session))
        return HTTP2_CLIENT_LEAVING;
    if (client->stream_count >=
        nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
        return client->stream_count > 0 ? HTTP2_CLIENT_FULL : HTTP2_CLIENT_BARRED;
    http2_client_stream *made = http_alloc_zeroed(sizeof *made);
    nghttp2_nv *fields = fields_of(rows, count);
    if (made == NULL || fields == NULL) {
        http_free(made);
        free(fields);
        http2_client_begin_leaving(client);
        return HTTP2_CLIENT_LEAVING;
    }
    made->common.is_taken = 1;
    made->common.answer_state = HTTP_ANSWER_SUBMITTED;
    made->common.is_finished = part == HTTP2_CLIENT_NOTHING_FOLLOWS;
    nghttp2_data_provider provider = {.source = {.ptr = made}, .read_callback = read_output};
    int32_t id = nghttp2_submit_request(client->session, NULL, fields, count,
                                        part == HTTP2_CLIENT_NOTHING_FOLLOWS ? NULL : &provider, made);
    free(fields);
    if (id < 0) {
        http_free(made);
        if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE || id == NGHTTP2_ERR_NOMEM) {
            http2_client_begin_leaving(client);
            return HTTP2_CLIENT_LEAVING;
        }
        return HTTP2_CLIENT_INVALID;
    }
    http_enter_stream(&made->common, &client->engine, &client->streams, (uint64_t)id);
    client->stream_count++;
    *stream = &made->common;
    return HTTP_OK;
}

int http2_client_request(http2_client *client, const uint8_t *rows, uint32_t count, http2_client_part part,
                         http_stream **stream)
{
    http_lock(&client->engine);
    int result = request(client, rows, count, part, stream);
    http_unlock(&client->engine);
    return result;
}

/* A server's handler gives its stream back when the response is complete. A client also gives up what is not. */
void http2_client_release(http_stream *stream)
{
    http2_client *client = http2_client_of(stream);
    http_lock(&client->engine);
    stream->is_released = stream->drops_input = 1;
    if (stream->is_closed)
        http2_client_free_stream(stream);
    else
        http_reset(stream, NGHTTP2_CANCEL);
    http_unlock(&client->engine);
}

/* There is more of a request, or its end. libnghttp2 has its head, but may have to send that first. */
static void resume(http_stream *stream)
{
    http2_client *client = http2_client_of(stream);
    if (stream->is_finished && stream->output.length == 0 && http2_client_own(stream)->has_sent_head) {
        if (http2_client_submit_end(stream) != 0)
            http2_client_give_up(stream);
    } else if (stream->is_deferred) {
        stream->is_deferred = 0;
        http2_client_note_result(client, nghttp2_session_resume_data(client->session, http2_client_id(stream)));
    }
}

static void reset(http_stream *stream, uint64_t code)
{
    http2_client *client = http2_client_of(stream);
    if (!stream->has_ended)
        http2_client_fail(stream, HTTP2_CLIENT_BROKEN, (uint32_t)code);
    http2_client_note_result(
        client, nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, http2_client_id(stream), (uint32_t)code));
}

/* The connection's window is given back when bytes arrive. */
static void consume(http_stream *stream, uint64_t length)
{
    http2_client *client = http2_client_of(stream);
    if (!stream->is_closed && !stream->has_ended)
        http2_client_note_result(client,
                                 nghttp2_session_consume_stream(client->session, http2_client_id(stream), length));
}

/* ------------------------------------------------------------------------------------------------------------------
 * Responses */

int64_t http2_client_await_head(http_stream *stream)
{
    int64_t result = -HTTP_WAIT;
    http_lock(stream->engine);
    const http2_client_head *first = http2_client_own(stream)->heads.first;
    if (first != NULL)
        result = (int64_t)first->length;
    else if (stream->is_closed || stream->has_failed)
        result = -HTTP_GONE;
    else
        stream->reader_waits = 1;
    http_unlock(stream->engine);
    return result;
}

int http2_client_copy_head(http_stream *stream, uint8_t *destination, uint32_t *count, uint32_t *part)
{
    int status = 0;
    http_lock(stream->engine);
    http2_client_head *first = http_list_shift(&http2_client_own(stream)->heads, offsetof(http2_client_head, next));
    if (first != NULL) {
        if (first->length > 0)
            memcpy(destination, first->rows, first->length);
        *count = first->count;
        *part = first->part;
        status = first->status;
        http2_client_free_head(first);
    }
    http_unlock(stream->engine);
    return status;
}

/* A request is submitted when it begins, its writers do not ask for the server's windows, and a client does not stop a
 * server: so there is no function for these. */
const http_protocol http2_client_protocol = {.resume = resume,
                                             .reset = reset,
                                             .consume = consume,
                                             .queued_max = INT64_MAX,
                                             .no_error = NGHTTP2_NO_ERROR,
                                             .internal_error = NGHTTP2_INTERNAL_ERROR,
                                             .cancelled = NGHTTP2_CANCEL,
                                             .keeps_input = 1};
