/* descriptor_table.h: the descriptor numbers of a machine, and their files. */
#ifndef MILLRACE_MACHINE_DESCRIPTOR_TABLE_H
#define MILLRACE_MACHINE_DESCRIPTOR_TABLE_H

#include "machine.h"

mr_file *mr_machine_find(mr_machine *machine, int number);
/* Returns 0, or -EMFILE if no descriptor can be opened. */
int mr_machine_check_limit(mr_machine *machine);
/* Assigns the lowest free number to the file and returns it. Returns -EMFILE or -ENOMEM with the file unchanged. */
int mr_machine_install(mr_machine *machine, mr_file *file, int flags);
void mr_machine_free_descriptors(mr_machine *machine);

#endif
