/*
 * fuzz_http2.h - what the fuzz targets of HTTP/2 share: a client that writes frames, and one that reads all that the
 * server sends and checks that it is well-formed. Must not know: sockets, the clock.
 */
#ifndef FUZZ_HTTP2_H
#define FUZZ_HTTP2_H

#include <nghttp2/nghttp2.h>

#include "fuzz.h"
#include "http2_engine.h"

#define PREFACE        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_LENGTH (sizeof PREFACE - 1)

enum {
    FRAME_DATA,
    FRAME_HEADERS,
    FRAME_PRIORITY,
    FRAME_RESET,
    FRAME_SETTINGS,
    FRAME_PUSH,
    FRAME_PING,
    FRAME_GOAWAY,
    FRAME_WINDOW,
    FRAME_CONTINUATION
};
enum { FLAG_END_STREAM = 1, FLAG_ACK = 1, FLAG_END_HEADERS = 4, FLAG_PADDED = 8 };

static const http_settings small_settings = {.streams_max = 8,
                                             .fields_max = 32,
                                             .head_max = 4096,
                                             .target_max = 512,
                                             .stream_window = 4096,
                                             .connection_window = 70000,
                                             .window_max = 100000,
                                             .table_max = 4096,
                                             .skipped_max = 1000,
                                             .allowances.resets_max = 50,
                                             .allowances.resets_per_second = 10,
                                             .allowances.frames_max = 200,
                                             .allowances.frames_per_second = 10,
                                             .server_name_length = 4,
                                             .server_name = "fuzz"};

/* The rest of a target's input. What is missing is 0. */
typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static inline uint8_t take_byte(input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

/* As many bytes as there are, at most this many; *length says how many. */
static inline const uint8_t *take_bytes(input *in, size_t most, size_t *length)
{
    const uint8_t *bytes = in->at;
    *length = in->left < most ? in->left : most;
    in->at += *length;
    in->left -= *length;
    return bytes;
}

/* Bytes that a client sends. */
typedef struct outgoing {
    uint8_t bytes[1 << 17];
    size_t length;
} outgoing;

static inline void put_bytes(outgoing *out, const void *bytes, size_t length)
{
    CHECK(length <= sizeof out->bytes - out->length);
    if (length > 0)
        memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

static inline void put_number(outgoing *out, uint32_t value, int size)
{
    for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) {
        uint8_t byte = (uint8_t)(value >> shift);
        put_bytes(out, &byte, 1);
    }
}

static inline void put_frame_head(outgoing *out, size_t length, uint8_t type, uint8_t flags, uint32_t stream)
{
    put_number(out, (uint32_t)length, 3);
    put_number(out, type, 1);
    put_number(out, flags, 1);
    put_number(out, stream, 4);
}

static inline void put_frame(outgoing *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
                             size_t length)
{
    put_frame_head(out, length, type, flags, stream);
    put_bytes(out, payload, length);
}

/* A field that enters no table. */
static inline void put_field(outgoing *out, const char *name, const char *value)
{
    size_t name_length = strlen(name), value_length = strlen(value);
    CHECK(name_length < 127 && value_length < 127);
    put_number(out, 0, 1);
    put_number(out, (uint32_t)name_length, 1);
    put_bytes(out, name, name_length);
    put_number(out, (uint32_t)value_length, 1);
    put_bytes(out, value, value_length);
}

/* A request's HEADERS frame. */
static inline void put_request(outgoing *out, uint32_t stream, uint8_t flags, const char *method, const char *path,
                               const char *name, const char *value)
{
    static outgoing block;
    block.length = 0;
    put_field(&block, ":method", method);
    put_field(&block, ":scheme", "http");
    put_field(&block, ":authority", "a");
    put_field(&block, ":path", path);
    if (name != NULL)
        put_field(&block, name, value);
    put_frame(out, FRAME_HEADERS, flags | FLAG_END_HEADERS, stream, block.bytes, block.length);
}

/* The reading side of a client. */

typedef struct reader {
    nghttp2_hd_inflater *inflater;
    uint8_t held[1 << 15]; /* a frame that is not complete */
    size_t length;
    uint8_t block[1 << 17]; /* a header block that is not complete */
    size_t block_length;
    uint32_t block_stream; /* 0: there is none */
    int block_ends;
    int has_begun, has_ended; /* GOAWAY with an error */
    /* What the target makes of it. May be NULL. */
    void (*on_data)(uint32_t stream, const uint8_t *bytes, size_t length, int ends);
    void (*on_head)(uint32_t stream, int status, int ends);
    void (*on_frame)(uint8_t type, uint8_t flags, uint32_t stream, const uint8_t *payload, size_t length);
} reader;

static inline uint32_t number_at(const uint8_t *bytes, int size)
{
    uint32_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | bytes[i];
    return value;
}

static inline void check_field(const nghttp2_nv *field)
{
    CHECK(field->namelen > 0);
    for (size_t i = 0; i < field->namelen; i++)
        CHECK(field->name[i] > ' ' && field->name[i] < 0x7f && !(field->name[i] >= 'A' && field->name[i] <= 'Z'));
    for (size_t i = 0; i < field->valuelen; i++)
        CHECK(field->value[i] == '\t' || (field->value[i] >= ' ' && field->value[i] != 0x7f));
}

static inline void read_block(reader *r)
{
    int status = 0, flags = 0, count = 0;
    const uint8_t *at = r->block;
    size_t left = r->block_length;
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        ssize_t taken = nghttp2_hd_inflate_hd2(r->inflater, &field, &flags, at, left, 1);
        CHECK(taken >= 0);
        at += taken;
        left -= (size_t)taken;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
            continue;
        check_field(&field);
        if (field.name[0] == ':') {
            CHECK(count == 0 && field.namelen == 7 && memcmp(field.name, ":status", 7) == 0 && field.valuelen == 3);
            status = (field.value[0] - '0') * 100 + (field.value[1] - '0') * 10 + field.value[2] - '0';
        }
        count++;
    }
    nghttp2_hd_inflate_end_headers(r->inflater);
    uint32_t stream = r->block_stream;
    r->block_stream = 0;
    if (r->on_head != NULL)
        r->on_head(stream, status, r->block_ends);
}

static inline void read_frame(reader *r, const uint8_t *frame, size_t length)
{
    uint8_t type = frame[3], flags = frame[4];
    uint32_t stream = number_at(frame + 5, 4);
    const uint8_t *payload = frame + 9;
    CHECK(r->has_begun || (type == FRAME_SETTINGS && !(flags & FLAG_ACK)));
    r->has_begun = 1;
    CHECK(type <= FRAME_CONTINUATION && type != FRAME_PUSH && stream <= 0x7fffffff);
    CHECK((type == FRAME_CONTINUATION) == (r->block_stream != 0));
    if (r->on_frame != NULL)
        r->on_frame(type, flags, stream, payload, length);
    switch (type) {
    case FRAME_DATA:
        CHECK(stream != 0 && !(flags & FLAG_PADDED));
        if (r->on_data != NULL)
            r->on_data(stream, payload, length, flags & FLAG_END_STREAM);
        break;
    case FRAME_HEADERS:
        CHECK(stream != 0);
        r->block_length = 0;
        r->block_ends = flags & FLAG_END_STREAM;
        /* fall through */
    case FRAME_CONTINUATION:
        CHECK(r->block_stream == 0 || r->block_stream == stream);
        CHECK(length <= sizeof r->block - r->block_length);
        memcpy(r->block + r->block_length, payload, length);
        r->block_length += length;
        r->block_stream = stream;
        if (flags & FLAG_END_HEADERS)
            read_block(r);
        break;
    case FRAME_RESET:
        CHECK(stream != 0 && length == 4);
        break;
    case FRAME_SETTINGS:
        CHECK(stream == 0 && length % 6 == 0 && (!(flags & FLAG_ACK) || length == 0));
        break;
    case FRAME_PING:
        CHECK(stream == 0 && length == 8);
        break;
    case FRAME_GOAWAY:
        CHECK(stream == 0 && length >= 8);
        r->has_ended = r->has_ended || number_at(payload + 4, 4) != 0;
        break;
    case FRAME_WINDOW:
        CHECK(length == 4 && number_at(payload, 4) > 0);
        break;
    default:
        CHECK(0);
    }
}

static inline void read_bytes(reader *r, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        size_t count = length < sizeof r->held - r->length ? length : sizeof r->held - r->length;
        memcpy(r->held + r->length, bytes, count);
        r->length += count;
        bytes += count;
        length -= count;
        size_t at = 0;
        while (r->length - at >= 9 && r->length - at - 9 >= number_at(r->held + at, 3)) {
            size_t payload = number_at(r->held + at, 3);
            CHECK(payload <= 16384);
            read_frame(r, r->held + at, payload);
            at += 9 + payload;
        }
        CHECK(r->length - at < 9 || number_at(r->held + at, 3) <= 16384);
        memmove(r->held, r->held + at, r->length - at);
        r->length -= at;
    }
}

static inline void start_reader(reader *r)
{
    memset(r, 0, offsetof(reader, on_data));
    CHECK(nghttp2_hd_inflate_new(&r->inflater) == 0);
}

static inline void end_reader(reader *r)
{
    nghttp2_hd_inflate_del(r->inflater);
}

#endif
