/* recv.c: MR_RECV. */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>

static void takes_what_is_there(void)
{
    connection c = local_connection();
    char buffer[100] = {0};
    write_all(c.peer, "hello", 5);
    mr_completion completion = perform(c.d, recv_request(c.handle, buffer, sizeof buffer));
    CHECK_EQ(completion.result, 5);
    CHECK_EQ(completion.transferred, 5);
    CHECK_MEMORY(buffer, "hello", 6);
    hang_up(c.peer);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    driver_free(c.d);
}

static void waits_for_bytes(void)
{
    connection c = tcp_connection();
    char buffer[100];
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "later", 5);
    CHECK_EQ(finish(c.d, token).result, 5);
    CHECK_MEMORY(buffer, "later", 5);
    driver_free(c.d);
}

static void does_not_exceed_the_buffer(void)
{
    connection c = local_connection();
    char buffer[8] = {'-', '-', '-', '-', '-', '-', '-', '-'};
    write_all(c.peer, "abcdef", 6);
    CHECK_EQ(perform(c.d, recv_request(c.handle, buffer, 4)).result, 4);
    CHECK_MEMORY(buffer, "abcd----", 8);
    CHECK_EQ(perform(c.d, recv_request(c.handle, buffer, 4)).result, 2);
    CHECK_MEMORY(buffer, "efcd----", 8);
    driver_free(c.d);
}

/* A short read may mean that the socket is empty, a full one does not: both must find later bytes. */
static void finds_all_bytes_by_reads_of(size_t read_size)
{
    enum { TOTAL = 10000 };
    connection c = tcp_connection();
    unsigned char sent[TOTAL], buffer[4096];
    fill_pattern(sent, 0, TOTAL);
    size_t position = 0, written = 0;
    uint64_t random = 7;
    while (position < TOTAL) {
        mr_completion completion;
        bool is_pending = submit(c.d, recv_request(c.handle, buffer, read_size), &completion);
        size_t size = harness_random(&random) % 700;
        size = size < TOTAL - written ? size : TOTAL - written;
        write_all(c.peer, sent + written, size);
        written += size;
        if (is_pending && written == position)
            write_all(c.peer, sent + written++, 1);
        if (is_pending)
            completion = finish(c.d, completion.token);
        CHECK_GT(completion.result, 0);
        check_pattern(buffer, position, (size_t)completion.result);
        position += (size_t)completion.result;
    }
    driver_free(c.d);
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
    connection c = tcp_connection();
    unsigned char sent[3000], buffer[1000];
    fill_pattern(sent, 0, sizeof sent);
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    write_all(c.peer, sent, sizeof sent);
    CHECK_EQ(finish(c.d, token).result, 1000);
    check_pattern(buffer, 0, 1000);
    for (uint64_t position = 1000; position < sizeof sent; position += 1000) {
        CHECK_EQ(perform(c.d, recv_request(c.handle, buffer, sizeof buffer)).result, 1000);
        check_pattern(buffer, position, 1000);
    }
    driver_free(c.d);
}

static void end_of_stream_is_zero_every_time(void)
{
    connection c = tcp_connection();
    char buffer[10];
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    hang_up(c.peer);
    CHECK_EQ(finish(c.d, token).result, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(perform(c.d, recv_request(c.handle, buffer, sizeof buffer)).result, 0);
    driver_free(c.d);
}

/* One edge reports bytes and the end: if a short read counted as emptying the socket, the loop would wait for ever for
 * the end. */
static void bytes_and_end_may_come_together(void)
{
    for (int round = 0; round < 50; round++) {
        driver *d = driver_new();
        int pair[2];
        char buffer[100];
        if (round % 2)
            tcp_pair(pair);
        else
            local_pair(pair);
        mr_handle handle = adopt(d, pair[0]);
        mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
        poll_once(d);
        write_all(pair[1], "last", 4);
        hang_up(pair[1]);
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
    connection c = tcp_connection();
    char buffer[100];
    for (int i = 0; i < 3; i++) {
        mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
        write_all(c.peer, "x", 1);
        CHECK_EQ(finish(c.d, token).result, 1);
    }
    end_stream(c.peer);
    sleep_ms(2);
    CHECK_EQ(perform(c.d, recv_request(c.handle, buffer, sizeof buffer)).result, 0);
    driver_free(c.d);
}

static void urgent_data_does_not_hide_bytes(void)
{
    connection c = tcp_connection();
    char buffer[100];
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    poll_once(c.d);
    write_all(c.peer, "abc", 3);
    write_urgent(c.peer, '!');
    write_all(c.peer, "def", 3);
    sleep_ms(2);
    /* The kernel stops a read at the mark (tcp(7), "SO_OOBINLINE"). */
    CHECK_EQ(finish(c.d, token).result, 3);
    CHECK_EQ(perform(c.d, recv_request(c.handle, buffer, sizeof buffer)).result, 3);
    CHECK_MEMORY(buffer, "def", 3);
    driver_free(c.d);
}

static void peer_reset_is_an_error(void)
{
    connection c = tcp_connection();
    char buffer[10];
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    poll_once(c.d);
    reset(c.peer);
    CHECK_EQ(finish(c.d, token).result, -ECONNRESET);
    driver_free(c.d);
}

static void now_does_not_wait(void)
{
    connection c = local_connection();
    char buffer[10];
    mr_completion completion;
    CHECK(!submit(c.d, with_flags(recv_request(c.handle, buffer, sizeof buffer), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    write_all(c.peer, "abc", 3);
    CHECK(!submit(c.d, with_flags(recv_request(c.handle, buffer, sizeof buffer), MR_NOW), &completion));
    CHECK_EQ(completion.result, 3);
    CHECK_EQ(completion.transferred, 3);
    hang_up(c.peer);
    CHECK(!submit(c.d, with_flags(recv_request(c.handle, buffer, sizeof buffer), MR_NOW), &completion));
    CHECK_EQ(completion.result, 0);
    driver_free(c.d);
}

/* If an MR_NOW receive takes bytes while another receive is pending, the pending one must still get later bytes. */
static void now_beside_a_pending_receive(void)
{
    connection c = tcp_connection();
    char first[10], second[10];
    mr_completion completion;
    mr_token token = start(c.d, recv_request(c.handle, first, sizeof first));
    poll_once(c.d);
    for (int i = 0; i < 100 && !has_arrived(c.d, token); i++) {
        write_all(c.peer, "x", 1);
        submit(c.d, with_flags(recv_request(c.handle, second, sizeof second), MR_NOW), &completion);
        CHECK(completion.result == 1 || completion.result == -EAGAIN);
        poll_once(c.d);
    }
    write_all(c.peer, "x", 1);
    CHECK_GE(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void two_receives_share_a_socket(void)
{
    connection c = local_connection();
    char first[1], second[1];
    mr_token first_token = start(c.d, recv_request(c.handle, first, 1));
    mr_token second_token = start(c.d, recv_request(c.handle, second, 1));
    write_all(c.peer, "a", 1);
    run_for_ms(c.d, 20);
    CHECK_EQ(has_arrived(c.d, first_token) + has_arrived(c.d, second_token), 1);
    write_all(c.peer, "b", 1);
    CHECK_EQ(finish(c.d, first_token).result, 1);
    CHECK_EQ(finish(c.d, second_token).result, 1);
    CHECK((first[0] == 'a' && second[0] == 'b') || (first[0] == 'b' && second[0] == 'a'));
    driver_free(c.d);
}

static void one_edge_serves_many_receives(void)
{
    enum { COUNT = 100 };
    connection c = tcp_connection();
    unsigned char bytes[COUNT], seen[256] = {0}, sent[COUNT];
    mr_token tokens[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tokens[i] = start(c.d, recv_request(c.handle, &bytes[i], 1));
        sent[i] = (unsigned char)i;
    }
    poll_once(c.d);
    write_all(c.peer, sent, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(finish(c.d, tokens[i]).result, 1);
        CHECK_EQ(seen[bytes[i]]++, 0);
    }
    driver_free(c.d);
}

static void receive_and_send_do_not_disturb_each_other(void)
{
    connection c = local_connection();
    char in[10], out[1 << 16] = {0};
    fill(c.number);
    mr_token receiving = start(c.d, recv_request(c.handle, in, sizeof in));
    mr_token sending = start(c.d, send_request(c.handle, out, sizeof out));
    CHECK_STAYS_PENDING(c.d, receiving);
    CHECK(!has_arrived(c.d, sending));
    CHECK_GT(finish_while_read(c.d, sending, c.peer).result, 0);
    CHECK_STAYS_PENDING(c.d, receiving);
    write_all(c.peer, "in", 2);
    CHECK_EQ(finish(c.d, receiving).result, 2);
    driver_free(c.d);
}

static void the_buffer_is_untouched_after_the_end(void)
{
    connection c = local_connection();
    char buffer[4] = {'-', '-', '-', '-'};
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    poll_once(c.d);
    mr_loop_cancel(driver_loop(c.d), token);
    CHECK_EQ(finish(c.d, token).result, -ECANCELED);
    write_all(c.peer, "late", 4);
    run_for_ms(c.d, 10);
    CHECK_MEMORY(buffer, "----", 4);
    driver_free(c.d);
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
    while (!atomic_load(&sender->stop)) {
        size_t size = harness_random(&sender->seed) % sizeof chunk + 1;
        fill_pattern(chunk, sender->sent, size);
        write_all(sender->descriptor, chunk, size);
        sender->sent += size;
        for (volatile uint32_t i = harness_random(&sender->seed) % 4000; i > 0; i--)
            ;
        if (harness_random(&sender->seed) % 2 == 0)
            sleep_us(harness_random(&sender->seed) % 100);
    }
    end_stream(sender->descriptor);
    return NULL;
}

typedef enum interruption { BY_CANCEL, BY_DEADLINE, BY_UPDATE } interruption;

/* Receives, ending each operation at a random moment. The result is -1 if it was interrupted. */
static mr_completion interrupted_receive(driver *d, mr_request request, interruption how, uint64_t *random)
{
    mr_completion completion;
    uint64_t moment_ns = harness_random(random) % 40000;
    if (how == BY_DEADLINE)
        request.deadline_ns = clock_ns() + moment_ns;
    if (submit(d, request, &completion)) {
        mr_token token = completion.token;
        uint64_t until_ns = clock_ns() + moment_ns;
        if (harness_random(random) % 2)
            poll_once(d);
        while (how != BY_DEADLINE && clock_ns() < until_ns)
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
    connection c = tcp_connection();
    unsigned char buffer[1024];
    struct iovec elements[2] = {{buffer, 100}, {buffer + 100, sizeof buffer - 100}};
    uint64_t position = 0, random = 11 + (unsigned)how;
    unsigned interrupted = 0, completed = 0, rounds = harness_rounds(20000);
    pthread_t thread;
    steady_sender sender = {.descriptor = c.peer, .seed = 3};
    start_thread(&thread, send_steadily, &sender);
    mr_request request = where == INTO_VECTOR ? vector_request(MR_RECV_VECTOR, c.handle, elements, 2)
                         : where == INTO_LENT ? borrowing_request(c.handle, sizeof buffer)
                                              : recv_request(c.handle, buffer, sizeof buffer);
    mr_completion completion;
    /* Continues until both outcomes have occurred, because the scheduler decides how often each occurs. */
    while (interrupted + completed < rounds || interrupted <= rounds / 50 || completed <= rounds / 50) {
        completion = interrupted_receive(c.d, request, how, &random);
        CHECK_NE(completion.result, 0);
        if (completion.result < 0) {
            interrupted++;
        } else {
            completed++;
            position += take_pattern(c.d, &completion, buffer, position);
        }
    }
    atomic_store(&sender.stop, true);
    while ((completion = perform(c.d, request)).result > 0)
        position += take_pattern(c.d, &completion, buffer, position);
    CHECK_EQ(completion.result, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(position, sender.sent);
    driver_free(c.d);
}

static void cancel_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_CANCEL, INTO_BUFFER);
}

static void cancel_of_a_vector_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_CANCEL, INTO_VECTOR);
}

static void cancel_of_a_borrowing_receive_loses_no_byte(void)
{
    interruptions_lose_no_byte(BY_CANCEL, INTO_LENT);
}

static void deadline_of_a_borrowing_receive_loses_no_byte(void)
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
    CASE(cancel_of_a_borrowing_receive_loses_no_byte),
    CASE(deadline_of_a_borrowing_receive_loses_no_byte),
    CASE(deadline_loses_no_byte),
    CASE(moved_deadline_loses_no_byte),
    {0},
};
