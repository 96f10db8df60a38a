#include "story.h"

#include <stdlib.h>
#include <string.h>

#include "client_handler.h"
#include "departure.h"
#include "worker_handler.h"

uint64_t story_wall_us;

const ProtobufCMessageDescriptor *story_meta(uint8_t type)
{
    switch (type) {
    case FRAME_CLIENT_HELLO:
        return &penstock__client_hello__descriptor;
    case FRAME_SUBMIT:
        return &penstock__job_meta__descriptor;
    case FRAME_CONTROL:
        return &penstock__control_request__descriptor;
    case FRAME_RESULT:
        return &penstock__result_meta__descriptor;
    case FRAME_CONTROL_REPLY:
        return &penstock__control_reply__descriptor;
    case FRAME_WELCOME:
        return &penstock__welcome__descriptor;
    case FRAME_WORKER_HELLO:
        return &penstock__worker_hello__descriptor;
    case FRAME_WORKER_UPDATE:
        return &penstock__worker_update__descriptor;
    case FRAME_HEARTBEAT:
        return &penstock__heartbeat__descriptor;
    case FRAME_RESUME:
        return &penstock__resume__descriptor;
    case FRAME_NOTICE:
        return &penstock__job_notice__descriptor;
    case FRAME_NEIGHBOUR:
        return &penstock__neighbour_state__descriptor;
    default:
        return NULL;
    }
}

const char *const story_flags[16] = {"PARTIAL",        "DIGEST_FIRST", "NO_CACHE", "RESENT", "SHA256", "DIGEST",
                                     "DETACHED",       "FETCH",        "STORED",   "SEALED", NULL,     NULL,
                                     "SEQUENCE_START", "SEQUENCE_END", "ALONE",    NULL};

_Noreturn void story_bad(const char *what, const char *line)
{
    fprintf(stderr, "story: %s in \"%.100s\"\n", what, line);
    abort();
}

uint64_t story_read_time(const char *text)
{
    char *unit;
    double value = strtod(text, &unit);
    return (uint64_t)(value * (strncmp(unit, "ms", 2) == 0 ? 1e3 : strncmp(unit, "us", 2) == 0 ? 1 : 1e6));
}

static uint8_t type_named(const char *name)
{
    for (uint8_t type = 1; type < FRAME_TYPE_COUNT; type++) {
        if (strcmp(frame_type_name(type), name) == 0)
            return type;
    }
    story_bad("no such type of frame", name);
}

static uint16_t flag_named(const char *name)
{
    for (unsigned bit = 0; bit < 16; bit++) {
        if (story_flags[bit] && strcmp(story_flags[bit], name) == 0)
            return (uint16_t)(1u << bit);
    }
    story_bad("no such flag", name);
}

static void read_word(const struct story *story, struct envelope *env, const char *word)
{
    const char *value = strchr(word, '=');
    value = value ? value + 1 : NULL;
    if (!value) {
        env->flags |= flag_named(word);
    } else if (strncmp(word, "job=", 4) == 0) {
        const char *sequence = strchr(value, ':');
        env->job.client = strncmp(value, "own", 3) == 0 ? story->own : strtoull(value, NULL, 0);
        env->job.sequence = sequence ? strtoull(sequence + 1, NULL, 0) : 0;
    } else if (strncmp(word, "status=", 7) == 0) {
        while (env->status < PEN_STATUS_COUNT && strcmp(pen_status_name((enum pen_status)env->status), value) != 0)
            env->status++;
    } else if (strncmp(word, "deadline=", 9) == 0) {
        env->deadline_us = story_read_time(value);
    } else if (strncmp(word, "priority=", 9) == 0) {
        env->priority = (uint8_t)strtoul(value, NULL, 0);
    } else if (strncmp(word, "precision=", 10) == 0) {
        env->precision = (uint8_t)strtoul(value, NULL, 0);
    } else if (strncmp(word, "number=", 7) == 0) {
        env->offset = strtoull(value, NULL, 0);
    } else if (strncmp(word, "transfer=", 9) == 0) {
        env->transfer = (uint32_t)strtoul(value, NULL, 0);
    } else if (strncmp(word, "frames=", 7) == 0) {
        env->frames = (uint8_t)strtoul(value, NULL, 0); /* announced, not sent with it */
    } else if (strncmp(word, "digest=", 7) == 0) {
        env->flags |= FRAME_FLAG_DIGEST;
        memset(env->digest.bytes, (int)strtoul(value, NULL, 16), sizeof env->digest.bytes);
    } else {
        story_bad("no such field of the envelope", word);
    }
}

static void add(struct message *message, const void *bytes, size_t size)
{
    zmq_msg_t frame;
    zmq_msg_init_size(&frame, size);
    if (bytes)
        memcpy(zmq_msg_data(&frame), bytes, size);
    else
        memset(zmq_msg_data(&frame), 7, size);
    message_add(message, &frame);
}

/* One group: TYPE WORDS { META } raw=SIZE ... */
static const char *read_group(const struct story *story, const char *text, struct message *message)
{
    char word[64];
    int taken = 0;
    static uint8_t head[FRAME_ENVELOPE_BYTES + FRAME_CONTROL_BYTES_MAX];
    if (sscanf(text, "%63s%n", word, &taken) != 1)
        story_bad("the type of the frame is missing", text);
    struct envelope env = envelope_make((enum frame_type)type_named(word));
    ProtobufCMessage *meta = NULL;
    size_t raws[FRAME_MAX_TENSORS], raws_count = 0;
    for (text += taken; sscanf(text, " %63s%n", word, &taken) == 1 && strcmp(word, "+") != 0;) {
        if (word[0] == '{') {
            text = strchr(text, '{');
            meta = story_parse(story_meta(env.type), &text);
            continue;
        }
        if (strncmp(word, "raw=", 4) == 0)
            raws[raws_count++] = strtoul(word + 4, NULL, 0);
        else
            read_word(story, &env, word);
        text += taken;
    }
    if (meta) {
        env.meta_bytes = (uint32_t)protobuf_c_message_get_packed_size(meta);
        protobuf_c_message_pack(meta, head + FRAME_ENVELOPE_BYTES);
        if (env.type == FRAME_SUBMIT)
            env.model_hash = frame_name_hash(((Penstock__JobMeta *)(void *)meta)->model);
        protobuf_c_message_free_unpacked(meta, NULL);
    }
    env.frames = raws_count ? (uint8_t)raws_count : env.frames;
    envelope_encode(&env, head);
    add(message, head, FRAME_ENVELOPE_BYTES + env.meta_bytes);
    for (size_t i = 0; i < raws_count; i++)
        add(message, NULL, raws[i]);
    return text;
}

void story_set_alive(struct story *story, bool worker, uint32_t peer, bool alive)
{
    for (size_t i = 0; i < 8; i++) {
        uint32_t *place = &story->alive[!worker][i];
        if (*place == peer || (*place == 0 && alive)) {
            *place = alive ? peer : 0;
            return;
        }
    }
}

void story_say(struct story *story, bool worker, const char *text)
{
    struct message message = {.count = 0};
    char *rest;
    message.peer = (uint32_t)strtoul(text, &rest, 10);
    if (strstr(text, "_HELLO ") || strstr(text, "GOODBYE"))
        story_set_alive(story, worker, message.peer, !strstr(text, "GOODBYE"));
    const char *plus = read_group(story, rest, &message);
    while ((plus = strchr(plus, '+')) != NULL)
        plus = read_group(story, plus + 1, &message);
    if (worker) {
        worker_message(&story->desk->broker, &message);
    } else {
        message.user = story->desk->user;
        client_message(&story->desk->broker, &message);
    }
    message_fini(&message);
    desk_run(story->desk);
}

#define LIFE_US 500000u
#define LONG_US 2000000u

void story_pass_time(struct story *story, uint64_t us)
{
    story->long_wait = us >= LONG_US;
    for (uint64_t step; us > 0; us -= step) {
        step = us < LIFE_US ? us : LIFE_US;
        desk_wait(story->desk, step);
        story_wall_us += step;
        for (size_t i = 0; step == LIFE_US && i < 16; i++) {
            uint32_t peer = story->alive[i / 8][i % 8];
            struct envelope env = envelope_make(FRAME_PONG);
            if (peer && i < 8)
                desk_say_worker(story->desk, peer, env, NULL, 0);
            else if (peer)
                desk_say_client(story->desk, peer, env, NULL, 0, 0);
        }
    }
}

void story_lose(struct story *story, const char *text)
{
    char side[16];
    unsigned peer;
    if (sscanf(text, "%15s %u", side, &peer) != 2)
        story_bad("lose SIDE PEER", text);
    story_set_alive(story, strcmp(side, "worker") == 0, peer, false);
    if (strcmp(side, "worker") == 0) {
        side_lose(&story->desk->workers, peer);
        broker_hint_workers(&story->desk->broker, 33);
    } else {
        side_lose(&story->desk->clients, peer);
        broker_hint_clients(&story->desk->broker, 34);
    }
    desk_run(story->desk);
}
