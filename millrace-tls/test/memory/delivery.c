/* delivery.c - how bytes arrive: in pieces, up to a position, changed. Must not know: system calls, sockets. */
#include "memory_test.h"
#include "mutation.h"

#include <stdlib.h>

static void check_whole(const conversation *c)
{
    CHECK_EQ(c->client.phase, ENDED);
    CHECK_EQ(c->server.phase, ENDED);
    CHECK_EQ(c->client.received, c->server.to_send);
    CHECK_EQ(c->server.received, c->client.to_send);
}

void pieces(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    uint64_t first = harness_first_seed();
    for (uint64_t seed = first; seed < first + harness_rounds(300); seed++) {
        conversation c;
        conversation_begin(&c, client, server, seed % 3 * 20000, seed);
        conversation_run(&c);
        check_whole(&c);
        conversation_end(&c);
    }
    tls_context_release(client);
    tls_context_release(server);
}

/* For each position, one conversation whose bytes in one direction arrive only up to it. The receiver must not see an
 * end unless all bytes have arrived. */
static void cut(uintptr_t version, bool is_to_server)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    uint64_t seed = harness_first_seed();
    /* Under sanitizers, only some of the positions. */
    unsigned stride = 2000 / harness_rounds(2000);
    for (size_t position = seed % stride;; position += stride) {
        conversation c;
        conversation_begin(&c, client, server, 200, seed++);
        wire *short_one = is_to_server ? &c.to_server : &c.to_client;
        const side *waiting = is_to_server ? &c.server : &c.client;
        short_one->cut = position;
        conversation_run(&c);
        bool is_whole = position >= short_one->count;
        CHECK_NE(waiting->phase, FAILED);
        CHECK_EQ(waiting->phase == ENDED, is_whole);
        if (is_whole)
            check_whole(&c);
        conversation_end(&c);
        if (is_whole)
            break;
    }
    tls_context_release(client);
    tls_context_release(server);
}

void cut_to_server(uintptr_t version)
{
    cut(version, true);
}

void cut_to_client(uintptr_t version)
{
    cut(version, false);
}

void changed(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    uint64_t first = harness_first_seed();
    for (uint64_t seed = first; seed < first + harness_rounds(1500); seed++) {
        uint8_t script[128];
        uint64_t random = seed;
        size_t length = next_random(&random) % sizeof script;
        /* Zeros change nothing. The script has many of them, so that some conversations get far. */
        for (size_t i = 0; i < length; i++)
            script[i] = next_random(&random) % 4 == 0 || i > length / 2 ? (uint8_t)next_random(&random) : 0;
        mutated_conversation(client, server, script, length);
    }
    tls_context_release(client);
    tls_context_release(server);
}
