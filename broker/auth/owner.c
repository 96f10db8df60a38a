#include "owner.h"

#include <stdio.h>
#include <string.h>

#include "keyring.h"
#include "words.h"

static void write_hex(const uint8_t *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

void owner_of(const char *tenant, const struct identity *identity, const uint8_t *lock, size_t lock_bytes,
              struct owner *ret_owner)
{
    *ret_owner = (struct owner){.key = ""};
    snprintf(ret_owner->tenant, sizeof ret_owner->tenant, "%s", tenant);
    if (identity)
        write_hex(identity->key, KEY_BYTES, ret_owner->key);
    if (lock_bytes == sizeof(struct digest))
        write_hex(lock, lock_bytes, ret_owner->lock);
}

bool owner_unlock(const char *secret, struct owner *owner)
{
    struct digest_stream *stream = *secret ? digest_new(DIGEST_SHA256) : NULL;
    if (!stream)
        return false;
    digest_update(stream, secret, strlen(secret));
    struct digest digest = digest_final(stream);
    digest_free(stream);
    digest_text(digest, owner->lock);
    return true;
}

void owner_text(const struct owner *owner, char text[OWNER_TEXT_BYTES])
{
    snprintf(text, OWNER_TEXT_BYTES, "%s %s %s", owner->tenant, words_or_dash(owner->key), words_or_dash(owner->lock));
}

bool owner_read(const char *text, struct owner *ret_owner)
{
    struct owner owner = {.key = ""};
    char key[sizeof owner.key] = "-", lock[sizeof owner.lock] = "-";
    int words = sscanf(text, "%64s %64s %32s", owner.tenant, key, lock);
    if (words != 1 && words != 3)
        return false;
    if (strcmp(key, "-") != 0)
        memcpy(owner.key, key, sizeof key);
    if (strcmp(lock, "-") != 0)
        memcpy(owner.lock, lock, sizeof lock);
    *ret_owner = owner;
    return true;
}

/* Digests are compared, not secrets, so the time that a comparison takes is of no use for guessing a secret. */
bool owner_same(const struct owner *owner, const struct owner *asker)
{
    if (strcmp(owner->tenant, asker->tenant) != 0)
        return false;
    return (*owner->key && strcmp(owner->key, asker->key) == 0) ||
           (*owner->lock && strcmp(owner->lock, asker->lock) == 0);
}
