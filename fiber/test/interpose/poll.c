/* poll.c: poll and select where their arguments are unusual. */
#include "interpose_test.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>

static void *select_with_the_longest_timeout(void *argument)
{
    const pair *p = argument;
    struct timeval timeout = {.tv_sec = LONG_MAX};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p->ends[0], &set);
    CHECK_EQ(select(p->ends[0] + 1, &set, NULL, NULL, &timeout), 1);
    CHECK_GT(timeout.tv_sec, 0);
    return NULL;
}

/* The remaining time must not be 0, because the caller may select with it again. */
static void a_timeout_without_end(void)
{
    pair p = new_pair();
    MUST(write(p.ends[1], "x", 1));
    on_fiber(select_with_the_longest_timeout, &p);
    close_pair(&p);
}

enum { SETS = 64 };

/* The bound is getdtablesize(), and a program may have more descriptors than fit into a set: the memory behind the set
 * must not change. */
static void *select_with_a_bound_beyond_the_set(void *argument)
{
    const pair *p = argument;
    fd_set sets[SETS];
    struct timeval timeout = {.tv_sec = 10};
    memset(sets, 0xff, sizeof sets);
    FD_ZERO(&sets[0]);
    FD_SET(p->ends[0], &sets[0]);
    errno = 0;
    CHECK_EQ(select(SETS * FD_SETSIZE, &sets[0], NULL, NULL, &timeout), 1);
    CHECK_EQ(errno, 0);
    CHECK(FD_ISSET(p->ends[0], &sets[0]));
    for (size_t i = 0; i < sizeof sets; i++)
        CHECK(i < sizeof *sets || ((unsigned char *)sets)[i] == 0xff);
    return NULL;
}

static void a_bound_beyond_all_descriptors(void)
{
    pair p = new_pair();
    MUST(write(p.ends[1], "x", 1));
    on_fiber(select_with_a_bound_beyond_the_set, &p);
    close_pair(&p);
}

typedef struct urgent_poll {
    pair p;
    atomic_bool has_timed_out;
} urgent_poll;

static void *poll_for_urgent_data_too(void *argument)
{
    urgent_poll *u = argument;
    struct pollfd entry = {.fd = u->p.ends[0], .events = POLLIN | POLLPRI};
    CHECK_EQ(poll(&entry, 1, 20), 0);
    atomic_store(&u->has_timed_out, true);
    CHECK_EQ(poll(&entry, 1, -1), 1);
    CHECK_EQ(entry.revents, POLLIN);
    return NULL;
}

/* poll needs no epoll set, for any events. */
static void polling_without_a_descriptor_left(void)
{
    urgent_poll u = {.p = new_pair()};
    struct rlimit limit, none;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    none = limit;
    none.rlim_cur = (rlim_t)u.p.ends[1] + 1;
    MUST(setrlimit(RLIMIT_NOFILE, &none));
    mr_fiber *fiber = spawn(poll_for_urgent_data_too, &u);
    do
        CHECK_EQ(mr_fiber_sleep(30 * NS_PER_MS), 0);
    while (!atomic_load(&u.has_timed_out));
    MUST(write(u.p.ends[1], "x", 1));
    join(fiber);
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    close_pair(&u.p);
}

static void *wait_for_event(void *argument)
{
    struct epoll_event event;
    CHECK_EQ(epoll_wait(*(int *)argument, &event, 1, -1), 1);
    return NULL;
}

/* Nested as deeply as Linux allows, so that a carrier's epoll set cannot contain them. */
static void sets_of_epoll_in_each_other(void)
{
    enum { DEPTH_MAX = 16 };
    int sets[DEPTH_MAX], depth = 0, inner;
    struct epoll_event event = {.events = EPOLLIN};
    pair p = new_pair();
    inner = p.ends[0];
    while (depth < DEPTH_MAX) {
        sets[depth] = MUST(epoll_create1(0));
        if (epoll_ctl(sets[depth], EPOLL_CTL_ADD, inner, &event) != 0)
            break;
        inner = sets[depth++];
    }
    CHECK_EQ(errno, ELOOP);
    mr_fiber *fiber = spawn(wait_for_event, &inner);
    let_fibers_park();
    MUST(write(p.ends[1], "x", 1));
    join(fiber);
    for (int i = 0; i <= depth; i++)
        MUST(close(sets[i]));
    close_pair(&p);
}

typedef bool look(int descriptor);

static bool look_by_poll(int descriptor)
{
    return poll(&(struct pollfd){.fd = descriptor, .events = POLLIN}, 1, 0) == 1;
}

static bool look_by_ppoll(int descriptor)
{
    return ppoll(&(struct pollfd){.fd = descriptor, .events = POLLIN}, 1, &(struct timespec){0}, NULL) == 1;
}

static bool look_by_select(int descriptor)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(descriptor, &set);
    return select(descriptor + 1, &set, NULL, NULL, &(struct timeval){0}) == 1;
}

static bool look_by_epoll(int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC);
    MUST(set);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event));
    bool is_ready = epoll_wait(set, &event, 1, 0) == 1;
    MUST(close(set));
    return is_ready;
}

static bool look_by_receiving(int descriptor)
{
    char byte;
    return recv(descriptor, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

static bool look_by_reading(int descriptor)
{
    char byte;
    MUST(fcntl(descriptor, F_SETFL, O_NONBLOCK));
    return read(descriptor, &byte, 1) == 1;
}

static look *const looks[] = {look_by_poll,  look_by_ppoll,     look_by_select,
                              look_by_epoll, look_by_receiving, look_by_reading};

enum { LOOKS = sizeof looks / sizeof *looks };

typedef struct looking {
    pair pair;
    look *look;
} looking;

static void *look_until_it_is_there(void *argument)
{
    const looking *l = argument;
    while (!l->look(l->pair.ends[0]))
        ;
    return NULL;
}

static void *write_a_byte(void *argument)
{
    const looking *l = argument;
    MUST(write(l->pair.ends[1], "x", 1));
    return NULL;
}

static void looking_again_and_again_lets_others_run(void)
{
    for (int i = 0; i < LOOKS; i++) {
        looking l = {new_pair(), looks[i]};
        mr_fiber *looks_on = spawn(look_until_it_is_there, &l), *writes = spawn(write_a_byte, &l);
        join(looks_on);
        join(writes);
        close_pair(&l.pair);
    }
}

const fiber_case poll_cases[] = {
    CASE(looking_again_and_again_lets_others_run),
    CASE(polling_without_a_descriptor_left),
    CASE(a_bound_beyond_all_descriptors),
    CASE(a_timeout_without_end),
    CASE(sets_of_epoll_in_each_other),
    {0},
};
