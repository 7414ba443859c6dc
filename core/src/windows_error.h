/* windows_error.h: Windows' errors as errno values, so that all systems have the same errors. */
#ifndef MILLRACE_WINDOWS_ERROR_H
#define MILLRACE_WINDOWS_ERROR_H

#include "millrace.h" /* mr_error_of_winsock */

/* Converts an NTSTATUS to a negative errno; -EIO if no other one fits. */
int mr_error_of_status(int32_t ntstatus);

#endif
