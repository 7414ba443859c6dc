/* syscall.c: futex(2), called by its system call number. */
#include "interpose_test.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { SLEEPERS = 5 };

/* A word, and how to sleep on it. */
typedef struct word {
    atomic_uint value;
    int flags;
    atomic_int awake;
} word;

static long futex(word *w, int command, unsigned value, const struct timespec *limit, unsigned last)
{
    return syscall(SYS_futex, &w->value, command | w->flags, value, limit, NULL, last);
}

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* -------------------------------------------------------------------------------------------------------- locks --- */

/* The lock of "Futexes are tricky": 0 free, 1 taken, 2 taken and waited for. */
static void lock(word *w)
{
    unsigned seen = 0;
    if (atomic_compare_exchange_strong(&w->value, &seen, 1))
        return;
    while (atomic_exchange(&w->value, 2) != 0)
        futex(w, FUTEX_WAIT, 2, NULL, 0);
}

static void unlock(word *w)
{
    if (atomic_exchange(&w->value, 0) == 2)
        CHECK_GE(futex(w, FUTEX_WAKE, 1, NULL, 0), 0);
}

static void *wait_with_the_lock(void *argument)
{
    lock(argument);
    CHECK_EQ(usleep(PAUSE_MS * 1000 / SLEEPERS), 0);
    unlock(argument);
    return NULL;
}

static void *share_a_lock(void *argument)
{
    mr_fiber *fibers[SLEEPERS];
    for (int i = 0; i < SLEEPERS; i++)
        fibers[i] = spawn(wait_with_the_lock, argument);
    for (int i = 0; i < SLEEPERS; i++)
        join(fibers[i]);
    return NULL;
}

/* As GLib's mutexes do, or fibers that reach a static variable of C++ while another initialises it. */
static void a_lock_on_a_word(void)
{
    word own = {.flags = FUTEX_PRIVATE_FLAG}, shared = {.flags = 0};
    must_leave_carrier_free(share_a_lock, &own);
    must_leave_carrier_free(share_a_lock, &shared);
}

/* ----------------------------------------------------------------------------------------------- who wakes whom --- */

static void *sleep_on_zero(void *argument)
{
    word *w = argument;
    long result;
    while ((result = futex(w, FUTEX_WAIT, 0, NULL, 0)) == 0 && atomic_load(&w->value) == 0)
        ;
    CHECK(result == 0 || errno == EAGAIN);
    atomic_fetch_add(&w->awake, 1);
    return NULL;
}

static void *tell_all(void *argument)
{
    word *w = argument;
    CHECK_EQ(usleep(PAUSE_MS * 1000), 0);
    atomic_store(&w->value, 1);
    CHECK_GE(futex(w, FUTEX_WAKE, INT_MAX, NULL, 0), 0);
    return NULL;
}

static void *be_told_by_a_thread(void *argument)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, tell_all, argument), 0);
    sleep_on_zero(argument);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return NULL;
}

static void a_thread_wakes_a_fiber(void)
{
    word w = {.flags = FUTEX_PRIVATE_FLAG};
    must_leave_carrier_free(be_told_by_a_thread, &w);
}

static void a_fiber_wakes_threads_and_fibers(void)
{
    word w = {.flags = FUTEX_PRIVATE_FLAG};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, sleep_on_zero, &w), 0);
    mr_fiber *fiber = spawn(sleep_on_zero, &w);
    on_fiber(tell_all, &w);
    join(fiber);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_load(&w.awake), 2);
}

/* It finds no fiber in its tables. */
static void another_process_wakes_a_fiber(void)
{
    word *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(w != MAP_FAILED);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        usleep(100000);
        atomic_store(&w->value, 1);
        futex(w, FUTEX_WAKE, INT_MAX, NULL, 0);
        _exit(0);
    }
    on_fiber(sleep_on_zero, w);
    MUST(waitpid(child, NULL, 0));
    MUST(munmap(w, sizeof *w));
}

typedef struct sleeper {
    word *word;
    unsigned bits;
} sleeper;

static void *sleep_for_bits(void *argument)
{
    sleeper *s = argument;
    CHECK_EQ(futex(s->word, FUTEX_WAIT_BITSET, 0, NULL, s->bits), 0);
    atomic_fetch_add(&s->word->awake, 1);
    return NULL;
}

static void *wake_by_bits(void *argument)
{
    word *w = argument;
    CHECK_EQ(futex(w, FUTEX_WAKE_BITSET, INT_MAX, NULL, 4), 0);
    CHECK_EQ(futex(w, FUTEX_WAKE_BITSET, INT_MAX, NULL, 6), 1);
    mr_fiber_yield();
    CHECK_EQ(atomic_load(&w->awake), 1);
    CHECK_EQ(futex(w, FUTEX_WAKE, 0, NULL, 0), 1); /* as the kernel does */
    CHECK_EQ(futex(w, FUTEX_WAKE, 7, NULL, 0), 0);
    return NULL;
}

static void those_are_woken_who_are_meant(void)
{
    word w = {.flags = FUTEX_PRIVATE_FLAG};
    sleeper one = {&w, 1}, other = {&w, 2};
    mr_fiber *first = spawn(sleep_for_bits, &one), *second = spawn(sleep_for_bits, &other);
    let_fibers_park();
    on_fiber(wake_by_bits, &w);
    join(first);
    join(second);
}

static void *move_sleepers(void *argument)
{
    word *w = argument;
    atomic_uint elsewhere = 0;
    atomic_store(&w->value, 1);
    CHECK_EQ(syscall(SYS_futex, &w->value, FUTEX_CMP_REQUEUE_PRIVATE, 0, INT_MAX, &elsewhere, 0), -1);
    CHECK_EQ(errno, EAGAIN);
    CHECK_GE(syscall(SYS_futex, &w->value, FUTEX_CMP_REQUEUE_PRIVATE, 0, INT_MAX, &elsewhere, 1), 0);
    return NULL;
}

static void who_is_moved_looks_again(void)
{
    word w = {.flags = FUTEX_PRIVATE_FLAG};
    mr_fiber *fiber = spawn(sleep_on_zero, &w);
    let_fibers_park();
    on_fiber(move_sleepers, &w);
    join(fiber);
}

/* ------------------------------------------------------------------------------------------------------ results --- */

static void must_fail(long result, int error)
{
    CHECK_EQ(errno, error);
    CHECK_EQ(result, -1);
}

static void *be_refused(void *argument)
{
    word *w = argument;
    struct timespec soon = {.tv_nsec = 20000000}, bad = {.tv_nsec = 1000000000}, passed = {.tv_sec = 1};
    struct timespec until = in_ms(CLOCK_MONOTONIC, 20), until_real = in_ms(CLOCK_REALTIME, 20);
    uint64_t begin_ns = mr_clock_now_ns();
    must_fail(futex(w, FUTEX_WAIT, 1, NULL, 0), EAGAIN);
    must_fail(futex(w, FUTEX_WAIT, 0, &bad, 0), EINVAL);
    must_fail(futex(w, FUTEX_WAIT_BITSET, 0, NULL, 0), EINVAL);
    must_fail(futex(w, FUTEX_WAIT_BITSET, 0, &passed, 1), ETIMEDOUT);
    must_fail(futex(w, FUTEX_WAIT_BITSET, 0, &until, 1), ETIMEDOUT);
    must_fail(futex(w, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &until_real, 1), ETIMEDOUT);
    must_fail(futex(w, FUTEX_WAIT, 0, &soon, 0), ETIMEDOUT);
    must_fail(syscall(SYS_futex, (char *)&w->value + 1, FUTEX_WAIT | w->flags, 0, NULL, NULL, 0), EINVAL);
    must_fail(syscall(SYS_futex, (void *)16, FUTEX_WAIT | w->flags, 0, NULL, NULL, 0), EFAULT);
    CHECK_GE(mr_clock_now_ns() - begin_ns, 40 * NS_PER_MS);
    CHECK_EQ(syscall(SYS_getpid), getpid());
    return NULL;
}

static void errors_are_the_kernels(void)
{
    word own = {.flags = FUTEX_PRIVATE_FLAG};
    be_refused(&own);
    on_fiber(be_refused, &own);
}

/* It was given no limit. */
static void *be_interrupted(void *argument)
{
    must_fail(futex(argument, FUTEX_WAIT, 0, NULL, 0), EINTR);
    return NULL;
}

static void an_interruption_is_no_timeout(void)
{
    word w = {.flags = FUTEX_PRIVATE_FLAG};
    mr_fiber *fiber = spawn(be_interrupted, &w);
    let_fibers_park();
    mr_fiber_interrupt(fiber, ETIMEDOUT);
    join(fiber);
}

const fiber_case syscall_cases[] = {
    CASE(a_lock_on_a_word),
    CASE(a_thread_wakes_a_fiber),
    CASE(a_fiber_wakes_threads_and_fibers),
    CASE(another_process_wakes_a_fiber),
    CASE(those_are_woken_who_are_meant),
    CASE(who_is_moved_looks_again),
    CASE(errors_are_the_kernels),
    CASE(an_interruption_is_no_timeout),
    {0},
};
