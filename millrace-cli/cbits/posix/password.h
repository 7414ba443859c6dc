/* password.h: passwords and their hashes. Must not know: sockets. */
#ifndef MILLRACE_PASSWORD_H
#define MILLRACE_PASSWORD_H

#include <stdbool.h>

/* Whether the hash is that of the password. Takes as long as the kind of hash is meant to take: often a tenth of a
   second. */
bool password_matches(const char *password, const char *hash);

/* Whether crypt(3) knows this kind of hash and calls it safe: yescrypt, bcrypt, SHA-512 and others. */
bool password_hash_is_known(const char *hash);

#endif
