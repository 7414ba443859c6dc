/* clock.h: the time until a moment. mr_clock_now_ns is in millrace.h. */
#ifndef MILLRACE_CLOCK_H
#define MILLRACE_CLOCK_H

#include <stdint.h>

/* Nanoseconds from now until then; 0 if it has passed. */
uint64_t mr_clock_left_ns(uint64_t until_ns);

#endif
