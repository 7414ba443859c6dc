/*
 * process.c: waiting for processes and for locks on files.
 *
 * A pidfd announces the end of one process (Linux 5.3). No event reports the end of any one of several processes, or
 * that a process stops. These calls check again after a pause of 1 ms, doubling up to 20 ms. A helper thread waits for
 * a lock on a file.
 */
#include "../mask.h"
#include "../offload.h"
#include "../watch.h"
#include "blocking.h"
#include "libc.h"
#include "stream.h"

#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/syscall.h>

MF_ALWAYS_LINKED(process);

/* ----------------------------------------------------------------------------------------------------- children --- */

/* The state of a wait for a child. */
typedef struct child_watch {
    int pidfd; /* -1: no pidfd can report the event */
    bool is_callers;
    bool has_reported;
    unsigned backoff_ms;
} child_watch;

static child_watch watch_child(pid_t pid, bool only_its_end)
{
    return (child_watch){.pidfd = pid > 0 && only_its_end ? (int)syscall(SYS_pidfd_open, pid, 0) : -1};
}

static child_watch watch_child_of_id(idtype_t type, id_t id, bool only_its_end)
{
    if (type == P_PIDFD && only_its_end)
        return (child_watch){.pidfd = (int)id, .is_callers = true};
    return watch_child(type == P_PID ? (pid_t)id : -1, only_its_end);
}

/* Waits before the next check. Returns false if interrupted. If a debugger is attached to the child, the debugger must
 * wait for it first: the pidfd then reports an end that this process cannot see yet. */
static bool pause_between_checks(child_watch *watch)
{
    if (watch->pidfd < 0 || watch->has_reported)
        return mf_back_off(&watch->backoff_ms, MR_NO_DEADLINE);
    watch->has_reported = true;
    int error = mf_watch_wait(watch->pidfd, MR_WAIT_READABLE, MR_NO_DEADLINE);
    if (error)
        mf_fail(error);
    return !error;
}

static void unwatch_child(child_watch *watch)
{
    int error = errno;
    if (watch->pidfd >= 0 && !watch->is_callers)
        LIBC(close)(watch->pidfd);
    errno = error;
}

/* Checks a child without waiting. A fiber that does so again and again must yield: the child may wait for a fiber of
 * the same carrier. */
static pid_t check_child(pid_t pid, int *status, int options, struct rusage *usage)
{
    pid_t found = LIBC(wait4)(pid, status, options, usage);
    if (found == 0)
        mf_consume_budget();
    return found;
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    if (!mf_current)
        return LIBC(wait4)(pid, status, options, usage);
    if (options & WNOHANG)
        return check_child(pid, status, options, usage);
    pid_t found = LIBC(wait4)(pid, status, options | WNOHANG, usage);
    if (found != 0)
        return found;
    int before = errno;
    child_watch watch = watch_child(pid, !(options & (WUNTRACED | WCONTINUED)));
    do
        found = pause_between_checks(&watch) ? LIBC(wait4)(pid, status, options | WNOHANG, usage) : -1;
    while (found == 0);
    unwatch_child(&watch);
    return (pid_t)mf_settle(found, before);
}

pid_t wait3(int *status, int options, struct rusage *usage)
{
    return mf_current ? wait4(-1, status, options, usage) : LIBC(wait3)(status, options, usage);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    return mf_current ? wait4(pid, status, options, NULL) : LIBC(waitpid)(pid, status, options);
}

pid_t wait(int *status)
{
    return mf_current ? wait4(-1, status, 0, NULL) : LIBC(wait)(status);
}

ALIAS(__waitpid, waitpid);

ALIAS(__wait, wait);

/* With a pidfd in non-blocking mode waitid fails at once while there is nothing to report (pidfd_open(2)). */
static bool waitid_is_libcs(idtype_t type, id_t id, int options)
{
    return !mf_current || (options & WNOHANG) || (type == P_PIDFD && mf_is_nonblocking((int)id));
}

/* With WNOHANG, si_pid is 0 if there was nothing to report (waitid(2)). */
int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    siginfo_t own;
    siginfo_t *target = info ? info : &own;
    if (waitid_is_libcs(type, id, options))
        return LIBC(waitid)(type, id, info, options);
    int before = errno;
    child_watch watch = watch_child_of_id(type, id, !(options & (WSTOPPED | WCONTINUED)));
    int result;
    do {
        target->si_pid = 0;
        result = LIBC(waitid)(type, id, target, options | WNOHANG);
    } while (result == 0 && target->si_pid == 0 && (result = pause_between_checks(&watch) ? 0 : -1) == 0);
    unwatch_child(&watch);
    return (int)mf_settle(result, before);
}

typedef int spawner(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

typedef struct helper_call helper_call;

struct helper_call {
    void (*start)(helper_call *);
    uint64_t mask; /* of the fiber; the new process begins with it */
    spawner *spawn;
    pid_t *pid;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    char *const *arguments;
    char *const *environment;
    const char *command;
    const char *mode;
    FILE *stream;
    int result;
};

/* The new process must not inherit the signals that a helper thread blocks. */
static void run_start(void *argument)
{
    helper_call *e = argument;
    uint64_t before = mf_mask_set(e->mask);
    e->start(e);
    int error = errno;
    mf_mask_set(before);
    errno = error;
}

static void start_system(helper_call *e)
{
    e->result = LIBC(system)(e->command);
}

static void start_popen(helper_call *e)
{
    e->stream = LIBC(popen)(e->command, e->mode);
}

static void start_spawn(helper_call *e)
{
    e->result = e->spawn(e->pid, e->command, e->actions, e->attributes, e->arguments, e->environment);
}

static int spawn_on_helper(helper_call e)
{
    e.start = start_spawn;
    e.mask = mf_mask_of_fiber();
    mf_offload(run_start, &e);
    return e.result;
}

int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *restrict attributes, char *const arguments[], char *const environment[])
{
    if (!mf_current)
        return LIBC(posix_spawn)(pid, path, actions, attributes, arguments, environment);
    return spawn_on_helper((helper_call){.spawn = LIBC(posix_spawn),
                                         .pid = pid,
                                         .command = path,
                                         .actions = actions,
                                         .attributes = attributes,
                                         .arguments = arguments,
                                         .environment = environment});
}

int posix_spawnp(pid_t *restrict pid, const char *restrict file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *restrict attributes, char *const arguments[], char *const environment[])
{
    if (!mf_current)
        return LIBC(posix_spawnp)(pid, file, actions, attributes, arguments, environment);
    return spawn_on_helper((helper_call){.spawn = LIBC(posix_spawnp),
                                         .pid = pid,
                                         .command = file,
                                         .actions = actions,
                                         .attributes = attributes,
                                         .arguments = arguments,
                                         .environment = environment});
}

FILE *popen(const char *command, const char *mode)
{
    if (!mf_current)
        return LIBC(popen)(command, mode);
    helper_call e = {.start = start_popen, .mask = mf_mask_of_fiber(), .command = command, .mode = mode};
    mf_offload(run_start, &e);
    return e.stream;
}

int system(const char *command)
{
    if (!mf_current)
        return LIBC(system)(command);
    helper_call e = {.start = start_system, .mask = mf_mask_of_fiber(), .command = command};
    mf_offload_to_new_thread(run_start, &e);
    return e.result;
}

static void run_pclose(void *argument)
{
    helper_call *e = argument;
    e->result = LIBC(pclose)(e->stream);
}

int pclose(FILE *stream)
{
    if (!mf_current)
        return LIBC(pclose)(stream);
    helper_call e = {.stream = stream};
    mf_stream_release_user_locks(stream);
    bool written = mf_stream_end_writing(stream);
    int error = errno;
    mf_offload_to_new_thread(run_pclose, &e);
    return written || e.result ? e.result : mf_fail(-error);
}

/* --------------------------------------------------------------------------------------------------- file locks --- */

typedef struct file_lock file_lock;

struct file_lock {
    int (*take)(const file_lock *l, bool waits);
    int descriptor;
    int operation; /* of flock */
    void *lock;    /* of fcntl */
    off64_t size;  /* of lockf */
    int result;
};

static int take_by_flock(const file_lock *l, bool waits)
{
    return LIBC(flock)(l->descriptor, waits ? l->operation : l->operation | LOCK_NB);
}

static int take_by_fcntl(const file_lock *l, bool waits)
{
    return LIBC(fcntl)(l->descriptor, waits ? F_SETLKW : F_SETLK, l->lock);
}

static int take_by_fcntl_for_open_file(const file_lock *l, bool waits)
{
    return LIBC(fcntl)(l->descriptor, waits ? F_OFD_SETLKW : F_OFD_SETLK, l->lock);
}

static int take_by_lockf(const file_lock *l, bool waits)
{
    return LIBC(lockf64)(l->descriptor, waits ? F_LOCK : F_TLOCK, l->size);
}

/* POSIX allows either error for a lock that is taken. */
static bool is_locked(int result)
{
    return result < 0 && (errno == EAGAIN || errno == EACCES);
}

static void wait_for_lock(void *argument)
{
    file_lock *l = argument;
    l->result = l->take(l, true);
}

static int retry_until_locked(const file_lock *l)
{
    unsigned backoff_ms = 0;
    int result;
    do
        result = l->take(l, false);
    while (is_locked(result) && mf_back_off(&backoff_ms, MR_NO_DEADLINE));
    return result;
}

/* Lets a helper thread wait, because the kernel gives released locks only to threads that wait inside it, and finds
 * deadlocks among them. */
static int wait_for_lock_on_helper(file_lock *l)
{
    int error = mf_offload_interruptible(wait_for_lock, l, l->descriptor);
    if (error == MF_OFFLOAD_NO_THREAD)
        return retry_until_locked(l);
    return error ? mf_fail(error) : l->result;
}

static int take_lock(file_lock l)
{
    int before = errno, result = l.take(&l, false);
    if (is_locked(result))
        result = wait_for_lock_on_helper(&l);
    return (int)mf_settle(result, before);
}

int flock(int descriptor, int operation)
{
    if (!mf_current || (operation & LOCK_NB))
        return LIBC(flock)(descriptor, operation);
    return take_lock((file_lock){.take = take_by_flock, .descriptor = descriptor, .operation = operation});
}

/* Every argument of fcntl fits into a pointer. Passing on an argument that the caller did not give does no harm. */
int fcntl(int descriptor, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (mf_current && command == F_SETLKW && argument)
        return take_lock((file_lock){.take = take_by_fcntl, .descriptor = descriptor, .lock = argument});
    if (mf_current && command == F_OFD_SETLKW)
        return take_lock((file_lock){.take = take_by_fcntl_for_open_file, .descriptor = descriptor, .lock = argument});
    return LIBC(fcntl)(descriptor, command, argument);
}

ALIAS(fcntl64, fcntl);
ALIAS(__fcntl, fcntl);

int lockf64(int descriptor, int command, off64_t size)
{
    if (!mf_current || command != F_LOCK)
        return LIBC(lockf64)(descriptor, command, size);
    return take_lock((file_lock){.take = take_by_lockf, .descriptor = descriptor, .size = size});
}

ALIAS(lockf, lockf64);
