/* mutation.h - an attacker between the two sides, who changes the bytes by a script. Must not know: system calls,
 * sockets. */
#ifndef MUTATION_H
#define MUTATION_H

#include "conversation.h"

/* In the script, one byte chooses how the bytes of a turn are changed, and the next ones choose where and by what. */
typedef struct mutation {
    const uint8_t *script;
    size_t length;
    size_t at;
    unsigned count; /* how many turns were changed */
} mutation;

/* Runs a whole conversation with bytes changed by this script, and checks that no side returns bytes that were not
 * sent. */
void mutated_conversation(tls_context *client, tls_context *server, const uint8_t *script, size_t length);

#endif
