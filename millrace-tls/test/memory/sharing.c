/* sharing.c - several threads with one context, and two with one connection. Must not know: system calls, sockets. */
#include "memory_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, TOTAL = 200000 };

typedef struct contexts {
    tls_context *client;
    tls_context *server;
    unsigned rounds;
    uint64_t seed;
} contexts;

static void *converse(void *argument)
{
    contexts *both = argument;
    for (unsigned i = 0; i < both->rounds; i++) {
        conversation c;
        conversation_begin(&c, both->client, both->server, 5000, both->seed + i);
        conversation_run(&c);
        CHECK_EQ(c.client.phase, ENDED);
        CHECK_EQ(c.server.phase, ENDED);
        conversation_end(&c);
    }
    return NULL;
}

void share_context(uintptr_t version)
{
    contexts both = {.client = new_client_context(usual_credentials(), (int)version),
                     .server = new_server_context(usual_credentials(), (int)version),
                     .rounds = harness_rounds(100)};
    pthread_t threads[THREADS];
    contexts each[THREADS];
    for (int i = 0; i < THREADS; i++) {
        each[i] = both;
        each[i].seed = harness_first_seed() + 1000u * (unsigned)i;
        CHECK_EQ(pthread_create(&threads[i], NULL, converse, &each[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    /* All earlier connections are freed. A new one keeps the contexts alive after their release. */
    conversation last;
    conversation_begin(&last, both.client, both.server, 100, 1);
    tls_context_release(both.client);
    tls_context_release(both.server);
    conversation_run(&last);
    CHECK_EQ(last.client.phase, ENDED);
    conversation_end(&last);
}

/* A wire for two threads. */
typedef struct shared_wire {
    pthread_mutex_t lock;
    pthread_cond_t has_bytes;
    wire wire;
    bool has_ended;
} shared_wire;

typedef struct runner {
    tls_connection *connection;
    shared_wire *in;
    shared_wire *out;
    pthread_mutex_t *sending; /* records go in the order in which they were made */
} runner;

static void put_kept(runner *runner)
{
    uint8_t out[4096];
    tls_step step;
    do {
        step = tls_connection_collect(runner->connection, out, sizeof out);
        (void)pthread_mutex_lock(&runner->out->lock);
        wire_put(&runner->out->wire, out, step_out(step));
        (void)pthread_cond_signal(&runner->out->has_bytes);
        (void)pthread_mutex_unlock(&runner->out->lock);
    } while (step_has_more(step));
}

static void *send_all(void *argument)
{
    runner *runner = argument;
    for (size_t sent = 0; sent < TOTAL;) {
        uint8_t plain[1000];
        uint8_t out[2000];
        size_t count = TOTAL - sent < sizeof plain ? TOTAL - sent : sizeof plain;
        for (size_t i = 0; i < count; i++)
            plain[i] = byte_at(sent + i);
        (void)pthread_mutex_lock(runner->sending);
        tls_step step = tls_connection_send(runner->connection, plain, count, out, sizeof out);
        CHECK_EQ(step_status(step), TLS_DONE);
        (void)pthread_mutex_lock(&runner->out->lock);
        wire_put(&runner->out->wire, out, step_out(step));
        (void)pthread_cond_signal(&runner->out->has_bytes);
        (void)pthread_mutex_unlock(&runner->out->lock);
        (void)pthread_mutex_unlock(runner->sending);
        sent += step_plain(step);
    }
    (void)pthread_mutex_lock(runner->sending);
    tls_connection_end(runner->connection);
    put_kept(runner);
    (void)pthread_mutex_unlock(runner->sending);
    return NULL;
}

static void *receive_all(void *argument)
{
    runner *runner = argument;
    for (size_t received = 0;;) {
        uint8_t piece[777];
        uint8_t plain[5000];
        wire *wire = &runner->in->wire;
        (void)pthread_mutex_lock(&runner->in->lock);
        while (wire->taken == wire->count)
            (void)pthread_cond_wait(&runner->in->has_bytes, &runner->in->lock);
        size_t count = wire->count - wire->taken < sizeof piece ? wire->count - wire->taken : sizeof piece;
        memcpy(piece, wire->bytes + wire->taken, count);
        wire->taken += count;
        (void)pthread_mutex_unlock(&runner->in->lock);
        tls_step step = tls_connection_receive(runner->connection, piece, count, plain, sizeof plain);
        do {
            for (size_t i = 0; i < step_plain(step); i++)
                CHECK_EQ(plain[i], byte_at(received + i));
            received += step_plain(step);
            if (step_status(step) == TLS_ENDED) {
                CHECK_EQ(received, TOTAL);
                return NULL;
            }
            CHECK(step_status(step) == TLS_DONE || step_status(step) == TLS_WANTS_INPUT);
            if (!tls_connection_has_input(runner->connection))
                break;
            step = tls_connection_receive(runner->connection, NULL, 0, plain, sizeof plain);
        } while (step_status(step) != TLS_WANTS_INPUT);
    }
}

static void take_over(shared_wire *shared, wire *from)
{
    (void)pthread_mutex_init(&shared->lock, NULL);
    (void)pthread_cond_init(&shared->has_bytes, NULL);
    shared->wire = *from;
    *from = (wire){0};
}

/* One thread of each side sends while another one receives. */
void share_connection(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    conversation_begin(&c, client, server, SIZE_MAX, 1);
    c.is_whole = true;
    while (c.client.phase != OPEN || c.server.phase != OPEN) {
        CHECK(conversation_turn(&c));
        CHECK(c.client.phase != FAILED && c.server.phase != FAILED);
    }
    /* Drops the data that has arrived so far. */
    for (int i = 0; i < 100; i++) {
        uint8_t plain[4096];
        side *sides[2] = {&c.client, &c.server};
        for (int j = 0; j < 2; j++) {
            wire *in = sides[j]->in;
            (void)tls_connection_receive(sides[j]->connection, in->bytes + in->taken, in->count - in->taken, plain,
                                         sizeof plain);
            in->taken = in->count;
        }
    }
    shared_wire to_server = {0};
    shared_wire to_client = {0};
    take_over(&to_server, &c.to_server);
    take_over(&to_client, &c.to_client);
    pthread_mutex_t sending[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    runner of_client = {c.client.connection, &to_client, &to_server, &sending[0]};
    runner of_server = {c.server.connection, &to_server, &to_client, &sending[1]};
    pthread_t threads[4];
    CHECK_EQ(pthread_create(&threads[0], NULL, send_all, &of_client), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, send_all, &of_server), 0);
    CHECK_EQ(pthread_create(&threads[2], NULL, receive_all, &of_client), 0);
    CHECK_EQ(pthread_create(&threads[3], NULL, receive_all, &of_server), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    free(to_server.wire.bytes);
    free(to_client.wire.bytes);
    conversation_end(&c);
    tls_context_release(client);
    tls_context_release(server);
}
