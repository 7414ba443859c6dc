/* windows_error.c: the conversion of Windows's errors. */
#define WIN32_NO_STATUS
#include "../../src/windows_error.h"
#include "unit.h"

#include <winsock2.h>
#undef WIN32_NO_STATUS
#include <ntstatus.h>

static void a_status_has_one_name(uintptr_t unused)
{
    (void)unused;
    CHECK_EQ(mr_error_of_status(STATUS_CANCELLED), -ECANCELED);
    CHECK_EQ(mr_error_of_status(STATUS_CONNECTION_RESET), -ECONNRESET);
    CHECK_EQ(mr_error_of_status(STATUS_CONNECTION_ABORTED), -ECONNRESET);
    CHECK_EQ(mr_error_of_status(STATUS_CONNECTION_REFUSED), -ECONNREFUSED);
    CHECK_EQ(mr_error_of_status(STATUS_IO_TIMEOUT), -ETIMEDOUT);
    CHECK_EQ(mr_error_of_status(STATUS_INVALID_HANDLE), -EBADF);
}

/* No cancellation or failure may look like the end of the stream. */
static void no_failure_is_a_success(uintptr_t unused)
{
    (void)unused;
    for (uint32_t status = 0xC0000000; status < 0xC0001000; status++)
        CHECK_LT(mr_error_of_status((int32_t)status), 0);
    for (int error = 1; error < 20000; error++)
        CHECK_LT(mr_error_of_winsock(error), 0);
}

static void winsock_says_the_same(uintptr_t unused)
{
    (void)unused;
    CHECK_EQ(mr_error_of_winsock(WSAEWOULDBLOCK), -EAGAIN);
    CHECK_EQ(mr_error_of_winsock(WSA_OPERATION_ABORTED), -ECANCELED);
    CHECK_EQ(mr_error_of_winsock(WSAECONNRESET), -ECONNRESET);
    CHECK_EQ(mr_error_of_winsock(ERROR_NETNAME_DELETED), -ECONNRESET);
    CHECK_EQ(mr_error_of_winsock(WSAENOTSOCK), -EBADF);
    CHECK_EQ(mr_error_of_winsock(WSAESHUTDOWN), -EPIPE);
    CHECK_EQ(mr_error_of_winsock(123456), -EIO);
}

static void files_have_errors_of_their_own(uintptr_t unused)
{
    (void)unused;
    CHECK_EQ(mr_error_of_winsock(ERROR_FILE_NOT_FOUND), -ENOENT);
    CHECK_EQ(mr_error_of_winsock(ERROR_PATH_NOT_FOUND), -ENOENT);
    CHECK_EQ(mr_error_of_winsock(ERROR_SHARING_VIOLATION), -EACCES);
    CHECK_EQ(mr_error_of_winsock(ERROR_WRITE_PROTECT), -EROFS);
    CHECK_EQ(mr_error_of_winsock(ERROR_DISK_FULL), -ENOSPC);
}

const harness_test windows_error_tests[] = {
    UNIT(windows_error, a_status_has_one_name),
    UNIT(windows_error, no_failure_is_a_success),
    UNIT(windows_error, winsock_says_the_same),
    UNIT(windows_error, files_have_errors_of_their_own),
    {0},
};
