/* parts.h - tests of parts of the engine that need no connection. */
#ifndef PARTS_H
#define PARTS_H

#include <stdint.h>

void frames_in_pieces(uintptr_t argument);
void frames_at_limits(uintptr_t argument);
void memory_blocks(uintptr_t argument);
void credentials_refused(uintptr_t argument);
void early_records(uintptr_t argument);

#endif
