/*
 * standard_descriptors.c - sees to it that descriptors 0, 1 and 2 are there. Must not know: GHC.
 *
 * A program that was started without one of them (`>&-`) gets the number for the first thing that it opens. Of Haskell that
 * is something of the run-time system's own, which reads the program's output then. So this has to run before that, and
 * belongs to the executable: the linker leaves out of a library what nobody calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The lowest number that is free is the one that is missing, for those below it are there. */
__attribute__((constructor)) static void open_standard_descriptors(void)
{
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", O_RDWR);
}
