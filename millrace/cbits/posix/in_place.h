/*
 * in_place.h: does jobs of work.h without a helper thread, if they need not wait: the status and the opening of names
 * that the system has in memory. Must not know: GHC, loops.
 *
 * openat2(2) with RESOLVE_CACHED (Linux 5.12) finds a name only in memory. What remains, reading the status and opening
 * for reading, asks nobody else on the usual file systems of disks and memory. A file system on a network or in another
 * program (NFS, FUSE) may ask. So each file system is left to helpers first: they note which kind it is.
 */
#ifndef MILLRACE_IN_PLACE_H
#define MILLRACE_IN_PLACE_H

#include "work.h"

/* Does a job's work if it need not wait. `text` is the job's first text, which need not end with a NUL, and `number`
 * its first number. Returns the result, and writes its output to `status`. -EAGAIN: a helper must do the work. */
int64_t mrh_do_in_place(mrh_work *work, const char *text, size_t bytes, int64_t number, mrh_status *status);

/* For helpers: notes the kind of the file system that this descriptor is on. */
void mrh_note_file_system(int descriptor);

#endif
