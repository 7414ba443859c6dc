/* parts.c - tests of parts of the engine that need no connection: frames, memory, credentials. Must not know: sockets,
 * the clock. */
#include "parts.h"

#include <stdlib.h>

#include "harness.h"
#include "http3_frames.h"
#include "http3_internal.h"
#include "http3_memory.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Frames */

/* A field section with every kind of line (RFC 9204, section 4.5), and each integer in a short and a long form. */
static const uint8_t section[] = {
    0xff, 0x81, 0x00,                                              /* the required insert count, of three bytes */
    0x7f, 0x80, 0x01,                                              /* the base, of three bytes */
    0xc1,                                                          /* an entry */
    0xff, 0x00,                                                    /* an entry with a long number */
    0xff, 0xff, 0x01,                                              /* an entry with a longer number */
    0x11,                                                          /* an entry behind the base */
    0x1f, 0x00,                                                    /* the same, long */
    0x51, 0x01, 'v',                                               /* an entry's name, and a value */
    0x5f, 0x81, 0x01, 0x02, 'v',  'w',                             /* the same, long */
    0x01, 0x00,                                                    /* the same behind the base, and an empty value */
    0x07, 0x00, 0x01, 'v',                                         /* the same, long */
    0x23, 'a',  'b',  'c',  0x01, 'v',                             /* a name and a value */
    0x27, 0x01, 'a',  'b',  'c',  'd',  'e',  'f', 'g', 'h', 0x00, /* the same, long, and an empty value */
    0x20, 0x01, 'v',                                               /* without a name */
    0x27, 0x80, 0x00, 'a',  'b',  'c',  'd',  'e', 'f', 'g', 0x01, 'v', /* a length that is longer than needed */
    0x51, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x00, /* a value of 127 bytes follows; its length is far longer */
};
enum { LINES = 14, LAST_VALUE = 127 };

typedef struct text {
    uint8_t bytes[2000];
    size_t length;
} text;

static void put(text *to, const void *bytes, size_t length)
{
    CHECK(length <= sizeof to->bytes - to->length);
    memcpy(to->bytes + to->length, bytes, length);
    to->length += length;
}

static void put_section(text *to)
{
    const uint8_t head[] = {0x01, 0x40, sizeof section + LAST_VALUE};
    static const uint8_t value[LAST_VALUE];
    put(to, head, sizeof head);
    put(to, section, sizeof section);
    put(to, value, sizeof value);
}

/* Follows all bytes in pieces of this size; no call may go beyond a field section. */
static http3_frames follow(const text *from, size_t piece)
{
    http3_frames frames = {0};
    for (size_t at = 0; at < from->length;) {
        size_t length = from->length - at < piece ? from->length - at : piece;
        uint8_t *copy = malloc(length);
        CHECK(copy != NULL);
        memcpy(copy, from->bytes + at, length);
        uint32_t ended = frames.sections_ended;
        size_t taken = http3_frames_follow(&frames, copy, length);
        free(copy);
        CHECK(taken > 0 && taken <= length && frames.sections_ended <= ended + 1);
        at += taken;
    }
    return frames;
}

void frames_in_pieces(uintptr_t argument)
{
    (void)argument;
    text all = {.length = 0};
    put(&all, "\x21\x00", 2);               /* of an unknown type, empty */
    put(&all, "\x40\x21\x03xyz", 6);        /* the same, with a long type */
    put_section(&all);                      /* a head */
    put(&all, "\x00\x05hello", 7);          /* DATA */
    put(&all, "\x00\x80\x00\x00\x02hi", 7); /* the same, with a long length */
    put(&all, "\x00\x00", 2);               /* and empty */
    put_section(&all);                      /* trailers */
    for (size_t piece = 1; piece <= all.length; piece++) {
        http3_frames frames = follow(&all, piece);
        CHECK_EQ(frames.sections_ended, 2);
        CHECK_EQ(frames.lines[HTTP_SECTION_HEAD], LINES);
        CHECK_EQ(frames.lines[HTTP_SECTION_TRAILERS], LINES);
        CHECK_EQ(frames.body, 7);
        CHECK_EQ(frames.passed, 7);
        CHECK(http3_frames_is_between(&frames) && !http3_frames_in_section(&frames));
    }
    /* Incomplete at every position: never between two frames within one. */
    text part = {.length = 0};
    put_section(&part);
    for (size_t length = 1; length < part.length; length++) {
        text some = part;
        some.length = length;
        http3_frames frames = follow(&some, 7);
        CHECK_EQ(frames.sections_ended, 0);
        CHECK(!http3_frames_is_between(&frames));
        CHECK_EQ(http3_frames_in_section(&frames), length >= 3);
    }
}

/* Empty field sections, and integers beyond all limits: libnghttp3 refuses those, and the counts stay bounded. */
void frames_at_limits(uintptr_t argument)
{
    (void)argument;
    text all = {.length = 0};
    put(&all, "\x01\x00\x01\x00", 4);
    http3_frames frames = follow(&all, 1);
    CHECK_EQ(frames.sections_ended, 2);
    CHECK_EQ(frames.section, HTTP_SECTION_TRAILERS);
    /* A value of more than 2^32 bytes. */
    all.length = 0;
    put(&all, "\x01\x3f\x00\x00\x51\x7f\xff\xff\xff\xff\xff\xff\x01v", 14);
    frames = follow(&all, 1);
    CHECK_EQ(frames.part, HTTP3_PART_VALUE);
    CHECK_EQ(frames.value, UINT32_MAX - 1);
    /* DATA frames whose lengths exceed 2^64 together. */
    all.length = 0;
    put(&all, "\x00\xff\xff\xff\xff\xff\xff\xff\xff", 9);
    frames = follow(&all, 1);
    CHECK_EQ(frames.body, (UINT64_C(1) << 62) - 1);
    frames.body = UINT64_MAX - 2;
    frames.part = HTTP3_PART_TYPE;
    frames.left = frames.more = 0;
    CHECK_EQ(http3_frames_follow(&frames, (const uint8_t *)"\x00\x09", 2), 2);
    CHECK_EQ(frames.body, UINT64_MAX);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Memory */

enum { BLOCKS = 60 };

typedef struct block {
    uint8_t *bytes;
    size_t size;
    uint8_t fill;
} block;

static void check_block(const block *b)
{
    for (size_t i = 0; i < b->size; i++)
        CHECK_EQ(b->bytes[i], b->fill);
}

static size_t draw_size(uint64_t *random)
{
    static const size_t most[] = {16, 100, 1000, 5000, 70000, 300000};
    return 1 + harness_random(random) % most[harness_random(random) % 6];
}

/* Blocks of all sizes, of two connections, which are packed now and then. */
void memory_blocks(uintptr_t argument)
{
    (void)argument;
    uint64_t random = harness_first_seed();
    http3_cells cells = {0};
    http3_memory memory[2] = {{0}, {0}};
    block blocks[2][BLOCKS] = {{{0}}};
    uint32_t packed = 0;
    http3_memory_begin(&memory[0], &cells);
    http3_memory_begin(&memory[1], &cells);
    for (unsigned round = 0; round < harness_rounds(600); round++) {
        unsigned which = harness_random(&random) % 2;
        http3_memory *m = &memory[which];
        block *b = &blocks[which][harness_random(&random) % BLOCKS];
        uint8_t fill = (uint8_t)round;
        uint8_t *bytes;
        size_t size = draw_size(&random);
        switch (harness_random(&random) % 5) {
        case 0:
            http3_memory_free(m, b->bytes);
            *b = (block){.bytes = NULL};
            break;
        case 1:
            http3_memory_free(m, b->bytes);
            *b = (block){.bytes = http3_memory_alloc(m, size), .size = size, .fill = fill};
            CHECK(b->bytes != NULL);
            memset(b->bytes, fill, size);
            break;
        case 2:
            http3_memory_free(m, b->bytes);
            *b = (block){.bytes = http3_memory_alloc_zeroed(m, size), .size = size};
            CHECK(b->bytes != NULL);
            check_block(b);
            break;
        case 3:
            bytes = http3_memory_realloc(m, b->bytes, size);
            CHECK(bytes != NULL);
            b->bytes = bytes;
            b->size = b->size < size ? b->size : size; /* these bytes are kept */
            check_block(b);
            b->size = size;
            b->fill = fill;
            memset(bytes, fill, size);
            break;
        default:
            if (http3_memory_pack(m)) {
                packed++;
                CHECK(m->packed != NULL && !http3_memory_pack(m));
                http3_memory_unpack(m);
                CHECK(m->packed == NULL);
            }
            for (int i = 0; i < BLOCKS; i++)
                check_block(&blocks[which][i]);
        }
    }
    CHECK(!HTTP3_HAS_CELLS || packed > 0);
    /* Half of the blocks are left: the end frees them. */
    for (int i = 0; i < BLOCKS; i += 2) {
        http3_memory_free(&memory[0], blocks[0][i].bytes);
        http3_memory_free(&memory[1], blocks[1][i].bytes);
    }
    CHECK(memory[0].bytes > 0);
    http3_memory_end(&memory[0], &cells);
    http3_memory_end(&memory[1], &cells);
    /* The cells are used again. */
    http3_memory_begin(&memory[0], &cells);
    uint8_t *again = http3_memory_alloc_zeroed(&memory[0], 5000);
    CHECK(again != NULL);
    for (size_t i = 0; i < 5000; i++)
        CHECK_EQ(again[i], 0);
    CHECK(http3_memory_realloc(&memory[0], NULL, 10) != NULL);
    http3_memory_end(&memory[0], &cells);
    http3_cells_free(&cells);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Credentials */

void credentials_refused(uintptr_t argument)
{
    static const uint8_t bad[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    (void)argument;
    http3_credentials *credentials = http3_credentials_new();
    CHECK(credentials != NULL);
    int error = http3_credentials_add(credentials, bad, sizeof bad - 1, bad, sizeof bad - 1, "a.test", 7);
    CHECK_LT(error, 0);
    CHECK_GT(strlen(http3_error_text(error)), 0);
    http3_credentials_free(credentials);
    http3_credentials_free(NULL);
    char text[100];
    http3_libraries(text, sizeof text);
    CHECK(strstr(text, "ngtcp2 ") != NULL && strstr(text, "nghttp3 ") != NULL && strstr(text, "GnuTLS ") != NULL);
}

/* ------------------------------------------------------------------------------------------------------------------
 * 0-RTT */

/* A record is used from the hour after that in which it was made, and for no more than three hours. */
void early_records(uintptr_t argument)
{
    static const uint64_t hour = 3600 * HTTP3_SECOND;
    (void)argument;
    http3_early early = {0};
    gnutls_session_t session;
    CHECK_EQ(gnutls_init(&session, GNUTLS_SERVER | GNUTLS_ENABLE_EARLY_DATA), 0);
    http3_early_note(&early, hour);
    gnutls_anti_replay_t first = early.next;
    CHECK(first != NULL && early.current == NULL);
    http3_early_protect(&early, session, 2 * hour - 1);
    CHECK(early.next == first && early.current == NULL);
    http3_early_note(&early, 2 * hour);
    CHECK(early.current == first && early.current_since == hour);
    gnutls_anti_replay_t second = early.next;
    CHECK(second != NULL && second != first);
    http3_early_protect(&early, session, 3 * hour - 1);
    CHECK(early.current == first && early.next == second);
    /* The first one is freed. */
    http3_early_protect(&early, session, 3 * hour);
    CHECK(early.current == second && early.current_since == 2 * hour);
    /* After a long pause the newest one is too old, too. */
    http3_early_protect(&early, session, 30 * hour);
    CHECK_EQ(early.current_since, 3 * hour);
    CHECK_EQ(early.next_since, 30 * hour);
    gnutls_deinit(session);
    http3_early_close(&early);
    CHECK(early.current == NULL && early.next == NULL && early.seen == NULL);
    http3_early_close(&early);
}
