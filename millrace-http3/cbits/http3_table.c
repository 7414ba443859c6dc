/*
 * http3_table.c - an endpoint's connection IDs, and when its connections need attention. Must not know: GHC, sockets.
 *
 * Clients choose the first ID of a connection. So the hash has a secret key (SipHash-1-3): nobody can make many IDs
 * with one hash.
 */
#include <stdlib.h>
#include <string.h>

#include "http3_internal.h"

#define FIRST_SIZE 64u

static uint64_t rotated(uint64_t word, unsigned by)
{
    return word << by | word >> (64 - by);
}

static void mix(uint64_t v[4])
{
    v[0] += v[1], v[2] += v[3];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] = rotated(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] = rotated(v[2], 32);
}

static uint64_t hash_of(const uint64_t key[2], const uint8_t *bytes, size_t length)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                     key[1] ^ 0x7465646279746573};
    for (size_t at = 0; at <= length; at += 8) {
        uint64_t word = 0;
        size_t count = length - at < 8 ? length - at : 8;
        memcpy(&word, bytes + at, count);
        if (count < 8)
            word |= (uint64_t)length << 56;
        v[3] ^= word;
        mix(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    mix(v), mix(v), mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static http3_id **bucket_of(const http3_endpoint *endpoint, const uint8_t *id, size_t length)
{
    return &endpoint->table[hash_of(endpoint->hash_key, id, length) & (endpoint->table_size - 1)];
}

static int is_same(const http3_id *id, const uint8_t *bytes, size_t length)
{
    return id->length == length && memcmp(id->bytes, bytes, length) == 0;
}

http3_connection *http3_find(const http3_endpoint *endpoint, const uint8_t *id, size_t length)
{
    if (endpoint->table_size == 0)
        return NULL;
    for (const http3_id *at = *bucket_of(endpoint, id, length); at != NULL; at = at->next)
        if (is_same(at, id, length))
            return at->connection;
    return NULL;
}

static int grow(http3_endpoint *endpoint)
{
    uint32_t old_size = endpoint->table_size, size = old_size == 0 ? FIRST_SIZE : 2 * old_size;
    http3_id **old = endpoint->table, **table = calloc(size, sizeof *table);
    if (table == NULL)
        return -1;
    endpoint->table = table;
    endpoint->table_size = size;
    for (uint32_t i = 0; i < old_size; i++)
        for (http3_id *at = old[i], *next; at != NULL; at = next) {
            http3_id **bucket = bucket_of(endpoint, at->bytes, at->length);
            next = at->next;
            at->next = *bucket;
            *bucket = at;
        }
    free(old);
    return 0;
}

int http3_add_id(http3_connection *connection, const uint8_t *bytes, size_t length)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (length > HTTP3_ID_MAX || (endpoint->id_count >= endpoint->table_size && grow(endpoint) != 0))
        return -1;
    http3_id *id = http_alloc(sizeof *id);
    if (id == NULL)
        return -1;
    http3_id **bucket = bucket_of(endpoint, bytes, length);
    *id = (http3_id){.next = *bucket, .next_own = connection->ids, .connection = connection, .length = (uint8_t)length};
    memcpy(id->bytes, bytes, length);
    *bucket = id;
    connection->ids = id;
    endpoint->id_count++;
    return 0;
}

static void unlink_id(http3_endpoint *endpoint, const http3_id *id)
{
    http3_id **at = bucket_of(endpoint, id->bytes, id->length);
    while (*at != id)
        at = &(*at)->next;
    *at = id->next;
    endpoint->id_count--;
}

void http3_remove_id(http3_connection *connection, const uint8_t *bytes, size_t length)
{
    for (http3_id **at = &connection->ids; *at != NULL; at = &(*at)->next_own)
        if (is_same(*at, bytes, length)) {
            http3_id *id = *at;
            *at = id->next_own;
            unlink_id(connection->endpoint, id);
            http_free(id);
            return;
        }
}

void http3_remove_ids(http3_connection *connection)
{
    while (connection->ids != NULL) {
        http3_id *id = connection->ids;
        connection->ids = id->next_own;
        unlink_id(connection->endpoint, id);
        http_free(id);
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * A binary heap */

static void put(http3_endpoint *endpoint, uint32_t index, http3_connection *connection)
{
    endpoint->heap[index] = connection;
    connection->heap_index = index;
}

static void settle(http3_endpoint *endpoint, uint32_t index)
{
    http3_connection *moved = endpoint->heap[index];
    while (index > 0 && endpoint->heap[(index - 1) / 2]->expiry > moved->expiry) {
        put(endpoint, index, endpoint->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= endpoint->heap_count)
            break;
        if (child + 1 < endpoint->heap_count && endpoint->heap[child + 1]->expiry < endpoint->heap[child]->expiry)
            child++;
        if (endpoint->heap[child]->expiry >= moved->expiry)
            break;
        put(endpoint, index, endpoint->heap[child]);
        index = child;
    }
    put(endpoint, index, moved);
}

int http3_enter_heap(http3_connection *connection, uint64_t expiry)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (endpoint->heap_count == endpoint->heap_capacity) {
        uint32_t capacity = endpoint->heap_capacity == 0 ? FIRST_SIZE : 2 * endpoint->heap_capacity;
        http3_connection **heap = realloc(endpoint->heap, capacity * sizeof(http3_connection *));
        if (heap == NULL)
            return -1;
        endpoint->heap = heap;
        endpoint->heap_capacity = capacity;
    }
    connection->expiry = expiry;
    put(endpoint, endpoint->heap_count++, connection);
    settle(endpoint, connection->heap_index);
    return 0;
}

void http3_set_expiry(http3_connection *connection, uint64_t expiry)
{
    if (connection->expiry == expiry)
        return;
    connection->expiry = expiry;
    settle(connection->endpoint, connection->heap_index);
}

void http3_leave_heap(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    uint32_t index = connection->heap_index;
    http3_connection *last = endpoint->heap[--endpoint->heap_count];
    if (last != connection) {
        put(endpoint, index, last);
        settle(endpoint, index);
    }
}
