/* connection_calls.c: accept, connect and shutdown. */
#include "calls.h"

#include <fcntl.h>
#include <unistd.h>

static void call_accept(world *w, outcome *o)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    int accepted = accept(w->descriptor, (struct sockaddr *)&address, &size);
    o->result = accepted < 0 ? -1 : 0;
    o->detail[0] = address.ss_family;
    if (accepted >= 0) {
        o->detail[1] = fcntl(accepted, F_GETFL);
        o->detail[2] = fcntl(accepted, F_GETFD);
        close(accepted);
    }
}

static void call_accept4(world *w, outcome *o)
{
    int accepted = accept4(w->descriptor, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    o->result = accepted < 0 ? -1 : 0;
    if (accepted >= 0) {
        o->detail[1] = fcntl(accepted, F_GETFL);
        o->detail[2] = fcntl(accepted, F_GETFD);
        close(accepted);
    }
}

static void call_accept4_invalid(world *w, outcome *o)
{
    o->result = accept4(w->descriptor, NULL, NULL, 0x1234);
}

static void call_connect(world *w, outcome *o)
{
    o->result = connect(w->descriptor, (struct sockaddr *)&w->peer_address, w->peer_address_size);
}

static void call_shutdown(world *w, outcome *o)
{
    o->result = shutdown(w->descriptor, SHUT_WR);
    o->detail[0] = send(w->descriptor, "x", 1, MSG_NOSIGNAL);
    o->detail[1] = errno;
}

static const call calls[] = {
    {"accept", NEED_READABLE, false, false, call_accept},
    {"accept4", NEED_READABLE, false, false, call_accept4},
    {"accept4_invalid", NEED_NOTHING, false, false, call_accept4_invalid},
    {"connect", NEED_NOTHING, true, false, call_connect},
    {"shutdown", NEED_NOTHING, true, false, call_shutdown},
};

const call_table connection_calls = {calls, sizeof calls / sizeof *calls};
