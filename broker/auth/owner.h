/*
 * owner.h - whose a detached job is: its tenant, the key that submitted it, and the lock that a secret opens.
 *
 * Where keys are asked for, whoever holds the same key owns the job; anywhere, whoever knows the secret whose digest its client sent along
 * (JobMeta.detached_lock = SHA-256 of the secret, cut to 16 bytes): the secret itself is on no disk and reaches no worker.
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
    char key[2 * KEY_BYTES + 1];  /* hex; "" = nobody was asked for one */
    char lock[DIGEST_TEXT_BYTES]; /* hex; "" = no secret opens it */
};

/* Who is at the other end: its tenant, its key (NULL: nobody was asked for one), and a lock as it stands in a JobMeta (ignored unless it has 16 bytes). */
void owner_of(const char *tenant, const struct identity *identity, const uint8_t *lock, size_t lock_bytes,
              struct owner *ret_owner);
/* The lock that this secret opens; false without memory or when it is empty. */
bool owner_unlock(const char *secret, struct owner *owner);

/* "TENANT KEY LOCK" with "-" for what is empty; a text without the last two is one of an older broker. */
void owner_text(const struct owner *owner, char text[OWNER_TEXT_BYTES]);
bool owner_read(const char *text, struct owner *ret_owner);

/* Of one tenant, and the same key or the same lock. */
bool owner_same(const struct owner *owner, const struct owner *asker);

#endif
