/* clock.h - lets hours pass within a test. Must not know: OpenSSL. */
#ifndef CLOCK_H
#define CLOCK_H

/* Moves the time forward by `seconds`: time() and gettimeofday() return later times from now on. */
void advance_clock(long seconds);

#endif
