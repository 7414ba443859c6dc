/*
 * fuzz_streams.c - the HTTP/2 engine between an honest client and handlers that do anything in any order, with a model
 * of what must hold: bodies arrive whole and in order in both directions, windows and the number of streams are
 * respected, nothing is reset without a reason, and in the end every finished answer has arrived. If memory was short
 * (faults.c), a handler or the client gets an error, or all of it holds.
 */
#include "fuzz_http2.h"

#define STREAMS_MAX 24

static const http_rows no_fields = {.bytes = (const uint8_t *)"", .length = 0, .count = 0};
static const http_rows some_trailers = {.bytes = (const uint8_t *)"\1\0\0\0\1\0\0\0xy", .length = 10, .count = 1};

typedef enum answer_kind { UNANSWERED, ANSWERED, FINISHED } answer_kind;

/* A stream as the client, the handler and the wire have seen it. */
typedef struct model {
    uint32_t id;
    http_stream *stream; /* while a handler has it */
    /* The request. */
    uint32_t sent, read; /* bytes of its body */
    uint8_t opened, taken, client_ended, client_reset, released;
    int64_t server_window; /* what the server's window has left */
    /* The answer. */
    answer_kind answer;
    uint32_t written, arrived;
    uint32_t flushed; /* what must arrive unless the client or the handler resets the stream */
    uint8_t head_arrived, end_arrived, reset_arrived, handler_reset, handler_aborted, head_flushed;
    int64_t window; /* what the client's window has left */
} model;

static struct {
    http2_connection *connection;
    reader reader;
    outgoing out;
    model streams[STREAMS_MAX];
    int count;
    uint64_t now;
    int64_t server_window, initial_server_window; /* the server's windows */
    int64_t window, initial_window;               /* the client's */
    int is_over, is_ending, is_sending;
    int is_told; /* somebody got an error because memory was short */
    int has_failed;
} w;

static int is_after_fault(void)
{
    return fault_has_happened && fault_has_happened();
}

/* To be asked about something that may only be because memory was short. */
static int tells_of_fault(void)
{
    w.is_told = w.is_told || is_after_fault();
    return w.is_told;
}

static uint8_t request_byte(uint32_t id, uint32_t offset)
{
    return (uint8_t)(id * 31 + offset * 7 + offset / 256);
}

static uint8_t answer_byte(uint32_t id, uint32_t offset)
{
    return (uint8_t)(id * 17 + offset * 5 + offset / 256);
}

static model *model_of(uint32_t id)
{
    CHECK(id % 2 == 1 && id < 2u * (uint32_t)w.count);
    return &w.streams[id / 2];
}

static int is_open(const model *m)
{
    return m->opened && !m->client_reset && !m->reset_arrived && !(m->client_ended && m->end_arrived);
}

/* What arrives at the client. */

static void on_head(uint32_t stream, int status, int ends)
{
    model *m = model_of(stream);
    CHECK(!m->end_arrived && !m->reset_arrived && !m->head_arrived);
    CHECK(status == 103 || status == 200);
    CHECK(status == 103 || m->answer != UNANSWERED || m->released);
    m->head_arrived = status == 200;
    if (ends) {
        CHECK(m->answer == FINISHED && m->written == m->arrived);
        m->end_arrived = 1;
    }
}

static void on_data(uint32_t stream, const uint8_t *bytes, size_t length, int ends)
{
    model *m = model_of(stream);
    CHECK(m->head_arrived && !m->end_arrived && !m->reset_arrived);
    /* A connection that fails takes no more notice of its windows. */
    CHECK((int64_t)length <= m->window || length == 0 || w.has_failed);
    CHECK((int64_t)length <= w.window || length == 0 || w.has_failed);
    m->window -= (int64_t)length;
    w.window -= (int64_t)length;
    for (size_t i = 0; i < length; i++)
        CHECK(bytes[i] == answer_byte(stream, m->arrived + (uint32_t)i));
    m->arrived += (uint32_t)length;
    CHECK(m->arrived <= m->written);
    if (ends) {
        CHECK(m->answer == FINISHED && m->arrived == m->written);
        m->end_arrived = 1;
    }
}

static void on_settings(const uint8_t *payload, size_t length)
{
    for (; length > 0; payload += 6, length -= 6)
        if (number_at(payload, 2) == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE) {
            int64_t change = (int64_t)number_at(payload + 2, 4) - w.initial_server_window;
            w.initial_server_window += change;
            for (int i = 0; i < w.count; i++)
                w.streams[i].server_window += change;
        }
    put_frame(&w.out, FRAME_SETTINGS, FLAG_ACK, 0, NULL, 0);
}

static void on_frame(uint8_t type, uint8_t flags, uint32_t stream, const uint8_t *payload, size_t length)
{
    model *m;
    switch (type) {
    case FRAME_RESET:
        m = model_of(stream);
        CHECK(m->handler_reset || m->handler_aborted || m->released || tells_of_fault());
        CHECK(m->handler_reset || m->client_reset || (m->arrived >= m->flushed && m->head_arrived >= m->head_flushed) ||
              tells_of_fault());
        m->reset_arrived = 1;
        break;
    case FRAME_SETTINGS:
        if (!(flags & FLAG_ACK))
            on_settings(payload, length);
        break;
    case FRAME_PING:
        if (!(flags & FLAG_ACK))
            put_frame(&w.out, FRAME_PING, FLAG_ACK, 0, payload, length);
        break;
    case FRAME_GOAWAY:
        CHECK((number_at(payload + 4, 4) == 0 && w.is_ending) || tells_of_fault());
        break;
    case FRAME_WINDOW:
        if (stream == 0)
            w.server_window += number_at(payload, 4);
        else
            model_of(stream)->server_window += number_at(payload, 4);
        break;
    default:
        break;
    }
}

static void note_failure(uint64_t result)
{
    CHECK(!(result & HTTP2_HAS_FAILED) || tells_of_fault());
    w.has_failed = w.has_failed || (result & HTTP2_HAS_FAILED);
}

static void collect_once(size_t capacity)
{
    static uint8_t bytes[HTTP2_COLLECT_MUCH];
    uint64_t result = http2_collect(w.connection, bytes, capacity, w.is_sending ? HTTP_SENDER_AGAIN : HTTP_SENDER_NEW);
    size_t length = (uint32_t)result;
    CHECK(length <= capacity && !(result & HTTP_IS_BUSY));
    note_failure(result);
    read_bytes(&w.reader, bytes, length);
    w.is_over = w.is_over || (result & HTTP_IS_OVER);
    w.is_sending = !(result & HTTP_HAS_ENDED) && length > 0;
}

static void collect(size_t capacity)
{
    do
        collect_once(capacity);
    while (w.is_sending);
}

static void feed(void)
{
    if (w.out.length == 0)
        return;
    uint8_t *copy = exact_copy(w.out.bytes, w.out.length);
    uint64_t result = http2_feed(w.connection, copy, w.out.length, w.now);
    note_failure(result);
    free(copy);
    w.out.length = 0;
    while (http2_next_notice(w.connection) >= 0)
        continue;
}

static void take_requests(void)
{
    http_stream *stream;
    while ((stream = http2_next_request(w.connection)) != NULL) {
        model *m = model_of((uint32_t)stream->key);
        CHECK(m->opened && !m->taken && (stream->head.error == 0 || tells_of_fault()));
        m->taken = 1;
        m->stream = stream;
        uint8_t *head = malloc(stream->head.field_count * sizeof(http_field) + stream->head.text_length);
        CHECK(head != NULL);
        http_stream_copy_head(stream, head);
        free(head);
    }
    uint32_t served = 0;
    for (int i = 0; i < w.count; i++)
        served += w.streams[i].stream != NULL;
    CHECK(served <= small_settings.streams_max);
}

/* What the client does. */

static uint32_t open_streams(void)
{
    uint32_t count = 0;
    for (int i = 0; i < w.count; i++)
        count += is_open(&w.streams[i]);
    return count;
}

static void open_stream(int ends)
{
    if (w.count == STREAMS_MAX || open_streams() == small_settings.streams_max || w.is_ending)
        return;
    model *m = &w.streams[w.count];
    *m = (model){.id = 2u * (uint32_t)w.count + 1,
                 .opened = 1,
                 .client_ended = ends != 0,
                 .server_window = w.initial_server_window,
                 .window = w.initial_window};
    w.count++;
    put_request(&w.out, m->id, ends ? FLAG_END_STREAM : 0, ends ? "GET" : "POST", "/", NULL, NULL);
}

static void send_body(model *m, uint32_t length, int ends)
{
    if (!is_open(m) || m->client_ended)
        return;
    if ((int64_t)length > m->server_window)
        length = m->server_window > 0 ? (uint32_t)m->server_window : 0;
    if ((int64_t)length > w.server_window)
        length = (uint32_t)w.server_window;
    put_frame_head(&w.out, length, FRAME_DATA, ends ? FLAG_END_STREAM : 0, m->id);
    for (uint32_t i = 0; i < length; i++)
        put_number(&w.out, request_byte(m->id, m->sent + i), 1);
    m->sent += length;
    m->server_window -= length;
    w.server_window -= length;
    m->client_ended = ends != 0;
}

static void reset_by_client(model *m)
{
    if (!is_open(m))
        return;
    m->client_reset = 1;
    uint8_t cancel[4] = {0, 0, 0, 8};
    put_frame(&w.out, FRAME_RESET, 0, m->id, cancel, sizeof cancel);
}

static void open_window(model *m, uint32_t size)
{
    if (m != NULL && !is_open(m))
        return;
    put_frame_head(&w.out, 4, FRAME_WINDOW, 0, m == NULL ? 0 : m->id);
    put_number(&w.out, size, 4);
    *(m == NULL ? &w.window : &m->window) += size;
}

/* The client's side of it holds once the server has it: that is, at once, because what is sent is fed before the server
   sends. */
static void change_initial_window(uint32_t size)
{
    /* A frame that is made already may be larger than the new window. */
    if (w.is_sending)
        collect(HTTP2_COLLECT_MIN);
    put_frame_head(&w.out, 6, FRAME_SETTINGS, 0, 0);
    put_number(&w.out, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2);
    put_number(&w.out, size, 4);
    for (int i = 0; i < w.count; i++)
        w.streams[i].window += (int64_t)size - w.initial_window;
    w.initial_window = size;
}

/* What handlers do. */

static void read_body(model *m, size_t capacity)
{
    uint8_t bytes[1024];
    int64_t count = http_stream_read(m->stream, bytes, capacity, capacity % 2);
    for (int64_t i = 0; i < count; i++)
        CHECK(bytes[i] == request_byte(m->id, m->read + (uint32_t)i));
    if (count > 0)
        m->read += (uint32_t)count;
    CHECK(m->read <= m->sent);
    if (count == 0)
        CHECK(m->client_ended && m->read == m->sent);
    if (count == -HTTP_GONE)
        CHECK(m->client_reset || m->handler_reset || m->handler_aborted || m->reset_arrived || w.is_over ||
              tells_of_fault());
}

static const uint8_t *answer_bytes(const model *m, uint32_t length)
{
    static uint8_t bytes[40000];
    CHECK(length <= sizeof bytes);
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = answer_byte(m->id, m->written + i);
    return bytes;
}

static void answer(model *m, uint32_t length, int is_whole)
{
    int64_t given;
    if (m->answer != UNANSWERED)
        return;
    const uint8_t *bytes = answer_bytes(m, length);
    int result = http_stream_answer(m->stream, 200, &no_fields, HTTP_LENGTH_NONE, bytes, length, is_whole, &given);
    if (result == HTTP_OK) {
        m->answer = is_whole ? FINISHED : ANSWERED;
        m->written = length;
    } else {
        CHECK(m->client_reset || m->handler_reset || m->handler_aborted || m->reset_arrived || tells_of_fault());
    }
}

/* As for a file, which is read to where it is sent from. */
static int write_as_piece(model *m, uint32_t length)
{
    http_piece *piece = http_new_piece(length + 1);
    CHECK(piece != NULL);
    memcpy(http_piece_bytes(piece), answer_bytes(m, length), length);
    return http_stream_write_piece(m->stream, piece, length);
}

/* A handler that leaves its bytes where they are until the client's windows take them. */
static void ask_for_window(model *m)
{
    feed();
    int64_t window = http_stream_await_window(m->stream);
    int is_over = m->client_reset || m->handler_reset || m->handler_aborted || m->reset_arrived;
    CHECK(window > 0 || window == -HTTP_WAIT || (window == -HTTP_GONE && (is_over || tells_of_fault())));
    /* A connection that fails takes no more notice of its windows. */
    if (window > 0 && !is_over && !is_after_fault())
        CHECK(window <= w.window && window <= m->window - (int64_t)(m->written - m->arrived));
}

static void write_body(model *m, uint32_t length)
{
    if (m->answer != ANSWERED)
        return;
    if (length % 300 == 0)
        ask_for_window(m);
    int result =
        length % 2 == 1 ? write_as_piece(m, length) : http_stream_write(m->stream, answer_bytes(m, length), length);
    if (result == HTTP_GONE)
        CHECK(m->client_reset || m->handler_reset || m->handler_aborted || m->reset_arrived || tells_of_fault());
    else
        m->written += length;
}

static void finish(model *m)
{
    if (m->answer == FINISHED)
        CHECK(http_stream_finish(m->stream, &some_trailers) == HTTP_GONE || tells_of_fault());
    if (m->answer != ANSWERED)
        return;
    if (http_stream_finish(m->stream, &no_fields) == HTTP_OK)
        m->answer = FINISHED;
    else
        CHECK(m->client_reset || m->handler_reset || m->handler_aborted || m->reset_arrived || tells_of_fault());
}

static void take_back(model *m)
{
    if (m->answer == UNANSWERED || http_stream_take_back(m->stream) != HTTP_OK)
        return;
    CHECK(!m->head_arrived);
    /* On a closed stream a flush does nothing. */
    CHECK(!m->head_flushed || m->client_reset || m->reset_arrived);
    m->answer = UNANSWERED;
    m->written = 0;
}

static void flush(model *m)
{
    http_stream_flush(m->stream);
    if (m->answer == UNANSWERED || m->handler_reset || m->handler_aborted)
        return;
    m->head_flushed = 1;
    m->flushed = m->written;
}

static void release(model *m)
{
    http2_release(m->stream, w.now);
    m->stream = NULL;
    m->released = 1;
}

static void handler_step(model *m, uint8_t kind, uint8_t size)
{
    if (m->stream == NULL)
        return;
    switch (kind % 10) {
    case 0:
    case 1:
        read_body(m, 1 + 4u * size);
        break;
    case 2:
        answer(m, size, 1);
        break;
    case 3:
        answer(m, 100u * size, 0);
        break;
    case 4:
        write_body(m, 100u * size);
        break;
    case 5:
        finish(m);
        break;
    case 6:
        take_back(m);
        break;
    case 7:
        http_stream_inform(m->stream, 103, &no_fields);
        break;
    case 8:
        if (size < 30) {
            m->handler_reset = 1;
            http_stream_reset(m->stream, NGHTTP2_CANCEL);
        } else if (size < 60) {
            m->handler_aborted = 1;
            http_stream_abort(m->stream);
        } else {
            flush(m);
        }
        break;
    default:
        if (m->answer == FINISHED || size < 30)
            release(m);
        break;
    }
}

static void client_step(model *m, uint8_t kind, uint8_t size)
{
    switch (kind % 10) {
    case 0:
    case 1:
    case 2:
        open_stream(kind & 16);
        break;
    case 3:
    case 4:
        send_body(m, 8u * size, 0);
        break;
    case 5:
        send_body(m, size, 1);
        break;
    case 6:
        if (size < 30)
            reset_by_client(m);
        break;
    case 7:
        open_window(size % 2 ? m : NULL, 1 + 64u * size);
        break;
    case 8:
        change_initial_window(100u * size);
        break;
    default:
        put_frame(&w.out, FRAME_PING, 0, 0, "12345678", 8);
        break;
    }
}

/* All handlers finish, and the client takes everything. */
static void settle(void)
{
    open_window(NULL, 1u << 29);
    change_initial_window(1u << 29);
    for (int turn = 0; turn < 100; turn++) {
        feed();
        take_requests();
        for (int i = 0; i < w.count; i++) {
            model *m = &w.streams[i];
            if (m->stream == NULL)
                continue;
            answer(m, 1, 1);
            finish(m);
            if (m->client_ended || m->client_reset || m->handler_reset || m->handler_aborted)
                release(m);
            else if (turn > 90)
                send_body(m, 0, 1);
        }
        for (int i = 0; i < w.count && turn < 90; i++)
            if (!w.streams[i].stream)
                send_body(&w.streams[i], 0, 1);
        collect(HTTP2_COLLECT_MIN);
    }
    for (int i = 0; i < w.count && !w.is_told; i++) {
        model *m = &w.streams[i];
        CHECK(m->taken || m->client_reset);
        if (m->answer == FINISHED && !m->client_reset && !m->handler_reset && !m->handler_aborted)
            CHECK(m->end_arrived && m->arrived == m->written);
        if (!m->client_reset && !m->end_arrived)
            CHECK(m->reset_arrived);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static http_settings settings;
    settings = small_settings;
    settings.allowances.frames_max = settings.allowances.resets_max = 1000000;
    input in = {bytes, size};
    w.count = w.is_over = w.is_ending = w.is_sending = w.is_told = w.has_failed = 0;
    memset(w.streams, 0, sizeof w.streams);
    w.now = 1;
    w.out.length = 0;
    w.server_window = w.window = w.initial_server_window = w.initial_window = 65535;
    start_reader(&w.reader);
    w.reader.on_head = on_head;
    w.reader.on_data = on_data;
    w.reader.on_frame = on_frame;
    w.connection = http2_open(&settings, 0);
    if (w.connection == NULL && tells_of_fault()) {
        end_reader(&w.reader);
        return 0;
    }
    CHECK(w.connection != NULL);
    put_bytes(&w.out, PREFACE, PREFACE_LENGTH);
    put_frame(&w.out, FRAME_SETTINGS, 0, 0, NULL, 0);
    feed();
    collect(HTTP2_COLLECT_MIN);
    while (in.left >= 3) {
        uint8_t kind = take_byte(&in), which = take_byte(&in), amount = take_byte(&in);
        model *m = &w.streams[w.count == 0 ? 0 : which % w.count];
        if (kind < 0x60)
            client_step(m, kind, amount);
        else if (kind < 0xd0) {
            if (w.count > 0)
                handler_step(m, kind, amount);
        } else {
            feed();
            w.now += UINT64_C(1000000) * amount;
            take_requests();
            if (kind < 0xe8)
                collect_once(HTTP2_COLLECT_MIN + 100u * (which % 4)); /* handlers go on before the rest is sent */
            else if (kind < 0xf8)
                collect(which % 4 == 3 ? HTTP2_COLLECT_MUCH : HTTP2_COLLECT_MIN + 100u * which);
        }
        if (w.out.length > sizeof w.out.bytes / 2)
            feed();
    }
    settle();
    for (int i = 0; i < w.count; i++)
        if (w.streams[i].stream != NULL)
            release(&w.streams[i]);
    http2_close(w.connection);
    http2_free(w.connection);
    end_reader(&w.reader);
    return 0;
}
