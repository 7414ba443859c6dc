/* waiting_calls.c: poll, select and epoll. */
#include "calls.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* The fortified and old names of functions, which compilers use. */
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

enum { TIMEOUT_MS = 15, LONG_TIMEOUT_MS = 200 };

static void poll_for(world *w, outcome *o, short events, int timeout_ms)
{
    struct pollfd entry = {.fd = w->descriptor, .events = events, .revents = 0x7fff};
    o->result = poll(&entry, 1, timeout_ms);
    o->detail[0] = entry.revents;
}

static void call_poll_in_now(world *w, outcome *o)
{
    poll_for(w, o, POLLIN, 0);
}

static void call_poll_in_timeout(world *w, outcome *o)
{
    poll_for(w, o, POLLIN, TIMEOUT_MS);
}

static void call_poll_in(world *w, outcome *o)
{
    poll_for(w, o, POLLIN, w->mode == MODE_BLOCKING ? -1 : TIMEOUT_MS);
}

static void call_poll_out(world *w, outcome *o)
{
    poll_for(w, o, POLLOUT, w->mode == MODE_BLOCKING ? LONG_TIMEOUT_MS : TIMEOUT_MS);
}

static void call_poll_in_out(world *w, outcome *o)
{
    poll_for(w, o, POLLIN | POLLOUT, TIMEOUT_MS);
}

static void call_poll_nothing(world *w, outcome *o)
{
    poll_for(w, o, 0, TIMEOUT_MS);
}

static void call_poll_pri(world *w, outcome *o)
{
    poll_for(w, o, POLLPRI, TIMEOUT_MS);
}

static void call_poll_rdhup(world *w, outcome *o)
{
    poll_for(w, o, POLLRDHUP, TIMEOUT_MS);
}

static void call_poll_chk(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    o->result = __poll_chk(&entry, 1, TIMEOUT_MS, sizeof entry);
    o->detail[0] = entry.revents;
}

static void call_poll_twice_in_set(world *w, outcome *o)
{
    struct pollfd entries[] = {{.fd = w->descriptor, .events = POLLIN},
                               {.fd = -1, .events = POLLIN},
                               {.fd = w->descriptor, .events = POLLOUT}};
    o->result = poll(entries, 3, TIMEOUT_MS);
    o->detail[0] = entries[0].revents;
    o->detail[1] = entries[1].revents;
    o->detail[2] = entries[2].revents;
}

static void call_poll_empty_set(world *w, outcome *o)
{
    (void)w;
    o->result = poll(NULL, 0, TIMEOUT_MS);
}

static void call_ppoll(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = TIMEOUT_MS * 1000000};
    o->result = ppoll(&entry, 1, &timeout, NULL);
    o->detail[0] = entry.revents;
    o->detail[1] = timeout.tv_nsec;
}

static void call_ppoll_chk(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = TIMEOUT_MS * 1000000};
    o->result = __ppoll_chk(&entry, 1, &timeout, NULL, sizeof entry);
    o->detail[0] = entry.revents;
    o->detail[1] = timeout.tv_nsec;
}

static void call_ppoll_invalid(world *w, outcome *o)
{
    struct pollfd entry = {.fd = w->descriptor, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = 2000000000};
    o->result = ppoll(&entry, 1, &timeout, NULL);
}

static void select_for(world *w, outcome *o, struct timeval *timeout)
{
    fd_set in, out, except;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&except);
    FD_SET(w->descriptor, &in);
    FD_SET(w->descriptor, &except);
    o->result = select(w->descriptor + 1, &in, NULL, &except, timeout);
    if (o->result >= 0)
        o->detail[0] = (FD_ISSET(w->descriptor, &in) ? 1 : 0) + (FD_ISSET(w->descriptor, &except) ? 4 : 0);
}

static void call_select_now(world *w, outcome *o)
{
    struct timeval zero = {0};
    select_for(w, o, &zero);
}

static void call_select_timeout(world *w, outcome *o)
{
    struct timeval timeout = {.tv_usec = TIMEOUT_MS * 1000};
    select_for(w, o, &timeout);
    o->detail[1] = timeout.tv_sec == 0 && timeout.tv_usec <= TIMEOUT_MS * 1000;
    if (o->result == 0)
        o->detail[2] = timeout.tv_usec;
}

static void call_select(world *w, outcome *o)
{
    struct timeval timeout = {.tv_sec = 0, .tv_usec = TIMEOUT_MS * 1000};
    select_for(w, o, w->mode == MODE_BLOCKING ? NULL : &timeout);
}

static void call_pselect_out(world *w, outcome *o)
{
    struct timespec timeout = {.tv_nsec = (w->mode == MODE_BLOCKING ? LONG_TIMEOUT_MS : TIMEOUT_MS) * 1000000};
    fd_set out;
    FD_ZERO(&out);
    FD_SET(w->descriptor, &out);
    o->result = pselect(w->descriptor + 1, NULL, &out, NULL, &timeout, NULL);
    if (o->result >= 0)
        o->detail[0] = FD_ISSET(w->descriptor, &out) != 0;
}

typedef int (*epoll_waiter)(int set, struct epoll_event *event);

static void wait_in_set(world *w, outcome *o, epoll_waiter wait_for)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7}, got = {0};
    int set = epoll_create1(0);
    o->detail[0] = epoll_ctl(set, EPOLL_CTL_ADD, w->descriptor, &event);
    o->result = wait_for(set, &got);
    o->error = errno;
    o->detail[1] = got.events;
    o->detail[2] = got.data.u32;
    close(set);
    errno = o->error;
}

static int wait_with_epoll_wait(int set, struct epoll_event *event)
{
    return epoll_wait(set, event, 1, TIMEOUT_MS);
}

static int wait_with_epoll_pwait(int set, struct epoll_event *event)
{
    return epoll_pwait(set, event, 1, TIMEOUT_MS, NULL);
}

static int wait_with_epoll_pwait2(int set, struct epoll_event *event)
{
    struct timespec timeout = {.tv_nsec = TIMEOUT_MS * 1000000};
    return epoll_pwait2(set, event, 1, &timeout, NULL);
}

static int wait_with_epoll_pwait2_invalid(int set, struct epoll_event *event)
{
    struct timespec timeout = {.tv_nsec = 2000000000};
    return epoll_pwait2(set, event, 1, &timeout, NULL);
}

static void call_epoll_wait(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_wait);
}

static void call_epoll_pwait(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_pwait);
}

static void call_epoll_pwait2(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_pwait2);
}

static void call_epoll_pwait2_invalid(world *w, outcome *o)
{
    wait_in_set(w, o, wait_with_epoll_pwait2_invalid);
}

static const call calls[] = {
    {"poll_in_now", NEED_NOTHING, false, false, call_poll_in_now},
    {"poll_in_timeout", NEED_NOTHING, false, false, call_poll_in_timeout},
    {"poll_in", NEED_READABLE, false, false, call_poll_in},
    {"poll_out", NEED_WRITABLE, false, false, call_poll_out},
    {"poll_in_out", NEED_NOTHING, false, false, call_poll_in_out},
    {"poll_nothing", NEED_NOTHING, false, false, call_poll_nothing},
    {"poll_pri", NEED_NOTHING, false, false, call_poll_pri},
    {"poll_rdhup", NEED_NOTHING, false, false, call_poll_rdhup},
    {"poll_chk", NEED_NOTHING, false, false, call_poll_chk},
    {"poll_twice_in_set", NEED_NOTHING, false, false, call_poll_twice_in_set},
    {"poll_empty_set", NEED_NOTHING, false, false, call_poll_empty_set},
    {"ppoll", NEED_NOTHING, false, false, call_ppoll},
    {"ppoll_chk", NEED_NOTHING, false, false, call_ppoll_chk},
    {"ppoll_invalid", NEED_NOTHING, false, false, call_ppoll_invalid},
    {"select_now", NEED_NOTHING, false, false, call_select_now},
    {"select_timeout", NEED_NOTHING, false, false, call_select_timeout},
    {"select", NEED_READABLE, false, false, call_select},
    {"pselect_out", NEED_WRITABLE, false, false, call_pselect_out},
    {"epoll_wait", NEED_NOTHING, false, false, call_epoll_wait},
    {"epoll_pwait", NEED_NOTHING, false, false, call_epoll_pwait},
    {"epoll_pwait2", NEED_NOTHING, false, false, call_epoll_pwait2},
    {"epoll_pwait2_invalid", NEED_NOTHING, false, false, call_epoll_pwait2_invalid},
};

const call_table waiting_calls = {calls, sizeof calls / sizeof *calls};
