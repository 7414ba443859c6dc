/*
 * terminal.h: modes and sizes of terminals. A changed mode is restored when the process ends, also if a signal without a
 * handler ends it (except SIGKILL and real-time signals). All return 0 or a negative errno. Must not know: GHC, loops.
 */
#ifndef MILLRACE_TERMINAL_H
#define MILLRACE_TERMINAL_H

/* Raw: every key at once, nothing is echoed, no key has a meaning. Unechoed: lines, but nothing is echoed. Keys: every key at once,
 * nothing is echoed, and the interrupt key interrupts. */
enum { MRH_TERMINAL_RAW, MRH_TERMINAL_UNECHOED, MRH_TERMINAL_KEYS };

/* One terminal at a time: -EBUSY if a mode is changed already. The descriptor may be closed before the mode is restored. Only what has
 * changed a mode may restore it. */
int mrh_terminal_change(int descriptor, int mode);
void mrh_terminal_restore(void);

/* Call it after a handler was replaced by the default action: if a mode is changed now, that signal restores it again. */
void mrh_terminal_guard(void);

/* Opens this process's terminal as a new, non-blocking descriptor; or returns a negative errno. */
int mrh_open_terminal(void);
int mrh_is_terminal(int descriptor);
int mrh_terminal_size(int descriptor, int *rows, int *columns);
int mrh_set_terminal_size(int descriptor, int rows, int columns);

#endif
