/* channel.c: order, bounds, closing, passing items between fibers and threads. */
#include "runtime_test.h"

#include <pthread.h>

static mr_channel *new_channel(size_t capacity)
{
    mr_channel *channel;
    CHECK_EQ(mr_channel_create(&channel, sizeof(int), capacity), 0);
    return channel;
}

static void arguments(void)
{
    mr_channel *channel;
    CHECK_EQ(mr_channel_create(&channel, 0, 1), -EINVAL);
    CHECK_EQ(mr_channel_create(&channel, 1, 0), -EINVAL);
    CHECK_EQ(mr_channel_create(&channel, SIZE_MAX / 2, 4), -EINVAL);
}

static void order_and_bound(void)
{
    mr_channel *channel = new_channel(3);
    int item;
    CHECK_EQ(mr_channel_try_receive(channel, &item), -EAGAIN);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(mr_channel_try_send(channel, &i), 0);
    CHECK_EQ(mr_channel_try_send(channel, &item), -EAGAIN);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(mr_channel_receive(channel, &item, far_deadline()), 0);
        CHECK_EQ(item, i);
    }
    CHECK_EQ(mr_channel_try_receive(channel, &item), -EAGAIN);
    mr_channel_destroy(channel);
}

static void closing(void)
{
    mr_channel *channel = new_channel(2);
    int item = 5;
    CHECK_EQ(mr_channel_try_send(channel, &item), 0);
    mr_channel_close(channel);
    mr_channel_close(channel);
    CHECK_EQ(mr_channel_try_send(channel, &item), -EPIPE);
    CHECK_EQ(mr_channel_send(channel, &item, MR_NO_DEADLINE), -EPIPE);
    item = 0;
    CHECK_EQ(mr_channel_receive(channel, &item, MR_NO_DEADLINE), 0);
    CHECK_EQ(item, 5);
    CHECK_EQ(mr_channel_receive(channel, &item, MR_NO_DEADLINE), -EPIPE);
    CHECK_EQ(mr_channel_try_receive(channel, &item), -EPIPE);
    mr_channel_destroy(channel);
}

static void *receive_until_closed(void *argument)
{
    int item;
    return (void *)(intptr_t)mr_channel_receive(argument, &item, far_deadline());
}

static void *send_until_closed(void *argument)
{
    int item = 1;
    return (void *)(intptr_t)mr_channel_send(argument, &item, far_deadline());
}

static void closing_wakes_all(void)
{
    mr_channel *empty = new_channel(1), *full = new_channel(1);
    mr_fiber *fibers[20];
    int item = 0;
    start_carriers(2);
    CHECK_EQ(mr_channel_try_send(full, &item), 0);
    for (int i = 0; i < 20; i++)
        fibers[i] = i % 2 ? spawn(receive_until_closed, empty) : spawn(send_until_closed, full);
    CHECK_EQ(mr_fiber_sleep(20 * NS_PER_MS), 0);
    mr_channel_close(empty);
    mr_channel_close(full);
    for (int i = 0; i < 20; i++)
        CHECK_EQ((intptr_t)join(fibers[i]), -EPIPE);
    mr_channel_destroy(empty);
    mr_channel_destroy(full);
}

static void *time_out(void *argument)
{
    mr_channel *channel = argument;
    int item;
    uint64_t deadline_ns = in_ms(10);
    CHECK_EQ(mr_channel_receive(channel, &item, deadline_ns), -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    item = 3;
    CHECK_EQ(mr_channel_try_send(channel, &item), 0);
    deadline_ns = in_ms(10);
    CHECK_EQ(mr_channel_send(channel, &item, deadline_ns), -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    CHECK_EQ(mr_channel_try_receive(channel, &item), 0); /* the send that timed out has sent nothing */
    CHECK_EQ(mr_channel_try_receive(channel, &item), -EAGAIN);
    return NULL;
}

static void deadlines_on_fibers_and_threads(void)
{
    mr_channel *channel = new_channel(1);
    time_out(channel);
    on_fiber(time_out, channel);
    mr_channel_destroy(channel);
}

/* Two channels of one item size must not share what they hold. */
static void channels_are_apart(void)
{
    mr_channel *one = new_channel(1), *other = new_channel(1);
    int item = 1;
    CHECK_EQ(mr_channel_try_send(one, &item), 0);
    item = 2;
    CHECK_EQ(mr_channel_try_send(other, &item), 0);
    CHECK_EQ(mr_channel_try_receive(one, &item), 0);
    CHECK_EQ(item, 1);
    mr_channel_destroy(one);
    mr_channel_destroy(other);
}

/* ------------------------------------------------------------------------------------------------------- stress --- */

enum { SENDERS = 4, RECEIVERS = 4 };

typedef struct stress {
    mr_channel *channel;
    int items;
    atomic_uint received;
    atomic_ullong sum;
} stress;

static void *send_many(void *argument)
{
    stress *s = argument;
    for (int i = 1; i <= s->items; i++)
        CHECK_EQ(mr_channel_send(s->channel, &i, far_deadline()), 0);
    return NULL;
}

static void *receive_many(void *argument)
{
    stress *s = argument;
    int item, error;
    while (!(error = mr_channel_receive(s->channel, &item, far_deadline()))) {
        atomic_fetch_add(&s->received, 1);
        atomic_fetch_add(&s->sum, (unsigned)item);
    }
    CHECK_EQ(error, -EPIPE);
    return NULL;
}

static void nothing_is_lost_between_fibers_and_threads(void)
{
    stress s = {.channel = new_channel(5), .items = (int)harness_rounds(4000)};
    mr_fiber *senders[SENDERS], *receivers[RECEIVERS];
    pthread_t sending, receiving;
    start_carriers(3);
    for (int i = 0; i < RECEIVERS; i++)
        receivers[i] = spawn(receive_many, &s);
    CHECK_EQ(pthread_create(&receiving, NULL, receive_many, &s), 0);
    for (int i = 0; i < SENDERS; i++)
        senders[i] = spawn(send_many, &s);
    CHECK_EQ(pthread_create(&sending, NULL, send_many, &s), 0);
    for (int i = 0; i < SENDERS; i++)
        join(senders[i]);
    pthread_join(sending, NULL);
    mr_channel_close(s.channel);
    for (int i = 0; i < RECEIVERS; i++)
        join(receivers[i]);
    pthread_join(receiving, NULL);
    CHECK_EQ(s.received, (unsigned)s.items * (SENDERS + 1));
    CHECK_EQ(s.sum, (unsigned long long)s.items * (unsigned)(s.items + 1) / 2 * (SENDERS + 1));
    mr_channel_destroy(s.channel);
    CHECK_EQ(mr_carriers_stop(), 0);
}

const fiber_case channel_cases[] = {
    CASE(arguments),
    CASE(order_and_bound),
    CASE(closing),
    CASE(closing_wakes_all),
    CASE(deadlines_on_fibers_and_threads),
    CASE(channels_are_apart),
    CASE(nothing_is_lost_between_fibers_and_threads),
    {0},
};
