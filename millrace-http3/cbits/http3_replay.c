/*
 * http3_replay.c - which early handshakes (0-RTT) were accepted lately, so that none is accepted twice: somebody may
 * have copied one. Must not know: GHC, sockets, the clock.
 *
 * All entries are kept equally long, so the oldest one is always the next to go. A register that is full accepts
 * nothing.
 */
#include <string.h>

#include "http3_internal.h"

#define ENTRIES 65536u /* a power of two */
#define LISTS   65536u /* the same */

/* The bytes of an ID, which is a MAC, that are kept. */
#define PART 16u

typedef struct http3_entry {
    uint8_t part[PART];
    uint64_t until;
    uint32_t next; /* index + 1 of the next one in its list */
} http3_entry;

struct http3_register {
    uint32_t oldest, count;
    uint32_t lists[LISTS]; /* index + 1 of the latest entry */
    http3_entry entries[ENTRIES];
};

static uint32_t *list_of(http3_register *seen, const uint8_t *part)
{
    uint32_t hash;
    memcpy(&hash, part, sizeof hash);
    return &seen->lists[hash & (LISTS - 1)];
}

static void forget_oldest(http3_register *seen)
{
    uint32_t *link = list_of(seen, seen->entries[seen->oldest].part);
    while (*link != seen->oldest + 1)
        link = &seen->entries[*link - 1].next;
    *link = seen->entries[seen->oldest].next;
    seen->oldest = (seen->oldest + 1) & (ENTRIES - 1);
    seen->count--;
}

int http3_register_add(http3_register **at, const uint8_t *id, size_t length, uint64_t now, uint64_t time)
{
    if (*at == NULL)
        *at = http_alloc_zeroed(sizeof **at);
    http3_register *seen = *at;
    if (seen == NULL || length < PART)
        return 0;
    while (seen->count > 0 && seen->entries[seen->oldest].until <= now)
        forget_oldest(seen);
    uint32_t *list = list_of(seen, id);
    for (uint32_t at = *list; at != 0; at = seen->entries[at - 1].next)
        if (memcmp(seen->entries[at - 1].part, id, PART) == 0)
            return 0;
    if (seen->count == ENTRIES)
        return 0;
    uint32_t index = (seen->oldest + seen->count) & (ENTRIES - 1);
    seen->entries[index] = (http3_entry){.until = now + time, .next = *list};
    memcpy(seen->entries[index].part, id, PART);
    *list = index + 1;
    seen->count++;
    return 1;
}

void http3_register_free(http3_register *seen)
{
    http_free(seen);
}
