/*
 * check.c: checks the invariants of a loop.
 *
 * Every record must be in the lists, rings and queues that its state implies, and in no others; and every counter must
 * match. The check runs between two calls of the loop's owner. Must not know: system calls.
 */
#include "check.h"
#include "timeout.h"
#include "backend.h"
#include "millrace_check.h"

/* The number of records of each kind that were found. */
typedef struct census {
    uint64_t free_slots;
    uint64_t completed_slots;
    uint64_t linked_slots; /* to a descriptor */
    uint64_t free_timeouts;
    uint64_t in_flight;
    uint64_t armed_timers;
} census;

static bool is_in_flight(const mr_slot *slot)
{
    return slot->state == MR_SLOT_PENDING || slot->state == MR_SLOT_BACKOFF;
}

/* An operation whose deadline has yet to come has an armed timer. A close has none. */
static bool must_have_timer(const mr_slot *slot)
{
    bool has_deadline = slot->request.deadline_ns != MR_NO_DEADLINE && slot->request.kind != MR_CLOSE;
    return slot->state == MR_SLOT_BACKOFF || (has_deadline && !slot->end_reason);
}

static void check_slot_in_flight(const mr_slot *slot)
{
    MR_CHECK((slot->descriptor != NULL) == (slot->request.kind != MR_CLOSE));
    MR_CHECK(!slot->descriptor || slot->descriptor->number == mr_slot_number(slot));
    MR_CHECK(!must_have_timer(slot) || mr_timer_is_armed(&slot->timer));
    MR_CHECK(slot->request.kind != MR_SEND_THEN_RECEIVE || slot->request.buffer);
}

static void check_slot_at_rest(const mr_slot *slot)
{
    MR_CHECK(!slot->descriptor && !slot->backend_memory && !mr_timer_is_armed(&slot->timer));
    MR_CHECK(slot->state == MR_SLOT_COMPLETED || !slot->borrowed);
}

static void check_slots(const mr_loop *loop, census *found)
{
    for (uint32_t i = 0; i < loop->slots.count; i++) {
        const mr_slot *slot = mr_pool_at(&loop->slots, i, sizeof *slot);
        MR_CHECK(mr_token_number(slot->token) == i && mr_token_loop(slot->token) == loop->index);
        MR_CHECK(!mr_token_is_timeout(slot->token));
        if (is_in_flight(slot))
            check_slot_in_flight(slot);
        else
            check_slot_at_rest(slot);
        found->free_slots += slot->state == MR_SLOT_FREE;
        found->completed_slots += slot->state == MR_SLOT_COMPLETED;
        found->linked_slots += slot->descriptor != NULL;
        found->in_flight += is_in_flight(slot) || slot->state == MR_SLOT_COMPLETED;
        found->armed_timers += mr_timer_is_armed(&slot->timer);
    }
}

static void check_timeouts(const mr_loop *loop, census *found)
{
    for (uint32_t i = 0; i < loop->timeouts.count; i++) {
        const mr_timeout *timeout = mr_pool_at(&loop->timeouts, i, sizeof *timeout);
        bool is_in_wheel = timeout->state == MR_SLOT_PENDING || timeout->state == MR_SLOT_COMPLETED;
        MR_CHECK(mr_token_number(timeout->token) == i && mr_token_loop(timeout->token) == loop->index);
        MR_CHECK(timeout->state == MR_SLOT_FREE || mr_timer_is_armed(&timeout->timer) == is_in_wheel);
        MR_CHECK(timeout->timer.position.owner == MR_TIMER_OF_TIMEOUT);
        found->free_timeouts += timeout->state == MR_SLOT_FREE;
        found->in_flight += is_in_wheel;
        found->armed_timers += is_in_wheel;
    }
}

/* Checks the list of operations of one direction: its links, and that each belongs to this descriptor. */
static uint64_t check_direction(const mr_descriptor *descriptor, int direction)
{
    const mr_slot *previous = NULL;
    uint64_t count = 0;
    for (const mr_slot *slot = descriptor->first[direction]; slot; previous = slot, slot = slot->next) {
        MR_CHECK(slot->previous == previous && slot->descriptor == descriptor && is_in_flight(slot));
        MR_CHECK(mr_direction_of(slot->request.kind) == direction);
        MR_CHECK(descriptor->generation != 0 || mr_is_wait(slot->request.kind));
        count++;
    }
    MR_CHECK(descriptor->last[direction] == previous);
    return count;
}

static void check_descriptor(const mr_descriptor *descriptor, census *found, uint64_t *linked)
{
    for (int direction = 0; direction < MR_DIRECTIONS; direction++) {
        bool is_armed = mr_timer_is_armed(&descriptor->timers[direction]);
        *linked += check_direction(descriptor, direction);
        MR_CHECK(!is_armed || descriptor->generation != 0);
        found->armed_timers += is_armed;
    }
    /* A descriptor that is being closed is released when its last operation ends. */
    MR_CHECK(!descriptor->detaching || !mr_descriptor_is_idle(descriptor));
}

static void check_descriptors(const mr_loop *loop, census *found)
{
    uint64_t linked = 0;
    for (uint32_t chunk = 0; chunk < loop->descriptor_chunk_count; chunk++)
        for (uint32_t i = 0; loop->descriptor_chunks[chunk] && i < MR_DESCRIPTOR_CHUNK; i++) {
            const mr_descriptor *descriptor = &loop->descriptor_chunks[chunk][i];
            MR_CHECK(descriptor->number == (int)(chunk * MR_DESCRIPTOR_CHUNK + i));
            check_descriptor(descriptor, found, &linked);
        }
    MR_CHECK(linked == found->linked_slots);
}

static void check_lists(const mr_loop *loop, const census *found)
{
    uint64_t free_slots = 0, free_timeouts = 0, completed = 0;
    const mr_slot *last = NULL;
    for (const mr_slot *slot = loop->free_slots; slot; slot = slot->queued, free_slots++)
        MR_CHECK(slot->state == MR_SLOT_FREE && free_slots < found->free_slots);
    for (const mr_timeout *timeout = loop->free_timeouts; timeout;
         timeout = (const mr_timeout *)timeout->timer.next, free_timeouts++)
        MR_CHECK(timeout->state == MR_SLOT_FREE && free_timeouts < found->free_timeouts);
    for (const mr_slot *slot = loop->completed.first; slot; last = slot, slot = slot->queued, completed++)
        MR_CHECK(slot->state == MR_SLOT_COMPLETED && completed < found->completed_slots);
    MR_CHECK(free_slots == found->free_slots && free_timeouts == found->free_timeouts);
    MR_CHECK(completed == found->completed_slots && loop->completed.last == last);
}

void mr_loop_check(const mr_loop *loop)
{
    census found = {0};
    mr_counters counters;
    check_slots(loop, &found);
    check_timeouts(loop, &found);
    check_descriptors(loop, &found);
    check_lists(loop, &found);
    mr_loop_counters(loop, &counters);
    MR_CHECK(counters.operations - counters.completions == found.in_flight);
    MR_CHECK(mr_timer_check(&loop->wheel) == found.armed_timers);
    MR_CHECK(!loop->submitting);
    mr_buffers_check(&loop->buffers);
    if (loop->backend->check)
        loop->backend->check(loop);
}

/* A check visits all records. A loop with many records is checked less often, or tests with a million of them would
 * never end. */
void mr_loop_check_after_poll(mr_loop *loop)
{
    enum { RECORDS_PER_POLL = 1024 };
    uint64_t records = (uint64_t)loop->slots.count + loop->timeouts.count + loop->descriptor_chunk_count;
    if (++loop->unchecked_polls * (uint64_t)RECORDS_PER_POLL < records)
        return;
    loop->unchecked_polls = 0;
    mr_loop_check(loop);
}
