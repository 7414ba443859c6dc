/* memory_test.c - the tests of this folder. With faults, each of them runs again and again, and an allocation fails. */
#include "memory_test.h"

#ifdef MEMORY_WITH_FAULTS
#include "fault/fault.h"

#include <openssl/crypto.h>

extern void *fault_malloc(size_t size);
extern void *fault_realloc(void *old, size_t size);

/* OpenSSL's allocations fail, too. */
static void *allocate(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return fault_malloc(size);
}

static void *reallocate(void *old, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    return fault_realloc(old, size);
}

static void give_back(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    free(memory);
}

static const harness_test *current;

static void run_current(void)
{
    current->run(current->argument);
}

static void run_with_faults(uintptr_t test)
{
    CHECK(CRYPTO_set_mem_functions(allocate, reallocate, give_back));
    current = (const harness_test *)test;
    run_current(); /* OpenSSL fills its common tables, of which it loses entries if memory fails meanwhile */
    fault_run(run_current, FAULT_REACHES_ITS_CALLER);
}
#endif

int main(int argc, char **argv)
{
    harness_announce_seed(argc, argv);
    const harness_test tests[] = {
        {"pieces/1.2", pieces, VERSION_1_2},
        {"pieces/1.3", pieces, VERSION_1_3},
        {"cut/to-server-1.2", cut_to_server, VERSION_1_2},
        {"cut/to-server-1.3", cut_to_server, VERSION_1_3},
        {"cut/to-client-1.2", cut_to_client, VERSION_1_2},
        {"cut/to-client-1.3", cut_to_client, VERSION_1_3},
        {"changed/1.2", changed, VERSION_1_2},
        {"changed/1.3", changed, VERSION_1_3},
        {"sharing/context", share_context, VERSION_1_3},
        {"sharing/connection-1.2", share_connection, VERSION_1_2},
        {"sharing/connection-1.3", share_connection, VERSION_1_3},
        {"hygiene/subject", subject_is_no_name, VERSION_1_3},
        {"hygiene/encrypted-certificate", encrypted_certificate, 0},
        {"hygiene/closed", closed_is_closed, VERSION_1_3},
        {"hygiene/old-errors", old_errors, VERSION_1_3},
        {"hygiene/warning", warnings_are_no_cause, VERSION_1_2},
        {"hygiene/weak-key", weak_key, VERSION_1_3},
        {"hygiene/early-data", no_early_data, VERSION_1_3},
        {"hygiene/session-1.2", session_of_other_settings, VERSION_1_2},
        {"hygiene/session-1.3", session_of_other_settings, VERSION_1_3},
        {"hygiene/tickets", tickets_follow_tickets, VERSION_1_3},
        {"hygiene/client-sessions-1.2", client_sessions, VERSION_1_2},
        {"hygiene/client-sessions-1.3", client_sessions, VERSION_1_3},
        {"hygiene/old-sessions-1.2", sessions_grow_old, VERSION_1_2},
        {"hygiene/old-sessions-1.3", sessions_grow_old, VERSION_1_3},
        {"hygiene/rotation-1.2", tickets_rotate, VERSION_1_2},
        {"hygiene/rotation-1.3", tickets_rotate, VERSION_1_3},
        {"hygiene/given-tickets", given_tickets_stay, VERSION_1_3},
        {"hygiene/message-in-parts", message_in_parts, VERSION_1_3},
        {"hygiene/key-updates", key_updates, VERSION_1_3},
        {"hygiene/keys-change", keys_change, VERSION_1_3},
        {"hygiene/last-bytes-1.2", last_bytes, VERSION_1_2},
        {"hygiene/last-bytes-1.3", last_bytes, VERSION_1_3},
        {"staples/1.2", staples, VERSION_1_2},
        {"staples/1.3", staples, VERSION_1_3},
    };
    enum { COUNT = sizeof tests / sizeof *tests };
#ifdef MEMORY_WITH_FAULTS
    harness_test faulty[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        faulty[i] = (harness_test){tests[i].name, run_with_faults, (uintptr_t)&tests[i]};
    return harness_main(faulty, COUNT, argc, argv);
#else
    return harness_main(tests, COUNT, argc, argv);
#endif
}
