/*
 * fuzz_waits.c - hundreds of streams of one HTTP/2 connection with threads that wait for input, for output, for a
 * window and for the end. A model holds that each wait ends with its notice: when the client sends or resets, when its
 * windows open, or when the connection closes. A notice comes only to a wait. All this holds where memory is short, too
 * (faults.c).
 */
#include "fuzz_http2.h"

#define STREAMS_MAX 250

static const http_rows no_fields = {.bytes = (const uint8_t *)"", .length = 0, .count = 0};

typedef struct model {
    http_stream *stream; /* while a handler has it */
    uint8_t waits;       /* a bit 1 << http_event for each wait that has not had its notice */
    uint32_t due[3];     /* for each event, how many notices there may be: one for each wait */
} model;

static struct {
    http2_connection *connection;
    outgoing out;
    model streams[STREAMS_MAX];
    uint32_t count;
} w;

static void fetch_notices(uint32_t most)
{
    int64_t notice;
    for (uint32_t i = 0; i < most && (notice = http2_next_notice(w.connection)) >= 0; i++) {
        uint32_t id = (uint32_t)(notice / 4), event = notice % 4;
        CHECK(id % 2 == 1 && id / 2 < w.count && event <= HTTP_CLOSED);
        model *m = &w.streams[id / 2];
        CHECK(m->due[event]-- > 0);
        m->waits &= (uint8_t) ~(1u << event);
    }
}

static void feed(void)
{
    if (w.out.length == 0)
        return;
    uint8_t *copy = exact_copy(w.out.bytes, w.out.length);
    http2_feed(w.connection, copy, w.out.length, 1);
    free(copy);
    w.out.length = 0;
}

static void collect(void)
{
    static uint8_t bytes[HTTP2_COLLECT_MUCH];
    uint64_t result = http2_collect(w.connection, bytes, sizeof bytes, HTTP_SENDER_NEW);
    while (!(result & HTTP_HAS_ENDED))
        result = http2_collect(w.connection, bytes, sizeof bytes, HTTP_SENDER_AGAIN);
}

static void take_requests(void)
{
    http_stream *stream;
    while ((stream = http2_next_request(w.connection)) != NULL) {
        w.streams[stream->key / 2].stream = stream;
        uint8_t *head = malloc(stream->head.field_count * sizeof(http_field) + stream->head.text_length);
        CHECK(head != NULL);
        http_stream_copy_head(stream, head);
        free(head);
    }
}

static void open_streams(uint32_t count)
{
    for (; count > 0 && w.count < STREAMS_MAX; count--, w.count++) {
        w.streams[w.count] = (model){0};
        put_request(&w.out, 2 * w.count + 1, 0, "POST", "/", NULL, NULL);
    }
    feed();
    take_requests();
}

static void note_wait(model *m, int64_t result, http_event event)
{
    if (result != HTTP_WAIT && result != -HTTP_WAIT)
        return;
    m->waits |= (uint8_t)(1u << event);
    m->due[event]++;
}

static void write_much(model *m)
{
    static const uint8_t zeros[HTTP_OUTPUT_HIGH + 1];
    int64_t given;
    if (http_stream_answer(m->stream, 200, &no_fields, HTTP_LENGTH_NONE, zeros, 0, 0, &given) == HTTP_OK)
        http_stream_write(m->stream, zeros, sizeof zeros);
    note_wait(m, http_stream_await_output(m->stream, HTTP_OUTPUT_LOW), HTTP_WRITABLE);
}

static void wait_for(model *m, uint8_t what)
{
    uint8_t bytes[64];
    if (m->stream == NULL)
        return;
    switch (what % 3) {
    case 0:
        note_wait(m, http_stream_read(m->stream, bytes, sizeof bytes, 1), HTTP_READABLE);
        break;
    case 1:
        note_wait(m, http_stream_await_close(m->stream), HTTP_CLOSED);
        break;
    default:
        if (m->stream->key % 4 == 1) /* a handler either writes or asks for the window */
            note_wait(m, http_stream_await_window(m->stream), HTTP_WRITABLE);
        else
            write_much(m);
        break;
    }
}

/* No thread waits for the stream any more, so notices may be missing. */
static void release(model *m)
{
    if (m->stream != NULL)
        http2_release(m->stream, 1);
    m->stream = NULL;
    m->waits = 0;
}

static void send_something(uint32_t id, uint8_t what)
{
    static const uint8_t cancel[4] = {0, 0, 0, 8}, much[4] = {0, 1, 0, 0};
    switch (what % 4) {
    case 0:
        put_frame(&w.out, FRAME_DATA, 0, id, "x", 1);
        break;
    case 1:
        put_frame(&w.out, FRAME_DATA, FLAG_END_STREAM, id, "", 0);
        break;
    case 2:
        put_frame(&w.out, FRAME_WINDOW, 0, what & 4 ? 0 : id, much, 4);
        break;
    default:
        put_frame(&w.out, FRAME_RESET, 0, id, cancel, 4);
        break;
    }
    feed();
}

static void step(uint8_t kind, uint8_t which, uint8_t amount)
{
    uint32_t first = w.count == 0 ? 0 : which % w.count;
    switch (kind % 8) {
    case 0:
        open_streams(amount);
        break;
    case 1:
    case 2:
        for (uint32_t i = 0; i <= amount && first + i < w.count; i++)
            wait_for(&w.streams[first + i], kind / 8);
        break;
    case 3:
    case 4:
        if (w.count > 0)
            send_something(2 * first + 1, amount);
        break;
    case 5:
        collect();
        break;
    case 6:
        fetch_notices(amount);
        break;
    default:
        if (w.count > 0)
            release(&w.streams[first]);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static http_settings settings;
    settings = small_settings;
    settings.streams_max = STREAMS_MAX;
    settings.allowances.frames_max = settings.allowances.resets_max = 1000000;
    input in = {bytes, size};
    w.count = 0;
    w.out.length = 0;
    w.connection = http2_open(&settings, 0);
    if (w.connection == NULL && fault_has_happened && fault_has_happened())
        return 0;
    CHECK(w.connection != NULL);
    put_bytes(&w.out, PREFACE, PREFACE_LENGTH);
    put_frame(&w.out, FRAME_SETTINGS, 0, 0, NULL, 0);
    feed();
    while (in.left >= 3) {
        uint8_t kind = take_byte(&in), which = take_byte(&in), amount = take_byte(&in);
        step(kind, which, amount);
    }
    http2_close(w.connection);
    fetch_notices(UINT32_MAX);
    for (uint32_t i = 0; i < w.count; i++) {
        CHECK(w.streams[i].waits == 0);
        release(&w.streams[i]);
    }
    http2_free(w.connection);
    return 0;
}
