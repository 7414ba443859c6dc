/*
 * poll.c: waiting for several descriptors: poll, select, epoll_wait and their variants.
 *
 * Each call first polls without waiting. A wait for a few descriptors with plain conditions consists of operations of
 * the core. For anything else (many descriptors, POLLPRI, only errors) the call creates an epoll descriptor, which is
 * readable when it has an event. If it cannot create one, it polls again after a pause.
 *
 * The masks of ppoll, pselect and epoll_pwait may allow signals. These stay blocked while the fiber waits, and a
 * signalfd reports a pending one. Then the call frees everything that it has allocated, because a handler may leave by
 * a jump, and allows the signal.
 */
#include "../mask.h"
#include "../watch.h"
#include "blocking.h"
#include "libc.h"
#include "proc.h"
#include "timespec.h"

#include <limits.h>
#include <string.h>
#include <sys/signalfd.h>

MF_ALWAYS_LINKED(poll);

enum { WATCHED_SINGLY_MAX = 16, RECHECK_PAUSE_MS = 10 };

/* The result of a poll that found only a signal, which ends the wait. */
enum { SIGNALLED = -2 };

/* As mf_settle, but a poll that a signal ended has not failed. */
static int settle(int result, int errno_before)
{
    if (result != -1)
        errno = errno_before;
    return result;
}

#define NS_PER_MS UINT64_C(1000000)

static uint64_t deadline_after_ms(int timeout_ms)
{
    return timeout_ms < 0 ? MR_NO_DEADLINE : mr_clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

/* --------------------------------------------------------------------------------------------------------- poll --- */

/* A call of poll or a variant of it. */
typedef struct polling {
    struct pollfd *entries;
    nfds_t count;
    uint64_t deadline_ns;
    const mf_mask_of_wait *mask;
} polling;

static const mf_mask_of_wait no_mask;

/* Counts the entries, except those with a descriptor below 0. */
static nfds_t counting_entries(const polling *p)
{
    nfds_t counting = 0;
    for (nfds_t i = 0; i < p->count; i++)
        counting += p->entries[i].fd >= 0;
    return counting;
}

static short plain_events(const struct pollfd *entry)
{
    return (short)(entry->events & ~(POLLRDNORM | POLLWRNORM));
}

/* True if the core can wait for the events of each entry. */
static bool are_plain(const polling *p)
{
    for (nfds_t i = 0; i < p->count; i++) {
        short events = plain_events(&p->entries[i]);
        if (p->entries[i].fd >= 0 && (!events || (events & ~(POLLIN | POLLOUT))))
            return false;
    }
    return true;
}

/* The watches of one call. The outcome of the wait is the index of the watch that decided it. */
typedef struct watching {
    mf_wait wait;
    mf_watch *watches;
    int count;
    int signals; /* a signalfd, or -1 */
    int closed;  /* the descriptor that was closed, or -1 */
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

/* Waits. Returns 0 if the caller should poll again, or a negative errno. */
static int park(watching *w, uint64_t deadline_ns)
{
    if (w->signals >= 0)
        watch(w, w->signals, MR_WAIT_READABLE);
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

static int wait_singly(watching *w, const polling *p)
{
    for (nfds_t i = 0; i < p->count; i++) {
        const struct pollfd *entry = &p->entries[i];
        if (entry->fd >= 0 && (entry->events & POLLIN))
            watch(w, entry->fd, MR_WAIT_READABLE);
        if (entry->fd >= 0 && (entry->events & POLLOUT))
            watch(w, entry->fd, MR_WAIT_WRITABLE);
    }
    return park(w, p->deadline_ns);
}

/* On Linux POLLIN equals EPOLLIN, and so on. If a descriptor occurs twice, both sets of events count. A descriptor that
 * epoll does not take is either bad, which the next poll reports, or a file, which poll would have reported as ready.
 * Returns 0 or a negative errno. */
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

static int pause_before_recheck(uint64_t deadline_ns)
{
    uint64_t next_ns = mr_clock_now_ns() + RECHECK_PAUSE_MS * NS_PER_MS;
    return mr_fiber_sleep_until(mf_earlier(deadline_ns, next_ns));
}

static int wait_for_set(watching *w, const polling *p)
{
    int set = epoll_create1(EPOLL_CLOEXEC), refusal = 0;
    if (set < 0)
        return pause_before_recheck(p->deadline_ns);
    for (nfds_t i = 0; i < p->count && !refusal; i++) {
        if (p->entries[i].fd < 0)
            continue;
        watch_for_close(w, p->entries[i].fd);
        refusal = add_to_set(set, p->entries, i);
    }
    if (refusal)
        mf_wait_claim_own(&w->wait, w->count);
    else
        watch(w, set, MR_WAIT_READABLE);
    int error = park(w, p->deadline_ns);
    LIBC(close)(set);
    return refusal && refusal != -EBADF && !error ? pause_before_recheck(p->deadline_ns) : error;
}

/* Returns a signalfd for the allowed signals, or -1. */
static int watch_signals(const mf_mask_of_wait *mask)
{
    sigset_t set;
    mf_mask_to_set(mask->allows, &set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int wait_with_watches(watching *w, const polling *p, bool by_set)
{
    nfds_t counting = counting_entries(p);
    w->watches = malloc((2 * counting + 2) * sizeof *w->watches);
    if (!w->watches)
        return -ENOMEM;
    mf_wait_init(&w->wait);
    bool singly = !by_set && counting <= WATCHED_SINGLY_MAX && are_plain(p);
    int error = singly ? wait_singly(w, p) : wait_for_set(w, p);
    free(w->watches);
    return error;
}

/* Waits. Returns 0 if the caller should poll again, or a negative errno. `by_set`: wait by epoll, because the core's
 * condition differs from the caller's. */
static int wait_for_any(const polling *p, bool by_set, int *closed)
{
    watching w = {.closed = -1, .signals = -1};
    if (counting_entries(p) == 0 && !p->mask->allows)
        return mr_fiber_sleep_until(p->deadline_ns);
    if (p->mask->allows && (w.signals = watch_signals(p->mask)) < 0)
        return pause_before_recheck(p->deadline_ns);
    int error = wait_with_watches(&w, p, by_set);
    if (w.signals >= 0)
        LIBC(close)(w.signals);
    *closed = w.closed;
    return error;
}

/* Reports a descriptor that is about to be closed. Another poll would still find it open for a moment. */
static int report_closed(struct pollfd *entries, nfds_t count, int closed)
{
    int reported = 0;
    for (nfds_t i = 0; i < count; i++) {
        entries[i].revents = entries[i].fd == closed ? POLLNVAL : 0;
        reported += entries[i].revents != 0;
    }
    return reported;
}

/* Polls and waits until there is a result. The result comes from a new poll, so it is true at that moment. */
static int poll_repeatedly(const polling *p)
{
    bool was_in_vain = false;
    mf_consume_budget();
    for (;;) {
        int closed = -1, ready = LIBC(poll)(p->entries, p->count, 0);
        if (ready == 0 && mf_mask_is_pending(p->mask))
            return SIGNALLED;
        if (ready != 0 || mf_has_passed(p->deadline_ns))
            return ready;
        int error = wait_for_any(p, was_in_vain, &closed);
        if (error == -EBADF)
            return report_closed(p->entries, p->count, closed);
        if (error && error != MF_DEADLINE_PASSED)
            return mf_fail(error); /* also for an interruption with ETIMEDOUT */
        was_in_vain = !error;
    }
}

static int poll_until(const polling *p)
{
    int before = errno;
    return settle(poll_repeatedly(p), before);
}

int poll(struct pollfd *entries, nfds_t count, int timeout_ms)
{
    if (!mf_current)
        return LIBC(poll)(entries, count, timeout_ms);
    return poll_until(&(polling){entries, count, deadline_after_ms(timeout_ms), &no_mask});
}

ALIAS(__poll, poll);

int __poll_chk(struct pollfd *entries, nfds_t count, int timeout_ms, size_t size)
{
    if (!mf_current || size / sizeof *entries < count)
        return LIBC(__poll_chk)(entries, count, timeout_ms, size);
    return poll(entries, count, timeout_ms);
}

/* Handles a pending signal. Returns true if the wait goes on, because the program ignores the signal. */
static bool must_wait_again(int result, const mf_mask_of_wait *mask)
{
    return result == SIGNALLED && mf_mask_handle(mask) != MF_MASK_HANDLED;
}

/* The result of the call. */
static int end_wait(int result, const mf_mask_of_wait *mask)
{
    mf_mask_end_wait(mask);
    return result == SIGNALLED ? mf_fail(-EINTR) : result;
}

int ppoll(struct pollfd *entries, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    if (!mf_current || (timeout && !mf_is_valid_time(timeout)))
        return LIBC(ppoll)(entries, count, timeout, mask);
    mf_mask_of_wait own = mf_mask_begin_wait(mask);
    polling p = {entries, count, mf_deadline_after(timeout), &own};
    int result;
    do
        result = poll_until(&p);
    while (must_wait_again(result, &own));
    return end_wait(result, &own);
}

int __ppoll_chk(struct pollfd *entries, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
    if (!mf_current || size / sizeof *entries < count)
        return LIBC(__ppoll_chk)(entries, count, timeout, mask, size);
    return ppoll(entries, count, timeout, mask);
}

/* ------------------------------------------------------------------------------------------------------- select --- */

/* The events of poll that each set of select stands for (select(2), "Correspondence between select() and poll()"). */
#define POLL_OF_READ   (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define POLL_OF_WRITE  (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define POLL_OF_EXCEPT POLLPRI

typedef struct selection {
    int bound; /* descriptors are below it */
    fd_set *read, *write, *except;
} selection;

/* fd_set ends at FD_SETSIZE, but select does not: some programs allocate more and rely on that. */
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

/* Fills in the sets. Returns the number of bits, which is select's result. */
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

static int select_entries(const selection *s, struct pollfd *entries, uint64_t deadline_ns, const mf_mask_of_wait *mask)
{
    polling p = {entries, to_entries(s, entries), deadline_ns, mask};
    unsigned backoff_ms = 0;
    for (;;) {
        int ready = poll_until(&p);
        if (ready < 0)
            return ready;
        if (has_bad_descriptor(entries, p.count))
            return mf_fail(-EBADF);
        int bits = from_entries(s, entries, p.count);
        if (bits || ready == 0)
            return bits;
        /* A hang-up ends poll even if select does not report it. */
        if (!mf_back_off(&backoff_ms, deadline_ns))
            return errno == EAGAIN ? 0 : -1;
    }
}

/* The size of the kernel's descriptor table (proc(5), FDSize); INT_MAX if it is not known. */
static int table_size(void)
{
    uint64_t slots;
    bool is_known = mf_proc_number("/proc/self/status", "FDSize:", 10, &slots);
    return is_known && slots > 0 && slots < INT_MAX ? (int)slots : INT_MAX;
}

/* The kernel's select does not read beyond that table (core_sys_select in fs/select.c). Some programs rely on it: their
 * bound is the number of descriptors that they might have, perhaps a million, while their sets end at FD_SETSIZE. */
static int bound_by_table(int bound)
{
    if (bound <= FD_SETSIZE)
        return bound;
    int size = table_size();
    return bound < size ? bound : size;
}

static int select_until(const selection *s, uint64_t deadline_ns, const mf_mask_of_wait *mask)
{
    int before = errno;
    struct pollfd *entries = calloc((size_t)s->bound + 1, sizeof *entries);
    if (!entries)
        return mf_fail(-ENOMEM);
    int result = select_entries(s, entries, deadline_ns, mask);
    free(entries); /* free keeps errno */
    return settle(result, before);
}

int select(int bound, fd_set *read_set, fd_set *write_set, fd_set *except_set, struct timeval *timeout)
{
    struct timespec limit = {0};
    if (timeout) /* unlike the others, select accepts one second and more in tv_usec */
        limit = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000, timeout->tv_usec % 1000000 * 1000};
    bool only_polls = timeout && !limit.tv_sec && !limit.tv_nsec;
    if (mf_current && only_polls)
        mf_consume_budget();
    if (!mf_current || bound < 0 || only_polls || (timeout && !mf_is_valid_time(&limit)))
        return LIBC(select)(bound, read_set, write_set, except_set, timeout);
    uint64_t deadline_ns = mf_deadline_after(timeout ? &limit : NULL);
    selection s = {bound_by_table(bound), read_set, write_set, except_set};
    int result = select_until(&s, deadline_ns, &no_mask);
    if (timeout && deadline_ns != MR_NO_DEADLINE) { /* Linux stores the remaining time in it */
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
    uint64_t deadline_ns = mf_deadline_after(timeout);
    selection s = {bound_by_table(bound), read_set, write_set, except_set};
    mf_mask_of_wait own = mf_mask_begin_wait(mask);
    int result;
    do
        result = select_until(&s, deadline_ns, &own);
    while (must_wait_again(result, &own));
    return end_wait(result, &own);
}

/* -------------------------------------------------------------------------------------------------------- epoll --- */

/* A call of epoll_wait or a variant of it. */
typedef struct epoll_call {
    int set;
    struct epoll_event *events;
    int capacity;
    uint64_t deadline_ns;
    const mf_mask_of_wait *mask;
} epoll_call;

/* Waits. Returns 0 if the caller should poll again, or a negative errno. */
static int wait_for_set_or_signal(const epoll_call *c)
{
    mf_watch watches[2];
    watching w = {.closed = -1, .watches = watches, .signals = watch_signals(c->mask)};
    if (w.signals < 0)
        return pause_before_recheck(c->deadline_ns);
    mf_wait_init(&w.wait);
    watch(&w, c->set, MR_WAIT_READABLE);
    int error = park(&w, c->deadline_ns);
    LIBC(close)(w.signals);
    return error;
}

static int epoll_repeatedly(const epoll_call *c)
{
    mf_consume_budget();
    for (;;) {
        int count = LIBC(epoll_wait)(c->set, c->events, c->capacity, 0);
        if (count != 0 || mf_has_passed(c->deadline_ns))
            return count;
        if (mf_mask_is_pending(c->mask))
            return SIGNALLED;
        int error =
            c->mask->allows ? wait_for_set_or_signal(c) : mf_watch_wait(c->set, MR_WAIT_READABLE, c->deadline_ns);
        /* It contains other epoll descriptors as deep as the kernel allows, so the carrier's cannot contain it. */
        if (error == -ELOOP)
            error = pause_before_recheck(c->deadline_ns);
        if (error && error != MF_DEADLINE_PASSED)
            return mf_fail(error);
    }
}

static int epoll_until_settled(const epoll_call *c)
{
    int before = errno;
    return settle(epoll_repeatedly(c), before);
}

static int epoll_until(int set, struct epoll_event *events, int capacity, uint64_t deadline_ns, const sigset_t *mask)
{
    mf_mask_of_wait own = mf_mask_begin_wait(mask);
    epoll_call c = {set, events, capacity, deadline_ns, &own};
    int result;
    do
        result = epoll_until_settled(&c);
    /* Linux ends this wait for ignored signals, too */
    while (result == SIGNALLED && mf_mask_handle(&own) == MF_MASK_NOTHING);
    return end_wait(result, &own);
}

int epoll_wait(int set, struct epoll_event *events, int capacity, int timeout_ms)
{
    if (!mf_current)
        return LIBC(epoll_wait)(set, events, capacity, timeout_ms);
    return epoll_until(set, events, capacity, deadline_after_ms(timeout_ms), NULL);
}

int epoll_pwait(int set, struct epoll_event *events, int capacity, int timeout_ms, const sigset_t *mask)
{
    if (!mf_current)
        return LIBC(epoll_pwait)(set, events, capacity, timeout_ms, mask);
    return epoll_until(set, events, capacity, deadline_after_ms(timeout_ms), mask);
}

int epoll_pwait2(int set, struct epoll_event *events, int capacity, const struct timespec *timeout,
                 const sigset_t *mask)
{
    if (!mf_current || (timeout && !mf_is_valid_time(timeout)))
        return LIBC(epoll_pwait2)(set, events, capacity, timeout, mask);
    return epoll_until(set, events, capacity, mf_deadline_after(timeout), mask);
}
