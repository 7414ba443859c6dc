/* http2_client_stream.c - requests and responses of an HTTP/2 client: http2_client.h. Must not know: GHC, sockets, the
   clock. */
#include <stdlib.h>
#include <string.h>

#include "http2_client_internal.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Notices */

/* Notices need no memory of their own. Without one a thread would wait for ever. */
static void notify(http2_client_stream *stream, notice_for whom)
{
    http2_client *client = stream->client;
    if (stream->notices == 0) {
        if (client->noticed == NULL)
            client->noticed = stream;
        else
            client->noticed_last->next_noticed = stream;
        client->noticed_last = stream;
    }
    stream->notices |= (uint8_t)whom;
}

/* Nobody waits for the stream any more. */
static void forget_notices(http2_client_stream *stream)
{
    http2_client *client = stream->client;
    http2_client_stream *before = NULL;
    if (stream->notices == 0)
        return;
    for (http2_client_stream *each = client->noticed; each != stream; each = each->next_noticed)
        before = each;
    if (before == NULL)
        client->noticed = stream->next_noticed;
    else
        before->next_noticed = stream->next_noticed;
    if (client->noticed_last == stream)
        client->noticed_last = before;
    stream->next_noticed = NULL;
    stream->notices = 0;
}

void http2_client_wake_reader(http2_client_stream *stream)
{
    if (stream->reader_waits) {
        stream->reader_waits = 0;
        notify(stream, FOR_READER);
    }
}

void http2_client_wake_writer(http2_client_stream *stream)
{
    if (stream->writer_waits) {
        stream->writer_waits = 0;
        notify(stream, FOR_WRITER);
    }
}

int64_t http2_client_next_notice(http2_client *client)
{
    int64_t notice = -1;
    pthread_mutex_lock(&client->lock);
    http2_client_stream *stream = client->noticed;
    if (client->has_new_state) {
        client->has_new_state = 0;
        notice = 0;
    } else if (stream != NULL) {
        notice_for whom = stream->notices & FOR_READER ? FOR_READER : FOR_WRITER;
        notice = 2 * (int64_t)stream->token + (whom == FOR_WRITER);
        if (stream->notices == whom)
            forget_notices(stream);
        else
            stream->notices &= (uint8_t)~whom;
    }
    pthread_mutex_unlock(&client->lock);
    return notice;
}

void http2_client_begin_leaving(http2_client *client)
{
    if (!client->is_leaving) {
        client->is_leaving = 1;
        client->has_new_state = 1;
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Bodies and heads */

/* The most bytes of a piece: its places have 32 bits. */
#define PIECE_MAX 1048576u

int http2_client_append(http_body *to, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        size_t count = length < PIECE_MAX ? length : PIECE_MAX;
        if (http_body_append(to, bytes, count, HTTP_MORE_FOLLOWS) != 0)
            return -1;
        bytes += count;
        length -= count;
    }
    return 0;
}

void http2_client_free_block(http2_client_block *old)
{
    if (old != NULL) {
        free(old->rows);
        free(old);
    }
}

int http2_client_add_field(http2_client_block *to, const uint8_t *name, size_t name_length, const uint8_t *value,
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

void http2_client_stream_free(http2_client_stream *stream)
{
    http2_client *client = stream->client;
    forget_notices(stream);
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        client->streams = stream->next;
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    while (stream->heads != NULL) {
        http2_client_block *first = stream->heads;
        stream->heads = first->next;
        http2_client_free_block(first);
    }
    http2_client_free_block(stream->building);
    http2_client_free_block(stream->trailers);
    http_body_clear(&stream->input);
    http_body_clear(&stream->output);
    free(stream->request_trailers);
    free(stream);
}

/* The first cause counts. */
void http2_client_fail(http2_client_stream *stream, http2_client_cause cause, uint32_t code)
{
    if (stream->cause == HTTP2_CLIENT_COMPLETE) {
        stream->cause = cause;
        stream->code = code;
    }
}

/* The result of a call of libnghttp2 after which the server is told something. One side would wait for ever if it is
   not. */
void http2_client_must_tell(http2_client *client, int result)
{
    client->is_lost |= result == NGHTTP2_ERR_NOMEM;
}

void http2_client_reset_now(http2_client_stream *stream, uint32_t code)
{
    if (!stream->is_closed)
        http2_client_must_tell(stream->client,
                               nghttp2_submit_rst_stream(stream->client->session, NGHTTP2_FLAG_NONE, stream->id, code));
}

/* Without memory the response cannot be told: the stream ends. */
int http2_client_out_of_memory(http2_client_stream *stream)
{
    http2_client_fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_INTERNAL_ERROR);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* The same for what of a request cannot be sent, or of a response cannot be kept. Without the reset the server would
   wait for the rest. */
void http2_client_give_up(http2_client_stream *stream)
{
    http2_client_fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_INTERNAL_ERROR);
    http2_client_reset_now(stream, NGHTTP2_INTERNAL_ERROR);
}

void http2_client_stream_over(http2_client_stream *stream)
{
    stream->is_closed = 1;
    stream->client->stream_count--;
    http_body_clear(&stream->output);
    http2_client_wake_reader(stream);
    http2_client_wake_writer(stream);
    if (stream->is_released)
        http2_client_stream_free(stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Requests */

/* Gives libnghttp2 the end of a request whose bytes it has. It sends no DATA frame while a window is closed, not even
 * an empty one, which needs no window (RFC 9113, section 6.9.1). So an end without trailers is trailers without fields
 * here, and make_end makes a DATA frame of them. */
int http2_client_submit_end(http2_client_stream *stream)
{
    uint32_t count = stream->request_trailers_count;
    nghttp2_nv *fields = stream->request_trailers != NULL ? fields_of(stream->request_trailers, count) : NULL;
    int result = -1;
    if (count == 0 || fields != NULL)
        result = nghttp2_submit_trailer(stream->client->session, stream->id, fields, count);
    free(fields);
    return result;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *destination, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *data)
{
    http2_client *client = data;
    http2_client_stream *stream = source->ptr;
    (void)session, (void)id;
    size_t taken = http_body_take(&stream->output, destination, room);
    if (stream->output.length <= client->settings.output_max / 2)
        http2_client_wake_writer(stream);
    if (stream->output.length == 0 && stream->is_finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->request_trailers_count > 0) {
            if (http2_client_submit_end(stream) != 0)
                return http2_client_out_of_memory(stream);
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        }
    } else if (taken == 0) {
        stream->is_deferred = 1;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)taken;
}

static int start(http2_client *client, uint32_t token, const uint8_t *rows, uint32_t count, int is_whole,
                 http2_client_stream **stream)
{
    if (client->is_leaving || client->is_over || !nghttp2_session_check_request_allowed(client->session))
        return HTTP2_CLIENT_LEAVING;
    if (client->stream_count >=
        nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
        return client->stream_count > 0 ? HTTP2_CLIENT_FULL : HTTP2_CLIENT_BARRED;
    http2_client_stream *made = calloc(1, sizeof *made);
    nghttp2_nv *fields = fields_of(rows, count);
    if (made == NULL || fields == NULL) {
        free(made);
        free(fields);
        http2_client_begin_leaving(client);
        return HTTP2_CLIENT_LEAVING;
    }
    made->client = client;
    made->token = token;
    made->is_finished = is_whole != 0;
    nghttp2_data_provider provider = {.source = {.ptr = made}, .read_callback = read_body};
    made->id = nghttp2_submit_request(client->session, NULL, fields, count, is_whole ? NULL : &provider, made);
    free(fields);
    if (made->id < 0) {
        int error = made->id;
        free(made);
        if (error == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE || error == NGHTTP2_ERR_NOMEM) {
            http2_client_begin_leaving(client);
            return HTTP2_CLIENT_LEAVING;
        }
        return HTTP2_CLIENT_INVALID;
    }
    made->next = client->streams;
    if (made->next != NULL)
        made->next->previous = made;
    client->streams = made;
    client->stream_count++;
    *stream = made;
    return HTTP2_CLIENT_OK;
}

int http2_client_start(http2_client *client, uint32_t token, const uint8_t *rows, uint32_t count, int is_whole,
                       http2_client_stream **stream)
{
    pthread_mutex_lock(&client->lock);
    int result = start(client, token, rows, count, is_whole, stream);
    pthread_mutex_unlock(&client->lock);
    return result;
}

void http2_client_release(http2_client_stream *stream)
{
    http2_client *client = stream->client;
    pthread_mutex_lock(&client->lock);
    stream->is_released = 1;
    if (stream->is_closed)
        http2_client_stream_free(stream);
    else {
        /* The server needs no more room on this stream. */
        http_body_clear(&stream->input);
        http2_client_reset_now(stream, NGHTTP2_CANCEL);
    }
    pthread_mutex_unlock(&client->lock);
}

void http2_client_reset(http2_client_stream *stream, uint32_t code)
{
    pthread_mutex_lock(&stream->client->lock);
    http2_client_reset_now(stream, code);
    pthread_mutex_unlock(&stream->client->lock);
}

/* Tells libnghttp2 that there is more. */
static void resume(http2_client_stream *stream)
{
    if (stream->is_deferred) {
        stream->is_deferred = 0;
        http2_client_must_tell(stream->client, nghttp2_session_resume_data(stream->client->session, stream->id));
    }
}

int http2_client_write(http2_client_stream *stream, const uint8_t *bytes, size_t length)
{
    http2_client *client = stream->client;
    int result = HTTP2_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    if (stream->is_closed || stream->is_finished)
        result = HTTP2_CLIENT_GONE;
    else if (http2_client_append(&stream->output, bytes, length) != 0) {
        http2_client_give_up(stream);
        result = HTTP2_CLIENT_GONE;
    } else {
        resume(stream);
        if (stream->output.length > client->settings.output_max)
            result = HTTP2_CLIENT_WAIT;
    }
    pthread_mutex_unlock(&client->lock);
    return result;
}

int http2_client_await_output(http2_client_stream *stream)
{
    http2_client *client = stream->client;
    int result = HTTP2_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    if (stream->is_closed)
        result = HTTP2_CLIENT_GONE;
    else if (stream->output.length > client->settings.output_max / 2) {
        stream->writer_waits = 1;
        result = HTTP2_CLIENT_WAIT;
    }
    pthread_mutex_unlock(&client->lock);
    return result;
}

static size_t rows_size(const uint8_t *rows, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lengths[2];
        memcpy(lengths, rows + size, sizeof lengths);
        size += sizeof lengths + (lengths[0] & ~HTTP2_CLIENT_SECRET) + lengths[1];
    }
    return size;
}

int http2_client_finish(http2_client_stream *stream, const uint8_t *rows, uint32_t count)
{
    http2_client *client = stream->client;
    int result = HTTP2_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    if (stream->is_closed)
        result = HTTP2_CLIENT_GONE;
    else if (!stream->is_finished) {
        size_t size = rows_size(rows, count);
        int has_memory = count == 0 || (stream->request_trailers = malloc(size)) != NULL;
        if (has_memory && count > 0) {
            memcpy(stream->request_trailers, rows, size);
            stream->request_trailers_count = count;
        }
        stream->is_finished = 1;
        if (!has_memory ||
            (stream->has_sent_head && stream->output.length == 0 && http2_client_submit_end(stream) != 0))
            http2_client_give_up(stream);
        else if (!stream->has_sent_head || stream->output.length > 0)
            resume(stream);
    }
    pthread_mutex_unlock(&client->lock);
    return result;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Responses */

int64_t http2_client_await_head(http2_client_stream *stream)
{
    int64_t result;
    pthread_mutex_lock(&stream->client->lock);
    if (stream->heads != NULL)
        result = (int64_t)stream->heads->length;
    else if (stream->is_closed || stream->cause != HTTP2_CLIENT_COMPLETE)
        result = HTTP2_CLIENT_GONE;
    else {
        stream->reader_waits = 1;
        result = HTTP2_CLIENT_WAIT;
    }
    pthread_mutex_unlock(&stream->client->lock);
    return result;
}

int http2_client_take_head(http2_client_stream *stream, uint8_t *destination, uint32_t *count, uint32_t *ends)
{
    int status = 0;
    pthread_mutex_lock(&stream->client->lock);
    http2_client_block *first = stream->heads;
    if (first != NULL) {
        stream->heads = first->next;
        if (first->length > 0)
            memcpy(destination, first->rows, first->length);
        *count = first->count;
        *ends = first->ends;
        status = first->status;
        http2_client_free_block(first);
    }
    pthread_mutex_unlock(&stream->client->lock);
    return status;
}

int64_t http2_client_await_body(http2_client_stream *stream)
{
    int64_t result;
    pthread_mutex_lock(&stream->client->lock);
    if (stream->input.length > 0)
        result = (int64_t)stream->input.length;
    else if (stream->cause == HTTP2_CLIENT_COMPLETE && stream->has_ended)
        result = 0;
    else if (stream->cause != HTTP2_CLIENT_COMPLETE || stream->is_closed)
        result = HTTP2_CLIENT_GONE;
    else {
        stream->reader_waits = 1;
        result = HTTP2_CLIENT_WAIT;
    }
    pthread_mutex_unlock(&stream->client->lock);
    return result;
}

size_t http2_client_read(http2_client_stream *stream, uint8_t *destination, size_t room)
{
    pthread_mutex_lock(&stream->client->lock);
    size_t taken = http_body_take(&stream->input, destination, room);
    if (taken > 0 && !stream->is_closed && !stream->has_ended)
        http2_client_must_tell(stream->client,
                               nghttp2_session_consume_stream(stream->client->session, stream->id, taken));
    pthread_mutex_unlock(&stream->client->lock);
    return taken;
}

size_t http2_client_trailers_length(http2_client_stream *stream)
{
    pthread_mutex_lock(&stream->client->lock);
    size_t length = stream->trailers == NULL ? 0 : stream->trailers->length;
    pthread_mutex_unlock(&stream->client->lock);
    return length;
}

uint32_t http2_client_copy_trailers(http2_client_stream *stream, uint8_t *destination)
{
    uint32_t count = 0;
    pthread_mutex_lock(&stream->client->lock);
    if (stream->trailers != NULL && stream->trailers->length > 0) {
        memcpy(destination, stream->trailers->rows, stream->trailers->length);
        count = stream->trailers->count;
    }
    pthread_mutex_unlock(&stream->client->lock);
    return count;
}

http2_client_cause http2_client_failure(http2_client_stream *stream, uint32_t *code)
{
    pthread_mutex_lock(&stream->client->lock);
    http2_client_cause cause = stream->cause;
    *code = stream->code;
    pthread_mutex_unlock(&stream->client->lock);
    return cause;
}
