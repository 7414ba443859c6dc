/*
 * files.h: opening files: the calls about them that are no operations of the core.
 *
 * posix/ and windows/ have one each; millrace.cabal chooses. All are for `unsafe` calls from Haskell, and fail as POSIX's
 * do: with -1 and errno. Paths are in the system's own form: bytes, on Windows UTF-16. A file is closed by mrh_close
 * (system.h). Where a simulation runs (simulation.h) they are its machine's.
 */
#ifndef MILLRACE_FILES_H
#define MILLRACE_FILES_H

#include "millrace.h"

#include <stdint.h>

/* Millrace.File's Mode, in its order. */
enum { MRH_FOR_READING, MRH_FOR_WRITING, MRH_FOR_UPDATING };

/* A regular file that child processes do not inherit; on Windows, 32 bits of its handle. Never waits for another process:
 * refuses a file without offsets (a FIFO, a terminal) with ESPIPE, on Windows with EACCES. */
int mrh_open(const void *path, int mode);
/* The flags of open(2) for a mode; POSIX only. */
int mrh_open_flags(int mode);
int64_t mrh_file_size(int descriptor);
int mrh_remove(const void *path);

/* Reads bytes that the system has in memory, without waiting for the disk: a count, or a negative errno. -EAGAIN: they are
 * not in memory, or the system cannot tell. */
int64_t mrh_read_cached(mr_handle handle, void *buffer, uint64_t bytes, uint64_t offset);
/* Must helper threads do operations on files, because the backend would wait for the disk? */
int mrh_leaves_files_to_helpers(void);

#endif
