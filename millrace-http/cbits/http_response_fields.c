/*
 * http_response_fields.c: see http_response_fields.h.
 *
 * As with HTTP/1 (http_head.c), a name that is not a token is refused, and bytes that a value may not have become
 * spaces. So an application cannot inject fields by mistake. Framing fields are the server's.
 */
#include "http_response_fields.h"

#include <string.h>

#include "http_bytes.h"
#include "http_date.h"
#include "http_head.h"
#include "http_memory.h"
#include "http_names.h"

#define OWN_FIELDS 4u /* :status, content-length, date, server */
#define OWN_BYTES  (3 + 20 + HTTP_DATE_LENGTH)

/* An upper bound of what a library adds to the length of a head, for this many fields and our own. It is checked here,
 * because libnghttp2 reports a head that is too long only when it is about to send it. */
#define FIELDS_BYTES(count) (12 * ((size_t)(count) + OWN_FIELDS + 1) + 1024)

typedef struct maker {
    http_block *block;
    uint8_t *at;
    int64_t length; /* content-length as given; -1: none */
    int has_date, has_server;
    int drops_server;
} maker;

static void add(maker *maker, const void *name, size_t name_length, const void *value, size_t value_length)
{
    maker->block->fields[maker->block->count++] = (http_nv){.name = name,
                                                            .value = value,
                                                            .name_length = name_length,
                                                            .value_length = value_length,
                                                            .flags = HTTP_NV_IS_LASTING};
}

#define ADD_TEXT(maker, name, value, value_length) add(maker, name, sizeof name - 1, value, value_length)

/* Puts the letters of eight bytes, which are ASCII, into lower case. */
static uint64_t lower_of(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t from_a = word + ones * (0x80 - 'A'), beyond_z = word + ones * (0x7f - 'Z');
    return word | (((from_a ^ beyond_z) & highs) >> 2);
}

/* Copies a token in lower case. */
static void put_lower(uint8_t *at, const uint8_t *name, size_t length)
{
    if (length < sizeof(uint64_t)) {
        for (size_t i = 0; i < length; i++)
            at[i] = name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 0x20 : name[i];
        return;
    }
    for (size_t i = 0;; i += sizeof(uint64_t)) {
        uint64_t word;
        if (i + sizeof word > length)
            i = length - sizeof word; /* overlaps the previous eight */
        memcpy(&word, name + i, sizeof word);
        word = lower_of(word);
        memcpy(at + i, &word, sizeof word);
        if (i + sizeof word == length)
            return;
    }
}

/* Copies a value without blanks at its ends and without control characters (RFC 9113, section 8.2.1; RFC 9114, section
   4.2). Returns its length. */
static size_t put_value(uint8_t *at, const uint8_t *value, size_t length)
{
    while (length > 0 && (value[0] == ' ' || value[0] == '\t')) {
        value++;
        length--;
    }
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        length--;
    if (length == 0)
        return 0;
    memcpy(at, value, length);
    const uint8_t *end = at + length;
    for (const uint8_t *bad = http_skip_value(at, end); bad < end; bad = http_skip_value(bad + 1, end))
        at[bad - at] = ' ';
    /* A replaced character may now stand at an end. */
    while (length > 0 && at[length - 1] == ' ')
        length--;
    size_t skipped = 0;
    while (skipped < length && at[skipped] == ' ')
        skipped++;
    if (skipped > 0)
        memmove(at, at + skipped, length - skipped);
    return length - skipped;
}

static int add_field(maker *maker, const uint8_t *name, size_t name_length, const uint8_t *value, size_t value_length)
{
    if (name_length == 0 || http_skip_class(name, name + name_length, HTTP_BYTE_TOKEN) != name + name_length)
        return HTTP_HEAD_BAD_NAME;
    switch (http_name_find(name, name_length)) {
    case HTTP_NAME_CONTENT_LENGTH:
        return (int)http_head_note_length(&maker->length, value, value_length);
    case HTTP_NAME_TRANSFER_ENCODING:
        return http_same_token(value, value_length, "chunked") ? HTTP_HEAD_OK : HTTP_HEAD_BAD_CODING;
    case HTTP_NAME_CONNECTION: /* RFC 9113, section 8.2.2; RFC 9114, section 4.2 */
    case HTTP_NAME_KEEP_ALIVE:
    case HTTP_NAME_PROXY_CONNECTION:
    case HTTP_NAME_UPGRADE:
        return HTTP_HEAD_OK;
    case HTTP_NAME_SERVER:
        maker->has_server = 1;
        if (maker->drops_server || value_length == 0)
            return HTTP_HEAD_OK;
        break;
    case HTTP_NAME_DATE:
        maker->has_date = 1;
        break;
    default:
        break;
    }
    uint8_t *lower = maker->at;
    put_lower(lower, name, name_length);
    maker->at += name_length;
    uint8_t *own = maker->at;
    size_t length = put_value(own, value, value_length);
    maker->at += length;
    add(maker, lower, name_length, own, length);
    return HTTP_HEAD_OK;
}

static int add_rows(maker *maker, const http_rows *rows)
{
    const uint8_t *at = rows->bytes;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t lengths[2];
        memcpy(lengths, at, sizeof lengths);
        at += sizeof lengths;
        int result = add_field(maker, at, lengths[0], at + lengths[0], lengths[1]);
        if (result != HTTP_HEAD_OK)
            return result;
        at += lengths[0] + lengths[1];
    }
    return HTTP_HEAD_OK;
}

static int begin(maker *maker, const http_rows *rows)
{
    if (FIELDS_BYTES(rows->count) + rows->length > HTTP_RESPONSE_HEAD_MAX)
        return HTTP_HEAD_NO_ROOM;
    size_t table = sizeof *maker->block + (rows->count + OWN_FIELDS) * sizeof(http_nv);
    *maker = (struct maker){.block = http_alloc(table + rows->length + OWN_BYTES), .length = -1};
    if (maker->block == NULL)
        return HTTP_HEAD_NO_ROOM;
    maker->block->count = 0;
    maker->at = (uint8_t *)maker->block + table;
    return HTTP_HEAD_OK;
}

static void add_status(maker *maker, int status)
{
    uint8_t *text = maker->at;
    text[0] = (uint8_t)('0' + status / 100);
    text[1] = (uint8_t)('0' + status / 10 % 10);
    text[2] = (uint8_t)('0' + status % 10);
    maker->at += 3;
    ADD_TEXT(maker, ":status", text, 3);
}

static void add_length(maker *maker, int64_t length)
{
    uint8_t digits[20], *text = maker->at;
    size_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + length % 10);
        length /= 10;
    } while (length > 0);
    while (count > 0)
        *maker->at++ = digits[--count];
    ADD_TEXT(maker, "content-length", text, (size_t)(maker->at - text));
}

static int finish(maker *maker, int result, http_block **block)
{
    if (result != HTTP_HEAD_OK) {
        http_free(maker->block);
        return result;
    }
    *block = maker->block;
    return HTTP_HEAD_OK;
}

int http_block_make(http_block **block, http_server_name server, int status, const http_rows *fields, int64_t length,
                    int64_t *given)
{
    maker maker;
    if (status < 100 || status > 999)
        return HTTP_HEAD_BAD_STATUS;
    if (begin(&maker, fields) != HTTP_HEAD_OK)
        return HTTP_HEAD_NO_ROOM;
    maker.drops_server = server.length == 0;
    add_status(&maker, status);
    int result = add_rows(&maker, fields);
    *given = maker.length;
    if (result == HTTP_HEAD_OK) {
        if (length >= 0)
            add_length(&maker, length);
        else if (length == HTTP_LENGTH_NONE && maker.length >= 0)
            add_length(&maker, maker.length);
        if (!maker.has_date) {
            uint8_t *date = maker.at;
            http_date_now(date);
            maker.at += HTTP_DATE_LENGTH;
            ADD_TEXT(&maker, "date", date, HTTP_DATE_LENGTH);
        }
        if (!maker.has_server && server.length > 0)
            ADD_TEXT(&maker, "server", server.bytes, server.length);
    }
    return finish(&maker, result, block);
}

int http_block_make_plain(http_block **block, int status, const http_rows *fields)
{
    maker maker;
    if (begin(&maker, fields) != HTTP_HEAD_OK)
        return HTTP_HEAD_NO_ROOM;
    if (status > 0)
        add_status(&maker, status);
    return finish(&maker, add_rows(&maker, fields), block);
}
