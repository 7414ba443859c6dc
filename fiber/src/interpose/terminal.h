/*
 * terminal.h: does a read of a terminal wait? That depends on the terminal's settings: it may require several bytes,
 * or end after a while without any (termios(3), "Canonical and noncanonical mode").
 */
#ifndef MILLRACE_FIBER_INTERPOSE_TERMINAL_H
#define MILLRACE_FIBER_INTERPOSE_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

typedef enum mf_terminal_state {
    MF_TERMINAL_NONE,        /* it is none */
    MF_TERMINAL_READY,       /* a read ends at once */
    MF_TERMINAL_EMPTY,       /* poll tells when it would */
    MF_TERMINAL_UNANNOUNCED, /* the same, but poll waits for more than is wanted */
    MF_TERMINAL_TIMED,       /* poll reports it, but the read ends without a byte when its time is over */
    MF_TERMINAL_BEGUN        /* a read waits for bytes that must follow soon, or ends */
} mf_terminal_state;

/* For a terminal in blocking mode and a read of `size` bytes. `limit_ns`, of a timed read: after how long it ends.
 * errno may change. */
mf_terminal_state mf_terminal_look(int descriptor, size_t size, uint64_t *limit_ns);

#endif
