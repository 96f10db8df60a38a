/*
 * The stories of stories/: what peers say to a broker, and each message that it sends, word by word. A line with `>` is said or done; the others are what
 * followed. PENSTOCK_ACCEPT=1 writes what follows now into the files: read the difference before it is committed.
 *
 *   > broker --busy-jobs 3                         its settings; the first line of a story, where they are not the defaults
 *   > use pool                                     the lines of stories/pool.let, which are `let`
 *   > let offer = name: "a" version: 1             $offer stands for that text from here on
 *   > client 1 SUBMIT job=17:1 deadline=50ms { model: "a" }      the envelope's fields, the meta, and raw=SIZE for each raw frame; `+` begins the next group
 *   > worker 901 RESULT job=17:1 { outputs { name: "y" } }
 *   > wait 50ms                                    who has said something says PONG now and then, so that nobody is given up
 *   > quiet worker 901                             it does so no more
 *   > lose worker 901                              its connection ends
 *   > user KEY                                     the key that clients come with
 *   > journal                                      detached jobs have a journal from here on
 *   > sync                                         what is to be written there is written
 *   > metrics                                      what /metrics says otherwise than the last time
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_handler.h"
#include "detached.h"
#include "desk.h"
#include "metrics_json.h"
#include "metrics_text.h"
#include "paper.h"
#include "story_text.h"
#include "worker_handler.h"

#define FOLDER     PENSTOCK_SOURCE "/tests/broker/stories/"
#define LINE_BYTES 150u
#define LETS_MAX   32u

struct story {
    struct desk *desk; /* NULL before the first message */
    struct paper *paper;
    struct journal *journal;
    struct settings_store *settings; /* texts that the broker's options point to; NULL = defaults */
    FILE *out;
    char *lets[LETS_MAX][2];
    size_t lets_count;
    bool long_wait; /* signs of life are counted, not written */
    unsigned signs;
    size_t told[2];       /* messages of the sides that are written */
    uint64_t own;         /* whose number the broker's own jobs have */
    uint32_t alive[2][8]; /* peers of workers, of clients, that show it while time passes */
    char *metrics;        /* of the last time */
};

/* ---- what was sent ------------------------------------------------------------------------------------------------------- */

static const ProtobufCMessageDescriptor *meta_of(uint8_t type)
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

static const char *const flags[16] = {"PARTIAL",        "DIGEST_FIRST", "NO_CACHE", "RESENT", "SHA256", "DIGEST",
                                      "DETACHED",       "FETCH",        "STORED",   "SEALED", NULL,     NULL,
                                      "SEQUENCE_START", "SEQUENCE_END", "ALONE",    NULL};

static void write_job(const struct story *story, FILE *to, struct job_id id)
{
    if (id.client >> 32 && id.client != UINT64_MAX)
        ((struct story *)(uintptr_t)story)->own = id.client;
    if (id.client >> 32)
        fprintf(to, " job=own:%" PRIu64, id.sequence);
    else if (id.client || id.sequence)
        fprintf(to, " job=%" PRIu64 ":%" PRIu64, id.client, id.sequence);
}

static void write_envelope(const struct story *story, FILE *to, const struct envelope *env)
{
    if (env->status)
        fprintf(to, " status=%s", pen_status_name((enum pen_status)env->status));
    write_job(story, to, env->job);
    for (unsigned bit = 0; bit < 16; bit++) {
        if (env->flags & 1u << bit)
            fprintf(to, " %s", flags[bit] ? flags[bit] : "?");
    }
    if (env->priority)
        fprintf(to, " priority=%u", env->priority);
    if (env->precision)
        fprintf(to, " precision=%u", env->precision);
    if (env->deadline_us)
        fprintf(to, " deadline=%" PRIu64 "us", env->deadline_us);
    if (env->offset)
        fprintf(to, " number=%" PRIu64, env->offset);
    if (env->transfer)
        fprintf(to, " transfer=%u", env->transfer);
}

static void write_group(const struct story *story, FILE *to, const struct sent *sent, size_t *at)
{
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&sent->frames[*at];
    if (envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, NULL) != PEN_OK)
        abort();
    fprintf(to, "%s", frame_type_name(env.type));
    write_envelope(story, to, &env);
    const ProtobufCMessageDescriptor *type = meta_of(env.type);
    ProtobufCMessage *message =
        type && env.meta_bytes ? protobuf_c_message_unpack(type, NULL, env.meta_bytes, meta) : NULL;
    if (message) {
        fputs(" {", to);
        story_print(to, message);
        fputs(" }", to);
        protobuf_c_message_free_unpacked(message, NULL);
    } else if (env.meta_bytes) {
        fprintf(to, " meta=%u", env.meta_bytes);
    }
    for (++*at; *at < sent->count && env.frames > 0; ++*at, env.frames--)
        fprintf(to, " raw=%zu", zmq_msg_size((zmq_msg_t *)(uintptr_t)&sent->frames[*at]));
}

/* A long text in lines, broken where a field begins. */
static void write_wrapped(FILE *to, const char *text)
{
    size_t room = LINE_BYTES;
    while (strlen(text) > room) {
        size_t cut = room;
        while (cut > 40 && text[cut] != ' ')
            cut--;
        if (cut <= 40)
            cut = strcspn(text + 41, " ") + 41; /* a field that is longer than a line */
        if (text[cut] == '\0')
            break;
        fprintf(to, "%.*s\n   ", (int)cut, text);
        text += cut;
        room = LINE_BYTES - 3;
    }
    fprintf(to, "%s\n", text);
}

static void write_sent(const struct story *story, const char *side, const struct sent *sent)
{
    char *text = NULL;
    size_t bytes, at = 0;
    FILE *line = open_memstream(&text, &bytes);
    uint64_t us = sent->at_us - 1000000u;
    fprintf(line, "%" PRIu64 ".%03" PRIu64 "ms %s %u ", us / 1000u, us % 1000u, side, sent->peer);
    while (at < sent->count) {
        if (at > 0)
            fputs(" + ", line);
        write_group(story, line, sent, &at);
    }
    fclose(line);
    write_wrapped(story->out, text);
    free(text);
}

static bool is_sign(const struct story *story, const struct sent *sent)
{
    return story->long_wait && (sent->env.type == FRAME_PING || sent->env.type == FRAME_HEARTBEAT);
}

/* What both sides got since the last time, in the order in which it was sent. */
static void write_news(struct story *story)
{
    struct side *sides[2] = {&story->desk->workers, &story->desk->clients};
    for (;;) {
        const struct sent *next[2];
        for (int i = 0; i < 2; i++)
            next[i] = story->told[i] < sides[i]->count ? sides[i]->sent[story->told[i]] : NULL;
        if (!next[0] && !next[1])
            break;
        int first = !next[0] || (next[1] && next[1]->number < next[0]->number);
        if (is_sign(story, next[first]))
            story->signs++;
        else
            write_sent(story, first ? "client" : "worker", next[first]);
        story->told[first]++;
    }
    if (story->signs > 0)
        fprintf(story->out, "%u signs of life\n", story->signs);
    story->signs = 0;
}

static uint64_t wall_us; /* of the calendar: it goes with the desk's clock */

static uint64_t wall(void)
{
    return wall_us;
}

/* ---- what is said -------------------------------------------------------------------------------------------------------- */

static _Noreturn void bad_line(const char *what, const char *line)
{
    fprintf(stderr, "story: %s in \"%.100s\"\n", what, line);
    abort();
}

static uint64_t read_time(const char *text)
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
    bad_line("no such type of frame", name);
}

static uint16_t flag_named(const char *name)
{
    for (unsigned bit = 0; bit < 16; bit++) {
        if (flags[bit] && strcmp(flags[bit], name) == 0)
            return (uint16_t)(1u << bit);
    }
    bad_line("no such flag", name);
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
        env->deadline_us = read_time(value);
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
        bad_line("no such field of the envelope", word);
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
        bad_line("the type of the frame is missing", text);
    struct envelope env = envelope_make((enum frame_type)type_named(word));
    ProtobufCMessage *meta = NULL;
    size_t raws[FRAME_MAX_TENSORS], raws_count = 0;
    for (text += taken; sscanf(text, " %63s%n", word, &taken) == 1 && strcmp(word, "+") != 0;) {
        if (word[0] == '{') {
            text = strchr(text, '{');
            meta = story_parse(meta_of(env.type), &text);
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

static void set_alive(struct story *story, bool worker, uint32_t peer, bool alive)
{
    for (size_t i = 0; i < 8; i++) {
        uint32_t *place = &story->alive[!worker][i];
        if (*place == peer || (*place == 0 && alive)) {
            *place = alive ? peer : 0;
            return;
        }
    }
}

static void say(struct story *story, bool worker, const char *text)
{
    struct message message = {.count = 0};
    char *rest;
    message.peer = (uint32_t)strtoul(text, &rest, 10);
    if (strstr(text, "_HELLO ") || strstr(text, "GOODBYE"))
        set_alive(story, worker, message.peer, !strstr(text, "GOODBYE"));
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

static void pass_time(struct story *story, uint64_t us)
{
    story->long_wait = us >= LONG_US;
    for (uint64_t step; us > 0; us -= step) {
        step = us < LIFE_US ? us : LIFE_US;
        desk_wait(story->desk, step);
        wall_us += step;
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

static void lose(struct story *story, const char *text)
{
    char side[16];
    unsigned peer;
    if (sscanf(text, "%15s %u", side, &peer) != 2)
        bad_line("lose SIDE PEER", text);
    set_alive(story, strcmp(side, "worker") == 0, peer, false);
    if (strcmp(side, "worker") == 0) {
        side_lose(&story->desk->workers, peer);
        broker_hint_workers(&story->desk->broker, 33);
    } else {
        side_lose(&story->desk->clients, peer);
        broker_hint_clients(&story->desk->broker, 34);
    }
    desk_run(story->desk);
}

/* ---- what /metrics says ---------------------------------------------------------------------------------------------------- */

static bool metric_varies(const char *line)
{
    static const char *const names[] = {"penstock_build_info", "process_", "penstock_resident",
                                        "penstock_broker_resident"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(line, names[i], strlen(names[i])) == 0)
            return true;
    }
    const char *end = strchr(line, '\n'), *bucket = strstr(line, "_bucket{");
    return line[0] == '#' || (bucket && bucket < end);
}

/* Whether the text has this line. */
static bool has_line(const char *text, const char *line, size_t bytes)
{
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        if (strncmp(at, line, bytes) == 0 && at[bytes] == '\n')
            return true;
    }
    return false;
}

static void tell_metrics(struct story *story)
{
    struct snapshot *snapshot = snapshot_take(&story->desk->broker);
    struct writer writer = {.text = NULL};
    metrics_text(snapshot, &writer);
    char *text = strndup(writer.text, writer.used);
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        size_t bytes = (size_t)(end - line);
        bool zero = bytes > 2 && strncmp(end - 2, " 0", 2) == 0;
        if (!metric_varies(line) && (story->metrics ? !has_line(story->metrics, line, bytes) : !zero))
            fprintf(story->out, "%.*s\n", (int)bytes, line);
    }
    free(story->metrics);
    story->metrics = text;
    writer_fini(&writer);
    snapshot_free(snapshot);
}

/* What differs from run to run becomes `?`. */
static void mask(char *text, const char *key, const char *of)
{
    for (char *at = text; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        size_t bytes = strspn(at, of);
        if (bytes == 0)
            continue;
        *at = '?';
        memmove(at + 1, at + bytes, strlen(at + bytes) + 1);
    }
}

/* The drawn half of the ids of the broker's own jobs. */
static void mask_own(const struct story *story, char *text)
{
    char own[17];
    snprintf(own, sizeof own, "%016" PRIx64, story->own);
    for (char *at = text; (at = strstr(at, own)) != NULL;) {
        memcpy(at, "own", 3);
        memmove(at + 3, at + 16, strlen(at + 16) + 1);
    }
}

/* What the dashboard reads, broken where a field begins. */
static void tell_json(const struct story *story)
{
    struct snapshot *snapshot = snapshot_take(&story->desk->broker);
    struct writer writer = {.text = NULL};
    metrics_json(snapshot, &writer);
    char *text = strndup(writer.text, writer.used);
    mask(text, "\"rss_bytes\":", "0123456789");
    mask_own(story, text);
    mask(text, "\"software\":\"penstock ", "0123456789.");
    for (char *at = text; (at = strstr(at, ",\"")) != NULL; at++)
        *at = ' ';
    write_wrapped(story->out, text);
    free(text);
    writer_fini(&writer);
    snapshot_free(snapshot);
}

/* ---- a story ------------------------------------------------------------------------------------------------------------- */

static void let(struct story *story, const char *text)
{
    const char *equals = strstr(text, " = ");
    if (!equals || story->lets_count == LETS_MAX)
        bad_line("let NAME = TEXT", text);
    story->lets[story->lets_count][0] = strndup(text, (size_t)(equals - text));
    story->lets[story->lets_count++][1] = strdup(equals + 3);
}

static void open_broker(struct story *story, const char *arguments)
{
    char *words[64] = {"penstock-broker"}, *copy = strdup(arguments), *rest = copy;
    int count = 1;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[count++] = word;
    story->desk = desk_new();
    if (count > 1) {
        enum settings_outcome outcome;
        struct pen_error error = {.status = PEN_OK};
        if (options_load(count, words, &story->desk->options, &outcome, &story->settings, &error) != PEN_OK)
            bad_line(error.text, arguments);
        story->desk->options.cache.namespace = "test";
    }
    free(copy);
    desk_open(story->desk);
    story->desk->broker.uuid = 0xb0b; /* else it is drawn */
    story->own = 1;
}

/* The line with $NAME put in; free it. */
static char *filled(const struct story *story, const char *line)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    while (*line) {
        size_t longest = 0, which = 0;
        for (size_t i = 0; *line == '$' && i < story->lets_count; i++) {
            size_t length = strlen(story->lets[i][0]);
            if (length > longest && strncmp(line + 1, story->lets[i][0], length) == 0) {
                longest = length;
                which = i;
            }
        }
        if (longest) {
            fputs(story->lets[which][1], to);
            line += 1 + longest;
        } else {
            fputc(*line++, to);
        }
    }
    fclose(to);
    return text;
}

static char *read_file(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    ssize_t length = getdelim(&text, &bytes, '\0', file);
    fclose(file);
    cr_assert_gt(length, 0, "%s is empty", path);
    return text;
}

/* The file's lines are `let` without the word. */
static void use(struct story *story, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s.let", name);
    char *text = read_file(path), *rest = text;
    for (char *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        char *whole = filled(story, line);
        let(story, whole);
        free(whole);
    }
    free(text);
}

static void begin_journal(struct story *story)
{
    story->paper = paper_new();
    cr_assert_eq(journal_open_file(&story->paper->file, 0, 1 << 20, &story->journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&story->desk->broker, story->journal, story->paper->bytes, 0), PEN_OK);
    detached_clock(story->desk->broker.detached, wall);
}

static void sync_journal(const struct story *story)
{
    journal_work(story->journal);
    desk_run(story->desk);
}

static void act(struct story *story, const char *line)
{
    if (!story->desk && strncmp(line, "let ", 4) != 0 && strncmp(line, "use ", 4) != 0)
        open_broker(story, strncmp(line, "broker ", 7) == 0 ? line + 7 : "");
    if (story->desk)
        wall_us = 1800000000000000u + story->desk->broker.clock();
    if (strncmp(line, "let ", 4) == 0)
        let(story, line + 4);
    else if (strncmp(line, "use ", 4) == 0)
        use(story, line + 4);
    else if (strncmp(line, "client ", 7) == 0)
        say(story, false, line + 7);
    else if (strncmp(line, "worker ", 7) == 0)
        say(story, true, line + 7);
    else if (strncmp(line, "wait ", 5) == 0)
        pass_time(story, read_time(line + 5));
    else if (strncmp(line, "quiet ", 6) == 0)
        set_alive(story, line[6] == 'w', (uint32_t)strtoul(strpbrk(line, "0123456789"), NULL, 10), false);
    else if (strncmp(line, "lose ", 5) == 0)
        lose(story, line + 5);
    else if (strncmp(line, "user ", 5) == 0)
        story->desk->user = strdup(line + 5);
    else if (strcmp(line, "json") == 0)
        tell_json(story);
    else if (strcmp(line, "journal") == 0)
        begin_journal(story);
    else if (strcmp(line, "sync") == 0)
        sync_journal(story);
    else if (strcmp(line, "metrics") == 0)
        tell_metrics(story);
    else if (strncmp(line, "broker ", 7) != 0)
        bad_line("nothing that a story knows", line);
    if (story->desk)
        write_news(story);
    story->long_wait = false;
}

/* What the story says now; free it. */
static char *play(const char *text)
{
    struct story story = {.desk = NULL};
    char *played = NULL;
    size_t bytes;
    story.out = open_memstream(&played, &bytes);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        int length = (int)strcspn(line, "\n");
        if (*line != '>' && *line != '#' && length > 0)
            continue; /* what followed the last time */
        fprintf(story.out, "%.*s\n", length, line);
        if (*line == '>') {
            char *said = strndup(line + 2, (size_t)(length > 2 ? length - 2 : 0)), *whole = filled(&story, said);
            act(&story, whole);
            free(whole);
            free(said);
        }
    }
    if (story.desk) {
        free((char *)(uintptr_t)story.desk->user);
        desk_free(story.desk);
        settings_free(story.settings);
        free(story.paper);
    }
    fclose(story.out);
    for (size_t i = 0; i < story.lets_count; i++) {
        free(story.lets[i][0]);
        free(story.lets[i][1]);
    }
    free(story.metrics);
    return played;
}

/* ---- the test -------------------------------------------------------------------------------------------------------------- */

static int is_story(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0;
}

/* Where two texts part: the number of the line, and the lines. */
static void tell_difference(const char *name, const char *want, const char *got)
{
    size_t line = 1;
    while (*want && *got) {
        size_t a = strcspn(want, "\n"), b = strcspn(got, "\n");
        if (a != b || strncmp(want, got, a) != 0)
            break;
        line++;
        want += a + (want[a] == '\n');
        got += b + (got[b] == '\n');
    }
    cr_expect_fail("stories/%s:%zu is told otherwise (PENSTOCK_ACCEPT=1 takes it)\n- %.*s\n+ %.*s", name, line,
                   (int)strcspn(want, "\n"), want, (int)strcspn(got, "\n"), got);
}

static void check_story(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s", name);
    char *want = read_file(path), *got = play(want);
    if (getenv("PENSTOCK_ACCEPT")) {
        FILE *file = fopen(path, "w");
        cr_assert(file && fputs(got, file) >= 0 && fclose(file) == 0);
    } else if (strcmp(want, got) != 0) {
        tell_difference(name, want, got);
    }
    free(want);
    free(got);
}

Test(stories, each_is_told_word_by_word)
{
    struct dirent **entries;
    int count = scandir(FOLDER, &entries, is_story, alphasort);
    cr_assert_gt(count, 0, "%s has no stories", FOLDER);
    for (int i = 0; i < count; i++) {
        check_story(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}
