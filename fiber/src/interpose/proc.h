/* proc.h: what only /proc tells. */
#ifndef MILLRACE_FIBER_INTERPOSE_PROC_H
#define MILLRACE_FIBER_INTERPOSE_PROC_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the number behind `name` at the beginning of a line of the file. Returns false if there is none. errno may
 * change. */
bool mf_proc_number(const char *path, const char *name, int base, uint64_t *number);

#endif
