/*
 * sleep.c: no wake-up is lost, in any order in which owner and wakers run.
 *
 * The real loop.c and mailbox.c are compiled here with every sequentially consistent atomic access, and every call of
 * the backend that concerns sleeping, a point at which another thread may continue. Threads are contexts in one OS
 * thread; a depth-first search runs each schedule from the beginning. If no thread can continue and something is left
 * to do, a wake-up was lost.
 *
 * Limit: the search treats relaxed accesses as sequentially consistent. Of these, only the mailbox's check before it
 * takes everything matters, and the owner checks again before it sleeps.
 */
/* Before the atomics are redefined. */
#include "../../src/timeout.h"
#include "../../src/backend.h"
#include "../../src/mailbox.h"
#include "../../src/token.h"
#include "../harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static void model_point(void);
static bool model_is_late(const void *object, bool value);
static void model_looked(void);

#undef atomic_store
#undef atomic_load
#undef atomic_exchange
#undef atomic_compare_exchange_weak
#define atomic_store(object, value)                                     \
    do {                                                                \
        model_point();                                                  \
        if (!model_is_late(object, (value) != 0))                       \
            atomic_store_explicit(object, value, memory_order_seq_cst); \
    } while (0)
#define atomic_load(object)                                                           \
    __extension__({                                                                   \
        model_point();                                                                \
        __auto_type model_value = atomic_load_explicit(object, memory_order_seq_cst); \
        model_looked();                                                               \
        model_value;                                                                  \
    })
#define atomic_exchange(object, value)                                       \
    (model_point(), model_is_late(object, (value) != 0)                      \
                        ? atomic_load_explicit(object, memory_order_seq_cst) \
                        : atomic_exchange_explicit(object, value, memory_order_seq_cst))
#define atomic_compare_exchange_weak(object, expected, value) \
    (model_point(),                                           \
     atomic_compare_exchange_strong_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst))

#include "../../src/loop.c"
#include "../../src/mailbox.c"

/* ----------------------------------------------------------------------------------------------------- threads --- */

enum { OWNER, WAKERS_MAX = 2, THREADS_MAX = 1 + WAKERS_MAX, STACK_BYTES = 1 << 16, STEPS_MAX = 512 };

typedef struct thread {
    ucontext_t context;
    char stack[STACK_BYTES];
    bool has_ended;
    bool waits; /* for the bell */
} thread;

/* A deliberate defect, to verify that the search finds it. */
typedef enum fault { NOTHING, SLEEPS_BEFORE_IT_SAYS_SO, WAKER_LOOKS_FIRST, WAKER_IS_SILENT } fault;

typedef struct model {
    int wakers;
    int preemptions_max; /* how often a thread may lose its turn while it could go on */
    bool posts;          /* wakers post messages; otherwise they set a flag and wake */
    fault fault;
} model;

static model here;
static thread threads[THREADS_MAX];
static ucontext_t scheduler;
static int current = -1; /* -1: atomic accesses are not observed */
static bool is_lost;

static mr_group *group;
static mr_loop *loop;
static mr_token tokens[WAKERS_MAX];
static bool bell;         /* what an eventfd is to epoll */
static atomic_int raised; /* by wakers that post nothing */
static mr_loop *late;     /* its `sleeping` or `woken` is to be written after the next look */

/* The choices of a run, and the number of alternatives each time. */
static struct {
    uint8_t choice, options;
} steps[STEPS_MAX];
static int step_count, step, preemptions;

static bool can_run(int number)
{
    return !threads[number].has_ended && (!threads[number].waits || bell);
}

/* The thread that continues; first the current one. -1: none can. */
static int choose(void)
{
    int able[THREADS_MAX], count = 0;
    bool can_stay = can_run(current);
    if (can_stay)
        able[count++] = current;
    for (int i = 0; i < 1 + here.wakers && !(can_stay && preemptions == here.preemptions_max); i++)
        if (i != current && can_run(i))
            able[count++] = i;
    if (count == 0)
        return -1;
    CHECK_LT(step, STEPS_MAX);
    if (step == step_count)
        steps[step_count++].choice = 0;
    steps[step].options = (uint8_t)count;
    int chosen = able[steps[step++].choice];
    preemptions += can_stay && chosen != current;
    return chosen;
}

static void switch_to_another(void)
{
    int before = current, next = choose();
    if (next == before)
        return;
    is_lost = next < 0;
    current = next;
    swapcontext(&threads[before].context, next < 0 ? &scheduler : &threads[next].context);
}

static void model_point(void)
{
    if (current >= 0)
        switch_to_another();
}

/* A processor that lets a read overtake the write before it. */
static bool model_is_late(const void *object, bool value)
{
    if (current < 0 || !value)
        return false;
    if ((here.fault == SLEEPS_BEFORE_IT_SAYS_SO && object == &loop->sleeping) ||
        (here.fault == WAKER_LOOKS_FIRST && object == &loop->woken)) {
        late = loop;
        return true;
    }
    return here.fault == WAKER_IS_SILENT && object == &loop->woken;
}

static void model_looked(void)
{
    if (!late || (here.fault == SLEEPS_BEFORE_IT_SAYS_SO) != (current == OWNER))
        return;
    model_point();
    atomic_store_explicit(here.fault == SLEEPS_BEFORE_IT_SAYS_SO ? &late->sleeping : &late->woken, true,
                          memory_order_seq_cst);
    late = NULL;
}

/* ---------------------------------------------------------------------------------------------------- a backend --- */

static int create(mr_loop *unused)
{
    (void)unused;
    return 0;
}

static void destroy(mr_loop *unused)
{
    (void)unused;
}

static void poll_bell(mr_loop *unused)
{
    (void)unused;
    model_point();
    bell = false;
}

static bool has_work(mr_loop *unused)
{
    (void)unused;
    return false;
}

static void wait_for_bell(const mr_loop *unused, uint64_t until_ns)
{
    (void)unused;
    CHECK_EQ(until_ns, MR_NEVER_NS);
    threads[OWNER].waits = true;
    model_point();
    threads[OWNER].waits = false;
}

static void ring_bell(mr_loop *unused)
{
    (void)unused;
    model_point();
    bell = true;
}

static const mr_backend_operations backend = {.create = create,
                                              .destroy = destroy,
                                              .poll = poll_bell,
                                              .has_work = has_work,
                                              .wait = wait_for_bell,
                                              .wake = ring_bell};

static uint64_t now_ns(const mr_group *unused)
{
    (void)unused;
    return 1000000;
}

/* --------------------------------------------------------------------------------------------------- the search --- */

/* As a manager does: polls, and sleeps if there is nothing to do. */
static void own(void)
{
    for (int taken = 0; taken < here.wakers;) {
        mr_completion completions[WAKERS_MAX];
        int count = mr_loop_poll(loop, completions, WAKERS_MAX);
        for (int i = 0; i < count; i++)
            mr_loop_release(loop, completions[i].token);
        taken = here.posts ? taken + count : atomic_load(&raised);
        if (count == 0 && taken < here.wakers && mr_loop_prepare_wait(loop))
            mr_loop_wait(loop);
    }
}

static void wake(int number)
{
    if (here.posts) {
        mr_loop_start_remote(loop, tokens[number - 1], &(mr_request){.kind = MR_TIMEOUT});
    } else {
        model_point();
        atomic_fetch_add(&raised, 1);
        mr_loop_wake(loop);
    }
}

static void run_thread(int number)
{
    if (number == OWNER)
        own();
    else
        wake(number);
    threads[number].has_ended = true;
    bool is_last = true;
    for (int i = 0; i < 1 + here.wakers; i++)
        is_last &= threads[i].has_ended;
    if (is_last) {
        current = -1;
        setcontext(&scheduler);
    }
    switch_to_another();
}

static void set_up(void)
{
    bell = is_lost = false;
    late = NULL;
    step = preemptions = 0;
    atomic_store_explicit(&raised, 0, memory_order_relaxed);
    CHECK_EQ(mr_loop_create(group, &loop), 0);
    for (int i = 0; i < here.wakers; i++)
        CHECK_EQ(mr_loop_reserve(loop, MR_TIMEOUT, &tokens[i]), 0);
    for (int i = 0; i < 1 + here.wakers; i++) {
        thread *t = &threads[i];
        t->has_ended = t->waits = false;
        getcontext(&t->context);
        t->context.uc_stack = (stack_t){.ss_sp = t->stack, .ss_size = STACK_BYTES};
        makecontext(&t->context, (void (*)(void))run_thread, 1, i);
    }
}

static void run_once(void)
{
    set_up();
    volatile bool has_begun = false;
    getcontext(&scheduler);
    if (!has_begun) {
        has_begun = true;
        current = OWNER;
        setcontext(&threads[OWNER].context);
    }
    current = -1;
    mr_loop_destroy(loop);
    loop = NULL;
    atomic_store_explicit(&group->loop_count, 0, memory_order_relaxed);
}

/* Moves to the next schedule. False: that was the last one. */
static bool next_schedule(void)
{
    while (step_count > 0 && steps[step_count - 1].choice + 1 == steps[step_count - 1].options)
        step_count--;
    if (step_count == 0)
        return false;
    steps[step_count - 1].choice++;
    return true;
}

/* Runs all schedules, or until one loses a wake-up. Returns how many lost none. */
static unsigned long search(model what)
{
    unsigned long count = 0;
    here = what;
    step_count = 0;
    CHECK_EQ(mr_group_create_on(MR_BACKEND_EPOLL, &backend, now_ns, &group), 0);
    for (;;) {
        run_once();
        if (is_lost)
            break;
        count++;
        if (!next_schedule())
            break;
    }
    mr_group_destroy(group);
    return count;
}

enum { ANY = 1000 };

static void check_all(model what, unsigned long least)
{
    unsigned long count = search(what);
    if (is_lost)
        FAIL("schedule %lu loses a wake-up, after %d steps", count + 1, step);
    printf("%lu schedules\n", count);
    CHECK_GE(count, least);
}

static void one_waker_posts(uintptr_t unused)
{
    (void)unused;
    check_all((model){.wakers = 1, .preemptions_max = ANY, .posts = true}, 1000);
}

static void one_waker_sets_a_flag(uintptr_t unused)
{
    (void)unused;
    check_all((model){.wakers = 1, .preemptions_max = ANY}, 400);
}

static void two_wakers_post(uintptr_t unused)
{
    (void)unused;
    check_all((model){.wakers = 2, .preemptions_max = 5, .posts = true}, 10000);
}

static void two_wakers_set_flags(uintptr_t unused)
{
    (void)unused;
    check_all((model){.wakers = 2, .preemptions_max = 5}, 10000);
}

/* A search that cannot fail would prove nothing. */
static void what_is_broken_is_found(uintptr_t unused)
{
    const fault faults[] = {SLEEPS_BEFORE_IT_SAYS_SO, WAKER_LOOKS_FIRST, WAKER_IS_SILENT};
    (void)unused;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        unsigned long count = search((model){.wakers = 1, .preemptions_max = ANY, .fault = faults[i]});
        if (!is_lost)
            FAIL("fault %d went unnoticed in %lu schedules", (int)faults[i], count);
    }
}

#define MODEL(function)                 \
    {                                   \
        "sleep/" #function, function, 0 \
    }

int main(int argc, char **argv)
{
    const harness_test tests[] = {MODEL(one_waker_posts), MODEL(one_waker_sets_a_flag), MODEL(two_wakers_post),
                                  MODEL(two_wakers_set_flags), MODEL(what_is_broken_is_found)};
    return harness_main(tests, sizeof tests / sizeof *tests, argc, argv);
}
