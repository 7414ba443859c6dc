/* process.c: see process.h. */
#include "process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS = 3 };

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1U << 2) /* Linux 6.9 */
#endif

typedef struct limit {
    int resource;
    struct rlimit values;
} limit;

/* What the child needs. The child shares the parent's memory until exec, so the parent prepares everything. */
typedef struct launch {
    const char *program, *directory;
    char **arguments, **environment;
    int streams[STREAMS];
    char stream_paths[STREAMS][32]; /* the child reopens them by these paths */
    const char *cgroup;             /* the path of its cgroup.procs; empty: this program's */
    int group;
    int64_t user, user_group; /* unsigned 32-bit numbers; -1: unchanged */
    limit *limits;
    int limit_count;
    volatile int error;              /* set by the child if it fails */
    volatile bool is_outside_cgroup; /* set by the child: it could not join its cgroup */
} launch;

extern char **environ; /* NOLINT(readability-redundant-declaration): only with _GNU_SOURCE it is declared */

/* ---------------------------------------------------------------------------------------------------- the child --- */

/* From here to exec only system calls are allowed, because the child shares the memory of the parent, whose other
 * threads run. */

static bool failed(launch *what)
{
    what->error = errno ? errno : EINVAL;
    return false;
}

/* A handler would run in the parent's memory, and ignored signals would stay ignored. This is a system call, because
 * libc's sigaction refuses the signals that libc reserves. The kernel's structure is all zeros for the default
 * action. */
static void reset_signals(void)
{
    enum { SIGNALS = 64 };
    static const unsigned long defaults[8];
    sigset_t none;
    for (int i = 1; i <= SIGNALS; i++)
        syscall(SYS_rt_sigaction, i, defaults, NULL, SIGNALS / 8); /* SIGKILL and SIGSTOP are refused */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Programs such as cat fail with EAGAIN if a standard stream is non-blocking. O_NONBLOCK is a flag of the open file
 * description, and this program needs it. So the child reopens a non-blocking pipe; with O_NONBLOCK at first, because
 * it must not wait for a FIFO's other end. Returns -1 if the stream is not such a pipe, or cannot be reopened. Then the
 * child shares the flag. */
static int open_blocking(const launch *what, int i)
{
    struct stat status;
    int flags = fcntl(what->streams[i], F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK) || fstat(what->streams[i], &status) < 0 || !S_ISFIFO(status.st_mode))
        return -1;
    int opened = open(what->stream_paths[i], (flags & O_ACCMODE) | O_NONBLOCK | O_CLOEXEC);
    if (opened >= 0)
        fcntl(opened, F_SETFL, flags & ~O_NONBLOCK);
    return opened;
}

/* Makes the streams descriptors 0 to 2. Moves all of them to higher numbers first, so that none is overwritten. */
static bool install_streams(launch *what)
{
    int moved[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        int opened = open_blocking(what, i);
        moved[i] = fcntl(opened < 0 ? what->streams[i] : opened, F_DUPFD_CLOEXEC, STREAMS);
        if (moved[i] < 0)
            return failed(what);
        if (opened >= 0)
            close(opened); /* otherwise it might have the number of one of the next streams */
    }
    for (int i = 0; i < STREAMS; i++)
        if (dup2(moved[i], i) < 0)
            return failed(what);
    return true;
}

static bool close_other_descriptors(launch *what)
{
    struct rlimit limit;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, STREAMS, ~0U, 0) == 0)
        return true;
#endif
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return failed(what);
    for (int i = STREAMS; i < (int)limit.rlim_cur; i++)
        close(i);
    return true;
}

static bool join_group(launch *what)
{
    if (what->group == MRH_NEW_GROUP)
        return setpgid(0, 0) == 0 || failed(what);
    if (what->group == MRH_SAME_GROUP)
        return true;
    if (setsid() < 0)
        return failed(what);
    return what->group == MRH_NEW_SESSION || ioctl(0, TIOCSCTTY, 0) == 0 || failed(what);
}

static bool set_limits(launch *what)
{
    for (int i = 0; i < what->limit_count; i++)
        if (setrlimit((__rlimit_resource_t)what->limits[i].resource, &what->limits[i].values) < 0)
            return failed(what);
    return true;
}

static bool become_user(launch *what)
{
    gid_t group = (gid_t)what->user_group;
    if (what->user_group >= 0 &&
        (syscall(SYS_setgroups, 1, &group) < 0 || syscall(SYS_setresgid, group, group, group) < 0))
        return failed(what);
    uid_t user = (uid_t)what->user;
    return what->user < 0 || syscall(SYS_setresuid, user, user, user) == 0 || failed(what);
}

static bool join_cgroup(launch *what)
{
    if (!*what->cgroup)
        return true;
    what->is_outside_cgroup = true;
    int members = open(what->cgroup, O_WRONLY | O_CLOEXEC);
    if (members < 0 || write(members, "0", 1) < 0) /* 0: the process that writes */
        return failed(what);
    close(members);
    what->is_outside_cgroup = false;
    return true;
}

static int run_child(void *argument)
{
    launch *what = argument;
    reset_signals();
    if (join_cgroup(what) && install_streams(what) && close_other_descriptors(what) && join_group(what) &&
        set_limits(what) && become_user(what) && (!*what->directory || chdir(what->directory) == 0 || failed(what))) {
        execvpe(what->program, what->arguments, what->environment);
        failed(what);
    }
    _exit(127);
}

/* --------------------------------------------------------------------------------------------------- the parent --- */

/* The size of the child's stack until exec. execvpe copies the arguments there, and each path that it tries. */
static size_t stack_bytes(const launch *what)
{
    size_t count = 0;
    while (what->arguments[count])
        count++;
    return (size_t)256 * 1024 + count * sizeof(char *);
}

/* This thread sleeps until the child has executed its program or failed. All signals are blocked, so no handler runs in
 * the child. The pidfd exists from the child's start: if the program ignores SIGCHLD or waits for any child, the
 * process number may mean another process as soon as the child has ended. posix_spawn can return no pidfd and set no
 * user. */
static pid_t launch_child(launch *what, int *pidfd)
{
    size_t bytes = stack_bytes(what);
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return -1;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = clone(run_child, stack + bytes, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, what, pidfd);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(stack, bytes);
    errno = error;
    return child;
}

/* The children that were started here and not reaped. Whoever reaps orphans leaves them alone. A start holds the first
 * lock, shared, until its child is noted, so that no child is taken for an orphan. */
static pthread_rwlock_t starting = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t children_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t *children;
static size_t child_count, child_capacity;

static bool note_child(pid_t child)
{
    pthread_mutex_lock(&children_lock);
    if (child_count == child_capacity) {
        size_t capacity = child_capacity ? 2 * child_capacity : 16;
        pid_t *larger = realloc(children, capacity * sizeof *larger);
        if (larger) {
            children = larger;
            child_capacity = capacity;
        }
    }
    bool has_space = child_count < child_capacity;
    if (has_space)
        children[child_count++] = child;
    pthread_mutex_unlock(&children_lock);
    return has_space;
}

/* Returns whether the child was noted. */
static bool look_for_child(pid_t child, bool forgets)
{
    bool found = false;
    pthread_mutex_lock(&children_lock);
    for (size_t i = 0; !found && i < child_count; i++)
        if (children[i] == child) {
            found = true;
            if (forgets)
                children[i] = children[--child_count];
        }
    pthread_mutex_unlock(&children_lock);
    return found;
}

static void reap_failed_child(int pidfd)
{
    while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED) < 0 && errno == EINTR)
        ;
    close(pidfd);
}

static int64_t start_noted(launch *what, int *pidfd)
{
    pid_t child = launch_child(what, pidfd);
    if (child < 0)
        return -errno;
    if (*pidfd < 0)
        return -ENOSYS; /* before Linux 5.2 */
    if (!what->error && !note_child(child)) {
        syscall(SYS_pidfd_send_signal, *pidfd, SIGKILL, NULL, 0);
        what->error = ENOMEM;
    }
    if (!what->error)
        return (int64_t)child << 32 | *pidfd;
    reap_failed_child(*pidfd);
    return -what->error - (what->is_outside_cgroup ? MRH_CGROUP_ERROR : 0);
}

static int64_t start(launch *what)
{
    int pidfd = -1;
    pthread_rwlock_rdlock(&starting);
    int64_t result = start_noted(what, &pidfd);
    pthread_rwlock_unlock(&starting);
    return result;
}

static const char *next_string(const char **at)
{
    const char *string = *at;
    *at += strlen(string) + 1;
    return string;
}

static char **next_strings(const char **at, int64_t count)
{
    char **strings = calloc((size_t)count + 1, sizeof *strings);
    for (int64_t i = 0; strings && i < count; i++)
        strings[i] = (char *)(uintptr_t)next_string(at);
    return strings;
}

static rlim_t limit_value(int64_t number)
{
    return number < 0 ? RLIM_INFINITY : (rlim_t)number;
}

static int read_limits(launch *what, const char **at, int64_t count)
{
    what->limits = calloc((size_t)count + 1, sizeof *what->limits);
    if (!what->limits)
        return -ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        long long resource, soft, hard;
        if (sscanf(next_string(at), "%lld %lld %lld", &resource, &soft, &hard) != 3)
            return -EINVAL;
        what->limits[i] = (limit){(int)resource, {limit_value(soft), limit_value(hard)}};
    }
    what->limit_count = (int)count;
    return 0;
}

int64_t mrh_do_spawn(mrh_job *job)
{
    const char *at = job->memory;
    const int64_t *numbers = job->numbers;
    launch what = {.group = (int)numbers[6], .user = numbers[7], .user_group = numbers[8]};
    int result = -ENOMEM;
    int64_t started = 0;
    for (int i = 0; i < STREAMS; i++) {
        what.streams[i] = (int)numbers[i];
        snprintf(what.stream_paths[i], sizeof what.stream_paths[i], "/proc/self/fd/%d", what.streams[i]);
    }
    what.program = next_string(&at);
    what.directory = next_string(&at);
    what.cgroup = next_string(&at);
    what.arguments = next_strings(&at, numbers[3]);
    char **own = numbers[4] < 0 ? NULL : next_strings(&at, numbers[4]);
    what.environment = numbers[4] < 0 ? environ : own;
    if (what.arguments && what.environment)
        result = read_limits(&what, &at, numbers[5]);
    if (!result)
        started = start(&what);
    free(what.arguments);
    free(what.limits);
    free(own);
    return result ? result : started;
}

int mrh_signal_process(int pidfd, int signal_number)
{
    return syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0) < 0 ? -errno : 0;
}

int mrh_open_process(int process)
{
    /* pidfd_open closes it in programs that are started. */
    int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
    return pidfd < 0 ? -errno : pidfd;
}

/* True if the process's number still means this process: it runs, or has ended and was not reaped. */
static bool keeps_its_number(int pidfd)
{
    return waitid((idtype_t)P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int mrh_signal_group(int pidfd, int process, int signal_number)
{
    if (syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, PIDFD_SIGNAL_PROCESS_GROUP) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    if (!keeps_its_number(pidfd))
        return -ESRCH;
    return kill(-process, signal_number) < 0 ? -errno : 0;
}

/* True if the process with this number, a name in /proc, runs and belongs to the group. Its `stat` is "number (name)
 * state parent group ...". */
static bool runs_in_group(const char *number, int group)
{
    char path[32], line[512], state = 'X';
    int its_group = 0;
    snprintf(path, sizeof path, "/proc/%.16s/stat", number);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t count = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[count] = 0;
    const char *after_name = strrchr(line, ')');
    return after_name && sscanf(after_name + 1, " %c %*d %d", &state, &its_group) == 2 && its_group == group &&
           state != 'Z' && state != 'X';
}

int64_t mrh_do_group_runs(mrh_job *job)
{
    DIR *processes = opendir("/proc");
    if (!processes)
        return -errno;
    bool found = false;
    for (const struct dirent *entry; !found && (entry = readdir(processes));)
        found = isdigit((unsigned char)*entry->d_name) && runs_in_group(entry->d_name, (int)job->numbers[0]);
    closedir(processes);
    return found;
}

int64_t mrh_reap(int pidfd)
{
    siginfo_t ended = {0};
    int result;
    do
        result = waitid((idtype_t)P_PIDFD, (id_t)pidfd, &ended, WEXITED | WNOHANG);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return -errno;
    if (!ended.si_pid)
        return 0;
    look_for_child(ended.si_pid, true);
    bool was_killed = ended.si_code != CLD_EXITED;
    return INT64_C(1) << 32 | (int64_t)was_killed << 31 | ended.si_status;
}

int mrh_adopt_orphans(int adopts)
{
    return prctl(PR_SET_CHILD_SUBREAPER, adopts, 0, 0, 0) < 0 ? -errno : 0;
}

/* A child that was started here is soon reaped by its keeper. The orphans behind it wait until then. */
int64_t mrh_do_reap_orphans(mrh_job *job)
{
    (void)job;
    int64_t count = 0;
    pthread_rwlock_wrlock(&starting);
    for (;;) {
        siginfo_t ended = {0};
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || !ended.si_pid ||
            look_for_child(ended.si_pid, false))
            break;
        if (waitid(P_PID, (id_t)ended.si_pid, &ended, WEXITED | WNOHANG) < 0)
            break;
        count++;
    }
    pthread_rwlock_unlock(&starting);
    return count;
}

int mrh_open_null(void)
{
    int descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

int mrh_open_pty(int *ours, int *theirs, int rows, int columns)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    char name[128];
    *ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (*ours < 0)
        return -errno;
    int error = grantpt(*ours) < 0 || unlockpt(*ours) < 0 ? errno : ptsname_r(*ours, name, sizeof name);
    if (!error) {
        *theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (*theirs >= 0)
            ioctl(*ours, TIOCSWINSZ, &size);
        else
            error = errno;
    }
    if (error)
        close(*ours);
    return -error;
}
