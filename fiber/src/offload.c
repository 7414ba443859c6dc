/* offload.c: a bounded pool of helper threads, and threads for a single job. Must not know: channels. */
#include "offload.h"
#include "carrier.h"
#include "futex.h"
#include "mask.h"
#include "interpose/libc.h"
#include "watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

/* Even if no name server answers, one helper is left for disks. */
enum { HELPERS = 4, HELPERS_FOR_NAMES = 3, STACK_BYTES = 256 * 1024 };

typedef struct job {
    struct job *next;
    mf_work work;
    void *argument;
    int error; /* errno after the work */
    mf_wait wait;
    mf_lock lock;  /* of interruptible work: while it is held the helper does not end */
    int thread_id; /* 0: the work has not begun */
    bool is_done;  /* the helper no longer uses the job */
} job;

typedef struct job_queue {
    job *first, *last;
    unsigned count;
} job_queue;

static struct {
    mf_lock lock;
    job_queue disks, names;
    unsigned asking; /* the number of helpers that look up names */
    pthread_t threads[HELPERS];
    unsigned count, idle;
    bool stopping;
    atomic_uint changes; /* the word on which idle helpers sleep */
} pool;

static void do_job(job *j)
{
    errno = 0;
    j->work(j->argument);
    j->error = errno;
    mf_wait_claim(&j->wait, 0);
    mf_wait_wake(&j->wait);
}

static void push(job_queue *l, job *j)
{
    j->next = NULL;
    if (l->first)
        l->last->next = j;
    else
        l->first = j;
    l->last = j;
    l->count++;
}

static job *pop(job_queue *l)
{
    job *j = l->first;
    l->first = j->next;
    l->count--;
    return j;
}

/* The number of jobs that may begin. The lock is held, also in the next two functions. */
static unsigned wanted(void)
{
    unsigned left = HELPERS_FOR_NAMES - pool.asking;
    return pool.disks.count + (pool.names.count < left ? pool.names.count : left);
}

/* Releases the lock during the work. Once its fiber has been woken, the job no longer exists. */
static void do_next(void)
{
    bool is_name = !pool.disks.first;
    job *j = pop(is_name ? &pool.names : &pool.disks);
    pool.asking += is_name;
    mf_lock_release(&pool.lock);
    do_job(j);
    mf_lock_acquire(&pool.lock);
    pool.asking -= is_name;
}

static void sleep_idly(void)
{
    unsigned seen = atomic_load(&pool.changes);
    pool.idle++;
    mf_lock_release(&pool.lock);
    mf_futex_wait(&pool.changes, seen, MR_NO_DEADLINE);
    mf_lock_acquire(&pool.lock);
    pool.idle--;
}

static void *help(void *argument)
{
    mf_lock_acquire(&pool.lock);
    while (wanted() || !pool.stopping) {
        if (wanted())
            do_next();
        else
            sleep_idly();
    }
    mf_lock_release(&pool.lock);
    return argument;
}

static int start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    LIBC(pthread_sigmask)(SIG_SETMASK, &all, &before);
    int error = LIBC(pthread_create)(thread, &attributes, run, argument);
    LIBC(pthread_sigmask)(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* A helper counts as idle until it has woken, so each waiting job may have one already. The lock is held. */
static bool needs_helper(void)
{
    return wanted() > pool.idle && pool.count < HELPERS;
}

/* Returns false if there is no helper and none can be started. */
static bool enqueue(job_queue *l, job *j)
{
    mf_lock_acquire(&pool.lock);
    push(l, j);
    if (needs_helper() && start_thread(&pool.threads[pool.count], help, NULL) == 0)
        pool.count++;
    bool accepted = pool.count > 0;
    if (accepted) {
        atomic_fetch_add(&pool.changes, 1);
        mf_futex_wake(&pool.changes, 1);
    } else {
        *l = (job_queue){0}; /* the job was alone, because there has never been a helper */
    }
    mf_lock_release(&pool.lock);
    return accepted;
}

static void wait_for_job(job *j)
{
    mf_wait_park(&j->wait, MR_NO_DEADLINE, MF_UNINTERRUPTIBLE);
    if (j->error)
        errno = j->error;
}

/* Between vfork and exec, a helper would open the file in the wrong process. */
static bool can_be_helped(void)
{
    return mf_watch_is_fiber();
}

static void work_here(mf_work work, void *argument)
{
    int before = errno;
    errno = 0;
    work(argument);
    if (!errno)
        errno = before;
}

static void offload_to(job_queue *l, mf_work work, void *argument)
{
    job j = {.work = work, .argument = argument};
    mf_wait_init(&j.wait);
    if (can_be_helped() && enqueue(l, &j))
        wait_for_job(&j);
    else
        work_here(work, argument);
}

void mf_offload(mf_work work, void *argument)
{
    offload_to(&pool.disks, work, argument);
}

void mf_offload_name(mf_work work, void *argument)
{
    offload_to(&pool.names, work, argument);
}

static void *do_one_job(void *argument)
{
    pthread_detach(pthread_self());
    do_job(argument);
    return NULL;
}

void mf_offload_to_new_thread(mf_work work, void *argument)
{
    pthread_t thread;
    job j = {.work = work, .argument = argument};
    mf_wait_init(&j.wait);
    if (can_be_helped() && start_thread(&thread, do_one_job, &j) == 0)
        wait_for_job(&j);
    else
        mf_offload(work, argument);
}

/* --------------------------------------------------------------------------------- work that can be interrupted --- */

/* libc's function for reserving a real-time signal. It reserves the last one and lowers SIGRTMAX. No header declares
 * it. */
int __libc_allocate_rtsig(int from_below);

enum { SIGNALS_TRIED = 4 };

static int interrupting_signal; /* 0: there is none */

static void do_nothing(int signal_number)
{
    (void)signal_number;
}

/* True if the program has no handler for the signal. It may use one by number that libc has not given to it. */
static bool is_unused(int signal_number)
{
    struct sigaction now;
    return sigaction(signal_number, NULL, &now) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
}

/* True if the system can send the signal. QEMU's emulation of arm64 refuses to send the last two. The signal of this
 * test is ignored. If this thread has blocked it, setting SIG_IGN again removes it. */
static bool can_be_sent(int signal_number)
{
    struct sigaction before, ignore = {.sa_handler = SIG_IGN};
    if (sigaction(signal_number, &ignore, &before) != 0)
        return false;
    bool is_sent = LIBC(syscall)(SYS_tgkill, getpid(), (int)LIBC(syscall)(SYS_gettid), signal_number) == 0;
    sigaction(signal_number, &ignore, NULL);
    sigaction(signal_number, &before, NULL);
    return is_sent;
}

/* True if the signal can interrupt helpers. Installs its handler again if the program has reset it, so that the signal
 * does not end the program; but does not use it if the program has its own handler. */
static bool has_signal(void)
{
    struct sigaction now, action = {.sa_handler = do_nothing}; /* without SA_RESTART */
    if (!interrupting_signal)
        return false;
    if (is_unused(interrupting_signal))
        sigaction(interrupting_signal, &action, NULL);
    return sigaction(interrupting_signal, NULL, &now) == 0 && now.sa_handler == do_nothing;
}

void mf_offload_prepare(void)
{
    static bool has_asked;
    for (int i = 0; i < SIGNALS_TRIED && !interrupting_signal && !has_asked; i++) {
        int signal_number = __libc_allocate_rtsig(0);
        if (signal_number > 0 && is_unused(signal_number) && can_be_sent(signal_number))
            interrupting_signal = signal_number;
    }
    has_asked = true;
}

/* The first to claim the wait decides whether the work is interrupted. */
static void *do_unless_interrupted(void *argument)
{
    job *j = argument;
    pthread_detach(pthread_self());
    mf_lock_acquire(&j->lock);
    j->thread_id = (int)LIBC(syscall)(SYS_gettid);
    mf_lock_release(&j->lock);
    mf_mask_set(~MF_MASK_BIT(interrupting_signal));
    errno = 0;
    j->work(j->argument);
    j->error = errno;
    if (mf_wait_claim(&j->wait, 0)) {
        mf_wait_wake(&j->wait);
    } else {
        mf_lock_acquire(&j->lock);
        j->is_done = true;
        mf_lock_release(&j->lock);
    }
    return NULL;
}

static int wait_unless_closed(job *j, int descriptor)
{
    mf_watch watch;
    mf_watch_begin_for_close(&watch, &j->wait, -EBADF, descriptor);
    int outcome = mf_wait_park(&j->wait, MR_NO_DEADLINE, MF_INTERRUPTIBLE);
    mf_watch_end(&watch);
    return outcome;
}

/* Returns false if the work is done. */
static bool interrupt(job *j)
{
    mf_lock_acquire(&j->lock);
    bool is_done = j->is_done;
    if (!is_done && j->thread_id && has_signal())
        LIBC(syscall)(SYS_tgkill, getpid(), j->thread_id, interrupting_signal);
    mf_lock_release(&j->lock);
    return !is_done;
}

/* Sends signals until the call has ended. A call that does not wait is not interrupted, and its result counts. A signal
 * that comes before the call waits has no effect, so one signal is not enough. */
static void interrupt_until_done(job *j)
{
    while (interrupt(j))
        mf_wait_a_millisecond();
}

int mf_offload_interruptible(mf_work work, void *argument, int descriptor)
{
    pthread_t thread;
    job j = {.work = work, .argument = argument};
    mf_wait_init(&j.wait);
    if (!has_signal() || !can_be_helped() || start_thread(&thread, do_unless_interrupted, &j) != 0)
        return MF_OFFLOAD_NO_THREAD;
    int outcome = wait_unless_closed(&j, descriptor), interruption = mf_current->interrupted_by;
    if (outcome < 0)
        interrupt_until_done(&j);
    mf_current->interrupted_by = interruption; /* the waits since then are not the caller's */
    if (outcome < 0 && j.error == EINTR)
        return outcome;
    if (outcome < 0)
        mf_wait_put_interruption_back(-outcome);
    if (j.error)
        errno = j.error;
    return 0;
}

void mf_offload_stop(void)
{
    mf_lock_acquire(&pool.lock);
    pool.stopping = true;
    atomic_fetch_add(&pool.changes, 1);
    mf_futex_wake(&pool.changes, HELPERS);
    mf_lock_release(&pool.lock);
    for (unsigned i = 0; i < pool.count; i++)
        pthread_join(pool.threads[i], NULL);
    pool.count = 0;
    pool.stopping = false;
}

void mf_offload_forget_after_fork(void)
{
    memset(&pool, 0, sizeof pool);
}
