/* inode.h: files and directories, in memory and on the disk. */
#ifndef MILLRACE_MACHINE_INODE_H
#define MILLRACE_MACHINE_INODE_H

#include "machine.h"

mr_inode *mr_inode_new(mr_machine *machine, bool is_directory, uint32_t permissions);
void mr_inode_hold(mr_inode *inode);
/* Frees it when its last holder releases it. Ignores NULL. */
void mr_inode_release(mr_machine *machine, mr_inode *inode);
/* Adds to its numbers of names and open files. Without either, a file uses no disk space. */
void mr_inode_use(mr_machine *machine, mr_inode *inode, int names, int opens);
size_t mr_inode_read(const mr_inode *inode, void *buffer, size_t size, uint64_t offset);
/* Writes as many bytes as fit; -ENOSPC if none do (write(2)). */
ssize_t mr_inode_write(mr_machine *machine, mr_inode *inode, const void *data, size_t size, uint64_t offset);
/* 0 or -ENOSPC. */
int mr_inode_resize(mr_machine *machine, mr_inode *inode, uint64_t size);
/* Brings the inode to the disk. */
void mr_inode_sync(mr_inode *inode);
/* Drops the changes that the disk does not have, although reads still see them: Linux, too, gives up pages that it
 * failed to write. */
void mr_inode_forget_changes(mr_inode *inode);
/* Applies a crash. `keeps` decides for each thing that was not synced whether it is kept. */
void mr_inode_crash(mr_machine *machine, mr_inode *inode, bool (*keeps)(mr_machine *machine));

#endif
