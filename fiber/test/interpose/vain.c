/* vain.c: loops that retry a call until another fiber of their carrier has done something. */
#include "interpose_test.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

/* What the loops wait for. */
typedef struct prize {
    pthread_mutex_t mutex;
    pthread_rwlock_t read_write;
    pthread_spinlock_t spin;
    sem_t semaphore;
    FILE *stream;
    pair sockets;
    int set;   /* of epoll, with one of the sockets */
    pair full; /* its first end cannot send */
    int listener;
    struct sockaddr_in address;
    atomic_bool is_tried, is_given;
} prize;

static bool try_mutex(prize *p)
{
    return pthread_mutex_trylock(&p->mutex) == 0 && pthread_mutex_unlock(&p->mutex) == 0;
}

static bool try_reading(prize *p)
{
    return pthread_rwlock_tryrdlock(&p->read_write) == 0 && pthread_rwlock_unlock(&p->read_write) == 0;
}

static bool try_writing(prize *p)
{
    return pthread_rwlock_trywrlock(&p->read_write) == 0 && pthread_rwlock_unlock(&p->read_write) == 0;
}

static bool try_spinning(prize *p)
{
    return pthread_spin_trylock(&p->spin) == 0 && pthread_spin_unlock(&p->spin) == 0;
}

static bool try_semaphore(prize *p)
{
    return sem_trywait(&p->semaphore) == 0;
}

static bool try_stream(prize *p)
{
    bool is_mine = ftrylockfile(p->stream) == 0;
    if (is_mine)
        funlockfile(p->stream);
    return is_mine;
}

static bool try_poll(prize *p)
{
    struct pollfd entry = {.fd = p->sockets.ends[0], .events = POLLIN};
    return poll(&entry, 1, 0) == 1;
}

static bool try_select(prize *p)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p->sockets.ends[0], &set);
    return select(p->sockets.ends[0] + 1, &set, NULL, NULL, &(struct timeval){0}) == 1;
}

static bool try_epoll(prize *p)
{
    struct epoll_event event;
    return epoll_wait(p->set, &event, 1, 0) == 1;
}

static bool try_receiving(prize *p)
{
    char byte;
    return recv(p->sockets.ends[0], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

static bool try_reading_with_flags(prize *p)
{
    char byte;
    struct iovec vector = {&byte, 1};
    return preadv2(p->sockets.ends[0], &vector, 1, -1, RWF_NOWAIT) == 1;
}

static bool try_sending(prize *p)
{
    return send(p->full.ends[0], "x", 1, MSG_DONTWAIT) == 1;
}

static bool try_sending_a_message(prize *p)
{
    struct iovec vector = {"x", 1};
    return sendmsg(p->full.ends[0], &(struct msghdr){.msg_iov = &vector, .msg_iovlen = 1}, MSG_DONTWAIT) == 1;
}

static bool try_accepting(prize *p)
{
    int accepted = accept(p->listener, NULL, NULL);
    return accepted >= 0 && close(accepted) == 0;
}

static bool try_until_moment_past(prize *p)
{
    struct timespec past = {0};
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL), 0);
    return atomic_load(&p->is_given);
}

static bool try_no_time(prize *p)
{
    CHECK_EQ(usleep(0), 0);
    return atomic_load(&p->is_given);
}

/* The word is never what it would sleep on. */
static bool try_to_sleep_on_a_word(prize *p)
{
    static atomic_uint word;
    CHECK_EQ(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), -1);
    CHECK_EQ(errno, EAGAIN);
    return atomic_load(&p->is_given);
}

static bool (*const ways[])(prize *) = {
    try_mutex,
    try_reading,
    try_writing,
    try_spinning,
    try_semaphore,
    try_stream,
    try_poll,
    try_select,
    try_epoll,
    try_receiving,
    try_reading_with_flags,
    try_sending,
    try_sending_a_message,
    try_accepting,
    try_until_moment_past,
    try_no_time,
    try_to_sleep_on_a_word,
};

enum { WAYS = sizeof ways / sizeof *ways };

static void fill_again(prize *p)
{
    char block[4096] = {0};
    while (send(p->full.ends[0], block, sizeof block, MSG_DONTWAIT) > 0 ||
           send(p->full.ends[0], block, 1, MSG_DONTWAIT) > 0)
        ;
}

static void make_writable(prize *p)
{
    static char buffer[1 << 20];
    CHECK_GT(recv(p->full.ends[1], buffer, sizeof buffer, 0), 0);
}

static void connect_to(prize *p)
{
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(client, (struct sockaddr *)&p->address, sizeof p->address));
    MUST(close(client));
}

static void *hold_and_give(void *argument)
{
    prize *p = argument;
    CHECK_EQ(pthread_mutex_lock(&p->mutex), 0);
    CHECK_EQ(pthread_rwlock_wrlock(&p->read_write), 0);
    CHECK_EQ(pthread_spin_lock(&p->spin), 0);
    flockfile(p->stream);
    while (!atomic_load(&p->is_tried))
        mr_fiber_yield();
    funlockfile(p->stream);
    CHECK_EQ(pthread_spin_unlock(&p->spin), 0);
    CHECK_EQ(pthread_rwlock_unlock(&p->read_write), 0);
    CHECK_EQ(pthread_mutex_unlock(&p->mutex), 0);
    CHECK_EQ(sem_post(&p->semaphore), 0);
    CHECK_EQ(write(p->sockets.ends[1], "x", 1), 1);
    make_writable(p);
    connect_to(p);
    atomic_store(&p->is_given, true);
    return NULL;
}

typedef struct player {
    prize *prize;
    bool (*try)(prize *);
} player;

static void *try_until_won(void *argument)
{
    const player *p = argument;
    bool is_won;
    do {
        is_won = p->try(p->prize);
        atomic_store(&p->prize->is_tried, true);
    } while (!is_won);
    return NULL;
}

static void prepare(prize *p)
{
    *p = (prize){.mutex = PTHREAD_MUTEX_INITIALIZER,
                 .read_write = PTHREAD_RWLOCK_INITIALIZER,
                 .stream = tmpfile(),
                 .sockets = new_pair(),
                 .set = MUST(epoll_create1(0)),
                 .full = new_pair()};
    p->listener = listen_on_loopback(&p->address, 1);
    MUST(fcntl(p->listener, F_SETFL, O_NONBLOCK));
    fill_again(p);
    CHECK(p->stream);
    CHECK_EQ(pthread_spin_init(&p->spin, PTHREAD_PROCESS_PRIVATE), 0);
    MUST(sem_init(&p->semaphore, 0, 0));
    MUST(epoll_ctl(p->set, EPOLL_CTL_ADD, p->sockets.ends[0], &(struct epoll_event){.events = EPOLLIN}));
}

static void clear(prize *p)
{
    MUST(close(p->set));
    MUST(close(p->listener));
    close_pair(&p->full);
    MUST(sem_destroy(&p->semaphore));
    CHECK_EQ(pthread_spin_destroy(&p->spin), 0);
    CHECK_EQ(fclose(p->stream), 0);
    close_pair(&p->sockets);
}

static void let_others_go_on(void)
{
    for (size_t i = 0; i < WAYS; i++) {
        prize p;
        if (ways[i] == try_reading_with_flags && !has_preadv2())
            continue;
        harness_note_line("way", (int)i);
        prepare(&p);
        player one = {&p, ways[i]};
        mr_fiber *holder = spawn(hold_and_give, &p), *fiber = spawn(try_until_won, &one);
        join(fiber);
        join(holder);
        clear(&p);
    }
}

const fiber_case vain_cases[] = {
    CASE(let_others_go_on),
    {0},
};
