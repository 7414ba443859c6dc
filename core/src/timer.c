/* timer.c: the timing wheel of timer.h. */
#include "timer.h"
#include "millrace_check.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define NEVER_TICK UINT64_MAX
#define TICK_MASK  ((UINT64_C(1) << 47) - 1)

static_assert(64 - MR_TICK_BITS < 47, "the tick of every deadline fits, rounded up");
static_assert(MR_WHEEL_LEVELS * MR_WHEEL_DIGIT_BITS >= 47, "the coarsest level reaches every tick");

static uint64_t tick_at_or_after(uint64_t deadline_ns)
{
    uint64_t tick = deadline_ns >> MR_TICK_BITS;
    bool exact = (deadline_ns & ((UINT64_C(1) << MR_TICK_BITS) - 1)) == 0;
    return exact ? tick : tick + 1;
}

/* The number of the slot that a tick falls into, counted from tick 0 without turning. */
static uint64_t slot_number(uint64_t tick, unsigned level)
{
    return tick >> (level * MR_WHEEL_DIGIT_BITS);
}

static uint64_t first_tick(uint64_t slot_number, unsigned level)
{
    return slot_number << (level * MR_WHEEL_DIGIT_BITS);
}

/* True if a level's current or next turn contains this tick. A turn of a level is a slot of the level above. */
static bool reaches(uint64_t now_tick, uint64_t tick, unsigned level)
{
    return slot_number(tick, level + 1) - slot_number(now_tick, level + 1) <= 1;
}

/* The finest level that reaches a tick. The highest digit of the distance gives it, or the one above it. */
static unsigned level_of(uint64_t now_tick, uint64_t tick)
{
    unsigned highest_bit = 63u - (unsigned)__builtin_clzll((tick - now_tick) | 1);
    unsigned level = highest_bit / MR_WHEEL_DIGIT_BITS;
    return level > 0 && reaches(now_tick, tick, level - 1) ? level - 1 : level;
}

static void set_occupied(mr_timer_wheel *wheel, unsigned level, unsigned slot, bool occupied)
{
    uint64_t bit = UINT64_C(1) << slot % MR_WHEEL_TURN;
    uint64_t *turns = wheel->occupied[level], *turn = &turns[slot / MR_WHEEL_TURN];
    *turn = occupied ? *turn | bit : *turn & ~bit;
    uint32_t level_bit = UINT32_C(1) << level;
    wheel->occupied_levels =
        turns[0] | turns[1] ? wheel->occupied_levels | level_bit : wheel->occupied_levels & ~level_bit;
}

/* The tick at which the wheel must fire a slot's timers, or empty the slot (see `cascade` below). */
static uint64_t attention_tick(uint64_t slot_number, unsigned level)
{
    return level == 0 ? slot_number : first_tick(slot_number - 1, level);
}

static bool is_occupied(const mr_timer_wheel *wheel, unsigned level, unsigned slot)
{
    return wheel->occupied[level][slot / MR_WHEEL_TURN] >> slot % MR_WHEEL_TURN & 1;
}

/* A timer that is due already goes into the slot that is due now. */
static uint64_t tick_from_now(const mr_timer_wheel *wheel, uint64_t due_tick)
{
    return due_tick > wheel->now_tick ? due_tick : wheel->now_tick;
}

/* The level for a timer that is armed now. Where timers for the same tick still wait in a slot of a coarser level, it
 * goes behind them: timers of one tick fire in the order in which they were armed. */
static unsigned level_behind_others(const mr_timer_wheel *wheel, uint64_t tick)
{
    unsigned finest = level_of(wheel->now_tick, tick);
    uint32_t coarser = wheel->occupied_levels & ~((UINT32_C(2) << finest) - 1);
    while (coarser) {
        unsigned level = 31u - (unsigned)__builtin_clz(coarser);
        if (is_occupied(wheel, level, (unsigned)slot_number(tick, level) % MR_WHEEL_SLOTS))
            return level;
        coarser &= ~(UINT32_C(1) << level);
    }
    return finest;
}

/* Appends a timer to its slot of a level. */
static void insert(mr_timer_wheel *wheel, mr_timer *timer, uint64_t due_tick, unsigned level)
{
    uint64_t tick = tick_from_now(wheel, due_tick);
    uint64_t number = slot_number(tick, level), attention = attention_tick(number, level);
    unsigned slot = (unsigned)number % MR_WHEEL_SLOTS;
    mr_timer **head = &wheel->slots[level][slot];
    if (attention < wheel->watched_tick)
        wheel->watched_tick = attention;
    timer->position = (mr_timer_position){
        .tick = due_tick & TICK_MASK, .level = level & 15, .slot = slot & 127, .owner = timer->position.owner};
    if (!*head) {
        *head = timer->next = timer->previous = timer;
        set_occupied(wheel, level, slot, true);
        return;
    }
    timer->next = *head;
    timer->previous = (*head)->previous;
    timer->previous->next = timer;
    timer->next->previous = timer;
}

/* Appends a timer that has left its slot to the one where it belongs now. */
static void insert_again(mr_timer_wheel *wheel, mr_timer *timer)
{
    uint64_t due_tick = timer->position.tick;
    insert(wheel, timer, due_tick, level_of(wheel->now_tick, tick_from_now(wheel, due_tick)));
}

static void unlink_timer(mr_timer_wheel *wheel, mr_timer *timer)
{
    mr_timer **head = &wheel->slots[timer->position.level][timer->position.slot];
    MR_CHECK(timer->next->previous == timer);
    if (timer->next == timer) {
        *head = NULL;
        set_occupied(wheel, timer->position.level, timer->position.slot, false);
    } else {
        timer->next->previous = timer->previous;
        timer->previous->next = timer->next;
        if (*head == timer)
            *head = timer->next;
    }
    timer->next = timer->previous = NULL;
}

void mr_timer_wheel_init(mr_timer_wheel *wheel, uint64_t now_ns)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->now_tick = now_ns >> MR_TICK_BITS;
    mr_timer_watch(wheel);
}

bool mr_timer_is_armed(const mr_timer *timer)
{
    return timer->next;
}

uint64_t mr_timer_due_ns(const mr_timer *timer)
{
    uint64_t tick = timer->position.tick; /* copied to 64 bits before the shift, because the bit-field has fewer */
    return tick > UINT64_MAX >> MR_TICK_BITS ? UINT64_MAX : tick << MR_TICK_BITS;
}

void mr_timer_disarm(mr_timer_wheel *wheel, mr_timer *timer)
{
    if (!mr_timer_is_armed(timer))
        return;
    unlink_timer(wheel, timer);
    wheel->armed--;
}

void mr_timer_arm(mr_timer_wheel *wheel, mr_timer *timer, uint64_t deadline_ns)
{
    uint64_t tick = tick_at_or_after(deadline_ns);
    bool is_armed = mr_timer_is_armed(timer);
    if (is_armed && tick >= timer->position.tick) {
        timer->position.tick = tick & TICK_MASK;
        return;
    }
    if (is_armed)
        unlink_timer(wheel, timer);
    else
        wheel->armed++;
    insert(wheel, timer, tick, level_behind_others(wheel, tick_from_now(wheel, tick)));
}

/* The number of a level's first occupied slot, or NEVER_TICK. No occupied slot lies before now. */
static uint64_t first_occupied(const mr_timer_wheel *wheel, unsigned level)
{
    uint64_t turn = slot_number(wheel->now_tick, level + 1);
    uint64_t current = wheel->occupied[level][turn % 2], next = wheel->occupied[level][(turn + 1) % 2];
    if (current)
        return turn * MR_WHEEL_TURN + (unsigned)__builtin_ctzll(current);
    return next ? (turn + 1) * MR_WHEEL_TURN + (unsigned)__builtin_ctzll(next) : NEVER_TICK;
}

/*
 * A slot of a coarse level is emptied into finer ones during the slot before it, when the finer level's next turn
 * reaches it; of several such slots, the one that begins first goes first. The wheel must not reach the beginning of a
 * slot that is not empty.
 */
typedef struct cascade {
    uint64_t begin_tick; /* the first moment at which there is a slot to empty */
    uint64_t end_tick;   /* the first moment at which one begins */
    unsigned level;      /* the slot to empty at `now_tick`; level 0: there is none yet */
    unsigned slot;
} cascade;

static cascade next_cascade(const mr_timer_wheel *wheel, uint64_t now_tick)
{
    cascade next = {.begin_tick = NEVER_TICK, .end_tick = NEVER_TICK};
    uint64_t chosen_end = NEVER_TICK;
    for (uint32_t coarse = wheel->occupied_levels & ~UINT32_C(1); coarse; coarse &= coarse - 1) {
        unsigned level = (unsigned)__builtin_ctz(coarse);
        uint64_t number = first_occupied(wheel, level);
        uint64_t begin_tick = attention_tick(number, level), end_tick = first_tick(number, level);
        if (begin_tick < next.begin_tick)
            next.begin_tick = begin_tick;
        if (end_tick < next.end_tick)
            next.end_tick = end_tick;
        if (begin_tick <= now_tick && end_tick < chosen_end) {
            chosen_end = end_tick;
            next.level = level;
            next.slot = (unsigned)number % MR_WHEEL_SLOTS;
        }
    }
    return next;
}

/* Moves timers of one slot to finer slots, at most *moves. Returns false if some are left. */
static bool cascade_slot(mr_timer_wheel *wheel, unsigned level, unsigned slot, unsigned *moves)
{
    mr_timer *timer;
    while ((timer = wheel->slots[level][slot])) {
        if (*moves == 0)
            return false;
        --*moves;
        unlink_timer(wheel, timer);
        insert_again(wheel, timer);
    }
    return true;
}

static void advance(mr_timer_wheel *wheel, uint64_t tick)
{
    if (wheel->now_tick < tick)
        wheel->now_tick = tick;
}

/* Removes a due timer from the slot that is due now, and moves those whose deadline is later to their slots. */
static mr_timer *take_due(mr_timer_wheel *wheel, unsigned *moves)
{
    mr_timer *timer;
    while ((timer = wheel->slots[0][wheel->now_tick % MR_WHEEL_SLOTS])) {
        if (timer->position.tick <= wheel->now_tick) {
            mr_timer_disarm(wheel, timer);
            return timer;
        }
        if (*moves == 0)
            return NULL;
        --*moves;
        unlink_timer(wheel, timer);
        insert_again(wheel, timer);
    }
    return NULL;
}

/* True if take_due has left timers there, because it had no moves left. */
static bool is_occupied_now(const mr_timer_wheel *wheel)
{
    return wheel->slots[0][wheel->now_tick % MR_WHEEL_SLOTS];
}

mr_timer *mr_timer_expire(mr_timer_wheel *wheel, uint64_t now_ns, unsigned *moves)
{
    uint64_t target_tick = now_ns >> MR_TICK_BITS;
    for (;;) {
        mr_timer *timer = take_due(wheel, moves);
        if (timer || is_occupied_now(wheel))
            return timer;
        cascade next = next_cascade(wheel, target_tick);
        uint64_t limit = next.end_tick <= target_tick ? next.end_tick - 1 : target_tick;
        uint64_t due = first_occupied(wheel, 0);
        if (due <= limit) {
            advance(wheel, due);
            continue;
        }
        advance(wheel, limit);
        if (next.level == 0 || !cascade_slot(wheel, next.level, next.slot, moves))
            return NULL;
    }
}

static uint64_t beginning_of_ns(uint64_t tick)
{
    return tick > UINT64_MAX >> MR_TICK_BITS ? MR_NEVER_NS : tick << MR_TICK_BITS;
}

uint64_t mr_timer_next_ns(const mr_timer_wheel *wheel)
{
    uint64_t due = first_occupied(wheel, 0), cascade_begins = next_cascade(wheel, wheel->now_tick).begin_tick;
    uint64_t tick = due < cascade_begins ? due : cascade_begins;
    return tick <= wheel->now_tick ? 0 : beginning_of_ns(tick);
}

void mr_timer_watch(mr_timer_wheel *wheel)
{
    wheel->watched_tick = NEVER_TICK;
}

uint64_t mr_timer_watched_ns(const mr_timer_wheel *wheel)
{
    return beginning_of_ns(wheel->watched_tick);
}

/* Checks that the timers of a slot are linked both ways and name that slot. Returns their number. */
static uint64_t check_slot(const mr_timer_wheel *wheel, unsigned level, unsigned slot)
{
    const mr_timer *first = wheel->slots[level][slot], *timer = first;
    uint64_t count = 0;
    if (first)
        do {
            MR_CHECK(timer->next && timer->next->previous == timer);
            MR_CHECK(timer->position.level == level && timer->position.slot == slot);
            count++;
            timer = timer->next;
        } while (timer != first);
    MR_CHECK((first != NULL) == is_occupied(wheel, level, slot));
    return count;
}

uint64_t mr_timer_check(const mr_timer_wheel *wheel)
{
    uint64_t count = 0;
    for (unsigned level = 0; level < MR_WHEEL_LEVELS; level++) {
        uint64_t before = count;
        for (unsigned slot = 0; slot < MR_WHEEL_SLOTS; slot++)
            count += check_slot(wheel, level, slot);
        MR_CHECK((count > before) == (wheel->occupied_levels >> level & 1));
    }
    MR_CHECK(count == wheel->armed);
    return count;
}
