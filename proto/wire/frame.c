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
};

static const struct type_rule {
    const char *name;
    uint32_t meta_bytes_max;
    bool names_job;    /* carries a job id */
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
};

static const char *const precision_names[PRECISION_COUNT] = {
    [PRECISION_ANY] = "any",         [PRECISION_F32] = "f32",           [PRECISION_F16_STORAGE] = "f16_storage",
    [PRECISION_F16_MMA] = "f16_mma", [PRECISION_F16_MATH] = "f16_math", [PRECISION_BF16] = "bf16",
    [PRECISION_INT8] = "int8",
};

const char *precision_name(enum precision precision)
{
    return (unsigned)precision < PRECISION_COUNT ? precision_names[precision] : "unknown";
}

int precision_parse(const char *name, enum precision *ret)
{
    for (unsigned i = 0; name && i < PRECISION_COUNT; i++) {
        if (strcmp(name, precision_names[i]) == 0) {
            *ret = (enum precision)i;
            return 0;
        }
    }
    return -1;
}

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

void envelope_encode(const struct envelope *env, uint8_t *bytes)
{
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
    env->transfer = env->minor > 0 ? load_u32(bytes + AT_TRANSFER) : 0; /* 1.0 says nothing here */
}

/* Whether a reader of this build can lay its 80 bytes over the frame at all. */
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

/* What this build has no number for: a defect from a peer of our version, to be skipped from a newer one. */
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
    if (env->status >= PEN_STATUS_COUNT) /* a failure all the same, and its job still wants an answer */
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
