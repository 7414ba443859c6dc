/*
 * fuzz_response.c - http_head and http_date: no status, reason, name or value makes the writer leave its memory, write
 * a line of its own or frame the body. The input is a list of pieces, each behind a byte that holds its length: the
 * reason phrase, then names and values in turn.
 */
#include <strings.h>

#include "fuzz.h"
#include "http_bytes.h"
#include "http_date.h"
#include "http_head.h"

typedef struct input {
    const uint8_t *at, *end;
} input;

/* The next piece, in separate memory. */
static uint8_t *take_piece(input *in, size_t *length)
{
    *length = in->at < in->end ? *in->at++ : 0;
    if (*length > (size_t)(in->end - in->at))
        *length = (size_t)(in->end - in->at);
    uint8_t *copy = exact_copy(in->at, *length);
    in->at += *length;
    return copy;
}

enum { LINES_MAX = 64 };

static http_head_result write_head(http_head *head, input *in, unsigned *fields)
{
    http_head_line lines[LINES_MAX];
    size_t count = 0;
    uint8_t *reason = take_piece(in, &head->reason_length);
    while (count < LINES_MAX && in->at < in->end) {
        http_head_line *line = &lines[LINES_MAX - ++count];
        line->name = take_piece(in, &line->name_length);
        line->value = take_piece(in, &line->value_length);
    }
    head->reason = reason;
    head->lines_end = lines + LINES_MAX;
    head->line_count = count;
    head->server_line = (const uint8_t *)"Server: s\r\n";
    head->server_line_length = 11;
    http_head_result result = http_head_compose(head);
    free(reason);
    for (size_t i = LINES_MAX - count; i < LINES_MAX; i++) {
        free((void *)lines[i].name);
        free((void *)lines[i].value);
    }
    *fields = (unsigned)count;
    return result;
}

static int is_name(const uint8_t *line, size_t length, const char *name)
{
    return length == strlen(name) && strncasecmp((const char *)line, name, length) == 0;
}

static void check_line(const uint8_t *line, size_t length)
{
    const uint8_t *colon = memchr(line, ':', length);
    CHECK(colon != NULL && colon > line);
    size_t name_length = (size_t)(colon - line);
    for (size_t i = 0; i < name_length; i++)
        CHECK(http_byte_is(line[i], HTTP_BYTE_TOKEN));
    CHECK(!is_name(line, name_length, "content-length") && !is_name(line, name_length, "transfer-encoding"));
    if (is_name(line, name_length, "connection"))
        CHECK(http_connection_tokens(colon + 1, length - name_length - 1) & HTTP_TOKEN_OTHER);
}

static void check_lines(const uint8_t *at, const uint8_t *end, unsigned lines_max)
{
    unsigned lines = 0;
    while (at < end) {
        const uint8_t *stop = http_skip_value(at, end);
        CHECK(stop + 1 < end && stop[0] == '\r' && stop[1] == '\n');
        if (lines++ == 0)
            CHECK(memcmp(at, "HTTP/1.1 ", 9) == 0);
        else
            check_line(at, (size_t)(stop - at));
        at = stop + 2;
    }
    CHECK(lines <= lines_max);
}

static void check_date(const uint8_t *bytes, size_t length)
{
    uint8_t *copy = exact_copy(bytes, length), written[HTTP_DATE_LENGTH];
    int64_t seconds = http_date_read(copy, length);
    free(copy);
    if (seconds < 0)
        return;
    http_date_write(seconds, written);
    CHECK(http_date_read(written, sizeof written) == seconds);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 5)
        return 0;
    check_date(bytes, size);
    size_t capacity = (size_t)(bytes[0] << 8 | bytes[1]) % 4096;
    int status = bytes[2] << 8 | bytes[3];
    uint8_t *buffer = malloc(capacity > 0 ? capacity : 1);
    CHECK(buffer != NULL);
    input in = {bytes + 5, bytes + size};
    http_head head = {.at = buffer, .limit = buffer + capacity, .status = (uint32_t)status, .options = bytes[4]};
    unsigned fields = 0;
    if (write_head(&head, &in, &fields) == HTTP_HEAD_OK) {
        CHECK(head.at <= buffer + capacity);
        check_lines(buffer, head.at, 1 + fields + 2);
    }
    free(buffer);
    return 0;
}
