/* units.h: nanoseconds, the core's unit of time. Must not know: loops, operations, the clock. */
#ifndef MILLRACE_UNITS_H
#define MILLRACE_UNITS_H

#include <stdint.h>

#define MR_NS_PER_MS UINT64_C(1000000)
#define MR_NS_PER_S  UINT64_C(1000000000)

#endif
