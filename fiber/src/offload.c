/* offload.c: bounded pools of helper threads, and threads for one piece of work. */
#include "offload.h"
#include "carrier.h"
#include "futex.h"
#include "shadow/libc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

enum { DISK_HELPERS = 4, NAME_HELPERS = 16, HELPERS_MAX = NAME_HELPERS, STACK_BYTES = 256 * 1024 };

typedef struct job {
    struct job *next;
    mf_work work;
    void *argument;
    int error; /* errno after the work */
    mf_wait wait;
} job;

typedef struct pool {
    unsigned most; /* threads */
    mf_lock lock;
    job *first, *last;
    unsigned queued;
    pthread_t threads[HELPERS_MAX];
    unsigned count, idle;
    bool stopping;
    atomic_uint changes; /* what idle helpers sleep on */
} pool;

static pool disks = {.most = DISK_HELPERS}, names = {.most = NAME_HELPERS};

static void do_job(job *j)
{
    errno = 0;
    j->work(j->argument);
    j->error = errno;
    mf_wait_claim(&j->wait, 0);
    mf_wait_wake(&j->wait);
}

/* The oldest job, or NULL. With the lock held. */
static job *take(pool *p)
{
    job *j = p->first;
    if (j) {
        p->first = j->next;
        p->queued--;
    }
    return j;
}

static void *help(void *argument)
{
    pool *p = argument;
    mf_lock_take(&p->lock);
    for (;;) {
        job *j = take(p);
        if (!j && p->stopping)
            break;
        unsigned seen = atomic_load(&p->changes);
        p->idle += !j;
        mf_lock_give(&p->lock);
        if (j)
            do_job(j);
        else
            mf_futex_wait(&p->changes, seen, MR_NO_DEADLINE);
        mf_lock_take(&p->lock);
        p->idle -= !j;
    }
    mf_lock_give(&p->lock);
    return NULL;
}

static int start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    LIBC(pthread_sigmask)(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, &attributes, run, argument);
    LIBC(pthread_sigmask)(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* A helper counts as idle until it has woken: each job in the queue may have one already. With the lock held. */
static bool needs_helper(const pool *p)
{
    return p->queued >= p->idle && p->count < p->most;
}

/* False: there is no helper, nor can there be one. */
static bool enqueue(pool *p, job *j)
{
    mf_lock_take(&p->lock);
    if (needs_helper(p) && start_thread(&p->threads[p->count], help, p) == 0)
        p->count++;
    bool accepted = p->count > 0;
    if (accepted) {
        j->next = NULL;
        if (p->first)
            p->last->next = j;
        else
            p->first = j;
        p->last = j;
        p->queued++;
        atomic_fetch_add(&p->changes, 1);
        mf_futex_wake(&p->changes, 1);
    }
    mf_lock_give(&p->lock);
    return accepted;
}

static void wait_for_job(job *j)
{
    mf_wait_park(&j->wait, MR_NO_DEADLINE, MF_UNINTERRUPTIBLE);
    if (j->error)
        errno = j->error;
}

static void offload_to(pool *p, mf_work work, void *argument)
{
    job j = {.work = work, .argument = argument};
    mf_wait_init(&j.wait);
    if (mf_current && enqueue(p, &j))
        wait_for_job(&j);
    else
        work(argument);
}

void mf_offload(mf_work work, void *argument)
{
    offload_to(&disks, work, argument);
}

void mf_offload_name(mf_work work, void *argument)
{
    offload_to(&names, work, argument);
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
    if (mf_current && start_thread(&thread, do_one_job, &j) == 0)
        wait_for_job(&j);
    else
        mf_offload(work, argument);
}

static void stop(pool *p)
{
    mf_lock_take(&p->lock);
    p->stopping = true;
    atomic_fetch_add(&p->changes, 1);
    mf_futex_wake(&p->changes, HELPERS_MAX);
    mf_lock_give(&p->lock);
    for (unsigned i = 0; i < p->count; i++)
        pthread_join(p->threads[i], NULL);
    p->count = 0;
    p->stopping = false;
}

void mf_offload_stop(void)
{
    stop(&disks);
    stop(&names);
}

void mf_offload_forget_after_fork(void)
{
    disks = (pool){.most = DISK_HELPERS};
    names = (pool){.most = NAME_HELPERS};
}
