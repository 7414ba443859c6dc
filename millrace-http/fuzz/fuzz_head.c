/*
 * fuzz_head.c - http_parser: the result does not depend on the pieces in which a head arrives. A second, slow parser,
 * which reads whole lines, checks every accepted head by the same rules. The first byte of the input chooses the
 * pieces.
 */
#include <ctype.h>
#include <strings.h>

#include "fuzz.h"
#include "http_parser.h"

#define FIELDS_MAX 128
#define HEAD_MAX   51200
#define TARGET_MAX 8192

typedef struct outcome {
    int64_t result;
    http_parser parser;
    http_field fields[FIELDS_MAX];
} outcome;

#define ALLOW_ALL (HTTP_ALLOW_BARE_LF | HTTP_ALLOW_FOLDING | HTTP_ALLOW_NO_HOST | HTTP_ALLOW_NON_ASCII)

static void start(outcome *out, uint32_t allowed)
{
    memset(out, 0, sizeof *out);
    http_parser_init(&out->parser, out->fields, FIELDS_MAX, HEAD_MAX, TARGET_MAX, allowed);
}

static void parse_prefix(outcome *out, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = exact_copy(bytes, length);
    out->result = http_parser_run(&out->parser, copy, length);
    free(copy);
}

static void parse_pieces(outcome *out, const uint8_t *bytes, size_t length, uint32_t seed, uint32_t allowed)
{
    start(out, allowed);
    for (size_t arrived = 0; arrived < length && out->result == 0;) {
        size_t piece = piece_length(&seed);
        arrived = length - arrived < piece ? length : arrived + piece;
        parse_prefix(out, bytes, arrived);
    }
}

static void check_same(const outcome *whole, const outcome *parts)
{
    CHECK(whole->result == parts->result);
    if (whole->result <= 0)
        return;
    const http_parser *left = &whole->parser, *right = &parts->parser;
    CHECK(left->method == right->method && left->flags == right->flags);
    CHECK(left->content_length == right->content_length && left->field_count == right->field_count);
    CHECK(left->method_offset == right->method_offset && left->method_length == right->method_length);
    CHECK(left->path_offset == right->path_offset && left->path_length == right->path_length);
    CHECK(left->query_offset == right->query_offset && left->query_length == right->query_length);
    CHECK(left->host == right->host && left->range == right->range && left->referer == right->referer);
    CHECK(left->user_agent == right->user_agent);
    CHECK(memcmp(whole->fields, parts->fields, left->field_count * sizeof(http_field)) == 0);
}

/* The slow parser. It reads one line at a time from text that ends in NUL. */

typedef struct seen {
    unsigned lines, upgrades, hosts, lengths, codings;
    long long length;
    char coding[HEAD_MAX + 1];
} seen;

static int is_token_char(int c)
{
    return isalnum(c) || (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static void read_field(char *line, seen *s)
{
    char *colon = strchr(line, ':');
    CHECK(colon != NULL && colon > line);
    for (char *c = line; c < colon; c++)
        CHECK(is_token_char((unsigned char)*c));
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    for (char *end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t'); end--)
        end[-1] = '\0';
    s->lines++;
    s->upgrades += strcasecmp(line, "upgrade") == 0;
    s->hosts += strcasecmp(line, "host") == 0;
    if (strcasecmp(line, "content-length") == 0) {
        s->lengths++;
        CHECK(*value != '\0' && strspn(value, "0123456789") == strlen(value));
        s->length = strtoll(value, NULL, 10);
    }
    if (strcasecmp(line, "transfer-encoding") == 0) {
        s->codings++;
        for (; *value != '\0'; value++)
            if (strchr(", \t", *value) == NULL)
                s->coding[strlen(s->coding)] = *value;
    }
}

static void check_bytes(const uint8_t *head, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (head[i] == '\r')
            CHECK(i + 1 < length && head[i + 1] == '\n');
        else if (head[i] == '\n')
            CHECK(i > 0 && head[i - 1] == '\r');
        else
            CHECK(head[i] == '\t' || (head[i] >= ' ' && head[i] != 0x7f));
    }
    CHECK(length >= 4 && memcmp(head + length - 4, "\r\n\r\n", 4) == 0);
}

static void check_request_line(const char *line, const http_parser *parser)
{
    const char *target = strchr(line, ' ');
    CHECK(target != NULL && target > line);
    const char *version = strchr(++target, ' ');
    CHECK(version != NULL && version > target);
    CHECK(strncmp(version, " HTTP/1.", 8) == 0 && isdigit((unsigned char)version[8]) && version[9] == '\0');
    CHECK(((parser->flags & HTTP_REQUEST_VERSION_1_1) != 0) == (version[8] != '0'));
    if (parser->method != HTTP_METHOD_CONNECT)
        CHECK(*target == '/' || *target == '*' || strncasecmp(target, "http", 4) == 0);
}

static void check_framing(const http_parser *parser, const seen *s)
{
    int version_1_1 = (parser->flags & HTTP_REQUEST_VERSION_1_1) != 0;
    CHECK(s->lengths <= 1 && s->hosts <= 1 && (!version_1_1 || s->hosts == 1));
    CHECK(parser->content_length == (s->lengths ? s->length : -1));
    CHECK(((parser->flags & HTTP_REQUEST_CHUNKED) != 0) == (s->codings > 0));
    if (s->codings > 0)
        CHECK(version_1_1 && s->lengths == 0 && strcasecmp(s->coding, "chunked") == 0);
    unsigned dropped = version_1_1 ? 0 : s->upgrades, added = parser->absolute_form && s->hosts == 0;
    CHECK(parser->field_count == s->lines - dropped + added);
}

static void check_accepted(const outcome *out, const uint8_t *bytes)
{
    static seen s;
    static char text[HEAD_MAX + 1];
    size_t length = (size_t)out->result;
    CHECK(length <= HEAD_MAX);
    memset(&s, 0, sizeof s);
    while (length >= 2 && memcmp(bytes, "\r\n", 2) == 0) /* empty lines before the request line */
        bytes += 2, length -= 2;
    check_bytes(bytes, length);
    memcpy(text, bytes, length);
    text[length] = '\0';
    char *line = text;
    for (char *end; (end = strstr(line, "\r\n")) != line; line = end + 2) {
        *end = '\0';
        if (line == text)
            check_request_line(line, &out->parser);
        else
            read_field(line, &s);
    }
    check_framing(&out->parser, &s);
}

static void check_slice(size_t offset, size_t length, size_t limit)
{
    CHECK(offset <= limit && length <= limit - offset);
}

static void check_slices(const outcome *out)
{
    size_t length = (size_t)out->result;
    const http_parser *parser = &out->parser;
    check_slice(parser->method_offset, parser->method_length, length);
    check_slice(parser->path_offset, parser->path_length, length);
    check_slice(parser->query_offset, parser->query_length, length);
    CHECK(parser->host <= parser->field_count && parser->range <= parser->field_count);
    CHECK(parser->referer <= parser->field_count && parser->user_agent <= parser->field_count);
    for (uint32_t i = 0; i < parser->field_count; i++) {
        check_slice(out->fields[i].name_offset, out->fields[i].name_length, length);
        check_slice(out->fields[i].value_offset, out->fields[i].value_length, length);
    }
}

static void check_copy(const outcome *out, const uint8_t *bytes)
{
    size_t size = http_parser_copy_size(&out->parser, (size_t)out->result);
    uint8_t *copy = malloc(size);
    CHECK(copy != NULL);
    http_parser_copy(&out->parser, bytes, (size_t)out->result, copy);
    const uint8_t *text = copy + size - out->result;
    if (!out->parser.folded)
        CHECK(memcmp(text, bytes, (size_t)out->result) == 0);
    for (uint32_t i = 0; i < out->parser.field_count; i++) {
        const uint8_t *value = text + out->fields[i].value_offset;
        size_t length = out->fields[i].value_length;
        CHECK(memchr(value, '\r', length) == NULL && memchr(value, '\n', length) == NULL);
        CHECK(length == 0 || (strchr(" \t", value[0]) == NULL && strchr(" \t", value[length - 1]) == NULL));
    }
    free(copy);
}

/* Parses again with all deviations allowed. A head that the strict parser accepts must give the same result. A head
 * with a bare LF or a folded line (`relaxed`) must not keep its connection alive. */
static void check_allowing(const outcome *strict, const uint8_t *bytes, size_t length, uint32_t seed)
{
    static outcome whole, parts;
    start(&whole, ALLOW_ALL);
    parse_prefix(&whole, bytes, length);
    parse_pieces(&parts, bytes, length, seed, ALLOW_ALL);
    check_same(&whole, &parts);
    if (strict->result > 0)
        check_same(&whole, strict);
    if (whole.result <= 0)
        return;
    check_slices(&whole);
    check_copy(&whole, bytes);
    if (whole.parser.relaxed)
        CHECK(!(whole.parser.flags & HTTP_REQUEST_KEEP_ALIVE));
    else
        for (int64_t i = 0; i < whole.result; i++)
            CHECK(bytes[i] != '\n' || (i > 0 && bytes[i - 1] == '\r'));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static outcome whole, parts;
    if (size < 1)
        return 0;
    const uint8_t *bytes = input + 1;
    size_t length = size - 1;
    start(&whole, 0);
    parse_prefix(&whole, bytes, length);
    parse_pieces(&parts, bytes, length, input[0], 0);
    check_same(&whole, &parts);
    check_allowing(&whole, bytes, length, input[0]);
    if (whole.result > 0) {
        check_slices(&whole);
        check_accepted(&whole, bytes);
        check_copy(&whole, bytes);
        start(&parts, 0);
        parse_prefix(&parts, bytes, (size_t)whole.result - 1);
        CHECK(parts.result == 0);
    } else if (whole.result < 0) {
        int status = http_error_status((int)whole.result);
        CHECK(status == 400 || status == 414 || status == 431 || status == 501 || status == 505);
    } else {
        CHECK(length <= HEAD_MAX);
    }
    return 0;
}
