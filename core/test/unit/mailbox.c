/* mailbox.c: the many-to-one queue, also with many threads. */
#include "../../src/mailbox.h"
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static void letters_come_in_order(uintptr_t unused)
{
    mr_mailbox mailbox = {0};
    (void)unused;
    CHECK(mr_mailbox_is_empty(&mailbox));
    CHECK(mr_mailbox_take(&mailbox) == NULL);
    for (mr_token token = 1; token <= 100; token++)
        mr_mailbox_post(&mailbox, &(mr_message){.kind = MR_MESSAGE_CANCEL, .token = token, .deadline_ns = token * 2});
    CHECK(!mr_mailbox_is_empty(&mailbox));
    mr_message *message = mr_mailbox_take(&mailbox);
    CHECK(mr_mailbox_is_empty(&mailbox));
    for (mr_token token = 1; token <= 100; token++) {
        mr_message *next;
        CHECK(message != NULL);
        CHECK_EQ(message->kind, MR_MESSAGE_CANCEL);
        CHECK_EQ(message->token, token);
        CHECK_EQ(message->deadline_ns, token * 2);
        next = message->next;
        mr_mailbox_free(message);
        message = next;
    }
    CHECK(message == NULL);
}

static void a_letter_is_a_copy(uintptr_t unused)
{
    mr_mailbox mailbox = {0};
    mr_message original = {.kind = MR_MESSAGE_START, .token = 7, .request = {.length = 42}};
    (void)unused;
    mr_mailbox_post(&mailbox, &original);
    original.token = 8;
    original.request.length = 43;
    mr_message *message = mr_mailbox_take(&mailbox);
    CHECK_EQ(message->token, 7);
    CHECK_EQ(message->request.length, 42);
    CHECK(message->next == NULL);
    mr_mailbox_free(message);
}

enum { POSTERS = 4 };

typedef struct poster {
    mr_mailbox *mailbox;
    uint64_t number;
    uint64_t count;
} poster;

static void *post_many(void *argument)
{
    poster *p = argument;
    for (uint64_t i = 0; i < p->count; i++) {
        mr_mailbox_post(p->mailbox, &(mr_message){.token = p->number << 32 | i});
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

/* Every message arrives once, and those of one poster in their order. */
static void many_posters(uintptr_t unused)
{
    mr_mailbox mailbox = {0};
    poster posters[POSTERS];
    pthread_t threads[POSTERS];
    uint64_t expected[POSTERS] = {0}, count = harness_rounds(20000), received = 0;
    (void)unused;
    for (uint64_t i = 0; i < POSTERS; i++) {
        posters[i] = (poster){&mailbox, i, count};
        CHECK_EQ(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    NOTE_LINE();
    while (received < POSTERS * count) {
        for (mr_message *message = mr_mailbox_take(&mailbox), *next; message; message = next, received++) {
            uint64_t number = message->token >> 32;
            CHECK_LT(number, POSTERS);
            CHECK_EQ(message->token & UINT32_MAX, expected[number]++);
            next = message->next;
            mr_mailbox_free(message);
        }
    }
    for (int i = 0; i < POSTERS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK(mr_mailbox_is_empty(&mailbox));
}

const harness_test mailbox_tests[] = {
    UNIT(mailbox, letters_come_in_order),
    UNIT(mailbox, a_letter_is_a_copy),
    UNIT(mailbox, many_posters),
    {0},
};
