/*
 * toolkit.h: what the sides of the workloads of files, packets and processes share.
 *
 * What it is for: all of them measure in the same way, and the same load asks all servers of UDP. Must not know:
 * fibers, loops.
 */
#ifndef TOOLKIT_H
#define TOOLKIT_H

/* Time and processor time of this process and of those children that have been waited for are measured between these
 * two. The second prints both in seconds, on one line. */
void toolkit_begin(void);
void toolkit_end(void);

/* A random number below `bound`, which is not 0, computed from the state, which is not 0. */
unsigned long toolkit_random(unsigned long *state, unsigned long bound);

/* For sides without a function for it: opens a file to be read, past the system's memory if `is_direct`; its size; and
 * aligned memory for a block of 4 KiB. */
int toolkit_open(const char *path, int is_direct);
long toolkit_size(int descriptor);
void *toolkit_block(void);

/* Opens a UDP socket on a free port of 127.0.0.1, whose receive buffer holds two bursts. Returns the descriptor. */
int toolkit_udp_server(void);
/* Starts a process that sends bursts of packets of 100 bytes to this socket's address, `packets` in all, and takes the
 * answers to one burst before it sends the next. Its processor time does not count as this process's. */
void toolkit_udp_load(int server, long packets, int burst);

#endif
