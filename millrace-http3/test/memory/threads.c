/*
 * threads.c - many threads use an endpoint at a time, as applications do. For the thread sanitizer. The main thread has
 * the link and the clients; the threads take requests and answer them.
 */
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "world.h"

enum { THREADS = 4, CLIENTS = 6, REQUESTS = 20 };

typedef struct office {
    http3_endpoint *endpoint;
    atomic_int is_over, served;
} office;

/* Reads the whole body, and writes it back. */
static void echo(http_stream *stream)
{
    http_rows none = {(const uint8_t *)"", 0, 0};
    uint8_t bytes[4000];
    int64_t given;
    int result = http_stream_answer(stream, 200, &none, HTTP_LENGTH_UNKNOWN, NULL, 0, 0, &given);
    while (result != HTTP_GONE) {
        int64_t count = http_stream_read(stream, bytes, sizeof bytes, 1);
        if (count == 0 || count == -HTTP_GONE)
            break;
        if (count == -HTTP_WAIT) {
            sched_yield();
            continue;
        }
        result = http_stream_write(stream, bytes, (size_t)count);
        while (result == HTTP_WAIT && http_stream_await_output(stream, HTTP_OUTPUT_LOW) == HTTP_WAIT)
            sched_yield();
    }
    static const uint8_t row[] = {1, 0, 0, 0, 2, 0, 0, 0, 't', 'v', '1'};
    http_rows trailers = {row, sizeof row, 1};
    (void)http_stream_finish(stream, &trailers);
}

static void *work(void *data)
{
    office *o = data;
    while (!atomic_load(&o->is_over)) {
        http_stream *stream = http3_next_request(o->endpoint);
        if (stream == NULL) {
            (void)http3_next_notice(o->endpoint);
            (void)http3_needs_sender(o->endpoint);
            (void)http3_expiry(o->endpoint);
            sched_yield();
            continue;
        }
        uint8_t *head = malloc(stream->head.field_count * sizeof(http_field) + stream->head.text_length + 1);
        CHECK(head != NULL);
        http_stream_copy_head(stream, head);
        free(head);
        echo(stream);
        http3_release(stream, 0);
        atomic_fetch_add(&o->served, 1);
    }
    return NULL;
}

void many_threads(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(40);
    pthread_t threads[THREADS];
    w->is_served_elsewhere = 1;
    w->link.loss = 10;
    w->settings.idle_ms = 0; /* the simulated time is not that of the threads */
    start_endpoint(w);
    office o = {.endpoint = w->endpoint};
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &o), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        client *c = new_client(w, &ordinary);
        for (unsigned k = 0; k < REQUESTS; k++)
            request(c, 0, 1 + random_below(w, 30000));
    }
    for (unsigned i = 0; i < 60000 && !all_complete(w); i++) {
        run_for(w, MILLISECOND);
        sched_yield();
    }
    CHECK(all_complete(w));
    for (uint32_t i = 0; i < w->client_count; i++)
        for (uint32_t k = 0; k < w->clients[i]->exchange_count; k++) {
            const exchange *e = w->clients[i]->exchanges[k];
            CHECK_EQ(e->status, 200);
            CHECK_EQ(e->is_complete, 1);
            CHECK_EQ(e->received, e->expected);
        }
    atomic_store(&o.is_over, 1);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(atomic_load(&o.served), CLIENTS * REQUESTS);
    end_world(w);
}
