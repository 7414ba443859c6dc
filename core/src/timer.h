/*
 * timer.h: a hierarchical timing wheel.
 *
 * It keeps timers that the caller embeds in its own records and hands them back when they are due. It reads no clock
 * (every function that needs the time takes it), allocates nothing, and knows neither operations nor loops.
 *
 * A tick is 2^18 ns (0.26 ms). A timer fires in the first tick that begins at or after its deadline, so never early.
 * Eight levels of 64 slots cover all deadlines that 64-bit nanoseconds can name.
 */
#ifndef MILLRACE_TIMER_H
#define MILLRACE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define MR_TICK_BITS 18
#define MR_WHEEL_LEVELS 8
#define MR_WHEEL_SLOT_BITS 6
#define MR_WHEEL_SLOTS (1 << MR_WHEEL_SLOT_BITS)
#define MR_NEVER_NS UINT64_MAX

/* Zeroed memory is a valid timer that is not armed. */
typedef struct mr_timer {
    struct mr_timer *next;
    struct mr_timer *previous;
    uint64_t tick;
    uint8_t level; /* MR_WHEEL_LEVELS: on the due list */
    uint8_t slot;
} mr_timer;

typedef struct mr_timer_wheel {
    uint64_t now_tick; /* every timer up to this tick is on the due list, or gone */
    uint64_t armed;
    uint64_t occupied[MR_WHEEL_LEVELS]; /* bit i: slots[level][i] is not empty */
    mr_timer *slots[MR_WHEEL_LEVELS][MR_WHEEL_SLOTS];
    mr_timer *due_first;
    mr_timer *due_last;
} mr_timer_wheel;

void mr_timer_wheel_init(mr_timer_wheel *wheel, uint64_t now_ns);

/* Arms a timer, or moves the deadline of an armed one. O(1). */
void mr_timer_arm(mr_timer_wheel *wheel, mr_timer *timer, uint64_t deadline_ns);

/* Harmless on a timer that is not armed. O(1). */
void mr_timer_disarm(mr_timer_wheel *wheel, mr_timer *timer);

bool mr_timer_is_armed(const mr_timer_wheel *wheel, const mr_timer *timer);

/* Disarms and returns one timer that is due at `now_ns`, or NULL. A clock that stands still or goes back is harmless. */
mr_timer *mr_timer_expire(mr_timer_wheel *wheel, uint64_t now_ns);

/* When mr_timer_expire has work to do next; MR_NEVER_NS if no timer is armed. May be earlier than any deadline (to
 * sort timers into finer slots), never later. */
uint64_t mr_timer_next_ns(const mr_timer_wheel *wheel);

#endif
