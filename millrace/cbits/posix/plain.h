/*
 * plain.h: reading and writing descriptors without offsets that are not sockets: pipes, terminals. The calls do not wait:
 * the descriptors are non-blocking, or are asked first. All return a count or a descriptor, or a negative errno. Must not
 * know: GHC, loops.
 */
#ifndef MILLRACE_PLAIN_H
#define MILLRACE_PLAIN_H

#include <stddef.h>
#include <stdint.h>

int64_t mrh_read_plain(int descriptor, void *buffer, size_t bytes);
int64_t mrh_write_plain(int descriptor, const void *bytes, size_t count);

/* The same for a descriptor that may not be made non-blocking, because other programs share it. It is asked whether it is
 * ready just before: -EAGAIN if it is not. */
int64_t mrh_read_shared(int descriptor, void *buffer, size_t bytes);
int64_t mrh_write_shared(int descriptor, const void *bytes, size_t count);

/* Two ends, both closed by exec; they are non-blocking if that is asked for. */
int mrh_pipe(int ends[2], int read_nonblocking, int write_nonblocking);
int mrh_set_nonblocking(int descriptor);
/* A FIFO (fifo(7)). Opening does not wait: -ENXIO if it is opened for writing and has no reader. */
int mrh_open_fifo(const char *path, int for_writing);
/* How many bytes a pipe holds; 0 asks. */
int mrh_pipe_capacity(int descriptor, int bytes);

/* Moves at most `bytes` bytes from one descriptor to the other; one of them is a pipe. Does not wait. */
int64_t mrh_splice(int from, int to, size_t bytes);

#endif
