/* mutation.h - what somebody between the two sides does to the bytes, by a script. Must not know: system calls, sockets. */
#ifndef MUTATION_H
#define MUTATION_H

#include "conversation.h"

/* The script: a byte chooses what happens to the bytes of a turn, and others where and how. */
typedef struct mutation {
    const uint8_t *script;
    size_t length;
    size_t at;
    unsigned count; /* how many turns were changed */
} mutation;

/* Runs a whole conversation of this version under a script, and checks what must hold in any case. */
void mutated_conversation(tls_context *client, tls_context *server, const uint8_t *script, size_t length);

#endif
