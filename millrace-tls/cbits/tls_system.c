/* tls_system.c - the authorities that this machine trusts. Must not know: sockets. */
#include "tls_internal.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The system's file has some 150 certificates, and parsing them takes about 50 ms. So they are parsed once for all
 * contexts, and again when the file has changed. */
static pthread_mutex_t system_lock = PTHREAD_MUTEX_INITIALIZER;
static STACK_OF(X509) * system_certificates;
static struct stat system_file;

static bool is_same_file(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino && one->st_size == other->st_size &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/* A missing file has no certificates. */
static STACK_OF(X509) * parse(const char *name)
{
    STACK_OF(X509) *found = sk_X509_new_null();
    BIO *from = BIO_new_file(name, "r");
    for (X509 *one = NULL; from && found && (one = PEM_read_bio_X509_AUX(from, NULL, tls_no_password, NULL));)
        if (sk_X509_push(found, one) == 0)
            X509_free(one);
    BIO_free(from);
    ERR_clear_error();
    return found;
}

static void refresh(void)
{
    const char *given = getenv(X509_get_default_cert_file_env());
    const char *name = given ? given : X509_get_default_cert_file();
    struct stat now;
    if (stat(name, &now) != 0)
        memset(&now, 0, sizeof now);
    if (system_certificates && is_same_file(&now, &system_file))
        return;
    sk_X509_pop_free(system_certificates, X509_free);
    system_certificates = parse(name);
    system_file = now;
}

bool tls_system_trust(X509_STORE *store)
{
    pthread_mutex_lock(&system_lock);
    refresh();
    bool is_added = system_certificates != NULL;
    for (int i = 0; is_added && i < sk_X509_num(system_certificates); i++)
        is_added = X509_STORE_add_cert(store, sk_X509_value(system_certificates, i)) == 1;
    pthread_mutex_unlock(&system_lock);
    /* Certificates in the system's folder are looked up when they are needed. */
    X509_LOOKUP *folder = is_added ? X509_STORE_add_lookup(store, X509_LOOKUP_hash_dir()) : NULL;
    return folder && X509_LOOKUP_add_dir(folder, NULL, X509_FILETYPE_DEFAULT) == 1;
}
