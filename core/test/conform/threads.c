/* threads.c: requests from other threads, threads that end, and several loops at once. */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>

/* ------------------------------------------------------------------------------------------ submitters that end --- */

typedef struct submission {
    driver *d;
    mr_request requests[8];
    mr_token tokens[8];
    int count;
} submission;

static void *submit_all(void *argument)
{
    submission *s = argument;
    for (int i = 0; i < s->count; i++)
        s->tokens[i] = start(s->d, s->requests[i]);
    poll_once(s->d); /* hands them to the kernel as this thread's */
    return NULL;
}

static void submit_on_a_thread_that_ends(submission *s)
{
    pthread_t thread;
    start_thread(&thread, submit_all, s);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    run_for_ms(s->d, 20);
    for (int i = 0; i < s->count; i++)
        if (has_arrived(s->d, s->tokens[i]))
            FAIL("%s has ended, with %lld", mr_kind_name(s->requests[i].kind),
                 (long long)take(s->d, s->tokens[i]).result);
}

static void operations_outlive_the_thread_that_submitted_them(void)
{
    driver *d = driver_new();
    int receiving[2], sending[2], waiting[2], vectored[2];
    char bytes[4] = {0};
    char *data = calloc(1, 1 << 20);
    struct iovec element = {&bytes[2], 1};
    struct sockaddr_in address, full;
    mr_address peer;
    tcp_pair(receiving);
    local_pair(sending);
    local_pair(waiting);
    tcp_pair(vectored);
    fill(sending[0]);
    int crowded = full_listener(&full);
    submission s = {.d = d, .count = 7};
    s.requests[0] = recv_request(adopt(d, receiving[0]), &bytes[0], 1);
    s.requests[1] = send_all_request(adopt(d, sending[0]), data, 1 << 20);
    s.requests[2] = wait_request(MR_WAIT_READABLE, adopt(d, waiting[0]));
    s.requests[3] = vector_request(MR_RECV_VECTOR, adopt(d, vectored[0]), &element, 1);
    s.requests[4] = accept_request(adopt(d, tcp_listener(5, &address)), &peer);
    s.requests[5] = timeout_request(in_ms(1000));
    s.requests[6] = connect_request(adopt(d, tcp_socket()), &full, sizeof full);
    submit_on_a_thread_that_ends(&s);
    NOTE_LINE();

    write_all(receiving[1], "r", 1);
    CHECK_EQ(finish(d, s.tokens[0]).result, 1);
    CHECK_EQ(bytes[0], 'r');
    write_all(waiting[1], "w", 1);
    CHECK_EQ(finish(d, s.tokens[2]).result, 0);
    write_all(vectored[1], "v", 1);
    CHECK_EQ(finish(d, s.tokens[3]).result, 1);
    CHECK_EQ(bytes[2], 'v');
    connect_to(&address);
    CHECK_GE(finish(d, s.tokens[4]).result, 0);
    CHECK_EQ(peer.length, sizeof(struct sockaddr_in));
    CHECK_EQ(finish(d, s.tokens[5]).result, 0);
    CHECK_EQ(finish_while_read(d, s.tokens[1], sending[1]).result, 1 << 20);
    /* The kernel answers the connection attempt when the queue is not full; it repeats the attempt after a second. */
    while (!has_arrived(d, s.tokens[6])) {
        accept_all(crowded);
        run_for_ms(d, 5);
    }
    CHECK_EQ(finish(d, s.tokens[6]).result, 0);
    free(data);
    driver_free(d);
}

static void such_operations_can_be_ended(void)
{
    static const int64_t errors[] = {-ECANCELED, -ETIMEDOUT, -EBADF};
    for (int i = 0; i < 3; i++) {
        connection c = tcp_connection();
        char byte;
        submission s = {.d = c.d, .count = 2};
        s.requests[0] = recv_request(c.handle, &byte, 1);
        s.requests[1] = wait_request(MR_WAIT_READABLE, c.handle);
        submit_on_a_thread_that_ends(&s);
        for (int j = 0; j < 2; j++) {
            if (i == 0)
                mr_loop_cancel(driver_loop(c.d), s.tokens[j]);
            if (i == 1)
                mr_loop_update(driver_loop(c.d), s.tokens[j], in_ms(2));
        }
        if (i == 2)
            CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
        CHECK_EQ(finish(c.d, s.tokens[0]).result, errors[i]);
        CHECK_EQ(finish(c.d, s.tokens[1]).result, errors[i]);
        driver_free(c.d);
    }
}

/* The loop's own wake-up must outlive the thread that has armed it. */
static void *poll_and_announce(void *argument)
{
    driver *d = argument;
    do
        poll_once(d);
    while (!mr_loop_prepare_wait(driver_loop(d)));
    return NULL;
}

static void *wake_after_20_ms(void *argument)
{
    sleep_ms(20);
    mr_loop_wake(argument);
    return NULL;
}

static void waking_works_after_the_polling_thread_has_ended(void)
{
    driver *d = driver_new();
    for (int i = 0; i < 5; i++) {
        pthread_t thread, waker;
        start_thread(&thread, poll_and_announce, d);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        start_thread(&waker, wake_after_20_ms, driver_loop(d));
        NOTE_LINE();
        mr_loop_wait(driver_loop(d));
        CHECK_EQ(pthread_join(waker, NULL), 0);
        poll_once(d);
    }
    driver_free(d);
}

typedef struct rotation {
    driver *d;
    mr_handle handle;
    int peer;
    int round;
    mr_token left_behind; /* submitted by one thread, finished by the next */
    char left_byte;
} rotation;

static void finish_left_behind(rotation *r)
{
    write_all(r->peer, "x", 1);
    CHECK_EQ(finish(r->d, r->left_behind).result, 1);
    CHECK_EQ(r->left_byte, 'x');
}

static void *one_round(void *argument)
{
    rotation *r = argument;
    char byte;
    if (r->left_behind)
        finish_left_behind(r);
    write_all(r->peer, "y", 1);
    CHECK_EQ(perform(r->d, recv_request(r->handle, &byte, 1)).result, 1);
    CHECK_EQ(byte, 'y');
    r->left_byte = 0;
    r->left_behind = start(r->d, recv_request(r->handle, &r->left_byte, 1));
    if (r->round % 2)
        poll_once(r->d);
    return NULL;
}

static void the_owner_may_change_threads(void)
{
    connection c = tcp_connection();
    int rounds = (int)harness_rounds(200);
    rotation r = {.d = c.d, .handle = c.handle, .peer = c.peer};
    for (r.round = 0; r.round < rounds; r.round++) {
        pthread_t thread;
        start_thread(&thread, one_round, &r);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    finish_left_behind(&r);
    driver_free(c.d);
}

/* ---------------------------------------------------------------------------------- messages from other threads --- */

static void remote_requests_are_carried_out(void)
{
    connection c = local_connection();
    mr_loop *loop = driver_loop(c.d);
    char byte;
    mr_token token;

    CHECK_EQ(mr_loop_reserve(loop, MR_RECV, &token), 0);
    mr_request request = recv_request(c.handle, &byte, 1);
    expect(c.d, token, request.user_data);
    mr_loop_start_remote(loop, token, &request);
    CHECK_STAYS_PENDING(c.d, token);
    mr_loop_cancel_remote(loop, token);
    CHECK_EQ(take(c.d, token).result, -ECANCELED);
    mr_loop_release_remote(loop, token);
    poll_once(c.d);
    mr_token next;
    CHECK_EQ(mr_loop_reserve(loop, MR_RECV, &next), 0);
    CHECK_EQ(mr_token_slot(next), mr_token_slot(token));
    mr_loop_release(loop, next);

    token = start(c.d, recv_request(c.handle, &byte, 1));
    mr_loop_update_remote(loop, token, in_ms(5));
    CHECK_EQ(finish(c.d, token).result, -ETIMEDOUT);

    token = start(c.d, timeout_request(in_ms(10)));
    mr_loop_cancel_remote(loop, token);
    CHECK_EQ(finish(c.d, token).result, -ECANCELED);
    CHECK_EQ(counters_of(c.d).in_flight, 0);
    driver_free(c.d);
}

/* A start and its cancellation, posted together, are handled in this order. */
static void letters_keep_their_order(void)
{
    driver *d = driver_new();
    for (int i = 0; i < 100; i++) {
        mr_token token;
        CHECK_EQ(mr_loop_reserve(driver_loop(d), MR_TIMEOUT, &token), 0);
        mr_request request = timeout_request(in_ms(100000));
        expect(d, token, request.user_data);
        mr_loop_start_remote(driver_loop(d), token, &request);
        mr_loop_update_remote(driver_loop(d), token, in_ms(50000));
        mr_loop_cancel_remote(driver_loop(d), token);
        mr_loop_cancel_remote(driver_loop(d), token);
        CHECK_EQ(finish(d, token).result, -ECANCELED);
    }
    driver_free(d);
}

/* A start in the mailbox comes before later calls of the owner. */
static void what_is_done_here_does_not_overtake_letters(void)
{
    driver *d = driver_new();
    mr_loop *loop = driver_loop(d);
    mr_request request = timeout_request(in_ms(100000));
    mr_token token;

    CHECK_EQ(mr_loop_reserve(loop, MR_TIMEOUT, &token), 0);
    expect(d, token, request.user_data);
    mr_loop_start_remote(loop, token, &request);
    CHECK_EQ(mr_loop_discard(loop, token), 1);
    expect_nothing(d, token);

    CHECK_EQ(mr_loop_reserve(loop, MR_TIMEOUT, &token), 0);
    expect(d, token, request.user_data);
    mr_loop_start_remote(loop, token, &request);
    mr_loop_update(loop, token, in_ms(1));
    CHECK_EQ(finish(d, token).result, 0);

    CHECK_EQ(mr_loop_reserve(loop, MR_TIMEOUT, &token), 0);
    expect(d, token, request.user_data);
    mr_loop_start_remote(loop, token, &request);
    mr_loop_cancel(loop, token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    driver_free(d);
}

enum { WORKERS = 4, NO_RESULT = 1 << 20 };

/* A thread that uses a loop from outside, with tokens that the owner has reserved for it. */
typedef struct worker {
    mr_loop *loop;
    mr_handle handle; /* [0] of a pair of sockets; each thread has another pair */
    int peer;
    uint64_t number;
    unsigned rounds;
    mr_token *tokens;         /* one for each round */
    _Atomic int64_t *results; /* likewise, written by the owner */
    uint64_t written, received;
    atomic_uint *finished;
} worker;

static int64_t await_result(_Atomic int64_t *result)
{
    int64_t value;
    while ((value = atomic_load(result)) == NO_RESULT)
        sched_yield();
    return value;
}

/* Every other token of a worker. */
static bool is_for_timeout(unsigned round)
{
    return round % 2;
}

static void use_token(worker *w, unsigned round, uint64_t *random)
{
    mr_token token = w->tokens[round];
    char byte = 0;
    bool is_timeout = is_for_timeout(round), cancels = harness_random(random) % 2;
    mr_request request =
        is_timeout ? timeout_request(in_ms(harness_random(random) % 2)) : recv_request(w->handle, &byte, 1);
    request.user_data = w->number << 32 | round;
    mr_loop_start_remote(w->loop, token, &request);
    if (!is_timeout && (!cancels || harness_random(random) % 2)) {
        write_all(w->peer, "x", 1);
        w->written++;
    }
    if (cancels)
        mr_loop_cancel_remote(w->loop, token);
    else if (harness_random(random) % 2)
        mr_loop_update_remote(w->loop, token, is_timeout ? 1 : in_ms(100000));
    int64_t result = await_result(&w->results[round]);
    if (result == -ECANCELED)
        CHECK(cancels);
    else
        CHECK_EQ(result, is_timeout ? 0 : 1);
    if (result == 1) {
        CHECK_EQ(byte, 'x');
        w->received++;
    }
    mr_loop_release_remote(w->loop, token);
    mr_loop_cancel_remote(w->loop, token); /* stale from here on: harmless */
    mr_loop_release_remote(w->loop, token);
}

static void *run_worker(void *argument)
{
    worker *w = argument;
    uint64_t random = w->number + 77;
    for (unsigned round = 0; round < w->rounds; round++)
        use_token(w, round, &random);
    atomic_fetch_add(w->finished, 1);
    mr_loop_wake(w->loop);
    return NULL;
}

static worker new_worker(driver *d, uint64_t number, unsigned rounds, atomic_uint *finished, int pair[2])
{
    local_pair(pair);
    worker w = {.loop = driver_loop(d),
                .handle = adopt(d, pair[0]),
                .peer = pair[1],
                .number = number,
                .rounds = rounds,
                .tokens = calloc(rounds, sizeof(mr_token)),
                .results = calloc(rounds, sizeof(_Atomic int64_t)),
                .finished = finished};
    for (unsigned round = 0; round < rounds; round++) {
        mr_kind kind = is_for_timeout(round) ? MR_TIMEOUT : MR_RECV;
        CHECK_EQ(mr_loop_reserve(w.loop, kind, &w.tokens[round]), 0);
        atomic_store(&w.results[round], NO_RESULT);
    }
    return w;
}

static void deliver(worker *workers, const mr_completion *completion)
{
    uint64_t number = completion->user_data >> 32, round = completion->user_data & UINT32_MAX;
    CHECK_LT(number, WORKERS);
    CHECK_LT(round, workers[number].rounds);
    CHECK_EQ(completion->token, workers[number].tokens[round]);
    CHECK_EQ(atomic_exchange(&workers[number].results[round], completion->result), NO_RESULT);
}

static void many_threads_use_one_loop(void)
{
    driver *d = driver_new();
    worker workers[WORKERS];
    pthread_t threads[WORKERS];
    int pairs[WORKERS][2];
    atomic_uint finished = 0;
    for (uint64_t i = 0; i < WORKERS; i++)
        workers[i] = new_worker(d, i, harness_rounds(2000), &finished, pairs[i]);
    for (int i = 0; i < WORKERS; i++)
        start_thread(&threads[i], run_worker, &workers[i]);
    while (atomic_load(&finished) < WORKERS) {
        mr_completion completions[16];
        int count = mr_loop_poll(driver_loop(d), completions, 16);
        for (int i = 0; i < count; i++)
            deliver(workers, &completions[i]);
        /* A poll consumes the wake-up of the last worker, so the test checks after the poll what this worker has
         * done. */
        if (count == 0 && atomic_load(&finished) < WORKERS && mr_loop_prepare_wait(driver_loop(d)))
            mr_loop_wait(driver_loop(d));
    }
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK_EQ(workers[i].received + drain(pairs[i][0]), workers[i].written);
        free(workers[i].tokens);
        free(workers[i].results);
    }
    driver_free(d);
}

/* ------------------------------------------------------------------------------------------ loops side by side --- */

enum { LOOPS = 3 };

typedef struct echo_owner {
    driver *d;
    unsigned rounds;
} echo_owner;

/* Each thread has a loop. The loops share only the group. */
static void *run_owner(void *argument)
{
    echo_owner *o = argument;
    for (unsigned round = 0; round < o->rounds; round++) {
        int pair[2];
        local_pair(pair);
        mr_handle near = adopt(o->d, pair[0]), far = adopt(o->d, pair[1]);
        char sent = (char)round, received = 0;
        mr_token token = start(o->d, recv_request(near, &received, 1));
        mr_token doomed = start(o->d, recv_request(far, &received, 1));
        CHECK_EQ(perform(o->d, send_request(far, &sent, 1)).result, 1);
        CHECK_EQ(finish(o->d, token).result, 1);
        CHECK_EQ(received, sent);
        CHECK_EQ(perform(o->d, close_request(far)).result, 0);
        CHECK_EQ(finish(o->d, doomed).result, -EBADF);
        CHECK_EQ(perform(o->d, close_request(near)).result, 0);
    }
    return NULL;
}

/* Descriptor numbers that one thread closes are immediately those of another thread's new sockets. */
static void loops_share_the_numbers(void)
{
    driver *first = driver_new();
    echo_owner owners[LOOPS];
    pthread_t threads[LOOPS];
    for (int i = 0; i < LOOPS; i++)
        owners[i] = (echo_owner){.d = i ? driver_new_beside(first) : first, .rounds = harness_rounds(1500)};
    int before = open_descriptors();
    for (int i = 0; i < LOOPS; i++)
        start_thread(&threads[i], run_owner, &owners[i]);
    for (int i = 0; i < LOOPS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(open_descriptors(), before);
    for (int i = LOOPS - 1; i >= 0; i--)
        driver_free(owners[i].d);
}

const conform_case threads_cases[] = {
    CASE(operations_outlive_the_thread_that_submitted_them),
    CASE(such_operations_can_be_ended),
    CASE(waking_works_after_the_polling_thread_has_ended),
    CASE(the_owner_may_change_threads),
    CASE(remote_requests_are_carried_out),
    CASE(letters_keep_their_order),
    CASE(what_is_done_here_does_not_overtake_letters),
    CASE(many_threads_use_one_loop),
    CASE(loops_share_the_numbers),
    {0},
};
