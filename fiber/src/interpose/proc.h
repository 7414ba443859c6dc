/* proc.h: reads information that only /proc has. */
#ifndef MILLRACE_FIBER_INTERPOSE_PROC_H
#define MILLRACE_FIBER_INTERPOSE_PROC_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the number after `name` at the beginning of a line of the file. Returns false if there is none. May change
 * errno. */
bool mf_proc_number(const char *path, const char *name, int base, uint64_t *number);

#endif
