/* timer.c: the timing wheel against a model that is too simple to be wrong: a list of deadlines. */
#include "../../src/timer.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define TICK_NS (UINT64_C(1) << MR_TICK_BITS)

/* With as many moves as necessary. */
static mr_timer *expire(mr_timer_wheel *wheel, uint64_t now_ns)
{
    unsigned moves = UINT32_MAX;
    return mr_timer_expire(wheel, now_ns, &moves);
}

/* The first moment at which a wheel may and must report this deadline. */
static uint64_t due_ns(uint64_t deadline_ns)
{
    return (deadline_ns + TICK_NS - 1) / TICK_NS * TICK_NS;
}

static void nothing_armed_is_never(uintptr_t unused)
{
    mr_timer_wheel wheel;
    (void)unused;
    mr_timer_wheel_init(&wheel, 12345);
    CHECK(mr_timer_next_ns(&wheel) == MR_NEVER_NS);
    CHECK(expire(&wheel, 12345) == NULL);
    CHECK(expire(&wheel, UINT64_MAX) == NULL);
}

static void zeroed_memory_is_not_armed(uintptr_t unused)
{
    mr_timer_wheel wheel;
    mr_timer timer;
    (void)unused;
    memset(&timer, 0, sizeof timer);
    mr_timer_wheel_init(&wheel, 0);
    CHECK(!mr_timer_is_armed(&timer));
    mr_timer_disarm(&wheel, &timer);
    mr_timer other = {0};
    mr_timer_arm(&wheel, &other, TICK_NS * 64); /* alone in slot 0 of a level */
    CHECK(!mr_timer_is_armed(&timer));
    CHECK(mr_timer_is_armed(&other));
}

/* One timer at every distance, checked around its moment, from starting points at and beside every turn. */
static void every_distance(uintptr_t unused)
{
    (void)unused;
    for (unsigned start_bit = 0; start_bit < 62; start_bit++) {
        for (unsigned bit = 0; bit < 62; bit++) {
            for (int offset = -1; offset <= 1; offset++) {
                mr_timer_wheel wheel;
                mr_timer timer = {0};
                uint64_t start_ns = (UINT64_C(1) << start_bit) + (uint64_t)offset;
                uint64_t deadline_ns = start_ns + (UINT64_C(1) << bit);
                uint64_t due = due_ns(deadline_ns);
                mr_timer_wheel_init(&wheel, start_ns);
                mr_timer_arm(&wheel, &timer, deadline_ns);
                CHECK(mr_timer_next_ns(&wheel) <= due);
                CHECK(expire(&wheel, due - 1) == NULL);
                CHECK(mr_timer_is_armed(&timer));
                CHECK(mr_timer_next_ns(&wheel) <= due);
                CHECK(expire(&wheel, due) == &timer);
                CHECK(!mr_timer_is_armed(&timer));
                CHECK(mr_timer_next_ns(&wheel) == MR_NEVER_NS);
            }
        }
    }
}

static void the_end_of_time(uintptr_t unused)
{
    const uint64_t deadlines_ns[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - TICK_NS, UINT64_MAX / 2};
    (void)unused;
    for (size_t i = 0; i < sizeof deadlines_ns / sizeof *deadlines_ns; i++) {
        mr_timer_wheel wheel;
        mr_timer timer = {0};
        mr_timer_wheel_init(&wheel, 1000000000);
        mr_timer_arm(&wheel, &timer, deadlines_ns[i]);
        /* Checks the wheel for a hundred years, in longer and longer steps. */
        for (uint64_t now_ns = 1000000000; now_ns < UINT64_C(3153600000) * 1000000000u; now_ns += now_ns / 3) {
            CHECK(expire(&wheel, now_ns) == NULL);
            CHECK(mr_timer_next_ns(&wheel) > now_ns);
        }
        CHECK(mr_timer_is_armed(&timer));
        mr_timer_disarm(&wheel, &timer);
        CHECK(!mr_timer_is_armed(&timer));
    }
}

/* A sleeper that always sleeps until `next` wakes rarely: at most once per level. */
static void sleeping_until_next_terminates(uintptr_t unused)
{
    uint64_t random = 9;
    (void)unused;
    for (int round = 0; round < 1000; round++) {
        mr_timer_wheel wheel;
        mr_timer timer = {0};
        uint64_t start_ns = ((uint64_t)harness_random(&random) << 20) + harness_random(&random), now_ns = start_ns;
        uint64_t deadline_ns = start_ns + ((uint64_t)harness_random(&random) << (round % 20));
        mr_timer_wheel_init(&wheel, start_ns);
        mr_timer_arm(&wheel, &timer, deadline_ns);
        int naps = 0;
        while (expire(&wheel, now_ns) == NULL) {
            uint64_t next_ns = mr_timer_next_ns(&wheel);
            CHECK(next_ns > now_ns);
            CHECK(next_ns <= due_ns(deadline_ns));
            now_ns = next_ns;
            CHECK_LE(++naps, MR_WHEEL_LEVELS + 1);
        }
        CHECK(now_ns >= deadline_ns);
    }
}

/* -------------------------------------------------------------------------------------------------- the model --- */

enum { TIMERS = 200 };

typedef struct model {
    mr_timer_wheel wheel;
    mr_timer timers[TIMERS];
    bool armed[TIMERS];
    uint64_t deadlines_ns[TIMERS];
    uint64_t now_ns;
    uint64_t random;
} model;

static size_t index_of(const model *m, const mr_timer *timer)
{
    return (size_t)(timer - m->timers);
}

/* Distances of all magnitudes, the past included. */
static uint64_t random_deadline(model *m)
{
    uint64_t distance_ns = (((uint64_t)harness_random(&m->random) << 32) | harness_random(&m->random)) >>
                           (12 + harness_random(&m->random) % 52);
    bool in_the_past = harness_random(&m->random) % 16 == 0;
    if (in_the_past)
        return distance_ns < m->now_ns ? m->now_ns - distance_ns : 0;
    return m->now_ns + distance_ns;
}

static void arm_one(model *m)
{
    size_t i = harness_random(&m->random) % TIMERS;
    m->deadlines_ns[i] = random_deadline(m);
    m->armed[i] = true;
    mr_timer_arm(&m->wheel, &m->timers[i], m->deadlines_ns[i]);
}

static void disarm_one(model *m)
{
    size_t i = harness_random(&m->random) % TIMERS;
    m->armed[i] = false;
    mr_timer_disarm(&m->wheel, &m->timers[i]);
}

/* If a timer is armed meanwhile, arming it reports whether a sleeper must wake earlier. */
static void arm_while_asleep(model *m)
{
    uint64_t until_ns = mr_timer_next_ns(&m->wheel);
    mr_timer_watch(&m->wheel);
    CHECK(mr_timer_watched_ns(&m->wheel) == MR_NEVER_NS);
    for (uint64_t count = harness_random(&m->random) % 4; count > 0; count--)
        arm_one(m);
    uint64_t watched_ns = mr_timer_watched_ns(&m->wheel), next_ns = mr_timer_next_ns(&m->wheel);
    if (next_ns < until_ns)
        CHECK(watched_ns <= next_ns || watched_ns <= m->wheel.now_tick << MR_TICK_BITS);
}

/* Takes the due timers: all of them, or a few as a bounded poll would. */
static void expire_some(model *m)
{
    unsigned limit = harness_random(&m->random) % 4 ? TIMERS : harness_random(&m->random) % 4;
    unsigned moves = harness_random(&m->random) % 2 ? UINT32_MAX : harness_random(&m->random) % 8;
    mr_timer *timer = NULL;
    for (unsigned taken = 0; taken < limit && (timer = mr_timer_expire(&m->wheel, m->now_ns, &moves)); taken++) {
        size_t i = index_of(m, timer);
        CHECK(m->armed[i]);
        CHECK(due_ns(m->deadlines_ns[i]) <= m->now_ns || m->deadlines_ns[i] <= m->now_ns);
        m->armed[i] = false;
    }
    bool must_go_on = moves == 0 && mr_timer_next_ns(&m->wheel) == 0;
    if (limit == TIMERS && !timer && !must_go_on)
        for (size_t i = 0; i < TIMERS; i++)
            CHECK(!m->armed[i] || due_ns(m->deadlines_ns[i]) > m->now_ns);
}

static void check_model(model *m)
{
    uint64_t next_ns = mr_timer_next_ns(&m->wheel), armed = 0, first_ns = MR_NEVER_NS;
    for (size_t i = 0; i < TIMERS; i++) {
        CHECK_EQ(mr_timer_is_armed(&m->timers[i]), m->armed[i]);
        armed += m->armed[i];
        if (m->armed[i] && due_ns(m->deadlines_ns[i]) < first_ns)
            first_ns = due_ns(m->deadlines_ns[i]);
    }
    CHECK_EQ(m->wheel.armed, armed);
    CHECK(next_ns <= first_ns);
    CHECK((next_ns == MR_NEVER_NS) == (armed == 0));
}

static void advance(model *m)
{
    uint64_t step_ns = (((uint64_t)harness_random(&m->random) << 32) | harness_random(&m->random)) >>
                       (22 + harness_random(&m->random) % 42);
    uint64_t next_ns = mr_timer_next_ns(&m->wheel);
    /* Often exactly to the next deadline or just before it, where mistakes are likely. */
    unsigned choice = harness_random(&m->random) % 4;
    if (choice == 0 && next_ns != MR_NEVER_NS && next_ns > m->now_ns)
        m->now_ns = next_ns - harness_random(&m->random) % 2;
    else
        m->now_ns += step_ns;
}

static void random_walks_agree_with_the_model(uintptr_t unused)
{
    (void)unused;
    for (uint64_t round = 1; round <= harness_rounds(40); round++) {
        model *m = calloc(1, sizeof *m);
        CHECK(m != NULL);
        m->random = (harness_first_seed() + round - 1) * 7919;
        m->now_ns = round % 2 ? round * 1000000000 : (UINT64_C(1) << 42) - round * 1000;
        mr_timer_wheel_init(&m->wheel, m->now_ns);
        for (int step = 0; step < 5000; step++) {
            switch (harness_random(&m->random) % 8) {
            case 0:
                disarm_one(m);
                break;
            case 1:
                advance(m);
                break;
            case 2:
                expire_some(m);
                break;
            case 3:
                arm_while_asleep(m);
                break;
            default:
                arm_one(m);
                break;
            }
            if (step % 8 == 0)
                check_model(m);
        }
        free(m);
    }
}

/* Also while the timers of a coarse slot are moved a few at a time, and others are armed for the same ticks. */
static void timers_of_one_tick_fire_in_the_order_of_arming(uintptr_t unused)
{
    enum { COUNT = 100000, SPAN = 64 * 64 * 3 };
    static mr_timer timers[COUNT];
    static size_t last_of[SPAN + 16];
    mr_timer_wheel wheel;
    uint64_t random = harness_first_seed(), tick = 0;
    size_t armed = 0, fired = 0;
    (void)unused;
    memset(timers, 0, sizeof timers);
    memset(last_of, 0, sizeof last_of);
    mr_timer_wheel_init(&wheel, 0);
    while (tick < SPAN || fired < armed) {
        for (int i = 0; i < 12 && armed < COUNT && tick < SPAN; i++) {
            uint64_t due = tick + 1 + harness_random(&random) % (SPAN - tick);
            mr_timer_arm(&wheel, &timers[armed++], (due | 15) * TICK_NS);
        }
        unsigned moves = harness_random(&random) % 20;
        tick += harness_random(&random) % 2;
        for (mr_timer *timer; (timer = mr_timer_expire(&wheel, tick * TICK_NS, &moves)); fired++) {
            size_t number = (size_t)(timer - timers) + 1;
            CHECK(last_of[timer->position.tick] < number);
            last_of[timer->position.tick] = number;
        }
    }
}

/* Timers of several ticks fire in the order of their ticks. */
static void order_of_ticks(uintptr_t unused)
{
    enum { COUNT = 5000 };
    static mr_timer timers[COUNT];
    mr_timer_wheel wheel;
    uint64_t random = 3, last_tick = 0, count = 0;
    (void)unused;
    mr_timer_wheel_init(&wheel, 0);
    for (int i = 0; i < COUNT; i++)
        mr_timer_arm(&wheel, &timers[i], (uint64_t)harness_random(&random) << (i % 8));
    for (mr_timer *timer; (timer = expire(&wheel, UINT64_C(1) << 45)); count++) {
        CHECK(timer->position.tick >= last_tick);
        last_tick = timer->position.tick;
    }
    CHECK_EQ(count, COUNT);
}

/*
 * Each timer fires at its tick, however many timers there are and move per tick. The timers lie in one slot of a coarse
 * level, which is the worst case; they are sorted while the slot before it passes.
 */
static void sorting_is_spread(uintptr_t unused)
{
    enum { MOVES_PER_TICK = 1024 };
    const uint64_t span = 64 * 64, base = 16 * span;
    size_t count = harness_rounds(1000000), left = count;
    mr_timer *timers = calloc(count, sizeof *timers);
    uint64_t random = 5;
    mr_timer_wheel wheel;
    (void)unused;
    CHECK(timers);
    mr_timer_wheel_init(&wheel, 0);
    for (size_t i = 0; i < count; i++)
        mr_timer_arm(&wheel, &timers[i], (base + harness_random(&random) % span) * TICK_NS);
    CHECK_EQ(timers[0].position.level, timers[count - 1].position.level);
    for (uint64_t tick = 0; tick < base + span; tick++) {
        unsigned moves = MOVES_PER_TICK;
        for (mr_timer *timer; (timer = mr_timer_expire(&wheel, tick * TICK_NS, &moves)); left--)
            CHECK_EQ(timer->position.tick, tick);
    }
    CHECK_EQ(left, 0);
    free(timers);
}

/* As after suspend: years in one step, and few moves at a time. All timers fire, in the order of their ticks. */
static void years_at_once(uintptr_t unused)
{
    enum { COUNT = 20000 };
    const uint64_t year_ns = UINT64_C(31557600) * 1000000000u;
    static mr_timer timers[COUNT];
    mr_timer_wheel wheel;
    uint64_t random = 11, last_tick = 0, count = 0;
    (void)unused;
    mr_timer_wheel_init(&wheel, 12345);
    for (int i = 0; i < COUNT; i++)
        mr_timer_arm(&wheel, &timers[i],
                     ((uint64_t)harness_random(&random) << 32 | harness_random(&random)) % (year_ns >> i % 30));
    while (mr_timer_next_ns(&wheel) != MR_NEVER_NS) {
        unsigned moves = 10;
        for (mr_timer *timer; (timer = mr_timer_expire(&wheel, 5 * year_ns, &moves)); count++) {
            CHECK(timer->position.tick >= last_tick);
            last_tick = timer->position.tick;
        }
    }
    CHECK_EQ(count, COUNT);
}

/* A deadline per connection, moved forward at every activity. The moves must not touch the wheel. */
static void a_later_deadline_moves_nothing(uintptr_t unused)
{
    mr_timer_wheel wheel, before;
    mr_timer timer = {0};
    (void)unused;
    mr_timer_wheel_init(&wheel, 0);
    mr_timer_arm(&wheel, &timer, 1000 * TICK_NS);
    before = wheel;
    for (uint64_t tick = 1000; tick < 100000; tick += 7)
        mr_timer_arm(&wheel, &timer, tick * TICK_NS);
    CHECK(memcmp(&before, &wheel, sizeof wheel) == 0);
    mr_timer_arm(&wheel, &timer, 100000 * TICK_NS);
    CHECK(expire(&wheel, 99999 * TICK_NS) == NULL);
    CHECK(expire(&wheel, 100000 * TICK_NS) == &timer);
}

static void a_clock_that_goes_back_is_harmless(uintptr_t unused)
{
    mr_timer_wheel wheel;
    mr_timer timer = {0}, past = {0};
    (void)unused;
    mr_timer_wheel_init(&wheel, 1000 * TICK_NS);
    mr_timer_arm(&wheel, &timer, 2000 * TICK_NS);
    CHECK(expire(&wheel, 500 * TICK_NS) == NULL);
    CHECK(expire(&wheel, 0) == NULL);
    mr_timer_arm(&wheel, &past, 10);
    CHECK(expire(&wheel, 0) == &past);
    CHECK(expire(&wheel, 1999 * TICK_NS) == NULL);
    CHECK(expire(&wheel, 2000 * TICK_NS) == &timer);
}

const harness_test timer_tests[] = {
    UNIT(timer, nothing_armed_is_never),
    UNIT(timer, zeroed_memory_is_not_armed),
    UNIT(timer, every_distance),
    UNIT(timer, the_end_of_time),
    UNIT(timer, sleeping_until_next_terminates),
    UNIT(timer, random_walks_agree_with_the_model),
    UNIT(timer, timers_of_one_tick_fire_in_the_order_of_arming),
    UNIT(timer, order_of_ticks),
    UNIT(timer, sorting_is_spread),
    UNIT(timer, years_at_once),
    UNIT(timer, a_later_deadline_moves_nothing),
    UNIT(timer, a_clock_that_goes_back_is_harmless),
    {0},
};
