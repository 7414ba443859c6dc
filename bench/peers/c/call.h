/*
 * call.h: C functions that block for a short time, as a C library's functions do, and the measurement of such calls.
 * Every side of the workloads `blocking` and `switch` calls them. If something fails, they end the program.
 */
#ifndef CALL_H
#define CALL_H

/* Sleeps. */
int call_sleep(int milliseconds);

/* Asks a question of one byte over a socket from call_open, and waits for the answer with a blocking read. */
int call_ask(int descriptor);

/* Does nothing. */
int call_nothing(int ignored);

/* Opens a socket for call_ask. One thread of the program answers on the other ends of all such sockets. */
int call_open(void);

/* Begin and end a measurement. The second prints the seconds in between, and the bytes of memory resident at its start. */
void call_measure_begin(void);
void call_measure_end(void);

#endif
