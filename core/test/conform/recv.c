/* recv.c: MR_RECV. */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>

static void takes_what_is_there(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[100] = {0};
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    write_all(pair[1], "hello", 5);
    mr_completion completion = perform(d, recv_request(handle, buffer, sizeof buffer));
    CHECK_EQ(completion.result, 5);
    CHECK_EQ(completion.transferred, 5);
    CHECK_MEMORY(buffer, "hello", 6);
    close(pair[1]);
    CHECK_EQ(perform(d, close_request(handle)).result, 0);
    driver_free(d);
}

static void waits_for_bytes(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[100];
    tcp_pair(pair);
    mr_token token = start(d, recv_request(adopt(d, pair[0]), buffer, sizeof buffer));
    CHECK_STAYS_PENDING(d, token);
    write_all(pair[1], "later", 5);
    CHECK_EQ(finish(d, token).result, 5);
    CHECK_MEMORY(buffer, "later", 5);
    driver_free(d);
}

static void does_not_exceed_the_buffer(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[8] = "--------";
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    write_all(pair[1], "abcdef", 6);
    CHECK_EQ(perform(d, recv_request(handle, buffer, 4)).result, 4);
    CHECK_MEMORY(buffer, "abcd----", 8);
    CHECK_EQ(perform(d, recv_request(handle, buffer, 4)).result, 2);
    CHECK_MEMORY(buffer, "efcd----", 8);
    driver_free(d);
}

/* A full read says nothing about emptiness, a short one may: both must find what comes after. */
static void finds_all_bytes_by_reads_of(size_t read_size)
{
    enum { TOTAL = 10000 };
    driver *d = driver_new();
    int pair[2];
    unsigned char sent[TOTAL], buffer[4096];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill_pattern(sent, 0, TOTAL);
    size_t position = 0, written = 0;
    uint64_t random = 7;
    while (position < TOTAL) {
        mr_completion completion;
        bool is_pending = submit(d, recv_request(handle, buffer, read_size), &completion);
        size_t size = harness_random(&random) % 700;
        size = size < TOTAL - written ? size : TOTAL - written;
        write_all(pair[1], sent + written, size);
        written += size;
        if (is_pending && written == position)
            write_all(pair[1], sent + written++, 1);
        if (is_pending)
            completion = finish(d, completion.token);
        CHECK_GT(completion.result, 0);
        check_pattern(buffer, position, (size_t)completion.result);
        position += (size_t)completion.result;
    }
    driver_free(d);
}

static void finds_all_bytes_by_small_reads(void)
{
    finds_all_bytes_by_reads_of(64);
}

static void finds_all_bytes_by_large_reads(void)
{
    finds_all_bytes_by_reads_of(4096);
}

static void a_full_read_is_followed_by_more(void)
{
    driver *d = driver_new();
    int pair[2];
    unsigned char sent[3000], buffer[1000];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill_pattern(sent, 0, sizeof sent);
    mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
    write_all(pair[1], sent, sizeof sent);
    CHECK_EQ(finish(d, token).result, 1000);
    check_pattern(buffer, 0, 1000);
    for (uint64_t position = 1000; position < sizeof sent; position += 1000) {
        CHECK_EQ(perform(d, recv_request(handle, buffer, sizeof buffer)).result, 1000);
        check_pattern(buffer, position, 1000);
    }
    driver_free(d);
}

static void end_of_stream_is_zero_every_time(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[10];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
    close(pair[1]);
    CHECK_EQ(finish(d, token).result, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(perform(d, recv_request(handle, buffer, sizeof buffer)).result, 0);
    driver_free(d);
}

/* Bytes and the end in one edge: a short read that concluded "empty now" would wait for ever for the end. */
static void bytes_and_end_may_come_together(void)
{
    for (int round = 0; round < 50; round++) {
        driver *d = driver_new();
        int pair[2];
        char buffer[100];
        if (round % 2)
            tcp_pair(pair);
        else
            unix_pair(pair);
        mr_handle handle = adopt(d, pair[0]);
        mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
        poll_once(d);
        write_all(pair[1], "last", 4);
        close(pair[1]);
        sleep_ms(1);
        CHECK_EQ(finish(d, token).result, 4);
        CHECK_EQ(perform(d, recv_request(handle, buffer, sizeof buffer)).result, 0);
        CHECK_EQ(perform(d, close_request(handle)).result, 0);
        driver_free(d);
    }
}

/* The end arrives right after a short read that had emptied the socket. */
static void end_after_a_short_read_is_seen(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[100];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    for (int i = 0; i < 3; i++) {
        mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
        write_all(pair[1], "x", 1);
        CHECK_EQ(finish(d, token).result, 1);
    }
    shutdown(pair[1], SHUT_WR);
    sleep_ms(2);
    CHECK_EQ(perform(d, recv_request(handle, buffer, sizeof buffer)).result, 0);
    driver_free(d);
}

static void urgent_data_does_not_hide_bytes(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[100];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
    poll_once(d);
    write_all(pair[1], "abc", 3);
    CHECK_EQ(MUST(send(pair[1], "!", 1, MSG_OOB)), 1);
    write_all(pair[1], "def", 3);
    sleep_ms(2);
    /* The kernel stops a read at the mark (tcp(7), "SO_OOBINLINE"). */
    CHECK_EQ(finish(d, token).result, 3);
    CHECK_EQ(perform(d, recv_request(handle, buffer, sizeof buffer)).result, 3);
    CHECK_MEMORY(buffer, "def", 3);
    driver_free(d);
}

static void peer_reset_is_an_error(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[10];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
    poll_once(d);
    reset(pair[1]);
    CHECK_EQ(finish(d, token).result, -ECONNRESET);
    driver_free(d);
}

static void now_does_not_wait(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[10];
    mr_completion completion;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK(!submit(d, with_flags(recv_request(handle, buffer, sizeof buffer), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    write_all(pair[1], "abc", 3);
    CHECK(!submit(d, with_flags(recv_request(handle, buffer, sizeof buffer), MR_NOW), &completion));
    CHECK_EQ(completion.result, 3);
    CHECK_EQ(completion.transferred, 3);
    close(pair[1]);
    CHECK(!submit(d, with_flags(recv_request(handle, buffer, sizeof buffer), MR_NOW), &completion));
    CHECK_EQ(completion.result, 0);
    driver_free(d);
}

/* Taking bytes by MR_NOW behind a pending receive must not make the pending one miss what comes later. */
static void now_beside_a_pending_receive(void)
{
    driver *d = driver_new();
    int pair[2];
    char first[10], second[10];
    mr_completion completion;
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, first, sizeof first));
    poll_once(d);
    for (int i = 0; i < 100 && !has_arrived(d, token); i++) {
        write_all(pair[1], "x", 1);
        submit(d, with_flags(recv_request(handle, second, sizeof second), MR_NOW), &completion);
        CHECK(completion.result == 1 || completion.result == -EAGAIN);
        poll_once(d);
    }
    write_all(pair[1], "x", 1);
    CHECK_GE(finish(d, token).result, 1);
    driver_free(d);
}

static void two_receives_share_a_socket(void)
{
    driver *d = driver_new();
    int pair[2];
    char first[1], second[1];
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token first_token = start(d, recv_request(handle, first, 1));
    mr_token second_token = start(d, recv_request(handle, second, 1));
    write_all(pair[1], "a", 1);
    run_for_ms(d, 20);
    CHECK_EQ(has_arrived(d, first_token) + has_arrived(d, second_token), 1);
    write_all(pair[1], "b", 1);
    CHECK_EQ(finish(d, first_token).result, 1);
    CHECK_EQ(finish(d, second_token).result, 1);
    CHECK((first[0] == 'a' && second[0] == 'b') || (first[0] == 'b' && second[0] == 'a'));
    driver_free(d);
}

static void one_edge_serves_many_receives(void)
{
    enum { COUNT = 100 };
    driver *d = driver_new();
    int pair[2];
    unsigned char bytes[COUNT], seen[256] = {0}, sent[COUNT];
    mr_token tokens[COUNT];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    for (int i = 0; i < COUNT; i++) {
        tokens[i] = start(d, recv_request(handle, &bytes[i], 1));
        sent[i] = (unsigned char)i;
    }
    poll_once(d);
    write_all(pair[1], sent, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(finish(d, tokens[i]).result, 1);
        CHECK_EQ(seen[bytes[i]]++, 0);
    }
    driver_free(d);
}

static void receive_and_send_do_not_disturb_each_other(void)
{
    driver *d = driver_new();
    int pair[2];
    char in[10], out[1 << 16] = {0};
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill(pair[0]);
    mr_token receiving = start(d, recv_request(handle, in, sizeof in));
    mr_token sending = start(d, send_request(handle, out, sizeof out));
    CHECK_STAYS_PENDING(d, receiving);
    CHECK(!has_arrived(d, sending));
    drain(pair[1]);
    CHECK_GT(finish(d, sending).result, 0);
    CHECK_STAYS_PENDING(d, receiving);
    write_all(pair[1], "in", 2);
    CHECK_EQ(finish(d, receiving).result, 2);
    driver_free(d);
}

static void the_buffer_is_untouched_after_the_end(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[4] = "----";
    unix_pair(pair);
    mr_token token = start(d, recv_request(adopt(d, pair[0]), buffer, sizeof buffer));
    poll_once(d);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    write_all(pair[1], "late", 4);
    run_for_ms(d, 10);
    CHECK_MEMORY(buffer, "----", 4);
    driver_free(d);
}

/* ---------------------------------------------------------------------------------- cancellation loses no byte --- */

typedef struct steady_sender {
    int descriptor;
    atomic_bool stop;
    uint64_t sent;
    uint64_t seed;
} steady_sender;

static void *send_steadily(void *argument)
{
    steady_sender *sender = argument;
    unsigned char chunk[512];
    set_blocking(sender->descriptor);
    while (!atomic_load(&sender->stop)) {
        size_t size = harness_random(&sender->seed) % sizeof chunk + 1;
        fill_pattern(chunk, sender->sent, size);
        write_all(sender->descriptor, chunk, size);
        sender->sent += size;
        for (volatile uint32_t i = harness_random(&sender->seed) % 4000; i > 0; i--)
            ;
        if (harness_random(&sender->seed) % 2 == 0)
            usleep(harness_random(&sender->seed) % 100);
    }
    shutdown(sender->descriptor, SHUT_WR);
    return NULL;
}

typedef enum interruption { BY_CANCEL, BY_DEADLINE, BY_UPDATE } interruption;

/* Receives, ending each operation at a random moment. The result is -1 if it was interrupted. */
static mr_completion interrupted_receive(driver *d, mr_request request, interruption how, uint64_t *random)
{
    mr_completion completion;
    uint64_t moment_ns = harness_random(random) % 40000;
    if (how == BY_DEADLINE)
        request.deadline_ns = mr_clock_now_ns() + moment_ns;
    if (submit(d, request, &completion)) {
        mr_token token = completion.token;
        uint64_t until_ns = mr_clock_now_ns() + moment_ns;
        if (harness_random(random) % 2)
            poll_once(d);
        while (how != BY_DEADLINE && mr_clock_now_ns() < until_ns)
            ;
        if (how == BY_CANCEL)
            mr_loop_cancel(driver_loop(d), token);
        if (how == BY_UPDATE)
            mr_loop_update(driver_loop(d), token, 1);
        completion = finish(d, token);
    }
    if (completion.result < 0) {
        CHECK_EQ(completion.result, how == BY_CANCEL ? -ECANCELED : -ETIMEDOUT);
        CHECK_EQ(completion.transferred, 0);
        CHECK(!completion.buffer);
        completion.result = -1;
    }
    return completion;
}

/* Checks what was received, wherever it is, and returns how many bytes it was. */
static uint64_t take_pattern(driver *d, const mr_completion *completion, const unsigned char *buffer, uint64_t position)
{
    check_pattern(completion->buffer ? completion->buffer->bytes : buffer, position, (size_t)completion->result);
    if (completion->buffer)
        mr_loop_give_back(driver_loop(d), completion->buffer);
    return (uint64_t)completion->result;
}

typedef enum destination { INTO_BUFFER, INTO_VECTOR, INTO_LENT } destination;

static void interruptions_lose_no_byte(interruption how, destination where)
{
    driver *d = driver_new();
    int pair[2];
    unsigned char buffer[1024];
    struct iovec elements[2] = {{buffer, 100}, {buffer + 100, sizeof buffer - 100}};
    uint64_t position = 0, random = 11 + (unsigned)how;
    unsigned interrupted = 0, rounds = harness_rounds(20000);
    pthread_t thread;
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    steady_sender sender = {.descriptor = pair[1], .seed = 3};
    CHECK_EQ(pthread_create(&thread, NULL, send_steadily, &sender), 0);
    mr_request request = where == INTO_VECTOR ? vector_request(MR_RECV_VECTOR, handle, elements, 2)
                         : where == INTO_LENT ? lent_request(handle, sizeof buffer)
                                              : recv_request(handle, buffer, sizeof buffer);
    mr_completion completion;
    for (unsigned round = 0; round < rounds; round++) {
        completion = interrupted_receive(d, request, how, &random);
        CHECK_NE(completion.result, 0);
        if (completion.result < 0)
            interrupted++;
        else
            position += take_pattern(d, &completion, buffer, position);
    }
    atomic_store(&sender.stop, true);
    while ((completion = perform(d, request)).result > 0)
        position += take_pattern(d, &completion, buffer, position);
    CHECK_EQ(completion.result, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(position, sender.sent);
    /* Otherwise the rounds tested nothing. */
    CHECK_GT(interrupted, rounds / 50);
    CHECK_GT(rounds - interrupted, rounds / 50);
    driver_free(d);
}

static void cancel_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_CANCEL, INTO_BUFFER);
}

static void cancel_of_a_vector_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_CANCEL, INTO_VECTOR);
}

static void cancel_of_a_lent_receive_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_CANCEL, INTO_LENT);
}

static void deadline_of_a_lent_receive_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_DEADLINE, INTO_LENT);
}

static void deadline_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_DEADLINE, INTO_BUFFER);
}

static void moved_deadline_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_UPDATE, INTO_BUFFER);
}

const conform_case recv_cases[] = {
    CASE(takes_what_is_there),
    CASE(waits_for_bytes),
    CASE(does_not_exceed_the_buffer),
    CASE(finds_all_bytes_by_small_reads),
    CASE(finds_all_bytes_by_large_reads),
    CASE(a_full_read_is_followed_by_more),
    CASE(end_of_stream_is_zero_every_time),
    CASE(bytes_and_end_may_come_together),
    CASE(end_after_a_short_read_is_seen),
    CASE(urgent_data_does_not_hide_bytes),
    CASE(peer_reset_is_an_error),
    CASE(now_does_not_wait),
    CASE(now_beside_a_pending_receive),
    CASE(two_receives_share_a_socket),
    CASE(one_edge_serves_many_receives),
    CASE(receive_and_send_do_not_disturb_each_other),
    CASE(the_buffer_is_untouched_after_the_end),
    CASE(cancel_loses_no_byte),
    CASE(cancel_of_a_vector_loses_no_byte),
    CASE(cancel_of_a_lent_receive_loses_no_byte),
    CASE(deadline_of_a_lent_receive_loses_no_byte),
    CASE(deadline_loses_no_byte),
    CASE(moved_deadline_loses_no_byte),
    {0},
};
