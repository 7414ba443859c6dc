/* postgresql.c: see postgresql.h. */
#include "postgresql.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static int is_error(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE || status == PGRES_NONFATAL_ERROR;
}

static int is_copy(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

static void keep(PGresult **kept, PGresult *result)
{
    if (*kept && is_error(*kept)) {
        PQclear(result);
        return;
    }
    PQclear(*kept);
    *kept = result;
}

/* After a failure libpq's results explain it, and PQgetResult does not wait any more. */
static mrp_next lost(PGconn *connection, PGresult **kept)
{
    for (int i = 0; i < 8; i++) {
        PGresult *result = PQgetResult(connection);
        if (!result)
            break;
        keep(kept, result);
    }
    return MRP_LOST;
}

mrp_next mrp_advance(PGconn *connection, PGresult **kept, int is_pipeline)
{
    int unsent = PQflush(connection);
    if (unsent < 0 && PQstatus(connection) == CONNECTION_BAD)
        return lost(connection, kept);
    while (!PQisBusy(connection)) {
        PGresult *result = PQgetResult(connection);
        if (!result)
            return PQstatus(connection) == CONNECTION_BAD ? MRP_LOST : MRP_DONE;
        int is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        int copies = is_copy(result);
        keep(kept, result);
        if (copies)
            return MRP_COPY;
        if (is_pipeline && is_sync)
            return MRP_DONE;
    }
    return unsent > 0 ? MRP_WAIT_WRITE : MRP_WAIT_READ;
}

mrp_next mrp_receive(PGconn *connection, PGresult **kept, int is_pipeline)
{
    if (!PQconsumeInput(connection))
        return lost(connection, kept);
    return mrp_advance(connection, kept, is_pipeline);
}

int mrp_is_alive(PGconn *connection)
{
    /* A server that ends an idle connection sends a message, and closes it. libpq takes the message for a sign of life.
     * */
    char byte;
    if (recv(PQsocket(connection), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        return 0;
    return PQconsumeInput(connection) && PQstatus(connection) == CONNECTION_OK && !PQisBusy(connection);
}

void mrp_row(const PGresult *result, int row, int columns, mrp_cell *cells)
{
    for (int i = 0; i < columns; i++) {
        cells[i].bytes = PQgetvalue(result, row, i);
        cells[i].length = PQgetisnull(result, row, i) ? -1 : PQgetlength(result, row, i);
    }
}

static void ignore_notice(void *unused, const PGresult *notice)
{
    (void)unused;
    (void)notice;
}

int mrp_set_up(PGconn *connection)
{
    PQsetNoticeReceiver(connection, ignore_notice, NULL);
    return PQsetnonblocking(connection, 1) == 0;
}

const char *mrp_option(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val && *options->val ? options->val : NULL;
    return NULL;
}
