/*
 * watch.h: watching directories and files (inotify(7), Linux). No function waits. All return a number or a negative
 * errno. Must not know: GHC, loops.
 */
#ifndef MILLRACE_WATCH_H
#define MILLRACE_WATCH_H

#include <stdint.h>

/* Returns a non-blocking descriptor from which the program reads events. exec closes it. */
int mrh_watch_create(void);
/* Watches a path. Returns the number that identifies it in events. */
int mrh_watch_add(int descriptor, const char *path, uint32_t events);
/* Ends a watch, by its number. */
int mrh_watch_remove(int descriptor, int number);

#endif
