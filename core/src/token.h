/*
 * token.h: the parts of a token: loop (10 bits) | generation (25) | number (24) | whether it is a timeout (1).
 *
 * The number is that of a slot or of a timeout, which are counted separately. The generation grows whenever the token's
 * record is used again.
 */
#ifndef MILLRACE_TOKEN_H
#define MILLRACE_TOKEN_H

#include "millrace.h"

#include <assert.h>
#include <stdbool.h>

#define MR_NUMBER_BITS     24
#define MR_SLOT_BITS       (MR_NUMBER_BITS + 1)
#define MR_GENERATION_BITS 25
#define MR_RECORDS_MAX     (UINT32_C(1) << MR_NUMBER_BITS) /* slots of a loop; likewise timeouts */

static_assert(MR_SLOT_BITS + MR_GENERATION_BITS + 10 == 60, "a token is less than 2^60");
static_assert(MR_LOOPS_MAX == 1 << 10, "a loop's index fits into a token");

/* The first generation of an epoch: far from those of the epochs before and after it, and 0 for the first epoch. */
static inline uint64_t mr_epoch_start(uint32_t epoch)
{
    return (uint64_t)epoch * 0x9E3779B1; /* 2^32 over the golden ratio */
}

/* The first token of a record. Its generation depends on the group's epoch. So a stale token from before a fork, or
 * from an earlier simulation, does not match a new record. */
static inline mr_token mr_token_make(uint32_t epoch, uint32_t loop, uint32_t number, bool is_timeout)
{
    const uint64_t generations = (UINT64_C(1) << MR_GENERATION_BITS) - 1; /* a token is never 0 */
    uint64_t generation = 1 + mr_epoch_start(epoch) % generations;
    return (uint64_t)loop << (MR_SLOT_BITS + MR_GENERATION_BITS) | generation << MR_SLOT_BITS | number << 1 |
           is_timeout;
}

/* The token of a record's next use. */
static inline mr_token mr_token_next(mr_token token)
{
    const uint64_t mask = ((UINT64_C(1) << MR_GENERATION_BITS) - 1) << MR_SLOT_BITS;
    uint64_t generation = (token + (UINT64_C(1) << MR_SLOT_BITS)) & mask;
    if (generation == 0)
        generation = UINT64_C(1) << MR_SLOT_BITS; /* a token is never 0 */
    return (token & ~mask) | generation;
}

static inline bool mr_token_is_timeout(mr_token token)
{
    return token & 1;
}

static inline uint32_t mr_token_number(mr_token token)
{
    return (uint32_t)(token >> 1) & (MR_RECORDS_MAX - 1);
}

#endif
