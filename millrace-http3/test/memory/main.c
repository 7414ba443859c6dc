/* main.c - tests of the engine of HTTP/3 in memory. */
#include <malloc.h>
#include <stdlib.h>

#include "client.h"
#include "http3_internal.h"
#include "http3_memory.h"
#include "parts.h"
#include "threads.h"
#include "world.h"

#ifdef MEMORY_WITH_FAULTS
#include "fault/fault.h"
#endif

static world *ordinary_world(uint64_t seed)
{
    world *w = new_world(seed);
    start_endpoint(w);
    return w;
}

static void check_exchange(const exchange *e)
{
    CHECK_EQ(e->status, 200);
    CHECK_EQ(e->is_complete, 1);
    CHECK_EQ(e->received, e->expected);
    CHECK_EQ(e->trailers, e->upload != NULL);
}

static void check_exchanges(const world *w)
{
    for (uint32_t i = 0; i < w->client_count; i++)
        for (uint32_t k = 0; k < w->clients[i]->exchange_count; k++)
            check_exchange(w->clients[i]->exchanges[k]);
}

static http3_counts counts_of(const world *w)
{
    http3_counts counts;
    http3_count(w->endpoint, &counts);
    return counts;
}

static int all_complete_or_over(world *w)
{
    for (uint32_t i = 0; i < w->client_count; i++)
        for (uint32_t k = 0; !w->clients[i]->is_over && k < w->clients[i]->exchange_count; k++)
            if (!w->clients[i]->exchanges[k]->is_closed)
                return 0;
    return 1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Service */

static void one_request(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(1);
    client *c = new_client(w, &ordinary);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchanges(w);
    run_for(w, SECOND);
    CHECK(c->is_confirmed && c->token_length > 0);
    http3_change change;
    CHECK(http3_next_change(w->endpoint, &change) && change.kind == HTTP3_OPENED);
    CHECK_EQ(counts_of(w).connections, 1);
    CHECK_EQ(counts_of(w).violations, 0);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    client_close(c, HTTP3_NO_ERROR);
    run_for(w, 10 * SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 0);
    CHECK(http3_next_change(w->endpoint, &change) && change.kind == HTTP3_ENDED);
    CHECK_EQ(http3_expiry(w->endpoint) == UINT64_MAX, 1);
    end_world(w);
}

/* Transfers in both directions over a link that loses, doubles, delays and reorders. */
static void transfer(uint64_t seed)
{
    world *w = new_world(seed);
    w->link = (link_settings){.loss = random_below(w, 2) ? random_below(w, 80) : 0,
                              .duplication = random_below(w, 2) ? random_below(w, 50) : 0,
                              .delay = random_below(w, 60) * MILLISECOND,
                              .jitter = random_below(w, 2) ? random_below(w, 20) * MILLISECOND : 0};
    if (random_below(w, 3) == 0) {
        w->link.rate = 100000 + random_below(w, 2000000);
        w->link.queue = 65536;
    }
    w->link.joins = random_below(w, 2) == 0;
    w->link.clears_marks = random_below(w, 2) == 0;
    w->link.congestion = random_below(w, 2) ? random_below(w, 50) : 0;
    if (random_below(w, 3) == 0)
        w->settings.retry_from = 0;
    if (random_below(w, 3) == 0)
        w->settings.common.streams_max = 1 + random_below(w, 4);
    if (random_below(w, 3) == 0)
        w->settings.common.stream_window = w->settings.common.connection_window = 2000 + random_below(w, 10000);
    start_endpoint(w);
    unsigned clients = 1 + random_below(w, 3);
    for (unsigned i = 0; i < clients; i++) {
        client_settings settings = ordinary;
        if (random_below(w, 3) == 0)
            settings.stream_window = settings.connection_window = 3000 + random_below(w, 10000);
        client *c = new_client(w, &settings);
        unsigned requests = 1 + random_below(w, 8);
        for (unsigned k = 0; k < requests; k++) {
            uint64_t length = random_below(w, random_below(w, 6) == 0 ? 300000 : 20000);
            request(c, length, random_below(w, 2) ? length + 1 : 0);
        }
    }
    if (!run_until(w, all_complete, 600 * SECOND))
        FAIL("seed %llu: not all transfers have ended", (unsigned long long)seed);
    check_exchanges(w);
    CHECK_EQ(counts_of(w).violations, 0);
    CHECK(w->unread_most <= w->settings.common.window_max / 2);
    end_world(w);
}

static void transfers(uintptr_t argument)
{
    unsigned rounds = harness_rounds(125);
    uint64_t first = harness_first_seed() + argument * rounds;
    for (unsigned i = 0; i < rounds; i++)
        transfer(first + i);
}

static void large_download(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(3);
    client *c = new_client(w, &ordinary);
    w->link.loss = 10;
    request(c, 5000000, 0);
    CHECK(run_until(w, all_complete, 600 * SECOND));
    check_exchanges(w);
    CHECK(w->largest_datagram > 1200); /* the path allows larger datagrams, which the engine has found out */
    end_world(w);
}

/* Datagrams become as large as the path carries, at most as the setting says. */
static void path_size(uintptr_t argument)
{
    static const uint64_t carried[] = {0, 9000, 1500, 1350};
    static const uint64_t least[] = {7000, 7000, 1350, 1250}, most[] = {9000, 9000, 1452, 1342};
    world *w = new_world(34 + argument);
    w->settings.datagram_max = 9000;
    start_endpoint(w);
    w->link.largest = carried[argument];
    client *c = new_client(w, &ordinary);
    request(c, 300000, 0);
    CHECK(run_until(w, all_complete, 60 * SECOND));
    run_for(w, 5 * SECOND);
    uint64_t before = w->datagrams_to_clients;
    request(c, 900000, 0);
    CHECK(run_until(w, all_complete, 60 * SECOND));
    check_exchanges(w);
    uint64_t each = 900000 / (w->datagrams_to_clients - before);
    CHECK(each < most[argument] && each > least[argument]);
    end_world(w);
}

/* Transfers a megabyte in each direction. */
static void transfer_both_ways(world *w, client *c)
{
    request(c, 1000000, 1000000);
    CHECK(run_until(w, all_complete, 600 * SECOND));
    check_exchanges(w);
    CHECK_EQ(counts_of(w).violations, 0);
}

/* Marks (ECN): each side finds out by the other one's acknowledgements whether they arrive (RFC 9000, section
   13.4.2). */
static void marks(uintptr_t argument)
{
    world *w = ordinary_world(5);
    client *c = new_client(w, &ordinary);
    w->link.joins = 1;
    w->link.clears_marks = argument == 1;
    transfer_both_ways(w, c);
    for (int to_server = 0; to_server < 2; to_server++)
        CHECK(w->sent_with[to_server][NGTCP2_ECN_ECT_0] > 0); /* they have tried */
    memset(w->sent_with, 0, sizeof w->sent_with);
    transfer_both_ways(w, c);
    for (int to_server = 0; to_server < 2; to_server++) {
        uint64_t with = w->sent_with[to_server][NGTCP2_ECN_ECT_0], without = w->sent_with[to_server][0];
        CHECK(with + without > 600);
        CHECK(argument == 1 ? with == 0 : without * 20 < with);
    }
    end_world(w);
}

/* A world whose endpoint controls congestion so. */
static world *world_with(uint64_t seed, http3_congestion congestion)
{
    world *w = new_world(seed);
    w->settings.congestion = congestion;
    start_endpoint(w);
    return w;
}

/* Where routers mark what they would otherwise have to drop, senders become slower, and nothing is sent twice. BBR does
 * not: it takes marks for losses, of which a few tell it nothing. */
static void congestion(uintptr_t argument)
{
    uint64_t times[2];
    (void)argument;
    for (int is_congested = 0; is_congested < 2; is_congested++) {
        world *w = world_with(6, HTTP3_CUBIC);
        client *c = new_client(w, &ordinary);
        transfer_both_ways(w, c);
        w->link.congestion = is_congested ? 30 : 0;
        uint64_t start = w->now, bytes = w->bytes_to_clients;
        request(c, 3000000, 0);
        CHECK(run_until(w, all_complete, 600 * SECOND));
        check_exchanges(w);
        times[is_congested] = w->now - start;
        CHECK_LT(w->bytes_to_clients - bytes, 3000000 * 105 / 100);
        end_world(w);
    }
    CHECK(times[1] > 2 * times[0]);
}

/* Losses that are no sign of congestion cost little with BBR, and nearly all with CUBIC. */
static void random_losses(uintptr_t argument)
{
    uint64_t times[2];
    (void)argument;
    for (int is_cubic = 0; is_cubic < 2; is_cubic++) {
        world *w = world_with(7, is_cubic ? HTTP3_CUBIC : HTTP3_BBR);
        client *c = new_client(w, &ordinary);
        w->link = (link_settings){.loss = 10, .delay = 25 * MILLISECOND, .rate = 12500000, .queue = 625000};
        request(c, 10000, 0);
        CHECK(run_until(w, all_complete, 60 * SECOND));
        uint64_t start = w->now;
        request(c, 5000000, 0);
        CHECK(run_until(w, all_complete, 60 * SECOND));
        check_exchanges(w);
        times[is_cubic] = w->now - start;
        end_world(w);
    }
    CHECK(times[0] < 2 * SECOND);
    CHECK(5 * times[0] < times[1]);
}

static void server_name(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(4);
    client_settings settings = ordinary;
    client *first = new_client(w, &settings);
    settings.server_name = "second.example";
    client *second = new_client(w, &settings);
    settings.server_name = "unknown.example";
    client *third = new_client(w, &settings);
    CHECK(run_until(w, all_established, 10 * SECOND));
    CHECK(strcmp(first->peer_name, "CN=localhost") == 0);
    CHECK(strcmp(second->peer_name, "CN=second.example") == 0);
    CHECK(strcmp(third->peer_name, "CN=localhost") == 0);
    end_world(w);
}

static void new_certificates(uintptr_t argument)
{
    static const char *const names[] = {"CN=replaced"};
    (void)argument;
    world *w = ordinary_world(5);
    client *before = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    http3_credentials *credentials = make_credentials(names, 1);
    http3_set_credentials(w->endpoint, credentials);
    http3_credentials_free(credentials);
    client *after = new_client(w, &ordinary);
    request(before, 100, 0);
    request(after, 100, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchanges(w);
    CHECK(strcmp(before->peer_name, "CN=localhost") == 0);
    CHECK(strcmp(after->peer_name, "CN=replaced") == 0);
    end_world(w);
}

/* ------------------------------------------------------------------------------------------------------------------
 * QUIC */

static void retry(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(6);
    w->settings.retry_from = 0;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, SECOND);
    CHECK_EQ(c->retries, 1);
    CHECK_EQ(counts_of(w).retries, 1);
    /* With the token of that connection there is no need to prove the address again. */
    client_settings settings = ordinary;
    settings.token = c->token;
    settings.token_length = c->token_length;
    settings.number = c->number;
    client_close(c, HTTP3_NO_ERROR);
    c->number = 9999;
    client *again = new_client(w, &settings);
    request(again, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchange(again->exchanges[0]);
    CHECK_EQ(again->retries, 0);
    /* It is of no use at another address. */
    settings.number = 0;
    client *other = new_client(w, &settings);
    request(other, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    CHECK_EQ(other->retries, 1);
    end_world(w);
}

/* A client whose token looks like that of a Retry is told that it is wrong, and no connection begins (RFC 9000, section
   8.1.3). */
static void wrong_token(uintptr_t argument)
{
    static const uint8_t token[60] = {NGTCP2_CRYPTO_TOKEN_MAGIC_RETRY2, 1, 2, 3}, other[60] = {1, 2, 3};
    (void)argument;
    world *w = ordinary_world(23);
    client_settings settings = ordinary;
    settings.token = token;
    settings.token_length = sizeof token;
    client *c = new_client(w, &settings);
    CHECK(run_until(w, all_over, 10 * SECOND));
    CHECK(!c->is_established);
    CHECK_EQ(c->error.error_code, NGTCP2_INVALID_TOKEN);
    CHECK_EQ(counts_of(w).connections, 0);
    /* One that looks like nothing known is ignored. */
    settings.token = other;
    client *ignored = new_client(w, &settings);
    request(ignored, 1000, 0);
    run_for(w, 5 * SECOND);
    CHECK(ignored->is_established && ignored->exchanges[0]->is_closed);
    check_exchange(ignored->exchanges[0]);
    end_world(w);
}

static void version_negotiation(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(7);
    uint8_t packet[1200] = {0xc0, 0xba, 0xba, 0xba, 0xba, 8, 1, 2, 3, 4, 5, 6, 7, 8, 4, 9, 9, 9, 9};
    inject(w, 1, 1000, packet, sizeof packet);
    flush_endpoint(w);
    CHECK_EQ(w->datagrams_to_clients, 1);
    CHECK_LT(w->bytes_to_clients, 100);
    CHECK_EQ(counts_of(w).version_answers, 1);
    /* A short packet gets no answer. */
    inject(w, 1, 1000, packet, 1199);
    flush_endpoint(w);
    CHECK_EQ(w->datagrams_to_clients, 1);
    end_world(w);
}

static void version_2(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(8);
    client_settings settings = ordinary;
    settings.version = NGTCP2_PROTO_VER_V2;
    client *c = new_client(w, &settings);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchanges(w);
    end_world(w);
}

/* The server has lost its memory of a connection, but not the secret. */
static void stateless_reset(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(9);
    client *c = new_client(w, &ordinary);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, SECOND);
    w->link.loss = 1000;
    http3_close(w->endpoint, HTTP3_NO_ERROR, w->now);
    flush_endpoint(w);
    w->link.loss = 0;
    http3_free(w->endpoint);
    start_endpoint(w);
    request(c, 1000, 0);
    run_for(w, 10 * SECOND);
    CHECK_EQ(c->was_reset, 1);
    CHECK(c->is_over);
    CHECK_LE(counts_of(w).resets, 3);
    end_world(w);
}

static void key_update(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(10);
    client *c = new_client(w, &ordinary);
    request(c, 300000, 0);
    for (unsigned i = 0; i < 5; i++) {
        run_for(w, SECOND);
        CHECK(c->is_confirmed);
        request(c, 1000, 0); /* the client prepares the next keys when a packet arrives */
        run_for(w, SECOND);
        CHECK(c->is_confirmed && !c->is_over);
        CHECK_EQ(ngtcp2_conn_initiate_key_update(c->quic, w->now), 0);
        request(c, 100000, 0);
    }
    CHECK(run_until(w, all_complete, 60 * SECOND));
    check_exchanges(w);
    end_world(w);
}

static int all_confirmed(world *w)
{
    for (uint32_t i = 0; i < w->client_count; i++)
        if (!w->clients[i]->is_confirmed)
            return 0;
    return 1;
}

/* A NAT gives the client another port, again and again, in the middle of transfers. */
static void rebinding(uintptr_t argument)
{
    (void)argument;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world *w = ordinary_world(seed);
        w->link.delay = random_below(w, 50) * MILLISECOND;
        w->link.rate = 500000;
        w->link.queue = 50000;
        client *c = new_client(w, &ordinary);
        request(c, 400000, 0);
        request(c, 0, 400000);
        /* A server does not know the new port before the client has sent something. */
        ngtcp2_conn_set_keep_alive_timeout(c->quic, 200 * MILLISECOND);
        CHECK(run_until(w, all_confirmed, 10 * SECOND));
        run_for(w, 200 * MILLISECOND);
        for (unsigned i = 0; i < 3; i++) {
            run_for(w, random_below(w, 300) * MILLISECOND);
            rebind(c);
        }
        CHECK(run_until(w, all_complete, 60 * SECOND));
        check_exchanges(w);
        CHECK_EQ(counts_of(w).violations, 0);
        end_world(w);
    }
}

static void idle_end(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(11);
    w->settings.idle_ms = 5000;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, 4 * SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 1);
    run_for(w, 4 * SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 0);
    CHECK(c->is_over);
    end_world(w);
}

/* While a request is served a connection does not end, however long that takes, unless the client is gone. */
static void served_idle(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(42);
    w->settings.idle_ms = 5000;
    w->is_stuck = 1;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    request(c, 1000, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    uint64_t before = w->datagrams_to_clients;
    run_for(w, 60 * SECOND);
    CHECK_EQ(w->handler_count, 1);
    CHECK_EQ(http3_connection_count(w->endpoint), 1);
    CHECK(!c->is_over);
    CHECK_LT(w->datagrams_to_clients - before, 60);
    c->settings.is_mute = 1;
    run_for(w, 12 * SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 0);
    CHECK_EQ(w->handler_count, 0);
    end_world(w);
}

static void quiet_end(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(12);
    client *c = new_client(w, &ordinary);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, 2 * SECOND);
    CHECK_EQ(http3_end_idle(w->endpoint, w->now, 3 * SECOND, 3 * SECOND), 0);
    run_for(w, 2 * SECOND);
    CHECK_EQ(http3_end_idle(w->endpoint, w->now, 3 * SECOND, 3 * SECOND), 1);
    run_for(w, SECOND);
    CHECK(c->is_over);
    CHECK_EQ(c->error.type, NGTCP2_CCERR_TYPE_APPLICATION);
    CHECK_EQ(c->error.error_code, HTTP3_NO_ERROR);
    end_world(w);
}

static void graceful_end(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(13);
    w->link.rate = 500000;
    w->link.queue = 50000;
    client *busy = new_client(w, &ordinary), *idle = new_client(w, &ordinary);
    request(idle, 10, 0);
    request(busy, 2000000, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 100 * MILLISECOND);
    http3_announce_end(w->endpoint, HTTP_END_NOTICE);
    run_for(w, 500 * MILLISECOND);
    CHECK_EQ(busy->goaways, 1);
    /* No new connection: another process may take it. */
    CHECK_EQ(w->foreign, 0);
    client *late = new_client(w, &ordinary);
    run_for(w, 100 * MILLISECOND);
    CHECK(!late->is_established);
    CHECK(counts_of(w).refused > 0);
    CHECK(w->foreign > 0);
    http3_announce_end(w->endpoint, HTTP_END_LAST);
    run_for(w, SECOND);
    CHECK(idle->is_over);
    CHECK_EQ(idle->error.error_code, HTTP3_NO_ERROR);
    CHECK(!busy->is_over);
    CHECK_EQ(busy->goaways, 2);
    /* The program may still be reading the answer. */
    CHECK(run_until(w, all_complete, 60 * SECOND));
    check_exchange(busy->exchanges[0]);
    run_for(w, 900 * MILLISECOND);
    CHECK(!busy->is_over);
    run_for(w, 300 * MILLISECOND);
    CHECK(busy->is_over);
    CHECK_EQ(busy->error.error_code, HTTP3_NO_ERROR);
    CHECK_EQ(http3_connection_count(w->endpoint), 0);
    end_world(w);
}

static void sudden_end(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(14);
    client *c = new_client(w, &ordinary);
    request(c, 10000000, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 100 * MILLISECOND);
    http3_close(w->endpoint, HTTP3_NO_ERROR, w->now);
    run_for(w, SECOND);
    CHECK(c->is_over);
    CHECK_EQ(c->error.error_code, HTTP3_NO_ERROR);
    end_world(w);
}

/* A client that goes to another address on purpose uses a new ID there, and retires the old one. */
static void migrations(uintptr_t argument)
{
    enum { MOVES = 5 };
    (void)argument;
    world *w = ordinary_world(24);
    client *c = new_client(w, &ordinary);
    request(c, 10000, 0);
    CHECK(run_until(w, all_confirmed, 10 * SECOND));
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, SECOND);
    uint32_t ids = w->endpoint->id_count;
    for (int i = 0; i < MOVES; i++) {
        CHECK_EQ(migrate(c), 0);
        request(c, 10000, 10000);
        CHECK(run_until(w, all_complete, 10 * SECOND));
        run_for(w, 5 * SECOND);
        CHECK_LE(w->endpoint->id_count, ids + 2);
    }
    check_exchanges(w);
    CHECK_EQ(counts_of(w).violations, 0);
    CHECK(!c->is_over);
    end_world(w);
}

/* Of several connections the one with this number ends. */
static void one_end(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(21);
    client *clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = new_client(w, &ordinary);
        request(clients[i], 10000000, 0);
    }
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 100 * MILLISECOND); /* the handshakes are complete for the server, too */
    uint64_t numbers[3];
    http3_change change;
    int count = 0;
    while (count < 3 && http3_next_change(w->endpoint, &change))
        if (change.kind == HTTP3_OPENED)
            numbers[count++] = change.connection;
    CHECK_EQ(count, 3);
    http3_end_one(w->endpoint, UINT64_MAX, w->now);
    http3_end_one(w->endpoint, numbers[1], w->now);
    run_for(w, SECOND);
    http3_end_one(w->endpoint, numbers[1], w->now);
    uint32_t over = 0;
    for (int i = 0; i < 3; i++)
        if (clients[i]->is_over) {
            over++;
            CHECK_EQ(clients[i]->error.error_code, HTTP3_NO_ERROR);
        }
    CHECK_EQ(over, 1);
    CHECK(run_until(w, all_complete_or_over, 60 * SECOND));
    end_world(w);
}

/* Collects one batch. Returns the flags. */
static uint64_t collect_one(world *w, http_sender sender)
{
    static uint8_t bytes[HTTP3_COLLECT_MIN];
    http3_gso_batch batch;
    return http3_collect(w->endpoint, &batch, 1, bytes, sizeof bytes, w->now, sender);
}

/* While a thread has the right to send, another one gets nothing. After a failure it gives the right back. */
static void one_sender(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(22);
    for (int i = 0; i < 3; i++)
        new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, SECOND);
    http3_close(w->endpoint, HTTP3_NO_ERROR, w->now); /* each client gets a datagram */
    uint64_t flags = collect_one(w, HTTP_SENDER_NEW);
    CHECK((uint32_t)flags == 1 && !(flags & (HTTP_IS_BUSY | HTTP_HAS_ENDED)));
    flags = collect_one(w, HTTP_SENDER_NEW);
    CHECK((uint32_t)flags == 0 && (flags & HTTP_IS_BUSY));
    CHECK(!http3_needs_sender(w->endpoint));
    http3_stop_sending(w->endpoint);
    CHECK(http3_needs_sender(w->endpoint));
    flags = collect_one(w, HTTP_SENDER_NEW);
    CHECK((uint32_t)flags == 1 && !(flags & HTTP_IS_BUSY));
    flags = collect_one(w, HTTP_SENDER_AGAIN);
    CHECK((uint32_t)flags == 1);
    flags = collect_one(w, HTTP_SENDER_AGAIN);
    CHECK((uint32_t)flags == 0 && (flags & HTTP_HAS_ENDED));
    end_world(w);
}

static void endpoint_ids(uintptr_t argument)
{
    (void)argument;
    static const uint8_t short_packet[40] = {0x40, 0x12, 0x34}, long_packet[40] = {0xc0, 0, 0, 0, 1, 12, 0xab, 0xcd},
                         foreign_packet[40] = {0xc0, 0, 0, 0, 1, 8, 0xab, 0xcd};
    CHECK_EQ(http3_endpoint_id_of(short_packet, 40), 0x1234);
    CHECK_EQ(http3_endpoint_id_of(long_packet, 40), 0xabcd);
    CHECK_EQ(http3_endpoint_id_of(foreign_packet, 40), -1);
    CHECK_EQ(http3_endpoint_id_of(short_packet, 20), -1);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Requests */

#define FIELD(name, value)                                                                \
    {                                                                                     \
        (const uint8_t *)(name), (const uint8_t *)(value), strlen(name), strlen(value), 0 \
    }

static exchange *send_fields(world *w, const nghttp3_nv *fields, size_t count)
{
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    exchange *e = request_with(c, fields, count, 5);
    run_for(w, 2 * SECOND);
    return e;
}

/* What HTTP/1 and HTTP/2 refuse is refused: with an answer, or with a reset. */
static void refusals(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(15);
    static char long_path[20000], long_value[60000];
    memset(long_path, '/', sizeof long_path - 1);
    memset(long_value, 'a', sizeof long_value - 1);
    const struct {
        int status; /* 0: reset */
        nghttp3_nv fields[6];
    } cases[] = {
        {200, {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5")}},
        {200,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD("host", "a")}},
        {400,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD("host", "b")}},
        {0, {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a@b"), FIELD(":path", "/5")}},
        {400, {FIELD(":method", "GET"), FIELD(":scheme", "ftp"), FIELD(":authority", "a"), FIELD(":path", "/5")}},
        {400, {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5#")}},
        {414,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", long_path)}},
        {431,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD("x", long_value)}},
        {0, {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":path", "/5")}},
        {0, {FIELD(":method", "GET"), FIELD(":authority", "a"), FIELD(":path", "/5")}},
        {0,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD("connection", "close")}},
        {0,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD("transfer-encoding", "chunked")}},
        {0,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD(":path", "/6")}},
        {0,
         {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD(":protocol", "websocket")}},
        {200,
         {FIELD(":method", "CONNECT"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD(":protocol", "websocket")}},
        {0,
         {FIELD(":method", "CONNECT"), FIELD(":scheme", "https"), FIELD(":authority", "a"),
          FIELD(":protocol", "websocket")}},
        {0,
         {FIELD(":method", "CONNECT"), FIELD(":authority", "a"), FIELD(":path", "/5"),
          FIELD(":protocol", "websocket")}},
        {0, {FIELD(":method", "CONNECT"), FIELD(":scheme", "https"), FIELD(":authority", "a"), FIELD(":path", "/5")}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t count = 0;
        while (count < 6 && cases[i].fields[count].name != NULL)
            count++;
        exchange *e = send_fields(w, cases[i].fields, count);
        CHECK(e->is_closed || e->client->is_over);
        if (e->status != cases[i].status)
            FAIL("case %zu: the status is %d instead of %d", i, e->status, cases[i].status);
        if (cases[i].status == 0)
            CHECK_NE(e->code, HTTP3_NO_ERROR);
    }
    end_world(w);
}

/* A client that is answered before it has sent everything is asked to stop. */
static void early_answer(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(16);
    client *c = new_client(w, &ordinary);
    exchange *e = request(c, 0, 5000000);
    w->settings.common.skipped_max = 0;
    w->is_stuck = 1;
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 200 * MILLISECOND);
    CHECK_EQ(w->handler_count, 1);
    http_rows none = {(const uint8_t *)"", 0, 0};
    int64_t given;
    http_stream *stream = w->handlers[0].stream;
    CHECK(stream != NULL);
    w->handler_count = 0;
    CHECK_EQ(http_stream_answer(stream, 403, &none, 0, NULL, 0, 1, &given), HTTP_OK);
    http3_release(stream, w->now);
    CHECK(http3_needs_sender(w->endpoint));
    flush_endpoint(w);
    run_for(w, 2 * SECOND);
    CHECK_EQ(e->status, 403);
    CHECK_EQ(e->is_closed, 1);
    CHECK_LT(w->bytes_to_server, 1000000);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    CHECK(!c->is_over);
    end_world(w);
}

/* Takes the request that waits from the application, and answers it with this many bytes, and perhaps more later. */
static http_stream *answer_by_hand(world *w, uint32_t length, int is_whole)
{
    static uint8_t body[20000];
    http_rows none = {(const uint8_t *)"", 0, 0};
    int64_t given;
    CHECK_EQ(w->handler_count, 1);
    http_stream *stream = w->handlers[0].stream;
    CHECK(stream != NULL);
    w->handler_count = 0;
    CHECK_LE(length, sizeof body);
    for (uint32_t i = 0; i < length; i++)
        body[i] = pattern(i);
    CHECK_EQ(http_stream_answer(stream, 200, &none, HTTP_LENGTH_UNKNOWN, body, length, is_whole, &given), HTTP_OK);
    if (!is_whole)
        http_stream_flush(stream);
    run_for(w, SECOND);
    return stream;
}

static void finish_by_hand(world *w, http_stream *stream)
{
    http_rows none = {(const uint8_t *)"", 0, 0};
    CHECK_EQ(http_stream_finish(stream, &none), HTTP_OK);
    http3_release(stream, w->now);
    run_for(w, SECOND);
}

/* Another answer waits for the connection's window when one ends that needs none. It goes on when the window opens. */
static void end_beside_others(uintptr_t is_urgent)
{
    static const nghttp3_nv fields[] = {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"),
                                        FIELD(":path", "/20000"), FIELD("priority", "u=0")};
    client_settings settings = ordinary;
    settings.connection_window = 4096;
    settings.reads_slowly = 1;
    world *w = ordinary_world(48);
    w->is_stuck = 1;
    client *c = new_client(w, &settings);
    exchange *small = request(c, 100, 0);
    run_for(w, SECOND);
    http_stream *of_small = answer_by_hand(w, 100, 0);
    exchange *large = request_with(c, fields, is_urgent ? 5 : 4, 20000);
    run_for(w, SECOND);
    http3_release(answer_by_hand(w, 20000, 1), w->now);
    CHECK(large->received > 3000 && !large->is_complete && !small->is_complete);
    finish_by_hand(w, of_small);
    CHECK(small->is_complete && !large->is_complete);
    ngtcp2_conn_extend_max_offset(c->quic, 30000);
    run_for(w, SECOND);
    CHECK(large->is_complete);
    CHECK_EQ(large->received, 20000);
    end_world(w);
}

typedef enum end_kind { END_WITH_BODY, END_LATER } end_kind;

/* Answers so that the body just fits into the client's window, or does not, and ends. The client opens no window.
   Returns whether all has come. */
static int end_in_window(uint32_t length, client_settings settings, end_kind kind)
{
    world *w = ordinary_world(47);
    w->is_stuck = 1;
    settings.reads_slowly = 1;
    client *c = new_client(w, &settings);
    exchange *e = request(c, length, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, SECOND);
    http_stream *stream = answer_by_hand(w, length, kind == END_WITH_BODY);
    if (kind == END_LATER) {
        CHECK(!e->is_complete);
        finish_by_hand(w, stream);
    } else {
        http3_release(stream, w->now);
    }
    int is_whole = e->received == length;
    if (e->is_complete != is_whole)
        FAIL("of %u bytes came %llu, and %s end", length, (unsigned long long)e->received,
             e->is_complete ? "the" : "no");
    end_world(w);
    return is_whole;
}

/* The end of an answer needs no window: it comes when all bytes have come, also if they have filled the window. */
static void end_without_window(uintptr_t argument)
{
    client_settings settings = ordinary;
    if (argument & 1)
        settings.stream_window = 4096;
    else
        settings.connection_window = 4096;
    uint32_t whole = 0, cut = 0;
    for (uint32_t length = 3900; length <= 4096; length++) {
        if (end_in_window(length, settings, argument & 2 ? END_LATER : END_WITH_BODY))
            whole++;
        else
            cut++;
    }
    CHECK(whole > 0 && cut > 0);
}

/* Clients that are asked to stop get their answers whole, although they reset their side meanwhile. */
static void early_large_answer(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(43);
    w->settings.common.skipped_max = 0;
    w->settings.common.allowances.resets_max = 4;
    w->settings.common.allowances.resets_per_second = 0;
    start_endpoint(w);
    w->is_stuck = 1;
    client *c = new_client(w, &ordinary);
    for (unsigned i = 0; i < 8; i++) {
        exchange *e = request(c, 0, 5000000);
        run_for(w, 500 * MILLISECOND);
        CHECK_EQ(w->handler_count, 1);
        http_rows none = {(const uint8_t *)"", 0, 0};
        int64_t given;
        http_stream *stream = w->handlers[0].stream;
        CHECK(stream != NULL);
        w->handler_count = 0;
        CHECK_EQ(http_stream_answer(stream, 403, &none, 60000, e->upload, 60000, 1, &given), HTTP_OK);
        http3_release(stream, w->now);
        flush_endpoint(w);
        run_for(w, 2 * SECOND);
        CHECK_EQ(e->status, 403);
        CHECK_EQ(e->received, 60000);
        CHECK_EQ(e->is_complete, 1);
        CHECK_EQ(e->is_closed, 1);
        CHECK_EQ(http3_stream_count(w->endpoint), 0);
        CHECK(!c->is_over);
    }
    end_world(w);
}

/* The beginning of each download. */
static void fill(uint8_t *body, size_t length)
{
    for (size_t i = 0; i < length; i++)
        body[i] = (uint8_t)(i * 131 + (i >> 8) * 7 + (i >> 16));
}

/* What a handler had flushed arrives, although it fails. */
static void aborted_answer(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(17);
    w->is_stuck = 1;
    w->link.loss = 100;
    client *c = new_client(w, &ordinary);
    exchange *e = request(c, 30000, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 2 * SECOND);
    CHECK_EQ(w->handler_count, 1);
    uint8_t body[20000];
    fill(body, sizeof body);
    http_rows none = {(const uint8_t *)"", 0, 0};
    int64_t given;
    http_stream *stream = w->handlers[0].stream;
    CHECK(stream != NULL);
    w->handler_count = 0;
    CHECK_EQ(http_stream_answer(stream, 200, &none, 30000, body, 10000, 0, &given), HTTP_OK);
    http_stream_flush(stream);
    CHECK_EQ(http_stream_write(stream, body + 10000, 5000), HTTP_OK);
    http3_release(stream, w->now);
    flush_endpoint(w);
    run_for(w, 10 * SECOND);
    CHECK_EQ(e->status, 200);
    CHECK_EQ(e->received, 10000);
    CHECK_EQ(e->is_complete, 0);
    CHECK_EQ(e->is_closed, 1);
    CHECK_EQ(e->code, HTTP3_INTERNAL_ERROR);
    end_world(w);
}

/* The end of an answer waits because another one's bytes fill the congestion window, and still does when all before it
 * was acknowledged, which takes 100 milliseconds. */
static void waiting_end(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(46);
    w->is_stuck = 1;
    w->link.delay = 50 * MILLISECOND;
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    const nghttp3_nv urgent[] = {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"),
                                 FIELD(":path", "/10"), FIELD("priority", "u=0")};
    request_with(c, urgent, 5, 10);
    request(c, 200000, 0);
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, 2);
    http_rows none = {(const uint8_t *)"", 0, 0};
    int64_t given;
    http_stream *small = w->handlers[0].stream, *other = w->handlers[1].stream;
    CHECK(small != NULL && other != NULL);
    w->handler_count = 0;
    static uint8_t body[200000];
    fill(body, sizeof body);
    CHECK_EQ(http_stream_answer(small, 200, &none, 10, body, 10, 0, &given), HTTP_OK);
    http_stream_flush(small);
    flush_endpoint(w);
    run_for(w, 60 * MILLISECOND);
    CHECK_EQ(http_stream_answer(other, 200, &none, sizeof body, body, sizeof body, 1, &given), HTTP_OK);
    http3_release(other, w->now);
    flush_endpoint(w);
    run_for(w, 20 * MILLISECOND);
    CHECK_EQ(http_stream_finish(small, &none), HTTP_OK);
    http3_release(small, w->now);
    flush_endpoint(w);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchanges(w);
    run_for(w, SECOND);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    end_world(w);
}

/* An answer that nobody has seen can be replaced. */
static void replaced_answer(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(18);
    w->is_stuck = 1;
    client *c = new_client(w, &ordinary);
    exchange *e = request(c, 5, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, SECOND);
    http_rows none = {(const uint8_t *)"", 0, 0};
    int64_t given;
    http_stream *stream = w->handlers[0].stream;
    CHECK(stream != NULL);
    w->handler_count = 0;
    CHECK_EQ(http_stream_answer(stream, 200, &none, 100, (const uint8_t *)"begun", 5, 0, &given), HTTP_OK);
    flush_endpoint(w);
    CHECK_EQ(http_stream_take_back(stream), HTTP_OK);
    CHECK_EQ(http_stream_answer(stream, 500, &none, 0, NULL, 0, 1, &given), HTTP_OK);
    flush_endpoint(w);
    CHECK_EQ(http_stream_take_back(stream), HTTP_GONE);
    http3_release(stream, w->now);
    run_for(w, SECOND);
    CHECK_EQ(e->status, 500);
    CHECK_EQ(e->received, 0);
    end_world(w);
}

/* Of two downloads, the urgent one comes first, although it was asked for last (RFC 9218). */
static void priorities(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(41);
    w->link.rate = 500000;
    w->link.queue = 50000;
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    const nghttp3_nv later[] = {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"),
                                FIELD(":path", "/300000"), FIELD("priority", "u=6")};
    const nghttp3_nv urgent[] = {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"),
                                 FIELD(":path", "/300000"), FIELD("priority", "u=0")};
    exchange *first = request_with(c, later, 5, 300000), *second = request_with(c, urgent, 5, 300000);
    while (!second->is_closed && w->now < 60 * SECOND)
        run_for(w, 10 * MILLISECOND);
    check_exchange(second);
    CHECK_LT(first->received, 100000);
    CHECK(run_until(w, all_complete, 60 * SECOND));
    check_exchange(first);
    end_world(w);
}

static exchange *request_of_urgency(client *c, const char *priority)
{
    const nghttp3_nv fields[] = {FIELD(":method", "GET"), FIELD(":scheme", "https"), FIELD(":authority", "a"),
                                 FIELD(":path", "/300000"), FIELD("priority", priority)};
    return request_with(c, fields, priority[0] == 0 ? 4 : 5, 300000);
}

/* What three downloads have received when the first of them is complete. */
static void race(exchange *e[3], const char *const priorities[3], const char *const updates[3], uint64_t least[2])
{
    world *w = ordinary_world(44);
    w->link.rate = 500000;
    w->link.queue = 50000;
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    for (unsigned i = 0; i < 3; i++)
        e[i] = request_of_urgency(c, priorities[i]);
    run_for(w, 200 * MILLISECOND);
    for (unsigned i = 0; i < 3; i++)
        if (updates[i] != NULL)
            client_prioritize(e[i], updates[i]);
    while (!e[0]->is_closed && !e[1]->is_closed && !e[2]->is_closed && w->now < 60 * SECOND)
        run_for(w, 10 * MILLISECOND);
    unsigned winner = e[0]->is_closed ? 0 : e[1]->is_closed ? 1 : 2;
    least[0] = winner;
    least[1] = e[0]->received + e[1]->received + e[2]->received - e[winner]->received;
    CHECK(run_until(w, all_complete, 60 * SECOND));
    check_exchanges(w);
    CHECK_EQ(counts_of(w).violations, 0);
    end_world(w);
}

/* Answers of one urgency come one after the other, unless they are of use in parts; then they share the link (RFC 9218,
   section 10). */
static void incremental(uintptr_t argument)
{
    exchange *e[3];
    uint64_t others[2];
    (void)argument;
    race(e, (const char *const[]){"", "", ""}, (const char *const[]){NULL, NULL, NULL}, others);
    CHECK_EQ(others[0], 0);
    CHECK_LT(others[1], 100000);
    race(e, (const char *const[]){"i", "i", "i"}, (const char *const[]){NULL, NULL, NULL}, others);
    CHECK_LT(400000, others[1]);
}

/* A client changes its mind (PRIORITY_UPDATE, RFC 9218, section 7.2). */
static void priority_updates(uintptr_t argument)
{
    exchange *e[3];
    uint64_t others[2];
    (void)argument;
    race(e, (const char *const[]){"u=1", "u=2", "u=3"}, (const char *const[]){"u=6", NULL, "u=0"}, others);
    CHECK_EQ(others[0], 2);
    CHECK_LT(others[1], 200000);
}

/* A client resets a request: its handler learns of it. */
static void reset_by_client(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(19);
    w->is_stuck = 1;
    client *c = new_client(w, &ordinary);
    exchange *e = request(c, 0, 100000);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, 1);
    client_reset(e, HTTP3_REQUEST_CANCELLED);
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, 0);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    CHECK(!c->is_over);
    end_world(w);
}

/* A client wants nothing more of a response (STOP_SENDING): its handler learns of it, also if it has not answered
   yet. */
static void stopped_by_client(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(45);
    client *c = new_client(w, &ordinary);
    exchange *e = request(c, 100000000, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 200 * MILLISECOND);
    CHECK_EQ(w->handler_count, 1);
    client_stop(e, HTTP3_REQUEST_CANCELLED);
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, 0);
    w->is_stuck = 1;
    e = request(c, 1000, 0);
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, 1);
    client_stop(e, HTTP3_REQUEST_CANCELLED);
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, 0);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    CHECK(!c->is_over);
    end_world(w);
}

/* ------------------------------------------------------------------------------------------------------------------
 * 0-RTT */

typedef enum early_setting { EARLY_OFF, EARLY_ON } early_setting;

static world *early_world(uint64_t seed, early_setting setting)
{
    world *w = new_world(seed);
    w->settings.early = setting == EARLY_ON;
    start_endpoint(w);
    return w;
}

/* A client that was here, and what it has learned. */
static client *guest(world *w)
{
    client_settings settings = ordinary;
    settings.remembers = 1;
    settings.number = 1000;
    client *c = new_client(w, &settings);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, SECOND);
    CHECK(c->session.size > 0 && c->parameters_length > 0 && c->token_length > 0);
    client_close(c, HTTP3_NO_ERROR);
    run_for(w, 10 * SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 0);
    return c;
}

/* It comes again, from the same address. */
static client *guest_again(world *w, client *before)
{
    client_settings settings = ordinary;
    settings.number = before->number;
    settings.earlier = before;
    settings.token = before->token;
    settings.token_length = before->token_length;
    before->number = 0;
    return new_client(w, &settings);
}

/* A GET is served before the handshake is over, and says that it may be a repetition. A POST waits. */
static void early_requests(uintptr_t argument)
{
    (void)argument;
    world *w = early_world(46, EARLY_ON);
    client *c = guest_again(w, guest(w));
    http3_change change;
    while (http3_next_change(w->endpoint, &change))
        continue;
    uint32_t seen = w->handlers_seen;
    request(c, 1000, 0);
    exchange *post = request(c, 0, 1000);
    run_for(w, 15 * MILLISECOND); /* the link takes 10 */
    CHECK_EQ(c->is_established, 0);
    CHECK_EQ(w->handlers_seen, seen + 1);
    CHECK_EQ(w->handlers_early, 1);
    CHECK(http3_next_change(w->endpoint, &change) && change.kind == HTTP3_OPENED);
    run_for(w, 10 * MILLISECOND); /* the answer has come with the server's part of the handshake */
    CHECK_EQ(c->exchanges[0]->status, 200);
    CHECK_EQ(post->status, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchanges(w);
    CHECK_EQ(w->handlers_seen, seen + 2);
    CHECK_EQ(w->handlers_early, 1);
    CHECK_EQ(c->was_rejected, 0);
    CHECK_EQ(http3_next_change(w->endpoint, &change), 0);
    CHECK_EQ(counts_of(w).violations, 0);
    end_world(w);
}

/* As many as a client may have open. */
static void many_early_requests(uintptr_t argument)
{
    (void)argument;
    world *w = early_world(49, EARLY_ON);
    client *c = guest_again(w, guest(w));
    for (unsigned i = 0; i < 100; i++)
        request(c, 3000, i % 10 == 0 ? 2000 : 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchanges(w);
    CHECK_EQ(c->was_rejected, 0);
    CHECK_LT(0, w->handlers_early);
    CHECK_EQ(counts_of(w).violations, 0);
    end_world(w);
}

/* Without the setting, or without a token for the client's address, nothing is served early. It is served after the
   handshake. */
static void early_refused(uintptr_t has_setting)
{
    world *w = early_world(47, has_setting ? EARLY_ON : EARLY_OFF);
    client *before = guest(w);
    if (has_setting)
        before->token_length = 0;
    client *c = guest_again(w, before);
    request(c, 1000, 0);
    request(c, 0, 1000);
    run_for(w, 15 * MILLISECOND);
    CHECK_EQ(w->handlers_seen, 1);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    check_exchanges(w);
    CHECK_EQ(w->handlers_early, 0);
    CHECK_EQ(c->was_rejected, 1);
    end_world(w);
}

/* What a client has sent before the handshake is over, as somebody on its way may have copied it. */
static struct {
    uint8_t bytes[8][1500];
    size_t lengths[8];
    unsigned count;
} copied;

static void copy_datagram(world *w, const uint8_t *bytes, size_t length)
{
    (void)w;
    if (copied.count < 8 && length <= sizeof copied.bytes[0]) {
        memcpy(copied.bytes[copied.count], bytes, length);
        copied.lengths[copied.count++] = length;
    }
}

static void repeat_copies(world *w, uint16_t number)
{
    for (unsigned i = 0; i < copied.count; i++)
        inject(w, number, 1000, copied.bytes[i], copied.lengths[i]);
    flush_endpoint(w);
    run_for(w, 20 * SECOND);
}

/* Somebody repeats the beginning of a client's connection, again and again: nothing of it is served a second time. */
static void early_repeated(uintptr_t argument)
{
    (void)argument;
    world *w = early_world(48, EARLY_ON);
    client *c = guest_again(w, guest(w));
    uint16_t number = c->number;
    w->on_datagram_to_server = copy_datagram;
    request(c, 1000, 0);
    run_for(w, 5 * MILLISECOND);
    w->on_datagram_to_server = NULL;
    CHECK(copied.count > 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    CHECK_EQ(w->handlers_early, 1);
    client_close(c, HTTP3_NO_ERROR);
    run_for(w, 20 * SECOND);
    uint32_t seen = w->handlers_seen;
    c->number = 0;
    repeat_copies(w, number);
    repeat_copies(w, number);
    repeat_copies(w, 2000);
    CHECK_EQ(w->handlers_seen, seen);
    CHECK_EQ(w->handlers_early, 1);
    end_world(w);
}

static void early_register(uintptr_t argument)
{
    (void)argument;
    http3_register *seen = NULL;
    uint8_t id[32] = {0};
    for (uint32_t i = 0; i < 65536; i++) {
        memcpy(id, &i, sizeof i);
        CHECK_EQ(http3_register_add(&seen, id, sizeof id, i, 100000), 1);
        CHECK_EQ(http3_register_add(&seen, id, sizeof id, i, 100000), 0);
    }
    id[20] = 1; /* the rest does not count */
    CHECK_EQ(http3_register_add(&seen, id, sizeof id, 65536, 100000), 0);
    id[5] = 1;
    CHECK_EQ(http3_register_add(&seen, id, sizeof id, 65536, 100000), 0); /* full */
    CHECK_EQ(http3_register_add(&seen, id, sizeof id, 100000, 100000), 1);
    CHECK_EQ(http3_register_add(&seen, id, sizeof id, 165535, 100000), 0);
    memset(id, 0, sizeof id);
    CHECK_EQ(http3_register_add(&seen, id, sizeof id, 165535, 100000), 1);
    http3_register_free(seen);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Attacks */

/* Before a client has proved its address, it gets at most three times the bytes that it has sent. */
static void amplification(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(20);
    client_settings settings = ordinary;
    settings.is_mute = 1;
    client *c = new_client(w, &settings);
    run_for(w, 60 * SECOND);
    CHECK(c->bytes_sent >= 1200);
    CHECK(w->bytes_to_clients > 0);
    CHECK_LE(w->bytes_to_clients, 3 * c->bytes_sent);
    CHECK_EQ(http3_connection_count(w->endpoint), 0); /* the handshake has run out of time */
    end_world(w);
}

/* Clients that begin handshakes and do not end them: from a number on they must prove their addresses, and beyond
 * another they are ignored. */
static void handshake_flood(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(21);
    w->settings.retry_from = 20;
    w->settings.handshakes_max = 50;
    start_endpoint(w);
    client_settings settings = ordinary;
    settings.is_mute = 1;
    for (unsigned i = 0; i < 600; i++)
        new_client(w, &settings);
    run_for(w, SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 20);
    CHECK_EQ(counts_of(w).retries, 580);
    /* An honest client gets through. */
    client *honest = new_client(w, &ordinary);
    exchange *e = request(honest, 1000, 0);
    run_for(w, 2 * SECOND);
    check_exchange(e);
    CHECK_EQ(honest->retries, 1);
    /* Those with an unfinished handshake are forgotten. */
    run_for(w, 20 * SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 1);
    end_world(w);
}

static void handshake_limit(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(22);
    w->settings.retry_from = UINT32_MAX;
    w->settings.handshakes_max = 50;
    start_endpoint(w);
    client_settings settings = ordinary;
    settings.is_mute = 1;
    for (unsigned i = 0; i < 200; i++)
        new_client(w, &settings);
    run_for(w, SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 50);
    CHECK_EQ(counts_of(w).refused, 150);
    end_world(w);
}

static void connection_limit(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(23);
    w->settings.connections_max = 3;
    start_endpoint(w);
    for (unsigned i = 0; i < 10; i++)
        new_client(w, &ordinary);
    run_for(w, 2 * SECOND);
    CHECK_EQ(http3_connection_count(w->endpoint), 3);
    end_world(w);
}

/* Two endpoints of a port have one limit, and know each other's tokens. */
static void neighbours(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(29);
    w->settings.connections_max = 4;
    w->settings.retry_from = 1;
    start_endpoint(w);
    http3_endpoint *first = w->endpoint, *second = http3_open_beside(first, 0x0103);
    CHECK(second != NULL);
    client *c = new_client(w, &ordinary);
    request(c, 1000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, SECOND);
    client_settings settings = ordinary;
    settings.is_mute = 1;
    client *mute = new_client(w, &settings);
    run_for(w, SECOND);
    CHECK_EQ(http3_connection_count(first), 2);
    w->endpoint = second;
    mute->is_over = c->is_over = 1;
    /* A handshake waits at the first endpoint, so clients must prove their addresses at the second one, too. The first
       client has a token. */
    settings = ordinary;
    settings.token = c->token;
    settings.token_length = c->token_length;
    settings.number = c->number;
    c->number = 9999;
    client *again = new_client(w, &settings), *other = new_client(w, &ordinary);
    request(again, 1000, 0);
    request(other, 1000, 0);
    CHECK(run_until(w, all_complete, 5 * SECOND));
    CHECK_EQ(again->retries, 0);
    CHECK_EQ(other->retries, 1);
    client *late = new_client(w, &ordinary);
    run_for(w, SECOND);
    CHECK_EQ(http3_connection_count(second), 2);
    CHECK(!late->is_established && counts_of(w).refused > 0);
    /* Without the first endpoint there is a free slot. */
    http3_close(first, HTTP3_NO_ERROR, w->now);
    http3_free(first);
    run_for(w, 5 * SECOND);
    CHECK(late->is_established && late->retries == 0);
    end_world(w);
}

/* The limit of which the endpoint has told, once. */
static uint32_t limit_told(const world *w)
{
    http3_change change;
    uint32_t limit = HTTP_LIMIT_NONE;
    while (http3_next_change(w->endpoint, &change))
        if (change.kind == HTTP3_LIMITED) {
            CHECK_EQ(limit, HTTP_LIMIT_NONE);
            limit = change.limit;
        }
    return limit;
}

/* The connection has ended for a limit, and both sides know which. */
static void check_limit(const client *c, http_limit limit)
{
    CHECK(c->is_over);
    CHECK_EQ(c->error.type, NGTCP2_CCERR_TYPE_APPLICATION);
    CHECK_EQ(c->error.error_code, HTTP3_EXCESSIVE_LOAD);
    CHECK(strcmp(c->reason, http_limit_text(limit)) == 0);
    CHECK_EQ(limit_told(c->world), limit);
    CHECK_EQ(counts_of(c->world).violations, 1);
}

/* A client opens requests, and resets them or wants no answer, as fast as it can, while the application works for
 * nobody. No more handlers run than it may have requests, and in the end the connection is closed. */
static void rapid_reset(uintptr_t wants_no_answer)
{
    world *w = new_world(24);
    w->works_for = 200 * MILLISECOND;
    w->settings.common.streams_max = 10;
    w->settings.common.allowances.resets_max = 20;
    w->settings.common.allowances.resets_per_second = 1;
    w->is_stuck = 1;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    for (unsigned round = 0; round < 900 && c->goaways == 0; round++) {
        request(c, 0, 1000);
        run_for(w, MILLISECOND);
        for (uint32_t i = 0; i < c->exchange_count; i++)
            if (c->exchanges[i]->is_started && !c->exchanges[i]->is_closed && c->exchanges[i]->code == 0) {
                (wants_no_answer ? client_stop : client_reset)(c->exchanges[i], HTTP3_REQUEST_CANCELLED);
                c->exchanges[i]->code = 1; /* until it is closed */
            }
    }
    CHECK_EQ(c->goaways, 1);
    run_for(w, 1500 * MILLISECOND);
    CHECK_LE(w->handlers_most, 10);
    check_limit(c, HTTP_LIMIT_RESETS);
    end_world(w);
}

/* Handlers that end soon after their requests were cancelled have wasted nothing. Then such requests have no limit. */
static void cancelled_in_time(uintptr_t works_for)
{
    world *w = new_world(26);
    w->settings.common.allowances.resets_max = 10;
    w->settings.common.allowances.resets_per_second = 0;
    w->is_stuck = 1;
    w->works_for = works_for * MILLISECOND;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    for (unsigned round = 0; round < 50 && c->goaways == 0; round++) {
        exchange *e = request(c, 10, 0);
        run_for(w, 50 * MILLISECOND);
        CHECK_EQ(w->handler_count, 1);
        client_stop(e, HTTP3_REQUEST_CANCELLED);
        run_for(w, 200 * MILLISECOND);
        CHECK_EQ(w->handler_count, 0);
    }
    run_for(w, 1500 * MILLISECOND);
    if (works_for <= 100)
        CHECK(!c->is_over && limit_told(w) == HTTP_LIMIT_NONE);
    else
        check_limit(c, HTTP_LIMIT_RESETS);
    end_world(w);
}

/* A client that cancels downloads that have begun costs nobody work in vain. */
static void cancelled_downloads(uintptr_t wants_no_answer)
{
    world *w = new_world(25);
    w->settings.common.streams_max = 10;
    w->settings.common.allowances.resets_max = 10;
    w->settings.common.allowances.resets_per_second = 0;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    for (unsigned round = 0; round < 50; round++) {
        exchange *e = request(c, 10000000, 0);
        while (e->received == 0 && !c->is_over)
            run_for(w, MILLISECOND);
        (wants_no_answer ? client_stop : client_reset)(e, HTTP3_REQUEST_CANCELLED);
        run_for(w, 10 * MILLISECOND);
    }
    CHECK(!c->is_over);
    end_world(w);
}

/* A client is slow, but its window is wide. The server keeps what is on its way, and a little more. */
static void slow_link(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(33);
    client_settings settings = ordinary;
    settings.stream_window = settings.connection_window = 16777216;
    w->link = (link_settings){.delay = 50 * MILLISECOND, .rate = 20000, .queue = 40000};
    client *c = new_client(w, &settings);
    CHECK(run_until(w, all_established, 30 * SECOND));
    struct mallinfo2 before = mallinfo2();
    exchange *e = request(c, 100000000, 0);
    for (int i = 0; i < 30; i++) {
        run_for(w, 2 * SECOND);
        CHECK_LT(mallinfo2().uordblks, before.uordblks + 500000);
        if (w->handler_count > 0)
            CHECK_LE(w->handlers[0].at, e->received + 300000);
    }
    CHECK(e->received > 60 * 15000);
    client_reset(e, HTTP3_REQUEST_CANCELLED);
    run_for(w, 10 * SECOND);
    CHECK_EQ(w->handler_count, 0);
    end_world(w);
}

/* A client does not read. The server keeps a bounded part of the answer, and gives up in the end. */
static void stalled_reader(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(25);
    client_settings settings = ordinary;
    settings.reads_slowly = 1;
    client *c = new_client(w, &settings);
    exchange *e = request(c, 100000000, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, SECOND);
    struct mallinfo2 before = mallinfo2();
    run_for(w, 5 * SECOND);
    CHECK_LT(mallinfo2().uordblks, before.uordblks + 1000000);
    CHECK_EQ(e->received, ordinary.stream_window - (ordinary.stream_window - e->received));
    CHECK_LE(w->handlers[0].at, e->received + HTTP_OUTPUT_HIGH + 2 * 65536);
    CHECK_EQ(http3_reset_stalled(w->endpoint, w->now, 3 * SECOND), 0);
    run_for(w, 4 * SECOND);
    CHECK_EQ(http3_reset_stalled(w->endpoint, w->now, 3 * SECOND), 1);
    flush_endpoint(w);
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, 0);
    CHECK_EQ(e->is_closed, 1);
    end_world(w);
}

/* The application does not read. The client can send no more than the windows. */
static void lazy_application(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(26);
    w->is_lazy = 1;
    client *c = new_client(w, &ordinary);
    request(c, 0, 5000000);
    request(c, 0, 5000000);
    request(c, 0, 5000000);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 5 * SECOND);
    CHECK_EQ(w->handler_count, 3);
    uint64_t unread = 0;
    for (uint32_t i = 0; i < w->handler_count; i++) {
        CHECK_LE(w->handlers[i].stream->unread, w->settings.common.stream_window);
        unread += w->handlers[i].stream->unread;
    }
    CHECK_GT(unread, 0);
    CHECK_LE(unread, w->settings.common.connection_window);
    w->is_lazy = 0;
    CHECK(run_until(w, all_complete, 60 * SECOND));
    check_exchanges(w);
    end_world(w);
}

/* Many more fields than are allowed, in a few bytes of the QPACK table: the connection ends before they take memory. */
static void many_fields(uintptr_t argument)
{
    (void)argument;
    enum { COUNT = 10000 };
    world *w = ordinary_world(27);
    nghttp3_nv *fields = calloc(COUNT, sizeof *fields);
    CHECK(fields != NULL);
    fields[0] = (nghttp3_nv)FIELD(":method", "GET");
    fields[1] = (nghttp3_nv)FIELD(":scheme", "https");
    fields[2] = (nghttp3_nv)FIELD(":authority", "a");
    fields[3] = (nghttp3_nv)FIELD(":path", "/1");
    for (unsigned i = 4; i < COUNT; i++)
        fields[i] =
            (nghttp3_nv)FIELD("x-a-field-of-a-table", "with a value of some length, again and again, in one byte");
    client *c = new_client(w, &ordinary);
    CHECK(run_until(w, all_established, 10 * SECOND));
    request_with(c, fields, 10, 1);
    run_for(w, SECOND);
    struct mallinfo2 before = mallinfo2();
    request_with(c, fields, COUNT, 1);
    run_for(w, 2 * SECOND);
    CHECK_LT(mallinfo2().uordblks, before.uordblks + 1000000);
    check_limit(c, HTTP_LIMIT_HEADS);
    free(fields);
    end_world(w);
}

static int is_told(world *w)
{
    return w->clients[0]->goaways > 0;
}

/* A client that sends packets without any use, while it has a request. If it stops when it is asked to, it gets the
   answer. */
static void useless_packets(uintptr_t stops)
{
    world *w = new_world(28);
    w->settings.common.allowances.frames_max = 125;
    w->settings.common.allowances.frames_per_second = 2;
    w->is_stuck = 1;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    exchange *e = request(c, 10, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    ngtcp2_conn_set_keep_alive_timeout(c->quic, MILLISECOND);
    CHECK(run_until(w, is_told, 10 * SECOND));
    CHECK_EQ(c->goaway_id, 4);
    if (stops)
        ngtcp2_conn_set_keep_alive_timeout(c->quic, UINT64_MAX);
    run_for(w, 2 * SECOND);
    CHECK_EQ(c->is_over, !stops);
    if (stops) {
        w->handlers[0].is_stuck = 0;
        http_rows none = {(const uint8_t *)"", 0, 0};
        int64_t given;
        CHECK(w->handlers[0].stream != NULL);
        CHECK_EQ(http_stream_answer(w->handlers[0].stream, 200, &none, 0, NULL, 0, 1, &given), HTTP_OK);
        run_for(w, 2 * SECOND);
        CHECK_EQ(e->status, 200);
    }
    check_limit(c, HTTP_LIMIT_FRAMES);
    end_world(w);
}

/* After as many requests as a client may make it is asked to stop, and its connection ends when it has the answers. */
static void request_limit(uintptr_t argument)
{
    (void)argument;
    world *w = new_world(39);
    w->settings.requests_max = 2;
    start_endpoint(w);
    client *c = new_client(w, &ordinary);
    request(c, 10, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, SECOND);
    CHECK_EQ(c->goaways, 0);
    request(c, 20000, 0);
    request(c, 10, 0); /* was on its way */
    CHECK(run_until(w, all_complete, 10 * SECOND));
    run_for(w, 100 * MILLISECOND);
    CHECK_EQ(c->goaways, 1);
    run_for(w, 300 * MILLISECOND);
    CHECK_EQ(c->goaways, 2);
    CHECK_EQ(c->goaway_id, 12);
    run_for(w, 2 * SECOND);
    check_exchanges(w);
    CHECK(c->is_over);
    CHECK_EQ(c->error.error_code, HTTP3_NO_ERROR);
    CHECK_EQ(counts_of(w).violations, 0);
    end_world(w);
}

static void wrong_protocol(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(29);
    client_settings settings = ordinary;
    settings.protocol = "hq-interop";
    client *c = new_client(w, &settings);
    run_for(w, 5 * SECOND);
    CHECK(c->is_over && !c->is_established);
    CHECK_EQ(c->error.type, NGTCP2_CCERR_TYPE_TRANSPORT);
    CHECK_EQ(c->error.error_code, 0x100 + 120); /* no_application_protocol */
    CHECK_EQ(http3_connection_count(w->endpoint), 0);
    end_world(w);
}

static client *raw_client(world *w)
{
    client_settings settings = ordinary;
    settings.without_http = 1;
    client *c = new_client(w, &settings);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, 200 * MILLISECOND);
    return c;
}

/* What a request stream carries. */
typedef struct raw_request {
    uint64_t code;     /* with which it is reset; 0: it is served */
    const char *lines; /* of the head, behind those of an ordinary one; NULL: there is no head */
    size_t lines_length;
    const char *behind; /* frames behind the head */
    size_t behind_length;
} raw_request;

#define RAW(code, lines, behind)                                         \
    {                                                                    \
        (code), (lines), sizeof(lines) - 1, (behind), sizeof(behind) - 1 \
    }
#define WITHOUT_HEAD(behind)                                            \
    {                                                                   \
        HTTP3_REQUEST_INCOMPLETE, NULL, 0, (behind), sizeof(behind) - 1 \
    }
#define MALFORMED(lines, behind) RAW(HTTP3_MESSAGE_ERROR, lines, behind)

/* The beginning of a field section: what it needs of the table, as it is encoded, and GET, https, / and an authority.
 * */
#define HEAD_LENGTH 8u

static void put_head(uint8_t *out, uint8_t needed)
{
    static const uint8_t head[HEAD_LENGTH] = {0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, 'a'};
    memcpy(out, head, sizeof head);
    out[0] = needed;
}

static size_t put_request(uint8_t *out, const raw_request *request)
{
    size_t length = 0;
    if (request->lines != NULL) {
        out[0] = 0x01;
        out[1] = (uint8_t)(HEAD_LENGTH + request->lines_length);
        put_head(out + 2, 0);
        memcpy(out + 2 + HEAD_LENGTH, request->lines, request->lines_length);
        length = 2 + HEAD_LENGTH + request->lines_length;
    }
    memcpy(out + length, request->behind, request->behind_length);
    return length + request->behind_length;
}

/* From 1.11 on, libnghttp3 ends the connection when it finds a head malformed, as it may (RFC 9114, section 8). */
#define ENDS_CONNECTIONS (NGHTTP3_VERSION_NUM >= 0x010b00)

static void release_all(world *w)
{
    for (uint32_t i = 0; i < w->handler_count; i++)
        http3_release(w->handlers[i].stream, w->now);
    w->handler_count = 0;
    w->is_stuck = 0;
}

/* Sends it in pieces of a given number of bytes, and tells whether it is served or reset as it should be. What should
 * be reset is not answered before. */
static int is_as_it_should_be(client *c, const raw_request *request, size_t piece)
{
    world *w = c->world;
    uint8_t bytes[128];
    size_t length = put_request(bytes, request);
    uint32_t served = w->handlers_seen, resets = c->resets;
    int64_t id = send_raw(c, RAW_REQUEST, bytes, 0);
    CHECK(id >= 0);
    w->is_stuck = request->code != 0;
    for (size_t at = 0; at < length && c->resets == resets; at += piece) {
        send_more(c, id, bytes + at, length - at < piece ? length - at : piece);
        run_for(w, 5 * MILLISECOND);
    }
    if (c->resets == resets)
        send_end(c, id);
    run_for(w, 300 * MILLISECOND);
    release_all(w);
    if (c->is_over)
        return ENDS_CONNECTIONS && c->error.error_code == request->code;
    return request->code == 0 ? c->resets == resets && w->handlers_seen == served + 1
                              : c->resets == resets + 1 && c->reset_code == request->code;
}

/* What is malformed ends with its stream (RFC 9114, section 4.1.2), and so does what ends before its head (section
 * 4.1). */
static void malformed(uintptr_t piece)
{
    static const raw_request cases[] = {
        RAW(0, "", ""),
        RAW(0, "\x21x\x01v\x21y\x00\x27\x00weblong\x03v v", ""),
        RAW(0, "\x5f\x50\x01v", ""),
        RAW(0, "\x21x\x02\xc3\xa4", ""),
        MALFORMED("\x21x\x01\0", ""),
        MALFORMED("\x21x\x01\r", ""),
        MALFORMED("\x21x\x01\n", ""),
        MALFORMED("\x21x\x01\t", ""),
        MALFORMED("\x21x\x01\x7f", ""),
        MALFORMED("\x21x\x03v\0v", ""),
        MALFORMED("\x21x\x03v\rv", ""),
        MALFORMED("\x21x\x03v\nv", ""),
        MALFORMED("\x21x\x02v\x7f", ""),
        MALFORMED("\x21x\x02 v", ""),
        MALFORMED("\x21x\x02v\t", ""),
        MALFORMED("\x5f\x50\x01\n", ""), /* user-agent, by the static table */
        MALFORMED("\x20\x01v", ""),
        MALFORMED("\x23x y\x01v", ""),
        MALFORMED("\x23x:y\x01v", ""),
        MALFORMED("\x23x\0y\x01v", ""),
        MALFORMED("\x22x\x80\x01v", ""),
        MALFORMED("\x21X\x01v", ""),
        MALFORMED("\x24host\x03"
                  "a b",
                  ""),
        MALFORMED("\x21y\x01v\x21x\x01\n\x21z\x01v", ""),
        MALFORMED("\xd1", ""), /* :method, twice */
        /* Bodies, with a content-length of 3. */
        RAW(0, "\x54\x01\x33", "\0\x02hi\0\x01!"),
        RAW(0, "\x54\x01\x33", "\0\x02hi\x21\x01x\0\x01!"),
        MALFORMED("\x54\x01\x33", ""),
        MALFORMED("\x54\x01\x33", "\0\x02hi"),
        MALFORMED("\x54\x01\x33", "\0\x04hi!!"),
        MALFORMED("\x54\x01\x33", "\0\x02hi\0\x02!!"),
        MALFORMED("\x54\x01\x33\x54\x01\x33", "\0\x03hi!"),
        MALFORMED("\x54\x02-3", ""),
        /* Trailers. */
        RAW(0, "", "\0\x02hi\x01\x06\0\0\x21x\x01v"),
        MALFORMED("", "\0\x02hi\x01\x06\0\0\x21x\x01\n"),
        MALFORMED("", "\0\x02hi\x01\x06\0\0\x21X\x01v"),
        MALFORMED("", "\x01\x05\0\0\x54\x01\x33"),
        MALFORMED("", "\x01\x03\0\0\xd1"),
        WITHOUT_HEAD(""),
        WITHOUT_HEAD("\x21\x02xy"),
    };
    world *w = ordinary_world(44);
    client *c = raw_client(w);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!is_as_it_should_be(c, &cases[i], piece))
            FAIL("case %zu: the connection %s, %u streams were reset, the last one with %#llx, and %u served", i,
                 c->is_over ? "has ended" : "goes on", c->resets, (unsigned long long)c->reset_code, w->handlers_seen);
        if (c->is_over)
            c = raw_client(w);
    }
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    CHECK(ENDS_CONNECTIONS || counts_of(w).violations == 0);
    end_world(w);
}

/* Malformed requests count as resets by the client, once each, although the client resets its side in answer. */
static void many_malformed(uintptr_t argument)
{
    static const raw_request request = MALFORMED("\x21x\x01\n", "\0\x04"), incomplete = WITHOUT_HEAD("");
    world *w = new_world(45);
    w->settings.common.allowances.resets_max = 50;
    w->settings.common.allowances.resets_per_second = 0;
    start_endpoint(w);
    client *c = raw_client(w);
    for (unsigned i = 0; i < 50; i++)
        CHECK(is_as_it_should_be(c, argument ? &incomplete : &request, 100));
    (void)is_as_it_should_be(c, argument ? &incomplete : &request, 100);
    run_for(w, 2 * SECOND);
    check_limit(c, HTTP_LIMIT_RESETS);
    end_world(w);
}

/* A HEADERS frame with a given number of lines behind those of a head, each an entry of the table: a byte. */
static size_t put_table_head(uint8_t *out, uint8_t needed, size_t lines)
{
    size_t length = HEAD_LENGTH + lines;
    out[0] = 0x01;
    out[1] = (uint8_t)(0x40 | length >> 8);
    out[2] = (uint8_t)length;
    put_head(out + 3, needed);
    memset(out + 3 + HEAD_LENGTH, 0x80, lines);
    return 3 + length;
}

/* An entry of the table whose value is forbidden, as the first thing on the stream of QPACK. */
static const char forbidden_entry[] = "\x02\x3f\xe1\x1f\x41x\x02v\n";

/* A client does not make the engine look at a great many forbidden fields: it is enough to have seen some. */
static void forbidden_entries(uintptr_t argument)
{
    (void)argument;
    uint8_t bytes[4000];
    world *w = ordinary_world(46);
    client *c = raw_client(w);
    CHECK(send_raw(c, RAW_UNIDIRECTIONAL, forbidden_entry, sizeof forbidden_entry - 1) >= 0);
    run_for(w, 200 * MILLISECOND);
    (void)put_table_head(bytes, 2, 3000);
    send_raw(c, RAW_REQUEST, bytes, 3 + HEAD_LENGTH + 2 * HTTP3_SLICE_LINES);
    run_for(w, 200 * MILLISECOND);
    CHECK_EQ(c->resets, 1);
    CHECK_EQ(c->reset_code, HTTP3_MESSAGE_ERROR);
    CHECK(!c->is_over);
    end_world(w);
}

/* Such entries in heads that wait for the entry: they are short, or refused before it comes. */
static void waiting_heads(uintptr_t argument)
{
    (void)argument;
    uint8_t bytes[1000];
    world *w = ordinary_world(47);
    client *c = raw_client(w);
    size_t length = put_table_head(bytes, 2, 400);
    send_raw(c, RAW_REQUEST, bytes, length);
    run_for(w, 200 * MILLISECOND);
    CHECK_EQ(c->resets, 1);
    CHECK_EQ(c->reset_code, HTTP3_EXCESSIVE_LOAD);
    length = put_table_head(bytes, 2, 90);
    send_raw(c, RAW_REQUEST, bytes, length);
    run_for(w, 200 * MILLISECOND);
    CHECK_EQ(c->resets, 1);
    CHECK_EQ(http3_stream_count(w->endpoint), 2); /* libnghttp3 knows the first one until the entry comes */
    CHECK(send_raw(c, RAW_UNIDIRECTIONAL, forbidden_entry, sizeof forbidden_entry - 1) >= 0);
    run_for(w, 200 * MILLISECOND);
    CHECK_EQ(c->resets, 2);
    CHECK_EQ(c->reset_code, HTTP3_MESSAGE_ERROR);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    CHECK(!c->is_over);
    end_world(w);
}

/* An upload may be long although its head waits for the table. */
static void waiting_upload(uintptr_t argument)
{
    static const char entry[] = "\x02\x3f\xe1\x1f\x41x\x01v";
    (void)argument;
    uint8_t bytes[1000] = {0x00, 0x80, 0x01, 0xd4, 0xc0}; /* DATA of 120,000 bytes */
    world *w = new_world(48);
    w->settings.common.stream_window = w->settings.common.connection_window = 1000000;
    start_endpoint(w);
    client *c = raw_client(w);
    uint8_t head[100];
    int64_t id = send_raw(c, RAW_REQUEST, head, put_table_head(head, 2, 10));
    send_more(c, id, bytes, 5);
    for (unsigned i = 0; i < 120; i++) {
        send_more(c, id, bytes + 5 * (i > 0), 995);
        run_for(w, 20 * MILLISECOND);
    }
    CHECK(!c->is_over);
    CHECK_EQ(w->handlers_seen, 0);
    CHECK(send_raw(c, RAW_UNIDIRECTIONAL, entry, sizeof entry - 1) >= 0);
    run_for(w, 200 * MILLISECOND);
    CHECK_EQ(w->handlers_seen, 1);
    CHECK_EQ(c->resets, 0);
    end_world(w);
}

/* Frames that are not allowed where they are (RFC 9114, section 7), and streams that must not end: the connection ends
 * with the code that the RFC names. */
static void wrong_frames(uintptr_t argument)
{
    static const struct {
        raw_kind kind;
        uint64_t code;
        size_t length;
        uint8_t bytes[12];
    } cases[] = {
        {RAW_REQUEST, 0x105, 4, {0x00, 2, 'h', 'i'}},                /* DATA before HEADERS */
        {RAW_REQUEST, 0x105, 2, {0x04, 0}},                          /* SETTINGS on a request stream */
        {RAW_REQUEST, 0x105, 3, {0x07, 1, 0}},                       /* GOAWAY on a request stream */
        {RAW_REQUEST, 0x200, 5, {0x01, 3, 0, 0, 0xff}},              /* HEADERS with a field beyond the static table */
        {RAW_REQUEST, 0x105, 2, {0x02, 0}},                          /* PRIORITY of HTTP/2 */
        {RAW_UNIDIRECTIONAL, 0x10a, 4, {0x00, 0x07, 1, 0}},          /* a control stream without SETTINGS */
        {RAW_UNIDIRECTIONAL, 0x109, 5, {0x00, 0x04, 2, 0x02, 0x01}}, /* SETTINGS with a name of HTTP/2 */
        {RAW_UNIDIRECTIONAL, 0x105, 5, {0x00, 0x04, 0, 0x04, 0}},    /* SETTINGS twice */
        {RAW_UNIDIRECTIONAL, 0x105, 5, {0x00, 0x04, 0, 0x00, 0}},    /* DATA on a control stream */
        {RAW_UNIDIRECTIONAL, 0x201, 3, {0x02, 0x81, 0x00}},          /* QPACK: refers to an entry that does not exist */
        {RAW_UNIDIRECTIONAL, 0x202, 2, {0x03, 0x81}},                /* QPACK: acknowledges what was not sent */
        {RAW_UNIDIRECTIONAL, 0x103, 2, {0x01, 0}},                   /* a push stream of a client */
    };
    (void)argument;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world *w = ordinary_world(33 + i);
        client *c = raw_client(w);
        send_raw(c, cases[i].kind, cases[i].bytes, cases[i].length);
        run_for(w, SECOND);
        if (!c->is_over || c->error.error_code != cases[i].code)
            FAIL("case %zu: the connection %s, with the code %#llx", i, c->is_over ? "has ended" : "goes on",
                 (unsigned long long)c->error.error_code);
        CHECK_EQ(counts_of(w).violations, 1);
        end_world(w);
    }
}

/* A client begins requests and does not go on. */
static void unfinished_heads(uintptr_t argument)
{
    static const uint8_t beginning[] = {0x01, 0x40, 100,
                                        0,    0,    0xd1}; /* HEADERS of 100 bytes: a prefix, and :method GET */
    (void)argument;
    world *w = ordinary_world(34);
    client *c = raw_client(w);
    for (unsigned i = 0; i < 10; i++)
        CHECK(send_raw(c, RAW_REQUEST, beginning, sizeof beginning) >= 0);
    run_for(w, SECOND);
    CHECK_EQ(http3_stream_count(w->endpoint), 10);
    CHECK_EQ(http3_reset_unfinished(w->endpoint, w->now, 2 * SECOND), 0);
    run_for(w, 2 * SECOND);
    CHECK_EQ(http3_reset_unfinished(w->endpoint, w->now, 2 * SECOND), 10);
    flush_endpoint(w);
    run_for(w, SECOND);
    CHECK_EQ(http3_stream_count(w->endpoint), 0);
    CHECK(!c->is_over);
    /* What is left is a connection without requests. */
    CHECK_EQ(http3_end_idle(w->endpoint, w->now, SECOND / 2, SECOND / 2), 1);
    end_world(w);
}

/* A byte of a head names a field. So heads that do not end have the limit of all heads, as those that are served. */
static void many_unfinished_heads(uintptr_t argument)
{
    (void)argument;
    enum { LINES = 90, STREAMS = 60 };
    uint8_t bytes[200];
    world *w = ordinary_world(49);
    client *c = raw_client(w);
    size_t length = put_table_head(bytes, 0, LINES);
    memset(bytes + length - LINES, 0xdd, LINES); /* accept, of the static table */
    for (unsigned i = 0; i < STREAMS; i++)
        CHECK(send_raw(c, RAW_REQUEST, bytes, length - 1) >= 0);
    run_for(w, SECOND);
    CHECK_EQ(c->reset_code, HTTP3_REQUEST_REJECTED);
    CHECK_LT(HTTP_HEADS_AT_A_TIME, STREAMS - c->resets); /* they are small */
    CHECK_LT(STREAMS - c->resets, HTTP_HEADS_AT_A_TIME * w->settings.common.head_max / (LINES * HTTP_FIELD_COST) + 1);
    CHECK(!c->is_over);
    end_world(w);
}

/* Handlers write until they have to wait. All bodies together have a limit beyond which each stream may have little
   more. */
static void many_unread_answers(uintptr_t argument)
{
    (void)argument;
    enum { STREAMS = 250, BODY = 1000000, PIECE = 16384 };
    static uint8_t piece[PIECE];
    uint64_t all = 0;
    world *w = new_world(50);
    w->settings.common.streams_max = STREAMS;
    start_endpoint(w);
    w->is_stuck = 1;
    client *c = new_client(w, &ordinary);
    for (unsigned i = 0; i < STREAMS; i++)
        request(c, BODY, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    run_for(w, SECOND);
    CHECK_EQ(w->handler_count, STREAMS);
    http_rows none = {(const uint8_t *)"", 0, 0};
    int64_t given;
    for (unsigned i = 0; i < STREAMS; i++)
        CHECK_EQ(http_stream_answer(w->handlers[i].stream, 200, &none, BODY, NULL, 0, 0, &given), HTTP_OK);
    for (unsigned i = 0; i < STREAMS; i++) {
        uint64_t written = 0;
        while (http_stream_await_output(w->handlers[i].stream, HTTP_OUTPUT_LOW) == HTTP_OK && written < BODY) {
            (void)http_stream_write(w->handlers[i].stream, piece, PIECE);
            written += PIECE;
        }
        CHECK_LT(0, written);
        all += written;
    }
    CHECK_LT(8000000, all);
    CHECK_LT(all, 10500000);
    end_world(w);
}

/* An endless head of fields that libnghttp3 leaves out: it is not processed for ever. */
static void endless_head(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(35);
    client *c = raw_client(w);
    uint8_t bytes[1000] = {0x01, 0x80, 0x10, 0, 0, 0, 0}; /* HEADERS of 1 MiB */
    for (size_t i = 7; i + 4 <= sizeof bytes; i += 4)
        memcpy(bytes + i, "\x21x\x01\x01", 4); /* x: 0x01, without the table */
    int64_t id = send_raw(c, RAW_REQUEST, bytes, sizeof bytes - 1);
    for (size_t i = 0; i + 4 <= sizeof bytes; i += 4)
        memcpy(bytes + i, "\x21x\x01\x01", 4);
    for (unsigned i = 0; i < 300 && !c->is_over; i++) {
        send_more(c, id, bytes, sizeof bytes);
        run_for(w, 20 * MILLISECOND);
    }
    CHECK(c->is_over);
    CHECK_EQ(c->error.error_code, HTTP3_EXCESSIVE_LOAD);
    CHECK_LT(counts_of(w).bytes_received, 100000);
    end_world(w);
}

/* Random frames on random streams, in random pieces. Whatever they are, other connections are served. */
static void random_frames(uintptr_t argument)
{
    (void)argument;
    unsigned rounds = harness_rounds(300);
    uint64_t first = harness_first_seed();
    for (unsigned round = 0; round < rounds; round++) {
        world *w = ordinary_world(first + round);
        client *c = raw_client(w);
        int64_t open[8];
        unsigned count = 0;
        for (unsigned i = 0; i < 60 && !c->is_over; i++) {
            static const uint8_t types[] = {0, 1, 1, 1, 2, 3, 4, 5, 7, 13, 33, 54, 84};
            uint8_t bytes[304];
            size_t length = 1 + random_below(w, random_below(w, 3) == 0 ? 300 : 12);
            for (size_t k = 0; k < length; k++)
                bytes[k] = (uint8_t)(random_below(w, 2) ? random_below(w, 256) : types[random_below(w, sizeof types)]);
            if (random_below(w, 2) && length > 2) {
                bytes[0] = types[random_below(w, sizeof types)];
                bytes[1] = (uint8_t)(length - 2 < 64 ? length - 2 : 63);
                bytes[2] = bytes[3] = 0; /* the prefix of a head without the table */
            }
            if (count == 0 || random_below(w, 3) == 0) {
                int64_t id = send_raw(c, random_below(w, 2) ? RAW_REQUEST : RAW_UNIDIRECTIONAL, bytes, length);
                if (id >= 0)
                    open[count++ % 8] = id;
                count = count > 8 ? 8 : count;
            } else {
                send_more(c, open[random_below(w, count)], bytes, length);
            }
            run_for(w, random_below(w, 30) * MILLISECOND);
        }
        exchange *e = request(new_client(w, &ordinary), 1000, 0);
        run_for(w, 2 * SECOND);
        check_exchange(e);
        end_world(w);
    }
}

/* Many streams of a type that nobody knows. */
static void unknown_streams(uintptr_t argument)
{
    static const uint8_t type[] = {0x21, 0};
    (void)argument;
    world *w = new_world(36);
    w->settings.common.allowances.frames_max = 50;
    w->settings.common.allowances.frames_per_second = 1;
    start_endpoint(w);
    client *c = raw_client(w);
    for (unsigned i = 0; i < 2000 && !c->is_over; i++) {
        int64_t id = send_raw(c, RAW_UNIDIRECTIONAL, type, sizeof type);
        if (id >= 0)
            (void)ngtcp2_conn_shutdown_stream_write(c->quic, 0, id, HTTP3_NO_ERROR);
        run_for(w, 10 * MILLISECOND);
    }
    check_limit(c, HTTP_LIMIT_FRAMES);
    end_world(w);
}

/* Datagrams of all lengths with all kinds of first bytes, and genuine ones that were changed. */
static world *observed;
static uint8_t kept[64][1500];
static size_t kept_lengths[64];
static unsigned kept_count;

static void garbage(uintptr_t argument)
{
    (void)argument;
    unsigned rounds = harness_rounds(20000);
    world *w = ordinary_world(30);
    client *c = new_client(w, &ordinary);
    request(c, 100000, 0);
    CHECK(run_until(w, all_established, 10 * SECOND));
    for (unsigned i = 0; i < rounds; i++) {
        uint8_t bytes[1500];
        size_t length = random_below(w, random_below(w, 4) == 0 ? 1500 : 60);
        for (size_t k = 0; k < length; k++)
            bytes[k] = (uint8_t)random_below(w, 256);
        if (length > 6 && random_below(w, 2)) {
            static const uint8_t version[] = {0, 0, 0, 1};
            bytes[0] = 0xc0;
            memcpy(bytes + 1, version, sizeof version);
            bytes[5] = (uint8_t)random_below(w, 22);
        }
        (void)http3_endpoint_id_of(bytes, length);
        inject(w, (uint16_t)(1 + random_below(w, 3)), 1000, bytes, length);
        if (i % 64 == 0)
            run_for(w, MILLISECOND);
    }
    CHECK(run_until(w, all_complete, 60 * SECOND));
    check_exchanges(w);
    run_for(w, 30 * SECOND);
    CHECK_LE(http3_connection_count(w->endpoint), 1);
    end_world(w);
}

static void keep_datagram(world *w, const http3_gso_batch *batch, const uint8_t *bytes, size_t length)
{
    (void)batch;
    CHECK(w == observed);
    if (length <= sizeof kept[0]) {
        unsigned at = kept_count++ % 64;
        memcpy(kept[at], bytes, length);
        kept_lengths[at] = length;
    }
}

/* An endpoint that gets its own datagrams back, as in a loop of two servers. */
static void mirrored(uintptr_t argument)
{
    (void)argument;
    world *w = ordinary_world(31);
    observed = w;
    w->on_datagram = keep_datagram;
    client *c = new_client(w, &ordinary);
    request(c, 100000, 0);
    CHECK(run_until(w, all_complete, 10 * SECOND));
    uint8_t packet[100] = {0x40, 1, 2, 3};
    inject(w, 500, 1000, packet, sizeof packet);
    flush_endpoint(w);
    uint64_t before = w->datagrams_to_clients;
    for (unsigned i = 0; i < 1000; i++) {
        unsigned last = (kept_count - 1) % 64;
        inject(w, 500, 1000, kept[last], kept_lengths[last]);
        flush_endpoint(w);
    }
    CHECK_LE(w->datagrams_to_clients - before, 30);
    end_world(w);
}

static uint64_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    fclose(file);
    return pages * 4096;
}

/* The memory of a connection without requests, after a while. */
static void idle_memory(uintptr_t argument)
{
    (void)argument;
    enum { COUNT = 100 };
    world *w = ordinary_world(32);
    client *all[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        all[i] = new_client(w, &ordinary);
        request(all[i], 1000, 0);
    }
    CHECK(run_until(w, all_complete, 60 * SECOND));
    run_for(w, 2 * SECOND);
    CHECK_EQ(http3_rest_quiet(w->endpoint, w->now, 3 * SECOND, COUNT), 0);
    uint64_t before = resident_bytes();
    CHECK_EQ(http3_rest_quiet(w->endpoint, w->now, SECOND, COUNT / 2), HTTP3_HAS_CELLS ? COUNT / 2 : 0);
    CHECK_EQ(http3_rest_quiet(w->endpoint, w->now, SECOND, COUNT), HTTP3_HAS_CELLS ? COUNT / 2 : 0);
    /* The pages are the system's again. What is left is malloc's. */
    CHECK(!HTTP3_HAS_CELLS || resident_bytes() + (uint64_t)COUNT * 15000 < before);
    struct mallinfo2 open = mallinfo2();
    http3_close(w->endpoint, HTTP3_NO_ERROR, w->now);
    struct mallinfo2 after = mallinfo2();
    CHECK_LT((open.uordblks - after.uordblks) / COUNT, HTTP3_HAS_CELLS ? 28000 : 60000);
    end_world(w);
}

/* Whatever comes, a connection whose memory was packed goes on as if it had not been. */
static void rest(uintptr_t argument)
{
    enum { ROUNDS = 20 };
    uint64_t first = harness_first_seed();
    for (uint64_t seed = first; seed < first + argument; seed++) {
        world *w = ordinary_world(seed);
        client *all[3];
        w->rests = 1;
        w->link = (link_settings){.loss = random_below(w, 2) ? random_below(w, 50) : 0,
                                  .delay = random_below(w, 60) * MILLISECOND};
        for (unsigned i = 0; i < 3; i++)
            all[i] = new_client(w, &ordinary);
        for (unsigned round = 0; round < ROUNDS; round++) {
            client *c = all[random_below(w, 3)];
            unsigned requests = random_below(w, 4);
            for (unsigned k = 0; k < requests; k++)
                request(c, random_below(w, 30000), random_below(w, 2) ? random_below(w, 30000) : 0);
            if (c->is_confirmed && random_below(w, 5) == 0)
                rebind(c);
            if (c->is_confirmed && !c->is_over && random_below(w, 5) == 0)
                (void)ngtcp2_conn_initiate_key_update(c->quic, w->now);
            CHECK(run_until(w, all_complete, 600 * SECOND));
            run_for(w, random_below(w, 1000) * MILLISECOND); /* together less than the idle time */
        }
        check_exchanges(w);
        CHECK_EQ(counts_of(w).violations, 0);
        CHECK(!HTTP3_HAS_CELLS || w->rested > ROUNDS / 2);
        if (seed % 2 == 0 && all[0]->is_established)
            client_close(all[0], HTTP3_NO_ERROR);
        else
            http3_announce_end(w->endpoint, HTTP_END_LAST);
        run_for(w, 5 * SECOND);
        end_world(w);
    }
}

static const harness_test tests[] = {
    {"serves a request", one_request, 0},
    {"transfers in both directions, bytes exactly, over bad links (1)", transfers, 0},
    {"transfers in both directions, bytes exactly, over bad links (2)", transfers, 1},
    {"transfers in both directions, bytes exactly, over bad links (3)", transfers, 2},
    {"transfers in both directions, bytes exactly, over bad links (4)", transfers, 3},
    {"transfers in both directions, bytes exactly, over bad links (5)", transfers, 4},
    {"transfers in both directions, bytes exactly, over bad links (6)", transfers, 5},
    {"transfers in both directions, bytes exactly, over bad links (7)", transfers, 6},
    {"transfers in both directions, bytes exactly, over bad links (8)", transfers, 7},
    {"finds out that larger datagrams pass", large_download, 0},
    {"uses marks of routers", marks, 0},
    {"uses none where they do not arrive", marks, 1},
    {"sends datagrams as large as the path carries, without a limit", path_size, 0},
    {"sends datagrams as large as the path carries, 9,000 bytes", path_size, 1},
    {"sends datagrams as large as the path carries, 1,500 bytes", path_size, 2},
    {"sends datagrams as large as the path carries, 1,350 bytes", path_size, 3},
    {"is fast where packets are lost at random", random_losses, 0},
    {"becomes slower where routers are congested", congestion, 0},
    {"chooses the certificate by the server's name", server_name, 0},
    {"uses new certificates for new connections", new_certificates, 0},
    {"makes clients prove their address, once", retry, 0},
    {"names its versions", version_negotiation, 0},
    {"speaks version 2", version_2, 0},
    {"resets connections that it has forgotten", stateless_reset, 0},
    {"updates keys", key_update, 0},
    {"follows clients to other ports", rebinding, 0},
    {"follows clients that migrate, and forgets the IDs that they do not use any more", migrations, 0},
    {"ends connections on which nothing arrives", idle_end, 0},
    {"keeps connections with requests", served_idle, 0},
    {"ends connections without requests", quiet_end, 0},
    {"ends gracefully", graceful_end, 0},
    {"ends at once", sudden_end, 0},
    {"ends one connection", one_end, 0},
    {"lets one thread send", one_sender, 0},
    {"finds the owner of a datagram", endpoint_ids, 0},
    {"refuses what HTTP/1 and HTTP/2 refuse", refusals, 0},
    {"refuses what is malformed, and nothing else", malformed, 128},
    {"refuses what is malformed, and nothing else, byte by byte", malformed, 1},
    {"an upload may be long although its head waits", waiting_upload, 0},
    {"stops a client that is answered early", early_answer, 0},
    {"answers whole a client that it stops", early_large_answer, 0},
    {"sends what was flushed before a failure", aborted_answer, 0},
    {"sends an end that had to wait", waiting_end, 0},
    {"replaces an answer", replaced_answer, 0},
    {"sends urgent answers first", priorities, 0},
    {"sends answers one after the other, or at the same time", incremental, 0},
    {"sends in another order when the client wants it", priority_updates, 0},
    {"an answer that fills the connection's window ends", end_without_window, 0},
    {"an answer that fills its stream's window ends", end_without_window, 1},
    {"an answer that has filled the connection's window ends later", end_without_window, 2},
    {"an answer that has filled its stream's window ends later", end_without_window, 3},
    {"an answer ends while another one waits for the connection's window", end_beside_others, 0},
    {"an answer ends while a more urgent one waits for the connection's window", end_beside_others, 1},
    {"tells handlers about resets", reset_by_client, 0},
    {"tells handlers that the client wants no more", stopped_by_client, 0},
    {"0-RTT: serves what changes nothing", early_requests, 0},
    {"0-RTT: serves as many requests as a client may have", many_early_requests, 0},
    {"0-RTT: is off", early_refused, 0},
    {"0-RTT: needs a token", early_refused, 1},
    {"0-RTT: serves nothing twice", early_repeated, 0},
    {"0-RTT: remembers what it has served", early_register, 0},
    {"attack: a token of a Retry that is not the client's", wrong_token, 0},
    {"attack: amplification", amplification, 0},
    {"attack: unfinished handshakes, Retry", handshake_flood, 0},
    {"attack: unfinished handshakes, limit", handshake_limit, 0},
    {"attack: connections", connection_limit, 0},
    {"counts together with another endpoint of its port", neighbours, 0},
    {"attack: rapid resets", rapid_reset, 0},
    {"attack: rapid requests to stop", rapid_reset, 1},
    {"cancelled downloads cost nothing", cancelled_downloads, 0},
    {"downloads that nobody wants any more cost nothing", cancelled_downloads, 1},
    {"cancelled requests cost nothing whose handlers end soon", cancelled_in_time, 90},
    {"cancelled requests cost something whose handlers run on", cancelled_in_time, 190},
    {"attack: a client that does not read", stalled_reader, 0},
    {"a slow client costs a bounded memory", slow_link, 0},
    {"attack: uploads that nobody reads", lazy_application, 0},
    {"attack: a great many fields from the QPACK table", many_fields, 0},
    {"attack: malformed requests, again and again", many_malformed, 0},
    {"attack: streams without requests, again and again", many_malformed, 1},
    {"attack: a great many forbidden fields from the QPACK table", forbidden_entries, 0},
    {"attack: the same in heads that wait for the table", waiting_heads, 0},
    {"attack: packets without use", useless_packets, 0},
    {"a client that stops sending packets without use gets its answers", useless_packets, 1},
    {"ends a connection after so many requests", request_limit, 0},
    {"attack: another protocol", wrong_protocol, 0},
    {"attack: frames on wrong streams", wrong_frames, 0},
    {"attack: heads without end, slowly", unfinished_heads, 0},
    {"attack: many large heads without end", many_unfinished_heads, 0},
    {"attack: many answers that nobody takes", many_unread_answers, 0},
    {"attack: a head without end, quickly", endless_head, 0},
    {"attack: streams of unknown types", unknown_streams, 0},
    {"attack: random frames", random_frames, 0},
    {"attack: garbage", garbage, 0},
    {"attack: its own datagrams", mirrored, 0},
    {"an idle connection's memory", idle_memory, 0},
    {"goes on after its memory was packed", rest, 30},
    {"many threads", many_threads, 0},
    {"follows frames in any pieces", frames_in_pieces, 0},
    {"follows frames at their limits", frames_at_limits, 0},
    {"blocks of memory, packed and not", memory_blocks, 0},
    {"refuses credentials", credentials_refused, 0},
    {"0-RTT: has a new record of the time every hour", early_records, 0},
};

int main(int argc, char **argv)
{
    enum { COUNT = sizeof tests / sizeof *tests };
    harness_announce_seed(argc, argv);
#ifdef MEMORY_WITH_FAULTS
    return fault_main(tests, COUNT, argc, argv);
#else
    return harness_main(tests, COUNT, argc, argv);
#endif
}
