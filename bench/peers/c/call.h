/*
 * call.h: C functions that block for a short while, as a C library's functions do, and the stopwatch around them. Every
 * side of the workloads `blocking` and `switch` calls these. They end the program when something fails.
 */
#ifndef CALL_H
#define CALL_H

/* Sleeps. */
int call_sleep(int milliseconds);

/* Asks a question of one byte over a socket from call_open, and waits for the answer with a blocking read. */
int call_ask(int descriptor);

/* Does nothing. */
int call_nothing(int ignored);

/* A socket whose other end one thread of the program answers, for all of them. */
int call_open(void);

/* Begins the measurement; ends it, and prints the seconds and the bytes of memory that were resident at the beginning. */
void call_measure_begin(void);
void call_measure_end(void);

#endif
