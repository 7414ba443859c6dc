/*
 * forbid_io_uring.c: runs a command to which the kernel refuses io_uring, as containers and hardened systems do.
 *
 *   forbid-io-uring EPERM|ENOSYS|KILL COMMAND [ARGUMENT...]
 *
 * EPERM is the error of a container's profile, ENOSYS that of an old kernel. KILL ends every process that calls
 * io_uring.
 */
#include "system/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOT_BEGUN = 125 }; /* as env(1) and timeout(1) say it */

typedef struct refusal {
    const char *name;
    unsigned action;
} refusal;

static const refusal refusals[] = {
    {"EPERM", SECCOMP_RET_ERRNO | EPERM},
    {"ENOSYS", SECCOMP_RET_ERRNO | ENOSYS},
    {"KILL", SECCOMP_RET_KILL_PROCESS},
};

static const refusal *find_refusal(const char *name)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strcmp(refusals[i].name, name) == 0)
            return &refusals[i];
    return NULL;
}

int main(int argc, char **argv)
{
    static const unsigned calls[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
    const refusal *wanted = argc > 2 ? find_refusal(argv[1]) : NULL;
    if (!wanted) {
        fprintf(stderr, "usage: forbid-io-uring EPERM|ENOSYS|KILL COMMAND [ARGUMENT...]\n");
        return NOT_BEGUN;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int error = filter_system_call(calls[i], wanted->action);
        if (error) {
            fprintf(stderr, "forbid-io-uring: no filter for a system call: %s\n", strerror(-error));
            return NOT_BEGUN;
        }
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "forbid-io-uring: cannot run %s: %s\n", argv[2], strerror(errno));
    return NOT_BEGUN;
}
