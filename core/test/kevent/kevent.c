/*
 * kevent.c: a test double of kqueue(2) over epoll.
 *
 * A queue is an epoll descriptor that watches three others: an epoll descriptor for each direction, because each filter
 * has its own mode, and an event descriptor for EVFILT_USER. It implements these parts of the manual page: EV_CLEAR,
 * EV_ONESHOT (the filter is removed once reported), ENOENT for missing filters, EV_RECEIPT, errno for errors that do
 * not fit into the list, EV_EOF, and that a child does not inherit a queue. Anything unknown ends the program. Unlike
 * kqueue, closing a descriptor does not remove its filters: Millrace removes them before it closes one.
 */
#include <sys/event.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

enum { READS, WRITES, DIRECTIONS, USER = DIRECTIONS, PARTS };
enum { DESCRIPTORS_MAX = 1 << 20 };

/* A filter on a descriptor. */
typedef struct note {
    void *udata;
    unsigned short flags; /* 0: none */
} note;

typedef struct queue {
    struct queue *next;
    int number;       /* what kqueue() returned */
    int parts[PARTS]; /* the descriptors that it watches */
    note *notes[DIRECTIONS];
    size_t note_count;
    note user;
} queue;

static queue *queues;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void give_up(const char *what)
{
    fprintf(stderr, "kevent.c: %s\n", what);
    abort();
}

static void free_queue(queue *q)
{
    for (int i = 0; i < PARTS; i++)
        (close)(q->parts[i]);
    for (int i = 0; i < DIRECTIONS; i++)
        free(q->notes[i]);
    free(q);
}

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void release_lock(void)
{
    pthread_mutex_unlock(&lock);
}

static void forget_in_child(void)
{
    while (queues) {
        queue *q = queues;
        queues = q->next;
        (close)(q->number);
        free_queue(q);
    }
    release_lock();
}

static void prepare_for_forks(void)
{
    pthread_atfork(take_lock, release_lock, forget_in_child);
}

int kqueue(void)
{
    pthread_once(&once, prepare_for_forks);
    take_lock();
    queue *q = calloc(1, sizeof *q);
    struct epoll_event event = {.events = EPOLLIN};
    if (!q)
        give_up("no memory");
    q->number = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < PARTS; i++) {
        q->parts[i] = i == USER ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : epoll_create1(EPOLL_CLOEXEC);
        if (q->number < 0 || q->parts[i] < 0 || epoll_ctl(q->number, EPOLL_CTL_ADD, q->parts[i], &event) < 0)
            give_up(strerror(errno));
    }
    q->next = queues;
    queues = q;
    release_lock();
    return q->number;
}

static queue **find_queue(int number)
{
    queue **link = &queues;
    while (*link && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

int kevent_close(int number)
{
    take_lock();
    queue **link = find_queue(number), *q = *link;
    if (q) {
        *link = q->next;
        free_queue(q);
    }
    release_lock();
    return (close)(number);
}

static note *note_of(queue *q, int direction, uintptr_t ident)
{
    if (ident >= DESCRIPTORS_MAX)
        return NULL;
    if (ident >= q->note_count) {
        size_t count = ident + 1024;
        for (int i = 0; i < DIRECTIONS; i++) {
            q->notes[i] = realloc(q->notes[i], count * sizeof(note));
            if (!q->notes[i])
                give_up("no memory");
            memset(q->notes[i] + q->note_count, 0, (count - q->note_count) * sizeof(note));
        }
        q->note_count = count;
    }
    return &q->notes[direction][ident];
}

static int add(queue *q, int direction, const struct kevent *change)
{
    int part = q->parts[direction], number = (int)change->ident;
    note *n = note_of(q, direction, change->ident);
    struct epoll_event event = {.events = direction == READS ? EPOLLIN | EPOLLRDHUP : EPOLLOUT, .data.fd = number};
    if (!n)
        return EBADF;
    if (change->flags & EV_CLEAR)
        event.events |= EPOLLET;
    if (change->flags & EV_ONESHOT)
        event.events |= EPOLLONESHOT;
    if (epoll_ctl(part, EPOLL_CTL_ADD, number, &event) < 0 &&
        (errno != EEXIST || epoll_ctl(part, EPOLL_CTL_MOD, number, &event) < 0))
        return errno;
    *n = (note){change->udata, change->flags};
    return 0;
}

static int remove_note(queue *q, int direction, const struct kevent *change)
{
    note *n = note_of(q, direction, change->ident);
    if (!n || !n->flags)
        return ENOENT;
    n->flags = 0;
    return epoll_ctl(q->parts[direction], EPOLL_CTL_DEL, (int)change->ident, NULL) < 0 ? ENOENT : 0;
}

static int change_user(queue *q, const struct kevent *change)
{
    if (change->flags & EV_ADD)
        q->user = (note){change->udata, change->flags};
    if (!q->user.flags)
        return ENOENT;
    if ((change->fflags & NOTE_TRIGGER) && eventfd_write(q->parts[USER], 1) < 0)
        give_up(strerror(errno));
    return 0;
}

static int apply(queue *q, const struct kevent *change)
{
    unsigned short known = EV_ADD | EV_DELETE | EV_ONESHOT | EV_CLEAR | EV_RECEIPT;
    if (change->flags & ~known)
        give_up("flags that this double does not know");
    if (change->filter == EVFILT_USER)
        return change_user(q, change);
    if (change->filter != EVFILT_READ && change->filter != EVFILT_WRITE)
        give_up("a filter that this double does not know");
    int direction = change->filter == EVFILT_READ ? READS : WRITES;
    return change->flags & EV_DELETE ? remove_note(q, direction, change) : add(q, direction, change);
}

static struct kevent report_of(queue *q, int direction, const struct epoll_event *event)
{
    uint32_t end = direction == READS ? EPOLLRDHUP | EPOLLHUP | EPOLLERR : EPOLLHUP | EPOLLERR;
    note *n = note_of(q, direction, (uintptr_t)event->data.fd);
    struct kevent report;
    int available = 0;
    if (direction == READS)
        ioctl(event->data.fd, FIONREAD, &available);
    EV_SET(&report, (uintptr_t)event->data.fd, direction == READS ? EVFILT_READ : EVFILT_WRITE,
           n->flags | (event->events & end ? EV_EOF : 0), 0, available, n->udata);
    if (n->flags & EV_ONESHOT) {
        n->flags = 0;
        epoll_ctl(q->parts[direction], EPOLL_CTL_DEL, event->data.fd, NULL);
    }
    return report;
}

static int take_reports(queue *q, struct kevent *events, int capacity)
{
    struct epoll_event found[64];
    eventfd_t triggers;
    int count = 0;
    if (count < capacity && eventfd_read(q->parts[USER], &triggers) == 0)
        EV_SET(&events[count++], 0, EVFILT_USER, q->user.flags, 0, 0, q->user.udata);
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        /* One direction must not fill the list, so that the other gets its turn. */
        int limit = (capacity - count + 1 - direction) / (2 - direction), ready = 0;
        if (limit > 0)
            ready = epoll_wait(q->parts[direction], found, limit < 64 ? limit : 64, 0);
        for (int i = 0; i < ready; i++)
            events[count++] = report_of(q, direction, &found[i]);
    }
    return count;
}

int kevent(int number, const struct kevent *changes, int change_count, struct kevent *events, int event_count,
           const struct timespec *timeout)
{
    int count = 0, error = 0;
    take_lock();
    queue *q = *find_queue(number);
    if (!q)
        error = EBADF;
    for (int i = 0; i < change_count && !error; i++) {
        int failure = apply(q, &changes[i]);
        bool is_answered = failure || (changes[i].flags & EV_RECEIPT);
        if (is_answered && count < event_count) {
            events[count] = changes[i];
            events[count].flags |= EV_ERROR;
            events[count++].data = failure;
        } else {
            error = failure;
        }
    }
    if (!error && count == 0 && event_count > 0) {
        if (!timeout || timeout->tv_sec || timeout->tv_nsec)
            give_up("this double does not wait");
        count = take_reports(q, events, event_count);
    }
    release_lock();
    errno = error ? error : errno;
    return error ? -1 : count;
}
