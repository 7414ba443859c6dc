/* close.c: MR_CLOSE and its effects on operations, descriptor numbers and handles. */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>

static void it_closes(void)
{
    connection c = local_connection();
    mr_completion completion;
    char byte;
    CHECK(!submit(c.d, close_request(c.handle), &completion));
    CHECK_EQ(completion.result, 0);
    CHECK(!is_open(c.number));
    CHECK_EQ(read_some(c.peer, &byte, 1), 0);
    driver_free(c.d);
}

static void used_descriptors_close_at_once(void)
{
    connection c = local_connection();
    char byte;
    mr_completion completion;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    CHECK(!submit(c.d, close_request(c.handle), &completion));
    CHECK_EQ(completion.result, 0);
    CHECK(!is_open(c.number));
    driver_free(c.d);
}

static void it_waits_for_those_who_hold(void)
{
    connection c = local_connection();
    mr_group *group = driver_group(c.d);
    CHECK_EQ(mr_group_hold(group, c.handle), 0);
    CHECK_EQ(mr_group_hold(group, c.handle), 0);
    mr_group_release(group, c.handle);
    mr_token closing = start(c.d, close_request(c.handle));
    CHECK_EQ(mr_group_hold(group, c.handle), -EBADF);
    run_for_ms(c.d, 2);
    CHECK(is_open(c.number));
    mr_group_release(group, c.handle);
    CHECK_EQ(finish(c.d, closing).result, 0);
    CHECK(!is_open(c.number));
    CHECK_EQ(mr_group_hold(group, c.handle), -EBADF);
    driver_free(c.d);
}

static void a_stale_handle_is_refused(void)
{
    connection c = local_connection();
    char byte;
    struct iovec element = {&byte, 1};
    struct sockaddr_in address = dead_address();
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    const mr_request requests[] = {
        accept_request(c.handle, NULL),
        connect_request(c.handle, &address, sizeof address),
        recv_request(c.handle, &byte, 1),
        with_flags(recv_request(c.handle, &byte, 1), MR_NOW),
        send_request(c.handle, &byte, 1),
        vector_request(MR_RECV_VECTOR, c.handle, &element, 1),
        vector_request(MR_SEND_VECTOR, c.handle, &element, 1),
        wait_request(MR_WAIT_READABLE, c.handle),
        wait_request(MR_WAIT_WRITABLE, c.handle),
        shutdown_request(c.handle, SHUT_WR),
        close_request(c.handle),
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        mr_completion completion;
        CHECK(!submit(c.d, requests[i], &completion));
        CHECK_EQ(completion.result, -EBADF);
    }
    driver_free(c.d);
}

static void handles_never_adopted_are_refused(void)
{
    driver *d = driver_new();
    mr_completion completion;
    char byte;
    const mr_handle never[] = {UINT64_C(1) << 32 | 3, UINT64_C(5) << 32 | 100000, UINT64_C(1) << 32 | UINT32_MAX};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        CHECK(!submit(d, recv_request(never[i], &byte, 1), &completion));
        CHECK_EQ(completion.result, -EBADF);
        CHECK_EQ(perform(d, close_request(never[i])).result, -EBADF);
    }
    int other = tcp_socket();
    CHECK_EQ(perform(d, close_request(mr_handle_foreign(other))).result, -EBADF);
    CHECK(is_open(other));
    driver_free(d);
}

static void it_ends_everything_on_the_descriptor(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    struct iovec element = {&byte, 1};
    mr_token tokens[7];
    local_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill(pair[0]);
    for (unsigned wait_ms = 0; wait_ms < 2; wait_ms++) {
        tokens[0] = start(d, recv_request(handle, &byte, 1));
        tokens[1] = start(d, recv_request(handle, &byte, 1));
        tokens[2] = start(d, send_request(handle, &byte, 1));
        tokens[3] = start(d, wait_request(MR_WAIT_READABLE, handle));
        tokens[4] = start(d, wait_request(MR_WAIT_WRITABLE, handle));
        tokens[5] = start(d, vector_request(MR_RECV_VECTOR, handle, &element, 1));
        tokens[6] = start(d, with_deadline(recv_request(handle, &byte, 1), in_ms(100000)));
        if (wait_ms > 0)
            run_for_ms(d, wait_ms);
        CHECK_EQ(perform(d, close_request(handle)).result, 0);
        CHECK(!is_open(pair[0]));
        for (int i = 0; i < 7; i++)
            CHECK_EQ(finish(d, tokens[i]).result, -EBADF);
        hang_up(pair[1]);
        local_pair(pair);
        fill(pair[0]);
        handle = adopt(d, pair[0]);
    }
    driver_free(d);
}

static void a_pending_accept_ends(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_handle listener = adopt(d, tcp_listener(5, &address));
    mr_token token = start(d, accept_request(listener, NULL));
    run_for_ms(d, 1);
    CHECK_EQ(perform(d, close_request(listener)).result, 0);
    CHECK_EQ(finish(d, token).result, -EBADF);
    mr_request request = connect_request(adopt(d, tcp_socket()), &address, sizeof address);
    CHECK_EQ(perform(d, request).result, -ECONNREFUSED);
    driver_free(d);
}

/* The number cannot be reused before the operations on it have ended, and no new one may start on it. */
static void nothing_starts_while_it_closes(void)
{
    connection c = local_connection();
    char byte;
    mr_completion closing, refused;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    poll_once(c.d);
    bool is_pending = submit(c.d, close_request(c.handle), &closing);
    CHECK_EQ(is_open(c.number), is_pending);
    CHECK(!submit(c.d, recv_request(c.handle, &byte, 1), &refused));
    CHECK_EQ(refused.result, -EBADF);
    CHECK(!submit(c.d, close_request(c.handle), &refused));
    CHECK_EQ(refused.result, -EBADF);
    CHECK_EQ(finish(c.d, token).result, -EBADF);
    CHECK_EQ(is_pending ? finish(c.d, closing.token).result : closing.result, 0);
    CHECK(!is_open(c.number));
    driver_free(c.d);
}

/* A wait with the number alone may never end. */
static void a_wait_that_comes_too_late_does_not_hold_it_up(void)
{
    connection c = local_connection();
    char byte;
    mr_completion waiting;
    mr_token receiving = start(c.d, recv_request(c.handle, &byte, 1));
    poll_once(c.d);
    mr_completion closing;
    bool is_pending = submit(c.d, close_request(c.handle), &closing);
    bool waits = submit(c.d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(c.number)), &waiting);
    CHECK_EQ(finish(c.d, receiving).result, -EBADF);
    CHECK_EQ(is_pending ? finish(c.d, closing.token).result : closing.result, 0);
    CHECK_EQ(waits ? finish(c.d, waiting.token).result : waiting.result, -EBADF);
    driver_free(c.d);
}

static void it_cannot_be_cancelled(void)
{
    connection c = local_connection();
    driver *other = driver_new_beside(c.d);
    char byte;
    mr_token receiving = start(other, recv_request(c.handle, &byte, 1));
    poll_once(other);
    mr_token closing = start(c.d, close_request(c.handle));
    mr_loop_cancel(driver_loop(c.d), closing);
    mr_loop_update(driver_loop(c.d), closing, 1);
    CHECK_STAYS_PENDING(c.d, closing);
    CHECK_EQ(finish(other, receiving).result, -EBADF);
    CHECK_EQ(finish(c.d, closing).result, 0);
    CHECK(!is_open(c.number));
    driver_free(other);
    driver_free(c.d);
}

/* Waits that have only the number, on the loop that closes and on another one, whether these have worked on it
   before. */
static void waits_with_its_number_end(void)
{
    for (int has_worked = 0; has_worked < 2; has_worked++) {
        connection c = local_connection();
        driver *other = driver_new_beside(c.d);
        driver *drivers[] = {c.d, other};
        mr_token reading[2], writing[2];
        char byte;
        fill(c.number);
        for (int i = 0; i < 2; i++) {
            if (has_worked)
                CHECK(!submit(drivers[i], with_flags(recv_request(c.handle, &byte, 1), MR_NOW), &(mr_completion){0}));
            reading[i] = start(drivers[i], wait_request(MR_WAIT_READABLE, mr_handle_foreign(c.number)));
            writing[i] = start(drivers[i], wait_request(MR_WAIT_WRITABLE, mr_handle_foreign(c.number)));
            run_for_ms(drivers[i], 2);
        }
        mr_token closing = start(c.d, close_request(c.handle));
        run_for_ms(c.d, 5);
        for (int i = 1; i >= 0; i--) {
            CHECK_EQ(finish(drivers[i], reading[i]).result, -EBADF);
            CHECK_EQ(finish(drivers[i], writing[i]).result, -EBADF);
        }
        CHECK_EQ(finish(c.d, closing).result, 0);
        drain(c.peer);
        CHECK_EQ(read_some(c.peer, &byte, 1), 0);
        driver_free(other);
        driver_free(c.d);
    }
}

/* ------------------------------------------------------------------------------------------- numbers come back --- */

static void a_new_socket_of_that_number_starts_afresh(void)
{
    driver *d = driver_new();
    int old[2], new[2];
    char byte = '-', end;
    local_pair(old);
    mr_handle old_handle = adopt(d, old[0]);
    for (int round = 0; round < 10; round++) {
        mr_token token = start(d, recv_request(old_handle, &byte, 1));
        poll_once(d);
        CHECK_EQ(perform(d, close_request(old_handle)).result, 0);
        local_pair_at(old[0], new);
        mr_handle new_handle = adopt(d, new[0]);
        CHECK_NE(new_handle, old_handle);
        mr_token new_token = start(d, recv_request(new_handle, &byte, 1));
        CHECK_EQ(finish(d, token).result, -EBADF);
        CHECK_EQ(read_some(old[1], &end, 1), 0);
        CHECK_EQ(perform(d, recv_request(old_handle, &byte, 1)).result, -EBADF);
        CHECK_EQ(perform(d, close_request(old_handle)).result, -EBADF);
        run_for_ms(d, 2);
        CHECK(!has_arrived(d, new_token));
        write_all(new[1], "n", 1);
        CHECK_EQ(finish(d, new_token).result, 1);
        CHECK_EQ(byte, 'n');
        hang_up(old[1]);
        old[1] = new[1];
        old_handle = new_handle;
    }
    driver_free(d);
}

/* One batch has events of both descriptors with this number. */
static void events_fetched_together_are_told_apart(void)
{
    enum { COUNT = 20 };
    driver *d = driver_new();
    int pairs[COUNT][2];
    char bytes[COUNT];
    mr_handle handles[COUNT];
    mr_token tokens[COUNT];
    for (int i = 0; i < COUNT; i++) {
        local_pair(pairs[i]);
        handles[i] = adopt(d, pairs[i][0]);
        tokens[i] = start(d, recv_request(handles[i], &bytes[i], 1));
    }
    poll_once(d);
    for (int i = 0; i < COUNT; i++)
        write_all(pairs[i][1], "x", 1);
    for (int i = 0; i < COUNT; i += 2)
        CHECK_EQ(perform(d, close_request(handles[i])).result, 0);
    for (int i = 0; i < COUNT; i += 2) {
        int new[2];
        local_pair_at(pairs[i][0], new);
        mr_completion completion = finish(d, tokens[i]);
        CHECK(completion.result == -EBADF || completion.result == 1);
        tokens[i] = start(d, recv_request(adopt(d, new[0]), &bytes[i], 1));
    }
    run_for_ms(d, 5);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(has_arrived(d, tokens[i]), i % 2);
    for (int i = 0; i < COUNT; i++) {
        if (i % 2 == 0)
            mr_loop_cancel(driver_loop(d), tokens[i]);
        CHECK_EQ(finish(d, tokens[i]).result, i % 2 ? 1 : -ECANCELED);
    }
    driver_free(d);
}

/* -------------------------------------------------------------------------------------------------- many loops --- */

static void operations_on_another_loop_end_first(void)
{
    connection c = local_connection();
    driver *other = driver_new_beside(c.d);
    char byte;
    mr_token receiving = start(other, recv_request(c.handle, &byte, 1));
    poll_once(other);
    mr_token closing = start(c.d, close_request(c.handle));
    run_for_ms(c.d, 10);
    CHECK(!has_arrived(c.d, closing));
    CHECK(is_open(c.number));
    CHECK_EQ(perform(c.d, recv_request(c.handle, &byte, 1)).result, -EBADF);
    CHECK_EQ(perform(other, close_request(c.handle)).result, -EBADF);
    CHECK_EQ(perform(other, recv_request(c.handle, &byte, 1)).result, -EBADF);
    CHECK_EQ(finish(other, receiving).result, -EBADF);
    CHECK_EQ(finish(c.d, closing).result, 0);
    CHECK(!is_open(c.number));
    driver_free(other);
    driver_free(c.d);
}

static void operations_on_both_loops_end(void)
{
    connection c = local_connection();
    driver *other = driver_new_beside(c.d);
    char byte;
    mr_token mine = start(c.d, recv_request(c.handle, &byte, 1));
    mr_token theirs = start(other, recv_request(c.handle, &byte, 1));
    poll_once(c.d);
    poll_once(other);
    mr_token closing = start(c.d, close_request(c.handle));
    CHECK_EQ(finish(other, theirs).result, -EBADF);
    CHECK_EQ(finish(c.d, mine).result, -EBADF);
    CHECK_EQ(finish(c.d, closing).result, 0);
    driver_free(other);
    driver_free(c.d);
}

typedef struct receiver {
    driver *d;
    mr_handle handle;
    atomic_bool parked;
    int64_t result;
} receiver;

static void *receive_until_closed(void *argument)
{
    receiver *r = argument;
    char byte;
    mr_token token = start(r->d, recv_request(r->handle, &byte, 1));
    poll_once(r->d);
    atomic_store(&r->parked, true);
    r->result = finish(r->d, token).result;
    return NULL;
}

static void a_sleeping_loop_is_woken(void)
{
    driver *d = driver_new();
    for (int round = 0; round < 20; round++) {
        int pair[2];
        pthread_t thread;
        local_pair(pair);
        driver *other = driver_new_beside(d);
        receiver r = {.d = other, .handle = adopt(d, pair[0])};
        start_thread(&thread, receive_until_closed, &r);
        while (!atomic_load(&r.parked))
            sleep_ms(1);
        /* The other owner does not poll any more once its receive has ended: the close must not need that. */
        CHECK_EQ(perform(d, close_request(r.handle)).result, 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(r.result, -EBADF);
        CHECK(!is_open(pair[0]));
        hang_up(pair[1]);
        driver_free(other);
    }
    driver_free(d);
}

/* Two owners close the same handles at the same time: of each, exactly one succeeds. */
typedef struct closer {
    driver *d;
    const mr_handle *handles;
    size_t count;
    atomic_bool *start;
    atomic_uint *finished;
    unsigned closed;
} closer;

static void *close_all(void *argument)
{
    closer *c = argument;
    char byte;
    while (!atomic_load(c->start))
        ;
    for (size_t i = 0; i < c->count; i++) {
        mr_completion receiving, closing;
        bool is_receiving = submit(c->d, recv_request(c->handles[i], &byte, 1), &receiving);
        closing = perform(c->d, close_request(c->handles[i]));
        CHECK(closing.result == 0 || closing.result == -EBADF);
        c->closed += closing.result == 0;
        if (is_receiving)
            receiving = finish(c->d, receiving.token);
        CHECK_EQ(receiving.result, -EBADF);
    }
    atomic_fetch_add(c->finished, 1);
    while (atomic_load(c->finished) < 2) /* this loop may still have to send a message to the other */
        run_for_ms(c->d, 1);
    return NULL;
}

static void only_one_of_two_closers_succeeds(void)
{
    enum { COUNT = 300 };
    driver *drivers[2] = {driver_new()};
    drivers[1] = driver_new_beside(drivers[0]);
    mr_handle handles[COUNT];
    closer closers[2];
    pthread_t threads[2];
    atomic_bool go = false;
    atomic_uint finished = 0;
    for (int i = 0; i < COUNT; i++) {
        int pair[2];
        local_pair(pair);
        handles[i] = adopt(drivers[0], pair[0]);
    }
    for (int i = 0; i < 2; i++) {
        closers[i] = (closer){.d = drivers[i], .handles = handles, .count = COUNT, .start = &go, .finished = &finished};
        start_thread(&threads[i], close_all, &closers[i]);
    }
    atomic_store(&go, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(closers[0].closed + closers[1].closed, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(!is_open(mr_handle_descriptor(handles[i])));
    driver_free(drivers[1]);
    driver_free(drivers[0]);
}

/* A destroyed loop no longer delays a close. */
static void a_destroyed_loop_holds_nothing(void)
{
    connection c = local_connection();
    driver *other = driver_new_beside(c.d);
    char byte;
    mr_token token = start(other, recv_request(c.handle, &byte, 1));
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(other, token).result, 1);
    driver_free(other);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    CHECK(!is_open(c.number));
    driver_free(c.d);
}

/* IOCP ties a socket to the first loop that works on it; the others must not need that loop. */
static void the_first_loop_of_a_socket_may_go(void)
{
    connection c = local_connection();
    driver *first = driver_new_beside(c.d);
    char byte;
    mr_token token = start(first, recv_request(c.handle, &byte, 1));
    mr_token later = start(c.d, recv_request(c.handle, &byte, 1));
    mr_loop_cancel(driver_loop(first), token);
    CHECK_EQ(finish(first, token).result, -ECANCELED);
    driver_free(first);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, later).result, 1);
    later = start(c.d, recv_request(c.handle, &byte, 1));
    CHECK_STAYS_PENDING(c.d, later);
    CHECK_EQ(perform(c.d, send_request(c.handle, "y", 1)).result, 1);
    CHECK_EQ(read_some(c.peer, &byte, 1), 1);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    CHECK_EQ(finish(c.d, later).result, -EBADF);
    driver_free(c.d);
}

const conform_case close_cases[] = {
    CASE(it_closes),
    CASE(used_descriptors_close_at_once),
    CASE(it_waits_for_those_who_hold),
    CASE(a_stale_handle_is_refused),
    CASE(handles_never_adopted_are_refused),
    CASE(it_ends_everything_on_the_descriptor),
    CASE(a_pending_accept_ends),
    CASE(nothing_starts_while_it_closes),
    CASE(a_wait_that_comes_too_late_does_not_hold_it_up),
    CASE(it_cannot_be_cancelled),
    CASE(waits_with_its_number_end),
    CASE(a_new_socket_of_that_number_starts_afresh),
    CASE(events_fetched_together_are_told_apart),
    CASE(operations_on_another_loop_end_first),
    CASE(operations_on_both_loops_end),
    CASE(a_sleeping_loop_is_woken),
    CASE(only_one_of_two_closers_succeeds),
    CASE(a_destroyed_loop_holds_nothing),
    CASE(the_first_loop_of_a_socket_may_go),
    {0},
};
