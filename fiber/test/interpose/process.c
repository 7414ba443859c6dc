/* process.c: waiting for children. */
#include "interpose_test.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static pid_t child_that_ends_after_ms(unsigned ms, int status)
{
    pid_t child = MUST(fork());
    if (child == 0) {
        usleep(ms * 1000);
        _exit(status);
    }
    return child;
}

static void *wait_for_one(void *argument)
{
    int status;
    pid_t child = *(pid_t *)argument;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 5);
    CHECK_EQ(waitpid(child, &status, 0), -1);
    CHECK_EQ(errno, ECHILD);
    return NULL;
}

static void waitpid_of_one(void)
{
    pid_t child = child_that_ends_after_ms(PAUSE_MS, 5);
    must_leave_carrier_free(wait_for_one, &child);
}

static void *wait_for_any(void *argument)
{
    int status;
    siginfo_t info;
    struct rusage usage;
    pid_t *children = argument;
    CHECK_EQ(wait(&status), children[0]);
    CHECK_EQ(WEXITSTATUS(status), 1);
    CHECK_EQ(wait4(-1, &status, 0, &usage), children[1]);
    CHECK_EQ(WEXITSTATUS(status), 2);
    CHECK_EQ(waitid(P_PID, (id_t)children[2], &info, WEXITED), 0);
    CHECK_EQ(info.si_pid, children[2]);
    CHECK_EQ(info.si_status, 3);
    CHECK_EQ(wait(&status), -1);
    CHECK_EQ(errno, ECHILD);
    return NULL;
}

static void the_other_forms(void)
{
    pid_t children[3];
    for (int i = 0; i < 3; i++)
        children[i] = child_that_ends_after_ms((unsigned)(i + 1) * PAUSE_MS, i + 1);
    must_leave_carrier_free(wait_for_any, children);
}

static void *wait_by_pidfd(void *argument)
{
    siginfo_t info;
    int nonblocking = MUST((int)syscall(SYS_pidfd_open, *(pid_t *)argument, O_NONBLOCK));
    CHECK_EQ(waitid(P_PIDFD, (id_t)nonblocking, &info, WEXITED), -1);
    CHECK_EQ(errno, EAGAIN);
    MUST(fcntl(nonblocking, F_SETFL, 0));
    CHECK_EQ(waitid(P_PIDFD, (id_t)nonblocking, &info, WEXITED), 0);
    CHECK_EQ(info.si_status, 6);
    MUST(close(nonblocking));
    return NULL;
}

static void waitid_by_pidfd(void)
{
    pid_t child = child_that_ends_after_ms(PAUSE_MS, 6);
    must_leave_carrier_free(wait_by_pidfd, &child);
}

static long voluntary_switches(void)
{
    struct rusage usage;
    MUST(getrusage(RUSAGE_THREAD, &usage));
    return usage.ru_nvcsw;
}

/* The carrier has nothing else to do, and sleeps once for the whole wait. If it polled, it would sleep twenty times. */
static void *count_looks(void *argument)
{
    siginfo_t info;
    int by = MUST((int)syscall(SYS_pidfd_open, *(pid_t *)argument, 0));
    long before = voluntary_switches();
    CHECK_EQ(waitid(P_PIDFD, (id_t)by, &info, WEXITED), 0);
    CHECK_LT(voluntary_switches() - before, 10);
    MUST(close(by));
    return NULL;
}

static void waitid_by_pidfd_is_told(void)
{
    pid_t child = child_that_ends_after_ms(PAUSE_MS, 0);
    on_fiber(count_looks, &child);
}

static void *run_command(void *argument)
{
    int status = system("sleep 0.3; exit 3");
    CHECK_EQ(WEXITSTATUS(status), 3);
    return argument;
}

static void *run_piped_command(void *argument)
{
    int status;
    FILE *stream = popen("sleep 0.3; exit 4", "r");
    CHECK(stream != NULL);
    status = pclose(stream);
    CHECK_EQ(WEXITSTATUS(status), 4);
    return argument;
}

static pid_t child_that_can_be_traced(void)
{
    pid_t child = MUST(fork());
    if (child == 0) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* where Yama forbids others */
        for (;;)
            pause();
    }
    return child;
}

/* Reports by a byte whether it could take the lock, and releases it at its end. */
static pid_t trace_for_a_while(pid_t traced, int ready_end)
{
    pid_t tracer = MUST(fork());
    if (tracer == 0) {
        usleep(20000); /* until the child has allowed it */
        char can = ptrace(PTRACE_SEIZE, traced, NULL, NULL) == 0;
        if (write(ready_end, &can, 1) == 1)
            usleep(PAUSE_MS * 1000);
        _exit(0);
    }
    return tracer;
}

static void *wait_for_it(void *argument)
{
    int status;
    pid_t child = *(pid_t *)argument;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    return NULL;
}

static double processor_seconds(void)
{
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The tracer learns first of the end of a child. The pidfd reports the end at once, and wait4 reports nothing until
 * the tracer is gone. */
static void waiting_for_a_traced_child_does_not_spin(void)
{
    int ready_pipe[2];
    char can = 0;
    MUST(pipe(ready_pipe));
    pid_t child = child_that_can_be_traced(), tracer = trace_for_a_while(child, ready_pipe[1]);
    MUST(read(ready_pipe[0], &can, 1));
    MUST(kill(child, SIGKILL));
    double before = processor_seconds();
    on_fiber(wait_for_it, &child);
    double spent = processor_seconds() - before;
    MUST(waitpid(tracer, NULL, 0));
    close(ready_pipe[0]);
    close(ready_pipe[1]);
    if (!can)
        SKIP("no process may trace another");
    CHECK(spent < 0.01 * HARNESS_SLOWNESS); /* looks in between cost less than one millisecond */
}

/* A command that ends itself by a signal, which works only if its mask does not block that signal. */
static void *run_commands_that_end_by_a_signal(void *argument)
{
    int status = system("kill -TERM $$; exit 1");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    FILE *stream = popen("kill -TERM $$; exit 1", "r");
    CHECK(stream != NULL);
    status = pclose(stream);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    char *const words[] = {"sh", "-c", "kill -TERM $$; exit 1", NULL};
    pid_t child;
    CHECK_EQ(posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK_EQ(posix_spawnp(&child, "sh", NULL, NULL, words, environ), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    child = MUST(fork());
    if (child == 0) {
        kill(getpid(), SIGTERM);
        _exit(1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    return argument;
}

static void what_fibers_start_has_no_signals_blocked(void)
{
    on_fiber(run_commands_that_end_by_a_signal, NULL);
}

static void commands(void)
{
    must_leave_carrier_free(run_command, NULL);
    must_leave_carrier_free(run_piped_command, NULL);
}

static void *look_for_a_child(void *argument)
{
    int *ends = argument;
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        char byte;
        _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
    }
    int status = -1;
    while (waitpid(child, &status, WNOHANG) == 0)
        ;
    CHECK_EQ(status, 0);
    return NULL;
}

static void *let_the_child_end(void *argument)
{
    int *ends = argument;
    MUST(write(ends[1], "x", 1));
    return NULL;
}

static void looking_for_a_child_lets_others_run(void)
{
    int ends[2];
    MUST(pipe(ends));
    mr_fiber *looks = spawn(look_for_a_child, ends), *lets = spawn(let_the_child_end, ends);
    join(looks);
    join(lets);
    close(ends[0]);
    close(ends[1]);
}

const fiber_case process_cases[] = {
    CASE(looking_for_a_child_lets_others_run),
    CASE(waitpid_of_one),
    CASE(the_other_forms),
    CASE(waitid_by_pidfd),
    CASE(waitid_by_pidfd_is_told),
    CASE(waiting_for_a_traced_child_does_not_spin),
    CASE(commands),
    CASE(what_fibers_start_has_no_signals_blocked),
    {0},
};
