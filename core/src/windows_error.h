/* windows_error.h: the errors of Windows as errno values, so that they are the same set on every system. */
#ifndef MILLRACE_WINDOWS_ERROR_H
#define MILLRACE_WINDOWS_ERROR_H

#include "millrace.h" /* mr_error_of_winsock */

/* A negative errno; -EIO for what has no better name. */
int mr_error_of_status(int32_t ntstatus);

#endif
