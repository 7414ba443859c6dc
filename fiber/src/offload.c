/* offload.c: a bounded pool of helper threads, and threads for one piece of work. */
#include "offload.h"
#include "carrier.h"
#include "futex.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum { HELPERS_MAX = 4, STACK_BYTES = 256 * 1024 };

typedef struct job {
    struct job *next;
    mf_work work;
    void *argument;
    int error; /* errno after the work */
    mf_wait wait;
} job;

static struct {
    mf_lock lock;
    job *first, *last;
    pthread_t threads[HELPERS_MAX];
    unsigned count, idle;
    bool stopping;
    atomic_uint changes; /* what idle helpers sleep on */
} pool;

static void do_job(job *j)
{
    errno = 0;
    j->work(j->argument);
    j->error = errno;
    mf_wait_claim(&j->wait, 0);
    mf_wait_wake(&j->wait);
}

/* The oldest job, or NULL. With the lock held. */
static job *take(void)
{
    job *j = pool.first;
    if (j)
        pool.first = j->next;
    return j;
}

static void *help(void *argument)
{
    mf_lock_take(&pool.lock);
    for (;;) {
        job *j = take();
        if (!j && pool.stopping)
            break;
        unsigned seen = atomic_load(&pool.changes);
        pool.idle += !j;
        mf_lock_give(&pool.lock);
        if (j)
            do_job(j);
        else
            mf_futex_wait(&pool.changes, seen, MR_NO_DEADLINE);
        mf_lock_take(&pool.lock);
        pool.idle -= !j;
    }
    mf_lock_give(&pool.lock);
    return argument;
}

static int start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* False: there is no helper, nor can there be one. */
static bool enqueue(job *j)
{
    mf_lock_take(&pool.lock);
    if (pool.idle == 0 && pool.count < HELPERS_MAX && start_thread(&pool.threads[pool.count], help, NULL) == 0)
        pool.count++;
    bool accepted = pool.count > 0;
    if (accepted) {
        j->next = NULL;
        if (pool.first)
            pool.last->next = j;
        else
            pool.first = j;
        pool.last = j;
        atomic_fetch_add(&pool.changes, 1);
        mf_futex_wake(&pool.changes, 1);
    }
    mf_lock_give(&pool.lock);
    return accepted;
}

void mf_offload(mf_work work, void *argument)
{
    job j = {.work = work, .argument = argument};
    mf_wait_init(&j.wait);
    if (!mf_current || !enqueue(&j)) {
        work(argument);
        return;
    }
    mf_wait_park(&j.wait, MR_NO_DEADLINE, MF_UNINTERRUPTIBLE);
    errno = j.error;
}

static void *do_one_job(void *argument)
{
    pthread_detach(pthread_self());
    do_job(argument);
    return NULL;
}

void mf_offload_alone(mf_work work, void *argument)
{
    pthread_t thread;
    job j = {.work = work, .argument = argument};
    mf_wait_init(&j.wait);
    if (!mf_current || start_thread(&thread, do_one_job, &j) != 0) {
        mf_offload(work, argument);
        return;
    }
    mf_wait_park(&j.wait, MR_NO_DEADLINE, MF_UNINTERRUPTIBLE);
    errno = j.error;
}

void mf_offload_stop(void)
{
    mf_lock_take(&pool.lock);
    pool.stopping = true;
    atomic_fetch_add(&pool.changes, 1);
    mf_futex_wake(&pool.changes, HELPERS_MAX);
    mf_lock_give(&pool.lock);
    for (unsigned i = 0; i < pool.count; i++)
        pthread_join(pool.threads[i], NULL);
    pool.count = 0;
    pool.stopping = false;
}

void mf_offload_forget_after_fork(void)
{
    pool.first = pool.last = NULL;
    pool.count = pool.idle = 0;
    pool.stopping = false;
    atomic_store(&pool.lock.state, 0);
}
