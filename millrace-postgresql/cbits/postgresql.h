/* postgresql.h: what libpq does between two waits for its socket. None of these functions waits. Must not know: GHC,
 * the core. */
#ifndef MRP_POSTGRESQL_H
#define MRP_POSTGRESQL_H

#include <libpq-fe.h>
#include <stdint.h>

/* A value of a row. */
typedef struct mrp_cell {
    const char *bytes;
    int64_t length; /* -1: NULL */
} mrp_cell;

/* The next action of the caller, before the next step. */
typedef enum mrp_next {
    MRP_DONE = 0,       /* nothing: the server has answered, and *result is the answer */
    MRP_WAIT_READ = 1,  /* wait until the socket is readable, then call mrp_receive */
    MRP_WAIT_WRITE = 2, /* the same, but the socket may also become writable first */
    MRP_LOST = 3,       /* nothing: the connection has failed. *result says why, if the server or libpq has said so */
    MRP_COPY = 4        /* close the connection: the statement was COPY, which needs other calls */
} mrp_next;

/*
 * Sends waiting bytes and processes received ones. Of several results the last one remains, or the first one that is an
 * error. *result must be NULL before the first step, and the caller must clear it. With `is_pipeline` a step ends after
 * each statement of a pipeline, also after PGRES_PIPELINE_SYNC.
 */
mrp_next mrp_advance(PGconn *connection, PGresult **result, int is_pipeline);

/* Receives the bytes that the socket has, and then does the same as mrp_advance. */
mrp_next mrp_receive(PGconn *connection, PGresult **result, int is_pipeline);

/* Whether the server has neither closed the connection nor sent anything since the last answer. */
int mrp_is_alive(PGconn *connection);

/* Stores the values of a row in `cells`, which has an entry for each column. */
void mrp_row(const PGresult *result, int row, int columns, mrp_cell *cells);

/* Prepares a connection for these functions: without blocking, and without writing notices to stderr. Returns 0 if that
 * failed. */
int mrp_set_up(PGconn *connection);

/* The value that a connection string gives to a parameter; NULL if it gives none. */
const char *mrp_option(const PQconninfoOption *options, const char *keyword);

#endif
