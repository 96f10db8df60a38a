#include "cache_stored.h"

#include <string.h>

#include "frame.h"

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

static bool open_header(const struct parcel *value, struct envelope *ret_env, const uint8_t **ret_meta)
{
    zmq_msg_t *header = (zmq_msg_t *)(uintptr_t)&value->frames[0];
    return envelope_decode(zmq_msg_data(header), zmq_msg_size(header), ret_env, ret_meta, NULL) == PEN_OK &&
           ret_env->type == FRAME_RESULT;
}

struct parcel *stored_make(const struct parcel *value, const struct cache_key *key, const char *place)
{
    struct envelope env;
    const uint8_t *meta;
    struct parcel *parcel = open_header(value, &env, &meta) ? parcel_share(value, true) : NULL;
    if (!parcel)
        return NULL;
    env.job = name_of(place);
    env.digest = key->request;
    env.flags = FRAME_FLAG_STORED;
    if (parcel_set_header(parcel, &env, meta, env.meta_bytes, NULL) == PEN_OK)
        return parcel;
    parcel_release(parcel);
    return NULL;
}

bool stored_is(const struct parcel *value, const struct cache_key *key, const char *place)
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
