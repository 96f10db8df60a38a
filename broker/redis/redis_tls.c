#include "redis_tls.h"

#include <stdio.h>

#ifndef REDIS_TLS

bool redis_tls_built(void)
{
    return false;
}

enum pen_status redis_tls_check(const struct redis_place *place, struct pen_error *reterr)
{
    (void)place;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this build has no TLS to Redis");
}

bool redis_tls_begin(redisContext *redis, const struct redis_place *place, const char *host, void **ret_session,
                     char *reason, size_t bytes)
{
    (void)redis, (void)place, (void)host, (void)ret_session;
    snprintf(reason, bytes, "this build has no TLS to Redis");
    return false;
}

bool redis_tls_waits(void *session)
{
    (void)session;
    return false;
}

void redis_tls_reason(void *session, char *reason, size_t bytes)
{
    (void)session, (void)reason, (void)bytes;
}

#else

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <hiredis/hiredis_ssl.h>

bool redis_tls_built(void)
{
    return true;
}

static bool given(const char *path)
{
    return path && *path;
}

/* Borrowed until the next call of this thread. */
static const char *why(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "the file cannot be read";
}

/* Everything that the files say; NULL: *reterr says which of them is wrong. */
static SSL_CTX *context_new(const struct redis_place *place, struct pen_error *reterr)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context) {
        pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for TLS to Redis");
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    const char *key = given(place->key) ? place->key : place->certificate;
    if (!(given(place->ca) ? SSL_CTX_load_verify_locations(context, place->ca, NULL)
                           : SSL_CTX_set_default_verify_paths(context)))
        pen_error_set(reterr, PEN_ERR_IO, "--redis-ca %.200s holds no certificates in PEM: %s",
                      given(place->ca) ? place->ca : "(the system's)", why());
    else if (given(place->certificate) && SSL_CTX_use_certificate_chain_file(context, place->certificate) != 1)
        pen_error_set(reterr, PEN_ERR_IO, "--redis-certificate %.200s holds no certificate in PEM: %s",
                      place->certificate, why());
    else if (given(place->certificate) && SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        pen_error_set(reterr, PEN_ERR_IO, "--redis-key %.200s holds no key of --redis-certificate in PEM: %s", key,
                      why());
    else
        return context;
    SSL_CTX_free(context);
    return NULL;
}

enum pen_status redis_tls_check(const struct redis_place *place, struct pen_error *reterr)
{
    struct pen_error error = {.status = PEN_OK};
    SSL_CTX *context = context_new(place, &error);
    SSL_CTX_free(context);
    return context ? PEN_OK : pen_error_set(reterr, error.status, "%s", error.text);
}

/* hiredis checks who signed a certificate, and not for whom: OpenSSL is told the host. */
static SSL *session_new(SSL_CTX *context, const char *host)
{
    SSL *session = SSL_new(context);
    X509_VERIFY_PARAM *rules = session ? SSL_get0_param(session) : NULL;
    if (!rules)
        return NULL;
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1)
        return session;
    if (X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1 && SSL_set_tlsext_host_name(session, host) == 1)
        return session;
    SSL_free(session);
    return NULL;
}

bool redis_tls_begin(redisContext *redis, const struct redis_place *place, const char *host, void **ret_session,
                     char *reason, size_t bytes)
{
    struct pen_error error = {.status = PEN_OK};
    SSL_CTX *context = context_new(place, &error);
    SSL *session = context ? session_new(context, host) : NULL;
    SSL_CTX_free(context); /* the session has its own reference */
    if (!session) {
        snprintf(reason, bytes, "%.150s", error.text[0] ? error.text : "no memory for TLS to Redis");
        return false;
    }
    if (redisInitiateSSL(redis, session) == REDIS_OK) { /* the connection owns the session */
        *ret_session = session;
        return true;
    }
    snprintf(reason, bytes, "TLS: %.140s", redis->errstr);
    redis_tls_reason(session, reason, bytes);
    SSL_free(session);
    return false;
}

bool redis_tls_waits(void *session)
{
    return session && SSL_want_read((SSL *)session);
}

/* The queue of errors belongs to the thread: what is left in it would be taken for an error of the next connection. */
void redis_tls_reason(void *session, char *reason, size_t bytes)
{
    long verdict = session ? SSL_get_verify_result(session) : X509_V_OK;
    if (verdict != X509_V_OK)
        snprintf(reason, bytes, "TLS: %.140s", X509_verify_cert_error_string(verdict));
    ERR_clear_error();
}

#endif
