/* pool.c: see pool.h. */
#include "pool.h"

#include "capability.h"
#include "millrace_check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FILE_HELPERS = 64, /* more reads at a time do not make a disk faster */
    NAME_HELPERS = 32,
    STACK_BYTES = 512 * 1024, /* modules of the name service may need that much */
    IDLE_SECONDS = 5
};

typedef struct queue {
    mrh_job *first, *last;
    unsigned queued, running, helpers, idle, limit;
    int64_t done;
    pthread_cond_t has_jobs;
} queue;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static queue queues[MRH_QUEUES];
static unsigned borrowing; /* running jobs that use their submitter's memory */
static pthread_cond_t has_returned;
static bool stopping;

static void reset(void)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
#ifndef __APPLE__
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
#endif
    memset(queues, 0, sizeof queues);
    queues[MRH_FILES].limit = FILE_HELPERS;
    queues[MRH_NAMES].limit = NAME_HELPERS;
    for (int i = 0; i < MRH_QUEUES; i++)
        pthread_cond_init(&queues[i].has_jobs, &monotonic);
    pthread_cond_init(&has_returned, &monotonic);
    pthread_condattr_destroy(&monotonic);
    borrowing = 0;
    stopping = false;
}

/* The child of a fork has no helpers and none of its parent's jobs. */
static void reset_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    reset();
}

static void prepare(void)
{
    reset();
    pthread_atfork(NULL, NULL, reset_in_child);
}

static void append_job(queue *q, mrh_job *job)
{
    job->next = NULL;
    job->previous = q->last;
    if (q->last)
        q->last->next = job;
    else
        q->first = job;
    q->last = job;
    q->queued++;
}

static void remove_job(queue *q, mrh_job *job)
{
    MR_CHECK(q->queued > 0);
    if (job->previous)
        job->previous->next = job->next;
    else
        q->first = job->next;
    if (job->next)
        job->next->previous = job->previous;
    else
        q->last = job->previous;
    q->queued--;
}

/* The lock is held, except during the work and while this fires the timer. The submitter may free the job once it is
 * done and the lock is free. */
static void do_next(queue *q)
{
    mrh_job *job = q->first;
    bool borrows = job->memory != NULL;
    remove_job(q, job);
    job->state = MRH_JOB_RUNNING;
    q->running++;
    borrowing += borrows;
    pthread_mutex_unlock(&lock);
    int64_t result = job->work(job);
    pthread_mutex_lock(&lock);
    job->result = result;
    job->state = MRH_JOB_DONE;
    mr_token waiter = job->waiter;
    q->running--;
    q->done++;
    borrowing -= borrows;
    if (borrows && stopping)
        pthread_cond_broadcast(&has_returned);
    pthread_mutex_unlock(&lock);
    if (waiter)
        mrh_fire_timer(waiter);
    pthread_mutex_lock(&lock);
}

static struct timespec moment_after(int seconds)
{
    struct timespec moment;
#ifdef __APPLE__
    clock_gettime(CLOCK_REALTIME, &moment);
#else
    clock_gettime(CLOCK_MONOTONIC, &moment);
#endif
    moment.tv_sec += seconds;
    return moment;
}

/* Waits for a job. Returns false after IDLE_SECONDS without one. The lock is held. */
static bool await_job(queue *q)
{
    struct timespec end = moment_after(IDLE_SECONDS);
    int error = 0;
    q->idle++;
    while (!q->first && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&q->has_jobs, &lock, &end);
    q->idle--;
    return q->first != NULL;
}

static void *help(void *argument)
{
    queue *q = argument;
    pthread_mutex_lock(&lock);
    while (q->first || await_job(q))
        do_next(q);
    q->helpers--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Helpers block all signals, so that the program's threads handle them. */
static int start_helper(queue *q)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, help, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!error)
        q->helpers++;
    return -error;
}

mrh_job *mrh_job_create(mrh_work *work, int queue, const char *first, const char *second)
{
    mrh_job *job = calloc(1, sizeof *job);
    const char *texts[MRH_JOB_TEXTS] = {first, second};
    if (!job)
        return NULL;
    job->work = work;
    job->queue = (mrh_queue)queue;
    for (int i = 0; i < MRH_JOB_TEXTS; i++) {
        if (texts[i] && !(job->texts[i] = strdup(texts[i]))) {
            mrh_job_free(job);
            return NULL;
        }
    }
    return job;
}

void mrh_job_set(mrh_job *job, int index, int64_t number)
{
    MR_CHECK(index >= 0 && index < MRH_JOB_NUMBERS);
    job->numbers[index] = number;
}

void mrh_job_set_memory(mrh_job *job, void *memory)
{
    job->memory = memory;
}

int64_t mrh_job_set_output(mrh_job *job, const void *bytes, size_t count)
{
    job->output = malloc(count ? count : 1);
    if (!job->output)
        return -ENOMEM;
    memcpy(job->output, bytes, count);
    job->output_bytes = count;
    return 0;
}

/* Compares the numbers of idle helpers and queued jobs, because each queued job may already have woken an idle
 * helper. */
int mrh_job_submit(mrh_job *job, mr_token waiter)
{
    queue *q = &queues[job->queue];
    int error = 0;
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    job->waiter = waiter;
    job->state = MRH_JOB_QUEUED;
    append_job(q, job);
    if (stopping)
        error = -ECANCELED;
    else if (q->queued > q->idle && q->helpers < q->limit)
        error = start_helper(q);
    if (error && (stopping || q->helpers == 0)) {
        remove_job(q, job);
        job->state = MRH_JOB_NEW;
    } else {
        error = 0;
        pthread_cond_signal(&q->has_jobs);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

int mrh_job_is_done(mrh_job *job)
{
    pthread_mutex_lock(&lock);
    int is_done = job->state == MRH_JOB_DONE;
    pthread_mutex_unlock(&lock);
    return is_done;
}

int mrh_job_watch(mrh_job *job, mr_token waiter)
{
    pthread_mutex_lock(&lock);
    int is_done = job->state == MRH_JOB_DONE;
    if (!is_done)
        job->waiter = waiter;
    pthread_mutex_unlock(&lock);
    return is_done;
}

int mrh_job_withdraw(mrh_job *job)
{
    pthread_mutex_lock(&lock);
    int is_queued = job->state == MRH_JOB_QUEUED;
    if (is_queued) {
        remove_job(&queues[job->queue], job);
        job->state = MRH_JOB_NEW;
    }
    job->waiter = 0;
    job->is_abandoned = 1;
    pthread_mutex_unlock(&lock);
    return is_queued;
}

int mrh_job_is_abandoned(mrh_job *job)
{
    pthread_mutex_lock(&lock);
    int is_abandoned = job->is_abandoned;
    pthread_mutex_unlock(&lock);
    return is_abandoned;
}

int64_t mrh_job_result(const mrh_job *job)
{
    return job->result;
}

void *mrh_job_output(const mrh_job *job)
{
    return job->output;
}

int64_t mrh_job_output_bytes(const mrh_job *job)
{
    return (int64_t)job->output_bytes;
}

void mrh_job_free(mrh_job *job)
{
    MR_CHECK(job->state == MRH_JOB_NEW || job->state == MRH_JOB_DONE);
    for (int i = 0; i < MRH_JOB_TEXTS; i++)
        free(job->texts[i]);
    free(job->output);
    free(job);
}

void mrh_pool_stop(void)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    stopping = true;
    for (int i = 0; i < MRH_QUEUES; i++)
        for (mrh_job *job = queues[i].first; job; job = queues[i].first) {
            remove_job(&queues[i], job);
            job->state = MRH_JOB_NEW;
        }
    while (borrowing)
        pthread_cond_wait(&has_returned, &lock);
    pthread_mutex_unlock(&lock);
}

void mrh_pool_count(mrh_pool_counts *counts)
{
    *counts = (mrh_pool_counts){0};
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MRH_QUEUES; i++) {
        counts->helpers += queues[i].helpers;
        counts->idle += queues[i].idle;
        counts->queued += queues[i].queued;
        counts->running += queues[i].running;
        counts->limit += queues[i].limit;
        counts->done += queues[i].done;
    }
    pthread_mutex_unlock(&lock);
}
