/* frame.c - the 80-byte envelope. Offsets: proto/PROTOCOL.md, "Envelope". */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "frame.h"

#include <endian.h>
#include <string.h>

enum {
    AT_MAGIC = 0,
    AT_MAJOR = 2,
    AT_MINOR = 3,
    AT_TYPE = 4,
    AT_HEADER_BYTES = 5,
    AT_FLAGS = 6,
    AT_CLIENT = 8,
    AT_SEQUENCE = 16,
    AT_DIGEST = 24,
    AT_MODEL_HASH = 40,
    AT_SEQUENCE_ID = 48,
    AT_DEADLINE = 56,
    AT_TENANT_HASH = 64,
    AT_PRIORITY = 68,
    AT_PRECISION = 69,
    AT_STATUS = 70,
    AT_FRAMES = 71,
    AT_META_BYTES = 72,
    AT_TRANSFER = 76,
    AT_END = 80,
};
_Static_assert(AT_SEQUENCE - AT_CLIENT == sizeof(uint64_t) && AT_DIGEST - AT_SEQUENCE == sizeof(uint64_t) &&
                   AT_MODEL_HASH - AT_DIGEST == sizeof(struct digest) &&
                   AT_SEQUENCE_ID - AT_MODEL_HASH == sizeof(uint64_t) &&
                   AT_DEADLINE - AT_SEQUENCE_ID == sizeof(uint64_t) &&
                   AT_TENANT_HASH - AT_DEADLINE == sizeof(uint64_t) &&
                   AT_PRIORITY - AT_TENANT_HASH == sizeof(uint32_t) && AT_TRANSFER - AT_META_BYTES == sizeof(uint32_t),
               "the fields of the envelope stand side by side");
_Static_assert(AT_TRANSFER + sizeof(uint32_t) == FRAME_ENVELOPE_BYTES, "the fields fill the envelope");
_Static_assert(FRAME_MAX_TENSORS <= UINT8_MAX, "a byte of the envelope counts the raw frames");
_Static_assert(FRAME_TYPE_COUNT == 24 && PRECISION_COUNT == 7,
               "a new type has a row in type_rules, a new precision a name");

/* Each field begins where the one before it ends, at a multiple of its size. */
_Static_assert(AT_MAJOR == AT_MAGIC + 2 && AT_MINOR == AT_MAJOR + 1 && AT_TYPE == AT_MINOR + 1, "magic and version");
_Static_assert(AT_HEADER_BYTES == AT_TYPE + 1 && AT_FLAGS == AT_HEADER_BYTES + 1, "type and size");
_Static_assert(AT_CLIENT == AT_FLAGS + 2 && AT_SEQUENCE == AT_CLIENT + 8, "the job's id");
_Static_assert(AT_DIGEST == AT_SEQUENCE + 8 && AT_MODEL_HASH == AT_DIGEST + sizeof(struct digest), "the digest");
_Static_assert(AT_SEQUENCE_ID == AT_MODEL_HASH + 8 && AT_DEADLINE == AT_SEQUENCE_ID + 8, "sequence or offset");
_Static_assert(AT_TENANT_HASH == AT_DEADLINE + 8 && AT_PRIORITY == AT_TENANT_HASH + 4, "deadline and tenant");
_Static_assert(AT_PRECISION == AT_PRIORITY + 1 && AT_STATUS == AT_PRECISION + 1, "one byte each");
_Static_assert(AT_FRAMES == AT_STATUS + 1 && AT_META_BYTES == AT_FRAMES + 1, "one byte each");
_Static_assert(AT_TRANSFER == AT_META_BYTES + 4 && AT_END == AT_TRANSFER + 4, "sizes");
_Static_assert(AT_END == FRAME_ENVELOPE_BYTES, "the envelope ends with its last field");
_Static_assert(AT_DEADLINE % 8 == 0 && AT_META_BYTES % 4 == 0 && AT_FLAGS % 2 == 0, "aligned within the frame");
_Static_assert(FRAME_ENVELOPE_BYTES <= UINT8_MAX, "the envelope's size is told in one byte");
_Static_assert((int)PRECISION_COUNT == PRECISIONS_COUNT, "each class has one number");
_Static_assert(PRECISION_COUNT <= UINT8_MAX && PEN_STATUS_COUNT <= UINT8_MAX, "a class and a status have one byte");
_Static_assert(FRAME_MAX_TENSORS <= UINT8_MAX && FRAME_TYPE_COUNT <= UINT8_MAX, "so have frames and types");

static const struct type_rule {
    const char *name;
    uint32_t meta_bytes_max;
    bool names_job;    /* has a job id */
    bool carries_data; /* may be followed by raw frames */
} type_rules[FRAME_TYPE_COUNT] = {
    [0] = {"UNKNOWN", 0, false, false},
    [FRAME_CLIENT_HELLO] = {"CLIENT_HELLO", FRAME_CONTROL_BYTES_MAX, false, false},
    [FRAME_SUBMIT] = {"SUBMIT", FRAME_META_BYTES_MAX, true, true},
    [FRAME_CANCEL] = {"CANCEL", FRAME_META_BYTES_MAX, true, false},
    [FRAME_ACK] = {"ACK", FRAME_META_BYTES_MAX, false, false},
    [FRAME_CONTROL] = {"CONTROL", FRAME_CONTROL_BYTES_MAX, false, false},
    [FRAME_GOODBYE] = {"GOODBYE", FRAME_META_BYTES_MAX, false, false},
    [FRAME_RESULT] = {"RESULT", FRAME_META_BYTES_MAX, true, true},
    [FRAME_CONTROL_REPLY] = {"CONTROL_REPLY", FRAME_CONTROL_BYTES_MAX, false, false},
    [FRAME_WELCOME] = {"WELCOME", FRAME_CONTROL_BYTES_MAX, false, false},
    [FRAME_PING] = {"PING", FRAME_META_BYTES_MAX, false, false},
    [FRAME_PONG] = {"PONG", FRAME_META_BYTES_MAX, false, false},
    [FRAME_WORKER_HELLO] = {"WORKER_HELLO", FRAME_CONTROL_BYTES_MAX, false, false},
    [FRAME_WORKER_UPDATE] = {"WORKER_UPDATE", FRAME_CONTROL_BYTES_MAX, false, false},
    [FRAME_HEARTBEAT] = {"HEARTBEAT", FRAME_META_BYTES_MAX, false, false},
    [FRAME_DRAIN] = {"DRAIN", FRAME_META_BYTES_MAX, false, false},
    [FRAME_RESUME] = {"RESUME", FRAME_META_BYTES_MAX, false, false},
    [FRAME_ATTACH] = {"ATTACH", FRAME_META_BYTES_MAX, false, false},
    [FRAME_CHUNK] = {"CHUNK", FRAME_META_BYTES_MAX, true, true},
    [FRAME_CREDIT] = {"CREDIT", FRAME_META_BYTES_MAX, true, false},
    [FRAME_PACK] = {"PACK", FRAME_PACK_BYTES_MAX, false, false},
    [FRAME_NOTICE] = {"NOTICE", FRAME_META_BYTES_MAX, true, false},
    [FRAME_NEIGHBOUR] = {"NEIGHBOUR", FRAME_META_BYTES_MAX, false, false},
    [FRAME_HANDED] = {"HANDED", FRAME_META_BYTES_MAX, true, false},
};

const char *frame_type_name(uint8_t type)
{
    return type_rules[type < FRAME_TYPE_COUNT ? type : 0].name;
}

uint64_t frame_name_hash(const char *name)
{
    return name && *name ? XXH3_64bits(name, strlen(name)) : 0;
}

struct envelope envelope_make(enum frame_type type)
{
    return (struct envelope){.major = FRAME_VERSION_MAJOR, .minor = FRAME_VERSION_MINOR, .type = (uint8_t)type};
}

static void store_u16(uint8_t *bytes, uint16_t value)
{
    value = htole16(value);
    memcpy(bytes, &value, sizeof value);
}

static void store_u32(uint8_t *bytes, uint32_t value)
{
    value = htole32(value);
    memcpy(bytes, &value, sizeof value);
}

static void store_u64(uint8_t *bytes, uint64_t value)
{
    value = htole64(value);
    memcpy(bytes, &value, sizeof value);
}

static uint16_t load_u16(const uint8_t *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof value);
    return le16toh(value);
}

static uint32_t load_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return le32toh(value);
}

static uint64_t load_u64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return le64toh(value);
}

uint8_t *envelope_encode(const struct envelope *env, void *frame)
{
    uint8_t *bytes = frame;
    store_u16(bytes + AT_MAGIC, FRAME_MAGIC);
    bytes[AT_MAJOR] = env->major;
    bytes[AT_MINOR] = env->minor;
    bytes[AT_TYPE] = env->type;
    bytes[AT_HEADER_BYTES] = FRAME_ENVELOPE_BYTES;
    store_u16(bytes + AT_FLAGS, env->flags);
    store_u64(bytes + AT_CLIENT, env->job.client);
    store_u64(bytes + AT_SEQUENCE, env->job.sequence);
    memcpy(bytes + AT_DIGEST, env->digest.bytes, sizeof env->digest.bytes);
    store_u64(bytes + AT_MODEL_HASH, env->model_hash);
    store_u64(bytes + AT_SEQUENCE_ID, env->sequence_id);
    store_u64(bytes + AT_DEADLINE, env->deadline_us);
    store_u32(bytes + AT_TENANT_HASH, env->tenant_hash);
    bytes[AT_PRIORITY] = env->priority;
    bytes[AT_PRECISION] = env->precision;
    bytes[AT_STATUS] = env->status;
    bytes[AT_FRAMES] = env->frames;
    store_u32(bytes + AT_META_BYTES, env->meta_bytes);
    store_u32(bytes + AT_TRANSFER, env->transfer);
    return bytes + FRAME_ENVELOPE_BYTES;
}

const uint8_t *frame_meta(const void *frame)
{
    const uint8_t *bytes = frame;
    return bytes + bytes[AT_HEADER_BYTES];
}

uint8_t frame_type_of(const void *frame)
{
    return ((const uint8_t *)frame)[AT_TYPE];
}

uint64_t frame_deadline_us(const void *frame)
{
    return load_u64((const uint8_t *)frame + AT_DEADLINE);
}

uint8_t frame_priority(const void *frame)
{
    return ((const uint8_t *)frame)[AT_PRIORITY];
}

void frame_set_deadline_us(void *frame, uint64_t deadline_us)
{
    store_u64((uint8_t *)frame + AT_DEADLINE, deadline_us);
}

void frame_add_flags(void *frame, uint16_t flags)
{
    uint8_t *at = (uint8_t *)frame + AT_FLAGS;
    store_u16(at, load_u16(at) | flags);
}

void frame_set_transfer(void *frame, uint32_t number)
{
    uint8_t *bytes = frame;
    if (number != 0 && bytes[AT_MINOR] == 0)
        bytes[AT_MINOR] = FRAME_VERSION_MINOR;
    store_u32(bytes + AT_TRANSFER, number);
}

bool frame_is_sealed(const void *frame)
{
    const uint8_t *bytes = frame;
    return (load_u16(bytes + AT_FLAGS) & FRAME_FLAG_SEALED) != 0;
}

void frame_set_sealed(void *frame, uint32_t number)
{
    uint8_t *bytes = frame;
    uint16_t flags = load_u16(bytes + AT_FLAGS);
    store_u16(bytes + AT_FLAGS, (uint16_t)(number ? flags | FRAME_FLAG_SEALED : flags & ~FRAME_FLAG_SEALED));
    frame_set_transfer(frame, number);
}

static void envelope_load(const uint8_t *bytes, struct envelope *env)
{
    env->major = bytes[AT_MAJOR];
    env->minor = bytes[AT_MINOR];
    env->type = bytes[AT_TYPE];
    env->flags = load_u16(bytes + AT_FLAGS);
    env->job.client = load_u64(bytes + AT_CLIENT);
    env->job.sequence = load_u64(bytes + AT_SEQUENCE);
    memcpy(env->digest.bytes, bytes + AT_DIGEST, sizeof env->digest.bytes);
    env->model_hash = load_u64(bytes + AT_MODEL_HASH);
    env->sequence_id = load_u64(bytes + AT_SEQUENCE_ID);
    env->deadline_us = load_u64(bytes + AT_DEADLINE);
    env->tenant_hash = load_u32(bytes + AT_TENANT_HASH);
    env->priority = bytes[AT_PRIORITY];
    env->precision = bytes[AT_PRECISION];
    env->status = env->status_told = bytes[AT_STATUS];
    env->frames = bytes[AT_FRAMES];
    env->meta_bytes = load_u32(bytes + AT_META_BYTES);
    env->transfer = env->minor > 0 ? load_u32(bytes + AT_TRANSFER) : 0; /* in version 1.0 these bytes mean nothing */
}

/* True when a reader of this build can read the frame's 80 bytes as an envelope at all. */
static enum pen_status layout_check(const uint8_t *bytes, size_t size, struct pen_error *reterr)
{
    if (size < AT_TYPE || load_u16(bytes + AT_MAGIC) != FRAME_MAGIC)
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "a frame of %zu bytes does not begin with a Penstock envelope (no 'PK' at its start)",
                             size);
    if (bytes[AT_MAJOR] != FRAME_VERSION_MAJOR)
        return pen_error_set(reterr, PEN_ERR_VERSION,
                             "the peer speaks protocol %u.%u and this side %d.%d: only equal major versions understand "
                             "each other; update the older one",
                             bytes[AT_MAJOR], bytes[AT_MINOR], FRAME_VERSION_MAJOR, FRAME_VERSION_MINOR);
    if (size < FRAME_ENVELOPE_BYTES)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the header frame has %zu bytes, its envelope alone needs %u",
                             size, FRAME_ENVELOPE_BYTES);
    size_t header_bytes = bytes[AT_HEADER_BYTES];
    bool newer = bytes[AT_MINOR] > FRAME_VERSION_MINOR;
    if (header_bytes < FRAME_ENVELOPE_BYTES || (header_bytes > FRAME_ENVELOPE_BYTES && !newer))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the envelope claims %zu bytes, version %d.%u has %u",
                             header_bytes, FRAME_VERSION_MAJOR, bytes[AT_MINOR], FRAME_ENVELOPE_BYTES);
    return PEN_OK;
}

/* A value that this build does not know: from a peer of our version it is an error, from a newer one the message is
   skipped. */
static enum pen_status unknown_value(const struct envelope *env, const char *what, unsigned value,
                                     struct pen_error *reterr)
{
    if (env->minor > FRAME_VERSION_MINOR)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "protocol %d.%u has %s %u, which this side (%d.%d) does not know: skip it",
                             FRAME_VERSION_MAJOR, env->minor, what, value, FRAME_VERSION_MAJOR, FRAME_VERSION_MINOR);
    return pen_error_set(reterr, PEN_ERR_CORRUPT, "the envelope has the unknown %s %u", what, value);
}

static enum pen_status fields_check(struct envelope *env, struct pen_error *reterr)
{
    if (env->type == 0 || env->type >= FRAME_TYPE_COUNT)
        return unknown_value(env, "message type", env->type, reterr);
    const struct type_rule *rule = &type_rules[env->type];
    if (env->precision >= PRECISION_COUNT)
        return unknown_value(env, "precision class", env->precision, reterr);
    if (env->status >= PEN_STATUS_COUNT) /* still a failure, and its job needs an answer */
        env->status = PEN_ERR_INTERNAL;
    if (rule->names_job && (env->job.client == 0 || env->job.sequence == 0))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s needs a job id: client and sequence must not be 0",
                             rule->name);
    if (env->frames != 0 && !rule->carries_data)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s carries no tensors, but announces %u raw frames", rule->name,
                             env->frames);
    return PEN_OK;
}

static enum pen_status caps_check(const struct envelope *env, struct pen_error *reterr)
{
    const struct type_rule *rule = &type_rules[env->type];
    if (env->frames > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s announces %u raw frames, at most %u are allowed",
                             rule->name, env->frames, FRAME_MAX_TENSORS);
    if (env->meta_bytes > rule->meta_bytes_max)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s has a meta of %u bytes, at most %u are allowed", rule->name,
                             env->meta_bytes, rule->meta_bytes_max);
    return PEN_OK;
}

enum pen_status envelope_decode(const void *frame, size_t size, struct envelope *ret_env, const uint8_t **ret_meta,
                                struct pen_error *reterr)
{
    const uint8_t *bytes = frame;
    enum pen_status status = layout_check(bytes, size, reterr);
    if (status != PEN_OK)
        return status;
    struct envelope env;
    envelope_load(bytes, &env);
    status = fields_check(&env, reterr);
    if (status != PEN_OK)
        return status;
    size_t header_bytes = bytes[AT_HEADER_BYTES];
    if (size < header_bytes || size - header_bytes != env.meta_bytes)
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "%s has a header frame of %zu bytes, but envelope and meta fill %zu",
                             type_rules[env.type].name, size, header_bytes + env.meta_bytes);
    status = caps_check(&env, reterr);
    *ret_env = env;
    *ret_meta = bytes + header_bytes;
    return status;
}
