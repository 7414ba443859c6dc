/* operation.c: the columns of the table of operations that the hot path does not need. Must not know: loops, system
 * calls. */
#include "operation.h"

const char *mr_kind_name(mr_kind kind)
{
    static const char *const names[] = {
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) [MR_##NAME] = (TEXT),
#include "operation.def"
    };
    return (unsigned)kind < MR_KIND_COUNT ? names[kind] : "unknown";
}

int mr_when_shut(mr_kind kind, mr_direction shut)
{
    static const uint8_t errors[] = {
#define MR_OPERATION(HASKELL, NAME, TEXT, DIRECTION, BUFFER, FLAGS, SHUT, TRAITS) [MR_##NAME] = (SHUT),
#include "operation.def"
    };
    return mr_direction_of(kind) == (int)shut ? -errors[kind] : -EAGAIN;
}
