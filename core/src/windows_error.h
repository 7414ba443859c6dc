/* windows_error.h: the errors of Windows as errno values, so that they are the same set on every system. */
#ifndef MILLRACE_WINDOWS_ERROR_H
#define MILLRACE_WINDOWS_ERROR_H

#include <stdint.h>

/* Both return a negative errno; -EIO for what has no better name. */
int mr_error_of_status(int32_t ntstatus);
int mr_error_of_winsock(int error);

#endif
