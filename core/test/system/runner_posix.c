/* runner_posix.c: runner.h by fork; every test is a process group. */
#include "../runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A test that is running. */
typedef struct job {
    const harness_test *test;
    pid_t child;
    int ended;  /* a pidfd */
    int output; /* a memfd that takes what the test prints */
    long long start_ms;
    source_line *line;
} job;

static job jobs[JOBS_MAX];
static unsigned running;
static source_line *current_line; /* in the process of a test */

source_line *runner_line(void)
{
    return current_line;
}

extern void __gcov_dump(void) __attribute__((weak));
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* LeakSanitizer opens files. A test may have ended while it had taken all descriptors away. */
static void give_descriptors_back(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* _exit, because other threads are still running. So this does what exit would do: it writes coverage data, and
 * searches for leaks. A test that failed a check still has much memory, to which its stack refers. */
void runner_leave(int status)
{
    if (__gcov_dump)
        __gcov_dump();
    if (HARNESS_FINDS_LEAKS && runner_before_leaks)
        runner_before_leaks();
    if (HARNESS_FINDS_LEAKS)
        give_descriptors_back();
    if (HARNESS_FINDS_LEAKS && __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
        _exit(STATUS_LEAKED);
    _exit(status);
}

void runner_prepare(const harness_test *tests, size_t count, int argc, char **argv)
{
    (void)tests, (void)count, (void)argc, (void)argv;
    source_line *lines =
        mmap(NULL, JOBS_MAX * sizeof *lines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED) {
        perror("harness");
        exit(2);
    }
    for (int i = 0; i < JOBS_MAX; i++)
        jobs[i].line = &lines[i];
}

static _Noreturn void run_in_child(const job *j)
{
    setpgid(0, 0);
    dup2(j->output, STDOUT_FILENO);
    dup2(j->output, STDERR_FILENO);
    /* The test must have the descriptors of a fresh process. */
    for (unsigned i = 0; i <= running; i++) {
        close(jobs[i].output);
        if (i < running)
            close(jobs[i].ended);
    }
    current_line = j->line;
    j->test->run(j->test->argument);
    exit(0); /* not _exit: LeakSanitizer runs at exit */
}

static void print_output(int output)
{
    char buffer[4096];
    ssize_t size;
    off_t offset = 0;
    fflush(stdout);
    while ((size = pread(output, buffer, sizeof buffer, offset)) > 0) {
        if (write(STDOUT_FILENO, buffer, (size_t)size) < 0)
            abort();
        offset += size;
    }
}

static verdict judge(const job *j, int status, bool in_time)
{
    if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return PASSED;
    if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == STATUS_SKIPPED)
        return SKIPPED;
    if (!in_time)
        dprintf(j->output, "no end after %d ms; last known line: %s:%d\n", TIME_LIMIT_MS,
                j->line->file ? j->line->file : "none", j->line->line);
    else if (WIFSIGNALED(status))
        dprintf(j->output, "ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != STATUS_FAILED)
        dprintf(j->output, "ended with status %d\n", WEXITSTATUS(status));
    return FAILED;
}

void runner_start(const harness_test *test)
{
    job *j = &jobs[running];
    source_line *own_line = j->line;
    *j = (job){.test = test, .start_ms = runner_now_ms(), .line = own_line};
    *j->line = (source_line){0};
    j->output = memfd_create("test output", MFD_CLOEXEC);
    fflush(NULL);
    j->child = fork();
    if (j->child == 0)
        run_in_child(j);
    if (j->child < 0 || j->output < 0 || (j->ended = (int)syscall(SYS_pidfd_open, j->child, 0)) < 0) {
        perror("harness");
        exit(2);
    }
    setpgid(j->child, j->child);
    running++;
}

static verdict end_job(unsigned index, bool in_time)
{
    job j = jobs[index];
    int status = 0;
    kill(-j.child, SIGKILL);
    while (waitpid(j.child, &status, 0) < 0 && errno == EINTR)
        ;
    verdict result = judge(&j, status, in_time);
    runner_report(j.test, result, runner_now_ms() - j.start_ms);
    if (result != PASSED)
        print_output(j.output);
    close(j.output);
    close(j.ended);
    jobs[index] = jobs[--running];
    jobs[running].line = j.line;
    return result;
}

verdict runner_await(void)
{
    struct pollfd ended[JOBS_MAX];
    for (;;) {
        long long now = runner_now_ms(), left_ms = TIME_LIMIT_MS;
        for (unsigned i = 0; i < running; i++) {
            long long own_ms = jobs[i].start_ms + TIME_LIMIT_MS - now;
            ended[i] = (struct pollfd){.fd = jobs[i].ended, .events = POLLIN};
            left_ms = own_ms < left_ms ? own_ms : left_ms;
        }
        poll(ended, running, left_ms > 0 ? (int)left_ms : 0);
        for (unsigned i = 0; i < running; i++) {
            if (ended[i].revents)
                return end_job(i, true);
            if (runner_now_ms() >= jobs[i].start_ms + TIME_LIMIT_MS)
                return end_job(i, false);
        }
    }
}
