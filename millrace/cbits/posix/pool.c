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

typedef struct line {
    mrh_job *first, *last;
    unsigned queued, running, helpers, idle, most;
    int64_t done;
    pthread_cond_t has_jobs;
} line;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static line lines[MRH_LINES];
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
    memset(lines, 0, sizeof lines);
    lines[MRH_FILES].most = FILE_HELPERS;
    lines[MRH_NAMES].most = NAME_HELPERS;
    for (int i = 0; i < MRH_LINES; i++)
        pthread_cond_init(&lines[i].has_jobs, &monotonic);
    pthread_cond_init(&has_returned, &monotonic);
    pthread_condattr_destroy(&monotonic);
    borrowing = 0;
    stopping = false;
}

/* The child of a fork has no helpers, and its parent's jobs are not its own. */
static void begin_again(void)
{
    pthread_mutex_init(&lock, NULL);
    reset();
}

static void prepare(void)
{
    reset();
    pthread_atfork(NULL, NULL, begin_again);
}

static void append(line *l, mrh_job *job)
{
    job->next = NULL;
    job->previous = l->last;
    if (l->last)
        l->last->next = job;
    else
        l->first = job;
    l->last = job;
    l->queued++;
}

static void take_out(line *l, mrh_job *job)
{
    MR_CHECK(l->queued > 0);
    if (job->previous)
        job->previous->next = job->next;
    else
        l->first = job->next;
    if (job->next)
        job->next->previous = job->previous;
    else
        l->last = job->previous;
    l->queued--;
}

/* The lock is held, except during the work and while the timer is fired. The submitter may free the job as soon as it is
 * done and the lock is not held. */
static void do_next(line *l)
{
    mrh_job *job = l->first;
    bool borrows = job->memory != NULL;
    take_out(l, job);
    job->state = MRH_JOB_RUNNING;
    l->running++;
    borrowing += borrows;
    pthread_mutex_unlock(&lock);
    int64_t result = job->work(job);
    pthread_mutex_lock(&lock);
    job->result = result;
    job->state = MRH_JOB_DONE;
    mr_token waiter = job->waiter;
    l->running--;
    l->done++;
    borrowing -= borrows;
    if (borrows && stopping)
        pthread_cond_broadcast(&has_returned);
    pthread_mutex_unlock(&lock);
    if (waiter)
        mrh_fire(waiter);
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
static bool await_job(line *l)
{
    struct timespec end = moment_after(IDLE_SECONDS);
    int error = 0;
    l->idle++;
    while (!l->first && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&l->has_jobs, &lock, &end);
    l->idle--;
    return l->first != NULL;
}

static void *help(void *argument)
{
    line *l = argument;
    pthread_mutex_lock(&lock);
    while (l->first || await_job(l))
        do_next(l);
    l->helpers--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Helpers block all signals: those are for the program's own threads. */
static int start_helper(line *l)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, help, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!error)
        l->helpers++;
    return -error;
}

mrh_job *mrh_job_create(mrh_work *work, int line, const char *first, const char *second)
{
    mrh_job *job = calloc(1, sizeof *job);
    const char *texts[MRH_JOB_TEXTS] = {first, second};
    if (!job)
        return NULL;
    job->work = work;
    job->line = (mrh_line)line;
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

void mrh_job_lend(mrh_job *job, void *memory)
{
    job->memory = memory;
}

/* Compares idle helpers with queued jobs, because an idle helper may already have been woken for each of these. */
int mrh_job_submit(mrh_job *job, mr_token waiter)
{
    line *l = &lines[job->line];
    int error = 0;
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    job->waiter = waiter;
    job->state = MRH_JOB_QUEUED;
    append(l, job);
    if (stopping)
        error = -ECANCELED;
    else if (l->queued > l->idle && l->helpers < l->most)
        error = start_helper(l);
    if (error && (stopping || l->helpers == 0)) {
        take_out(l, job);
        job->state = MRH_JOB_NEW;
    } else {
        error = 0;
        pthread_cond_signal(&l->has_jobs);
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
        take_out(&lines[job->line], job);
        job->state = MRH_JOB_NEW;
    }
    job->waiter = 0;
    pthread_mutex_unlock(&lock);
    return is_queued;
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
    for (int i = 0; i < MRH_LINES; i++)
        for (mrh_job *job = lines[i].first; job; job = lines[i].first) {
            take_out(&lines[i], job);
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
    for (int i = 0; i < MRH_LINES; i++) {
        counts->helpers += lines[i].helpers;
        counts->idle += lines[i].idle;
        counts->queued += lines[i].queued;
        counts->running += lines[i].running;
        counts->most += lines[i].most;
        counts->done += lines[i].done;
    }
    pthread_mutex_unlock(&lock);
}
