/* http_file.c - opens and reads files to be served. Knows nothing of messages. */
#define _GNU_SOURCE
#include "http_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_regular(const struct stat *status) {
    if (S_ISREG(status->st_mode))
        return 0;
    return S_ISDIR(status->st_mode) ? -EISDIR : -EACCES;
}

int http_file_open(const void *path, http_file *file) {
    struct stat status;
    int descriptor;
    do { /* O_NONBLOCK: opening a pipe would wait for a writer. It means nothing to regular files. */
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return -errno;
    int error = fstat(descriptor, &status) == 0 ? check_regular(&status) : -errno;
    if (error < 0) {
        close(descriptor);
        return error;
    }
    file->descriptor = descriptor;
    file->size = status.st_size;
    file->modified_seconds = status.st_mtim.tv_sec;
    return 0;
}

int64_t http_file_read(int descriptor, uint8_t *destination, size_t length, int64_t offset) {
    size_t done = 0;
    while (done < length) {
        ssize_t count = pread(descriptor, destination + done, length - done, offset + (int64_t)done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (int64_t)done;
}

void http_file_close(int descriptor) {
    close(descriptor);
}
