/*
 * event.h: the part of kqueue(2) that Millrace uses, for machines that have none; kevent.c does it over epoll.
 *
 * Names, types and meanings are those of FreeBSD's manual page; the numbers do not matter.
 */
#ifndef MILLRACE_TEST_KEVENT_H
#define MILLRACE_TEST_KEVENT_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define EVFILT_READ  (-1)
#define EVFILT_WRITE (-2)
#define EVFILT_USER  (-11)

#define EV_ADD     0x0001
#define EV_DELETE  0x0002
#define EV_ONESHOT 0x0010
#define EV_CLEAR   0x0020
#define EV_RECEIPT 0x0040
#define EV_ERROR   0x4000
#define EV_EOF     0x8000

#define NOTE_TRIGGER 0x01000000

struct kevent {
    uintptr_t ident;
    short filter;
    unsigned short flags;
    unsigned int fflags;
    int64_t data;
    void *udata;
};

#define EV_SET(event, ident_, filter_, flags_, fflags_, data_, udata_) \
    (*(event) = (struct kevent){(ident_), (filter_), (flags_), (fflags_), (data_), (udata_)})

int kqueue(void);
/* Here a queue consists of several descriptors, so the test double must close it. */
int kevent_close(int number);
#define close(number) kevent_close(number)
int kevent(int queue, const struct kevent *changes, int change_count, struct kevent *events, int event_count,
           const struct timespec *timeout);

#endif
