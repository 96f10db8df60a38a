#include "cache_stored.h"

#include <string.h>

#include "frame.h"
#include "meta_fields.h"
#include "patch.h"

/* Two numbers, neither of them 0, which no job has. */
static struct job_id name_of(const char *place)
{
    struct job_id name = {.client = frame_name_hash(place)};
    char other[400] = "#"; /* the same text as another one: a second, independent half */
    size_t length = strnlen(place, sizeof other - 2);
    memcpy(other + 1, place, length);
    other[1 + length] = '\0';
    name.sequence = frame_name_hash(other);
    name.client += name.client == 0;
    name.sequence += name.sequence == 0;
    return name;
}

static bool open_header(const struct shared_message *value, struct envelope *ret_env, const uint8_t **ret_meta)
{
    return shared_message_open(value, ret_env, ret_meta) && ret_env->type == FRAME_RESULT;
}

struct shared_message *stored_make(const struct shared_message *value, const struct cache_key *key, const char *place,
                                   uint64_t now_unix_us)
{
    struct envelope env;
    const uint8_t *meta;
    struct patch patch = {.used = 0};
    patch_number(&patch, RESULT_META_STORED_UNIX_US, now_unix_us);
    struct shared_message *shared = open_header(value, &env, &meta) ? shared_message_share_raws(value) : NULL;
    if (!shared)
        return NULL;
    env.job = name_of(place);
    env.digest = key->request;
    env.flags = FRAME_FLAG_STORED;
    if (shared_message_set_header(shared, &env, meta, env.meta_bytes, &patch) == PEN_OK)
        return shared;
    shared_message_release(shared);
    return NULL;
}

bool stored_is(const struct shared_message *value, const struct cache_key *key, const char *place)
{
    struct envelope env;
    struct result_facts facts;
    const uint8_t *meta;
    if (!open_header(value, &env, &meta) || !digest_equal(env.digest, key->request))
        return false;
    if (env.flags & FRAME_FLAG_STORED)
        return job_id_equal(env.job, name_of(place));
    return result_read(meta, env.meta_bytes, &facts) && facts.model_digest &&
           memcmp(facts.model_digest, key->model.bytes, sizeof key->model.bytes) == 0;
}
