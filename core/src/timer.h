/*
 * timer.h: a hierarchical timing wheel.
 *
 * It keeps timers that the caller embeds in its own records and hands them back when they are due. It reads no clock
 * (every function that needs the time takes it), and allocates nothing. Must not know: operations, loops, the clock.
 *
 * A tick is 2^18 ns (0.26 ms). A timer fires in the first tick that begins at or after its deadline, so never early.
 * Eight levels cover all deadlines that 64-bit nanoseconds can name. A level has two turns of 64 slots, the current one
 * and the next, so that the timers of a coarse slot can be sorted into finer ones a few at a time, while the slot before
 * it passes: no call does more than the caller allows.
 *
 * Moving a deadline to a later moment is a store: the timer stays where it is, and is put where it belongs when its old
 * place comes up.
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

/* Written as a whole: fields written one by one would wait for each other. */
typedef struct mr_timer_place {
    uint64_t tick : 47; /* when it is due; its slot may be an earlier one */
    uint64_t level : 4;
    uint64_t slot : 7;
    uint64_t owner : 4; /* the caller's: what this timer is embedded in */
} mr_timer_place;

/* Zeroed memory is a valid timer that is not armed. */
typedef struct mr_timer {
    struct mr_timer *next; /* in the ring of its slot; NULL if it is not armed */
    struct mr_timer *previous;
    mr_timer_place place;
} mr_timer;

typedef struct mr_timer_wheel {
    uint64_t now_tick; /* every timer before this tick is gone */
    uint64_t armed;
    uint64_t watched_tick;                 /* see mr_timer_watch */
    uint64_t occupied[MR_WHEEL_LEVELS][2]; /* by turn, even or odd: bit i: slot i of that turn is not empty */
    mr_timer *slots[MR_WHEEL_LEVELS][MR_WHEEL_SLOTS];
} mr_timer_wheel;

void mr_timer_wheel_init(mr_timer_wheel *wheel, uint64_t now_ns);

/* Arms a timer, or moves the deadline of an armed one. O(1). */
void mr_timer_arm(mr_timer_wheel *wheel, mr_timer *timer, uint64_t deadline_ns);

/* Harmless on a timer that is not armed. O(1). */
void mr_timer_disarm(mr_timer_wheel *wheel, mr_timer *timer);

bool mr_timer_is_armed(const mr_timer *timer);

/* When an armed timer is due, to the tick: at or after its deadline. */
uint64_t mr_timer_due_ns(const mr_timer *timer);

/*
 * Disarms and returns one timer that is due at `now_ns`, or NULL: none is due, or `*moves`, which counts down the timers
 * that are put elsewhere, has come to 0 (mr_timer_next_ns then says 0). A clock that stands still or goes back is
 * harmless.
 */
mr_timer *mr_timer_expire(mr_timer_wheel *wheel, uint64_t now_ns, unsigned *moves);

/* When mr_timer_expire has work to do next: 0 for now, MR_NEVER_NS if no timer is armed. May be earlier than any
 * deadline (to sort timers into finer slots), never later. */
uint64_t mr_timer_next_ns(const mr_timer_wheel *wheel);

/* Aborts if a ring is broken or a timer is not where it says. Returns how many are armed. O(armed), for tests. */
uint64_t mr_timer_check(const mr_timer_wheel *wheel);

/*
 * For a caller that has asked mr_timer_next_ns and sleeps until then, while timers are armed: mr_timer_watched_ns is when
 * one that was armed since mr_timer_watch makes work for mr_timer_expire. MR_NEVER_NS if none was. O(1).
 */
void mr_timer_watch(mr_timer_wheel *wheel);
uint64_t mr_timer_watched_ns(const mr_timer_wheel *wheel);

#endif
