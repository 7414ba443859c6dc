/*
 * standard_descriptors.c - makes sure that descriptors 0, 1 and 2 are open. Must not know: GHC.
 *
 * A program that was started without one of them (`>&-`) gets that number for the first thing that it opens. In a
 * Haskell program that is a descriptor of the run-time system, which would then receive the program's output. So this
 * code must run before the run-time system. It belongs to the executable, because the linker drops functions of a
 * library that nobody calls.
 */
#include "millrace_check.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* open() returns the lowest free number, which is the missing one: those below it are open by now. */
__attribute__((constructor)) static void open_standard_descriptors(void)
{
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF) {
            int opened = open("/dev/null", O_RDWR);
            MR_CHECK(opened < 0 || opened == number);
        }
}
