/* password.c - compares a password with a hash by crypt(3). Must not know: sockets. */
#define _GNU_SOURCE /* crypt_r, explicit_bzero */
#include "password.h"

#include <crypt.h>
#include <stdlib.h>
#include <string.h>

/* Takes as long for a wrong hash as for the right one. Both have the length of their kind of hash. */
static bool is_same(const char *one, const char *other)
{
    size_t length = strlen(one);
    unsigned difference = 0;
    if (length != strlen(other))
        return false;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned)(one[i] ^ other[i]);
    return difference == 0;
}

bool password_matches(const char *password, const char *hash)
{
    struct crypt_data *memory = calloc(1, sizeof *memory);
    if (!memory)
        return false;
    const char *made = crypt_r(password, hash, memory);
    bool matches = made && made[0] != '*' && is_same(made, hash);
    explicit_bzero(memory, sizeof *memory);
    free(memory);
    return matches;
}

bool password_hash_is_known(const char *hash)
{
    /* A hash of 13 characters is that of DES, which takes eight characters of a password. */
    return hash[0] == '$' && crypt_checksalt(hash) == CRYPT_SALT_OK;
}
