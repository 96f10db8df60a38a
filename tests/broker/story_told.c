#include "story.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "metrics_json.h"
#include "metrics_text.h"

#define LINE_BYTES 150u

/* ---- what was sent ------------------------------------------------------------------------------------------------------- */

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
            fprintf(to, " %s", story_flags[bit] ? story_flags[bit] : "?");
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
    const ProtobufCMessageDescriptor *type = story_meta(env.type);
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
void story_write_news(struct story *story)
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

void story_tell_metrics(struct story *story)
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
void story_tell_json(const struct story *story)
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
