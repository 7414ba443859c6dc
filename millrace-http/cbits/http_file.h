/*
 * http_file.h - opens a file to be served, and locks a folder. Must not know: requests, responses.
 */
#ifndef HTTP_FILE_H
#define HTTP_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct http_file {
    int64_t size;             /* bytes */
    int64_t modified_seconds; /* since 1970 */
    int32_t descriptor;       /* on Windows, the number of a handle, of which 32 bits are significant */
} http_file;

/*
 * Opens a regular file for reading, close-on-exec. The path is in the system's own form: bytes, on Windows UTF-16.
 * Returns 0 or a negative errno: -EISDIR for a directory, -EACCES for anything else that is not a regular file. May
 * wait for the disk, but not for the other end of a FIFO.
 */
int http_file_open(const void *path, http_file *file);

/* Opens a file without waiting for the disk: -EAGAIN if the system would have to read directories. On systems other
 * than Linux 5.12 and later it may wait. */
int http_file_open_at_once(const void *path, http_file *file);

/* Describes the file of an open descriptor, which the caller must still close. */
int http_file_examine(int descriptor, http_file *file);

/* Reads up to `length` bytes at an offset. Returns the number, smaller only at the end of the file; or a negative
   errno. */
int64_t http_file_read(int descriptor, uint8_t *destination, size_t length, int64_t offset);

/* Reads without waiting for the disk: -EAGAIN if the system does not have all of it in memory. Where the system
 * cannot tell, it may wait. */
int64_t http_file_read_at_once(int descriptor, uint8_t *destination, size_t length, int64_t offset);

void http_file_close(int descriptor);

/*
 * Locks a folder against other processes, and other callers in this one, that lock it, if it is free. Not on Windows.
 * Returns a descriptor that has the lock until it is closed, or a negative errno: -EAGAIN while another has the lock,
 * anything else if the folder cannot be locked.
 */
int http_file_lock_folder(const char *path);

#endif
