/*
 * timer.h: a hierarchical timing wheel.
 *
 * Callers embed timers in their own records; the wheel returns the timers that are due. It reads no clock (functions
 * that need the time take it as an argument), and allocates no memory. Must not know: operations, loops, the clock.
 *
 * A tick is 2^18 ns (0.26 ms). A timer fires in the first tick that begins at or after its deadline, so never early.
 * Eight levels cover all deadlines that 64-bit nanoseconds can name. A level has two turns of 64 slots, the current one
 * and the next. So the timers of a coarse slot can move to finer slots (cascade) a few at a time, while the slot before
 * it passes: no call moves more timers than the caller allows.
 *
 * Moving a deadline to a later moment is one store: the timer stays in its slot, and moves to the right one when its
 * old slot is due.
 *
 * Timers of one tick fire in the order in which they were armed, apart from those whose deadlines were moved.
 */
#ifndef MILLRACE_TIMER_H
#define MILLRACE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define MR_TICK_BITS        18
#define MR_WHEEL_LEVELS     8
#define MR_WHEEL_DIGIT_BITS 6
#define MR_WHEEL_TURN       (1 << MR_WHEEL_DIGIT_BITS)
#define MR_WHEEL_SLOTS      (1 << (MR_WHEEL_DIGIT_BITS + 1)) /* two turns */
#define MR_NEVER_NS         UINT64_MAX

/* One word, written at once: writing the fields one by one would make the processor wait for each. */
typedef struct mr_timer_position {
    uint64_t tick : 47; /* when it is due; its slot may be an earlier one */
    uint64_t level : 4;
    uint64_t slot : 7;
    uint64_t owner : 4; /* the caller's: what this timer is embedded in */
} mr_timer_position;

/* Zeroed memory is a valid timer that is not armed. */
typedef struct mr_timer {
    struct mr_timer *next; /* in the ring of its slot; NULL if it is not armed */
    struct mr_timer *previous;
    mr_timer_position position;
} mr_timer;

typedef struct mr_timer_wheel {
    uint64_t now_tick; /* every timer before this tick has fired */
    uint64_t armed;
    uint64_t watched_tick;                 /* see mr_timer_watch */
    uint64_t occupied[MR_WHEEL_LEVELS][2]; /* by turn, even or odd: bit i: slot i of that turn is not empty */
    uint32_t occupied_levels;              /* bit i: level i is not empty */
    mr_timer *slots[MR_WHEEL_LEVELS][MR_WHEEL_SLOTS];
} mr_timer_wheel;

void mr_timer_wheel_init(mr_timer_wheel *wheel, uint64_t now_ns);

/* Arms a timer, or moves the deadline of an armed one. O(1). */
void mr_timer_arm(mr_timer_wheel *wheel, mr_timer *timer, uint64_t deadline_ns);

/* Disarms a timer, if it is armed. O(1). */
void mr_timer_disarm(mr_timer_wheel *wheel, mr_timer *timer);

bool mr_timer_is_armed(const mr_timer *timer);

/* When an armed timer is due, to the tick: at or after its deadline. */
uint64_t mr_timer_due_ns(const mr_timer *timer);

/*
 * Disarms and returns one timer that is due at `now_ns`. Returns NULL if none is due, or if *moves has reached 0 (then
 * mr_timer_next_ns returns 0); each timer that moves to another slot decrements it. A clock that stands still or goes
 * back does no harm.
 */
mr_timer *mr_timer_expire(mr_timer_wheel *wheel, uint64_t now_ns, unsigned *moves);

/* The time at which mr_timer_expire has work to do next: 0 for now, MR_NEVER_NS if no timer is armed. It may be earlier
 * than any deadline (for a cascade), never later. */
uint64_t mr_timer_next_ns(const mr_timer_wheel *wheel);

/* Aborts if a ring is broken or a timer is not in the slot that it names. Returns the number of armed timers. O(armed),
 * for tests. */
uint64_t mr_timer_check(const mr_timer_wheel *wheel);

/*
 * For a caller that sleeps until mr_timer_next_ns while other timers may be armed. mr_timer_watched_ns is the earliest
 * time at which a timer that was armed since mr_timer_watch gives mr_timer_expire work; MR_NEVER_NS if none was. O(1).
 */
void mr_timer_watch(mr_timer_wheel *wheel);
uint64_t mr_timer_watched_ns(const mr_timer_wheel *wheel);

#endif
