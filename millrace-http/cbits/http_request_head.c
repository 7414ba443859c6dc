/*
 * http_request_head.c: see http_request_head.h.
 *
 * libnghttp2 and libnghttp3 check the rules of RFC 9113 and RFC 9114: names in lower case, no control characters, no
 * connection-specific fields, valid pseudo-header fields, one content-length that agrees with the body. This file
 * checks the other rules of HTTP/1's parser, and the limits. Each field counts, also one that is left out. The parts
 * of a cookie are one field, as over HTTP/1.
 */
#include "http_request_head.h"

#include <stdlib.h>
#include <string.h>

#include "http_authority.h"
#include "http_bytes.h"
#include "http_memory.h"

#define TEXT_MIN 512u

/* A head that is too long is still read, so that it can be answered with an error. But if it is about this many times
 * too long, the connection ends. */
#define PATIENCE 4u

int http_building_begin(http_building **reference, const http_head_limits *limits, http_section section, void *owner,
                        http_request_head *head, http_request_fields *result)
{
    http_building *building = *reference;
    if (building == NULL) {
        building = http_alloc_zeroed(sizeof *building);
        if (building == NULL)
            return -1;
        building->fields = http_alloc((limits->fields_max + 1) * sizeof *building->fields);
        building->text = http_alloc(TEXT_MIN);
        building->text_capacity = TEXT_MIN;
        if (building->fields == NULL || building->text == NULL) {
            http_free(building->fields);
            http_free(building->text);
            http_free(building);
            return -1;
        }
        *reference = building;
    }
    *building = (http_building){.owner = owner,
                                .head = head,
                                .result = result,
                                .limits = *limits,
                                .section = section,
                                .fields = building->fields,
                                .text = building->text,
                                .text_capacity = building->text_capacity,
                                .cookie = building->cookie,
                                .cookie_capacity = building->cookie_capacity};
    if (section == HTTP_SECTION_HEAD)
        head->content_length = -1;
    return 0;
}

void http_building_drop(http_building **reference)
{
    http_building *building = *reference;
    if (building != NULL) {
        http_free(building->fields);
        http_free(building->text);
        http_free(building->cookie);
        http_free(building);
        *reference = NULL;
    }
}

static int make_room(http_building *building, size_t length)
{
    if (building->text_capacity - building->text_length >= length)
        return 0;
    uint32_t capacity = 2 * building->text_capacity;
    while (capacity - building->text_length < length)
        capacity *= 2;
    uint8_t *text = realloc(building->text, capacity);
    if (text == NULL)
        return -1;
    building->text = text;
    building->text_capacity = capacity;
    return 0;
}

static uint8_t *put(http_building *building, const uint8_t *bytes, size_t length, uint32_t *offset)
{
    if (make_room(building, length) != 0)
        return NULL;
    uint8_t *at = building->text + building->text_length;
    if (length > 0)
        memcpy(at, bytes, length);
    *offset = building->text_length;
    building->text_length += (uint32_t)length;
    return at;
}

static void refuse(http_building *building, http_error error)
{
    if (building->error == 0)
        building->error = error;
}

static http_method method_of(const uint8_t *bytes, size_t length)
{
#define TRY(name, text)                                                         \
    if (length == sizeof text - 1 && memcmp(bytes, text, sizeof text - 1) == 0) \
        return HTTP_METHOD_##name;
    HTTP_METHODS(TRY)
#undef TRY
    return HTTP_METHOD_OTHER;
}

static int set_method(http_building *building, const uint8_t *value, size_t length)
{
    http_request_head *head = building->head;
    if (length > HTTP_METHOD_LENGTH_MAX) {
        refuse(building, HTTP_ERROR_LONG_METHOD);
        length = HTTP_METHOD_LENGTH_MAX;
    }
    head->method = (uint8_t)method_of(value, length);
    head->method_length = (uint32_t)length;
    return put(building, value, length, &head->method_offset) == NULL ? -1 : 0;
}

static int set_path(http_building *building, const uint8_t *value, size_t length)
{
    http_request_head *head = building->head;
    unsigned allowed = HTTP_BYTE_TARGET | (building->limits.allowed & HTTP_ALLOW_NON_ASCII ? HTTP_BYTE_NON_ASCII : 0);
    if (length > building->limits.target_max) {
        refuse(building, HTTP_ERROR_LONG_TARGET);
        return 0;
    }
    if (http_skip_class(value, value + length, allowed) != value + length)
        refuse(building, HTTP_ERROR_TARGET);
    const uint8_t *query = length > 0 ? memchr(value, '?', length) : NULL;
    size_t path = query == NULL ? length : (size_t)(query - value);
    if (put(building, value, length, &head->path_offset) == NULL)
        return -1;
    head->path_length = (uint32_t)path;
    head->query_offset = head->path_offset + (uint32_t)path;
    head->query_length = (uint32_t)(length - path);
    return 0;
}

static int set_pseudo(http_building *building, const uint8_t *name, size_t name_length, const uint8_t *value,
                      size_t length)
{
    http_request_head *head = building->head;
    switch (name_length > 1 ? name[1] : 0) {
    case 'm':
        return set_method(building, value, length);
    case 's':
        building->scheme_length = (uint32_t)length;
        return put(building, value, length, &building->scheme_offset) == NULL ? -1 : 0;
    case 'a':
        building->authority_length = (uint32_t)length;
        return put(building, value, length, &building->authority_offset) == NULL ? -1 : 0;
    case 'p':
        if (name_length == sizeof ":path" - 1)
            return set_path(building, value, length);
        head->protocol_length = (uint32_t)length;
        return put(building, value, length, &head->protocol_offset) == NULL ? -1 : 0;
    default:
        return 0;
    }
}

/* Adds a row to the table. Its value is in the text. */
static void add(http_building *building, http_name number, uint32_t name_offset, size_t name_length,
                uint32_t value_offset, size_t value_length)
{
    building->fields[building->field_count++] = (http_field){.name_offset = name_offset,
                                                             .value_offset = value_offset,
                                                             .value_length = (uint32_t)value_length,
                                                             .name_length = (uint16_t)name_length,
                                                             .name = (uint16_t)number};
}

/* Adds :authority as the field Host, before all others (RFC 9113, section 8.3.1; RFC 9114, section 4.3.1). */
static void add_host(http_building *building)
{
    if (building->host_added || building->authority_length == 0)
        return;
    building->host_added = 1;
    add(building, HTTP_NAME_HOST, 0, sizeof "host" - 1, building->authority_offset, building->authority_length);
    building->head->host = (uint16_t)building->field_count;
    if (!http_authority_is_valid(building->text + building->authority_offset, building->authority_length))
        refuse(building, HTTP_ERROR_HOST);
}

static int is_same_as_host(const http_building *building, const uint8_t *value, size_t length)
{
    const http_field *host = &building->fields[building->head->host - 1];
    return host->value_length == length && memcmp(building->text + host->value_offset, value, length) == 0;
}

/* Refuses a Host that differs from :authority, because other programs might use the other one. Returns whether to leave
 * out this field. */
static int note_host(http_building *building, const uint8_t *value, size_t length)
{
    if (building->head->host != 0) {
        if (!building->host_added || !is_same_as_host(building, value, length))
            refuse(building, HTTP_ERROR_HOST);
        return 1;
    }
    if (!http_authority_is_valid(value, length))
        refuse(building, HTTP_ERROR_HOST);
    building->head->host = (uint16_t)(building->field_count + 1);
    return 0;
}

static void note_length(http_request_head *head, const uint8_t *value, size_t length)
{
    int64_t total = 0;
    for (size_t i = 0; i < length; i++) {
        if (total > (INT64_MAX - 9) / 10)
            break;
        total = total * 10 + (value[i] - '0');
    }
    head->content_length = total;
}

/* Returns whether to leave the field out. */
static int note(http_building *building, http_name number, const uint8_t *value, size_t length)
{
    http_request_head *head = building->head;
    uint16_t next = (uint16_t)(building->field_count + 1);
    switch (number) {
    case HTTP_NAME_HOST:
        return note_host(building, value, length);
    case HTTP_NAME_CONTENT_LENGTH:
        note_length(head, value, length);
        return 0;
    case HTTP_NAME_EXPECT:
        head->flags |=
            http_same_token(value, length, "100-continue") ? HTTP_REQUEST_EXPECT_CONTINUE : HTTP_REQUEST_EXPECT_OTHER;
        return 0;
    case HTTP_NAME_RANGE:
        head->range = head->range ? head->range : next;
        return 0;
    case HTTP_NAME_REFERER:
        head->referer = head->referer ? head->referer : next;
        return 0;
    case HTTP_NAME_USER_AGENT:
        head->user_agent = head->user_agent ? head->user_agent : next;
        return 0;
    default:
        return 0;
    }
}

/* Joins the parts of a cookie (RFC 9113, section 8.2.3; RFC 9114, section 4.2.1) in a separate buffer, so that each
 * part is copied only once more (put_cookie), even with other fields between them. The cookie takes the place of its
 * first part. */
static int gather_cookie(http_building *building, const uint8_t *value, size_t length)
{
    size_t needed = building->cookie_length + length + 2;
    if (building->cookie_capacity < needed) {
        uint8_t *cookie = realloc(building->cookie, 2 * needed);
        if (cookie == NULL)
            return -1;
        building->cookie = cookie;
        building->cookie_capacity = (uint32_t)(2 * needed);
    }
    if (building->cookie_row == 0) {
        add(building, HTTP_NAME_COOKIE, 0, sizeof "cookie" - 1, 0, 0);
        building->cookie_row = building->field_count;
    } else {
        memcpy(building->cookie + building->cookie_length, "; ", 2);
        building->cookie_length += 2;
    }
    if (length > 0)
        memcpy(building->cookie + building->cookie_length, value, length);
    building->cookie_length += (uint32_t)length;
    return 0;
}

static int put_cookie(http_building *building)
{
    if (building->cookie_row == 0)
        return 0;
    http_field *field = &building->fields[building->cookie_row - 1];
    field->value_length = building->cookie_length;
    return put(building, building->cookie, building->cookie_length, &field->value_offset) == NULL ? -1 : 0;
}

static int add_field(http_building *building, const uint8_t *name, size_t name_length, const uint8_t *value,
                     size_t length)
{
    if (building->section == HTTP_SECTION_HEAD && building->field_count == 0)
        add_host(building);
    http_name number = http_name_find(name, name_length);
    if (building->section == HTTP_SECTION_HEAD) {
        if (number == HTTP_NAME_COOKIE)
            return gather_cookie(building, value, length);
        if (note(building, number, value, length))
            return 0;
    }
    uint32_t name_offset = 0, value_offset = 0;
    if ((number == HTTP_NAME_OTHER || building->section == HTTP_SECTION_TRAILERS) &&
        put(building, name, name_length, &name_offset) == NULL)
        return -1;
    if (put(building, value, length, &value_offset) == NULL)
        return -1;
    add(building, number, name_offset, name_length, value_offset, length);
    return 0;
}

/* Another part of a cookie (RFC 9113, section 8.2.3), which "; " joins to the last one. */
static int is_further_part(const http_building *building, const uint8_t *name, size_t name_length)
{
    return building->cookie_row != 0 && name_length == sizeof "cookie" - 1 &&
           memcmp(name, "cookie", sizeof "cookie" - 1) == 0;
}

int http_building_field(http_building *building, const uint8_t *name, size_t name_length, const uint8_t *value,
                        size_t value_length)
{
    const http_head_limits *limits = &building->limits;
    int is_part = is_further_part(building, name, name_length);
    /* RFC 9113, section 10.5.1, and RFC 9114, section 4.2.2, also count 32 bytes for each field. Here the number of
       fields has a limit instead. */
    uint64_t decoded = (uint64_t)building->decoded + (is_part ? sizeof "; " - 1 : name_length) + value_length;
    building->decoded = decoded > UINT32_MAX ? UINT32_MAX : (uint32_t)decoded;
    if (name[0] == ':') {
        if (building->decoded <= limits->head_max)
            return set_pseudo(building, name, name_length, value, value_length);
    } else {
        building->counted += !is_part;
        building->parts += (uint32_t)is_part;
        if (building->counted + building->parts > PATIENCE * limits->fields_max + 1000)
            return -1;
        if (building->counted > limits->fields_max)
            refuse(building, HTTP_ERROR_MANY_FIELDS);
    }
    if (building->decoded > limits->head_max || name_length > HTTP_FIELD_NAME_MAX)
        refuse(building, HTTP_ERROR_LONG_HEAD);
    if (building->decoded / PATIENCE > limits->head_max + 16384)
        return -1;
    /* Beyond the limits nothing is stored. */
    if (building->counted > limits->fields_max || building->decoded > limits->head_max || name[0] == ':' ||
        name_length > HTTP_FIELD_NAME_MAX)
        return 0;
    return add_field(building, name, name_length, value, value_length);
}

static int is_text(const uint8_t *bytes, size_t length, const char *text)
{
    return length == strlen(text) && http_same_token(bytes, length, text);
}

static void check_target(http_building *building, http_security security)
{
    http_request_head *head = building->head;
    if (head->method == HTTP_METHOD_CONNECT && head->protocol_length == 0) {
        if (!http_authority_is_target(building->text + building->authority_offset, building->authority_length))
            refuse(building, HTTP_ERROR_TARGET);
        return;
    }
    const uint8_t *path = building->text + head->path_offset;
    int is_asterisk =
        head->path_length == 1 && path[0] == '*' && head->query_length == 0 && head->method == HTTP_METHOD_OPTIONS;
    if (building->error != HTTP_ERROR_LONG_TARGET && !is_asterisk && (head->path_length == 0 || path[0] != '/'))
        refuse(building, HTTP_ERROR_TARGET);
    const uint8_t *scheme = building->text + building->scheme_offset;
    if (is_text(scheme, building->scheme_length, "https")) {
        if (security == HTTP_CLEAR_TEXT)
            head->flags |= HTTP_REQUEST_HTTPS;
    } else if (!is_text(scheme, building->scheme_length, "http")) {
        refuse(building, HTTP_ERROR_TARGET);
    }
}

static int keep_trailers(http_building *building)
{
    http_request_fields *result = building->result;
    size_t size = 0;
    for (uint32_t i = 0; i < building->field_count; i++)
        size += 2 * sizeof(uint32_t) + building->fields[i].name_length + building->fields[i].value_length;
    uint8_t *rows = http_alloc(size + 1), *at = rows;
    if (rows == NULL)
        return -1;
    for (uint32_t i = 0; i < building->field_count; i++) {
        const http_field *field = &building->fields[i];
        uint32_t lengths[2] = {field->name_length, field->value_length};
        memcpy(at, lengths, sizeof lengths);
        at += sizeof lengths;
        memcpy(at, building->text + field->name_offset, field->name_length);
        at += field->name_length;
        memcpy(at, building->text + field->value_offset, field->value_length);
        at += field->value_length;
    }
    http_free(result->trailers);
    result->trailers = rows;
    result->trailers_length = size;
    result->trailers_count = building->field_count;
    return 0;
}

void http_drop_section(http_request_fields *fields, http_section section)
{
    if (section == HTTP_SECTION_HEAD) {
        http_free(fields->head);
        fields->head = NULL;
    } else {
        http_free(fields->trailers);
        fields->trailers = NULL;
        fields->trailers_length = fields->trailers_count = 0;
    }
}

int http_building_end(http_building *building, http_security security)
{
    http_request_head *head = building->head;
    building->owner = NULL;
    if (building->section == HTTP_SECTION_TRAILERS)
        return building->error != 0 ? 1 : keep_trailers(building);
    if (building->field_count == 0)
        add_host(building);
    check_target(building, security);
    if (put_cookie(building) != 0)
        return -1;
    size_t table = building->field_count * sizeof(http_field);
    uint8_t *fields = http_alloc(table + building->text_length + 1);
    if (fields == NULL)
        return -1;
    memcpy(fields, building->fields, table);
    memcpy(fields + table, building->text, building->text_length);
    building->result->head = (http_field *)fields; /* NOLINT: malloc aligns */
    head->field_count = building->field_count;
    head->text_length = building->text_length;
    head->error = building->error;
    head->flags |= HTTP_REQUEST_VERSION_1_1;
    return 0;
}
