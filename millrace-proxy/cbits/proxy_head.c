/* proxy_head.c - one pass over the lines of a head. */
#include "proxy_head.h"

#include "http_bytes.h"

#include <string.h>

void proxy_fold_case(uint8_t *destination, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        destination[i] = (uint8_t)(bytes[i] | ((uint8_t)(bytes[i] - 'A') <= 'Z' - 'A') << 5);
}

static int is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static int is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* Whether more bytes can make a status line of this: a target that speaks another protocol may say nothing more, and no
   line end. */
static int may_begin_status_line(const uint8_t *bytes, size_t size)
{
    static const char beginning[] = "HTTP/1.";
    size_t known = sizeof(beginning) - 1;
    return memcmp(bytes, beginning, size < known ? size : known) == 0 &&
           memchr(bytes, '\r', size > 0 ? size - 1 : 0) == NULL;
}

/* The blank behind the status code is missing in the responses of some servers without a reason phrase. */
static int parse_status_line(const uint8_t *line, size_t size, proxy_head *head)
{
    if (size < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ')
        return PROXY_HEAD_BAD_STATUS;
    if (line[9] == '0' || !is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]))
        return PROXY_HEAD_BAD_STATUS;
    if (size > 12 && (line[12] != ' ' || !http_is_field_value(line + 13, size - 13)))
        return PROXY_HEAD_BAD_STATUS;
    head->minor = line[7] - '0';
    head->status = 100u * (line[9] - '0') + 10u * (line[10] - '0') + (line[11] - '0');
    head->reason = size > 12 ? 13 : 12;
    head->reason_size = (uint32_t)size - head->reason;
    return PROXY_HEAD_COMPLETE;
}

/* A line that begins with a blank continues another one (obsolete folding): its name is no token. */
static int parse_field(const uint8_t *bytes, size_t at, size_t size, proxy_field *field)
{
    const uint8_t *line = bytes + at, *colon = memchr(line, ':', size);
    if (colon == NULL)
        return PROXY_HEAD_NO_COLON;
    size_t from = (size_t)(colon - line), to = size;
    if (!http_is_token(line, from))
        return PROXY_HEAD_BAD_NAME;
    field->name = (uint32_t)at;
    field->name_size = (uint32_t)from;
    for (from++; from < to && is_blank(line[from]); from++)
        ;
    for (; to > from && is_blank(line[to - 1]); to--)
        ;
    field->value = (uint32_t)(at + from);
    field->value_size = (uint32_t)(to - from);
    return http_is_field_value(line + from, to - from) ? PROXY_HEAD_COMPLETE : PROXY_HEAD_BAD_VALUE;
}

int proxy_field_parse(const uint8_t *line, size_t size, proxy_field *field)
{
    return parse_field(line, 0, size, field);
}

int proxy_head_parse(const uint8_t *bytes, size_t size, proxy_head *head, size_t capacity)
{
    head->count = 0;
    for (size_t at = 0, next; at < size; at = next) {
        const uint8_t *end = memchr(bytes + at, '\n', size - at);
        if (end == NULL)
            return at > 0 || may_begin_status_line(bytes, size) ? PROXY_HEAD_INCOMPLETE : PROXY_HEAD_BAD_STATUS;
        next = (size_t)(end - bytes) + 1;
        if (next - at < 2 || end[-1] != '\r')
            return PROXY_HEAD_BARE_LF;
        size_t length = next - at - 2;
        int found;
        if (at == 0)
            found = parse_status_line(bytes, length, head);
        else if (length == 0) {
            head->size = (uint32_t)next;
            return PROXY_HEAD_COMPLETE;
        } else if (head->count == capacity)
            return PROXY_HEAD_TOO_MANY;
        else
            found = parse_field(bytes, at, length, &head->fields[head->count++]);
        if (found != PROXY_HEAD_COMPLETE)
            return found;
    }
    return PROXY_HEAD_INCOMPLETE;
}
