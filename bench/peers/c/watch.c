/* watch.c: makes files and waits for the report of each by inotify, the least possible cost. Usage: watch DIRECTORY
   FILES */
#define _GNU_SOURCE
#include "toolkit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Those that Millrace.Watch asks for. */
enum {
    EVENTS = IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_FROM |
             IN_MOVED_TO | IN_EXCL_UNLINK,
    BUFFER_BYTES = 65536
};

static void check(int succeeded, const char *attempted)
{
    if (!succeeded) {
        perror(attempted);
        exit(1);
    }
}

int main(int count, char **values)
{
    static char buffer[BUFFER_BYTES];
    if (count != 3)
        return 2;
    long files = strtol(values[2], NULL, 10);
    check(chdir(values[1]) == 0, values[1]);
    int watch = inotify_init1(IN_CLOEXEC);
    check(watch >= 0, "inotify_init1");
    check(inotify_add_watch(watch, ".", EVENTS) >= 0, "inotify_add_watch");
    toolkit_begin();
    for (long i = 1; i <= files; i++) {
        char name[24];
        snprintf(name, sizeof name, "%ld", i);
        int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        check(file >= 0, name);
        close(file);
        check(read(watch, buffer, sizeof buffer) > 0, "read");
    }
    toolkit_end();
    return 0;
}
