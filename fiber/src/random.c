/* random.c: a random number generator for each thread, seeded by the clock. */
#include "random.h"
#include "millrace.h"

#include <stdint.h>

unsigned mf_random_below(unsigned bound)
{
    static __thread uint32_t state;
    if (!state)
        state = (uint32_t)mr_clock_now_ns() | 1;
    state ^= state << 13; /* xorshift32 (Marsaglia 2003) */
    state ^= state >> 17;
    state ^= state << 5;
    return (unsigned)((uint64_t)state * bound >> 32);
}
