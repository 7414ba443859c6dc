/* embedded.c: a program whose main is C's: hs_exit returns, although managers sleep. Once on every backend that is sure
 * to work here, each in a new process. */
#include <HsFFI.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern void embedded_nap(void);

static void begin_and_end(const char *backend)
{
    char name[] = "embedded", *arguments[] = {name, NULL}, **first = arguments;
    int count = 1;
    if (backend)
        setenv("MILLRACE_BACKEND", backend, 1);
    alarm(10); /* ends a process that does not end */
    hs_init(&count, &first);
    embedded_nap();
    usleep(20000); /* until they sleep */
    hs_exit();
}

static int check(const char *backend)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        begin_and_end(backend);
        _exit(0);
    }
    int ended = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    printf("hs_exit on %s: %s\n", backend ? backend : "the backend of choice", ended ? "returns" : "FAILED");
    return ended ? 0 : 1;
}

int main(void)
{
    int failures = check(NULL);
#ifdef __linux__
    failures += check("epoll");
#endif
    return failures != 0;
}
