/*
 * poll.c: waiting for several descriptors: poll, select, epoll_wait and their relatives.
 *
 * Each looks first, without waiting. To wait, a few descriptors with plain conditions are operations of the core.
 * Anything else (many descriptors, POLLPRI, nothing but errors) is watched through an epoll descriptor made for the
 * call, because an epoll descriptor is itself readable when it has something to report. Where none can be had, it looks
 * again after a while.
 *
 * The signal masks of ppoll, pselect and epoll_pwait have no effect: signals are not delivered to carriers.
 */
#include "../watch.h"
#include "blocking.h"
#include "libc.h"
#include "proc.h"
#include "timespec.h"

#include <limits.h>
#include <string.h>

enum { WATCHED_SINGLY_MAX = 16, BETWEEN_LOOKS_MS = 10 };

#define NS_PER_MS UINT64_C(1000000)

static uint64_t deadline_after_ms(int timeout_ms)
{
    return timeout_ms < 0 ? MR_NO_DEADLINE : mr_clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

/* --------------------------------------------------------------------------------------------------------- poll --- */

static bool has_passed(uint64_t deadline_ns)
{
    return deadline_ns != MR_NO_DEADLINE && mr_clock_now_ns() >= deadline_ns;
}

/* Descriptors below 0 do not count. */
static nfds_t counting_entries(const struct pollfd *entries, nfds_t count)
{
    nfds_t counting = 0;
    for (nfds_t i = 0; i < count; i++)
        counting += entries[i].fd >= 0;
    return counting;
}

static short plain_events(const struct pollfd *entry)
{
    return (short)(entry->events & ~(POLLRDNORM | POLLWRNORM));
}

/* Can the core wait for what is asked of each of them? */
static bool are_plain(const struct pollfd *entries, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++) {
        short events = plain_events(&entries[i]);
        if (entries[i].fd >= 0 && (!events || (events & ~(POLLIN | POLLOUT))))
            return false;
    }
    return true;
}

/* One call's watches: the outcome of the wait is the index of the one that decided it. */
typedef struct watching {
    mf_wait wait;
    mf_watch *watches;
    int count;
    int closed; /* the number that lost its meaning, or -1 */
} watching;

static void watch(watching *w, int descriptor, mr_kind kind)
{
    mf_watch_begin(&w->watches[w->count], &w->wait, w->count, descriptor, kind, MR_TRIED);
    w->count++;
}

static void watch_for_close(watching *w, int descriptor)
{
    mf_watch_begin_for_close(&w->watches[w->count], &w->wait, w->count, descriptor);
    w->count++;
}

/* 0: look again. */
static int park(watching *w, uint64_t deadline_ns)
{
    int outcome = mf_wait_park(&w->wait, deadline_ns, MF_INTERRUPTIBLE), error = outcome < 0 ? outcome : 0;
    for (int i = 0; i < w->count; i++)
        mf_watch_cancel(&w->watches[i]);
    for (int i = 0; i < w->count; i++) {
        int result = mf_watch_end(&w->watches[i]);
        if (i != outcome || result >= 0)
            continue;
        error = result;
        if (error == -EBADF)
            w->closed = w->watches[i].descriptor;
    }
    return error;
}

static int wait_singly(watching *w, const struct pollfd *entries, nfds_t count, uint64_t deadline_ns)
{
    for (nfds_t i = 0; i < count; i++) {
        if (entries[i].fd >= 0 && (entries[i].events & POLLIN))
            watch(w, entries[i].fd, MR_WAIT_READABLE);
        if (entries[i].fd >= 0 && (entries[i].events & POLLOUT))
            watch(w, entries[i].fd, MR_WAIT_WRITABLE);
    }
    return park(w, deadline_ns);
}

/* POLLIN and EPOLLIN, and so on, are the same bits on Linux. A descriptor that occurs twice wants both sets. What cannot
 * be added is bad, which the next look tells, or a file, which would have been reported ready. 0 or a negative errno. */
static int add_to_set(int set, const struct pollfd *entries, nfds_t index)
{
    struct epoll_event event = {.events = 0};
    for (nfds_t i = 0; i <= index; i++)
        if (entries[i].fd == entries[index].fd)
            event.events |= (unsigned short)entries[i].events;
    if (epoll_ctl(set, EPOLL_CTL_ADD, entries[index].fd, &event) == 0 || errno == EPERM)
        return 0;
    return errno == EEXIST && epoll_ctl(set, EPOLL_CTL_MOD, entries[index].fd, &event) == 0 ? 0 : -errno;
}

static int wait_for_next_look(uint64_t deadline_ns)
{
    uint64_t next_ns = mr_clock_now_ns() + BETWEEN_LOOKS_MS * NS_PER_MS;
    return mr_fiber_sleep_until(deadline_ns != MR_NO_DEADLINE && deadline_ns < next_ns ? deadline_ns : next_ns);
}

static int wait_for_set(watching *w, const struct pollfd *entries, nfds_t count, uint64_t deadline_ns)
{
    int set = epoll_create1(EPOLL_CLOEXEC), refusal = 0;
    if (set < 0)
        return wait_for_next_look(deadline_ns);
    for (nfds_t i = 0; i < count && !refusal; i++) {
        if (entries[i].fd < 0)
            continue;
        watch_for_close(w, entries[i].fd);
        refusal = add_to_set(set, entries, i);
    }
    if (refusal)
        mf_wait_claim_own(&w->wait, w->count);
    else
        watch(w, set, MR_WAIT_READABLE);
    int error = park(w, deadline_ns);
    LIBC(close)(set);
    return refusal && refusal != -EBADF && !error ? wait_for_next_look(deadline_ns) : error;
}

/* 0: look again. `by_set`: what the core waits for was not what was asked for. */
static int wait_for_any(const struct pollfd *entries, nfds_t count, uint64_t deadline_ns, bool by_set, int *closed)
{
    nfds_t counting = counting_entries(entries, count);
    if (counting == 0)
        return mr_fiber_sleep_until(deadline_ns);
    watching w = {.closed = -1, .watches = malloc((2 * counting + 1) * sizeof *w.watches)};
    if (!w.watches)
        return -ENOMEM;
    mf_wait_init(&w.wait);
    bool singly = !by_set && counting <= WATCHED_SINGLY_MAX && are_plain(entries, count);
    int error = singly ? wait_singly(&w, entries, count, deadline_ns) : wait_for_set(&w, entries, count, deadline_ns);
    free(w.watches);
    *closed = w.closed;
    return error;
}

/* A descriptor that is about to be closed: for a while another look would still find it open. */
static int report_closed(struct pollfd *entries, nfds_t count, int closed)
{
    int reported = 0;
    for (nfds_t i = 0; i < count; i++) {
        entries[i].revents = entries[i].fd == closed ? POLLNVAL : 0;
        reported += entries[i].revents != 0;
    }
    return reported;
}

/* The look decides what is reported, so that nothing is said that is not true now. */
static int look_until(struct pollfd *entries, nfds_t count, uint64_t deadline_ns)
{
    bool was_in_vain = false;
    mf_spend_turn();
    for (;;) {
        int closed = -1, ready = LIBC(poll)(entries, count, 0);
        if (ready != 0 || has_passed(deadline_ns))
            return ready;
        int error = wait_for_any(entries, count, deadline_ns, was_in_vain, &closed);
        if (error == -EBADF)
            return report_closed(entries, count, closed);
        if (error && error != MF_DEADLINE_PASSED)
            return mf_fail(error); /* also of an interruption that chose ETIMEDOUT */
        was_in_vain = !error;
    }
}

static int poll_until(struct pollfd *entries, nfds_t count, uint64_t deadline_ns)
{
    int before = errno;
    return (int)mf_settle(look_until(entries, count, deadline_ns), before);
}

int poll(struct pollfd *entries, nfds_t count, int timeout_ms)
{
    if (!mf_current)
        return LIBC(poll)(entries, count, timeout_ms);
    return poll_until(entries, count, deadline_after_ms(timeout_ms));
}

ALIAS(__poll, poll);

int __poll_chk(struct pollfd *entries, nfds_t count, int timeout_ms, size_t size)
{
    if (!mf_current || size / sizeof *entries < count)
        return LIBC(__poll_chk)(entries, count, timeout_ms, size);
    return poll(entries, count, timeout_ms);
}

int ppoll(struct pollfd *entries, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    if (!mf_current || (timeout && !mf_is_valid_time(timeout)))
        return LIBC(ppoll)(entries, count, timeout, mask);
    return poll_until(entries, count, mf_deadline_after(timeout));
}

int __ppoll_chk(struct pollfd *entries, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
    if (!mf_current || size / sizeof *entries < count)
        return LIBC(__ppoll_chk)(entries, count, timeout, mask, size);
    return ppoll(entries, count, timeout, mask);
}

/* ------------------------------------------------------------------------------------------------------- select --- */

/* Which conditions of poll each set of select stands for (select(2), "Correspondence between select() and poll()"). */
#define POLL_OF_READ (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define POLL_OF_WRITE (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define POLL_OF_EXCEPT POLLPRI

typedef struct selection {
    int bound; /* descriptors are below it */
    fd_set *read, *write, *except;
} selection;

/* fd_set ends at FD_SETSIZE, select does not: programs that allocate more rely on it. */
static bool contains(const fd_set *set, int descriptor)
{
    return set && ((const fd_mask *)set)[descriptor / NFDBITS] >> (descriptor % NFDBITS) & 1;
}

static void keep(fd_set *set, int descriptor)
{
    ((fd_mask *)set)[descriptor / NFDBITS] |= (fd_mask)(UINT64_C(1) << (descriptor % NFDBITS));
}

static nfds_t to_entries(const selection *s, struct pollfd *entries)
{
    nfds_t count = 0;
    for (int i = 0; i < s->bound; i++) {
        short events = (short)((contains(s->read, i) ? POLLIN : 0) | (contains(s->write, i) ? POLLOUT : 0) |
                               (contains(s->except, i) ? POLLPRI : 0));
        if (events)
            entries[count++] = (struct pollfd){.fd = i, .events = events};
    }
    return count;
}

static void clear(fd_set *set, int bound)
{
    if (set)
        memset(set, 0, (size_t)((bound + NFDBITS - 1) / NFDBITS) * sizeof(fd_mask));
}

/* The number of bits that select reports. */
static int from_entries(const selection *s, const struct pollfd *entries, nfds_t count)
{
    int bits = 0;
    clear(s->read, s->bound);
    clear(s->write, s->bound);
    clear(s->except, s->bound);
    for (nfds_t i = 0; i < count; i++) {
        short wanted = entries[i].events, got = entries[i].revents;
        struct {
            fd_set *set;
            bool reported;
        } parts[] = {{s->read, (wanted & POLLIN) && (got & POLL_OF_READ)},
                     {s->write, (wanted & POLLOUT) && (got & POLL_OF_WRITE)},
                     {s->except, (wanted & POLLPRI) && (got & POLL_OF_EXCEPT)}};
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++) {
            if (!parts[j].set || !parts[j].reported)
                continue;
            keep(parts[j].set, entries[i].fd);
            bits++;
        }
    }
    return bits;
}

static bool has_bad_descriptor(const struct pollfd *entries, nfds_t count)
{
    for (nfds_t i = 0; i < count; i++)
        if (entries[i].revents & POLLNVAL)
            return true;
    return false;
}

static int select_entries(const selection *s, struct pollfd *entries, uint64_t deadline_ns)
{
    nfds_t count = to_entries(s, entries);
    unsigned backoff_ms = 0;
    for (;;) {
        int ready = poll_until(entries, count, deadline_ns);
        if (ready < 0)
            return ready;
        if (has_bad_descriptor(entries, count))
            return mf_fail(-EBADF);
        int bits = from_entries(s, entries, count);
        if (bits || ready == 0)
            return bits;
        /* A hang-up that select does not report ends poll all the same. */
        if (!mf_back_off(&backoff_ms, deadline_ns))
            return errno == EAGAIN ? 0 : -1;
    }
}

/* How many descriptors the kernel's table of them has room for now (proc(5), FDSize). INT_MAX: nobody knows. */
static int table_size(void)
{
    uint64_t slots;
    bool is_known = mf_proc_number("/proc/self/status", "FDSize:", 10, &slots);
    return is_known && slots > 0 && slots < INT_MAX ? (int)slots : INT_MAX;
}

/* Beyond that table select does not look (core_sys_select in fs/select.c). Programs rely on it whose bound is the number
 * of descriptors that they might have, a million perhaps, and whose sets end at FD_SETSIZE. */
static int bound_by_table(int bound)
{
    if (bound <= FD_SETSIZE)
        return bound;
    int size = table_size();
    return bound < size ? bound : size;
}

static int select_until(int bound, fd_set *read_set, fd_set *write_set, fd_set *except_set, uint64_t deadline_ns)
{
    int before = errno;
    selection s = {bound_by_table(bound), read_set, write_set, except_set};
    struct pollfd *entries = calloc((size_t)s.bound + 1, sizeof *entries);
    if (!entries)
        return mf_fail(-ENOMEM);
    int result = select_entries(&s, entries, deadline_ns);
    free(entries); /* which keeps errno */
    return (int)mf_settle(result, before);
}

int select(int bound, fd_set *read_set, fd_set *write_set, fd_set *except_set, struct timeval *timeout)
{
    struct timespec limit = {0};
    if (timeout) /* unlike the others, select takes a second and more in tv_usec */
        limit = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000, timeout->tv_usec % 1000000 * 1000};
    bool only_looks = timeout && !limit.tv_sec && !limit.tv_nsec;
    if (mf_current && only_looks)
        mf_spend_turn();
    if (!mf_current || bound < 0 || only_looks || (timeout && !mf_is_valid_time(&limit)))
        return LIBC(select)(bound, read_set, write_set, except_set, timeout);
    uint64_t deadline_ns = mf_deadline_after(timeout ? &limit : NULL);
    int result = select_until(bound, read_set, write_set, except_set, deadline_ns);
    if (timeout && deadline_ns != MR_NO_DEADLINE) { /* Linux leaves in it the time that was not slept */
        uint64_t left_us = mf_left_ns(deadline_ns) / 1000;
        *timeout = (struct timeval){(time_t)(left_us / 1000000), (suseconds_t)(left_us % 1000000)};
    }
    return result;
}

ALIAS(__select, select);

int pselect(int bound, fd_set *read_set, fd_set *write_set, fd_set *except_set, const struct timespec *timeout,
            const sigset_t *mask)
{
    if (!mf_current || bound < 0 || (timeout && !mf_is_valid_time(timeout)))
        return LIBC(pselect)(bound, read_set, write_set, except_set, timeout, mask);
    return select_until(bound, read_set, write_set, except_set, mf_deadline_after(timeout));
}

/* -------------------------------------------------------------------------------------------------------- epoll --- */

static int epoll_until(int set, struct epoll_event *events, int capacity, uint64_t deadline_ns)
{
    mf_spend_turn();
    for (;;) {
        int count = LIBC(epoll_wait)(set, events, capacity, 0);
        if (count != 0 || has_passed(deadline_ns))
            return count;
        int error = mf_watch_wait(set, MR_WAIT_READABLE, deadline_ns);
        if (error == -ELOOP) /* it holds others, as deep as they may be in each other: the carrier's cannot hold it */
            error = wait_for_next_look(deadline_ns);
        if (error && error != MF_DEADLINE_PASSED)
            return mf_fail(error);
    }
}

int epoll_wait(int set, struct epoll_event *events, int capacity, int timeout_ms)
{
    if (!mf_current)
        return LIBC(epoll_wait)(set, events, capacity, timeout_ms);
    return epoll_until(set, events, capacity, deadline_after_ms(timeout_ms));
}

int epoll_pwait(int set, struct epoll_event *events, int capacity, int timeout_ms, const sigset_t *mask)
{
    if (!mf_current)
        return LIBC(epoll_pwait)(set, events, capacity, timeout_ms, mask);
    return epoll_until(set, events, capacity, deadline_after_ms(timeout_ms));
}

int epoll_pwait2(int set, struct epoll_event *events, int capacity, const struct timespec *timeout,
                 const sigset_t *mask)
{
    if (!mf_current || (timeout && !mf_is_valid_time(timeout)))
        return LIBC(epoll_pwait2)(set, events, capacity, timeout, mask);
    return epoll_until(set, events, capacity, mf_deadline_after(timeout));
}
