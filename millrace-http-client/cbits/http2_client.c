/*
 * http2_client.c - connections and streams of an HTTP/2 client on libnghttp2. Must not know: GHC, sockets, the clock.
 *
 * libnghttp2's callbacks run within http2_client_feed and http2_client_collect, with the lock held. They only change records and
 * queue notices. A stream's record is freed when libnghttp2 has closed the stream and its owner has released it.
 */
#include "http2_client.h"

#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a body. */
typedef struct piece {
    struct piece *next;
    size_t start, end, capacity;
    uint8_t bytes[];
} piece;

typedef struct queue {
    piece *first, *last;
    size_t length;
} queue;

/* A head or trailers, as rows. */
typedef struct block {
    struct block *next;
    int status; /* 0: none has come */
    uint32_t count, ends;
    size_t length, capacity, charge;
    uint8_t *rows;
} block;

struct http2_client_stream {
    http2_client *client;
    struct http2_client_stream *next, *previous; /* all streams */
    struct http2_client_stream *next_noticed;    /* those with notices, in the order in which they got the first one */
    uint8_t notices;                             /* for its threads: a set of notice_for */
    uint32_t token;
    int32_t id;
    block *building, *heads, *heads_last, *trailers;
    uint8_t *request_trailers; /* rows that are sent at the end of the body */
    uint32_t request_trailers_count;
    uint32_t interims;
    queue input, output;
    uint32_t code; /* the server's error code */
    http2_client_cause cause;
    uint8_t is_released, is_closed, is_finished, is_deferred, has_sent_head;
    uint8_t has_final_head, has_ended; /* of the response */
    uint8_t was_reset;                 /* by the server */
    uint8_t reader_waits, writer_waits;
};

struct http2_client {
    pthread_mutex_t lock;
    nghttp2_session *session;
    http2_client_settings settings;
    http2_client_stream *streams;
    uint32_t stream_count;
    http2_client_stream *noticed, *noticed_last;
    const uint8_t *unsent; /* bytes of libnghttp2's that did not fit */
    size_t unsent_length;
    uint8_t end_frame[9]; /* a frame that ends a request without bytes */
    uint8_t is_ready, is_leaving, is_over, has_failed, writer_sleeps;
    uint8_t has_new_state; /* a notice */
    uint8_t is_lost;       /* no memory was left to tell the server something: the next step ends the connection */
};

typedef enum notice_for { FOR_READER = 1, FOR_WRITER = 2 } notice_for;

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

static void wake_reader(http2_client_stream *stream)
{
    if (stream->reader_waits) {
        stream->reader_waits = 0;
        notify(stream, FOR_READER);
    }
}

static void wake_writer(http2_client_stream *stream)
{
    if (stream->writer_waits) {
        stream->writer_waits = 0;
        notify(stream, FOR_WRITER);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Queues and blocks */

static int queue_append(queue *to, const uint8_t *bytes, size_t length)
{
    piece *last = to->last;
    if (last != NULL && last->capacity - last->end >= length) {
        memcpy(last->bytes + last->end, bytes, length);
        last->end += length;
    } else {
        size_t capacity = length < 1024 ? 1024 : length;
        piece *added = malloc(sizeof *added + capacity);
        if (added == NULL)
            return -1;
        added->next = NULL;
        added->start = 0;
        added->end = length;
        added->capacity = capacity;
        memcpy(added->bytes, bytes, length);
        if (last == NULL)
            to->first = added;
        else
            last->next = added;
        to->last = added;
    }
    to->length += length;
    return 0;
}

static size_t queue_take(queue *from, uint8_t *destination, size_t room)
{
    size_t taken = 0;
    while (from->first != NULL && taken < room) {
        piece *first = from->first;
        size_t count = first->end - first->start;
        if (count > room - taken)
            count = room - taken;
        memcpy(destination + taken, first->bytes + first->start, count);
        first->start += count;
        taken += count;
        if (first->start == first->end) {
            from->first = first->next;
            if (from->first == NULL)
                from->last = NULL;
            free(first);
        }
    }
    from->length -= taken;
    return taken;
}

static void queue_clear(queue *from)
{
    while (from->first != NULL) {
        piece *first = from->first;
        from->first = first->next;
        free(first);
    }
    from->last = NULL;
    from->length = 0;
}

static void block_free(block *old)
{
    if (old != NULL) {
        free(old->rows);
        free(old);
    }
}

static int block_add(block *to, const uint8_t *name, size_t name_length, const uint8_t *value, size_t value_length)
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
 * Streams */

static void stream_free(http2_client_stream *stream)
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
        block *first = stream->heads;
        stream->heads = first->next;
        block_free(first);
    }
    block_free(stream->building);
    block_free(stream->trailers);
    queue_clear(&stream->input);
    queue_clear(&stream->output);
    free(stream->request_trailers);
    free(stream);
}

/* The first cause counts. */
static void fail(http2_client_stream *stream, http2_client_cause cause, uint32_t code)
{
    if (stream->cause == HTTP2_CLIENT_COMPLETE) {
        stream->cause = cause;
        stream->code = code;
    }
}

/* The result of a call of libnghttp2 after which the server is told something. One side would wait for ever if it is not. */
static void must_tell(http2_client *client, int result)
{
    client->is_lost |= result == NGHTTP2_ERR_NOMEM;
}

static void reset(http2_client_stream *stream, uint32_t code)
{
    if (!stream->is_closed)
        must_tell(stream->client,
                  nghttp2_submit_rst_stream(stream->client->session, NGHTTP2_FLAG_NONE, stream->id, code));
}

/* Without memory the response cannot be told: the stream ends. */
static int out_of_memory(http2_client_stream *stream)
{
    fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_INTERNAL_ERROR);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* The same for what of a request cannot be sent, or of a response cannot be kept. Without the reset the server would wait for the rest. */
static void give_up(http2_client_stream *stream)
{
    fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_INTERNAL_ERROR);
    reset(stream, NGHTTP2_INTERNAL_ERROR);
}

static void stream_over(http2_client_stream *stream)
{
    stream->is_closed = 1;
    stream->client->stream_count--;
    queue_clear(&stream->output);
    wake_reader(stream);
    wake_writer(stream);
    if (stream->is_released)
        stream_free(stream);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Callbacks */

static http2_client_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)data;
    if (stream == NULL)
        return 0;
    block_free(stream->building);
    stream->building = calloc(1, sizeof *stream->building);
    return stream->building == NULL ? out_of_memory(stream) : 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    http2_client *client = data;
    http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)flags;
    if (stream == NULL || stream->building == NULL || stream->is_released)
        return 0;
    if (name_length > 0 && name[0] == ':') {
        /* libnghttp2 has checked that :status is three digits and comes once. */
        if (name_length == 7 && value_length == 3)
            stream->building->status = 100 * (value[0] - '0') + 10 * (value[1] - '0') + (value[2] - '0');
        return 0;
    }
    stream->building->charge += name_length + value_length + 32;
    if (stream->building->charge > client->settings.head_max) {
        fail(stream, HTTP2_CLIENT_TOO_LONG, 0);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return block_add(stream->building, name, name_length, value, value_length) != 0 ? out_of_memory(stream) : 0;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *data)
{
    http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)name, (void)name_length, (void)value, (void)value_length, (void)flags, (void)data;
    if (stream != NULL)
        fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_PROTOCOL_ERROR);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int take_block(http2_client *client, http2_client_stream *stream, int ends)
{
    block *built = stream->building;
    stream->building = NULL;
    if (built == NULL)
        return 0;
    if (stream->has_final_head) {
        block_free(stream->trailers);
        stream->trailers = built;
    } else {
        built->ends = (uint32_t)ends;
        if (built->status >= 200)
            stream->has_final_head = 1;
        else if (++stream->interims > client->settings.interim_max) {
            block_free(built);
            fail(stream, HTTP2_CLIENT_TOO_LONG, 0);
            reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
            return 0;
        }
        if (stream->heads == NULL)
            stream->heads = built;
        else
            stream->heads_last->next = built;
        stream->heads_last = built;
    }
    return 0;
}

static void leave(http2_client *client)
{
    if (!client->is_leaving) {
        client->is_leaving = 1;
        client->has_new_state = 1;
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_client *client = data;
    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        if (!client->is_ready && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            client->is_ready = 1;
            client->has_new_state = 1;
        }
        return 0;
    case NGHTTP2_GOAWAY:
        leave(client);
        return 0;
    case NGHTTP2_RST_STREAM: {
        http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
        if (stream != NULL)
            stream->was_reset = 1;
        return 0;
    }
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA: {
        http2_client_stream *stream = stream_of(session, frame->hd.stream_id);
        int ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        if (stream == NULL)
            return 0;
        if (frame->hd.type == NGHTTP2_HEADERS)
            take_block(client, stream, ends);
        if (ends)
            stream->has_ended = 1;
        if (ends || frame->hd.type == NGHTTP2_HEADERS)
            wake_reader(stream);
        return 0;
    }
    default:
        return 0;
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length, void *data)
{
    http2_client *client = data;
    http2_client_stream *stream = stream_of(session, id);
    (void)flags;
    must_tell(client, nghttp2_session_consume_connection(session, length));
    if (stream == NULL || stream->is_released) {
        must_tell(client, nghttp2_session_consume_stream(session, id, length));
        return 0;
    }
    if (queue_append(&stream->input, bytes, length) != 0)
        give_up(stream);
    wake_reader(stream);
    return 0;
}

/* Gives libnghttp2 the end of a request whose bytes it has. It sends no DATA frame while a window is closed, not even an empty one, which
 * needs no window (RFC 9113, section 6.9.1). So an end without trailers is trailers without fields here, and make_end makes a DATA frame
 * of them. */
static int submit_end(http2_client_stream *stream)
{
    uint32_t count = stream->request_trailers_count;
    nghttp2_nv *fields = stream->request_trailers != NULL ? fields_of(stream->request_trailers, count) : NULL;
    int result = -1;
    if (count == 0 || fields != NULL)
        result = nghttp2_submit_trailer(stream->client->session, stream->id, fields, count);
    free(fields);
    return result;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    http2_client_stream *stream = frame->hd.type == NGHTTP2_HEADERS ? stream_of(session, frame->hd.stream_id) : NULL;
    (void)data;
    if (stream == NULL || stream->has_sent_head)
        return 0;
    stream->has_sent_head = 1;
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && stream->is_finished && stream->output.length == 0 &&
        submit_end(stream) != 0)
        give_up(stream);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    http2_client_stream *stream = stream_of(session, id);
    (void)data;
    if (stream == NULL)
        return 0;
    /* libnghttp2 uses the same code for streams above the last one of a GOAWAY. */
    if (!stream->has_sent_head || (code == NGHTTP2_REFUSED_STREAM && !stream->has_final_head))
        fail(stream, HTTP2_CLIENT_REFUSED, code);
    else if (!stream->has_ended)
        fail(stream, stream->was_reset ? HTTP2_CLIENT_RESET : HTTP2_CLIENT_BROKEN, code);
    stream_over(stream);
    return 0;
}

/* libnghttp2 resets a stream whose response is malformed by itself. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *data)
{
    http2_client_stream *stream = frame->hd.stream_id > 0 ? stream_of(session, frame->hd.stream_id) : NULL;
    (void)error, (void)data;
    if (stream != NULL)
        fail(stream, HTTP2_CLIENT_BROKEN, NGHTTP2_PROTOCOL_ERROR);
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *destination, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *data)
{
    http2_client *client = data;
    http2_client_stream *stream = source->ptr;
    (void)session, (void)id;
    size_t taken = queue_take(&stream->output, destination, room);
    if (stream->output.length <= client->settings.output_max / 2)
        wake_writer(stream);
    if (stream->output.length == 0 && stream->is_finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->request_trailers_count > 0) {
            if (submit_end(stream) != 0)
                return out_of_memory(stream);
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        }
    } else if (taken == 0) {
        stream->is_deferred = 1;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)taken;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Connections */

static nghttp2_session *new_session(http2_client *client)
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

http2_client *http2_client_open(const http2_client_settings *settings)
{
    http2_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    client->settings = *settings;
    client->writer_sleeps = 1;
    pthread_mutex_init(&client->lock, NULL);
    client->session = new_session(client);
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings->head_max},
    };
    if (client->session == NULL ||
        nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, entries, sizeof entries / sizeof *entries) != 0 ||
        nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)settings->connection_window) != 0) {
        http2_client_free(client);
        return NULL;
    }
    return client;
}

static void end(http2_client *client)
{
    if (client->is_over)
        return;
    client->is_over = 1;
    leave(client);
    client->has_new_state = 1;
    for (http2_client_stream *stream = client->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->is_closed)
            continue;
        if (!stream->has_sent_head)
            fail(stream, HTTP2_CLIENT_REFUSED, NGHTTP2_REFUSED_STREAM);
        else if (!stream->has_ended)
            fail(stream, HTTP2_CLIENT_LOST, 0);
        nghttp2_session_set_stream_user_data(client->session, stream->id, NULL);
        stream_over(stream);
    }
}

void http2_client_end(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    end(client);
    pthread_mutex_unlock(&client->lock);
}

void http2_client_free(http2_client *client)
{
    nghttp2_session_del(client->session);
    while (client->streams != NULL)
        stream_free(client->streams);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

void http2_client_feed(http2_client *client, const uint8_t *bytes, size_t length)
{
    pthread_mutex_lock(&client->lock);
    if (!client->is_over) {
        ssize_t count = nghttp2_session_mem_recv(client->session, bytes, length);
        if (client->is_lost || count == NGHTTP2_ERR_NOMEM)
            end(client);
        else if (count < 0 || !nghttp2_session_want_read(client->session)) {
            /* libnghttp2 has a GOAWAY to send if the server is to blame. */
            client->has_failed |= count < 0 || !client->is_leaving;
            leave(client);
            if (count < 0 || !nghttp2_session_want_write(client->session))
                end(client);
        }
    }
    pthread_mutex_unlock(&client->lock);
}

/* The frame of an end without bytes (submit_end). */
static void make_end(http2_client *client)
{
    static const uint8_t nothing[3];
    if (client->unsent_length != sizeof client->end_frame || client->unsent[3] != NGHTTP2_HEADERS ||
        memcmp(client->unsent, nothing, sizeof nothing) != 0)
        return;
    memcpy(client->end_frame, client->unsent, sizeof client->end_frame);
    client->end_frame[3] = NGHTTP2_DATA;
    client->end_frame[4] = NGHTTP2_FLAG_END_STREAM;
    client->unsent = client->end_frame;
}

size_t http2_client_collect(http2_client *client, uint8_t *out, size_t room)
{
    size_t filled = 0;
    pthread_mutex_lock(&client->lock);
    client->writer_sleeps = 0;
    while (!client->is_over) {
        if (client->unsent_length == 0) {
            ssize_t count =
                client->is_lost ? NGHTTP2_ERR_NOMEM : nghttp2_session_mem_send(client->session, &client->unsent);
            if (count < 0) {
                client->has_failed |= count != NGHTTP2_ERR_NOMEM;
                end(client);
            }
            if (count <= 0)
                break;
            client->unsent_length = (size_t)count;
            make_end(client);
        }
        if (client->unsent_length > room - filled && filled > 0)
            break;
        size_t fitting = client->unsent_length < room - filled ? client->unsent_length : room - filled;
        memcpy(out + filled, client->unsent, fitting);
        filled += fitting;
        client->unsent += fitting;
        client->unsent_length -= fitting;
    }
    if (filled == 0) {
        client->writer_sleeps = 1;
        if (!client->is_over && !nghttp2_session_want_read(client->session) &&
            !nghttp2_session_want_write(client->session))
            end(client);
    }
    pthread_mutex_unlock(&client->lock);
    return filled;
}

int http2_client_needs_writer(http2_client *client)
{
    int needs;
    pthread_mutex_lock(&client->lock);
    needs =
        client->writer_sleeps && !client->is_over && (client->is_lost || nghttp2_session_want_write(client->session));
    if (needs)
        client->writer_sleeps = 0;
    pthread_mutex_unlock(&client->lock);
    return needs;
}

uint32_t http2_client_state(http2_client *client)
{
    uint32_t state;
    pthread_mutex_lock(&client->lock);
    state = (client->is_ready ? HTTP2_CLIENT_IS_READY : 0) | (client->is_leaving ? HTTP2_CLIENT_IS_LEAVING : 0) |
            (client->is_over ? HTTP2_CLIENT_IS_OVER : 0) | (client->has_failed ? HTTP2_CLIENT_HAS_FAILED : 0);
    if (client->is_ready &&
        nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1)
        state |= HTTP2_CLIENT_CAN_CONNECT;
    pthread_mutex_unlock(&client->lock);
    return state;
}

uint32_t http2_client_stream_count(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    uint32_t count = client->stream_count;
    pthread_mutex_unlock(&client->lock);
    return count;
}

uint32_t http2_client_streams_max(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    uint32_t count = nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    pthread_mutex_unlock(&client->lock);
    return count;
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

void http2_client_ping(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (!client->is_over)
        must_tell(client, nghttp2_submit_ping(client->session, NGHTTP2_FLAG_NONE, NULL));
    pthread_mutex_unlock(&client->lock);
}

void http2_client_leave(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (!client->is_over) {
        leave(client);
        must_tell(client, nghttp2_submit_goaway(client->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0));
    }
    pthread_mutex_unlock(&client->lock);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Requests */

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
        leave(client);
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
            leave(client);
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
        stream_free(stream);
    else {
        /* The server needs no more room on this stream. */
        queue_clear(&stream->input);
        reset(stream, NGHTTP2_CANCEL);
    }
    pthread_mutex_unlock(&client->lock);
}

void http2_client_reset(http2_client_stream *stream, uint32_t code)
{
    pthread_mutex_lock(&stream->client->lock);
    reset(stream, code);
    pthread_mutex_unlock(&stream->client->lock);
}

/* Tells libnghttp2 that there is more. */
static void resume(http2_client_stream *stream)
{
    if (stream->is_deferred) {
        stream->is_deferred = 0;
        must_tell(stream->client, nghttp2_session_resume_data(stream->client->session, stream->id));
    }
}

int http2_client_write(http2_client_stream *stream, const uint8_t *bytes, size_t length)
{
    http2_client *client = stream->client;
    int result = HTTP2_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    if (stream->is_closed || stream->is_finished)
        result = HTTP2_CLIENT_GONE;
    else if (queue_append(&stream->output, bytes, length) != 0) {
        give_up(stream);
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
        if (!has_memory || (stream->has_sent_head && stream->output.length == 0 && submit_end(stream) != 0))
            give_up(stream);
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
    block *first = stream->heads;
    if (first != NULL) {
        stream->heads = first->next;
        if (first->length > 0)
            memcpy(destination, first->rows, first->length);
        *count = first->count;
        *ends = first->ends;
        status = first->status;
        block_free(first);
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
    size_t taken = queue_take(&stream->input, destination, room);
    if (taken > 0 && !stream->is_closed && !stream->has_ended)
        must_tell(stream->client, nghttp2_session_consume_stream(stream->client->session, stream->id, taken));
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
