/* random.h: random numbers for fair choices. They are predictable: do not use them for secrets. */
#ifndef MILLRACE_FIBER_RANDOM_H
#define MILLRACE_FIBER_RANDOM_H

/* A number from 0 to bound - 1. [any thread] */
unsigned mf_random_below(unsigned bound);

#endif
