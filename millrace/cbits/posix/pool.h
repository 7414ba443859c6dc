/*
 * pool.h: a bounded number of helper threads, for work that has no operation: names, directories, opening files, and
 * files where io_uring is refused. Must not know: GHC.
 *
 * A helper thread starts when a job waits that no idle helper can take, and ends when it has been idle for a while. There
 * are two lines of jobs, each with helpers of its own: a dead name server cannot hold up files.
 *
 * A job cannot be interrupted. Its submitter may stop waiting; the job and everything that it uses then must stay until it
 * has ended (mrh_job_watch). When a job ends, the pool fires the timer that its submitter waits for.
 */
#ifndef MILLRACE_POOL_H
#define MILLRACE_POOL_H

#include "millrace.h"

#include <stddef.h>
#include <stdint.h>

enum { MRH_JOB_NUMBERS = 12, MRH_JOB_TEXTS = 2 };

typedef enum mrh_line { MRH_FILES, MRH_NAMES, MRH_LINES } mrh_line;

typedef struct mrh_job mrh_job;

/* What a helper does. The result is a count or a negative errno. */
typedef int64_t mrh_work(mrh_job *job);

typedef enum mrh_job_state { MRH_JOB_NEW, MRH_JOB_QUEUED, MRH_JOB_RUNNING, MRH_JOB_DONE } mrh_job_state;

struct mrh_job {
    mrh_work *work;
    mrh_line line;
    int64_t numbers[MRH_JOB_NUMBERS];
    char *texts[MRH_JOB_TEXTS]; /* the job's own copies, or NULL */
    void *memory;               /* the submitter's, which must keep it until the job has ended; or NULL */
    int64_t result;
    void *output; /* allocated by the work, freed with the job; or NULL */
    size_t output_bytes;

    /* the pool's, with its lock held */
    mrh_job *next, *previous;
    mrh_job_state state;
    mr_token waiter; /* the timer to fire, or 0 */
};

/* A job of that line, with copies of the texts (each may be NULL). NULL if there is no memory. */
mrh_job *mrh_job_create(mrh_work *work, int line, const char *first, const char *second);
void mrh_job_set(mrh_job *job, int index, int64_t number);
void mrh_job_lend(mrh_job *job, void *memory);

/* Hands it to the helpers. Returns 0, or a negative errno if there is no helper and none can be started. */
int mrh_job_submit(mrh_job *job, mr_token waiter);

/* Whether it has ended. */
int mrh_job_is_done(mrh_job *job);
/* Replaces the timer that is fired at the end. 1: the job has ended already. */
int mrh_job_watch(mrh_job *job, mr_token waiter);
/* Removes a job that no helper has begun from its line. 1: it will never run, and may be freed. */
int mrh_job_withdraw(mrh_job *job);

int64_t mrh_job_result(const mrh_job *job);
void *mrh_job_output(const mrh_job *job);
int64_t mrh_job_output_bytes(const mrh_job *job);
/* Frees a job that is neither in a line nor running. */
void mrh_job_free(mrh_job *job);

/* For the end of the run-time system: starts no further job, and waits for those that use their submitter's memory. */
void mrh_pool_stop(void);

typedef struct mrh_pool_counts {
    int64_t helpers, idle, queued, running, most, done;
} mrh_pool_counts;
/* Of both lines together. */
void mrh_pool_count(mrh_pool_counts *counts);

#endif
