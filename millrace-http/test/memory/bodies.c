/* bodies.c - bodies that wait in pieces (http_body.h), and memory for requests (http_memory.h). Must not know:
 * sockets. */
#include "memory_test.h"

#include "http_body.h"
#include "http_memory.h"

#include <pthread.h>

/* Bodies ********************************************************************************************************** */

/* A body, and what must be in it: the bytes of a sequence from `first` to `last`, of which those before `given` were
 * given out. */
typedef struct model {
    http_body body;
    uint64_t first, given, last;
} model;

static uint8_t byte_at(uint64_t position)
{
    return (uint8_t)(position * 7 + position / 253);
}

static void check(const model *m)
{
    CHECK_EQ(m->body.length, m->last - m->first);
    CHECK_EQ(m->body.ungiven, m->last - m->given);
    CHECK_EQ(m->body.first == NULL, m->body.last == NULL);
    uint64_t position = m->first;
    for (const http_piece *piece = m->body.first; piece; piece = piece->next) {
        CHECK(piece->start <= piece->given && piece->given <= piece->end && piece->end <= piece->capacity);
        for (uint32_t i = piece->start; i < piece->end; i++)
            CHECK_EQ(piece->bytes[i], byte_at(position++));
        CHECK_EQ(piece->next == NULL, piece == m->body.last);
    }
    CHECK_EQ(position, m->last);
}

/* Appends bytes in one of the two ways. */
static void append(model *m, size_t length, uint32_t way)
{
    http_piece *piece = http_new_piece(length);
    CHECK(piece);
    for (size_t i = 0; i < length; i++)
        http_piece_bytes(piece)[i] = byte_at(m->last + i);
    if (way == 0) {
        http_body_append_piece(&m->body, piece, length);
    } else {
        int result = http_body_append(&m->body, http_piece_bytes(piece), length,
                                      way == 1 ? HTTP_MORE_FOLLOWS : HTTP_NOTHING_FOLLOWS);
        http_free_piece(piece);
        if (result != 0)
            length = 0; /* without memory nothing has changed */
    }
    m->last += length;
}

static size_t draw(uint64_t *random, size_t most)
{
    return harness_random(random) % (harness_random(random) % 3 == 0 ? most + 1 : most / 16 + 1);
}

/* A body that is received: it is only taken. */
void body_taken(uintptr_t unused)
{
    (void)unused;
    uint64_t random = harness_first_seed();
    model m = {0};
    for (unsigned round = 0; round < harness_rounds(4000); round++) {
        uint8_t taken[5000];
        if (harness_random(&random) % 2 == 0) {
            append(&m, 1 + draw(&random, 3000), harness_random(&random) % 3);
        } else {
            size_t wanted = draw(&random, sizeof taken), count = http_body_take(&m.body, taken, wanted);
            CHECK_EQ(count, m.last - m.first < wanted ? m.last - m.first : wanted);
            for (size_t i = 0; i < count; i++)
                CHECK_EQ(taken[i], byte_at(m.first + i));
            m.given = m.first += count;
        }
        check(&m);
    }
    http_body_clear(&m.body);
    CHECK(m.body.first == NULL && m.body.length == 0);
}

/* A body that is sent: given out, then dropped. The rest may be cut off. */
void body_given(uintptr_t unused)
{
    (void)unused;
    uint64_t random = harness_first_seed();
    model m = {0};
    for (unsigned round = 0; round < harness_rounds(8000); round++) {
        const uint8_t *bytes = NULL;
        uint64_t most = draw(&random, 4000), count;
        switch (harness_random(&random) % 8) {
        default:
            append(&m, 1 + draw(&random, 3000), harness_random(&random) % 3);
            break;
        case 3:
        case 4:
            count = http_body_give(&m.body, &bytes, most);
            CHECK(count <= most && (count > 0 || most == 0 || m.given == m.last));
            for (uint64_t i = 0; i < count; i++)
                CHECK_EQ(bytes[i], byte_at(m.given + i));
            m.given += count;
            break;
        case 5:
        case 6:
            count = most < m.given - m.first ? most : m.given - m.first;
            http_body_drop(&m.body, count);
            m.first += count;
            break;
        case 7:
            if (harness_random(&random) % 4 == 0) {
                http_body_cut(&m.body, most);
                m.last = m.last - m.given < most ? m.last : m.given + most;
            }
        }
        check(&m);
    }
    /* The end of a connection, with bytes in every state. */
    append(&m, 100, 0);
    append(&m, 100, 0);
    const uint8_t *bytes = NULL;
    m.given += http_body_give(&m.body, &bytes, 10);
    http_body_cut(&m.body, 0);
    m.last = m.given;
    check(&m);
    CHECK_EQ(http_body_give(&m.body, &bytes, 10), 0);
    http_body_clear(&m.body);
    check(&(model){.body = m.body});
}

/* Memory ********************************************************************************************************** */

static void fill_and_free(size_t size)
{
    enum { BLOCKS = 40 };
    uint8_t *blocks[BLOCKS];
    int count = (int)harness_rounds(BLOCKS);
    for (int i = 0; i < count; i++) {
        blocks[i] = i % 2 == 0 ? http_alloc(size) : http_alloc_zeroed(size);
        CHECK(blocks[i]);
        for (size_t at = 0; i % 2 == 1 && at < size; at++)
            CHECK_EQ(blocks[i][at], 0);
        memset(blocks[i], i + 1, size);
    }
    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < size; at++)
            CHECK_EQ(blocks[i][at], i + 1); /* no two of them overlap */
        http_free(blocks[i]);
    }
}

static void *use_blocks(void *unused)
{
    (void)unused;
    static const size_t sizes[] = {1,
                                   8,
                                   16,
                                   24,
                                   25,
                                   100,
                                   1000,
                                   1024,
                                   4096,
                                   16000,
                                   16520,
                                   20000,
                                   HTTP_OUTPUT_SIZE,
                                   HTTP_OUTPUT_SIZE + 1,
                                   sizeof(http_piece) + HTTP_FILE_PIECE};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            fill_and_free(sizes[i]);
    http_free(NULL);
    return NULL;
}

/* Blocks are used again, within a thread and after its end. */
void blocks_of_memory(uintptr_t unused)
{
    (void)unused;
    (void)use_blocks(NULL);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, use_blocks, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

/* It grows to twice its size, even where memory is short. Where there is none at all, what was there stays. */
void growing_memory(uintptr_t unused)
{
    (void)unused;
    enum { SMALL = 64, BIGGEST = 16384 };
    uint8_t *memory = NULL;
    for (size_t size = SMALL; size <= BIGGEST; size *= 2) {
        uint8_t *larger = http_grow(memory, size);
        if (!larger)
            break; /* only with a fault, and beyond what is reserved */
        for (size_t i = 0; i < size / 2 && memory; i++)
            CHECK_EQ(larger[i], byte_at(i));
        for (size_t i = 0; i < size; i++)
            larger[i] = byte_at(i);
        memory = larger;
    }
    CHECK(memory);
    for (size_t i = 0; i < SMALL; i++)
        CHECK_EQ(memory[i], byte_at(i));
    http_free_grown(memory);
    http_free_grown(NULL);
}
