/* interrupt.c: mr_fiber_interrupt ends every kind of parked call, and loses nothing. */
#include "interpose_test.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct interruptible {
    const char *name;
    long (*call)(int descriptor);
} interruptible;

static long call_read(int descriptor)
{
    char byte;
    return read(descriptor, &byte, 1);
}

static long call_recv(int descriptor)
{
    char byte;
    return recv(descriptor, &byte, 1, 0);
}

static long call_poll(int descriptor)
{
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    return poll(&entry, 1, -1);
}

static long call_poll_with_timeout(int descriptor)
{
    struct pollfd entries[] = {{.fd = descriptor, .events = POLLIN}, {.fd = descriptor, .events = POLLPRI}};
    return poll(entries, 2, 60000);
}

static long call_select(int descriptor)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(descriptor, &set);
    return select(descriptor + 1, &set, NULL, NULL, NULL);
}

static long call_epoll(int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event));
    long result = epoll_wait(set, &event, 1, -1);
    int error = errno;
    close(set);
    errno = error;
    return result;
}

static const interruptible calls[] = {{"read", call_read},     {"recv", call_recv},
                                      {"poll", call_poll},     {"poll_with_timeout", call_poll_with_timeout},
                                      {"select", call_select}, {"epoll_wait", call_epoll}};

typedef struct attempt {
    const interruptible *what;
    int descriptor;
    int expected;
} attempt;

static void *perform(void *argument)
{
    attempt *a = argument;
    errno = 0;
    long result = a->what->call(a->descriptor);
    if (result != -1 || errno != a->expected)
        FAIL("%s returned %ld with errno %d instead of %d", a->what->name, result, errno, a->expected);
    return NULL;
}

static void each_call(void)
{
    static const int errors[] = {EINTR, ETIMEDOUT};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int j = 0; j < 2; j++) {
            pair p = new_pair();
            char byte = 0;
            attempt a = {&calls[i], p.ends[0], errors[j]};
            mr_fiber *fiber = spawn(perform, &a);
            let_fibers_park();
            mr_fiber_interrupt(fiber, errors[j]);
            join(fiber);
            MUST(write(p.ends[1], "k", 1)); /* bytes that arrive later are for the next call */
            CHECK_EQ(recv(p.ends[0], &byte, 1, MSG_DONTWAIT), 1);
            close_pair(&p);
        }
    }
}

static char large[1 << 22];

static void *send_much(void *argument)
{
    return (void *)(intptr_t)send(*(int *)argument, large, sizeof large, 0);
}

/* The result is the number of bytes sent before the interruption. */
static void an_interrupted_send_tells_what_was_sent(void)
{
    pair p = new_pair();
    char block[65536];
    long received = 0, got;
    mr_fiber *fiber = spawn(send_much, &p.ends[0]);
    let_fibers_park();
    mr_fiber_interrupt(fiber, EINTR);
    long sent = (intptr_t)join(fiber);
    while ((got = recv(p.ends[1], block, sizeof block, MSG_DONTWAIT)) > 0)
        received += got;
    CHECK_GT(sent, 0);
    CHECK_EQ(received, sent);
    close_pair(&p);
}

/* Calls that wait for no descriptor, and whose time limit ends with the same error. */
static long call_flock(int descriptor)
{
    return flock(descriptor, LOCK_EX);
}

static long call_nanosleep(int descriptor)
{
    (void)descriptor;
    return nanosleep(&(struct timespec){.tv_sec = 60}, NULL);
}

static long call_clock_nanosleep(int descriptor)
{
    struct timespec until;
    (void)descriptor;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 60;
    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    return errno ? -1 : 0;
}

static long call_sem_wait(int descriptor)
{
    sem_t semaphore;
    (void)descriptor;
    sem_init(&semaphore, 0, 0);
    int result = sem_wait(&semaphore);
    sem_destroy(&semaphore);
    return result;
}

static long open_fifo(int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/millrace-fiber-fifo-%d", getpid());
    MUST(mkfifo(path, 0600));
    int descriptor = open(path, flags), error = errno;
    MUST(unlink(path));
    errno = error;
    return descriptor;
}

/* There is nobody at the other end. */
static long call_open_for_reading(int descriptor)
{
    (void)descriptor;
    return open_fifo(O_RDONLY);
}

static long call_open_for_writing(int descriptor)
{
    (void)descriptor;
    return open_fifo(O_WRONLY);
}

static long open_fifo_as_stream(FILE *old)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/millrace-fiber-fifo-%d", getpid());
    MUST(mkfifo(path, 0600));
    FILE *stream = old ? freopen(path, "r", old) : fopen(path, "w");
    int error = errno;
    if (old && (stream || !is_glibc_since(2, 41))) /* a freopen that fails frees the stream since then */
        fclose(old);
    MUST(unlink(path));
    errno = error;
    return stream ? 0 : -1;
}

static long call_fopen(int descriptor)
{
    (void)descriptor;
    return open_fifo_as_stream(NULL);
}

static long call_freopen(int descriptor)
{
    (void)descriptor;
    return open_fifo_as_stream(fopen("/dev/null", "r"));
}

static long call_lock_of_open_file(int descriptor)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(descriptor, F_OFD_SETLKW, &lock);
}

static const interruptible timed_calls[] = {{"open for reading", call_open_for_reading},
                                            {"open for writing", call_open_for_writing},
                                            {"fopen", call_fopen},
                                            {"freopen", call_freopen},
                                            {"flock", call_flock},
                                            {"F_OFD_SETLKW", call_lock_of_open_file},
                                            {"nanosleep", call_nanosleep},
                                            {"clock_nanosleep", call_clock_nanosleep},
                                            {"sem_wait", call_sem_wait}};

static void each_call_without_a_descriptor(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(15);
    static const int errors[] = {EINTR, ETIMEDOUT};
    char name[] = "/tmp/millrace-fiber-XXXXXX";
    int held = MUST(mkstemp(name)), wanted = MUST(open(name, O_RDWR));
    MUST(unlink(name));
    MUST(flock(held, LOCK_EX));
    CHECK_EQ(fcntl(held, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}), 0);
    for (size_t i = 0; i < sizeof timed_calls / sizeof *timed_calls; i++) {
        for (int j = 0; j < 2; j++) {
            attempt a = {&timed_calls[i], wanted, errors[j]};
            mr_fiber *fiber = spawn(perform, &a);
            let_fibers_park();
            mr_fiber_interrupt(fiber, errors[j]);
            join(fiber);
        }
    }
    MUST(close(wanted));
    MUST(close(held));
}

static void *open_what_does_not_wait(void *argument)
{
    mr_fiber_interrupt(mr_fiber_self(), EINTR);
    mr_fiber_yield();
    int descriptor = MUST(open("/dev/null", O_RDONLY));
    MUST(close(descriptor));
    CHECK_EQ(usleep(10000000), -1);
    CHECK_EQ(errno, EINTR);
    return argument;
}

/* POSIX has no interruption of a thread there, and many programs do not expect one. */
static void a_device_that_opens_at_once(void)
{
    for (int i = 0; i < 20; i++)
        join(spawn(open_what_does_not_wait, NULL));
}

/* --------------------------------------------------------------------------------- helpers that are interrupted --- */

enum { PIPES = 16, ROUNDS = 30, ROUND_US = 500 };

static void name_pipe(char path[64], int index)
{
    snprintf(path, 64, "/tmp/millrace-fiber-fifo-%d-%d", getpid(), index);
}

static void *open_pipe(void *path)
{
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0)
        CHECK_EQ(errno, EINTR);
    else
        MUST(close(descriptor));
    return NULL;
}

/* Some waits end before the interruption, some after it, and probably some at the same moment. */
static void interrupt_and_open_other_ends(char paths[PIPES][64], useconds_t delay_us)
{
    mr_fiber *fibers[PIPES];
    for (int i = 0; i < PIPES; i++)
        fibers[i] = spawn(open_pipe, paths[i]);
    let_fibers_park();
    for (int i = 0; i < PIPES; i++)
        mr_fiber_interrupt(fibers[i], EINTR);
    usleep(delay_us);
    for (int i = 0; i < PIPES; i++) {
        int other = open(paths[i], O_WRONLY | O_NONBLOCK);
        if (other >= 0)
            MUST(close(other));
        else
            CHECK_EQ(errno, ENXIO);
    }
    for (int i = 0; i < PIPES; i++)
        join(fibers[i]);
}

static void the_other_end_comes_with_an_interruption(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(15);
    char paths[PIPES][64];
    for (int i = 0; i < PIPES; i++) {
        name_pipe(paths[i], i);
        MUST(mkfifo(paths[i], 0600));
    }
    int before = open_descriptors();
    for (useconds_t round = 0; round < ROUNDS; round++)
        interrupt_and_open_other_ends(paths, round * ROUND_US);
    CHECK_EQ(open_descriptors(), before);
    for (int i = 0; i < PIPES; i++)
        MUST(unlink(paths[i]));
}

static atomic_int programs_signals;

static void count_signal(int signal_number)
{
    (void)signal_number;
    atomic_fetch_add(&programs_signals, 1);
}

static void set_real_time_actions(void (*action)(int))
{
    for (int i = SIGRTMIN; i <= NSIG - 1; i++)
        CHECK(signal(i, action) != SIG_ERR);
}

static void *open_for_reading(void *argument)
{
    attempt a = {&timed_calls[0], -1, EINTR};
    (void)argument;
    return perform(&a);
}

/* As daemons do. */
static void a_program_that_resets_all_signals(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(15);
    mr_fiber *fiber = spawn(open_for_reading, NULL);
    let_fibers_park();
    set_real_time_actions(SIG_DFL);
    mr_fiber_interrupt(fiber, EINTR);
    join(fiber);
}

typedef struct waiting_for_pipe {
    char path[64];
    int descriptor;
    atomic_bool is_open;
} waiting_for_pipe;

static void *open_in_vain(void *argument)
{
    waiting_for_pipe *w = argument;
    w->descriptor = open(w->path, O_RDONLY);
    atomic_store(&w->is_open, true);
    return NULL;
}

/* No signal is left to interrupt with, so the interruption ends the next wait. */
static void a_program_that_handles_all_signals(void)
{
    waiting_for_pipe w = {.descriptor = -1};
    name_pipe(w.path, 0);
    MUST(mkfifo(w.path, 0600));
    mr_fiber *fiber = spawn(open_in_vain, &w);
    let_fibers_park();
    set_real_time_actions(count_signal);
    mr_fiber_interrupt(fiber, EINTR);
    let_fibers_park();
    CHECK(!atomic_load(&w.is_open));
    int other = MUST(open(w.path, O_WRONLY));
    join(fiber);
    MUST(close(other));
    MUST(close(w.descriptor));
    CHECK_EQ(atomic_load(&programs_signals), 0);
    MUST(unlink(w.path));
}

/* --------------------------------------------------------------------- interruptions that other things overtake --- */

static void spin(uint64_t duration_ns)
{
    uint64_t until_ns = mr_clock_now_ns() + duration_ns;
    while (mr_clock_now_ns() < until_ns) {
    }
}

/* Longer than the longest pause between two checks of a call that polls. */
enum { TRIES = 4, HOLD_MS = 25 };

/* Something happens after an interruption was delivered and before the interrupted fiber has run again. */
static void *hold_the_carrier(void *argument)
{
    CHECK_EQ(mr_fiber_sleep(NS_PER_MS / 4), 0);
    spin(HOLD_MS * NS_PER_MS);
    return argument;
}

static void *post(void *semaphore)
{
    CHECK_EQ(mr_fiber_sleep(NS_PER_MS / 4), 0);
    CHECK_EQ(sem_post(semaphore), 0);
    return NULL;
}

typedef struct interruption {
    mr_fiber *fiber;
    int error;
    void *(*happen)(void *);
    void *argument;
} interruption;

/* That other fiber's sleep is over when the carrier reads its messages, which is after it has checked its timers. */
static void *interrupt_and_spin(void *argument)
{
    const interruption *i = argument;
    mr_fiber *follower = spawn(i->happen, i->argument);
    mr_fiber_yield();
    mr_fiber_interrupt(i->fiber, i->error);
    spin(NS_PER_MS);
    join(follower);
    return NULL;
}

static void interrupt_and_then(mr_fiber *fiber, int error, void *(*happen)(void *), void *argument)
{
    on_fiber(interrupt_and_spin, &(interruption){fiber, error, happen, argument});
}

typedef struct waiting_call {
    long (*call)(void *argument);
    void *argument;
    long result;
    int error;
    atomic_bool has_ended;
} waiting_call;

/* False: it has not ended after a long time. */
static bool ends_soon(waiting_call *w)
{
    for (int i = 0; i < 1000 && !atomic_load(&w->has_ended); i++)
        usleep(10000);
    return atomic_load(&w->has_ended);
}

static void *make_call(void *argument)
{
    waiting_call *w = argument;
    errno = 0;
    w->result = w->call(w->argument);
    w->error = errno;
    atomic_store(&w->has_ended, true);
    return NULL;
}

static long wait_for_post(void *semaphore)
{
    return sem_wait(semaphore);
}

static long wait_for_file(void *descriptor)
{
    return flock(*(int *)descriptor, LOCK_EX);
}

static void must_end_by_interruption(long (*call)(void *argument), void *argument)
{
    for (unsigned i = 0; i < TRIES; i++) {
        waiting_call w = {.call = call, .argument = argument};
        mr_fiber *fiber = spawn(make_call, &w);
        usleep(50000 + i * 1000); /* its pauses are the longest by now */
        interrupt_and_then(fiber, ETIMEDOUT, hold_the_carrier, NULL);
        CHECK(ends_soon(&w));
        join(fiber);
        CHECK_EQ(w.result, -1);
        CHECK_EQ(w.error, ETIMEDOUT);
    }
}

static void one_that_looks_like_the_end_of_a_pause_of_a_semaphore(void)
{
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    must_end_by_interruption(wait_for_post, &semaphore);
    sem_destroy(&semaphore);
}

static void one_that_looks_like_the_end_of_a_pause_of_a_file_lock(void)
{
    char name[] = "/tmp/millrace-fiber-XXXXXX";
    int held = MUST(mkstemp(name)), wanted = MUST(open(name, O_RDWR));
    MUST(unlink(name));
    MUST(flock(held, LOCK_EX));
    must_end_by_interruption(wait_for_file, &wanted);
    MUST(close(wanted));
    MUST(close(held));
}

static void one_that_a_post_follows_leaves_it_to_the_next(void)
{
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    waiting_call w = {.call = wait_for_post, .argument = &semaphore};
    /* If a pause ends at the moment of the interruption, the fiber has continued, and may get the posted value. */
    for (unsigned i = 0; w.result == 0 && i < TRIES; i++) {
        mr_fiber *fiber = spawn(make_call, &w);
        let_fibers_park();
        interrupt_and_then(fiber, EINTR, post, &semaphore);
        join(fiber);
    }
    CHECK_EQ(w.result, -1);
    CHECK_EQ(w.error, EINTR);
    CHECK_EQ(sem_trywait(&semaphore), 0);
    sem_destroy(&semaphore);
}

/* Calls that have done a part and continue: only the next call can report the interruption. */

static long send_until_it_fails(void *descriptor)
{
    ssize_t sent;
    while ((sent = send(*(int *)descriptor, large, sizeof large, 0)) > 0) {
    }
    return sent;
}

static long write_until_it_fails(void *descriptor)
{
    ssize_t written;
    while ((written = write(*(int *)descriptor, large, sizeof large)) > 0) {
    }
    return written;
}

static long write_to_stream(void *descriptor)
{
    FILE *stream = fdopen(MUST(dup(*(int *)descriptor)), "w");
    setvbuf(stream, NULL, _IONBF, 0);
    size_t written = fwrite(large, 1, sizeof large, stream);
    int error = errno;
    fclose(stream);
    errno = error;
    return written == sizeof large ? 0 : -1;
}

static long receive_all_until_it_fails(void *descriptor)
{
    ssize_t received;
    char buffer[100];
    while ((received = recv(*(int *)descriptor, buffer, sizeof buffer, MSG_WAITALL)) > 0) {
    }
    return received;
}

static long receive_messages_until_it_fails(void *descriptor)
{
    int received;
    char buffer[100];
    struct iovec vector = {buffer, sizeof buffer};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}}};
    while ((received = recvmmsg(*(int *)descriptor, messages, 2, 0, NULL)) > 0) {
    }
    return received;
}

static void must_be_told(const char *name, long (*call)(void *descriptor))
{
    pair p = new_pair();
    waiting_call w = {.call = call, .argument = &p.ends[0]};
    MUST(write(p.ends[1], "a part", 6));
    mr_fiber *fiber = spawn(make_call, &w);
    let_fibers_park();
    mr_fiber_interrupt(fiber, EINTR);
    if (!ends_soon(&w))
        FAIL("%s was not told", name);
    join(fiber);
    if (w.result != -1 || w.error != EINTR)
        FAIL("%s returned %ld with errno %d", name, w.result, w.error);
    close_pair(&p);
}

static void one_that_a_part_hides_meets_the_next_wait(void)
{
    must_be_told("send", send_until_it_fails);
    must_be_told("write", write_until_it_fails);
    must_be_told("fwrite", write_to_stream);
    must_be_told("recv", receive_all_until_it_fails);
    must_be_told("recvmmsg", receive_messages_until_it_fails);
}

/* Waits that only wake to check again. */

typedef struct looking {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    unsigned word;
    atomic_uint looks;
} looking;

static long wait_by_condition(void *argument)
{
    looking *l = argument;
    pthread_mutex_lock(&l->mutex);
    for (; !l->word; l->looks++)
        pthread_cond_wait(&l->condition, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
    return nanosleep(&(struct timespec){.tv_sec = 5}, NULL);
}

static long wait_by_futex(void *argument)
{
    looking *l = argument;
    for (; !__atomic_load_n(&l->word, __ATOMIC_SEQ_CST); l->looks++)
        syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return nanosleep(&(struct timespec){.tv_sec = 5}, NULL);
}

static void must_find_it_later(long (*call)(void *argument))
{
    looking l = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};
    waiting_call w = {.call = call, .argument = &l};
    mr_fiber *fiber = spawn(make_call, &w);
    let_fibers_park();
    mr_fiber_interrupt(fiber, ECONNRESET);
    while (!atomic_load(&l.looks))
        usleep(10000);
    usleep(30000);
    CHECK(!atomic_load(&w.has_ended));
    pthread_mutex_lock(&l.mutex);
    __atomic_store_n(&l.word, 1, __ATOMIC_SEQ_CST);
    pthread_cond_signal(&l.condition);
    pthread_mutex_unlock(&l.mutex);
    syscall(SYS_futex, &l.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    join(fiber);
    CHECK_EQ(w.result, -1);
    CHECK_EQ(w.error, ECONNRESET);
    CHECK_EQ(atomic_load(&l.looks), 2); /* roused once, and woken */
}

static void one_that_only_rouses_meets_the_next_wait(void)
{
    must_find_it_later(wait_by_condition);
    must_find_it_later(wait_by_futex);
}

const fiber_case interrupt_cases[] = {
    CASE(each_call),
    CASE(each_call_without_a_descriptor),
    CASE(a_device_that_opens_at_once),
    CASE(the_other_end_comes_with_an_interruption),
    CASE(a_program_that_resets_all_signals),
    CASE(a_program_that_handles_all_signals),
    CASE(an_interrupted_send_tells_what_was_sent),
    CASE(one_that_looks_like_the_end_of_a_pause_of_a_semaphore),
    CASE(one_that_looks_like_the_end_of_a_pause_of_a_file_lock),
    CASE(one_that_a_post_follows_leaves_it_to_the_next),
    CASE(one_that_a_part_hides_meets_the_next_wait),
    CASE(one_that_only_rouses_meets_the_next_wait),
    {0},
};
