/*
 * plain.h: reading and writing pipes, terminals and other descriptors that are not sockets and have no offsets. No
 * function waits: the descriptors are non-blocking, or poll(2) says first whether they are ready. All return a count, a
 * descriptor or 0, or a negative errno. Must not know: GHC, loops.
 */
#ifndef MILLRACE_PLAIN_H
#define MILLRACE_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* For non-blocking descriptors. */
int64_t mrh_read_plain(int descriptor, void *buffer, size_t bytes);
int64_t mrh_write_plain(int descriptor, const void *bytes, size_t count);

/* For descriptors that must stay blocking, because other programs share them. -EAGAIN if poll(2) says that they are not
 * ready. */
int64_t mrh_read_shared(int descriptor, void *buffer, size_t bytes);
int64_t mrh_write_shared(int descriptor, const void *bytes, size_t count);

/* Creates a pipe whose ends exec closes. Each end is non-blocking if the caller says so. */
int mrh_pipe(int ends[2], int read_nonblocking, int write_nonblocking);
int mrh_set_nonblocking(int descriptor);
/* Opens a FIFO (fifo(7)). -ENXIO if it is opened for writing and has no reader; -EINVAL if the path is not a FIFO. */
int mrh_open_fifo(const char *path, int for_writing);
/* Sets how many bytes a pipe can hold, unless `bytes` is 0. Returns how many it can hold. */
int mrh_pipe_capacity(int descriptor, int bytes);

/* Moves at most `bytes` bytes from one descriptor to another. One of them must be a pipe. */
int64_t mrh_splice(int from, int to, size_t bytes);

#endif
