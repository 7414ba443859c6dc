/* postgresql.c: libpq, all of whose calls block, or here park. */
#include "libraries.h"

#include <errno.h>
#include <libpq-fe.h>

enum { QUERIES = 500, CONNECTIONS = 50 };

static PGconn *connect_to_server(void)
{
    PGconn *connection = PQconnectdb(setting("MILLRACE_TEST_POSTGRESQL"));
    if (PQstatus(connection) != CONNECTION_OK)
        FAIL("%s", PQerrorMessage(connection));
    return connection;
}

static int query_number(PGconn *connection, const char *query)
{
    PGresult *result = PQexec(connection, query);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        FAIL("%s: %s", query, PQerrorMessage(connection));
    int number = atoi(PQgetvalue(result, 0, 0));
    PQclear(result);
    return number;
}

/* ------------------------------------------------------------------------------------------------- many at once --- */

static mr_channel *pool;

static void *fill_pool(void *argument)
{
    PGconn *connection = connect_to_server();
    CHECK_EQ(mr_channel_send(pool, &connection, MR_NO_DEADLINE), 0);
    return argument;
}

static void *query(void *argument)
{
    PGconn *connection;
    char text[64];
    int number = (int)(intptr_t)argument;
    CHECK_EQ(mr_channel_receive(pool, &connection, MR_NO_DEADLINE), 0);
    snprintf(text, sizeof text, "SELECT %d FROM pg_sleep(0.1)", number);
    CHECK_EQ(query_number(connection, text), number);
    CHECK_EQ(mr_channel_send(pool, &connection, MR_NO_DEADLINE), 0);
    return NULL;
}

static void *close_connections(void *argument)
{
    PGconn *connection;
    for (int i = 0; i < CONNECTIONS; i++) {
        CHECK_EQ(mr_channel_receive(pool, &connection, MR_NO_DEADLINE), 0);
        PQfinish(connection);
    }
    return argument;
}

/* One after the other they would take 50 s. */
void postgresql_many_queries(void)
{
    mr_fiber *fibers[QUERIES];
    CHECK_EQ(mr_channel_create(&pool, sizeof(PGconn *), CONNECTIONS), 0);
    for (int i = 0; i < CONNECTIONS; i++)
        fibers[i] = spawn(fill_pool, NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        join(fibers[i]);
    uint64_t begin_ns = mr_clock_now_ns();
    for (intptr_t i = 0; i < QUERIES; i++)
        fibers[i] = spawn(query, (void *)i);
    for (int i = 0; i < QUERIES; i++)
        join(fibers[i]);
    CHECK_LT(mr_clock_now_ns() - begin_ns, 12000 * NS_PER_MS);
    CHECK_LE(os_threads(), 1 + mr_carriers_count() + 4);
    join(spawn(close_connections, NULL));
    mr_channel_destroy(pool);
}

/* ------------------------------------------------------------------------------------------------- interruption --- */

static void *sleep_long_then_recover(void *argument)
{
    PGconn *connection = connect_to_server();
    PGresult *result = PQexec(connection, "SELECT pg_sleep(60)");
    CHECK_NE(PQresultStatus(result), PGRES_TUPLES_OK);
    CHECK(strstr(PQerrorMessage(connection), strerror(ETIMEDOUT)) != NULL);
    PQclear(result);
    PQreset(connection);
    CHECK_EQ(query_number(connection, "SELECT 42"), 42);
    PQfinish(connection);
    return argument;
}

/* ETIMEDOUT, because libpq continues after EINTR. */
void postgresql_interrupted_query(void)
{
    mr_fiber *fiber = spawn(sleep_long_then_recover, NULL);
    CHECK_EQ(mr_fiber_sleep(1000 * NS_PER_MS), 0);
    mr_fiber_interrupt(fiber, ETIMEDOUT);
    join(fiber);
}
