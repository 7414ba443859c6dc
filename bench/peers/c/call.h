/*
 * call.h: C functions that block for a short time, as a C library's functions may, and functions that measure such
 * calls. All programs that the workloads `blocking` and `switch` compare call them. An error ends the program.
 */
#ifndef CALL_H
#define CALL_H

/* Sleeps. Returns 0. */
int call_sleep(int milliseconds);

/* Sends one byte over a socket from call_open, and waits with a blocking read for the answer of one byte, which it
   returns. */
int call_ask(int descriptor);

/* Returns its argument: the cost of a call alone. */
int call_nothing(int ignored);

/* Opens a socket for call_ask. The first call starts a thread, which answers on the other ends of all such sockets. */
int call_open(void);

/* Begin and end a measurement. The end prints the seconds in between, and how many bytes were resident at the
   beginning. */
void call_measure_begin(void);
void call_measure_end(void);

#endif
