/* memory_test.c - the tests of this folder. With faults, each of them runs again and again, and an allocation fails. */
#include "memory_test.h"

#ifdef MEMORY_WITH_FAULTS
#include "fault/fault.h"

#include <openssl/crypto.h>
#include <stdlib.h>

extern void *fault_malloc(size_t size);
extern void *fault_realloc(void *old, size_t size);

/* OpenSSL's allocations fail, too, unless FAULTS_OF_OPENSSL is none. */
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
    const char *of_openssl = getenv("FAULTS_OF_OPENSSL");
    if (!of_openssl || strcmp(of_openssl, "none") != 0)
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
        {"certificates/identities", identities, 0},
        {"certificates/fields", certificate_fields, 0},
        {"certificates/alternative-names", alternative_names, 0},
        {"certificates/times", certificate_times, 0},
        {"names/choose-1.2", names_choose, VERSION_1_2},
        {"names/choose-1.3", names_choose, VERSION_1_3},
        {"names/asked-1.2", names_asked, VERSION_1_2},
        {"names/asked-1.3", names_asked, VERSION_1_3},
        {"names/changed-1.2", names_changed, VERSION_1_2},
        {"names/changed-1.3", names_changed, VERSION_1_3},
        {"settings/refused", settings_refused, 0},
        {"settings/protocols-1.2", protocols, VERSION_1_2},
        {"settings/protocols-1.3", protocols, VERSION_1_3},
        {"settings/trust-1.2", trust, VERSION_1_2},
        {"settings/trust-1.3", trust, VERSION_1_3},
        {"settings/client-certificates-1.2", client_certificates, VERSION_1_2},
        {"settings/client-certificates-1.3", client_certificates, VERSION_1_3},
        {"settings/trust-in-system-1.2", trust_in_system, VERSION_1_2},
        {"settings/trust-in-system-1.3", trust_in_system, VERSION_1_3},
        {"settings/no-tickets-1.2", no_tickets, VERSION_1_2},
        {"settings/no-tickets-1.3", no_tickets, VERSION_1_3},
        {"settings/log-of-secrets-1.2", log_of_secrets, VERSION_1_2},
        {"settings/log-of-secrets-1.3", log_of_secrets, VERSION_1_3},
        {"settings/record-buffers", record_buffers, 0},
        {"problems/nothing-in-common", nothing_in_common, 0},
        {"problems/other-protocols", other_protocols, 0},
        {"problems/end-during-handshake-1.2", end_during_handshake, VERSION_1_2},
        {"problems/end-during-handshake-1.3", end_during_handshake, VERSION_1_3},
        {"problems/violation-1.2", violation_after_handshake, VERSION_1_2},
        {"problems/violation-1.3", violation_after_handshake, VERSION_1_3},
        {"problems/put-back-1.2", put_back, VERSION_1_2},
        {"problems/put-back-1.3", put_back, VERSION_1_3},
        {"problems/send-files-1.2", send_files, VERSION_1_2},
        {"problems/send-files-1.3", send_files, VERSION_1_3},
        {"problems/in-place-1.2", in_place_limits, VERSION_1_2},
        {"problems/in-place-1.3", in_place_limits, VERSION_1_3},
        {"problems/addresses-1.2", expected_addresses, VERSION_1_2},
        {"problems/addresses-1.3", expected_addresses, VERSION_1_3},
        {"problems/sessions-are-limited", sessions_are_limited, VERSION_1_3},
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
