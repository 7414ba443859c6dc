/* watch.c: see watch.h. */
#include "watch.h"

#include <errno.h>
#include <sys/inotify.h>

int mrh_watch_create(void)
{
    int descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

int mrh_watch_add(int descriptor, const char *path, uint32_t events)
{
    int number = inotify_add_watch(descriptor, path, events);
    return number < 0 ? -errno : number;
}

int mrh_watch_remove(int descriptor, int number)
{
    return inotify_rm_watch(descriptor, number) < 0 ? -errno : 0;
}
