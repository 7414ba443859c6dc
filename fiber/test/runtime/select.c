/* select.c: the first of several things. */
#include "runtime_test.h"

#include <sys/socket.h>

typedef struct things {
    mr_channel *one, *other;
    mr_event *event;
    int sockets[2];
} things;

static things new_things(void)
{
    things t;
    CHECK_EQ(mr_channel_create(&t.one, sizeof(int), 1), 0);
    CHECK_EQ(mr_channel_create(&t.other, sizeof(int), 1), 0);
    CHECK_EQ(mr_event_create(&t.event), 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, t.sockets));
    return t;
}

static void destroy_things(things *t)
{
    mr_channel_destroy(t->one);
    mr_channel_destroy(t->other);
    mr_event_destroy(t->event);
    close(t->sockets[0]);
    close(t->sockets[1]);
}

enum { RECEIVE_ONE, RECEIVE_OTHER, EVENT, READABLE, CASES };

static int select_all(things *t, int *item, uint64_t deadline_ns)
{
    mr_case cases[CASES] = {
        [RECEIVE_ONE] = {.kind = MR_CASE_RECEIVE, .channel = t->one, .item = item},
        [RECEIVE_OTHER] = {.kind = MR_CASE_RECEIVE, .channel = t->other, .item = item},
        [EVENT] = {.kind = MR_CASE_EVENT, .event = t->event},
        [READABLE] = {.kind = MR_CASE_READABLE, .descriptor = t->sockets[0]},
    };
    int index = mr_select(cases, CASES, deadline_ns);
    if (index >= 0)
        CHECK_EQ(cases[index].result, 0);
    return index;
}

static void *each_can_be_first(void *argument)
{
    things t = new_things();
    int item = 1, got = 0;
    CHECK_EQ(select_all(&t, &got, in_ms(5)), -ETIMEDOUT);
    CHECK_EQ(mr_channel_try_send(t.one, &item), 0);
    CHECK_EQ(select_all(&t, &got, far_deadline()), RECEIVE_ONE);
    CHECK_EQ(got, 1);
    item = 2;
    CHECK_EQ(mr_channel_try_send(t.other, &item), 0);
    CHECK_EQ(select_all(&t, &got, far_deadline()), RECEIVE_OTHER);
    CHECK_EQ(got, 2);
    mr_event_set(t.event);
    CHECK_EQ(select_all(&t, &got, far_deadline()), EVENT);
    mr_event_reset(t.event);
    MUST(send(t.sockets[1], "x", 1, 0));
    CHECK_EQ(select_all(&t, &got, far_deadline()), READABLE);
    destroy_things(&t);
    return argument;
}

static void each_can_be_first_on_a_fiber(void)
{
    on_fiber(each_can_be_first, NULL);
}

static void each_can_be_first_on_a_thread(void)
{
    each_can_be_first(NULL);
}

typedef struct late {
    things *t;
    int which;
} late;

static void *cause(void *argument)
{
    late *l = argument;
    int item = 40 + l->which;
    CHECK_EQ(mr_fiber_sleep(5 * NS_PER_MS), 0);
    if (l->which == RECEIVE_ONE)
        CHECK_EQ(mr_channel_send(l->t->one, &item, far_deadline()), 0);
    else if (l->which == RECEIVE_OTHER)
        CHECK_EQ(mr_channel_send(l->t->other, &item, far_deadline()), 0);
    else if (l->which == EVENT)
        mr_event_set(l->t->event);
    else
        MUST(send(l->t->sockets[1], "x", 1, 0));
    return NULL;
}

static void *wait_for_each(void *argument)
{
    for (int which = 0; which < CASES; which++) {
        things t = new_things();
        late l = {&t, which};
        int got = 0;
        mr_fiber *causer = spawn(cause, &l);
        CHECK_EQ(select_all(&t, &got, far_deadline()), which);
        if (which <= RECEIVE_OTHER)
            CHECK_EQ(got, 40 + which);
        join(causer);
        destroy_things(&t);
    }
    return argument;
}

static void each_can_come_later(void)
{
    start_carriers(2);
    on_fiber(wait_for_each, NULL);
    wait_for_each(NULL);
}

static void *watch_bad_descriptor(void *argument)
{
    mr_case c = {.kind = MR_CASE_READABLE, .descriptor = 12345};
    CHECK_EQ(mr_select(&c, 1, far_deadline()), 0);
    CHECK_EQ(c.result, -EBADF);
    return argument;
}

static void errors(void)
{
    mr_case c = {.kind = MR_CASE_RECEIVE};
    CHECK_EQ(mr_select(&c, 0, MR_NO_DEADLINE), -EINVAL);
    CHECK_EQ(mr_select(&c, MR_CASES_MAX + 1, MR_NO_DEADLINE), -EINVAL);
    CHECK_EQ(mr_channel_create(&c.channel, 1, 1), 0);
    mr_channel_close(c.channel);
    CHECK_EQ(mr_select(&c, 1, far_deadline()), 0);
    CHECK_EQ(c.result, -EPIPE);
    mr_channel_destroy(c.channel);
    on_fiber(watch_bad_descriptor, NULL);
}

/* Among several that are ready none is preferred for ever. */
static void all_ready_ones_get_their_turn(void)
{
    things t = new_things();
    int item = 0, got = 0, counts[CASES] = {0};
    mr_event_set(t.event);
    for (int i = 0; i < 300; i++) {
        mr_channel_try_send(t.one, &item);
        mr_channel_try_send(t.other, &item);
        mr_case cases[] = {{.kind = MR_CASE_RECEIVE, .channel = t.one, .item = &got},
                           {.kind = MR_CASE_RECEIVE, .channel = t.other, .item = &got},
                           {.kind = MR_CASE_EVENT, .event = t.event}};
        int index = mr_select(cases, 3, far_deadline());
        CHECK_GE(index, 0);
        counts[index]++;
    }
    for (int i = 0; i < 3; i++)
        CHECK_GE(counts[i], 30);
    destroy_things(&t);
}

/* ------------------------------------------------------------------------------------------------------- stress --- */

typedef struct traffic {
    mr_channel *channels[3];
    int items;
    atomic_ullong sent, received;
} traffic;

static void *send_somewhere(void *argument)
{
    traffic *t = argument;
    for (int i = 1; i <= t->items; i++) {
        int values[3] = {i, i, i};
        mr_case cases[3];
        for (int j = 0; j < 3; j++)
            cases[j] = (mr_case){.kind = MR_CASE_SEND, .channel = t->channels[j], .item = &values[j]};
        int index = mr_select(cases, 3, far_deadline());
        CHECK_GE(index, 0);
        CHECK_EQ(cases[index].result, 0);
        atomic_fetch_add(&t->sent, (unsigned)i);
    }
    return NULL;
}

static void *receive_anywhere(void *argument)
{
    traffic *t = argument;
    for (;;) {
        int values[3];
        mr_case cases[3];
        for (int j = 0; j < 3; j++)
            cases[j] = (mr_case){.kind = MR_CASE_RECEIVE, .channel = t->channels[j], .item = &values[j]};
        int index = mr_select(cases, 3, far_deadline());
        CHECK_GE(index, 0);
        if (cases[index].result == -EPIPE)
            return NULL;
        atomic_fetch_add(&t->received, (unsigned)values[index]);
    }
}

/* Selects that meet selects, on three carriers: every item arrives once. */
static void senders_and_receivers_that_both_select(void)
{
    traffic t = {.items = (int)harness_rounds(2000)};
    mr_fiber *senders[4], *receivers[4];
    int left;
    start_carriers(3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(mr_channel_create(&t.channels[i], sizeof(int), 1), 0);
    for (int i = 0; i < 4; i++) {
        senders[i] = spawn(send_somewhere, &t);
        receivers[i] = spawn(receive_anywhere, &t);
    }
    for (int i = 0; i < 4; i++)
        join(senders[i]);
    for (int i = 0; i < 3; i++)
        mr_channel_close(t.channels[i]);
    for (int i = 0; i < 4; i++)
        join(receivers[i]);
    for (int i = 0; i < 3; i++) {
        while (mr_channel_try_receive(t.channels[i], &left) == 0)
            t.received += (unsigned)left;
        mr_channel_destroy(t.channels[i]);
    }
    CHECK_EQ(t.received, t.sent);
    CHECK_EQ(mr_carriers_stop(), 0);
}

const fiber_case select_cases[] = {
    CASE(each_can_be_first_on_a_fiber),
    CASE(each_can_be_first_on_a_thread),
    CASE(each_can_come_later),
    CASE(errors),
    CASE(all_ready_ones_get_their_turn),
    CASE(senders_and_receivers_that_both_select),
    {0},
};
