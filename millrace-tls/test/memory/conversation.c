/* conversation.c - the turns of a client and a server, and the checks in each of them. Must not know: system calls,
 * sockets. */
#include "conversation.h"

#include <stdlib.h>
#include <string.h>

enum { TURNS_MAX = 20000, OUT_ROOM = 4096, PLAIN_ROOM = 4096 };

uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

uint8_t byte_at(size_t position)
{
    return (uint8_t)(position * 2654435761u >> 13);
}

void wire_put(wire *wire, const uint8_t *bytes, size_t count)
{
    if (wire->count + count > wire->capacity) {
        wire->capacity = 2 * (wire->count + count);
        wire->bytes = realloc(wire->bytes, wire->capacity);
        CHECK(wire->bytes);
    }
    if (count > 0)
        memcpy(wire->bytes + wire->count, bytes, count);
    wire->count += count;
}

/* The next piece that arrives, in memory of exactly its size, so that a sanitizer finds reads beyond it. NULL if there
 * is none. */
static uint8_t *next_piece(conversation *c, wire *wire, size_t *count)
{
    size_t end = wire->count < wire->cut ? wire->count : wire->cut;
    size_t left = end > wire->taken ? end - wire->taken : 0;
    if (left == 0)
        return NULL;
    size_t size = c->is_whole ? left : 1 + next_random(&c->random) % (next_random(&c->random) % 4 == 0 ? 2000 : 40);
    *count = size < left ? size : left;
    uint8_t *piece = malloc(*count);
    CHECK(piece);
    memcpy(piece, wire->bytes + wire->taken, *count);
    wire->taken += *count;
    return piece;
}

/* Moves the side's kept bytes to its wire. */
void side_put_kept(side *side)
{
    uint8_t out[OUT_ROOM];
    tls_step step;
    do {
        step = tls_connection_collect(side->connection, out, sizeof out);
        wire_put(side->out, out, step_out(step));
    } while (step_has_more(step));
}

static void note_failure(side *side)
{
    const tls_failure *failure = tls_connection_failure(side->connection);
    CHECK(failure && failure->problem != TLS_PROBLEM_NONE);
    side->problem = failure->problem;
    side->phase = FAILED;
    side_put_kept(side);
    /* A failed connection stays failed. */
    uint8_t byte = 0;
    CHECK(step_status(tls_connection_send(side->connection, &byte, 1, &byte, 1)) == TLS_FAILED);
    CHECK(tls_connection_is_over(side->connection));
}

static bool shake(conversation *c, side *side, bool is_first)
{
    size_t count = 0;
    uint8_t *piece = next_piece(c, side->in, &count);
    if (!piece && !is_first)
        return false;
    uint8_t out[OUT_ROOM];
    tls_step step = tls_connection_handshake(side->connection, piece, count, out, sizeof out);
    free(piece);
    wire_put(side->out, out, step_out(step));
    side_put_kept(side);
    switch (step_status(step)) {
    case TLS_DONE:
        side->phase = OPEN;
        break;
    case TLS_FAILED:
        note_failure(side);
        break;
    default:
        CHECK(step_status(step) == TLS_WANTS_INPUT);
    }
    return true;
}

/* Receives a piece with one of the two receive functions, chosen at random. The plain bytes are in `plain`. */
static tls_step receive_piece(conversation *c, side *side, const uint8_t *piece, size_t count, uint8_t *plain,
                              size_t capacity)
{
    if (count > capacity || next_random(&c->random) % 2 == 0)
        return tls_connection_receive(side->connection, piece, count, plain, capacity);
    uint8_t *buffer = malloc(capacity);
    CHECK(buffer);
    if (count > 0)
        memcpy(buffer, piece, count);
    tls_step step = tls_connection_receive_in_place(side->connection, buffer, count, capacity);
    memcpy(plain, buffer, step_plain(step));
    free(buffer);
    return step;
}

static bool receive(conversation *c, side *side, const struct side *peer)
{
    size_t count = 0;
    bool has_input = tls_connection_has_input(side->connection);
    uint8_t *piece = next_piece(c, side->in, &count);
    if (!piece && !has_input)
        return false;
    uint8_t plain[PLAIN_ROOM];
    size_t capacity = c->is_whole ? sizeof plain : 1 + next_random(&c->random) % sizeof plain;
    tls_step step = receive_piece(c, side, piece, count, plain, capacity);
    free(piece);
    CHECK(step_plain(step) <= capacity);
    for (size_t i = 0; i < step_plain(step); i++)
        CHECK(plain[i] == byte_at(side->received + i));
    side->received += step_plain(step);
    CHECK(side->received <= peer->sent);
    if (step_has_more(step))
        side_put_kept(side);
    switch (step_status(step)) {
    case TLS_DONE:
        CHECK(step_plain(step) > 0);
        break;
    case TLS_ENDED:
        /* Only the peer can end its side, and only after all its bytes have arrived. */
        CHECK(peer->has_ended && side->received == peer->sent);
        side->phase = ENDED;
        break;
    case TLS_FAILED:
        note_failure(side);
        break;
    default:
        CHECK(step_status(step) == TLS_WANTS_INPUT);
    }
    return true;
}

/* Seals plain bytes with one of the send functions, chosen at random, and puts the bytes to send on the wire. */
static tls_step seal_piece(conversation *c, side *side, const uint8_t *plain, size_t count)
{
    uint8_t out[OUT_ROOM];
    uint32_t way = next_random(&c->random) % 4;
    size_t capacity = c->is_whole ? sizeof out : 65 + next_random(&c->random) % (sizeof out - 65);
    tls_step step;
    if (way == 0) {
        step = tls_connection_send_later(side->connection, plain, count);
        CHECK(step_out(step) == 0);
        return step;
    }
    if (way == 1 && count <= capacity) {
        memcpy(out, plain, count);
        step = tls_connection_send_in_place(side->connection, out, count, capacity);
        if (step_status(step) != TLS_DONE || step_plain(step) == count) {
            CHECK(step_out(step) <= capacity);
            wire_put(side->out, out, step_out(step));
            return step;
        }
        CHECK(step_plain(step) == 0 && step_out(step) == 0);
    }
    step = tls_connection_send(side->connection, plain, count, out, capacity);
    CHECK(step_out(step) <= capacity && step_plain(step) <= count);
    wire_put(side->out, out, step_out(step));
    return step;
}

static bool transmit(conversation *c, side *side)
{
    uint8_t plain[1000];
    if (side->has_ended)
        return false;
    if (side->sent == side->to_send) {
        tls_connection_end(side->connection);
        side->has_ended = true;
        side_put_kept(side);
        return true;
    }
    size_t count = side->to_send - side->sent < sizeof plain ? side->to_send - side->sent : sizeof plain;
    for (size_t i = 0; i < count; i++)
        plain[i] = byte_at(side->sent + i);
    tls_step step = seal_piece(c, side, plain, count);
    side->sent += step_plain(step);
    if (step_status(step) == TLS_FAILED)
        note_failure(side);
    else
        CHECK(step_status(step) == TLS_DONE);
    return true;
}

static bool turn(conversation *c, side *side, const struct side *peer, bool is_first)
{
    size_t from = side->out->count;
    bool has_done = false;
    if (side->phase == SHAKING) {
        has_done = shake(c, side, is_first);
    } else if (side->phase != FAILED) {
        if (side->phase == OPEN)
            has_done = receive(c, side, peer);
        if (side->phase == OPEN || side->phase == ENDED)
            has_done = transmit(c, side) || has_done;
    }
    if (c->change && side->out->count > from)
        c->change(c->argument, side->out, from);
    return has_done;
}

void conversation_begin(conversation *c, tls_context *client, tls_context *server, size_t to_send, uint64_t seed)
{
    *c = (conversation){.random = seed};
    c->to_server.cut = c->to_client.cut = SIZE_MAX;
    c->client =
        (side){.connection = tls_connection_new(client), .to_send = to_send, .in = &c->to_client, .out = &c->to_server};
    c->server =
        (side){.connection = tls_connection_new(server), .to_send = to_send, .in = &c->to_server, .out = &c->to_client};
    CHECK(c->client.connection && c->server.connection);
    CHECK(tls_connection_expect(c->client.connection, "localhost"));
}

bool conversation_turn(conversation *c)
{
    bool is_first = !c->has_begun;
    c->has_begun = true;
    bool client = turn(c, &c->client, &c->server, is_first);
    bool server = turn(c, &c->server, &c->client, false);
    return client || server;
}

void conversation_shake_hands(conversation *c)
{
    while (c->client.phase == SHAKING || c->server.phase == SHAKING)
        CHECK(conversation_turn(c));
}

void conversation_run(conversation *c)
{
    for (int i = 0; i < TURNS_MAX; i++)
        if (!conversation_turn(c))
            return;
    CHECK(!"it does not end");
}

void conversation_end(conversation *c)
{
    tls_connection_free(c->client.connection);
    tls_connection_free(c->server.connection);
    free(c->to_server.bytes);
    free(c->to_client.bytes);
}
