/*
 * http3_pending.c - what connections tell their endpoint: that they may have something to send, and what has happened
 * to them. Must not know: GHC, sockets, the clock.
 */
#include <stdlib.h>
#include <string.h>

#include "http3_internal.h"

#define CHANGES_MAX 4096u

void http3_make_pending(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (connection->is_pending)
        return;
    connection->is_pending = 1;
    connection->next_pending = NULL;
    connection->previous_pending = endpoint->last_pending;
    if (endpoint->last_pending == NULL)
        endpoint->first_pending = connection;
    else
        endpoint->last_pending->next_pending = connection;
    endpoint->last_pending = connection;
}

void http3_leave_pending(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (!connection->is_pending)
        return;
    connection->is_pending = 0;
    if (connection->previous_pending == NULL)
        endpoint->first_pending = connection->next_pending;
    else
        connection->previous_pending->next_pending = connection->next_pending;
    if (connection->next_pending == NULL)
        endpoint->last_pending = connection->previous_pending;
    else
        connection->next_pending->previous_pending = connection->previous_pending;
}

void http3_push_change(http3_connection *connection, http3_change_kind kind)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (endpoint->change_count == endpoint->change_capacity) {
        uint32_t capacity = endpoint->change_capacity == 0 ? 16 : 2 * endpoint->change_capacity;
        http3_change *changes = capacity > CHANGES_MAX ? NULL : realloc(endpoint->changes, capacity * sizeof *changes);
        if (changes == NULL)
            return;
        endpoint->changes = changes;
        endpoint->change_capacity = capacity;
    }
    http3_change *change = &endpoint->changes[endpoint->change_count++];
    *change = (http3_change){.connection = connection->number,
                             .kind = kind,
                             .limit = connection->streams.conduct.limit,
                             .remote_length = connection->remote.length};
    memcpy(change->remote, connection->remote.bytes, connection->remote.length);
}

/* A connection counts from the end of its handshake on, or from an earlier request. */
void http3_tell_open(http3_connection *connection)
{
    if (!connection->is_told)
        http3_push_change(connection, HTTP3_OPENED);
    connection->is_told = 1;
}
