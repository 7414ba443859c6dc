/* signal.c: each fiber's signal mask, and the signals that it raises. */
#include "interpose_test.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <threads.h>

#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() SKIP("TSan's runtime interposes these calls before we do")
#else
#define SKIP_UNDER_TSAN() ((void)0)
#endif

static void *write_without_sigpipe(void *argument)
{
    pair *p = argument;
    sigset_t own, before;
    char block[4096] = {0};
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &own, &before), 0);
    ssize_t written = write(p->ends[1], block, sizeof block);
    int error = written < 0 ? errno : 0;
    mr_fiber_yield();
    if (error == EPIPE)
        CHECK_EQ(sigtimedwait(&own, NULL, &(struct timespec){0}), SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    return (void *)(intptr_t)error;
}

static pair full_pipe(void)
{
    pair p;
    char block[4096] = {0};
    MUST(pipe2(p.ends, O_NONBLOCK));
    while (write(p.ends[1], block, sizeof block) > 0)
        ;
    MUST(fcntl(p.ends[1], F_SETFL, 0));
    return p;
}

static void make_writable(pair *p)
{
    char block[8192];
    MUST(read(p->ends[0], block, sizeof block));
}

/* As libraries do that must not end the program: the first fiber must not restore what the second has saved. */
static void sigpipe_blocked_by_two_fibers(void)
{
    SKIP_UNDER_TSAN();
    pair one = full_pipe(), other = full_pipe();
    mr_fiber *first = spawn(write_without_sigpipe, &one), *second = spawn(write_without_sigpipe, &other);
    let_fibers_park();
    make_writable(&one);
    CHECK_EQ((intptr_t)join(first), 0);
    MUST(close(other.ends[0]));
    CHECK_EQ((intptr_t)join(second), EPIPE);
    MUST(close(other.ends[1]));
    close_pair(&one);
}

static void *write_to_nobody(void *argument)
{
    const pair *p = argument;
    CHECK_EQ(write(p->ends[1], "x", 1), -1);
    CHECK_EQ(errno, EPIPE);
    return NULL;
}

static void change_mask(int how, int signal_number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    CHECK_EQ(pthread_sigmask(how, &one, NULL), 0);
}

/* By the thread that starts the carriers, as for all the threads that it starts. */
static void start_a_carrier_that_blocks(int signal_number)
{
    CHECK_EQ(mr_carriers_stop(), 0);
    change_mask(SIG_BLOCK, signal_number);
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = 1}), 0);
}

static void sigpipe_blocked_by_the_program(void)
{
    pair p;
    MUST(pipe(p.ends));
    MUST(close(p.ends[0]));
    start_a_carrier_that_blocks(SIGPIPE);
    on_fiber(write_to_nobody, &p);
    MUST(close(p.ends[1]));
}

static atomic_int broken_pipes;

static void count_broken_pipe(int signal_number)
{
    CHECK_EQ(signal_number, SIGPIPE);
    atomic_fetch_add(&broken_pipes, 1);
}

static atomic_int entered, inside, deepest;

/* A signal that arrives while it waits must be handled when it has ended. */
static void wait_in_handler(int signal_number)
{
    int error = errno, now = atomic_fetch_add(&inside, 1) + 1;
    if (now > atomic_load(&deepest))
        atomic_store(&deepest, now);
    if (atomic_fetch_add(&entered, 1) == 0)
        MUST(kill(getpid(), signal_number));
    usleep(1000);
    atomic_fetch_sub(&inside, 1);
    errno = error;
}

static void *let_in_what_waits(void *argument)
{
    change_mask(SIG_UNBLOCK, SIGUSR1);
    errno = EDOM;
    while (atomic_load(&entered) < 2)
        CHECK_EQ(usleep(20000), 0);
    CHECK_EQ(errno, EDOM);
    CHECK_EQ(atomic_load(&deepest), 1);
    return argument;
}

/* A signal that the program blocks for all its threads, and one fiber lets in. */
static void a_handler_that_waits(void)
{
    SKIP_UNDER_TSAN();
    start_a_carrier_that_blocks(SIGUSR1);
    CHECK(signal(SIGUSR1, wait_in_handler) != SIG_ERR);
    mr_fiber *fiber = spawn(let_in_what_waits, NULL);
    let_fibers_park();
    MUST(kill(getpid(), SIGUSR1));
    join(fiber);
}

static atomic_int came;

static void note_that_it_came(int signal_number)
{
    CHECK_EQ(signal_number, SIGUSR1);
    atomic_fetch_add(&came, 1);
}

static bool is_pending_for_process(int signal_number)
{
    sigset_t pending;
    MUST(sigpending(&pending));
    return sigismember(&pending, signal_number);
}

/* Sets its mask to what it is. This must change nothing. */
static void *have_it_pending(void *argument)
{
    sigset_t own;
    for (int i = 0; i < 100; i++) {
        MUST(kill(getpid(), SIGUSR1));
        CHECK_EQ(usleep(100), 0);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &own), 0);
        CHECK(!sigismember(&own, SIGUSR1));
        CHECK_EQ(pthread_sigmask(SIG_SETMASK, &own, NULL), 0);
        CHECK(is_pending_for_process(SIGUSR1));
        CHECK_EQ(atomic_load(&came), 0);
    }
    return argument;
}

static void *ask_for_it(void *argument)
{
    change_mask(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(atomic_load(&came), 1);
    for (int i = 1; i < 100; i++) {
        MUST(kill(getpid(), SIGUSR1));
        CHECK_EQ(usleep(100), 0);
        CHECK_EQ(atomic_load(&came), i + 1);
    }
    return argument;
}

/* The program's only thread blocks it, after the carriers have started. It may wait for the signal by sigwait, so no
 * fiber handles the signal unless it has asked for it. */
static void a_signal_to_the_process_comes_to_a_fiber_that_asks(void)
{
    SKIP_UNDER_TSAN();
    CHECK(signal(SIGUSR1, note_that_it_came) != SIG_ERR);
    change_mask(SIG_BLOCK, SIGUSR1);
    on_fiber(have_it_pending, NULL);
    on_fiber(ask_for_it, NULL);
    MUST(kill(getpid(), SIGUSR1));
    change_mask(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(atomic_load(&came), 101);
}

static void *let_in_what_was_raised(void *argument)
{
    CHECK_EQ(raise(SIGUSR1), 0);
    change_mask(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(atomic_load(&entered), 2);
    MUST(kill(getpid(), SIGUSR1));
    CHECK_EQ(usleep(20000), 0);
    CHECK_EQ(atomic_load(&entered), 3);
    CHECK_EQ(atomic_load(&deepest), 1);
    return argument;
}

/* Signals that are blocked while the handler runs are not blocked afterwards. */
static void a_handler_that_waits_while_a_mask_is_set(void)
{
    SKIP_UNDER_TSAN();
    start_a_carrier_that_blocks(SIGUSR1);
    CHECK(signal(SIGUSR1, wait_in_handler) != SIG_ERR);
    join(spawn(let_in_what_was_raised, NULL));
}

static void *receive_a_part(void *argument)
{
    const pair *p = argument;
    char bytes[4];
    change_mask(SIG_UNBLOCK, SIGUSR1);
    CHECK_EQ(recv(p->ends[0], bytes, sizeof bytes, MSG_WAITALL), 2);
    CHECK_EQ(atomic_load(&entered), 2);
    CHECK_EQ(usleep(1000000), -1);
    CHECK_EQ(errno, EINTR);
    return argument;
}

/* The interruption ends the wait after the call, not one in the handler. */
static void a_handler_that_waits_after_an_interruption(void)
{
    SKIP_UNDER_TSAN();
    pair p = new_pair();
    start_a_carrier_that_blocks(SIGUSR1);
    CHECK(signal(SIGUSR1, wait_in_handler) != SIG_ERR);
    MUST(write(p.ends[1], "ab", 2));
    mr_fiber *fiber = spawn(receive_a_part, &p);
    let_fibers_park();
    MUST(kill(getpid(), SIGUSR1));
    mr_fiber_interrupt(fiber, EINTR);
    join(fiber);
    close_pair(&p);
}

static void *end_a_stream_that_nobody_reads(void *argument)
{
    FILE *stream = popen("exec true", "w");
    CHECK(stream);
    struct pollfd entry = {.fd = fileno(stream)};
    CHECK_EQ(poll(&entry, 1, -1), 1); /* nobody reads any more */
    CHECK_EQ(fputs("text", stream), 1);
    CHECK_EQ(pclose(stream), -1);
    CHECK_EQ(errno, EPIPE);
    CHECK_EQ(atomic_load(&broken_pipes), 1);
    return argument;
}

static void *reopen_a_stream_that_nobody_reads(void *argument)
{
    const pair *p = argument;
    FILE *stream = fdopen(dup(p->ends[1]), "w");
    CHECK_EQ(fputs("text", stream), 1);
    CHECK(freopen("/dev/null", "w", stream));
    CHECK_EQ(atomic_load(&broken_pipes), 2);
    CHECK_EQ(fclose(stream), 0);
    return NULL;
}

/* The fiber writes their buffered bytes, though helpers close them. */
static void streams_that_nobody_reads(void)
{
    pair p;
    MUST(pipe(p.ends));
    MUST(close(p.ends[0]));
    CHECK(signal(SIGPIPE, count_broken_pipe) != SIG_ERR);
    on_fiber(end_a_stream_that_nobody_reads, NULL);
    on_fiber(reopen_a_stream_that_nobody_reads, &p);
    MUST(close(p.ends[1]));
}

static atomic_int beyond_limit;

static void count_beyond_limit(int signal_number)
{
    CHECK_EQ(signal_number, SIGXFSZ);
    atomic_fetch_add(&beyond_limit, 1);
}

static void *write_beyond_limit(void *argument)
{
    int file = *(int *)argument;
    char block[5000] = {0};
    CHECK_EQ(write(file, block, sizeof block), 4096);
    CHECK_EQ(atomic_load(&beyond_limit), 0);
    errno = 0;
    CHECK_EQ(write(file, block, 1), -1);
    CHECK_EQ(errno, EFBIG);
    CHECK_EQ(atomic_load(&beyond_limit), 1);
    return NULL;
}

/* The fiber that wrote must get the signal, although another thread did the write. */
static void a_file_that_would_be_too_large(void)
{
    char path[] = "/dev/shm/millrace-limit-XXXXXX"; /* where the kernel writes nothing without waiting */
    struct rlimit before, limit;
    int file = MUST(mkstemp(path));
    MUST(unlink(path));
    MUST(getrlimit(RLIMIT_FSIZE, &before));
    limit = (struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max};
    CHECK(signal(SIGXFSZ, count_beyond_limit) != SIG_ERR);
    MUST(setrlimit(RLIMIT_FSIZE, &limit));
    on_fiber(write_beyond_limit, &file);
    MUST(setrlimit(RLIMIT_FSIZE, &before));
    MUST(close(file));
}

static void *read_terminal(void *argument)
{
    char byte;
    return (void *)read(*(int *)argument, &byte, 1);
}

/* Neither is in the process group that ends with the test. */
static pid_t fork_until_this_process_ends(void)
{
    pid_t child = MUST(fork());
    if (child == 0)
        MUST(prctl(PR_SET_PDEATHSIG, SIGKILL));
    return child;
}

static pid_t run_in_the_background(void *(*run)(void *), int terminal)
{
    pid_t child = fork_until_this_process_ends();
    if (child == 0) {
        CHECK(signal(SIGTTIN, SIG_DFL) != SIG_ERR);
        CHECK(signal(SIGTTOU, SIG_DFL) != SIG_ERR);
        MUST(setpgid(0, 0));
        on_fiber(run, &terminal);
        _exit(0);
    }
    return child;
}

static void must_stop(void *(*run)(void *), int terminal, int signal_number)
{
    int status;
    pid_t child = run_in_the_background(run, terminal);
    MUST(waitpid(child, &status, WUNTRACED));
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(WSTOPSIG(status), signal_number);
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
}

static void *write_to_terminal(void *argument)
{
    return (void *)write(*(int *)argument, "x", 1);
}

/* Nobody could continue it, so the call fails with EIO instead. */
static void *read_without_a_shell(void *argument)
{
    CHECK(signal(SIGTTIN, SIG_IGN) != SIG_ERR);
    CHECK_EQ((intptr_t)read_terminal(argument), -1);
    CHECK_EQ(errno, EIO);
    _exit(0);
}

static void lead_a_session(void)
{
    struct termios settings;
    int user, terminal, status;
    MUST(setsid());
    MUST(openpty(&user, &terminal, NULL, NULL, NULL));
    MUST(ioctl(terminal, TIOCSCTTY, 0));
    must_stop(read_terminal, terminal, SIGTTIN);
    pid_t child = run_in_the_background(read_without_a_shell, terminal);
    MUST(waitpid(child, &status, 0));
    CHECK_EQ(status, 0);
    MUST(write(user, "x\n", 2));
    must_stop(read_terminal, terminal, SIGTTIN);
    MUST(tcgetattr(terminal, &settings));
    settings.c_lflag |= TOSTOP;
    MUST(tcsetattr(terminal, TCSANOW, &settings));
    must_stop(write_to_terminal, terminal, SIGTTOU);
}

static void using_the_terminal_in_the_background(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("TSan cannot start threads after the fork of a process with several");
#endif
    int status;
    usleep(100000); /* ASan's allocator must not be in use when the process forks */
    pid_t leader = fork_until_this_process_ends();
    if (leader == 0) {
        lead_a_session();
        _exit(0);
    }
    MUST(waitpid(leader, &status, 0));
    CHECK_EQ(status, 0);
}

static void *tell_mask(void *argument)
{
    sigset_t *mask = argument;
    CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, mask), 0);
    return NULL;
}

static void *block_and_wait(void *argument)
{
    sigset_t own, now;
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &own, NULL), 0);
    usleep(20000);
    tell_mask(&now);
    CHECK(sigismember(&now, SIGPIPE));
    return argument;
}

static void a_mask_is_one_fibers(void)
{
    SKIP_UNDER_TSAN();
    sigset_t mask;
    mr_fiber *fiber = spawn(block_and_wait, NULL);
    on_fiber(tell_mask, &mask);
    CHECK(!sigismember(&mask, SIGPIPE));
    join(fiber);
    on_fiber(tell_mask, &mask);
    CHECK(!sigismember(&mask, SIGPIPE));
}

/* The thread's, as the kernel has it. */
static uint64_t mask_in_force(void)
{
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
    return mask;
}

static bool is_in(uint64_t mask, int signal_number)
{
    return mask >> (signal_number - 1) & 1;
}

static void *ask_and_put_back(void *argument)
{
    sigset_t one, before, now;
    uint64_t in_force = mask_in_force();
    CHECK(is_in(in_force, SIGUSR1));
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    tell_mask(&before);
    CHECK(!sigismember(&before, SIGUSR1) && !sigismember(&before, SIGUSR2));
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &one, &now), 0);
    CHECK(!sigismember(&now, SIGUSR1));
    tell_mask(&now);
    CHECK(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
    CHECK_EQ(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    tell_mask(&now);
    CHECK(!sigismember(&now, SIGUSR1));
    CHECK(mask_in_force() == in_force);
    CHECK_EQ(sigprocmask(99, &one, NULL), -1);
    CHECK_EQ(errno, EINVAL);
    CHECK_EQ(sigprocmask(99, NULL, &now), 0);
    return argument;
}

/* A fiber must see its mask and not the carrier's: it may pass the mask to a process that it starts, or restore it
 * later. */
static void the_carriers_mask_is_not_seen(void)
{
    SKIP_UNDER_TSAN();
    on_fiber(ask_and_put_back, NULL);
}

/* As programs do that let no handler run in the child. */
static void *vfork_and_put_back(void *argument)
{
    int status;
    static sigset_t every, before, now;
    (void)argument;
    sigfillset(&every);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &every, &before), 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    pid_t child = vfork();
#pragma GCC diagnostic pop
    if (child == 0) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        _exit(is_in(mask_in_force(), SIGUSR2));
    }
    MUST(waitpid(child, &status, 0));
    CHECK_EQ(status, 0);
    tell_mask(&now);
    CHECK(sigismember(&now, SIGUSR2));
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    return NULL;
}

static void a_vforked_child_sets_its_own_mask(void)
{
    SKIP_UNDER_TSAN();
    on_fiber(vfork_and_put_back, NULL);
}

static void *look_at_mask_of_carrier(void *argument)
{
    CHECK(!is_in(mask_in_force(), SIGURG));
    return argument;
}

static void *change_mask_of_carrier(void *argument)
{
    sigset_t urgent, own, now;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &own, NULL), 0);
    mr_fiber *fiber = mr_fiber_enter_thread();
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &urgent, &now), 0);
    CHECK(!sigismember(&now, SIGPIPE));
    mr_fiber_leave_thread(fiber);
    usleep(1000);
    tell_mask(&now);
    CHECK(sigismember(&now, SIGPIPE));
    return argument;
}

/* What is changed between mr_fiber_enter_thread and mr_fiber_leave_thread is not the fiber's. */
static void the_carriers_mask_can_be_changed(void)
{
    SKIP_UNDER_TSAN();
    sigset_t mask;
    on_fiber(change_mask_of_carrier, NULL);
    on_fiber(look_at_mask_of_carrier, NULL);
    on_fiber(block_and_wait, NULL);
    on_fiber(tell_mask, &mask);
    CHECK(!sigismember(&mask, SIGURG));
    CHECK(!sigismember(&mask, SIGPIPE));
}

static volatile sig_atomic_t handled;

static void note(int signal_number)
{
    handled = signal_number;
}

static void *raise_and_look(void *argument)
{
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(handled, SIGUSR1);
    return argument;
}

static void *send_to_oneself_and_look(void *argument)
{
    CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
    CHECK_EQ(handled, SIGUSR1);
    CHECK_EQ(pthread_kill(pthread_self(), 0), 0);
    CHECK_EQ(pthread_kill(pthread_self(), 1000), EINVAL);
    return argument;
}

static void *raise_with_another_blocked(void *argument)
{
    sigset_t another;
    sigemptyset(&another);
    sigaddset(&another, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &another, NULL), 0);
    return raise_and_look(argument);
}

static void *raise_and_let_in(void *argument)
{
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(handled, 0);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    CHECK_EQ(handled, SIGUSR1);
    return argument;
}

static void what_a_fiber_raises_is_handled(void)
{
    SKIP_UNDER_TSAN();
    CHECK(signal(SIGUSR1, note) != SIG_ERR);
    on_fiber(raise_and_look, NULL);
    handled = 0;
    on_fiber(send_to_oneself_and_look, NULL);
    handled = 0;
    on_fiber(raise_with_another_blocked, NULL);
    handled = 0;
    on_fiber(raise_and_let_in, NULL);
}

/* -------------------------------------------------------------------------- threads and processes begin with it --- */

static void *tell_mask_of_thread(void *argument)
{
    return tell_mask(argument);
}

static int tell_mask_of_c11_thread(void *argument)
{
    tell_mask(argument);
    return 0;
}

static sigset_t mask_of_new_thread(void)
{
    sigset_t mask;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, tell_mask_of_thread, &mask), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return mask;
}

static sigset_t mask_of_new_c11_thread(void)
{
    sigset_t mask;
    thrd_t thread;
    CHECK_EQ(thrd_create(&thread, tell_mask_of_c11_thread, &mask), thrd_success);
    CHECK_EQ(thrd_join(thread, NULL), thrd_success);
    return mask;
}

static bool child_blocks(int signal_number)
{
    int status;
    sigset_t mask;
    pid_t child = MUST(fork());
    if (child == 0) {
        tell_mask(&mask);
        _exit(sigismember(&mask, signal_number));
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Whether a new program continues after it has sent itself this signal, because its mask blocks it. */
static bool program_blocks(int signal_number)
{
    int status;
    pid_t child;
    char command[64];
    char *const words[] = {"sh", "-c", command, NULL};
    snprintf(command, sizeof command, "kill -%d $$; exit 0", signal_number);
    CHECK_EQ(posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status);
}

static void what_begins_must_block(int signal_number, bool is_blocked)
{
    sigset_t thread = mask_of_new_thread(), c11 = mask_of_new_c11_thread();
    CHECK_EQ(sigismember(&thread, signal_number), is_blocked);
    CHECK_EQ(sigismember(&c11, signal_number), is_blocked);
    CHECK_EQ(child_blocks(signal_number), is_blocked);
    CHECK_EQ(program_blocks(signal_number), is_blocked);
}

static void *block_start_and_put_back(void *argument)
{
    sigset_t one, every, before;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigfillset(&every);
    what_begins_must_block(SIGUSR1, false);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    what_begins_must_block(SIGUSR1, true);
    what_begins_must_block(SIGUSR2, false);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    what_begins_must_block(SIGUSR1, false);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &every, &before), 0);
    what_begins_must_block(SIGUSR2, true);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    what_begins_must_block(SIGUSR2, false);
    return argument;
}

/* Carriers block every signal. Threads and processes that a fiber starts must have the program's mask. */
static void what_a_fiber_starts_has_its_mask(void)
{
    SKIP_UNDER_TSAN();
    on_fiber(block_start_and_put_back, NULL);
}

static void *name_a_mask(void *argument)
{
    sigset_t one, mask;
    pthread_t thread;
    pthread_attr_t attributes;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setsigmask_np(&attributes, &one), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, tell_mask_of_thread, &mask), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(sigismember(&mask, SIGUSR1));
    CHECK(!sigismember(&mask, SIGUSR2));
    CHECK_EQ(pthread_attr_destroy(&attributes), 0);
    return argument;
}

static void a_mask_among_a_threads_attributes(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(14);
    SKIP_UNDER_TSAN();
    on_fiber(name_a_mask, NULL);
}

static void *look_at_new_threads(void *argument)
{
    sigset_t thread = mask_of_new_thread(), c11 = mask_of_new_c11_thread();
    CHECK(sigismember(&thread, SIGUSR1) && !sigismember(&thread, SIGUSR2));
    CHECK(sigismember(&c11, SIGUSR1) && !sigismember(&c11, SIGUSR2));
    return argument;
}

static void a_mask_among_the_attributes_of_all_threads(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(14);
    SKIP_UNDER_TSAN();
    sigset_t one;
    pthread_attr_t attributes;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQ(pthread_getattr_default_np(&attributes), 0);
    CHECK_EQ(pthread_attr_setsigmask_np(&attributes, &one), 0);
    CHECK_EQ(pthread_setattr_default_np(&attributes), 0);
    on_fiber(look_at_new_threads, NULL);
    CHECK_EQ(pthread_attr_setsigmask_np(&attributes, NULL), 0);
    CHECK_EQ(pthread_setattr_default_np(&attributes), 0);
    CHECK_EQ(pthread_attr_destroy(&attributes), 0);
}

const fiber_case signal_cases[] = {
    CASE(sigpipe_blocked_by_two_fibers),
    CASE(sigpipe_blocked_by_the_program),
    CASE(a_signal_to_the_process_comes_to_a_fiber_that_asks),
    CASE(a_handler_that_waits),
    CASE(a_handler_that_waits_while_a_mask_is_set),
    CASE(a_handler_that_waits_after_an_interruption),
    CASE(streams_that_nobody_reads),
    CASE(a_file_that_would_be_too_large),
    CASE(using_the_terminal_in_the_background),
    CASE(a_mask_is_one_fibers),
    CASE(the_carriers_mask_is_not_seen),
    CASE(a_vforked_child_sets_its_own_mask),
    CASE(the_carriers_mask_can_be_changed),
    CASE(what_a_fiber_raises_is_handled),
    CASE(what_a_fiber_starts_has_its_mask),
    CASE(a_mask_among_a_threads_attributes),
    CASE(a_mask_among_the_attributes_of_all_threads),
    {0},
};
