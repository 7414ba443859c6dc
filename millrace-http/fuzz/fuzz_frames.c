/*
 * fuzz_frames.c - the HTTP/2 engine and a client that sends any frames in any order. Whatever it sends, the server
 * sends well-formed frames, uses little memory, serves no more requests at a time than it may, and none that a GOAWAY
 * excludes, and leaks nothing.
 */
#include "fuzz_http2.h"
#include "http_head.h"

/* Of the address sanitizer; gcc has no header that says so. */
size_t __sanitizer_get_current_allocated_bytes(void);

#define SERVED_MAX 8 /* as small_settings says */

/* One connection with as many requests as are served at a time. */
#define MEMORY_MAX ((size_t)1 << 20)

typedef struct world {
    http2_connection *connection;
    reader reader;
    outgoing out;
    http_stream *served[SERVED_MAX];
    uint8_t answered[SERVED_MAX];
    uint64_t now;
    size_t memory;
    uint32_t highest, last; /* the highest stream that was served, and the last one of the GOAWAYs */
    int is_over;
} world;

static world w;

static void on_frame(uint8_t type, uint8_t flags, uint32_t stream, const uint8_t *payload, size_t length)
{
    (void)flags, (void)stream, (void)length;
    if (type == FRAME_GOAWAY && number_at(payload, 4) < w.last)
        w.last = number_at(payload, 4);
    CHECK(w.highest <= w.last);
}

static void collect(size_t capacity)
{
    static uint8_t bytes[HTTP2_COLLECT_MIN * 2];
    http_sender sender = HTTP_SENDER_NEW;
    for (;;) {
        uint64_t result = http2_collect(w.connection, bytes, capacity, sender);
        size_t length = (uint32_t)result;
        CHECK(length <= capacity && !(result & HTTP_IS_BUSY));
        read_bytes(&w.reader, bytes, length);
        w.is_over = w.is_over || (result & HTTP_IS_OVER);
        if (result & HTTP_HAS_ENDED || length == 0)
            return;
        sender = HTTP_SENDER_AGAIN;
    }
}

static void feed(void)
{
    uint8_t *copy = exact_copy(w.out.bytes, w.out.length);
    http2_feed(w.connection, copy, w.out.length, w.now);
    free(copy);
    w.out.length = 0;
    while (http2_next_notice(w.connection) >= 0)
        continue;
    size_t memory = __sanitizer_get_current_allocated_bytes();
    CHECK(memory < w.memory + MEMORY_MAX);
}

static void check_head(http_stream *stream)
{
    size_t table = stream->head.field_count * sizeof(http_field), size = table + stream->head.text_length;
    uint8_t *head = malloc(size > 0 ? size : 1);
    CHECK(head != NULL && stream->head.field_count <= small_settings.fields_max + 1);
    http_stream_copy_head(stream, head);
    const http_field *fields = (const http_field *)head;
    for (uint32_t i = 0; i < stream->head.field_count; i++) {
        CHECK(fields[i].value_offset <= stream->head.text_length &&
              fields[i].value_length <= stream->head.text_length - fields[i].value_offset);
        const uint8_t *value = head + table + fields[i].value_offset;
        for (uint32_t k = 0; k < fields[i].value_length; k++)
            CHECK(value[k] == '\t' || (value[k] >= ' ' && value[k] != 0x7f));
    }
    CHECK(stream->head.path_offset + stream->head.path_length <= stream->head.text_length ||
          stream->head.path_length == 0);
    if (stream->head.error == 0 && stream->head.protocol_length == 0 && stream->head.path_length > 0)
        CHECK(head[table + stream->head.path_offset] == '/' || head[table + stream->head.path_offset] == '*');
    free(head);
}

static void take_requests(void)
{
    http_stream *stream;
    for (int i = 0; i < SERVED_MAX; i++)
        if (w.served[i] == NULL && (stream = http2_next_request(w.connection)) != NULL) {
            w.served[i] = stream;
            w.answered[i] = 0;
            w.highest = (uint32_t)stream->key > w.highest ? (uint32_t)stream->key : w.highest;
            CHECK(w.highest <= w.last);
            check_head(stream);
        }
    int full = 1;
    for (int i = 0; i < SERVED_MAX; i++)
        full = full && w.served[i] != NULL;
    if (full)
        CHECK(http2_next_request(w.connection) == NULL);
}

/* A step of a handler. */
static void step(int which, uint8_t kind, uint8_t size)
{
    static const uint8_t body[1024] = {'x'};
    http_stream *stream = w.served[which];
    if (stream == NULL)
        return;
    http_rows none = {.bytes = body, .length = 0, .count = 0};
    int64_t given;
    uint8_t bytes[300];
    switch (kind % 9) {
    case 0:
        http_stream_read(stream, bytes, size, kind & 16);
        break;
    case 1:
        w.answered[which] |=
            http_stream_answer(stream, 200, &none, HTTP_LENGTH_NONE, body, 4 * size, kind & 16, &given) == HTTP_OK;
        break;
    case 2:
        http_stream_write(stream, body, 4 * size);
        break;
    case 3:
        if (w.answered[which])
            http_stream_finish(stream, &none);
        break;
    case 4:
        http_stream_inform(stream, 103, &none);
        break;
    case 5:
        http_stream_reset(stream, size % 14);
        break;
    case 6:
        http_stream_await_output(stream, size);
        http_stream_progress(stream);
        http_stream_await_close(stream);
        break;
    case 7:
        if (w.answered[which] && http_stream_take_back(stream) == HTTP_OK)
            w.answered[which] = 0;
        break;
    default:
        http2_release(stream, w.now);
        w.served[which] = NULL;
        break;
    }
}

/* Something that the client sends. */
static void client_step(uint8_t kind, input *in)
{
    size_t length;
    uint8_t flags, stream;
    const uint8_t *bytes;
    switch (kind) {
    case 10:
        put_request(&w.out, take_byte(in), FLAG_END_STREAM, "GET", "/", NULL, NULL);
        break;
    case 11:
        put_request(&w.out, take_byte(in), 0, "POST", "/", "content-length", "300");
        break;
    case 12:
        stream = take_byte(in);
        length = 16u * take_byte(in);
        put_frame_head(&w.out, length, FRAME_DATA, take_byte(in) & FLAG_END_STREAM, stream);
        for (size_t i = 0; i < length; i++)
            put_number(&w.out, 'd', 1);
        break;
    case 13:
        bytes = take_bytes(in, take_byte(in), &length);
        put_bytes(&w.out, bytes, length);
        break;
    case 14:
        put_request(&w.out, take_byte(in), take_byte(in) & FLAG_END_STREAM, "CONNECT", "/chat", ":protocol",
                    "websocket");
        break;
    default:
        flags = take_byte(in);
        stream = take_byte(in);
        bytes = take_bytes(in, take_byte(in), &length);
        put_frame(&w.out, kind, flags, stream, bytes, length);
        break;
    }
}

/* The client ends its side. When the handlers have ended and all is sent, nothing is left, and the driver learns it. */
static void end_input(void)
{
    http_stream *stream;
    http2_end_input(w.connection);
    int waits = http2_await_rest(w.connection) == HTTP_WAIT, is_told = 0;
    for (int i = 0; i < SERVED_MAX; i++) {
        if (w.served[i] != NULL)
            http2_release(w.served[i], w.now);
        w.served[i] = NULL;
    }
    while ((stream = http2_next_request(w.connection)) != NULL)
        http2_release(stream, w.now);
    collect(HTTP2_COLLECT_MIN);
    for (int64_t notice; (notice = http2_next_notice(w.connection)) >= 0;)
        is_told = is_told || notice == 4 * HTTP_NO_STREAM + HTTP_CLOSED;
    CHECK(http2_await_rest(w.connection) == HTTP_OK);
    CHECK(is_told || !waits);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    input in = {bytes, size};
    memset(w.served, 0, sizeof w.served);
    w.now = 1;
    w.is_over = 0;
    w.highest = 0;
    w.last = UINT32_MAX;
    w.reader.on_frame = on_frame;
    w.out.length = 0;
    w.memory = __sanitizer_get_current_allocated_bytes();
    start_reader(&w.reader);
    w.connection = http2_open(&small_settings, 0);
    if (w.connection == NULL) { /* see faults.c */
        end_reader(&w.reader);
        return 0;
    }
    put_bytes(&w.out, PREFACE, PREFACE_LENGTH);
    put_frame(&w.out, FRAME_SETTINGS, 0, 0, NULL, 0);
    while (in.left > 0 && !w.is_over) {
        uint8_t kind = take_byte(&in);
        if (kind < 0x80)
            client_step(kind % 16, &in);
        else if (kind < 0xa0)
            step(kind % SERVED_MAX, take_byte(&in), take_byte(&in));
        else if (kind < 0xb0)
            w.now += UINT64_C(10000000) * take_byte(&in);
        else if (kind < 0xb8)
            http2_reset_stalled(w.connection, w.now, UINT64_C(1000000000));
        else if (kind < 0xba)
            http2_announce_end(w.connection, kind % 2 ? HTTP_END_NOTICE : HTTP_END_LAST);
        else if (kind < 0xd0)
            collect(HTTP2_COLLECT_MIN);
        else {
            feed();
            take_requests();
        }
        if (w.out.length > sizeof w.out.bytes / 2)
            feed();
    }
    feed();
    collect(HTTP2_COLLECT_MIN);
    CHECK(in.left > 0 || !w.is_over || w.reader.block_stream == 0);
    if (size % 4 >= 2)
        end_input();
    /* The connection may end before its handlers, and after them. */
    int first = size % 2;
    if (first)
        http2_close(w.connection);
    for (int i = 0; i < SERVED_MAX; i++)
        if (w.served[i] != NULL)
            http2_release(w.served[i], w.now);
    if (!first)
        http2_close(w.connection);
    http2_free(w.connection);
    end_reader(&w.reader);
    return 0;
}
