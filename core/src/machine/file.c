/* file.c: what all kinds of files of a simulated machine have in common: watchers, reading and writing by number. Also
 * event counters. */
#include "file.h"

#include "descriptor_table.h"
#include "disk.h"
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ----------------------------------------------------------------------------------------------------- watches --- */

static bool report(mr_watch *watch)
{
    mr_watcher *watcher = watch->watcher;
    if (watch->is_reported)
        return true;
    if (watcher->count == watcher->capacity) {
        size_t capacity = watcher->capacity ? watcher->capacity * 2 : 64;
        mr_watch **grown = realloc(watcher->events, capacity * sizeof(mr_watch *));
        if (!grown)
            return false;
        watcher->events = grown;
        watcher->capacity = capacity;
    }
    watcher->events[watcher->count++] = watch;
    watch->is_reported = true;
    return true;
}

void mr_file_changed(mr_machine *machine, mr_file *file)
{
    machine->changes++;
    for (mr_watch *watch = file->watches; watch; watch = watch->next)
        report(watch);
    if (machine->keeps_real_time)
        pthread_cond_broadcast(&machine->changed);
}

static mr_watch **find_watch(mr_file *file, const mr_watcher *watcher, int number)
{
    mr_watch **link = &file->watches;
    while (*link && ((*link)->watcher != watcher || (*link)->number != number))
        link = &(*link)->next;
    return link;
}

/* Reports the watch once, which also allocates space for later reports, so that none can be lost. */
bool mr_file_watch(mr_file *file, mr_watcher *watcher, int number)
{
    mr_watch **link = find_watch(file, watcher, number);
    if (*link)
        return true;
    mr_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return false;
    *watch = (mr_watch){.watcher = watcher, .number = number};
    if (!report(watch)) {
        free(watch);
        return false;
    }
    *link = watch;
    return true;
}

static void remove_watch(mr_watch **link)
{
    mr_watch *watch = *link;
    *link = watch->next;
    watch->watcher = NULL;
    if (!watch->is_reported)
        free(watch);
}

void mr_file_unwatch(mr_file *file, mr_watcher *watcher, int number)
{
    mr_watch **link = find_watch(file, watcher, number);
    if (*link)
        remove_watch(link);
}

void mr_machine_unwatch_all(mr_machine *machine, mr_watcher *watcher)
{
    for (int i = 0; i < machine->file_count; i++) {
        mr_watch **link = machine->files[i] ? &machine->files[i]->watches : NULL;
        while (link && *link) {
            if ((*link)->watcher == watcher)
                remove_watch(link);
            else
                link = &(*link)->next;
        }
    }
}

void mr_file_free(mr_machine *machine, mr_file *file)
{
    while (file->watches)
        remove_watch(&file->watches);
    if (file->kind == MR_FILE_SOCKET) {
        mr_socket_free(machine, (mr_socket *)file);
        return;
    }
    if (file->kind == MR_FILE_DISK) {
        mr_disk_close(machine, (mr_disk_file *)file);
        return;
    }
    free(file);
}

/* ---------------------------------------------------------------------------------------------------- counters --- */

int mr_machine_eventfd(mr_machine *machine, unsigned value, int flags)
{
    mr_event_file *event = calloc(1, sizeof *event);
    if (!event)
        return -ENOMEM;
    *event = (mr_event_file){.file.kind = MR_FILE_EVENT, .value = value};
    mr_machine_lock(machine);
    int number = mr_machine_install(machine, &event->file, flags);
    if (number < 0)
        free(event);
    mr_machine_unlock(machine);
    return number;
}

static ssize_t read_event(mr_machine *machine, mr_event_file *event, const struct iovec *element)
{
    if (element->iov_len < sizeof event->value)
        return -EINVAL;
    if (event->value == 0)
        return -EAGAIN;
    memcpy(element->iov_base, &event->value, sizeof event->value);
    event->value = 0;
    mr_file_changed(machine, &event->file);
    return sizeof event->value;
}

static ssize_t write_event(mr_machine *machine, mr_event_file *event, const struct iovec *element)
{
    uint64_t more;
    if (element->iov_len < sizeof more)
        return -EINVAL;
    memcpy(&more, element->iov_base, sizeof more);
    event->value += more;
    mr_file_changed(machine, &event->file);
    return sizeof more;
}

/* -------------------------------------------------------------------------------------------------- by number --- */

ssize_t mr_machine_receive(mr_machine *machine, int number, const struct iovec *elements, size_t count, int flags)
{
    ssize_t result = -EBADF;
    (void)flags;
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    if (file && file->kind == MR_FILE_SOCKET) {
        result = mr_socket_receive(machine, (mr_socket *)file, elements, count);
    } else if (file && file->kind == MR_FILE_EVENT) {
        result = read_event(machine, (mr_event_file *)file, elements);
    } else if (file) {
        result = mr_disk_read(machine, (mr_disk_file *)file, elements->iov_base, elements->iov_len);
    }
    mr_machine_unlock(machine);
    return result;
}

ssize_t mr_machine_send(mr_machine *machine, int number, const struct iovec *elements, size_t count, int flags)
{
    ssize_t result = -EBADF;
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    if (file && file->kind == MR_FILE_SOCKET)
        result = mr_socket_send(machine, (mr_socket *)file, elements, count, 0, (flags & MSG_OOB) != 0);
    else if (file && file->kind == MR_FILE_EVENT)
        result = write_event(machine, (mr_event_file *)file, elements);
    else if (file)
        result = mr_disk_write(machine, (mr_disk_file *)file, elements->iov_base, elements->iov_len);
    mr_machine_unlock(machine);
    return result;
}

int mr_machine_readable(mr_machine *machine, int number)
{
    int result = 0; /* a file is always ready */
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    if (!file)
        result = -EBADF;
    else if (file->kind == MR_FILE_SOCKET)
        result = mr_socket_readable((mr_socket *)file);
    else if (file->kind == MR_FILE_EVENT)
        result = ((mr_event_file *)file)->value ? 0 : -EAGAIN;
    mr_machine_unlock(machine);
    return result;
}

int mr_machine_writable(mr_machine *machine, int number)
{
    int result = 0;
    mr_machine_lock(machine);
    mr_file *file = mr_machine_find(machine, number);
    if (!file)
        result = -EBADF;
    else if (file->kind == MR_FILE_SOCKET)
        result = mr_socket_writable((mr_socket *)file);
    mr_machine_unlock(machine);
    return result;
}
