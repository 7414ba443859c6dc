/* terminal.c: whether a read of a terminal would wait, which poll alone does not tell. */
#include "terminal.h"
#include "libc.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <termios.h>

MF_ALWAYS_LINKED(terminal);

#define NS_PER_TENTH UINT64_C(100000000)

/* True for the master side of a pseudoterminal. It reports the settings of the terminal, and has none itself. */
static bool is_pty_master(int descriptor)
{
    unsigned number;
    return ioctl(descriptor, TIOCGPTN, &number) == 0;
}

/* A background process that reads its terminal is stopped, or gets EIO, whether there is input or not. */
static bool is_in_background(int descriptor)
{
    pid_t foreground = tcgetpgrp(descriptor);
    return foreground >= 0 && foreground != getpgrp();
}

/* The number of bytes that can be read. Call it after a poll, which delivers bytes on their way. */
static size_t available_bytes(int descriptor)
{
    int available = 0;
    ioctl(descriptor, FIONREAD, &available);
    return (size_t)available;
}

static mf_terminal_state check_bytes(int descriptor, size_t wanted, bool has_pause)
{
    size_t available = available_bytes(descriptor);
    if (available >= wanted)
        return MF_TERMINAL_READY;
    return has_pause && available ? MF_TERMINAL_BEGUN : MF_TERMINAL_EMPTY;
}

mf_terminal_state mf_terminal_check(int descriptor, size_t size, uint64_t *limit_ns)
{
    struct termios settings;
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    if (tcgetattr(descriptor, &settings) != 0)
        return MF_TERMINAL_NONE;
    bool is_other_end = is_pty_master(descriptor);
    if (!is_other_end && is_in_background(descriptor))
        return MF_TERMINAL_READY;
    bool has_input = LIBC(poll)(&entry, 1, 0) > 0;
    if (is_other_end || (settings.c_lflag & ICANON) || (entry.revents & (POLLHUP | POLLERR)))
        return has_input ? MF_TERMINAL_READY : MF_TERMINAL_EMPTY;
    size_t least = settings.c_cc[VMIN], tenths = settings.c_cc[VTIME];
    *limit_ns = tenths * NS_PER_TENTH;
    if (!least)
        return has_input || !tenths ? MF_TERMINAL_READY : MF_TERMINAL_TIMED;
    mf_terminal_state state = check_bytes(descriptor, size < least ? size : least, tenths > 0);
    return state == MF_TERMINAL_EMPTY && size < least && !tenths ? MF_TERMINAL_UNANNOUNCED : state;
}
