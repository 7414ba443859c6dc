/* libraries.h: what the tests with real libraries share. Each case runs on every backend, with one carrier. */
#ifndef MILLRACE_FIBER_LIBRARIES_H
#define MILLRACE_FIBER_LIBRARIES_H

#include "../fiber_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void postgresql_many_queries(void);
void postgresql_interrupted_query(void);
void redis_many_blocked_connections(void);
void curl_parallel_download(void);
void curl_from_a_server_of_fibers(void);

/* An environment variable that test/libraries/run sets: the address of a server. */
const char *setting(const char *name);

/* The process's OS threads now. */
unsigned os_threads(void);

#endif
