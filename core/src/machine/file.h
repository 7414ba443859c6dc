/* file.h: open files: what a descriptor number refers to, and who watches it. */
#ifndef MILLRACE_MACHINE_FILE_H
#define MILLRACE_MACHINE_FILE_H

#include "machine.h"

/* Notifies the watchers of a change. */
void mr_file_changed(mr_machine *machine, mr_file *file);
/* Notifies the watcher of later changes, and once at the next poll. Returns false without memory. */
bool mr_file_watch(mr_file *file, mr_watcher *watcher, int number);
void mr_file_unwatch(mr_file *file, mr_watcher *watcher, int number);
void mr_machine_unwatch_all(mr_machine *machine, mr_watcher *watcher);
/* Frees a file without descriptor numbers. */
void mr_file_free(mr_machine *machine, mr_file *file);

#endif
