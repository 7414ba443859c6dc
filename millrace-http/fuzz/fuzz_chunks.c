/*
 * fuzz_chunks.c - http_chunks: any split of a body gives the same data and the same end, and what it accepts is taken
 * apart once more by a slow reading of the same rules. The first byte of the input chooses the split.
 */
#include <ctype.h>

#include "fuzz.h"
#include "http_chunks.h"

typedef struct outcome {
    int64_t result;  /* 0, HTTP_CHUNKS_END or an error */
    size_t consumed; /* of the input */
    uint8_t *data;
    size_t size;
} outcome;

/* Feeds what is there in memory of exactly its size. */
static void feed(outcome *out, http_chunks *chunks, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = exact_copy(bytes, length);
    size_t at = 0, before = out->size;
    int64_t foreseen = http_chunks_foresee(chunks, copy, length);
    do {
        out->result = http_chunks_next(chunks, copy + at, length - at);
        CHECK(chunks->consumed <= length - at);
        at += chunks->consumed;
        if (out->result > 0) {
            CHECK((uint64_t)out->result <= length - at);
            memcpy(out->data + out->size, copy + at, (size_t)out->result);
            out->size += (size_t)out->result;
            at += (size_t)out->result;
        }
    } while (out->result > 0);
    CHECK(out->result == foreseen);
    CHECK(chunks->foreseen >= out->size - before);
    CHECK(out->result < 0 || at == length);
    out->consumed += at;
    free(copy);
}

static outcome decode(const uint8_t *bytes, size_t length, http_chunks_trailers trailers, uint32_t seed, int in_pieces)
{
    outcome out = {.data = exact_copy(bytes, length)};
    http_chunks chunks;
    http_chunks_init(&chunks, trailers);
    for (size_t arrived = 0; arrived < length && out.result == 0;) {
        size_t piece = in_pieces ? piece_length(&seed) : length;
        piece = length - arrived < piece ? length - arrived : piece;
        feed(&out, &chunks, bytes + arrived, piece);
        arrived += piece;
    }
    return out;
}

/* The slow reading. */

static size_t line_length(const uint8_t *bytes, size_t length)
{
    for (size_t at = 0; at + 1 < length; at++) {
        if (bytes[at] == '\r' && bytes[at + 1] == '\n')
            return at;
        CHECK(bytes[at] == '\t' || (bytes[at] >= ' ' && bytes[at] != 0x7f));
    }
    CHECK(!"a line ends");
    return 0;
}

static void check_accepted(const outcome *out, const uint8_t *bytes)
{
    size_t at = 0, done = 0, limit = out->consumed;
    for (;;) {
        size_t line = line_length(bytes + at, limit - at), digits = 0, size = 0;
        for (; digits < line && isxdigit(bytes[at + digits]); digits++)
            size = 16 * size + (size_t)strtol((char[]){(char)bytes[at + digits], 0}, NULL, 16);
        CHECK(digits > 0);
        if (digits < line)
            CHECK(memchr(bytes + at, ';', line) != NULL);
        at += line + 2;
        if (size == 0)
            break;
        CHECK(size <= limit - at && size <= out->size - done);
        CHECK(memcmp(out->data + done, bytes + at, size) == 0);
        done += size;
        at += size;
        CHECK(memcmp(bytes + at, "\r\n", 2) == 0);
        at += 2;
    }
    CHECK(done == out->size);
    for (size_t line; (line = line_length(bytes + at, limit - at)) > 0; at += line + 2)
        CHECK(memchr(bytes + at, ':', line) != NULL);
    CHECK(at + 2 == limit);
}

/* Whoever reads trailers itself gets the same data, and then all that follows the last chunk's line. */
static void check_trailers_are_left(const outcome *skipped, const outcome *left, const uint8_t *bytes)
{
    CHECK(left->size == skipped->size && memcmp(left->data, skipped->data, left->size) == 0);
    if (left->result == HTTP_CHUNKS_END)
        CHECK(left->consumed <= skipped->consumed && bytes[left->consumed - 1] == '\n');
    else
        CHECK(left->result == skipped->result);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size < 1)
        return 0;
    const uint8_t *bytes = input + 1;
    outcome whole = decode(bytes, size - 1, HTTP_CHUNKS_TRAILERS_SKIPPED, 0, 0);
    outcome parts = decode(bytes, size - 1, HTTP_CHUNKS_TRAILERS_SKIPPED, input[0], 1);
    CHECK(whole.result == parts.result && whole.size == parts.size);
    CHECK(memcmp(whole.data, parts.data, whole.size) == 0);
    CHECK(whole.consumed == parts.consumed);
    if (whole.result == HTTP_CHUNKS_END)
        check_accepted(&whole, bytes);
    free(parts.data);
    parts = decode(bytes, size - 1, HTTP_CHUNKS_TRAILERS_LEFT, input[0], 1);
    check_trailers_are_left(&whole, &parts, bytes);
    free(whole.data);
    free(parts.data);
    return 0;
}
