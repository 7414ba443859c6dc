/* calls.h: what several files of calls use. */
#ifndef MILLRACE_FIBER_CALLS_H
#define MILLRACE_FIBER_CALLS_H

#include "differential.h"

#include <stdio.h>
#include <sys/uio.h>

/* Flags of preadv2 and pwritev2: unknown to every kernel, only for disks, contradictory, and only for files. */
enum { FLAGS_UNKNOWN = 1 << 30, FLAGS_OF_DISKS = 0x80, FLAGS_CONTRADICTORY = 0x30, FLAGS_OF_FILES = RWF_SYNC };

/* More bytes than any of the kernel's buffers can hold. */
enum { LARGE_BYTES = 400000 };
extern char large[LARGE_BYTES];

/* How many bytes a buffer accepts varies. That it accepted only a part does not. */
static inline void note_if_partial(outcome *o, size_t wanted)
{
    if (o->result > 0 && (size_t)o->result < wanted)
        o->result = 1;
}

static inline void end_stream(FILE *stream, outcome *o)
{
    int error = errno;
    o->detail[0] = feof(stream);
    o->detail[1] = ferror(stream);
    o->detail[2] = o->result < 0 && !feof(stream) ? error : 0;
    fclose(stream);
    errno = error;
}

#endif
