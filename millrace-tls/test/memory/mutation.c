/*
 * mutation.c - changes bytes on their way, and whole records: their type, version, length, order and number. Whatever
 * is changed, a side must return only plain bytes that the other side has sent. Must not know: system calls, sockets.
 */
#include "mutation.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_HEAD = 5, INSERTED_MAX = 64 };

static uint8_t next_of_script(mutation *m)
{
    return m->at < m->length ? m->script[m->at++] : 0;
}

static size_t place_of_script(mutation *m, size_t limit)
{
    size_t number = (size_t)next_of_script(m) << 8;
    number |= next_of_script(m);
    return limit == 0 ? 0 : number % limit;
}

static void cut_out(wire *wire, size_t at, size_t count)
{
    memmove(wire->bytes + at, wire->bytes + at + count, wire->count - at - count);
    wire->count -= count;
}

static void insert(wire *wire, size_t at, const uint8_t *bytes, size_t count)
{
    size_t behind = wire->count - at;
    uint8_t *rest = malloc(behind + 1);
    uint8_t *copy = malloc(count + 1);
    CHECK(rest && copy);
    memcpy(copy, bytes, count);
    memcpy(rest, wire->bytes + at, behind);
    wire->count = at;
    wire_put(wire, copy, count);
    wire_put(wire, rest, behind);
    free(rest);
    free(copy);
}

/* The length of the record at a position, with its header, but at most the bytes that are left. */
static size_t record_length(const wire *wire, size_t at)
{
    size_t left = wire->count - at;
    if (left < RECORD_HEAD)
        return left;
    size_t length = RECORD_HEAD + ((size_t)wire->bytes[at + 3] << 8 | wire->bytes[at + 4]);
    return length < left ? length : left;
}

static void change_record(mutation *m, wire *wire, size_t at)
{
    size_t length = record_length(wire, at);
    uint8_t other[INSERTED_MAX];
    switch (next_of_script(m) % 9) {
    case 0: /* twice */
        insert(wire, at, wire->bytes + at, length);
        break;
    case 1: /* lost */
        cut_out(wire, at, length);
        break;
    case 2: /* of another type */
        wire->bytes[at] = next_of_script(m);
        break;
    case 3: /* of another version */
        if (length > 2)
            wire->bytes[at + 1 + next_of_script(m) % 2] = next_of_script(m);
        break;
    case 4: /* of another length */
        if (length >= RECORD_HEAD)
            wire->bytes[at + 3 + next_of_script(m) % 2] ^= (uint8_t)(1 << next_of_script(m) % 8);
        break;
    case 5: /* behind the next one */
        if (at + length < wire->count) {
            size_t next = record_length(wire, at + length);
            insert(wire, at + length + next, wire->bytes + at, length);
            cut_out(wire, at, length);
        }
        break;
    case 6: /* in two records */
        if (length > RECORD_HEAD + 2) {
            size_t first = 1 + next_of_script(m) % (length - RECORD_HEAD - 1);
            size_t second = length - RECORD_HEAD - first;
            uint8_t head[RECORD_HEAD] = {wire->bytes[at], wire->bytes[at + 1], wire->bytes[at + 2],
                                         (uint8_t)(second >> 8), (uint8_t)second};
            wire->bytes[at + 3] = (uint8_t)(first >> 8);
            wire->bytes[at + 4] = (uint8_t)first;
            insert(wire, at + RECORD_HEAD + first, head, sizeof head);
        }
        break;
    case 7: /* behind a forged record: an alert, a change of ciphers, unencrypted data, an empty record */
        memcpy(other,
               (uint8_t[][7]){{21, 3, 3, 0, 2, 1, 0},
                              {21, 3, 3, 0, 2, 2, 40},
                              {20, 3, 3, 0, 1, 1, 0},
                              {23, 3, 3, 0, 2, 65, 66}}[next_of_script(m) % 4],
               7);
        insert(wire, at, other, other[4] + RECORD_HEAD);
        break;
    default: /* behind random bytes */
        for (size_t i = 0; i < sizeof other; i++)
            other[i] = next_of_script(m);
        insert(wire, at, other, 1 + next_of_script(m) % sizeof other);
    }
}

static void change(void *argument, wire *wire, size_t from)
{
    mutation *m = argument;
    uint8_t choice = next_of_script(m);
    size_t count = wire->count - from;
    if (choice < 128 || from < wire->taken || count == 0)
        return;
    m->count++;
    size_t at = from + place_of_script(m, count);
    switch (choice % 4) {
    case 0:
        wire->bytes[at] ^= (uint8_t)(1 << next_of_script(m) % 8);
        break;
    case 1: {
        size_t gone = 1 + place_of_script(m, wire->count - at);
        cut_out(wire, at, gone < wire->count - at ? gone : wire->count - at);
        break;
    }
    default: {
        /* Finds the record that contains the position. */
        size_t record = from;
        while (record + record_length(wire, record) <= at)
            record += record_length(wire, record);
        change_record(m, wire, record);
    }
    }
}

void mutated_conversation(tls_context *client, tls_context *server, const uint8_t *script, size_t length)
{
    conversation c;
    mutation m = {.script = script, .length = length};
    conversation_begin(&c, client, server, 3000, length + 1);
    c.change = change;
    c.argument = &m;
    conversation_run(&c);
    if (m.count == 0)
        CHECK(c.client.phase == ENDED && c.server.phase == ENDED);
    conversation_end(&c);
}
