/* clock.h: the time that is left until a moment. millrace.h declares mr_clock_now_ns. */
#ifndef MILLRACE_CLOCK_H
#define MILLRACE_CLOCK_H

#include <stdint.h>

/* Nanoseconds from now until `until_ns`; 0 if it has passed. */
uint64_t mr_clock_left_ns(uint64_t until_ns);

#endif
