/*
 * files.h: calls on files that are not operations of the core: opening, size, removal, reading from the system's cache.
 *
 * posix/ and windows/ implement it; millrace.cabal chooses one. All functions are for `unsafe` calls from Haskell.
 * Unless noted otherwise they fail as POSIX functions do: with -1 and errno. Paths have the system's form: bytes, or
 * UTF-16 on Windows. mrh_close (system.h) closes a file. On a capability that runs a simulation (simulation.h), the
 * files are those of the simulated machine.
 */
#ifndef MILLRACE_FILES_H
#define MILLRACE_FILES_H

#include "millrace.h"

#include <stdint.h>

/* The constructors of Millrace.File's Mode, in order. */
enum { MRH_FOR_READING, MRH_FOR_WRITING, MRH_FOR_UPDATING };

/* Opens a regular file that child processes do not inherit. Returns a descriptor; on Windows, 32 bits of a handle.
 * Never waits for another process: a file without offsets (a FIFO, a terminal) fails with ESPIPE, on Windows with
 * EACCES. */
int mrh_open(const void *path, int mode);
/* The flags of open(2) for a mode; POSIX only. */
int mrh_open_flags(int mode);
int64_t mrh_file_size(int descriptor);
int mrh_remove(const void *path);

/* Reads bytes that are in the system's cache, without waiting for the disk. Returns a count or a negative errno.
 * -EAGAIN: they are not in the cache, or the system cannot say. */
int64_t mrh_read_cached(mr_handle handle, void *buffer, uint64_t bytes, uint64_t offset);
/* 1 if helper threads must do the operations on files, because the backend would wait for the disk; else 0. */
int mrh_leaves_files_to_helpers(void);

#endif
