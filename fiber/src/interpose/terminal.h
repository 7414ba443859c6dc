/*
 * terminal.h: whether a read of a terminal waits. That depends on the terminal's settings: a read may require several
 * bytes, or end after a while without any (termios(3), "Canonical and noncanonical mode").
 */
#ifndef MILLRACE_FIBER_INTERPOSE_TERMINAL_H
#define MILLRACE_FIBER_INTERPOSE_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

typedef enum mf_terminal_state {
    MF_TERMINAL_NONE,        /* not a terminal */
    MF_TERMINAL_READY,       /* a read ends at once */
    MF_TERMINAL_EMPTY,       /* a read waits until poll reports input */
    MF_TERMINAL_UNANNOUNCED, /* a read waits, but poll waits for more bytes than the read needs */
    MF_TERMINAL_TIMED,       /* a read waits until poll reports input, or ends without a byte when its time is over */
    MF_TERMINAL_BEGUN        /* a read waits for bytes that must follow soon, or ends */
} mf_terminal_state;

/* Checks a terminal in blocking mode before a read of `size` bytes. For MF_TERMINAL_TIMED, *limit_ns is the read's time
 * limit. May change errno. */
mf_terminal_state mf_terminal_check(int descriptor, size_t size, uint64_t *limit_ns);

#endif
