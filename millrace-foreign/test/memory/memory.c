/*
 * memory.c - millrace-foreign's C code without Haskell: the tests are the threads that call C on fibers, run its
 * callbacks, and are woken. With faults, each test runs again and again, and another call of that code fails: it says
 * so, or the test passes. Must not know: GHC.
 */
#include "call.h"
#include "callback.h"
#include "waking.h"

#include "harness.h"
#include "millrace_fiber.h"

#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef MEMORY_WITH_FAULTS
#include "fault/fault.h"
#endif

/* ------------------------------------------------------------------------------------------------ instead of Haskell
 * --- */

static sem_t bell;
static int places_freed, handled;

void hs_free_stable_ptr(HsStablePtr pointer)
{
    CHECK(pointer != NULL);
    places_freed++;
}

void hs_try_putmvar(int capability, HsStablePtr mvar)
{
    CHECK_EQ(capability, 0);
    CHECK(mvar == &bell);
    MUST(sem_post(mvar));
}

/* What each callback does: it doubles a number. Its handler is the kind of that. */
static void double_it(const mrf_kind *kind, void **arguments, uint64_t *result)
{
    switch (*kind) {
    case MRF_DOUBLE:
        *(double *)result = 2 * *(double *)arguments[0];
        break;
    case MRF_FLOAT:
        *(float *)result = 2 * *(float *)arguments[0];
        break;
    case MRF_INT8:
        *(int8_t *)result = (int8_t)(2 * *(int8_t *)arguments[0]);
        break;
    case MRF_VOID:
        break;
    default:
        *(int32_t *)result = 2 * *(int32_t *)arguments[0];
        break;
    }
    handled++;
}

void mrf_run_handler(HsStablePtr handler, void **arguments, uint64_t *result);
void mrf_run_handler(HsStablePtr handler, void **arguments, uint64_t *result)
{
    double_it(handler, arguments, result);
}

static void begin(void)
{
    MUST(sem_init(&bell, 0, 0));
    MUST(mrf_start_carriers(1, "epoll"));
}

static mrf_call *make_call(void *function, unsigned count, mrf_kind result)
{
    static int signal_memory;
    mrf_call *call = mrf_call_create((void (*)(void))function, count, result, 0);
    CHECK(call != NULL);
    if (mrf_call_signal(call) == NULL)
        mrf_call_set_signal(call, &signal_memory);
    CHECK(mrf_call_signal(call) == &signal_memory);
    return call;
}

static void wait_until_woken(mrf_call *call)
{
    mrf_wanted *list;
    while ((list = mrf_wanted_take(0, &bell)) == NULL)
        while (sem_wait(&bell) != 0)
            CHECK_EQ(errno, EINTR);
    CHECK(mrf_wanted_next(&list) == mrf_call_signal(call));
    CHECK(list == NULL);
}

/* Waits for the end of the call and runs its callbacks. */
static void serve_call(mrf_call *call)
{
    const mrf_frame *frame;
    for (wait_until_woken(call); (frame = mrf_call_frame(call)) != NULL; wait_until_woken(call)) {
        double_it(frame->handler, frame->arguments, frame->result);
        mrf_call_resume(call, 0);
    }
}

/* Returns whether it ran. */
static int run_call(mrf_call *call)
{
    int result = mrf_call_start(call, 0);
    if (result == 0)
        serve_call(call);
    return result;
}

static void put_integer(mrf_call *call, unsigned index, mrf_kind kind, int64_t value, size_t size)
{
    memcpy(mrf_call_argument(call, index, kind), &value, size);
}

/* ------------------------------------------------------------------------------------------------------------- calls
 * --- */

static int64_t sum(int8_t a, int16_t b, int32_t c, int64_t d, uint8_t e, uint16_t f)
{
    errno = E2BIG;
    return a + b + c + d + e + f;
}

static void integers(uintptr_t unused)
{
    (void)unused;
    begin();
    for (int i = 0; i < 3; i++) {
        mrf_call *call = make_call(sum, 6, MRF_INT64);
        put_integer(call, 0, MRF_INT8, -1, 1);
        put_integer(call, 1, MRF_INT16, -300, 2);
        put_integer(call, 2, MRF_INT32, -70000, 4);
        put_integer(call, 3, MRF_INT64, INT64_C(5000000000), 8);
        put_integer(call, 4, MRF_WORD8, 200, 1);
        put_integer(call, 5, MRF_WORD16, 60000, 2);
        int result = run_call(call);
        int64_t value = *(int64_t *)mrf_call_result(call);
        mrf_call_end(call);
        CHECK_EQ(result, 0);
        CHECK_EQ(errno, E2BIG);
        CHECK_EQ(value, INT64_C(5000000000) - 1 - 300 - 70000 + 200 + 60000);
    }
    CHECK_EQ(places_freed, 0); /* the record is kept */
}

static double weighted(double a, float b, double c, double d, double e, double f, double g, double h, double i)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

static void many_arguments(uintptr_t unused)
{
    (void)unused;
    begin();
    mrf_call *call = make_call(weighted, 9, MRF_DOUBLE);
    for (unsigned i = 0; i < 9; i++)
        if (i == 1)
            *(float *)mrf_call_argument(call, i, MRF_FLOAT) = 0.5f;
        else
            *(double *)mrf_call_argument(call, i, MRF_DOUBLE) = i;
    int result = run_call(call);
    double value = *(double *)mrf_call_result(call);
    mrf_call_end(call);
    CHECK_EQ(result, 0);
    CHECK_EQ(value, 1 + 3 * 2 + 4 * 3 + 5 * 4 + 6 * 5 + 7 * 6 + 8 * 7 + 9 * 8);
    CHECK_EQ(places_freed, 1); /* so large a record is not kept */
}

static void unstarted(uintptr_t unused)
{
    (void)unused;
    begin();
    mrf_call_end(make_call(sum, 6, MRF_INT64));
}

/* More records than are kept. */
static void many_records(uintptr_t unused)
{
    enum { COUNT = 1025 };
    static mrf_call *calls[COUNT];
    (void)unused;
    begin();
    for (int i = 0; i < COUNT; i++)
        calls[i] = make_call(sum, 0, MRF_VOID);
    for (int i = 0; i < COUNT; i++)
        mrf_call_end(calls[i]);
    CHECK_EQ(places_freed, COUNT - 1024);
}

static int64_t sleeps(void)
{
    return usleep(50000000) == 0 ? 0 : errno;
}

static void interrupted(uintptr_t unused)
{
    (void)unused;
    begin();
    mrf_call *call = make_call(sleeps, 0, MRF_INT64);
    int result = mrf_call_start(call, 0);
    if (result == 0) {
        mrf_call_interrupt(call, ETIMEDOUT);
        serve_call(call);
    }
    int64_t value = *(int64_t *)mrf_call_result(call);
    mrf_call_end(call);
    CHECK_EQ(result, 0);
    CHECK_EQ(value, ETIMEDOUT);
}

static void wrong_backend(uintptr_t unused)
{
    (void)unused;
    CHECK_LT(mrf_start_carriers(1, "no such backend"), 0);
}

/* --------------------------------------------------------------------------------------------------------- callbacks
 * --- */

static mrf_callback *make_callback(mrf_kind *kind, void **pointer)
{
    mrf_callback *callback = mrf_callback_create(1, *kind);
    CHECK(callback != NULL);
    mrf_callback_argument(callback, 0, *kind == MRF_VOID ? MRF_INT32 : *kind);
    *pointer = mrf_callback_finish(callback, kind);
    if (*pointer == NULL)
        mrf_callback_destroy(callback);
    CHECK(*pointer != NULL);
    return callback;
}

typedef struct numbers {
    int32_t whole;
    int8_t small;
    double exact;
    float rough;
} numbers;

typedef struct pointers {
    int32_t (*whole)(int32_t);
    int8_t (*small)(int8_t);
    double (*exact)(double);
    float (*rough)(float);
    void (*nothing)(int32_t);
} pointers;

static int64_t call_them(const pointers *all, numbers *values)
{
    *values = (numbers){all->whole(values->whole), all->small(values->small), all->exact(values->exact),
                        all->rough(values->rough)};
    all->nothing(1);
    return 1;
}

static void callbacks(uintptr_t on_fiber)
{
    static mrf_kind kinds[] = {MRF_INT32, MRF_INT8, MRF_DOUBLE, MRF_FLOAT, MRF_VOID};
    enum { COUNT = sizeof kinds / sizeof *kinds };
    mrf_callback *made[COUNT];
    pointers all;
    numbers values = {-100000, -3, 1.25, 0.75f};
    int result = 0;
    begin();
    for (int i = 0; i < COUNT; i++)
        made[i] = make_callback(&kinds[i], (void **)&all + i);
    if (on_fiber) {
        mrf_call *call = make_call(call_them, 2, MRF_INT64);
        *(const pointers **)mrf_call_argument(call, 0, MRF_POINTER) = &all;
        *(numbers **)mrf_call_argument(call, 1, MRF_POINTER) = &values;
        result = run_call(call);
        mrf_call_end(call);
    } else {
        call_them(&all, &values);
    }
    for (int i = 0; i < COUNT; i++)
        mrf_callback_destroy(made[i]);
    CHECK_EQ(result, 0);
    CHECK_EQ(values.whole, -200000);
    CHECK_EQ(values.small, -6);
    CHECK(values.exact == 2.5 && values.rough == 1.5f);
    CHECK_EQ(handled, COUNT);
}

/* The C code's wait is what an interruption ends, and not that for the callback. */
static int64_t call_and_sleep(int32_t (*function)(int32_t))
{
    return function(21) == 42 ? sleeps() : 0;
}

static void interrupted_in_a_callback(uintptr_t unused)
{
    static mrf_kind kind = MRF_INT32;
    void *pointer;
    (void)unused;
    begin();
    mrf_callback *callback = make_callback(&kind, &pointer);
    mrf_call *call = make_call(call_and_sleep, 1, MRF_INT64);
    *(void **)mrf_call_argument(call, 0, MRF_POINTER) = pointer;
    int result = mrf_call_start(call, 0);
    if (result == 0) {
        wait_until_woken(call);
        const mrf_frame *frame = mrf_call_frame(call);
        mrf_call_interrupt(call, ECANCELED);
        double_it(frame->handler, frame->arguments, frame->result);
        mrf_call_resume(call, 0);
        serve_call(call);
    }
    int64_t value = *(int64_t *)mrf_call_result(call);
    mrf_call_end(call);
    mrf_callback_destroy(callback);
    CHECK_EQ(result, 0);
    CHECK_EQ(value, ECANCELED);
}

/* ------------------------------------------------------------------------------------------------------------ wake-ups
 * --- */

static void one_waker_for_each(uintptr_t unused)
{
    (void)unused;
    CHECK(mrf_waker_is_missing(0));
    CHECK(!mrf_waker_is_missing(0));
    CHECK(mrf_waker_is_missing(1));
}

/* After the end no wake-up reaches the run-time system. */
static void closed(uintptr_t unused)
{
    (void)unused;
    begin();
    mrf_call *call = make_call(sum, 0, MRF_INT64);
    CHECK(mrf_wanted_take(0, &bell) == NULL);
    mrf_close();
    int result = mrf_call_start(call, 0);
    MUST(mr_carriers_stop()); /* when the fiber has ended */
    mrf_call_end(call);
    CHECK_EQ(result, 0);
    CHECK_NE(sem_trywait(&bell), 0);
}

/* -------------------------------------------------------------------------------------------------------- the program
 * --- */

int main(int argc, char **argv)
{
    static const harness_test tests[] = {
        {"call/integers", integers, 0},
        {"call/many-arguments", many_arguments, 0},
        {"call/unstarted", unstarted, 0},
        {"call/many-records", many_records, 0},
        {"call/interrupted", interrupted, 0},
        {"call/wrong-backend", wrong_backend, 0},
        {"callback/on-the-fiber", callbacks, 1},
        {"callback/elsewhere", callbacks, 0},
        {"callback/interrupted", interrupted_in_a_callback, 0},
        {"waking/one-waker", one_waker_for_each, 0},
        {"waking/closed", closed, 0},
    };
    enum { COUNT = sizeof tests / sizeof *tests };
    harness_announce_seed(argc, argv);
#ifdef MEMORY_WITH_FAULTS
    return fault_main(tests, COUNT, argc, argv);
#else
    return harness_main(tests, COUNT, argc, argv);
#endif
}
