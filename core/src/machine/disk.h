/* disk.h: calls on files, which fail while the machine has no power. */
#ifndef MILLRACE_MACHINE_DISK_H
#define MILLRACE_MACHINE_DISK_H

#include "machine.h"

/* Begins a call on files. Returns 0, or -EIO if the power has failed or fails now. */
int mr_disk_begin(mr_machine *machine);
/* Ends a call on files. Returns its result, or -EIO if the power has failed. */
int64_t mr_disk_end(const mr_machine *machine, int64_t result);
/* Makes a sync fail: drops the file's changes. */
void mr_disk_fail_sync(mr_machine *machine, int number);
/* Read and write at an open file's position. */
ssize_t mr_disk_read(mr_machine *machine, mr_disk_file *file, void *buffer, size_t size);
ssize_t mr_disk_write(mr_machine *machine, mr_disk_file *file, const void *data, size_t size);
void mr_disk_close(mr_machine *machine, mr_disk_file *file);
/* Makes every later call on an open file fail, because the power has failed. */
void mr_disk_abandon(mr_machine *machine, mr_disk_file *file);
/* Frees all files of the disk. */
void mr_disk_free(mr_machine *machine);

#endif
