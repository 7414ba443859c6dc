/* memory_test.h - the tests of this folder. */
#ifndef MEMORY_TEST_H
#define MEMORY_TEST_H

#include "harness.h"

#include <stdbool.h>
#include <stdlib.h>

/* texts.c */
void known_names(uintptr_t unused);
void lists_of_tokens(uintptr_t unused);
void errors(uintptr_t unused);
void classes_of_bytes(uintptr_t unused);
void dates_as_the_c_library(uintptr_t unused);
void dates_refused(uintptr_t unused);
void dates_of_two_digits(uintptr_t unused);
void authorities(uintptr_t unused);

/* request_heads.c */
void request_head(uintptr_t unused);
void requests_refused(uintptr_t unused);
void request_limits(uintptr_t unused);
void request_targets(uintptr_t unused);
void request_hosts(uintptr_t unused);
void request_cookies(uintptr_t unused);
void request_trailers(uintptr_t unused);

/* response_heads.c */
void response_block(uintptr_t unused);
void response_lengths(uintptr_t unused);
void responses_refused(uintptr_t unused);
void response_values(uintptr_t unused);
void response_head(uintptr_t unused);
void response_head_in_any_space(uintptr_t unused);
void framing(uintptr_t unused);

/* bodies.c */
void body_taken(uintptr_t unused);
void body_given(uintptr_t unused);
void blocks_of_memory(uintptr_t unused);
void growing_memory(uintptr_t unused);

/* conduct.c */
void bucket(uintptr_t unused);
void conduct(uintptr_t unused);
void limits_told(uintptr_t unused);

/* system.c */
void files(uintptr_t unused);
void files_refused(uintptr_t unused);
void files_by_descriptor(uintptr_t unused);
void folder_locks(uintptr_t unused);
void sockets(uintptr_t unused);
void kinds_of_descriptors(uintptr_t unused);
void random_bytes(uintptr_t unused);

#endif
