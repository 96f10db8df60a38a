/*
 * owner.h - who owns a detached job: its tenant, the key that submitted it, and the lock that a secret opens.
 *
 * A client with the same key owns the job, where the broker asks for keys. A client that knows the job's secret owns
 * it, too. The submitting client sends only a digest of the secret (JobMeta.detached_lock = SHA-256, cut to 16 bytes),
 * so the secret itself is never written to disk and never sent to a worker.
 * Threads: any.
 */
#ifndef OWNER_H
#define OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "keys.h"
#include "keyring.h"

#define OWNER_TEXT_BYTES 176u

struct owner {
    char tenant[TENANT_BYTES_MAX + 1];
    char key[2 * KEY_BYTES + 1];  /* hex; "" = the broker asked for no key */
    char lock[DIGEST_TEXT_BYTES]; /* hex; "" = no secret opens it */
};

/* Describes the peer: its tenant, its key (NULL: the broker asks for none), and the lock from a JobMeta (ignored
   unless it has 16 bytes). */
void owner_of(const char *tenant, const struct identity *identity, const uint8_t *lock, size_t lock_bytes,
              struct owner *ret_owner);
/* The lock that this secret opens; false without memory or when it is empty. */
bool owner_unlock(const char *secret, struct owner *owner);

/* Writes "TENANT KEY LOCK", with "-" for an empty part. A text without KEY and LOCK comes from an older broker. */
void owner_text(const struct owner *owner, char text[OWNER_TEXT_BYTES]);
bool owner_read(const char *text, struct owner *ret_owner);

/* The same tenant, and the same key or the same lock. */
bool owner_same(const struct owner *owner, const struct owner *asker);

#endif
