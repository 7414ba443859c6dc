/*
 * terminal.h: modes and sizes of terminals. When the process ends, it restores a changed mode, even if a signal without
 * a handler ends it (except SIGKILL and real-time signals). Unless noted otherwise, functions return 0 or a negative
 * errno. Must not know: GHC, loops.
 */
#ifndef MILLRACE_TERMINAL_H
#define MILLRACE_TERMINAL_H

/* Raw: the program gets every key at once, without echo, and no key has a meaning. Unechoed: the program gets lines,
 * without echo. Keys: every key at once, without echo, but the interrupt key interrupts. */
enum { MRH_TERMINAL_RAW, MRH_TERMINAL_UNECHOED, MRH_TERMINAL_KEYS };

/* Changes the mode of a terminal. Only one can be changed at a time: -EBUSY if a mode is already changed. The caller
 * may close the descriptor before it restores the mode. Only the code that changed a mode may restore it. */
int mrh_terminal_change(int descriptor, int mode);
void mrh_terminal_restore(void);

/* Call this after the default action has replaced a handler: if a mode is changed, that signal then restores it
 * again. */
void mrh_terminal_guard(void);

/* Opens the terminal of this process. Returns a new, non-blocking descriptor or a negative errno. */
int mrh_open_terminal(void);
/* 1 if it is a terminal, else 0. */
int mrh_is_terminal(int descriptor);
int mrh_terminal_size(int descriptor, int *rows, int *columns);
int mrh_set_terminal_size(int descriptor, int rows, int columns);

#endif
