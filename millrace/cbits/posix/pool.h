/*
 * pool.h: a bounded number of helper threads, for work that the core has no operation for: name look-ups, directories,
 * opening files; without io_uring, also reading and writing files. Must not know: GHC.
 *
 * A helper thread starts when a job waits and no helper is idle, and ends after it has been idle for a while. There are
 * two queues of jobs with separate helpers, so that a dead name server cannot delay work on files.
 *
 * A job cannot be interrupted. Its submitter may stop waiting, but must keep the job and everything that it uses until
 * it has ended (mrh_job_watch). When a job ends, the pool fires the timer that its submitter waits for.
 */
#ifndef MILLRACE_POOL_H
#define MILLRACE_POOL_H

#include "millrace.h"

#include <stddef.h>
#include <stdint.h>

enum { MRH_JOB_NUMBERS = 12, MRH_JOB_TEXTS = 2 };

typedef enum mrh_queue { MRH_FILES, MRH_NAMES, MRH_QUEUES } mrh_queue;

typedef struct mrh_job mrh_job;

/* The function that a helper runs. Returns a count or a negative errno. */
typedef int64_t mrh_work(mrh_job *job);

typedef enum mrh_job_state { MRH_JOB_NEW, MRH_JOB_QUEUED, MRH_JOB_RUNNING, MRH_JOB_DONE } mrh_job_state;

struct mrh_job {
    mrh_work *work;
    mrh_queue queue;
    int64_t numbers[MRH_JOB_NUMBERS];
    char *texts[MRH_JOB_TEXTS]; /* copies that belong to the job, or NULL */
    void *memory;               /* the submitter's, which must keep it until the job has ended; or NULL */
    int64_t result;
    void *output; /* allocated by the work, freed with the job; or NULL */
    size_t output_bytes;

    /* used by the pool, with its lock held */
    mrh_job *next, *previous;
    mrh_job_state state;
    mr_token waiter; /* the timer to fire, or 0 */
    int is_abandoned;
};

/* Creates a job for that queue, with copies of the texts (each may be NULL). Returns NULL if there is no memory. */
mrh_job *mrh_job_create(mrh_work *work, int queue, const char *first, const char *second);
/* Set a job's number, and its memory. */
void mrh_job_set(mrh_job *job, int index, int64_t number);
void mrh_job_set_memory(mrh_job *job, void *memory);

/* For the work: makes a copy of these bytes the output. Returns 0 or -ENOMEM. */
int64_t mrh_job_set_output(mrh_job *job, const void *bytes, size_t count);
/* For the work: whether its submitter has stopped waiting, so that it should end soon. */
int mrh_job_is_abandoned(mrh_job *job);

/* Queues the job. Returns 0, or a negative errno if there is no helper and none can start. */
int mrh_job_submit(mrh_job *job, mr_token waiter);

/* 1 if the job has ended, else 0. */
int mrh_job_is_done(mrh_job *job);
/* Replaces the timer to fire at the end. Returns 1 if the job has already ended, else 0. */
int mrh_job_watch(mrh_job *job, mr_token waiter);
/* Removes a job from its queue if no helper has begun it. Returns 1 if so: it will never run, and may be freed. */
int mrh_job_withdraw(mrh_job *job);

/* What an ended job has returned, and its output. */
int64_t mrh_job_result(const mrh_job *job);
void *mrh_job_output(const mrh_job *job);
int64_t mrh_job_output_bytes(const mrh_job *job);
/* Frees a job that is neither queued nor running. */
void mrh_job_free(mrh_job *job);

/* For the end of the run-time system: starts no further job, and waits for running jobs that use their submitter's
 * memory. */
void mrh_pool_stop(void);

typedef struct mrh_pool_counts {
    int64_t helpers, idle, queued, running, limit, done;
} mrh_pool_counts;
/* The sums over both queues. */
void mrh_pool_count(mrh_pool_counts *counts);

#endif
