/* clock.h - lets hours pass within a test. Must not know: OpenSSL. */
#ifndef CLOCK_H
#define CLOCK_H

/* `time` says so many seconds more from now on. */
void let_pass(long seconds);

#endif
