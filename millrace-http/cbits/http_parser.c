/*
 * http_parser.c - strict, resumable parser of request heads.
 *
 * It is a state machine over bytes; each state continues with the next one if there are more bytes. Every check is made
 * at the byte that decides it, and limits are checked before the byte that ends a run. So the result does not depend on
 * how the input was split.
 */
#include "http_parser.h"

#include "http_authority.h"
#include "http_bytes.h"
#include "millrace_check.h"

enum state {
    START, /* at a request line, or at empty lines before it (RFC 9112, section 2.2) */
    START_LF,
    METHOD,
    TARGET,
    VERSION, /* mark: start of the version */
    VERSION_LF,
    FIELD, /* at the start of a field line or at the empty line that ends the head */
    NAME,
    BEFORE_VALUE,
    VALUE, /* mark: start of what this line adds to the value */
    VALUE_LF,
    END_LF
};

#define VERSION_LENGTH 8u /* "HTTP/1.1" */

void http_parser_init(http_parser *parser, http_field *fields, uint32_t fields_max, uint32_t head_max,
                      uint32_t target_max, uint32_t allowed)
{
    parser->fields = fields;
    parser->fields_max = fields_max;
    parser->head_max = head_max;
    parser->target_max = target_max;
    parser->allowed = allowed;
    parser->target_bytes = HTTP_BYTE_TARGET | (allowed & HTTP_ALLOW_NON_ASCII ? HTTP_BYTE_NON_ASCII : 0);
    http_parser_reset(parser);
}

void http_parser_reset(http_parser *parser)
{
    memset(&parser->scanned, 0, sizeof *parser - offsetof(http_parser, scanned));
    parser->content_length = -1;
}

int http_parser_is_idle(const http_parser *parser)
{
    return parser->state == START;
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

/* The length of "http://" or "https://" if a target begins with it and continues; else 0. */
static uint32_t scheme_length(const uint8_t *target, uint32_t length)
{
    if (length > 7 && http_same_token(target, 4, "http") && memcmp(target + 4, "://", 3) == 0)
        return 7;
    if (length > 8 && http_same_token(target, 5, "https") && memcmp(target + 5, "://", 3) == 0)
        return 8;
    return 0;
}

/* The four forms of a request target (RFC 9112, section 3.2). */
static int64_t split_target(http_parser *parser, const uint8_t *head, uint32_t end)
{
    uint32_t offset = parser->mark, length = end - offset;
    const uint8_t *target = head + offset;
    parser->path_offset = offset;
    parser->path_length = length;
    if (parser->method == HTTP_METHOD_CONNECT)
        return http_authority_is_target(target, length) ? 0 : HTTP_ERROR_TARGET;
    if (length == 1 && target[0] == '*')
        return parser->method == HTTP_METHOD_OPTIONS ? 0 : HTTP_ERROR_TARGET;
    if (target[0] != '/') {
        uint32_t scheme = scheme_length(target, length);
        if (scheme == 0)
            return HTTP_ERROR_TARGET;
        uint32_t at = scheme;
        while (at < length && target[at] != '/' && target[at] != '?')
            at++;
        if (!http_authority_is_valid(target + scheme, at - scheme))
            return HTTP_ERROR_TARGET;
        parser->absolute_form = 1;
        if (scheme == sizeof "https://" - 1)
            parser->flags |= HTTP_REQUEST_HTTPS;
        parser->authority_offset = offset + scheme;
        parser->authority_length = at - scheme;
        parser->path_offset = offset + at;
        parser->path_length = length - at;
    }
    const uint8_t *path = head + parser->path_offset;
    const uint8_t *mark = parser->path_length ? memchr(path, '?', parser->path_length) : NULL;
    if (mark != NULL) {
        uint32_t path_length = (uint32_t)(mark - path);
        parser->query_offset = parser->path_offset + path_length;
        parser->query_length = parser->path_length - path_length;
        parser->path_length = path_length;
    }
    return 0;
}

/* "HTTP/" DIGIT "." DIGIT (RFC 9112, section 2.3). A later minor version is served as 1.1 (RFC 9110, section 2.5). */
static int64_t read_version(http_parser *parser, const uint8_t *version)
{
    parser->major = (uint8_t)(version[5] - '0');
    parser->minor = (uint8_t)(version[7] - '0');
    if (parser->major != 1)
        return HTTP_ERROR_VERSION;
    if (parser->minor >= 1)
        parser->flags |= HTTP_REQUEST_VERSION_1_1;
    return 0;
}

static int version_byte_fits(uint32_t index, uint8_t byte)
{
    if (index == 5 || index == 7)
        return byte >= '0' && byte <= '9';
    return byte == (uint8_t) "HTTP/1.1"[index];
}

/* Returns the end of what has arrived of the version that begins at `version`; NULL if that is not the beginning of a
   version. */
static const uint8_t *skip_version(const uint8_t *version, const uint8_t *at, const uint8_t *end)
{
    if (at == version && (size_t)(end - at) >= VERSION_LENGTH && memcmp(at, "HTTP/1.1", VERSION_LENGTH) == 0)
        return at + VERSION_LENGTH;
    for (; at < end && at < version + VERSION_LENGTH; at++)
        if (!version_byte_fits((uint32_t)(at - version), *at))
            return NULL;
    return at;
}

/* Content-Length = 1*DIGIT (RFC 9110, section 8.6); lists of equal values are refused as section 8.6 allows. */
static int64_t read_content_length(http_parser *parser, const uint8_t *value, uint32_t length)
{
    if (parser->content_length >= 0 || length == 0)
        return HTTP_ERROR_CONTENT_LENGTH;
    int64_t total = 0;
    for (uint32_t i = 0; i < length; i++) {
        int digit = value[i] - '0';
        if (digit < 0 || digit > 9 || total > (INT64_MAX - digit) / 10)
            return HTTP_ERROR_CONTENT_LENGTH;
        total = total * 10 + digit;
    }
    parser->content_length = total;
    return 0;
}

/* Several Transfer-Encoding lines are one list (RFC 9110, section 5.3), which is checked at the end of the head. */
static void read_transfer_encoding(http_parser *parser, const uint8_t *value, uint32_t length)
{
    size_t position = 0, start, element_length;
    parser->coding_lines = 1;
    while (http_list_next(value, length, &position, &start, &element_length)) {
        int chunked = http_same_token(value + start, element_length, "chunked");
        parser->codings_last_chunked = (uint8_t)chunked;
        if (!chunked)
            parser->codings_other = 1;
        else if (parser->codings_chunked < 2)
            parser->codings_chunked++;
    }
}

static void read_expect(http_parser *parser, const uint8_t *value, uint32_t length)
{
    size_t position = 0, start, element_length;
    while (http_list_next(value, length, &position, &start, &element_length))
        parser->flags |= http_same_token(value + start, element_length, "100-continue") ? HTTP_REQUEST_EXPECT_CONTINUE
                                                                                        : HTTP_REQUEST_EXPECT_OTHER;
}

static inline void remember(uint16_t *slot, uint32_t index)
{
    if (*slot == 0)
        *slot = (uint16_t)(index + 1);
}

static int64_t finish_field(http_parser *parser, const uint8_t *head)
{
    uint32_t index = parser->field_count++;
    http_field *field = &parser->fields[index];
    const uint8_t *value = head + field->value_offset;
    field->name = (uint16_t)http_name_find(head + field->name_offset, field->name_length);
    parser->foldable = 0; /* fields that the server itself uses must be on one line */
    switch (field->name) {
    case HTTP_NAME_HOST:
        /* Empty if the target URI has no authority (RFC 9112, section 3.2). */
        if (parser->host_count++ > 0 ||
            (field->value_length > 0 && !http_authority_is_valid(value, field->value_length)))
            return HTTP_ERROR_HOST;
        remember(&parser->host, index);
        break;
    case HTTP_NAME_CONTENT_LENGTH:
        return read_content_length(parser, value, field->value_length);
    case HTTP_NAME_TRANSFER_ENCODING:
        read_transfer_encoding(parser, value, field->value_length);
        break;
    case HTTP_NAME_CONNECTION: {
        unsigned tokens = http_connection_tokens(value, field->value_length);
        parser->close_seen |= (tokens & HTTP_TOKEN_CLOSE) != 0;
        parser->keep_alive_seen |= (tokens & HTTP_TOKEN_KEEP_ALIVE) != 0;
        break;
    }
    case HTTP_NAME_UPGRADE: /* RFC 9110, section 7.8: ignored in HTTP/1.0 */
        if (!(parser->flags & HTTP_REQUEST_VERSION_1_1))
            parser->field_count--;
        break;
    case HTTP_NAME_EXPECT:
        read_expect(parser, value, field->value_length);
        break;
    case HTTP_NAME_RANGE:
        remember(&parser->range, index);
        break;
    case HTTP_NAME_REFERER:
        parser->foldable = 1;
        remember(&parser->referer, index);
        break;
    case HTTP_NAME_USER_AGENT:
        parser->foldable = 1;
        remember(&parser->user_agent, index);
        break;
    default:
        parser->foldable = 1;
        break;
    }
    return 0;
}

static int may_fold(const http_parser *parser, uint8_t byte)
{
    return (byte == ' ' || byte == '\t') && parser->foldable && parser->allowed & HTTP_ALLOW_FOLDING;
}

/* Opens the last field again: its value continues on this line. */
static void unfinish_field(http_parser *parser, uint32_t offset)
{
    http_field *field = &parser->fields[--parser->field_count];
    parser->folded = 1;
    parser->relaxed = 1;
    parser->mark = offset;
    parser->state = field->value_length == 0 ? BEFORE_VALUE : VALUE;
}

/* Returns the position of the LF after a CR, or of a LF alone if that is allowed; NULL if the line does not end
   here. */
static const uint8_t *skip_cr(http_parser *parser, const uint8_t *at)
{
    if (*at == '\r')
        return at + 1;
    if (*at != '\n' || !(parser->allowed & HTTP_ALLOW_BARE_LF))
        return NULL;
    parser->relaxed = 1;
    return at;
}

/* RFC 9112, sections 3.2 (Host), 6.1 (Transfer-Encoding), 6.3 (body length) and 9.3 (persistence). */
static int64_t finish_head(http_parser *parser)
{
    int version_1_1 = (parser->flags & HTTP_REQUEST_VERSION_1_1) != 0;
    if (version_1_1 && parser->host_count == 0 && !(parser->allowed & HTTP_ALLOW_NO_HOST))
        return HTTP_ERROR_HOST;
    if (parser->coding_lines) {
        if (!version_1_1 || parser->content_length >= 0)
            return HTTP_ERROR_FRAMING;
        if (!parser->codings_last_chunked || parser->codings_chunked != 1)
            return HTTP_ERROR_TRANSFER_ENCODING;
        if (parser->codings_other)
            return HTTP_ERROR_UNKNOWN_CODING;
        parser->flags |= HTTP_REQUEST_CHUNKED;
    }
    if (!version_1_1) /* RFC 9110, section 10.1.1: HTTP/1.0 has no 100 (Continue). */
        parser->flags &= ~HTTP_REQUEST_EXPECT_CONTINUE;
    /* The bytes after a refused CONNECT may have been meant for the tunnel. */
    if (!parser->close_seen && !parser->relaxed && (version_1_1 || parser->keep_alive_seen) &&
        parser->method != HTTP_METHOD_CONNECT)
        parser->flags |= HTTP_REQUEST_KEEP_ALIVE;
    if (parser->absolute_form) { /* RFC 9112, section 3.2.2: the target's authority replaces Host. */
        if (parser->host == 0) {
            if (parser->field_count == parser->fields_max)
                return HTTP_ERROR_MANY_FIELDS;
            parser->fields[parser->field_count++] = (http_field){.name = HTTP_NAME_HOST};
            parser->host = (uint16_t)parser->field_count;
        }
        parser->fields[parser->host - 1].value_offset = parser->authority_offset;
        parser->fields[parser->host - 1].value_length = parser->authority_length;
    }
    return 0;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): a case for each state, and each can be read alone */
int64_t http_parser_run(http_parser *parser, const uint8_t *head, size_t length)
{
    const uint8_t *at = head + parser->scanned;
    const uint8_t *end = head + (length < parser->head_max ? length : parser->head_max);
    const uint8_t *line_end;
    int64_t error;
    MR_CHECK(parser->scanned <= length); /* the caller passes all bytes of the head again, and new ones */
    while (at < end) {
        switch (parser->state) {
        case START_LF:
            if (*at++ != '\n')
                return HTTP_ERROR_REQUEST_LINE;
            parser->state = START;
            break;
        case START:
            if ((line_end = skip_cr(parser, at)) != NULL) {
                parser->state = START_LF;
                at = line_end;
                break;
            }
            parser->method_offset = (uint32_t)(at - head);
            parser->state = METHOD;
            /* fall through */
        case METHOD: {
            at = http_skip_class(at, end, HTTP_BYTE_TOKEN);
            uint32_t method_length = (uint32_t)(at - head) - parser->method_offset;
            if (method_length > HTTP_METHOD_LENGTH_MAX)
                return HTTP_ERROR_LONG_METHOD;
            if (at == end)
                break;
            if (*at != ' ' || method_length == 0)
                return HTTP_ERROR_REQUEST_LINE;
            parser->method_length = method_length;
            parser->method = (uint8_t)method_of(head + parser->method_offset, method_length);
            at++;
            parser->mark = (uint32_t)(at - head);
            parser->state = TARGET;
        }
            /* fall through */
        case TARGET: {
            at = http_skip_class(at, end, parser->target_bytes);
            uint32_t target_length = (uint32_t)(at - head) - parser->mark;
            if (target_length > parser->target_max)
                return HTTP_ERROR_LONG_TARGET;
            if (at == end)
                break;
            if (*at != ' ')
                return *at == '\r' || *at == '\n' ? HTTP_ERROR_REQUEST_LINE : HTTP_ERROR_TARGET;
            if (target_length == 0)
                return HTTP_ERROR_REQUEST_LINE;
            if ((error = split_target(parser, head, (uint32_t)(at - head))) != 0)
                return error;
            at++;
            parser->mark = (uint32_t)(at - head);
            parser->state = VERSION;
        }
            /* fall through */
        case VERSION:
            if ((at = skip_version(head + parser->mark, at, end)) == NULL)
                return HTTP_ERROR_REQUEST_LINE;
            if (at == end)
                break;
            if ((line_end = skip_cr(parser, at)) == NULL)
                return HTTP_ERROR_REQUEST_LINE;
            parser->state = VERSION_LF;
            at = line_end;
            if (at == end)
                break;
            /* fall through */
        case VERSION_LF:
            if (*at++ != '\n')
                return HTTP_ERROR_REQUEST_LINE;
            if ((error = read_version(parser, head + parser->mark)) != 0)
                return error;
            parser->state = FIELD;
            if (at == end)
                break;
            /* fall through */
        case FIELD:
            if ((line_end = skip_cr(parser, at)) != NULL) {
                parser->state = END_LF;
                at = line_end;
                break;
            }
            if (!http_byte_is(*at, HTTP_BYTE_TOKEN)) { /* obs-fold, RFC 9112, section 5.2, among others */
                if (!may_fold(parser, *at))
                    return HTTP_ERROR_FIELD;
                unfinish_field(parser, (uint32_t)(at - head));
                break;
            }
            if (parser->field_count == parser->fields_max)
                return HTTP_ERROR_MANY_FIELDS;
            parser->fields[parser->field_count].name_offset = (uint32_t)(at - head);
            parser->state = NAME;
            /* fall through */
        case NAME: {
            http_field *field = &parser->fields[parser->field_count];
            at = http_skip_class(at, end, HTTP_BYTE_TOKEN);
            uint32_t name_length = (uint32_t)(at - head) - field->name_offset;
            if (name_length > HTTP_FIELD_NAME_MAX)
                return HTTP_ERROR_LONG_HEAD;
            if (at == end)
                break;
            if (*at != ':') /* RFC 9112, section 5.1: no blank between name and colon */
                return HTTP_ERROR_FIELD;
            field->name_length = (uint16_t)name_length;
            at++;
            parser->state = BEFORE_VALUE;
        }
            /* fall through */
        case BEFORE_VALUE:
            while (at < end && (*at == ' ' || *at == '\t'))
                at++;
            if (at == end)
                break;
            parser->mark = (uint32_t)(at - head);
            parser->fields[parser->field_count].value_offset = parser->mark;
            parser->fields[parser->field_count].value_length = 0;
            parser->state = VALUE;
            /* fall through */
        case VALUE: {
            at = http_skip_value(at, end);
            if (at == end)
                break;
            /* RFC 9112, section 2.2: no bare LF, unless allowed; RFC 9110, section 5.5: no NUL */
            if ((line_end = skip_cr(parser, at)) == NULL)
                return HTTP_ERROR_VALUE;
            http_field *field = &parser->fields[parser->field_count];
            uint32_t value_end = (uint32_t)(at - head);
            /* Removes blanks at the end: the only byte below SP here is HTAB. Earlier lines of a folded value are not
             * looked at again. */
            while (value_end > parser->mark && head[value_end - 1] <= ' ')
                value_end--;
            if (value_end > parser->mark)
                field->value_length = value_end - field->value_offset;
            at = line_end;
            parser->state = VALUE_LF;
            if (at == end)
                break;
        }
            /* fall through */
        case VALUE_LF:
            if (*at++ != '\n') /* RFC 9112, section 2.2: no bare CR */
                return HTTP_ERROR_VALUE;
            if ((error = finish_field(parser, head)) != 0)
                return error;
            parser->state = FIELD;
            break;
        case END_LF:
            if (*at++ != '\n')
                return HTTP_ERROR_FIELD;
            if ((error = finish_head(parser)) != 0)
                return error;
            return at - head;
        default:
            return HTTP_ERROR_REQUEST_LINE;
        }
    }
    parser->scanned = (uint32_t)(at - head);
    return length > parser->head_max ? HTTP_ERROR_LONG_HEAD : 0;
}

size_t http_parser_copy_size(const http_parser *parser, size_t head_length)
{
    return parser->field_count * sizeof(http_field) + head_length;
}

/* RFC 9112, section 5.2: a fold counts as spaces. */
static void unfold(const http_parser *parser, uint8_t *text)
{
    for (uint32_t i = 0; i < parser->field_count; i++)
        for (uint32_t at = 0; at < parser->fields[i].value_length; at++) {
            uint8_t *byte = &text[parser->fields[i].value_offset + at];
            if (*byte == '\r' || *byte == '\n')
                *byte = ' ';
        }
}

void http_parser_copy(const http_parser *parser, const uint8_t *head, size_t head_length, uint8_t *destination)
{
    size_t fields_size = parser->field_count * sizeof(http_field);
    MR_CHECK(parser->field_count <= parser->fields_max);
    memcpy(destination, parser->fields, fields_size);
    memcpy(destination + fields_size, head, head_length);
    if (parser->folded)
        unfold(parser, destination + fields_size);
}
