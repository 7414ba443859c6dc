/* memory_test.h - the tests, which take a version of the protocol. */
#ifndef MEMORY_TEST_H
#define MEMORY_TEST_H

#include "conversation.h"

/* Why a connection has failed. Without memory a failed connection does not know. */
static inline const tls_failure *failure_of(tls_connection *connection)
{
    const tls_failure *failure = tls_connection_failure(connection);
    CHECK(failure);
    return failure;
}

/* delivery.c */
void pieces(uintptr_t version);
void cut_to_server(uintptr_t version);
void cut_to_client(uintptr_t version);
void changed(uintptr_t version);

/* sharing.c */
void share_context(uintptr_t version);
void share_connection(uintptr_t version);

/* hygiene.c */
void subject_is_no_name(uintptr_t version);
void encrypted_certificate(uintptr_t unused);
void closed_is_closed(uintptr_t version);
void old_errors(uintptr_t version);
void warnings_are_no_cause(uintptr_t version);
void weak_key(uintptr_t version);
void no_early_data(uintptr_t version);
void session_of_other_settings(uintptr_t version);
void tickets_follow_tickets(uintptr_t version);
void client_sessions(uintptr_t version);
void sessions_grow_old(uintptr_t version);
void tickets_rotate(uintptr_t version);
void given_tickets_stay(uintptr_t version);
void message_in_parts(uintptr_t version);
void key_updates(uintptr_t version);
void keys_change(uintptr_t version);
void last_bytes(uintptr_t version);

/* certificates.c */
void identities(uintptr_t unused);
void certificate_fields(uintptr_t unused);
void alternative_names(uintptr_t unused);
void certificate_times(uintptr_t unused);

/* names.c */
void names_choose(uintptr_t version);
void names_asked(uintptr_t version);
void names_changed(uintptr_t version);

/* settings.c */
void settings_refused(uintptr_t unused);
void protocols(uintptr_t version);
void trust(uintptr_t version);
void client_certificates(uintptr_t version);
void trust_in_system(uintptr_t version);
void no_tickets(uintptr_t version);
void log_of_secrets(uintptr_t version);
void record_buffers(uintptr_t unused);

/* A new file, which is removed when the process ends. Returns a descriptor for reading and writing. */
int temporary_file(const char **name);

/* problems.c */
void nothing_in_common(uintptr_t unused);
void other_protocols(uintptr_t unused);
void end_during_handshake(uintptr_t version);
void violation_after_handshake(uintptr_t version);
void put_back(uintptr_t version);
void send_files(uintptr_t version);
void in_place_limits(uintptr_t version);
void expected_addresses(uintptr_t version);
void sessions_are_limited(uintptr_t version);

/* staples.c */
void staples(uintptr_t version);

#endif
