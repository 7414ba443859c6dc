/*
 * memory.c - the client's C code and a server of libnghttp2's in memory. With faults, each test runs again and again,
 * and another call of that code fails. What must hold then ends the process (MUST_HOLD); checks only hold without a
 * fault. Must not know: sockets, GHC.
 */
#include "harness.h"
#include "http2_client.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef MEMORY_WITH_FAULTS
#include "fault/fault.h"
#endif

#define MUST_HOLD(condition)                                                              \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

enum { WINDOW = 65535, BODY = 3 * WINDOW, PART = 5000, STREAMS_MAX = 8 };

/* The server: a stream as it has seen it. */
typedef struct seen {
    size_t body;
    bool has_begun, has_trailers, has_ended, was_reset;
    size_t sent; /* of the answer's body */
} seen;

typedef enum answering { WHOLE, WITH_RESET, MALFORMED, TOO_LONG, WITH_INTERIMS, AT_ONCE } answering;

typedef struct world {
    http2_client *client;
    nghttp2_session *server;
    answering answering;
    seen streams[2 * STREAMS_MAX];
    uint32_t pings;
} world;

/* --------------------------------------------------------------------------------------------------- the server --- */

#define FIELD(name, value)                                                                               \
    {                                                                                                    \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1, NGHTTP2_NV_FLAG_NONE \
    }

static uint8_t byte_at(size_t offset)
{
    return (uint8_t)(offset * 7 + offset / 251);
}

static ssize_t send_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t capacity, uint32_t *flags,
                         nghttp2_data_source *source, void *data)
{
    seen *stream = source->ptr;
    size_t count = BODY - stream->sent < capacity ? BODY - stream->sent : capacity;
    (void)data;
    for (size_t i = 0; i < count; i++)
        to[i] = byte_at(stream->sent + i);
    stream->sent += count;
    if (stream->sent == BODY) {
        const nghttp2_nv trailer = FIELD("checksum", "right");
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        MUST_HOLD(nghttp2_submit_trailer(session, id, &trailer, 1) == 0);
    }
    return (ssize_t)count;
}

static void answer(world *w, int32_t id)
{
    static char long_value[20000];
    memset(long_value, 'a', sizeof long_value);
    const nghttp2_nv interim = FIELD(":status", "103");
    const nghttp2_nv malformed[] = {FIELD(":status", "200"), FIELD("content-length", "-1")};
    nghttp2_nv head[] = {FIELD(":status", "200"), FIELD("server", "memory"), FIELD("long", "")};
    nghttp2_data_provider body = {.source = {.ptr = &w->streams[id]}, .read_callback = send_body};
    head[2].value = (uint8_t *)long_value;
    head[2].valuelen = w->answering == TOO_LONG ? sizeof long_value : 1000;
    for (int i = 0; i < (w->answering == WITH_INTERIMS ? 5 : 1); i++)
        MUST_HOLD(nghttp2_submit_headers(w->server, 0, id, NULL, &interim, 1, NULL) == 0);
    if (w->answering == WITH_RESET)
        MUST_HOLD(nghttp2_submit_rst_stream(w->server, 0, id, NGHTTP2_REFUSED_STREAM) == 0);
    else if (w->answering == MALFORMED)
        MUST_HOLD(nghttp2_submit_response(w->server, id, malformed, 2, NULL) == 0);
    else
        MUST_HOLD(nghttp2_submit_response(w->server, id, head, 3, &body) == 0);
}

static int on_request(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    world *w = data;
    (void)session;
    w->pings += frame->hd.type == NGHTTP2_PING;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        w->streams[frame->hd.stream_id].was_reset = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    seen *stream = &w->streams[frame->hd.stream_id];
    stream->has_begun = true;
    bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    stream->has_trailers |= frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat != NGHTTP2_HCAT_REQUEST;
    stream->has_ended |= ends;
    if (w->answering == AT_ONCE ? frame->hd.type == NGHTTP2_HEADERS && !stream->has_trailers : ends)
        answer(w, frame->hd.stream_id);
    return 0;
}

static int on_request_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
                           void *data)
{
    world *w = data;
    (void)session, (void)flags;
    for (size_t i = 0; i < length; i++)
        MUST_HOLD(bytes[i] == byte_at(w->streams[id].body + i));
    w->streams[id].body += length;
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- the world --- */

static bool is_over(const world *w)
{
    return http2_client_state(w->client) & HTTP2_CLIENT_IS_OVER;
}

static void begin_world(world *w, answering answering)
{
    static const http2_client_settings settings = {WINDOW, 2 * WINDOW, 16384, 3, PART};
    const nghttp2_settings_entry entries[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2},
                                              {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1}};
    nghttp2_session_callbacks *callbacks;
    *w = (world){.answering = answering};
    w->client = http2_client_open(&settings);
    CHECK(w->client);
    MUST_HOLD(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_request);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_request_data);
    MUST_HOLD(nghttp2_session_server_new(&w->server, callbacks, w) == 0);
    nghttp2_session_callbacks_del(callbacks);
    MUST_HOLD(nghttp2_submit_settings(w->server, 0, entries, 2) == 0);
}

static void end_world(world *w)
{
    nghttp2_session_del(w->server);
    http2_client_free(w->client);
}

/* What the client has for the server. Returns whether there was something. */
static bool carry_there(world *w)
{
    static uint8_t out[HTTP2_CLIENT_COLLECT_MIN];
    size_t size = http2_client_collect(w->client, out, sizeof out);
    if (size > 0)
        MUST_HOLD(nghttp2_session_mem_recv(w->server, out, size) == (ssize_t)size);
    return size > 0;
}

static bool carry_back(world *w)
{
    const uint8_t *bytes;
    ssize_t size = nghttp2_session_mem_send(w->server, &bytes);
    MUST_HOLD(size >= 0);
    if (size > 0)
        http2_client_feed(w->client, bytes, (size_t)size);
    return size > 0;
}

/* Until nothing moves. The writer sleeps only if there is nothing to send. */
static void carry(world *w)
{
    while (carry_there(w) | carry_back(w))
        ;
    MUST_HOLD(!http2_client_needs_sender(w->client));
    while (http2_client_next_notice(w->client) >= 0)
        ;
}

/* ----------------------------------------------------------------------------------------------- a client's way --- */

/* Appends a field in the form of http2_client.h. */
static uint8_t *put_field(uint8_t *at, const char *name, const char *value, uint32_t secret)
{
    uint32_t lengths[2] = {(uint32_t)strlen(name), (uint32_t)strlen(value)}, with_secret = lengths[0] | secret;
    memcpy(at, &with_secret, 4);
    memcpy(at + 4, &lengths[1], 4);
    memcpy(at + 8, name, lengths[0]);
    memcpy(at + 8 + lengths[0], value, lengths[1]);
    return at + 8 + lengths[0] + lengths[1];
}

static int request(world *w, const char *method, http2_client_part part, http_stream **stream)
{
    uint8_t rows[512], *at = rows;
    at = put_field(at, ":method", method, 0);
    at = put_field(at, ":scheme", "https", 0);
    at = put_field(at, ":authority", "memory", 0);
    at = put_field(at, ":path", "/", 0);
    put_field(at, "authorization", "secret", HTTP2_CLIENT_SECRET);
    return http2_client_request(w->client, rows, 5, part, stream);
}

/* Sends a body and its end. WAIT that nothing ends would be for ever. */
static void write_body(world *w, http_stream *stream, size_t size, bool with_trailers)
{
    uint8_t part[PART], rows[64];
    int result = HTTP_OK;
    for (size_t sent = 0, count; sent < size && result != HTTP_GONE; sent += count) {
        count = size - sent < sizeof part ? size - sent : sizeof part;
        for (size_t i = 0; i < count; i++)
            part[i] = byte_at(sent + i);
        result = http_stream_write(stream, part, count);
        if (result == HTTP_WAIT) {
            (void)http_stream_await_output(stream, PART / 2);
            carry(w);
            result = http_stream_await_output(stream, PART / 2);
            MUST_HOLD(result != HTTP_WAIT || is_over(w));
        }
    }
    const uint8_t *end = put_field(rows, "sum", "right", 0);
    http_rows trailers = {rows, (size_t)(end - rows), with_trailers ? 1 : 0};
    result = http_stream_finish(stream, &trailers);
    if (result != HTTP_OK && result != HTTP_GONE)
        http_stream_reset(stream, NGHTTP2_INTERNAL_ERROR); /* there is no memory for the trailers */
    carry(w);
}

/* Reads an answer. Returns how much of its body came; -1: the stream is closed. */
static int64_t read_answer(world *w, http_stream *stream)
{
    static uint8_t bytes[WINDOW], head[20000];
    int64_t arrived = 0, size;
    uint32_t count, part;
    do {
        size = http2_client_await_head(stream);
        MUST_HOLD(size != -HTTP_WAIT);
        if (size < 0)
            return -1;
    } while (http2_client_copy_head(stream, head, &count, &part) < 200);
    while ((size = http_stream_read(stream, bytes, sizeof bytes, 1)) > 0) {
        for (int64_t i = 0; i < size; i++)
            MUST_HOLD(bytes[i] == byte_at((size_t)(arrived + i)));
        arrived += size;
        carry(w);
    }
    MUST_HOLD(size != -HTTP_WAIT);
    MUST_HOLD(size < 0 || arrived == BODY);
    if (size == 0 && http_stream_trailers(stream, head, 0) > 0)
        MUST_HOLD(http_stream_trailers(stream, head, sizeof head) == 8 + sizeof "checksum" - 1 + sizeof "right" - 1);
    return size < 0 ? -1 : arrived;
}

/* The server must not take a part of a request for the whole. */
static void must_be_whole(const world *w, int32_t id, size_t size, bool with_trailers)
{
    const seen *stream = &w->streams[id];
    MUST_HOLD(!stream->has_ended || (stream->body == size && stream->has_trailers == with_trailers));
    MUST_HOLD(!stream->has_begun || stream->has_ended || stream->was_reset || is_over(w));
}

static http_stream *begin_exchange(world *w, const char *method, http2_client_part part)
{
    http_stream *stream = NULL;
    carry(w);
    CHECK_EQ(request(w, method, part, &stream), HTTP_OK);
    carry(w);
    return stream;
}

static void exchange_of(answering answering, size_t size, bool with_trailers)
{
    world w;
    begin_world(&w, answering);
    http_stream *stream = begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS);
    write_body(&w, stream, size, with_trailers);
    must_be_whole(&w, 1, size, with_trailers);
    int64_t arrived = read_answer(&w, stream);
    uint32_t code;
    http2_client_cause cause = http2_client_failure(stream, &code);
    MUST_HOLD((arrived == BODY) == (cause == HTTP2_CLIENT_COMPLETE));
    http2_client_release(stream);
    carry(&w);
    MUST_HOLD(http2_client_stream_count(w.client) == 0);
    CHECK_EQ(arrived, BODY);
    CHECK(w.streams[1].has_ended);
    end_world(&w);
}

/* ---------------------------------------------------------------------------------------------------- the tests --- */

static void bodies_and_trailers(uintptr_t with_trailers)
{
    exchange_of(WHOLE, BODY, with_trailers);
}

static void an_answer_before_the_end_of_the_request(uintptr_t with_trailers)
{
    exchange_of(AT_ONCE, PART, with_trailers);
}

/* The request ends before its head is sent. */
static void ended_at_once(uintptr_t with_trailers)
{
    world w;
    http_stream *stream = NULL;
    begin_world(&w, WHOLE);
    carry(&w);
    CHECK_EQ(request(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS, &stream), HTTP_OK);
    write_body(&w, stream, 0, with_trailers);
    must_be_whole(&w, 1, 0, with_trailers);
    int64_t arrived = read_answer(&w, stream);
    http2_client_release(stream);
    carry(&w);
    CHECK_EQ(arrived, BODY);
    end_world(&w);
}

static void no_body(uintptr_t argument)
{
    exchange_of(WHOLE, 0, argument);
}

/* How an exchange ends that the server does not answer as it should. */
static void failing_answer(uintptr_t argument)
{
    static const http2_client_cause causes[] = {[WITH_RESET] = HTTP2_CLIENT_REFUSED,
                                                [MALFORMED] = HTTP2_CLIENT_BROKEN,
                                                [TOO_LONG] = HTTP2_CLIENT_TOO_LONG,
                                                [WITH_INTERIMS] = HTTP2_CLIENT_TOO_LONG};
    world w;
    uint32_t code;
    begin_world(&w, (answering)argument);
    http_stream *stream = begin_exchange(&w, "GET", HTTP2_CLIENT_NOTHING_FOLLOWS);
    MUST_HOLD(read_answer(&w, stream) == -1);
    http2_client_cause cause = http2_client_failure(stream, &code);
    MUST_HOLD(cause != HTTP2_CLIENT_COMPLETE);
    http2_client_release(stream);
    carry(&w);
    MUST_HOLD(http2_client_stream_count(w.client) == 0);
    CHECK_EQ(cause, causes[argument]);
    end_world(&w);
}

/* The caller gives a stream back before its answer has come: the server is told. */
static void cancelled(uintptr_t argument)
{
    world w;
    (void)argument;
    begin_world(&w, WHOLE);
    http_stream *first = begin_exchange(&w, "GET", HTTP2_CLIENT_NOTHING_FOLLOWS),
                *second = begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS), *third;
    if (request(&w, "GET", HTTP2_CLIENT_NOTHING_FOLLOWS, &third) ==
        HTTP_OK) /* one of them was reset already, for lack of memory */
        http2_client_release(third);
    (void)http2_client_await_head(second);
    http_stream_reset(second, NGHTTP2_CANCEL);
    carry(&w);
    MUST_HOLD(http2_client_await_head(second) == -HTTP_GONE);
    MUST_HOLD(http_stream_write(second, (const uint8_t *)"a", 1) == HTTP_GONE);
    http2_client_release(first);
    http2_client_release(second);
    carry(&w);
    MUST_HOLD(http2_client_stream_count(w.client) == 0);
    CHECK(w.streams[1].was_reset && w.streams[3].was_reset && !w.streams[5].has_ended);
    end_world(&w);
}

/* Each thread that waits gets a notice, in the order in which they are due. */
static void notices(uintptr_t argument)
{
    world w;
    (void)argument;
    begin_world(&w, WHOLE);
    http_stream *first = begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS),
                *second = begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS);
    uint8_t much[4 * WINDOW] = {0};
    (void)http_stream_write(first, much, sizeof much);
    CHECK_EQ(http_stream_await_output(first, PART / 2), HTTP_WAIT);
    CHECK_EQ(http2_client_await_head(first), -HTTP_WAIT);
    CHECK_EQ(http2_client_await_head(second), -HTTP_WAIT);
    http2_client_close(w.client);
    CHECK_EQ(http2_client_next_notice(w.client), HTTP_READABLE);
    CHECK_EQ(http2_client_next_notice(w.client), 4 * second->key + HTTP_READABLE);
    CHECK_EQ(http2_client_next_notice(w.client), 4 * first->key + HTTP_READABLE);
    CHECK_EQ(http2_client_next_notice(w.client), 4 * first->key + HTTP_WRITABLE);
    CHECK_EQ(http2_client_next_notice(w.client), -1);
    http2_client_release(first);
    http2_client_release(second);
    end_world(&w);
}

/* Nobody waits for a stream that was released: its notices go with it, and those of others stay. */
static void notices_of_released_streams(uintptr_t argument)
{
    world w;
    (void)argument;
    begin_world(&w, WHOLE);
    http_stream *first = begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS),
                *second = begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS);
    CHECK_EQ(http2_client_await_head(first), -HTTP_WAIT);
    CHECK_EQ(http2_client_await_head(second), -HTTP_WAIT);
    http2_client_close(w.client);
    http2_client_release(second);
    CHECK_EQ(http2_client_next_notice(w.client), HTTP_READABLE);
    CHECK_EQ(http2_client_next_notice(w.client), 4 * first->key + HTTP_READABLE);
    CHECK_EQ(http2_client_next_notice(w.client), -1);
    http2_client_release(first);
    end_world(&w);
}

static void leaving(uintptr_t argument)
{
    world w;
    http_stream *none;
    (void)argument;
    begin_world(&w, WHOLE);
    http_stream *stream = begin_exchange(&w, "GET", HTTP2_CLIENT_NOTHING_FOLLOWS);
    http2_client_ping(w.client);
    carry(&w);
    MUST_HOLD(w.pings == 1 || is_over(&w));
    http2_client_announce_end(w.client);
    MUST_HOLD(request(&w, "GET", HTTP2_CLIENT_NOTHING_FOLLOWS, &none) == HTTP2_CLIENT_LEAVING);
    carry(&w);
    int64_t arrived = read_answer(&w, stream);
    http2_client_release(stream);
    carry(&w);
    MUST_HOLD(http2_client_state(w.client) & HTTP2_CLIENT_IS_LEAVING);
    CHECK_EQ(arrived, BODY);
    end_world(&w);
}

/* GOAWAY: what is open goes on. */
static void server_leaves(uintptr_t argument)
{
    world w;
    http_stream *none;
    (void)argument;
    begin_world(&w, WHOLE);
    http_stream *stream = begin_exchange(&w, "GET", HTTP2_CLIENT_NOTHING_FOLLOWS);
    MUST_HOLD(nghttp2_submit_goaway(w.server, 0, 1, NGHTTP2_NO_ERROR, NULL, 0) == 0);
    carry(&w);
    MUST_HOLD(request(&w, "GET", HTTP2_CLIENT_NOTHING_FOLLOWS, &none) == HTTP2_CLIENT_LEAVING);
    int64_t arrived = read_answer(&w, stream);
    http2_client_release(stream);
    carry(&w);
    CHECK_EQ(arrived, BODY);
    CHECK(http2_client_state(w.client) & HTTP2_CLIENT_IS_LEAVING);
    end_world(&w);
}

/* A server that does not speak the protocol. Its answer is lost, and that of a stream that nobody releases is freed
   with the connection. */
static void no_protocol(uintptr_t argument)
{
    static const uint8_t no_frame[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    world w;
    uint32_t code;
    (void)argument;
    begin_world(&w, WHOLE);
    http_stream *stream = begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS);
    (void)begin_exchange(&w, "POST", HTTP2_CLIENT_BODY_FOLLOWS);
    http2_client_feed(w.client, no_frame, sizeof no_frame - 1);
    (void)carry_there(&w);
    (void)carry_there(&w);
    MUST_HOLD(is_over(&w) && read_answer(&w, stream) == -1);
    MUST_HOLD(http2_client_failure(stream, &code) != HTTP2_CLIENT_COMPLETE);
    http2_client_release(stream);
    end_world(&w);
}

/* -------------------------------------------------------------------------------------------------- the program --- */

int main(int argc, char **argv)
{
    static const harness_test tests[] = {
        {"whole/body", bodies_and_trailers, false},
        {"whole/body-and-trailers", bodies_and_trailers, true},
        {"whole/no-body", no_body, false},
        {"whole/trailers-alone", no_body, true},
        {"whole/ended-at-once", ended_at_once, false},
        {"whole/ended-at-once-with-trailers", ended_at_once, true},
        {"whole/answered-at-once", an_answer_before_the_end_of_the_request, false},
        {"whole/answered-at-once-with-trailers", an_answer_before_the_end_of_the_request, true},
        {"failing/reset", failing_answer, WITH_RESET},
        {"failing/malformed", failing_answer, MALFORMED},
        {"failing/too-long", failing_answer, TOO_LONG},
        {"failing/interims", failing_answer, WITH_INTERIMS},
        {"cancelled", cancelled, 0},
        {"notices/order", notices, 0},
        {"notices/of-released-streams", notices_of_released_streams, 0},
        {"leaving/client", leaving, 0},
        {"leaving/server", server_leaves, 0},
        {"failing/no-protocol", no_protocol, 0},
    };
    enum { COUNT = sizeof tests / sizeof *tests };
    harness_announce_seed(argc, argv);
#ifdef MEMORY_WITH_FAULTS
    return fault_main(tests, COUNT, argc, argv);
#else
    return harness_main(tests, COUNT, argc, argv);
#endif
}
