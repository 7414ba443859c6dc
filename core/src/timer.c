/* timer.c: the timing wheel of timer.h. Takes `now`, reads no clock, allocates nothing. */
#include "timer.h"

#include <stddef.h>
#include <string.h>

static uint64_t tick_at_or_after(uint64_t deadline_ns)
{
    uint64_t tick = deadline_ns >> MR_TICK_BITS;
    bool exact = (deadline_ns & ((UINT64_C(1) << MR_TICK_BITS) - 1)) == 0;
    return exact ? tick : tick + 1;
}

/*
 * A timer lives on the level of the highest 6-bit digit in which its tick differs from now. Hence, on each level, all
 * timers lie ahead of now's own digit within the current turn, and any occupied slot of a lower level comes before
 * any of a higher one: the next slot to visit is the first bit of the lowest level that has one.
 */
static unsigned level_of(uint64_t now_tick, uint64_t tick)
{
    unsigned highest_bit = 63u - (unsigned)__builtin_clzll(now_tick ^ tick);
    return highest_bit / MR_WHEEL_SLOT_BITS;
}

static void append_due(mr_timer_wheel *wheel, mr_timer *timer)
{
    timer->level = MR_WHEEL_LEVELS;
    timer->next = NULL;
    timer->previous = wheel->due_last;
    if (wheel->due_last)
        wheel->due_last->next = timer;
    else
        wheel->due_first = timer;
    wheel->due_last = timer;
}

static void insert(mr_timer_wheel *wheel, mr_timer *timer)
{
    if (timer->tick <= wheel->now_tick) {
        append_due(wheel, timer);
        return;
    }
    unsigned level = level_of(wheel->now_tick, timer->tick);
    unsigned slot = (unsigned)(timer->tick >> (level * MR_WHEEL_SLOT_BITS)) & (MR_WHEEL_SLOTS - 1);
    mr_timer **head = &wheel->slots[level][slot];
    timer->level = (uint8_t)level;
    timer->slot = (uint8_t)slot;
    timer->previous = NULL;
    timer->next = *head;
    if (*head)
        (*head)->previous = timer;
    *head = timer;
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

static void unlink_timer(mr_timer_wheel *wheel, mr_timer *timer)
{
    bool is_due = timer->level == MR_WHEEL_LEVELS;
    mr_timer **head = is_due ? &wheel->due_first : &wheel->slots[timer->level][timer->slot];

    if (timer->previous)
        timer->previous->next = timer->next;
    else
        *head = timer->next;
    if (timer->next)
        timer->next->previous = timer->previous;
    else if (is_due)
        wheel->due_last = timer->previous;
    if (!is_due && !*head)
        wheel->occupied[timer->level] &= ~(UINT64_C(1) << timer->slot);
}

void mr_timer_wheel_init(mr_timer_wheel *wheel, uint64_t now_ns)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->now_tick = now_ns >> MR_TICK_BITS;
}

bool mr_timer_is_armed(const mr_timer_wheel *wheel, const mr_timer *timer)
{
    if (timer->next || timer->previous)
        return true;
    if (timer->level == MR_WHEEL_LEVELS)
        return wheel->due_first == timer;
    return wheel->slots[timer->level][timer->slot] == timer;
}

void mr_timer_disarm(mr_timer_wheel *wheel, mr_timer *timer)
{
    if (!mr_timer_is_armed(wheel, timer))
        return;
    unlink_timer(wheel, timer);
    timer->next = timer->previous = NULL;
    wheel->armed--;
}

void mr_timer_arm(mr_timer_wheel *wheel, mr_timer *timer, uint64_t deadline_ns)
{
    mr_timer_disarm(wheel, timer);
    timer->tick = tick_at_or_after(deadline_ns);
    insert(wheel, timer);
    wheel->armed++;
}

/* The first slot that holds a timer: its level, its index, and the tick at which it begins. */
static bool next_slot(const mr_timer_wheel *wheel, unsigned *level, unsigned *slot, uint64_t *start_tick)
{
    for (unsigned i = 0; i < MR_WHEEL_LEVELS; i++) {
        if (!wheel->occupied[i])
            continue;
        unsigned shift = i * MR_WHEEL_SLOT_BITS;
        uint64_t turn = wheel->now_tick >> shift >> MR_WHEEL_SLOT_BITS << MR_WHEEL_SLOT_BITS << shift;
        *level = i;
        *slot = (unsigned)__builtin_ctzll(wheel->occupied[i]);
        *start_tick = turn | ((uint64_t)*slot << shift);
        return true;
    }
    return false;
}

/* Empties one slot: timers that are due go to the due list, the others to finer slots. */
static void visit_slot(mr_timer_wheel *wheel, unsigned level, unsigned slot)
{
    mr_timer *timer = wheel->slots[level][slot];
    wheel->slots[level][slot] = NULL;
    wheel->occupied[level] &= ~(UINT64_C(1) << slot);
    while (timer) {
        mr_timer *next = timer->next;
        insert(wheel, timer);
        timer = next;
    }
}

mr_timer *mr_timer_expire(mr_timer_wheel *wheel, uint64_t now_ns)
{
    uint64_t target_tick = now_ns >> MR_TICK_BITS;
    unsigned level, slot;
    uint64_t start_tick;

    while (!wheel->due_first && next_slot(wheel, &level, &slot, &start_tick) && start_tick <= target_tick) {
        wheel->now_tick = start_tick;
        visit_slot(wheel, level, slot);
    }
    mr_timer *timer = wheel->due_first;
    if (timer)
        mr_timer_disarm(wheel, timer);
    else if (wheel->now_tick < target_tick)
        wheel->now_tick = target_tick;
    return timer;
}

uint64_t mr_timer_next_ns(const mr_timer_wheel *wheel)
{
    unsigned level, slot;
    uint64_t start_tick;

    if (wheel->due_first)
        return 0;
    if (!next_slot(wheel, &level, &slot, &start_tick))
        return MR_NEVER_NS;
    return start_tick > UINT64_MAX >> MR_TICK_BITS ? MR_NEVER_NS : start_tick << MR_TICK_BITS;
}
