/* memory_test.c - the tests of this folder. */
#include "memory_test.h"

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
    return harness_main(tests, sizeof tests / sizeof *tests, argc, argv);
}
