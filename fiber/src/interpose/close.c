/* close.c: the calls that close or replace a descriptor number. Fibers that wait for it get EBADF. */
#include "../offload.h"
#include "../watch.h"
#include "blocking.h"
#include "libc.h"
#include "socket.h"

#include <limits.h>

MF_ALWAYS_LINKED(close);

bool mf_may_linger(int descriptor)
{
    struct linger linger = {0};
    socklen_t size = sizeof linger;
    int error = errno;
    bool is_set = getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 && linger.l_onoff;
    errno = error;
    return is_set && linger.l_linger > 0;
}

/* The close or replacement of a socket that may linger, on a helper thread. */
typedef struct helper_call {
    int descriptor;
    int replacement;
    int flags;
    int result;
} helper_call;

static void run_close(void *argument)
{
    helper_call *e = argument;
    e->result = LIBC(close)(e->descriptor);
}

static void run_dup3(void *argument)
{
    helper_call *e = argument;
    e->result = LIBC(dup3)(e->replacement, e->descriptor, e->flags);
}

static int perform_on_helper(mf_work work, helper_call e)
{
    mf_offload_to_new_thread(work, &e);
    return e.result;
}

int close(int descriptor)
{
    mf_watch_note_close(descriptor, descriptor);
    int result = mf_current && mf_may_linger(descriptor)
                     ? perform_on_helper(run_close, (helper_call){.descriptor = descriptor})
                     : LIBC(close)(descriptor);
    mf_watch_note_closed(descriptor, descriptor);
    return result;
}

ALIAS(__close, close);

int close_range(unsigned first, unsigned last, int flags)
{
    if (((unsigned)flags & CLOSE_RANGE_CLOEXEC) || first > INT_MAX)
        return LIBC(close_range)(first, last, flags);
    int last_watched = last <= INT_MAX ? (int)last : INT_MAX;
    mf_watch_note_close((int)first, last_watched);
    int result = LIBC(close_range)(first, last, flags);
    mf_watch_note_closed((int)first, last_watched);
    return result;
}

void closefrom(int first)
{
    int first_watched = first < 0 ? 0 : first;
    mf_watch_note_close(first_watched, INT_MAX);
    LIBC(closefrom)(first);
    mf_watch_note_closed(first_watched, INT_MAX);
}

/* True if dup2 would replace a descriptor. With a bad one it fails and closes nothing. */
static bool replaces(int descriptor, int number)
{
    return descriptor != number && fcntl(descriptor, F_GETFD) >= 0;
}

static int replace(int descriptor, int number, int flags)
{
    helper_call e = {.descriptor = number, .replacement = descriptor, .flags = flags};
    mf_watch_note_close(number, number);
    int result =
        mf_current && mf_may_linger(number) ? perform_on_helper(run_dup3, e) : LIBC(dup3)(descriptor, number, flags);
    mf_watch_note_closed(number, number);
    return result;
}

int dup2(int descriptor, int number)
{
    if (!replaces(descriptor, number))
        return LIBC(dup2)(descriptor, number);
    return replace(descriptor, number, 0);
}

ALIAS(__dup2, dup2);

int dup3(int descriptor, int number, int flags)
{
    if ((flags & ~O_CLOEXEC) || !replaces(descriptor, number))
        return LIBC(dup3)(descriptor, number, flags);
    return replace(descriptor, number, flags);
}
