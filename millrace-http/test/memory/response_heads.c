/* response_heads.c - heads of responses, as HTTP/1 sends them (http_head.h) and in the form of the libraries of HTTP/2
 * and HTTP/3 (http_response_fields.h). Must not know: sockets. */
#include "memory_test.h"

#include "http_date.h"
#include "http_head.h"
#include "http_memory.h"
#include "http_response_fields.h"

typedef struct line {
    const char *name, *value;
} line;

enum { SPACE = 4096 };

/* Blocks ********************************************************************************************************** */

typedef struct packed {
    uint8_t bytes[SPACE];
    http_rows rows;
} packed;

static void pack_bytes(packed *p, const char *name, size_t name_length, const char *value, size_t value_length)
{
    uint32_t lengths[2] = {(uint32_t)name_length, (uint32_t)value_length};
    uint8_t *at = p->bytes + p->rows.length;
    memcpy(at, lengths, sizeof lengths);
    memcpy(at + sizeof lengths, name, name_length);
    memcpy(at + sizeof lengths + name_length, value, value_length);
    p->rows.length += sizeof lengths + name_length + value_length;
    p->rows.count++;
}

static void pack(packed *p, const line lines[])
{
    *p = (packed){.rows = {.length = 0}};
    p->rows.bytes = p->bytes;
    for (; lines->name; lines++)
        pack_bytes(p, lines->name, strlen(lines->name), lines->value, strlen(lines->value));
}

/* Whether the field at an index is this one. */
static bool is_field(const http_block *block, uint32_t index, const char *name, const char *value)
{
    CHECK_LT(index, block->count);
    const http_nv *field = &block->fields[index];
    return field->name_length == strlen(name) && memcmp(field->name, name, field->name_length) == 0 &&
           field->value_length == strlen(value) && memcmp(field->value, value, field->value_length) == 0;
}

static bool is_date(const http_block *block, uint32_t index)
{
    const http_nv *field = &block->fields[index];
    return field->name_length == 4 && memcmp(field->name, "date", 4) == 0 &&
           http_date_current() - http_date_read(field->value, field->value_length) < 60;
}

static const http_server_name server = {.bytes = (const uint8_t *)"mill", .length = 4}, nobody = {.length = 0};

static http_block *make(http_server_name name, int status, int64_t length, int64_t *given, const line lines[])
{
    packed p;
    http_block *block = NULL;
    pack(&p, lines);
    int result = http_block_make(&block, name, status, &p.rows, length, given);
    CHECK_EQ(result, HTTP_HEAD_OK);
    CHECK(block);
    return block;
}

void response_block(uintptr_t unused)
{
    (void)unused;
    int64_t given = 0;
    http_block *block = make(server, 204, HTTP_LENGTH_NONE, &given,
                             (line[]){{"X-Short", "v"},
                                      {"ABCDEFGHIJKLMNOPQRSTUVWXYZ-^_`|~", "w"},
                                      {"Connection", "close"},
                                      {"Keep-Alive", "5"},
                                      {"Proxy-Connection", "close"},
                                      {"Upgrade", "x"},
                                      {"Transfer-Encoding", "Chunked"},
                                      {0}});
    /* Names in lower case, and none of what HTTP/2 forbids. */
    CHECK_EQ(block->count, 5);
    CHECK(is_field(block, 0, ":status", "204") && is_field(block, 1, "x-short", "v"));
    CHECK(is_field(block, 2, "abcdefghijklmnopqrstuvwxyz-^_`|~", "w") && is_date(block, 3));
    CHECK(is_field(block, 4, "server", "mill"));
    CHECK_EQ(given, -1);
    http_free(block);
    /* The application's own date and name. */
    block = make(server, 200, HTTP_LENGTH_NONE, &given, (line[]){{"date", "today"}, {"Server", "own"}, {0}});
    CHECK(block->count == 3 && is_field(block, 1, "date", "today") && is_field(block, 2, "server", "own"));
    http_free(block);
    block = make(server, 200, HTTP_LENGTH_NONE, &given, (line[]){{"Server", ""}, {0}});
    CHECK(block->count == 2 && is_date(block, 1));
    http_free(block);
    block = make(nobody, 200, HTTP_LENGTH_NONE, &given, (line[]){{"Server", "own"}, {0}});
    CHECK(block->count == 2 && is_date(block, 1));
    http_free(block);
    /* Interim responses and trailers have only their own fields. */
    packed p;
    pack(&p, (line[]){{"Link", "x"}, {0}});
    CHECK_EQ(http_block_make_plain(&block, 103, &p.rows), HTTP_HEAD_OK);
    CHECK(block->count == 2 && is_field(block, 0, ":status", "103") && is_field(block, 1, "link", "x"));
    http_free(block);
    CHECK_EQ(http_block_make_plain(&block, 0, &p.rows), HTTP_HEAD_OK);
    CHECK(block->count == 1 && is_field(block, 0, "link", "x"));
    http_free(block);
}

void response_lengths(uintptr_t unused)
{
    (void)unused;
    static const line own[] = {{"Content-Length", "42"}, {"content-length", "42"}, {0}}, none[] = {{0}};
    int64_t given = 0;
    http_block *block = make(nobody, 200, 0, &given, none);
    CHECK(is_field(block, 1, "content-length", "0") && given == -1);
    http_free(block);
    block = make(nobody, 200, INT64_MAX, &given, own);
    CHECK(is_field(block, 1, "content-length", "9223372036854775807") && given == 42);
    http_free(block);
    block = make(nobody, 200, HTTP_LENGTH_NONE, &given, own);
    CHECK(is_field(block, 1, "content-length", "42") && given == 42);
    http_free(block);
    block = make(nobody, 200, HTTP_LENGTH_UNKNOWN, &given, own);
    CHECK(block->count == 2 && is_date(block, 1) && given == 42);
    http_free(block);
}

static void check_refused(int status, int result, const line lines[])
{
    packed p;
    http_block *block = NULL;
    int64_t given;
    pack(&p, lines);
    CHECK_EQ(http_block_make(&block, server, status, &p.rows, 0, &given), result);
    CHECK(!block);
    if (result == HTTP_HEAD_BAD_STATUS)
        return;
    CHECK_EQ(http_block_make_plain(&block, 0, &p.rows), result);
    CHECK(!block);
}

void responses_refused(uintptr_t unused)
{
    (void)unused;
    check_refused(99, HTTP_HEAD_BAD_STATUS, (line[]){{0}});
    check_refused(1000, HTTP_HEAD_BAD_STATUS, (line[]){{0}});
    check_refused(200, HTTP_HEAD_BAD_NAME, (line[]){{"", "v"}, {0}});
    check_refused(200, HTTP_HEAD_BAD_NAME, (line[]){{"a b", "v"}, {0}});
    check_refused(200, HTTP_HEAD_BAD_NAME, (line[]){{":status", "200"}, {0}});
    check_refused(200, HTTP_HEAD_BAD_NAME, (line[]){{"a", "v"}, {"b\r\nc", "v"}, {0}});
    check_refused(200, HTTP_HEAD_BAD_CODING, (line[]){{"transfer-encoding", "gzip"}, {0}});
    static const char *const lengths[] = {"", "-1", "1 ", "x", "9223372036854775808", "99999999999999999999"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check_refused(200, HTTP_HEAD_BAD_LENGTH, (line[]){{"content-length", lengths[i]}, {0}});
    check_refused(200, HTTP_HEAD_BAD_LENGTH, (line[]){{"content-length", "1"}, {"content-length", "2"}, {0}});
    /* A head of more than the limit, by its bytes or by its fields. */
    packed p;
    http_block *block = NULL;
    int64_t given;
    pack(&p, (line[]){{0}});
    p.rows.length = HTTP_RESPONSE_HEAD_MAX;
    CHECK_EQ(http_block_make(&block, server, 200, &p.rows, 0, &given), HTTP_HEAD_NO_ROOM);
    CHECK_EQ(http_block_make_plain(&block, 0, &p.rows), HTTP_HEAD_NO_ROOM);
    p.rows = (http_rows){.bytes = p.bytes, .count = HTTP_RESPONSE_HEAD_MAX / 12};
    CHECK_EQ(http_block_make(&block, server, 200, &p.rows, 0, &given), HTTP_HEAD_NO_ROOM);
}

/* Nobody injects lines, and no value begins or ends with a blank. */
void response_values(uintptr_t unused)
{
    (void)unused;
    static const line values[] = {
        {"", ""},
        {" \t ", ""},
        {"\t v w\t", "v w"},
        {"a\r\nb: c", "a  b: c"},
        {"\r\n", ""},
        {"\nv\r", "v"},
        {"v\177\tw", "v \tw"},
        {"\xc3\xa4", "\xc3\xa4"},
        {" \n \n v", "v"},
        {"12345678\n", "12345678"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        int64_t given;
        http_block *block = make(nobody, 200, 0, &given, (line[]){{"x", values[i].name}, {0}});
        CHECK(is_field(block, 1, "x", values[i].value));
        http_free(block);
    }
    packed p;
    http_block *block = NULL;
    pack(&p, (line[]){{0}});
    pack_bytes(&p, "x", 1, "a\0b", 3);
    CHECK_EQ(http_block_make_plain(&block, 0, &p.rows), HTTP_HEAD_OK);
    CHECK(is_field(block, 0, "x", "a b"));
    http_free(block);
}

/* Heads of HTTP/1 ************************************************************************************************* */

enum { LINES_MAX = 8 };

static const char server_line[] = "Server: mill\r\n";

/* Composes a head in memory of exactly this size. The text ends with a NUL. */
static http_head_result compose(http_head *head, uint32_t status, const char *reason, uint32_t options,
                                const line lines[], size_t size, char *text)
{
    http_head_line rows[LINES_MAX];
    size_t count = 0;
    while (lines[count].name)
        count++;
    CHECK_LE(count, LINES_MAX);
    for (size_t i = 0; i < count; i++) /* the last one first */
        rows[count - 1 - i] = (http_head_line){(const uint8_t *)lines[i].name, strlen(lines[i].name),
                                               (const uint8_t *)lines[i].value, strlen(lines[i].value)};
    uint8_t *memory = malloc(size + 1);
    CHECK(memory);
    *head = (http_head){.at = memory,
                        .limit = memory + size,
                        .reason = (const uint8_t *)reason,
                        .reason_length = strlen(reason),
                        .lines_end = rows + count,
                        .line_count = count,
                        .server_line = (const uint8_t *)server_line,
                        .server_line_length = sizeof server_line - 1,
                        .status = status,
                        .options = options};
    http_head_result result = http_head_compose(head);
    CHECK_LE((size_t)(head->at - memory), size);
    memcpy(text, memory, (size_t)(head->at - memory));
    text[head->at - memory] = 0;
    free(memory);
    return result;
}

static void check_head(const line lines[], uint32_t options, const char *expected, uint32_t flags, int64_t length)
{
    http_head head;
    char text[SPACE + 1];
    CHECK_EQ(compose(&head, 200, "O\nK", options, lines, SPACE, text), HTTP_HEAD_OK);
    CHECK_EQ(head.flags, flags);
    CHECK_EQ(head.content_length, length);
    char *date = strstr(text, "\r\nDate: ");
    if (!(flags & HTTP_HEAD_DATE)) {
        CHECK(date);
        date += 2;
        size_t line_length = sizeof "Date: \r\n" - 1 + HTTP_DATE_LENGTH;
        memmove(date, date + line_length, strlen(date + line_length) + 1);
    }
    CHECK_EQ(strcmp(text, expected), 0);
}

void response_head(uintptr_t unused)
{
    (void)unused;
    check_head((line[]){{0}}, 0, "HTTP/1.1 200 O K\r\nServer: mill\r\n", 0, -1);
    check_head((line[]){{"A", "1\r\nB: 2"}, {"Content-Length", "7"}, {"Transfer-Encoding", "chunked"}, {0}}, 0,
               "HTTP/1.1 200 O K\r\nA: 1  B: 2\r\nServer: mill\r\n", 0, 7);
    check_head((line[]){{"Date", "today"}, {"Server", "own"}, {0}}, 0,
               "HTTP/1.1 200 O K\r\nDate: today\r\nServer: own\r\n", HTTP_HEAD_DATE | HTTP_HEAD_SERVER, -1);
    check_head((line[]){{"Server", ""}, {0}}, 0, "HTTP/1.1 200 O K\r\n", HTTP_HEAD_SERVER, -1);
    check_head((line[]){{"Server", "own"}, {0}}, HTTP_HEAD_DROP_SERVER, "HTTP/1.1 200 O K\r\n", HTTP_HEAD_SERVER, -1);
    /* The server itself says whether the connection stays, the application what else it is about. */
    check_head((line[]){{"Connection", "Keep-Alive"}, {0}}, 0, "HTTP/1.1 200 O K\r\nServer: mill\r\n", 0, -1);
    check_head((line[]){{"Connection", "close"}, {0}}, 0, "HTTP/1.1 200 O K\r\nServer: mill\r\n", HTTP_HEAD_CLOSE, -1);
    check_head((line[]){{"Connection", "upgrade, close"}, {0}}, 0,
               "HTTP/1.1 200 O K\r\nConnection: upgrade, close\r\nServer: mill\r\n", HTTP_HEAD_CLOSE, -1);
    http_head head;
    char text[SPACE + 1];
    CHECK_EQ(compose(&head, 99, "", 0, (line[]){{0}}, SPACE, text), HTTP_HEAD_BAD_STATUS);
    CHECK_EQ(compose(&head, 1000, "", 0, (line[]){{0}}, SPACE, text), HTTP_HEAD_BAD_STATUS);
    CHECK_EQ(compose(&head, 200, "", 0, (line[]){{"a", "b"}, {"", "c"}, {0}}, SPACE, text), HTTP_HEAD_BAD_NAME);
    CHECK_EQ(head.failed, 1);
    CHECK_EQ(compose(&head, 200, "", 0, (line[]){{"a:", "b"}, {"c", "d"}, {0}}, SPACE, text), HTTP_HEAD_BAD_NAME);
    CHECK_EQ(head.failed, 0);
    CHECK_EQ(compose(&head, 200, "", 0, (line[]){{"transfer-encoding", "gzip"}, {0}}, SPACE, text),
             HTTP_HEAD_BAD_CODING);
    CHECK_EQ(compose(&head, 200, "", 0, (line[]){{"content-length", "1"}, {"content-length", "2"}, {0}}, SPACE, text),
             HTTP_HEAD_BAD_LENGTH);
}

/* In too little memory nothing is written beyond it, and the result says so. */
void response_head_in_any_space(uintptr_t unused)
{
    (void)unused;
    static const line lines[] = {{"Connection", "upgrade"}, {"Name", "value"}, {0}};
    http_head head;
    char text[SPACE + 1];
    CHECK_EQ(compose(&head, 200, "OK", 0, lines, SPACE, text), HTTP_HEAD_OK);
    size_t needed = strlen(text);
    for (size_t size = 0; size < needed; size++)
        CHECK_EQ(compose(&head, 200, "OK", 0, lines, size, text), HTTP_HEAD_NO_ROOM);
    CHECK_EQ(compose(&head, 200, "OK", 0, lines, needed + 1, text), HTTP_HEAD_OK);
}

static void check_framing(http_connection_option option, http_framing framing, uint64_t length, const char *expected)
{
    uint8_t *memory = malloc(strlen(expected));
    CHECK(memory);
    CHECK_LE(strlen(expected), HTTP_FRAMING_MAX);
    CHECK_EQ(http_put_framing(memory, option, framing, length), strlen(expected));
    CHECK_MEMORY(memory, expected, strlen(expected));
    free(memory);
}

void framing(uintptr_t unused)
{
    (void)unused;
    check_framing(HTTP_CONNECTION_UNSAID, HTTP_FRAMING_NONE, 0, "\r\n");
    check_framing(HTTP_CONNECTION_CLOSE, HTTP_FRAMING_LENGTH, 0, "Connection: close\r\nContent-Length: 0\r\n\r\n");
    check_framing(HTTP_CONNECTION_KEEP_ALIVE, HTTP_FRAMING_LENGTH, INT64_MAX,
                  "Connection: keep-alive\r\nContent-Length: 9223372036854775807\r\n\r\n");
    check_framing(HTTP_CONNECTION_UNSAID, HTTP_FRAMING_CHUNKED, 0, "Transfer-Encoding: chunked\r\n\r\n");
    /* The sizes of chunks. */
    for (unsigned shift = 0; shift < 64; shift++) {
        uint64_t length = UINT64_C(0xfedcba9876543210) >> shift;
        char expected[40];
        uint8_t written[18];
        size_t count = (size_t)snprintf(expected, sizeof expected, "%llx\r\n", (unsigned long long)length);
        CHECK_EQ(http_put_chunk_size(written, length), count);
        CHECK_MEMORY(written, expected, count);
        (void)snprintf(expected, sizeof expected, "%08x\r\n", (unsigned)length);
        http_put_chunk_head(written, (uint32_t)length);
        CHECK_MEMORY(written, expected, HTTP_CHUNK_HEAD_LENGTH);
    }
    uint8_t written[18];
    CHECK_EQ(http_put_chunk_size(written, 0), 3);
    CHECK_MEMORY(written, "0\r\n", 3);
}
