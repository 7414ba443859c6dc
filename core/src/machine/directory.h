/* directory.h: the names of files. */
#ifndef MILLRACE_MACHINE_DIRECTORY_H
#define MILLRACE_MACHINE_DIRECTORY_H

#include "machine.h"

enum { MR_NAME_BYTES = MR_MACHINE_NAME_BYTES };

/* A path's directory and last name. */
typedef struct mr_location {
    mr_inode *directory; /* NULL: the path is the root */
    char name[MR_NAME_BYTES];
} mr_location;

/* Finds the location of a path. Returns 0 or a negative errno. */
int mr_directory_find(mr_machine *machine, const char *path, mr_location *location);
/* The file at a location, or NULL. */
mr_inode *mr_directory_at(mr_machine *machine, const mr_location *location);
/* The file of a path; NULL and the error if there is none. */
mr_inode *mr_directory_look_up(mr_machine *machine, const char *path, int *error);
/* Binds a name to a file, or to none (NULL). Returns 0 or -ENOMEM. */
int mr_directory_set(mr_machine *machine, const mr_location *location, mr_inode *inode);
/* Brings the directory's names to the disk. */
void mr_directory_sync(mr_machine *machine, mr_inode *directory);
void mr_directory_free_entries(mr_machine *machine, mr_inode *directory);

#endif
