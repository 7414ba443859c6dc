/* request_heads.c - heads and trailers of requests of HTTP/2 and HTTP/3, as a library decodes them field by field
 * (http_request_head.h). Must not know: sockets. */
#include "memory_test.h"

#include "http_memory.h"
#include "http_request_head.h"

typedef struct line {
    const char *name, *value;
} line;

enum { LINES_MAX = 16 };

static const http_head_limits usual_limits = {.fields_max = 8, .head_max = 1000, .target_max = 100};

/* One request: what it is built from and what became of it. */
typedef struct built {
    http_building *building;
    http_request_head head;
    http_request_fields fields;
    int result; /* of the first call that failed, or of the last one */
} built;

static void begin(built *b, const http_head_limits *limits, http_section section)
{
    b->result = http_building_begin(&b->building, limits, section, b, &b->head, &b->fields);
    CHECK_EQ(b->result, 0);
    CHECK(b->building->owner == b);
}

static void put_bytes(built *b, const char *name, size_t name_length, const char *value, size_t value_length)
{
    if (b->result == 0)
        b->result =
            http_building_field(b->building, (const uint8_t *)name, name_length, (const uint8_t *)value, value_length);
}

static void put(built *b, const char *name, const char *value)
{
    put_bytes(b, name, strlen(name), value, strlen(value));
}

static void end(built *b, http_security security)
{
    if (b->result == 0) {
        b->result = http_building_end(b->building, security);
        CHECK(b->building->owner == NULL);
    }
}

static void drop(built *b)
{
    http_drop_section(&b->fields, HTTP_SECTION_HEAD);
    http_drop_section(&b->fields, HTTP_SECTION_TRAILERS);
    CHECK(!b->fields.head && !b->fields.trailers && b->fields.trailers_count == 0);
    http_building_drop(&b->building);
    http_building_drop(&b->building);
    CHECK(!b->building);
    *b = (built){0};
}

/* Builds the head of a usual request with other values of its pseudo-header fields, and further lines. A value of NULL
 * leaves the line out. */
static void build_with(built *b, const http_head_limits *limits, http_security security, const line lines[])
{
    static const line usual[] = {{":method", "GET"}, {":scheme", "http"}, {":authority", "a.test"}, {":path", "/"}};
    begin(b, limits, HTTP_SECTION_HEAD);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const char *value = usual[i].value;
        for (const line *other = lines; other->name; other++)
            if (strcmp(other->name, usual[i].name) == 0)
                value = other->value;
        if (value)
            put(b, usual[i].name, value);
    }
    for (const line *other = lines; other->name; other++)
        if (other->name[0] != ':' || strcmp(other->name, ":protocol") == 0)
            put(b, other->name, other->value);
    end(b, security);
}

static void build(built *b, const line lines[])
{
    build_with(b, &usual_limits, HTTP_CLEAR_TEXT, lines);
    CHECK_EQ(b->result, 0);
}

static const char *text_of(const built *b)
{
    return (const char *)(b->fields.head + b->head.field_count);
}

/* Whether the text has these bytes at this position. */
static bool is_text(const built *b, uint32_t offset, uint32_t length, const char *expected)
{
    CHECK_LE(offset + length, b->head.text_length);
    return length == strlen(expected) && memcmp(text_of(b) + offset, expected, length) == 0;
}

static bool is_value(const built *b, uint32_t index, const char *expected)
{
    CHECK_LT(index, b->head.field_count);
    return is_text(b, b->fields.head[index].value_offset, b->fields.head[index].value_length, expected);
}

static const line no_lines[] = {{0}};

void request_head(uintptr_t unused)
{
    (void)unused;
    built b = {0};
    build(&b, (line[]){{":method", "PATCH"},
                       {":path", "/a/b?c=d?"},
                       {"user-agent", "one"},
                       {"user-agent", "other"},
                       {"referer", "r"},
                       {"referer", "s"},
                       {"range", "bytes=0-1"},
                       {"range", "bytes=0-2"},
                       {0}});
    CHECK_EQ(b.head.error, 0);
    CHECK_EQ(b.head.method, HTTP_METHOD_PATCH);
    CHECK(is_text(&b, b.head.method_offset, b.head.method_length, "PATCH"));
    CHECK(is_text(&b, b.head.path_offset, b.head.path_length, "/a/b"));
    CHECK(is_text(&b, b.head.query_offset, b.head.query_length, "?c=d?"));
    CHECK_EQ(b.head.field_count, 7);
    CHECK(b.head.host == 1 && b.fields.head[0].name == HTTP_NAME_HOST && is_value(&b, 0, "a.test"));
    /* Of several lines with such a name the first one counts. */
    CHECK(b.head.user_agent == 2 && b.head.referer == 4 && b.head.range == 6);
    CHECK(is_value(&b, 1, "one") && is_value(&b, 2, "other"));
    CHECK_EQ(b.head.content_length, -1);
    CHECK_EQ(b.head.flags, HTTP_REQUEST_VERSION_1_1);
    CHECK_EQ(http_head_size(&b.head), 7 * HTTP_FIELD_COST + b.head.text_length);
    CHECK_GE(http_building_size(b.building), http_head_size(&b.head));
    http_drop_section(&b.fields, HTTP_SECTION_HEAD);

    /* The memory is used again, for a head of other fields. */
    b.head = (http_request_head){0};
    build(
        &b,
        (line[]){
            {":method", "purge"}, {"content-length", "1234567890123"}, {"expect", "100-Continue"}, {"x-own", ""}, {0}});
    CHECK_EQ(b.head.method, HTTP_METHOD_OTHER);
    CHECK_EQ(b.head.content_length, 1234567890123);
    CHECK_EQ(b.head.flags, HTTP_REQUEST_VERSION_1_1 | HTTP_REQUEST_EXPECT_CONTINUE);
    const http_field *own = &b.fields.head[3];
    CHECK(own->name == HTTP_NAME_OTHER && is_text(&b, own->name_offset, own->name_length, "x-own"));
    CHECK(is_value(&b, 3, ""));
    drop(&b);

    build(&b, (line[]){{"content-length", "99999999999999999999999"}, {"expect", "payment"}, {0}});
    CHECK_GT(b.head.content_length, INT64_MAX / 100);
    CHECK(b.head.flags & HTTP_REQUEST_EXPECT_OTHER);
    drop(&b);

    /* A long value. */
    static char value[900];
    memset(value, 'v', sizeof value - 1);
    build(&b, (line[]){{"x", value}, {0}});
    CHECK(is_value(&b, 1, value));
    drop(&b);
}

static void check_error(const line lines[], http_error error)
{
    built b = {0};
    build(&b, lines);
    CHECK_EQ(b.head.error, error);
    drop(&b);
}

void requests_refused(uintptr_t unused)
{
    (void)unused;
    static char method[] = "METHODMETHODMETHODMETHODMETHODMETHOD", path[200] = "/";
    memset(path + 1, 'p', sizeof path - 2);
    check_error(no_lines, HTTP_ERROR_NONE);
    check_error((line[]){{":method", method}, {0}}, HTTP_ERROR_LONG_METHOD);
    check_error((line[]){{":path", path}, {0}}, HTTP_ERROR_LONG_TARGET);
    check_error((line[]){{":path", "/a#b"}, {0}}, HTTP_ERROR_TARGET);
    check_error((line[]){{":path", "/\xc3\xa4"}, {0}}, HTTP_ERROR_TARGET);
    check_error((line[]){{":authority", "a b"}, {0}}, HTTP_ERROR_HOST);
    /* The first error is the one that is reported. */
    check_error((line[]){{":method", method}, {":authority", "a b"}, {0}}, HTTP_ERROR_LONG_METHOD);
    built b = {0};
    http_head_limits limits = usual_limits;
    limits.allowed = HTTP_ALLOW_NON_ASCII;
    build_with(&b, &limits, HTTP_CLEAR_TEXT, (line[]){{":path", "/\xc3\xa4"}, {0}});
    CHECK_EQ(b.result, 0);
    CHECK_EQ(b.head.error, HTTP_ERROR_NONE);
    drop(&b);
    /* A pseudo-header field that no library lets through. */
    begin(&b, &usual_limits, HTTP_SECTION_HEAD);
    put(&b, ":x", "y");
    put(&b, ":", "y");
    put(&b, ":method", "GET");
    put(&b, ":scheme", "http");
    put(&b, ":path", "");
    end(&b, HTTP_CLEAR_TEXT);
    CHECK_EQ(b.result, 0);
    CHECK_EQ(b.head.error, HTTP_ERROR_TARGET);
    CHECK_EQ(b.head.field_count, 0);
    drop(&b);
}

/* A head with so many fields, and values of so many bytes. */
static void check_limits(uint32_t fields, size_t length, int result, http_error error, uint32_t stored)
{
    static char value[70000];
    memset(value, 'v', length);
    value[length] = 0;
    built b = {0};
    begin(&b, &usual_limits, HTTP_SECTION_HEAD);
    put(&b, ":method", "GET");
    put(&b, ":scheme", "http");
    put(&b, ":path", "/");
    for (uint32_t i = 0; i < fields; i++)
        put(&b, "x", value);
    end(&b, HTTP_CLEAR_TEXT);
    CHECK_EQ(b.result, result);
    if (result == 0) {
        CHECK_EQ(b.head.error, error);
        CHECK_EQ(b.head.field_count, stored);
    }
    drop(&b);
}

/* A head beyond the limits is refused, and of one far beyond them not even the rest is read. */
void request_limits(uintptr_t unused)
{
    (void)unused;
    check_limits(8, 0, 0, HTTP_ERROR_NONE, 8);
    check_limits(9, 0, 0, HTTP_ERROR_MANY_FIELDS, 8);
    check_limits(4 * 8 + 1000, 0, 0, HTTP_ERROR_MANY_FIELDS, 8);
    check_limits(4 * 8 + 1001, 0, -1, HTTP_ERROR_MANY_FIELDS, 0);
    check_limits(1, 960, 0, HTTP_ERROR_NONE, 1);
    check_limits(1, 1000, 0, HTTP_ERROR_LONG_HEAD, 0);
    check_limits(1, 4 * (1000 + 16384) - 100, 0, HTTP_ERROR_LONG_HEAD, 0);
    check_limits(1, 4 * (1000 + 16384) + 4, -1, HTTP_ERROR_LONG_HEAD, 0);
    check_limits(7, 200, 0, HTTP_ERROR_LONG_HEAD, 4);
    /* A name that is too long for the table, and one that makes the head too long before its pseudo-header fields have
     * ended. */
    static char name[70000];
    memset(name, 'n', sizeof name - 1);
    http_head_limits limits = usual_limits;
    limits.head_max = 200000;
    built b = {0};
    build_with(&b, &limits, HTTP_CLEAR_TEXT, (line[]){{name, "v"}, {0}});
    CHECK_EQ(b.result, 0);
    CHECK_EQ(b.head.error, HTTP_ERROR_LONG_HEAD);
    drop(&b);
    limits.head_max = 40;
    build_with(&b, &limits, HTTP_CLEAR_TEXT, (line[]){{":authority", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, {0}});
    CHECK_EQ(b.result, 0);
    CHECK_EQ(b.head.error, HTTP_ERROR_LONG_HEAD);
    drop(&b);
}

void request_targets(uintptr_t unused)
{
    (void)unused;
    check_error((line[]){{":method", "OPTIONS"}, {":path", "*"}, {0}}, HTTP_ERROR_NONE);
    check_error((line[]){{":method", "OPTIONS"}, {":path", "*?a"}, {0}}, HTTP_ERROR_TARGET);
    check_error((line[]){{":path", "*"}, {0}}, HTTP_ERROR_TARGET);
    check_error((line[]){{":path", "a"}, {0}}, HTTP_ERROR_TARGET);
    check_error((line[]){{":path", "?"}, {0}}, HTTP_ERROR_TARGET);
    check_error((line[]){{":scheme", "ftp"}, {0}}, HTTP_ERROR_TARGET);
    check_error((line[]){{":scheme", "HTTP"}, {0}}, HTTP_ERROR_NONE);
    /* CONNECT asks for a host and a port, unless it names a protocol (RFC 8441). */
    line connect[] = {{":method", "CONNECT"}, {":scheme", NULL}, {":path", NULL}, {":authority", "a.test:443"}, {0}};
    check_error(connect, HTTP_ERROR_NONE);
    connect[3].value = "a.test";
    check_error(connect, HTTP_ERROR_TARGET);
    check_error((line[]){{":method", "CONNECT"}, {":path", "/chat"}, {":protocol", "websocket"}, {0}}, HTTP_ERROR_NONE);
    /* A client in clear text may say that its request is for https: a proxy did the rest. */
    for (int security = HTTP_CLEAR_TEXT; security <= HTTP_SECURE; security++) {
        built b = {0};
        build_with(&b, &usual_limits, (http_security)security, (line[]){{":scheme", "https"}, {0}});
        CHECK(b.result == 0 && b.head.error == 0);
        CHECK_EQ((b.head.flags & HTTP_REQUEST_HTTPS) != 0, security == HTTP_CLEAR_TEXT);
        drop(&b);
    }
}

/* There is one host, whoever names it. */
void request_hosts(uintptr_t unused)
{
    (void)unused;
    built b = {0};
    build(&b, (line[]){{"host", "a.test"}, {"x", "y"}, {0}});
    CHECK(b.head.error == 0 && b.head.host == 1 && b.head.field_count == 2 && is_value(&b, 0, "a.test"));
    drop(&b);
    build(&b, (line[]){{":authority", NULL}, {"x", "y"}, {"host", "b.test"}, {0}});
    CHECK(b.head.error == 0 && b.head.host == 2 && b.head.field_count == 2 && is_value(&b, 1, "b.test"));
    drop(&b);
    check_error((line[]){{"host", "b.test"}, {0}}, HTTP_ERROR_HOST);
    check_error((line[]){{"host", "a.tesT"}, {0}}, HTTP_ERROR_HOST);
    check_error((line[]){{":authority", NULL}, {"host", "a b"}, {0}}, HTTP_ERROR_HOST);
    check_error((line[]){{":authority", NULL}, {"host", "b"}, {"host", "b"}, {0}}, HTTP_ERROR_HOST);
}

/* The parts of a cookie are one field, at the position of the first part. */
void request_cookies(uintptr_t unused)
{
    (void)unused;
    built b = {0};
    build(&b, (line[]){{"cookie", "a=1"}, {"x", "y"}, {"cookie", ""}, {"cookie", "b=2"}, {0}});
    CHECK_EQ(b.head.field_count, 3);
    CHECK(b.fields.head[1].name == HTTP_NAME_COOKIE && is_value(&b, 1, "a=1; ; b=2") && is_value(&b, 2, "y"));
    http_drop_section(&b.fields, HTTP_SECTION_HEAD);
    /* Parts are no further fields, but there is a limit, too. */
    for (uint32_t parts = 4 * 8 + 1000; parts <= 4 * 8 + 1001; parts++) {
        http_head_limits limits = usual_limits;
        limits.head_max = 100000;
        begin(&b, &limits, HTTP_SECTION_HEAD);
        put(&b, ":method", "GET");
        put(&b, ":scheme", "http");
        put(&b, ":path", "/");
        for (uint32_t i = 0; i < parts; i++)
            put(&b, "cookie", "c=d");
        end(&b, HTTP_SECURE);
        CHECK_EQ(b.result, parts == 4 * 8 + 1001 ? -1 : 0);
        if (b.result == 0) {
            CHECK_EQ(b.head.error, 0);
            CHECK_EQ(b.head.field_count, 1);
            CHECK_EQ(b.fields.head[0].value_length, 5 * parts - 2);
        }
        http_drop_section(&b.fields, HTTP_SECTION_HEAD);
    }
    drop(&b);
}

/* Trailers are rows of two lengths and their bytes. */
void request_trailers(uintptr_t unused)
{
    (void)unused;
    built b = {0};
    begin(&b, &usual_limits, HTTP_SECTION_TRAILERS);
    put(&b, "cookie", "a");
    put(&b, "host", "no host");
    put(&b, "x", "");
    end(&b, HTTP_SECURE);
    CHECK_EQ(b.result, 0);
    CHECK_EQ(b.fields.trailers_count, 3);
    static const uint8_t rows[] = "\6\0\0\0\1\0\0\0cookiea\4\0\0\0\7\0\0\0hostno host\1\0\0\0\0\0\0\0x";
    CHECK_EQ(b.fields.trailers_length, sizeof rows - 1);
    CHECK_MEMORY(b.fields.trailers, rows, sizeof rows - 1);
    /* None. They replace the others. */
    begin(&b, &usual_limits, HTTP_SECTION_TRAILERS);
    end(&b, HTTP_SECURE);
    CHECK(b.result == 0 && b.fields.trailers_count == 0 && b.fields.trailers_length == 0);
    /* Too many are refused. */
    begin(&b, &usual_limits, HTTP_SECTION_TRAILERS);
    for (int i = 0; i < 9; i++)
        put(&b, "x", "y");
    end(&b, HTTP_SECURE);
    CHECK_EQ(b.result, 1);
    drop(&b);
}
