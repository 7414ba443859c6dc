/* pthread.c: pthread's locks among fibers of one carrier and OS threads. */
#include "interpose_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

typedef struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    unsigned counter;
    unsigned rounds;
    bool inside;
} shared;

static void init(shared *s, int type)
{
    pthread_mutexattr_t attributes;
    memset(s, 0, sizeof *s);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    CHECK_EQ(pthread_mutex_init(&s->mutex, &attributes), 0);
    CHECK_EQ(pthread_cond_init(&s->condition, NULL), 0);
    s->rounds = harness_rounds(600);
}

static void *count_with_pauses(void *argument)
{
    shared *s = argument;
    for (unsigned i = 0; i < s->rounds; i++) {
        CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
        CHECK(!s->inside);
        s->inside = true;
        s->counter++;
        if (i % 8 == 0)
            mr_fiber_yield();
        if (i % 100 == 0)
            usleep(100);
        s->inside = false;
        CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    }
    return NULL;
}

/* Fibers park while they hold it; libc's own lock would deadlock their carrier. */
static void exclusion(int type)
{
    shared s;
    mr_fiber *fibers[5];
    pthread_t thread;
    init(&s, type);
    for (int i = 0; i < 5; i++)
        fibers[i] = spawn(count_with_pauses, &s);
    CHECK_EQ(pthread_create(&thread, NULL, count_with_pauses, &s), 0);
    for (int i = 0; i < 5; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(s.counter, 6 * s.rounds);
}

static void a_normal_mutex(void)
{
    exclusion(PTHREAD_MUTEX_NORMAL);
}

/* libc knows the owner by its thread: without help every fiber of the carrier would be the owner. */
static void a_recursive_mutex(void)
{
    exclusion(PTHREAD_MUTEX_RECURSIVE);
}

static void an_error_checking_mutex(void)
{
    exclusion(PTHREAD_MUTEX_ERRORCHECK);
}

static mr_event *may_unlock;

static void *lock_twice(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_mutex_trylock(&s->mutex), 0);
    CHECK_EQ(mr_event_wait(may_unlock, MR_NO_DEADLINE), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void *be_refused(void *argument)
{
    shared *s = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    CHECK_EQ(pthread_mutex_trylock(&s->mutex), EBUSY);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), EPERM);
    CHECK_EQ(pthread_mutex_timedlock(&s->mutex, &until), ETIMEDOUT);
    return NULL;
}

static void recursion_is_the_fibers(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_RECURSIVE);
    CHECK_EQ(mr_event_create(&may_unlock), 0);
    mr_fiber *owner = spawn(lock_twice, &s);
    on_fiber(be_refused, &s); /* on the same carrier, so after it */
    mr_event_set(may_unlock);
    join(owner);
    on_fiber(lock_twice, &s);
    mr_event_destroy(may_unlock);
}

static const struct timespec no_time = {.tv_nsec = -1};

static void *lock_without_a_time(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_timedlock(&s->mutex, &no_time), 0);
    CHECK_EQ(mr_event_wait(may_unlock, MR_NO_DEADLINE), 0);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void *be_refused_without_a_time(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_trylock(&s->mutex), EBUSY);
    CHECK_EQ(pthread_mutex_timedlock(&s->mutex, &no_time), EINVAL);
    return NULL;
}

/* The time of a lock that is free is not looked at. */
static void a_recursive_mutex_and_no_time(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_RECURSIVE);
    CHECK_EQ(mr_event_create(&may_unlock), 0);
    mr_fiber *owner = spawn(lock_without_a_time, &s);
    on_fiber(be_refused_without_a_time, &s); /* on the same carrier, so after it */
    mr_event_set(may_unlock);
    join(owner);
    mr_event_destroy(may_unlock);
}

static void *lock_own_errorcheck(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&s->mutex), EDEADLK);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
#ifndef __SANITIZE_THREAD__ /* which reports it */
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), EPERM);
#endif
    return NULL;
}

static void errors_of_an_error_checking_mutex(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_ERRORCHECK);
    on_fiber(lock_own_errorcheck, &s);
}

static void *wait_until_1(void *argument)
{
    shared *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    while (s->counter == 0)
        CHECK_EQ(pthread_cond_wait(&s->condition, &s->mutex), 0);
    s->counter--;
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void post(shared *s, bool to_all, unsigned count)
{
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    s->counter += count;
    CHECK_EQ(to_all ? pthread_cond_broadcast(&s->condition) : pthread_cond_signal(&s->condition), 0);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
}

/* Fibers and threads wait for one condition; signals and a broadcast reach as many as they must. */
static void conditions(void)
{
    shared s;
    mr_fiber *fibers[6];
    pthread_t threads[2];
    init(&s, PTHREAD_MUTEX_NORMAL);
    for (int i = 0; i < 6; i++)
        fibers[i] = spawn(wait_until_1, &s);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, wait_until_1, &s), 0);
    let_fibers_park();
    for (int i = 0; i < 3; i++)
        post(&s, false, 1);
    post(&s, true, 5);
    for (int i = 0; i < 6; i++)
        join(fibers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(s.counter, 0);
}

static void *wait_in_vain(void *argument)
{
    shared *s = argument;
    struct timespec until;
    uint64_t begin_ns = mr_clock_now_ns();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += until.tv_nsec >= 1000000000 - PAUSE_MS * 1000000;
    until.tv_nsec = (until.tv_nsec + PAUSE_MS * 1000000) % 1000000000;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    CHECK_EQ(pthread_cond_timedwait(&s->condition, &s->mutex, &until), ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns() - begin_ns, (PAUSE_MS - 1) * NS_PER_MS);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void a_condition_with_a_deadline(void)
{
    shared s;
    init(&s, PTHREAD_MUTEX_NORMAL);
    must_leave_carrier_free(wait_in_vain, &s);
}

/* --------------------------------------------------------------------------------------------------- the others --- */

typedef struct readers {
    pthread_rwlock_t lock;
    unsigned value, rounds;
    atomic_int inside;
} readers;

/* "Never" is a time, too. */
static void *wait_until_the_end_of_time(void *argument)
{
    const struct timespec never = {.tv_sec = INT64_MAX, .tv_nsec = 999999999};
    CHECK_EQ(sem_timedwait(argument, &never), 0);
    return NULL;
}

static void deadlines_beyond_all_clocks(void)
{
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    mr_fiber *fiber = spawn(wait_until_the_end_of_time, &semaphore);
    let_fibers_park();
    sem_post(&semaphore);
    join(fiber);
    sem_destroy(&semaphore);
}

static void *read_and_write(void *argument)
{
    readers *r = argument;
    for (unsigned i = 0; i < r->rounds; i++) {
        bool writes = i % 4 == 0;
        CHECK_EQ(writes ? pthread_rwlock_wrlock(&r->lock) : pthread_rwlock_rdlock(&r->lock), 0);
        int others = atomic_fetch_add(&r->inside, 1);
        if (writes)
            CHECK_EQ(others, 0);
        mr_fiber_yield();
        if (writes) /* a reader that adds nothing writes all the same */
            r->value++;
        atomic_fetch_sub(&r->inside, 1);
        CHECK_EQ(pthread_rwlock_unlock(&r->lock), 0);
    }
    return NULL;
}

static void readers_and_writers(void)
{
    readers r = {.lock = PTHREAD_RWLOCK_INITIALIZER, .rounds = harness_rounds(400) & ~3u};
    mr_fiber *fibers[5];
    pthread_t thread;
    r.rounds = r.rounds ? r.rounds : 4;
    for (int i = 0; i < 5; i++)
        fibers[i] = spawn(read_and_write, &r);
    CHECK_EQ(pthread_create(&thread, NULL, read_and_write, &r), 0);
    for (int i = 0; i < 5; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(r.value, 6 * r.rounds / 4);
}

static void *lock_again_as_writer(void *argument)
{
    pthread_rwlock_t *lock = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(i ? pthread_rwlock_trywrlock(lock) : pthread_rwlock_wrlock(lock), 0);
        CHECK_EQ(pthread_rwlock_rdlock(lock), EDEADLK);
        CHECK_EQ(pthread_rwlock_wrlock(lock), EDEADLK);
        CHECK_EQ(pthread_rwlock_timedrdlock(lock, &until), EDEADLK);
        CHECK_EQ(pthread_rwlock_timedwrlock(lock, &until), EDEADLK);
        CHECK_EQ(pthread_rwlock_trywrlock(lock), EBUSY);
        CHECK_EQ(pthread_rwlock_unlock(lock), 0);
    }
    return NULL;
}

static void a_writer_that_asks_again(void)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    on_fiber(lock_again_as_writer, &lock);
    on_fiber(lock_again_as_writer, &lock);
}

static mr_event *may_let_go;

static void *hold_as_writer(void *argument)
{
    CHECK_EQ(pthread_rwlock_wrlock(argument), 0);
    CHECK_EQ(mr_event_wait(may_let_go, MR_NO_DEADLINE), 0);
    CHECK_EQ(pthread_rwlock_unlock(argument), 0);
    return NULL;
}

/* Before the clock began: a time like any other that has passed. libc would take the fiber for the owner. */
static void *be_too_late(void *argument)
{
    const struct timespec before_all_clocks = {.tv_sec = -3};
    CHECK_EQ(pthread_rwlock_timedwrlock(argument, &before_all_clocks), ETIMEDOUT);
    CHECK_EQ(pthread_rwlock_timedrdlock(argument, &before_all_clocks), ETIMEDOUT);
    return NULL;
}

static void a_deadline_before_all_clocks(void)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    CHECK_EQ(mr_event_create(&may_let_go), 0);
    mr_fiber *writer = spawn(hold_as_writer, &lock);
    let_fibers_park();
    on_fiber(be_too_late, &lock);
    mr_event_set(may_let_go);
    join(writer);
    mr_event_destroy(may_let_go);
}

/* ------------------------------------------------------------------------------------------- with other processes --- */

static shared *new_shared_between_processes(void)
{
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_condition;
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    pthread_mutexattr_init(&of_mutex);
    pthread_condattr_init(&of_condition);
    CHECK_EQ(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED), 0);
    CHECK_EQ(pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED), 0);
    CHECK_EQ(pthread_mutex_init(&s->mutex, &of_mutex), 0);
    CHECK_EQ(pthread_cond_init(&s->condition, &of_condition), 0);
    return s;
}

static void answer_in_another_process(shared *s)
{
    usleep(20000);
    pthread_mutex_lock(&s->mutex);
    s->counter = 1;
    pthread_cond_signal(&s->condition);
    while (s->counter != 2)
        pthread_cond_wait(&s->condition, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static bool has_passed(const struct timespec *moment)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > moment->tv_sec || (now.tv_sec == moment->tv_sec && now.tv_nsec >= moment->tv_nsec);
}

static void *ask_another_process(void *argument)
{
    shared *s = argument;
    struct timespec soon;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    while (s->counter != 1)
        CHECK_EQ(pthread_cond_wait(&s->condition, &s->mutex), 0);
    s->counter = 2;
    CHECK_EQ(pthread_cond_signal(&s->condition), 0);
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    while (error == 0)
        error = pthread_cond_timedwait(&s->condition, &s->mutex, &soon);
    CHECK_EQ(error, ETIMEDOUT);
    CHECK(has_passed(&soon));
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void a_condition_between_processes(void)
{
    int status;
    shared *s = new_shared_between_processes();
    pid_t child = MUST(fork());
    if (child == 0) {
        answer_in_another_process(s);
        _exit(0);
    }
    on_fiber(ask_another_process, s);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(munmap(s, sizeof *s), 0);
}

/* ------------------------------------------------------------------------------------------------------- barriers --- */

enum { PARTIES = 4, BARRIER_ROUNDS = 3 };

typedef struct meeting {
    pthread_barrier_t barrier;
    atomic_uint arrived, serial;
} meeting;

static void *meet(void *argument)
{
    meeting *m = argument;
    for (unsigned i = 1; i <= BARRIER_ROUNDS; i++) {
        atomic_fetch_add(&m->arrived, 1);
        int result = pthread_barrier_wait(&m->barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK_GE(atomic_load(&m->arrived), PARTIES * i);
        atomic_fetch_add(&m->serial, result == PTHREAD_BARRIER_SERIAL_THREAD);
    }
    return NULL;
}

static void a_barrier_among_fibers_and_threads(void)
{
    meeting m = {.arrived = 0};
    mr_fiber *fibers[PARTIES - 1];
    pthread_t thread;
    CHECK_EQ(pthread_barrier_init(&m.barrier, NULL, PARTIES), 0);
    for (int i = 0; i < PARTIES - 1; i++)
        fibers[i] = spawn(meet, &m);
    CHECK_EQ(pthread_create(&thread, NULL, meet, &m), 0);
    for (int i = 0; i < PARTIES - 1; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(atomic_load(&m.serial), BARRIER_ROUNDS);
    CHECK_EQ(pthread_barrier_destroy(&m.barrier), 0);
}

/* ------------------------------------------------------------------------------------- where writers come first --- */

typedef struct library {
    pthread_rwlock_t lock;
    atomic_bool is_over;
} library;

static library new_library(void)
{
    return (library){.lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};
}

static void *read_again_and_again(void *argument)
{
    library *l = argument;
    while (!atomic_load(&l->is_over)) {
        CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
        usleep(5000);
        CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    }
    return NULL;
}

static void *write_once(void *argument)
{
    library *l = argument;
    CHECK_EQ(pthread_rwlock_wrlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    atomic_store(&l->is_over, true);
    return NULL;
}

/* There is always one that reads. */
static void readers_let_writers_go_first(void)
{
    enum { READERS = 3 };
    mr_fiber *all[READERS];
    library l = new_library();
    for (int i = 0; i < READERS; i++) {
        all[i] = spawn(read_again_and_again, &l);
        usleep(2000);
    }
    on_fiber(write_once, &l);
    for (int i = 0; i < READERS; i++)
        join(all[i]);
}

static void *write_soon_or_never(void *argument)
{
    struct timespec until;
    library *l = argument;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    CHECK_EQ(pthread_rwlock_tryrdlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_timedwrlock(&l->lock, &until), ETIMEDOUT);
    CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    return NULL;
}

static void *read_for_long(void *argument)
{
    library *l = argument;
    CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
    while (!atomic_load(&l->is_over))
        usleep(5000);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    return NULL;
}

static void *read_after_a_writer(void *argument)
{
    library *l = argument;
    CHECK_EQ(pthread_rwlock_tryrdlock(&l->lock), EBUSY);
    CHECK_EQ(pthread_rwlock_rdlock(&l->lock), 0);
    CHECK_EQ(pthread_rwlock_unlock(&l->lock), 0);
    return NULL;
}

static void a_writer_that_gives_up_lets_readers_go_on(void)
{
    library l = new_library();
    mr_fiber *first = spawn(read_for_long, &l);
    let_fibers_park();
    mr_fiber *writer = spawn(write_soon_or_never, &l);
    let_fibers_park();
    on_fiber(read_after_a_writer, &l);
    join(writer);
    atomic_store(&l.is_over, true);
    join(first);
}

/* ------------------------------------------------------------------------------------------ waiting by trying --- */

typedef struct spinning {
    pthread_mutex_t mutex;
    atomic_int is_set;
} spinning;

static void *spin(void *argument)
{
    spinning *s = argument;
    while (!atomic_load(&s->is_set))
        sched_yield();
    while (atomic_load(&s->is_set) == 1)
        thrd_yield();
    while (pthread_mutex_trylock(&s->mutex) != 0)
        ;
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

static void *end_spinning(void *argument)
{
    spinning *s = argument;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    for (int i = 0; i < 2; i++) {
        usleep(5000);
        atomic_fetch_add(&s->is_set, 1);
    }
    usleep(5000);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    return NULL;
}

/* Not for what other carriers do alone. */
static void loops_that_let_others_go_first(void)
{
    spinning s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    mr_fiber *other = spawn(end_spinning, &s), *fiber = spawn(spin, &s);
    join(fiber);
    join(other);
}

typedef struct spun {
    pthread_spinlock_t lock;
    unsigned counter, rounds;
} spun;

static void *count_under_spin_lock(void *argument)
{
    spun *s = argument;
    for (unsigned i = 0; i < s->rounds; i++) {
        CHECK_EQ(pthread_spin_lock(&s->lock), 0);
        unsigned before = s->counter;
        if (i % 8 == 0)
            mr_fiber_yield();
        s->counter = before + 1;
        CHECK_EQ(pthread_spin_unlock(&s->lock), 0);
    }
    return NULL;
}

/* Held over a park, which nobody should do, it keeps others waiting and not their carrier. */
static void spin_locks(void)
{
    spun s = {.rounds = harness_rounds(400)};
    mr_fiber *fibers[4];
    pthread_t thread;
    CHECK_EQ(pthread_spin_init(&s.lock, PTHREAD_PROCESS_PRIVATE), 0);
    for (int i = 0; i < 4; i++)
        fibers[i] = spawn(count_under_spin_lock, &s);
    CHECK_EQ(pthread_create(&thread, NULL, count_under_spin_lock, &s), 0);
    for (int i = 0; i < 4; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(s.counter, 5 * s.rounds);
    CHECK_EQ(pthread_spin_destroy(&s.lock), 0);
}

static void *wait_semaphore(void *argument)
{
    CHECK_EQ(sem_wait(argument), 0);
    return NULL;
}

static void *post_semaphore(void *argument)
{
    CHECK_EQ(sem_post(argument), 0);
    return NULL;
}

static void semaphores(void)
{
    sem_t semaphore;
    mr_fiber *fibers[10];
    pthread_t thread;
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    for (int i = 0; i < 10; i++)
        fibers[i] = spawn(wait_semaphore, &semaphore);
    let_fibers_park();
    for (int i = 0; i < 5; i++)
        CHECK_EQ(sem_post(&semaphore), 0);
    CHECK_EQ(pthread_create(&thread, NULL, post_semaphore, &semaphore), 0);
    for (int i = 0; i < 4; i++)
        on_fiber(post_semaphore, &semaphore);
    for (int i = 0; i < 10; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    sem_destroy(&semaphore);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int initialized;

static void initialize_slowly(void)
{
    usleep(20000);
    atomic_fetch_add(&initialized, 1);
}

static void *initialize(void *argument)
{
    CHECK_EQ(pthread_once(&once, initialize_slowly), 0);
    CHECK_EQ(atomic_load(&initialized), 1);
    return argument;
}

/* The initializer parks; the second fiber would block the carrier that the first needs to go on. */
static void once_with_an_initializer_that_parks(void)
{
    mr_fiber *fibers[5];
    for (int i = 0; i < 5; i++)
        fibers[i] = spawn(initialize, NULL);
    for (int i = 0; i < 5; i++)
        join(fibers[i]);
}

static void *join_own_thread(void *argument)
{
    CHECK_EQ(pthread_join(pthread_self(), NULL), EDEADLK);
    return argument;
}

static void joining_the_carrier(void)
{
    on_fiber(join_own_thread, NULL);
}

static void *sleep_on_thread(void *argument)
{
    usleep(PAUSE_MS * 1000);
    return argument;
}

static void *join_a_thread(void *argument)
{
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, sleep_on_thread, argument), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == argument);
    return NULL;
}

static void joining_a_thread(void)
{
    must_leave_carrier_free(join_a_thread, &once);
}

typedef struct legacy {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
} legacy;

static void *signal_and_die(void *argument)
{
    legacy *l = argument;
    CHECK_EQ(pthread_mutex_lock(&l->mutex), 0);
    CHECK_EQ(pthread_cond_signal(&l->condition), 0);
    return NULL;
}

static void *inherit(void *argument)
{
    legacy *l = argument;
    CHECK_EQ(pthread_mutex_lock(&l->mutex), 0);
    CHECK_EQ(pthread_cond_wait(&l->condition, &l->mutex), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_consistent(&l->mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&l->mutex), 0);
    return NULL;
}

static void a_mutex_whose_owner_died_during_the_wait(void)
{
    if (!has_robust_mutexes())
        SKIP("this kernel does not tell of a mutex whose owner died");
    legacy l = {.condition = PTHREAD_COND_INITIALIZER};
    pthread_mutexattr_t robust;
    pthread_t thread;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&l.mutex, &robust);
    mr_fiber *heir = spawn(inherit, &l);
    let_fibers_park();
    CHECK_EQ(pthread_create(&thread, NULL, signal_and_die, &l), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    join(heir);
    pthread_mutex_destroy(&l.mutex);
}

static void *lock_and_die(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(argument), 0);
    return NULL;
}

static void *inherit_and_hold(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(argument), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_consistent(argument), 0);
    CHECK_EQ(mr_event_wait(may_unlock, MR_NO_DEADLINE), 0);
    CHECK_EQ(pthread_mutex_unlock(argument), 0);
    return NULL;
}

static void *be_refused_by_the_heir(void *argument)
{
    CHECK_EQ(pthread_mutex_trylock(argument), EBUSY);
    CHECK_EQ(pthread_mutex_unlock(argument), EPERM);
    return NULL;
}

/* What was inherited is owned: by the fiber, not by its carrier. */
static void a_recursive_mutex_whose_owner_died(void)
{
    if (!has_robust_mutexes())
        SKIP("this kernel does not tell of a mutex whose owner died");
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_t thread;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
    CHECK_EQ(mr_event_create(&may_unlock), 0);
    CHECK_EQ(pthread_create(&thread, NULL, lock_and_die, &mutex), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    mr_fiber *heir = spawn(inherit_and_hold, &mutex);
    on_fiber(be_refused_by_the_heir, &mutex); /* on the same carrier, so after it */
    mr_event_set(may_unlock);
    join(heir);
    CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    mr_event_destroy(may_unlock);
    pthread_mutex_destroy(&mutex);
}

static void *lose(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(argument), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_unlock(argument), 0);
    return NULL;
}

static void *ask_for_what_is_lost(void *argument)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_mutex_lock(argument), ENOTRECOVERABLE);
        CHECK_EQ(pthread_mutex_trylock(argument), ENOTRECOVERABLE);
    }
    return NULL;
}

/* The heir has not said that what it protects is consistent. */
static void a_mutex_that_cannot_be_recovered(void)
{
    if (!has_robust_mutexes())
        SKIP("this kernel does not tell of a mutex whose owner died");
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_t thread;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
    CHECK_EQ(pthread_create(&thread, NULL, lock_and_die, &mutex), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    on_fiber(lose, &mutex);
    on_fiber(ask_for_what_is_lost, &mutex);
    CHECK_EQ(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
    pthread_mutex_destroy(&mutex);
}

static sem_t alarms;
static volatile sig_atomic_t handled;

static void post_from_handler(int signal_number)
{
    (void)signal_number;
    handled++;
    sem_post(&alarms);
}

static void *take_alarms(void *argument)
{
    for (int i = 0; i < *(int *)argument; i++)
        CHECK_EQ(sem_wait(&alarms), 0);
    return NULL;
}

/* A thread that wakes fibers is interrupted by a handler that wakes fibers. */
static void posting_from_a_signal_handler(void)
{
    int posts = (int)harness_rounds(100000);
    CHECK_EQ(sem_init(&alarms, 0, 0), 0);
    mr_fiber *fiber = spawn(take_alarms, &posts);
    CHECK(signal(SIGALRM, post_from_handler) != SIG_ERR);
    MUST(setitimer(ITIMER_REAL, &(struct itimerval){{0, 50}, {0, 50}}, NULL));
    for (int i = 0; i < posts; i++)
        MUST(sem_post(&alarms));
    MUST(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL));
    join(fiber);
    CHECK_GT(handled, 0);
}

const fiber_case pthread_cases[] = {
    CASE(readers_let_writers_go_first),
    CASE(a_writer_that_gives_up_lets_readers_go_on),
    CASE(a_normal_mutex),
    CASE(a_recursive_mutex),
    CASE(an_error_checking_mutex),
    CASE(recursion_is_the_fibers),
    CASE(a_recursive_mutex_and_no_time),
    CASE(errors_of_an_error_checking_mutex),
    CASE(conditions),
    CASE(a_condition_with_a_deadline),
    CASE(deadlines_beyond_all_clocks),
    CASE(readers_and_writers),
    CASE(a_writer_that_asks_again),
    CASE(a_deadline_before_all_clocks),
    CASE(a_condition_between_processes),
    CASE(a_barrier_among_fibers_and_threads),
    CASE(loops_that_let_others_go_first),
    CASE(spin_locks),
    CASE(semaphores),
    CASE(once_with_an_initializer_that_parks),
    CASE(joining_the_carrier),
    CASE(joining_a_thread),
    CASE(a_mutex_whose_owner_died_during_the_wait),
    CASE(a_recursive_mutex_whose_owner_died),
    CASE(a_mutex_that_cannot_be_recovered),
    CASE(posting_from_a_signal_handler),
    {0},
};
