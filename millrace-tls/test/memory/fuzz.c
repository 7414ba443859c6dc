/* fuzz.c - a conversation whose bytes are changed by a script from libFuzzer. The script's first bit chooses the TLS
 * version. */
#include "mutation.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static tls_context *clients[2];
    static tls_context *servers[2];
    for (int i = 0; i < 2 && !clients[i]; i++) {
        clients[i] = new_client_context(usual_credentials(), VERSION_1_2 + i);
        servers[i] = new_server_context(usual_credentials(), VERSION_1_2 + i);
    }
    if (length > 0)
        mutated_conversation(clients[bytes[0] & 1], servers[bytes[0] & 1], bytes + 1, length - 1);
    return 0;
}
