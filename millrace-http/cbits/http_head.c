/* http_head.c - writes response heads. */
#include "http_head.h"

#include "http_bytes.h"
#include "http_date.h"
#include "millrace_check.h"

static size_t space_left(const http_head *head)
{
    return (size_t)(head->limit - head->at);
}

static void put(http_head *head, const void *bytes, size_t length)
{
    memcpy(head->at, bytes, length);
    head->at += length;
}

#define PUT_TEXT(head, text) put(head, text, sizeof text - 1)

/* Writes a value, with a space instead of each byte that a field value may not contain (RFC 9110, section 5.5). */
static void put_value(http_head *head, const uint8_t *value, size_t length)
{
    const uint8_t *end = value + length;
    put(head, value, length);
    for (const uint8_t *bad = http_skip_value(value, end); bad < end; bad = http_skip_value(bad + 1, end))
        head->at[bad - end] = ' ';
}

/* "HTTP/1.1 200 OK" and CR LF. */
static http_head_result put_status(http_head *head)
{
    uint32_t status = head->status;
    if (status < 100 || status > 999)
        return HTTP_HEAD_BAD_STATUS;
    if (space_left(head) < sizeof "HTTP/1.1 200 \r\n" + head->reason_length)
        return HTTP_HEAD_NO_ROOM;
    PUT_TEXT(head, "HTTP/1.1 ");
    *head->at++ = (uint8_t)('0' + status / 100);
    *head->at++ = (uint8_t)('0' + status / 10 % 10);
    *head->at++ = (uint8_t)('0' + status % 10);
    *head->at++ = ' ';
    put_value(head, head->reason, head->reason_length);
    PUT_TEXT(head, "\r\n");
    return HTTP_HEAD_OK;
}

http_head_result http_head_note_length(int64_t *known, const uint8_t *value, size_t length)
{
    int64_t total = 0;
    if (length == 0)
        return HTTP_HEAD_BAD_LENGTH;
    for (size_t i = 0; i < length; i++) {
        int digit = value[i] - '0';
        if (digit < 0 || digit > 9 || total > (INT64_MAX - digit) / 10)
            return HTTP_HEAD_BAD_LENGTH;
        total = total * 10 + digit;
    }
    if (*known >= 0 && *known != total)
        return HTTP_HEAD_BAD_LENGTH;
    *known = total;
    return HTTP_HEAD_OK;
}

static http_head_result put_line(http_head *head, const http_head_line *line)
{
    if (space_left(head) < line->name_length + line->value_length + 4)
        return HTTP_HEAD_NO_ROOM;
    put(head, line->name, line->name_length);
    PUT_TEXT(head, ": ");
    put_value(head, line->value, line->value_length);
    PUT_TEXT(head, "\r\n");
    return HTTP_HEAD_OK;
}

/* Notes close. Removes a field with only close and keep-alive, which the server itself sends. Reads the value as it is
   written. */
static http_head_result put_connection(http_head *head, const http_head_line *line)
{
    uint8_t *start = head->at;
    http_head_result result = put_line(head, line);
    if (result != HTTP_HEAD_OK)
        return result;
    unsigned tokens = http_connection_tokens(start + line->name_length + 2, line->value_length);
    if (tokens & HTTP_TOKEN_CLOSE)
        head->flags |= HTTP_HEAD_CLOSE;
    if (!(tokens & HTTP_TOKEN_OTHER))
        head->at = start;
    return HTTP_HEAD_OK;
}

static http_head_result put_field(http_head *head, const http_head_line *line)
{
    const uint8_t *name_end = line->name + line->name_length;
    if (line->name_length == 0 || http_skip_class(line->name, name_end, HTTP_BYTE_TOKEN) != name_end)
        return HTTP_HEAD_BAD_NAME;
    switch (http_name_find(line->name, line->name_length)) {
    case HTTP_NAME_CONTENT_LENGTH:
        return http_head_note_length(&head->content_length, line->value, line->value_length);
    case HTTP_NAME_TRANSFER_ENCODING:
        return http_same_token(line->value, line->value_length, "chunked") ? HTTP_HEAD_OK : HTTP_HEAD_BAD_CODING;
    case HTTP_NAME_CONNECTION:
        return put_connection(head, line);
    case HTTP_NAME_SERVER:
        head->flags |= HTTP_HEAD_SERVER;
        if (head->options & HTTP_HEAD_DROP_SERVER || line->value_length == 0)
            return HTTP_HEAD_OK;
        break;
    case HTTP_NAME_DATE:
        head->flags |= HTTP_HEAD_DATE;
        break;
    default:
        break;
    }
    return put_line(head, line);
}

static http_head_result put_date_and_server(http_head *head)
{
    if (space_left(head) < sizeof "Date: \r\n" + HTTP_DATE_LENGTH + head->server_line_length)
        return HTTP_HEAD_NO_ROOM;
    if (!(head->flags & HTTP_HEAD_DATE)) {
        PUT_TEXT(head, "Date: ");
        http_date_now(head->at);
        head->at += HTTP_DATE_LENGTH;
        PUT_TEXT(head, "\r\n");
    }
    if (!(head->flags & HTTP_HEAD_SERVER))
        put(head, head->server_line, head->server_line_length);
    return HTTP_HEAD_OK;
}

http_head_result http_head_compose(http_head *head)
{
    MR_CHECK(head->at <= head->limit);
    head->content_length = -1;
    head->flags = 0;
    http_head_result result = put_status(head);
    for (uint32_t i = 0; result == HTTP_HEAD_OK && i < head->line_count; i++) {
        result = put_field(head, head->lines_end - 1 - i);
        head->failed = i;
    }
    if (result == HTTP_HEAD_OK)
        result = put_date_and_server(head);
    MR_CHECK(head->at <= head->limit);
    return result;
}

#define COPY_TEXT(at, text) (memcpy(at, text, sizeof text - 1), (at) + sizeof text - 1)

static uint8_t *put_decimal(uint8_t *at, uint64_t value)
{
    uint8_t digits[20];
    size_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

size_t http_put_framing(uint8_t *at, http_connection_option option, http_framing framing, uint64_t length)
{
    uint8_t *start = at;
    if (option == HTTP_CONNECTION_CLOSE)
        at = COPY_TEXT(at, "Connection: close\r\n");
    else if (option == HTTP_CONNECTION_KEEP_ALIVE)
        at = COPY_TEXT(at, "Connection: keep-alive\r\n");
    if (framing == HTTP_FRAMING_LENGTH) {
        at = COPY_TEXT(at, "Content-Length: ");
        at = put_decimal(at, length);
        at = COPY_TEXT(at, "\r\n\r\n");
    } else if (framing == HTTP_FRAMING_CHUNKED) {
        at = COPY_TEXT(at, "Transfer-Encoding: chunked\r\n\r\n");
    } else {
        at = COPY_TEXT(at, "\r\n");
    }
    return (size_t)(at - start);
}

static const char hex_digits[] = "0123456789abcdef";

void http_put_chunk_head(uint8_t *at, uint32_t length)
{
    for (int shift = 28; shift >= 0; shift -= 4)
        *at++ = (uint8_t)hex_digits[length >> shift & 15];
    memcpy(at, "\r\n", 2);
}

size_t http_put_chunk_size(uint8_t *at, uint64_t length)
{
    int shift = 60;
    size_t count = 0;
    while (shift > 0 && length >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        at[count++] = (uint8_t)hex_digits[length >> shift & 15];
    memcpy(at + count, "\r\n", 2);
    return count + 2;
}
