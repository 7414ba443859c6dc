/* fault.c: see fault.h. The functions that may fail are at the end. */
#include "fault.h"
#include "../runner.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_LIMIT_MS = 60000, SAMPLE = 1 };

/* What parent and child share of one run. */
typedef struct report {
    atomic_uint calls;
    unsigned failing;     /* the number of the call that fails, from 1 on; 0: none */
    unsigned variant;     /* which of its errors */
    unsigned variants;    /* how many it has; 0: there was no such call */
    const char *function; /* its name; child and parent have the same program */
    const char *with;
} report;

static report *shared;

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "exitcode=99:abort_on_error=0";
}

const char *__ubsan_default_options(void)
{
    return "exitcode=99:abort_on_error=0";
}

/* --------------------------------------------------------------------------------------------- which call fails --- */

typedef struct failure {
    int code; /* an errno; 0: the call returns 0 */
    const char *text;
} failure;

static atomic_int writes;

void fault_set_writes(fault_writes what)
{
    atomic_store(&writes, what);
}

static const failure *of_nothing(const failure *failures, unsigned count)
{
    return atomic_load(&writes) == FAULT_WRITES_OF_NOTHING && failures[count - 1].code == 0 ? &failures[count - 1]
                                                                                            : NULL;
}

/* Whether calls of this function may fail (FAULTS_OF). */
static bool is_wanted(const char *function)
{
    const char *word = getenv("FAULTS_OF");
    if (!word)
        return true;
    for (size_t length; (length = strcspn(word, " ")) > 0; word += length + (word[length] == ' '))
        if (strncmp(function, word, length) == 0)
            return true;
    return false;
}

/* The failure that this call should report, or NULL. */
static const failure *due(const char *function, const failure *failures, unsigned count)
{
    if (!shared || !is_wanted(function) || atomic_fetch_add(&shared->calls, 1) + 1 != shared->failing)
        return of_nothing(failures, count);
    shared->function = function;
    shared->variants = count;
    const failure *chosen = &failures[shared->variant % count];
    shared->with = chosen->text;
    return chosen;
}

bool fault_is_due(const char *function, const char *with)
{
    return due(function, &(failure){.code = ENOMEM, .text = with}, 1) != NULL;
}

/* --------------------------------------------------------------------------------------------------- one child --- */

typedef struct outcome {
    int status;
    bool in_time;
    int output; /* a memfd */
} outcome;

static _Noreturn void run_child(void (*run)(void), int output)
{
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    setpgid(0, 0); /* with all processes that the test starts */
    run();
    exit(0); /* not _exit: LeakSanitizer runs at exit */
}

static outcome run_with(void (*run)(void), unsigned failing, unsigned variant)
{
    outcome result = {.output = memfd_create("output of a run", MFD_CLOEXEC), .in_time = true};
    *shared = (report){.failing = failing, .variant = variant};
    fflush(NULL);
    pid_t child = MUST(fork());
    if (child == 0)
        run_child(run, result.output);
    struct pollfd end = {.fd = MUST(syscall(SYS_pidfd_open, child, 0)), .events = POLLIN};
    result.in_time = MUST(poll(&end, 1, CHILD_LIMIT_MS)) > 0;
    if (!result.in_time)
        kill(child, SIGABRT);
    kill(-child, SIGKILL);
    if (!result.in_time)
        kill(child, SIGKILL);
    MUST(waitpid(child, &result.status, 0));
    close(end.fd);
    return result;
}

static fault_ends may_end;

static bool says_out_of_memory(int output)
{
    char bytes[4096] = {0};
    ssize_t size = pread(output, bytes, sizeof bytes - 1, 0);
    return size > 0 && strstr(bytes, "millrace: out of memory");
}

/* True if the test has passed, failed a check, or was skipped. */
static bool is_acceptable(const outcome *result)
{
    if (!result->in_time)
        return false;
    if (!WIFEXITED(result->status))
        return may_end == FAULT_MAY_END_THE_PROCESS && WTERMSIG(result->status) == SIGABRT &&
               says_out_of_memory(result->output);
    return WEXITSTATUS(result->status) != STATUS_LEAKED;
}

static void copy_output(int output)
{
    char bytes[4096];
    ssize_t size;
    for (off_t at = 0; (size = pread(output, bytes, sizeof bytes, at)) > 0; at += size)
        if (write(STDERR_FILENO, bytes, (size_t)size) < 0)
            abort();
}

static void must_be_acceptable(const outcome *result)
{
    if (!is_acceptable(result)) {
        copy_output(result->output);
        FAIL("call #%u, %s, failed with %s: the test %s", shared->failing, shared->function ? shared->function : "none",
             shared->with ? shared->with : "nothing",
             !result->in_time              ? "did not end"
             : WIFSIGNALED(result->status) ? strsignal(WTERMSIG(result->status))
                                           : "ended with a sanitizer's report");
    }
    close(result->output);
}

/* Runs the test once for each error of one call. */
static void let_fail(void (*run)(void), unsigned call)
{
    unsigned variant = 0;
    do {
        outcome result = run_with(run, call, variant);
        must_be_acceptable(&result);
    } while (++variant < shared->variants);
}

/* Runs the test with one error of one call. */
static void let_fail_once(void (*run)(void), unsigned call, unsigned variant)
{
    outcome result = run_with(run, call, variant);
    must_be_acceptable(&result);
}

static unsigned count_calls(void (*run)(void))
{
    outcome result = run_with(run, 0, 0);
    if (!result.in_time || !WIFEXITED(result.status) || WEXITSTATUS(result.status) != 0) {
        copy_output(result.output);
        if (result.in_time && WIFEXITED(result.status) && WEXITSTATUS(result.status) == 77)
            SKIP("it cannot run here");
        FAIL("it fails without a fault");
    }
    close(result.output);
    return atomic_load(&shared->calls);
}

void fault_run(void (*run)(void), fault_ends ends)
{
    may_end = ends;
    const char *wanted = getenv("FAULTS");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    unsigned calls = count_calls(run);
    if (wanted && *wanted == '#') {
        let_fail(run, (unsigned)atoi(wanted + 1));
    } else if (wanted && strcmp(wanted, "all") == 0) {
        for (unsigned call = 1; call <= calls; call++)
            let_fail(run, call);
    } else {
        uint64_t random = harness_first_seed();
        for (int i = 0; calls && i < (wanted ? atoi(wanted) : SAMPLE); i++) {
            unsigned call = 1 + harness_random(&random) % calls;
            let_fail_once(run, call, harness_random(&random));
        }
    }
}

/* ---------------------------------------------------------------------------------- the functions that may fail --- */

#define WITH(code)  \
    {               \
        code, #code \
    }
#define RETURNS_0     \
    {                 \
        0, "result 0" \
    }

/* FAILING(type, name, (parameters), (arguments), result when it fails, failures...): errno says why. */
#define FAILING(type, name, parameters, arguments, value, ...)                         \
    type fault_##name parameters;                                                      \
    type fault_##name parameters                                                       \
    {                                                                                  \
        static const failure failures[] = {__VA_ARGS__};                               \
        const failure *now = due(#name, failures, sizeof failures / sizeof *failures); \
        if (!now)                                                                      \
            return name arguments;                                                     \
        errno = now->code ? now->code : errno;                                         \
        return now->code ? (type)(value) : (type)0;                                    \
    }

/* For functions of liburing, which return the negative error. */
#define FAILING_NEGATIVE(name, parameters, arguments, ...)                             \
    int fault_##name parameters;                                                       \
    int fault_##name parameters                                                        \
    {                                                                                  \
        static const failure failures[] = {__VA_ARGS__};                               \
        const failure *now = due(#name, failures, sizeof failures / sizeof *failures); \
        return now ? -now->code : name arguments;                                      \
    }

FAILING(void *, malloc, (size_t size), (size), NULL, WITH(ENOMEM))
FAILING(void *, calloc, (size_t count, size_t size), (count, size), NULL, WITH(ENOMEM))
FAILING(void *, realloc, (void *old, size_t size), (old, size), NULL, WITH(ENOMEM))
FAILING(void *, mmap, (void *at, size_t size, int access, int flags, int file, off_t offset),
        (at, size, access, flags, file, offset), MAP_FAILED, WITH(ENOMEM))
FAILING(int, madvise, (void *at, size_t size, int advice), (at, size, advice), -1, WITH(EINVAL), WITH(ENOMEM))
FAILING(int, mprotect, (void *at, size_t size, int access), (at, size, access), -1, WITH(ENOMEM))

FAILING(int, eventfd, (unsigned count, int flags), (count, flags), -1, WITH(EMFILE), WITH(ENOMEM))
FAILING(int, epoll_create1, (int flags), (flags), -1, WITH(EMFILE), WITH(ENOMEM))
FAILING(int, epoll_ctl, (int epoll, int what, int number, struct epoll_event *event), (epoll, what, number, event), -1,
        WITH(ENOMEM), WITH(ENOSPC))
FAILING(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int ms), (epoll, events, most, ms), -1,
        WITH(EINTR))
FAILING(int, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms), -1, WITH(EINTR), WITH(ENOMEM))
FAILING(int, ppoll, (struct pollfd * fds, nfds_t count, const struct timespec *limit, const sigset_t *mask),
        (fds, count, limit, mask), -1, WITH(EINTR), WITH(ENOMEM))

FAILING(int, accept4, (int number, struct sockaddr *address, socklen_t *size, int flags),
        (number, address, size, flags), -1, WITH(EMFILE), WITH(ECONNABORTED), WITH(ENOBUFS), WITH(EINTR), WITH(EPERM))
FAILING(int, connect, (int number, const struct sockaddr *address, socklen_t size), (number, address, size), -1,
        WITH(ECONNREFUSED), WITH(ENETUNREACH), WITH(EADDRNOTAVAIL))
FAILING(ssize_t, recvmsg, (int number, struct msghdr *message, int flags), (number, message, flags), -1, WITH(EINTR),
        WITH(ECONNRESET), WITH(ENOMEM))
FAILING(ssize_t, sendmsg, (int number, const struct msghdr *message, int flags), (number, message, flags), -1,
        WITH(EINTR), WITH(EPIPE), WITH(ENOBUFS), WITH(ECONNRESET), RETURNS_0)
FAILING(ssize_t, sendfile, (int to, int from, off_t *offset, size_t size), (to, from, offset, size), -1, WITH(EINTR),
        WITH(EIO), WITH(ENOMEM))
FAILING(ssize_t, pread, (int number, void *bytes, size_t size, off_t offset), (number, bytes, size, offset), -1,
        WITH(EINTR), WITH(EIO))
FAILING(ssize_t, pwrite, (int number, const void *bytes, size_t size, off_t offset), (number, bytes, size, offset), -1,
        WITH(EINTR), WITH(EIO), WITH(ENOSPC), RETURNS_0)
FAILING(ssize_t, preadv2, (int number, const struct iovec *vector, int count, off_t offset, int flags),
        (number, vector, count, offset, flags), -1, WITH(EAGAIN), WITH(EOPNOTSUPP), WITH(EIO))
FAILING(int, fsync, (int number), (number), -1, WITH(EINTR), WITH(EIO), WITH(ENOSPC))
FAILING(int, getsockopt, (int number, int level, int name, void *value, socklen_t *size),
        (number, level, name, value, size), -1, WITH(ENOBUFS))
FAILING(int, shutdown, (int number, int how), (number, how), -1, WITH(ENOTCONN), WITH(ENOBUFS))
FAILING(int, fstat, (int number, struct stat *status), (number, status), -1, WITH(EIO), WITH(ENOMEM))

FAILING_NEGATIVE(io_uring_queue_init_params, (unsigned entries, struct io_uring *ring, struct io_uring_params *params),
                 (entries, ring, params), WITH(ENOMEM), WITH(EMFILE), WITH(EPERM))
FAILING_NEGATIVE(io_uring_submit, (struct io_uring * ring), (ring), WITH(EINTR), WITH(EAGAIN), WITH(EBUSY),
                 WITH(ENOMEM))
FAILING_NEGATIVE(io_uring_submit_and_wait, (struct io_uring * ring, unsigned count), (ring, count), WITH(EINTR),
                 WITH(EAGAIN), WITH(EBUSY))
FAILING_NEGATIVE(io_uring_submit_and_get_events, (struct io_uring * ring), (ring), WITH(EINTR), WITH(EAGAIN),
                 WITH(EBUSY), WITH(ENOMEM))
FAILING_NEGATIVE(io_uring_get_events, (struct io_uring * ring), (ring), WITH(EINTR), WITH(EAGAIN), WITH(EBUSY))
FAILING_NEGATIVE(io_uring_register_buf_ring, (struct io_uring * ring, struct io_uring_buf_reg *reg, unsigned flags),
                 (ring, reg, flags), WITH(ENOMEM), WITH(EINVAL))
FAILING(struct io_uring_probe *, io_uring_get_probe_ring, (struct io_uring * ring), (ring), NULL, WITH(ENOMEM))

/* The system calls that the core makes by number. NULL: this one succeeds. */
static const failure *due_by_number(long number)
{
    static const failure receiving[] = {WITH(EINTR), WITH(ECONNRESET), WITH(ENOMEM)};
    static const failure sending[] = {WITH(EINTR), WITH(EPIPE), WITH(ENOBUFS), WITH(ECONNRESET), RETURNS_0};
    static const failure counting_pages[] = {WITH(EBADF), WITH(EPERM)};
    switch (number) {
    case SYS_recvfrom:
        return due("recvfrom", receiving, sizeof receiving / sizeof *receiving);
    case SYS_sendto:
        return due("sendto", sending, sizeof sending / sizeof *sending);
    case SYS_io_uring_register: /* to enable a ring fails only if it is enabled */
        return NULL;
    default:
        return due("cachestat", counting_pages, sizeof counting_pages / sizeof *counting_pages);
    }
}

long fault_syscall(long number, ...);
long fault_syscall(long number, ...)
{
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    const failure *now = due_by_number(number);
    if (!now)
        return syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    errno = now->code ? now->code : errno;
    return now->code ? -1 : 0;
}

/* It returns its error. */
int fault_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int fault_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    static const failure failures[] = {WITH(EAGAIN)};
    const failure *now = due("pthread_create", failures, sizeof failures / sizeof *failures);
    return now ? now->code : pthread_create(thread, attributes, run, argument);
}

/* close frees the number even if it returns an error. */
int fault_close(int number);
int fault_close(int number)
{
    static const failure failures[] = {WITH(EINTR), WITH(EIO)};
    const failure *now = due("close", failures, sizeof failures / sizeof *failures);
    int result = close(number);
    if (!now)
        return result;
    errno = now->code;
    return -1;
}

/* ---------------------------------------------------------------------------------------------- a whole program --- */

static const harness_test *current;

static void run_current(void)
{
    current->run(current->argument);
}

static void run_with_faults(uintptr_t test)
{
    current = (const harness_test *)test;
    fault_run(run_current, FAULT_REACHES_ITS_CALLER);
}

int fault_main(const harness_test *tests, size_t count, int argc, char **argv)
{
    harness_test *faulty = calloc(count, sizeof *faulty);
    CHECK(faulty != NULL);
    for (size_t i = 0; i < count; i++)
        faulty[i] = (harness_test){tests[i].name, run_with_faults, (uintptr_t)&tests[i]};
    int status = harness_main(faulty, count, argc, argv);
    free(faulty);
    return status;
}
