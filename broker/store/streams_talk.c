#include "streams_talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "redis_mail.h"
#include "words.h"

#define ANSWER_TIMEOUT_US 2000000u              /* appendfsync always on a busy disk */
#define TAKE_BYTES        (64u * 1024u * 1024u) /* bytes of requests in one take; then it stops */

/* ---- a command ---- */

struct words {
    const char **text;
    size_t *bytes;
    size_t count, room;
    char numbers[6][24];
    size_t numbers_count;
};

static bool words_init(struct words *words, size_t room)
{
    *words = (struct words){.room = room};
    words->text = calloc(room, sizeof *words->text);
    words->bytes = calloc(room, sizeof *words->bytes);
    return words->text && words->bytes;
}

static void words_fini(struct words *words)
{
    free(words->text);
    free(words->bytes);
}

static void add_bytes(struct words *words, const void *text, size_t bytes)
{
    PEN_ASSERT(words->count < words->room, "a command has room for its words");
    words->text[words->count] = text;
    words->bytes[words->count++] = bytes;
}

static void add(struct words *words, const char *text)
{
    add_bytes(words, text, strlen(text));
}

static void add_number(struct words *words, uint64_t number)
{
    PEN_ASSERT(words->numbers_count < sizeof words->numbers / sizeof words->numbers[0],
               "a command has room for its numbers");
    char *text = words->numbers[words->numbers_count++];
    snprintf(text, sizeof words->numbers[0], "%" PRIu64, number);
    add(words, text);
}

/* EVALSHA with the prefix as its one key. */
static void add_plan(struct words *words, const struct talk *talk, enum stream_script plan)
{
    add(words, "EVALSHA");
    add(words, talk->sha[plan]);
    add(words, "1");
    add(words, talk->prefix);
}

/* Each item of the list is followed by '\n'. */
static size_t list_count(const char *list)
{
    size_t count = 0;
    for (; list && *list; list++)
        count += *list == '\n';
    return count;
}

static void add_list(struct words *words, const char *list)
{
    while (list && *list) {
        size_t length = strcspn(list, "\n");
        add_bytes(words, list, length);
        list += length + 1;
    }
}

static bool send_words(struct talk *talk, struct words *words)
{
    return redisAppendCommandArgv(talk->redis, (int)words->count, words->text, words->bytes) == REDIS_OK;
}

/* ---- questions ---- */

static void add_accept(struct words *words, const struct talk *talk, const struct note *note, const char *label,
                       const uint8_t *value, size_t bytes)
{
    const struct streams_options *options = &talk->streams->options;
    add(words, label);
    add(words, words_or_dash(note->owner.key));
    add(words, note->model);
    add_number(words, note->ttl_us / 1000 + 1);
    add_bytes(words, value, bytes);
    add_number(words, options->jobs_max);
    add_number(words, options->bytes_max);
    add_number(words, note->quota_bytes);
}

static void add_cancel(struct words *words, const struct note *note, const uint8_t *value, size_t bytes)
{
    add(words, note->owner.tenant);
    add(words, words_or_dash(note->owner.key));
    add(words, words_or_dash(note->owner.lock));
    add(words, note->admin ? "1" : "0");
    add_bytes(words, value, bytes);
}

static const enum stream_script plans[] = {
    [NOTE_ACCEPT] = SCRIPT_ACCEPT, [NOTE_DONE] = SCRIPT_DONE,     [NOTE_BACK] = SCRIPT_BACK,
    [NOTE_FETCH] = SCRIPT_FETCH,   [NOTE_CANCEL] = SCRIPT_CANCEL, [NOTE_RENEW] = SCRIPT_RENEW};

static bool fail(struct note *note, const char *text)
{
    note->answer = ANSWER_ERROR;
    snprintf(note->text, sizeof note->text, "%s", text);
    return false;
}

bool talk_ask(struct talk *talk, struct note *note)
{
    struct words words;
    char id[JOB_ID_TEXT_BYTES], label[OWNER_TEXT_BYTES];
    size_t bytes = 0;
    uint8_t *value = note->shared ? value_encode(note->shared, &bytes) : NULL;
    bool sent = words_init(&words, 16 + list_count(note->list)) && (value || !note->shared);
    if (sent) {
        add_plan(&words, talk, plans[note->kind]);
        if (note->kind == NOTE_DONE || note->kind == NOTE_BACK || note->kind == NOTE_RENEW)
            add(&words, talk->me);
        if (note->kind == NOTE_RENEW)
            add_list(&words, note->list);
        else
            add(&words, job_id_text(note->id, id));
        owner_text(&note->owner, label);
        if (note->kind == NOTE_ACCEPT)
            add_accept(&words, talk, note, label, value, bytes);
        else if (note->kind == NOTE_DONE)
            add_bytes(&words, value, bytes);
        else if (note->kind == NOTE_FETCH)
            add(&words, note->owner.tenant);
        else if (note->kind == NOTE_CANCEL)
            add_cancel(&words, note, value, bytes);
        sent = send_words(talk, &words);
        talk->wrote |= sent && (note->kind == NOTE_ACCEPT || note->kind == NOTE_DONE || note->kind == NOTE_CANCEL);
    }
    words_fini(&words);
    free(value);
    return sent || fail(note, "no memory for a command to Redis");
}

/* ---- answers ---- */

static void put_id(struct talk *talk, enum note_kind kind, const char *text)
{
    struct job_id id;
    struct note *note = job_id_parse(text, &id) == 0 ? note_new(kind, id) : NULL;
    if (note)
        box_put(&talk->streams->out, note);
}

static void read_word(struct note *note, const char *word)
{
    static const struct {
        const char *word;
        enum note_answer answer;
        const char *text;
    } rows[] = {
        {"ok", ANSWER_OK, ""},
        {"known", ANSWER_KNOWN, ""},
        {"none", ANSWER_NONE, ""},
        {"ended", ANSWER_ENDED, ""},
        {"denied", ANSWER_DENIED, ""},
        {"full", ANSWER_FULL, "Redis keeps as many detached jobs as it may"},
        {"bytes", ANSWER_FULL, "the detached jobs in Redis have as many bytes as they may (--detached-bytes)"},
        {"large", ANSWER_LARGE, "the job has more bytes than all detached jobs in Redis may have (--detached-bytes)"},
        {"quota", ANSWER_FULL, "this key's detached jobs have as many bytes as its quota allows"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(word, rows[i].word) == 0) {
            note->answer = rows[i].answer;
            snprintf(note->text, sizeof note->text, "%s", rows[i].text);
            return;
        }
    }
    fail(note, "Redis gave an answer that no script of ours gives");
}

static void read_fetched(struct note *note, redisReply *const *item, size_t count)
{
    if (count != 5 || item[0]->type != REDIS_REPLY_STRING) {
        note->answer = ANSWER_NONE;
        return;
    }
    note->attempts = (uint32_t)item[2]->integer;
    note->age_us = (uint64_t)item[3]->integer * 1000u;
    note->ttl_us = (uint64_t)item[4]->integer * 1000u;
    if (strcmp(item[0]->str, "done") == 0 && item[1]->type == REDIS_REPLY_STRING) {
        note->shared = value_decode((const uint8_t *)item[1]->str, item[1]->len);
        /* A request or reply contains the id of its job: one with another job's id is ignored. */
        bool own = note->shared && shared_message_is_of(note->shared, note->id);
        note->answer = own ? ANSWER_OK : ANSWER_ERROR;
        if (own)
            return;
        note->broken = true;
        fail(note, note->shared ? "what Redis keeps as the job's result is another job's; submit it again"
                                : "the job's result in Redis is broken; submit it again");
        shared_message_release(note->shared);
        note->shared = NULL;
    } else {
        note->answer = ANSWER_PENDING;
        snprintf(note->state, sizeof note->state, "%.15s", item[1]->str ? item[1]->str : "");
    }
}

static void read_lost(struct talk *talk, struct note *note, const redisReply *reply)
{
    note->answer = ANSWER_OK;
    for (size_t i = 0; i < reply->elements; i++)
        put_id(talk, NOTE_LOST, reply->element[i]->str);
}

static void read_reply(struct talk *talk, struct note *note, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        fail(note, reply->str);
    else if (note->kind == NOTE_RENEW)
        read_lost(talk, note, reply);
    else if (reply->type == REDIS_REPLY_ARRAY)
        read_fetched(note, reply->element, reply->elements);
    else
        read_word(note, reply->str ? reply->str : "");
}

/*
 * A restarted or flushed Redis has lost the scripts: the connection is made anew and loads them. A Redis that has
 * become a replica, or whose disk is full, refuses to write: it counts as gone until it writes again. A node of a
 * cluster whose slot has moved, or is on its way to another node, says so: the right node is looked for, again and
 * again until the slot has arrived. In these cases Redis has done nothing of what was asked.
 */
static bool usable(struct talk *talk, const redisReply *reply)
{
    static const char *const errors[] = {"NOSCRIPT", "LOADING",  "READONLY",    "MISCONF",    "MOVED",
                                         "ASK",      "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS"};
    for (size_t i = 0; reply->type == REDIS_REPLY_ERROR && i < sizeof errors / sizeof *errors; i++) {
        if (strncmp(reply->str, errors[i], strlen(errors[i])) == 0) {
            snprintf(talk->reason, sizeof talk->reason, "%.150s", reply->str);
            return false;
        }
    }
    return true;
}

static redisReply *next_reply(struct talk *talk)
{
    void *reply = NULL;
    if (redisGetReply(talk->redis, &reply) != REDIS_OK || !reply) {
        snprintf(talk->reason, sizeof talk->reason, "%.150s", redis_reason(talk->redis));
        return NULL;
    }
    return reply;
}

bool talk_answer(struct talk *talk, struct note *note)
{
    redisReply *reply = next_reply(talk);
    PEN_ASSERT(note->kind <= NOTE_RENEW, "Redis answers questions, and nothing else");
    if (!reply)
        return false;
    shared_message_release(note->shared);
    note->shared = NULL;
    if (usable(talk, reply)) {
        read_reply(talk, note, reply);
    } else {
        note->answer = ANSWER_DOWN;
        talk->refused = true;
    }
    freeReplyObject(reply);
    return true;
}

/* ---- taking ---- */

static void put_taken(struct talk *talk, const redisReply *row)
{
    struct job_id id;
    if (row->type != REDIS_REPLY_ARRAY || row->elements != 5 || job_id_parse(row->element[0]->str, &id) != 0)
        return;
    struct note *note = note_new(NOTE_TAKEN, id);
    if (!note)
        return; /* its lease ends by itself, and another broker takes it */
    note->shared = value_decode((const uint8_t *)row->element[2]->str, row->element[2]->len);
    note->attempts = (uint32_t)row->element[3]->integer;
    note->ttl_us = (uint64_t)row->element[4]->integer * 1000u;
    if (owner_read(row->element[1]->str, &note->owner))
        box_put(&talk->streams->out, note); /* without a message: the request cannot be read; the client is told */
    else
        note_free(note);
}

bool talk_take(struct talk *talk, const char *models, uint32_t count, bool claim, uint32_t *ret_taken)
{
    struct words words;
    redisReply *reply = NULL;
    if (words_init(&words, 16 + list_count(models))) {
        add_plan(&words, talk, SCRIPT_TAKE);
        add(&words, talk->me);
        add_number(&words, talk->streams->options.lease_us / 1000);
        add_number(&words, count);
        add_number(&words, TAKE_BYTES);
        add(&words, claim ? "1" : "0");
        add_list(&words, models);
        if (send_words(talk, &words))
            reply = next_reply(talk);
    }
    words_fini(&words);
    *ret_taken = 0;
    if (!reply)
        return false;
    if (!usable(talk, reply)) {
        freeReplyObject(reply);
        return false;
    }
    if (reply->type == REDIS_REPLY_ERROR)
        snprintf(talk->reason, sizeof talk->reason, "%.150s", reply->str);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        put_taken(talk, reply->element[i]);
        ++*ret_taken;
    }
    freeReplyObject(reply);
    return true;
}

bool talk_listen(struct talk *talk, bool *ret_waits)
{
    void *reply = NULL;
    if (redisBufferRead(talk->bell) != REDIS_OK)
        return false;
    while (redisGetReplyFromReader(talk->bell, &reply) == REDIS_OK && reply) {
        const redisReply *told = reply;
        const char *text = told->type == REDIS_REPLY_ARRAY && told->elements == 3 ? told->element[2]->str : NULL;
        if (text && text[0] == '+')
            *ret_waits = true;
        else if (text && text[0] == '-')
            put_id(talk, NOTE_BELL, text + 1);
        freeReplyObject(reply);
        reply = NULL;
    }
    return true;
}

/* ---- connections ---- */

static bool expect(struct talk *talk, redisContext *redis, redisReply *reply, int type)
{
    return redis_expect(redis, reply, type, talk->reason, sizeof talk->reason);
}

bool talk_replicated(struct talk *talk)
{
    int replicas = redis_place_replicas(&talk->streams->options.place);
    bool wrote = talk->wrote;
    talk->wrote = false;
    return !wrote || replicas == 0 || redis_replicated(talk->redis, replicas, talk->reason, sizeof talk->reason);
}

static bool load_scripts(struct talk *talk)
{
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        char text[6144];
        int bytes = snprintf(text, sizeof text, "%s%s", script_prelude, script_texts[i]);
        redisReply *reply = redisCommand(talk->redis, "SCRIPT LOAD %b", text, (size_t)bytes);
        if (reply && reply->type == REDIS_REPLY_STRING)
            snprintf(talk->sha[i], sizeof talk->sha[i], "%.40s", reply->str);
        if (!expect(talk, talk->redis, reply, REDIS_REPLY_STRING))
            return false;
    }
    return true;
}

/* False for a replica, or a Redis whose disk is full: these accept scripts but do not write. And for a master without
   its replicas: it would write, and take it along when it dies. */
static bool writes(struct talk *talk)
{
    talk->wrote = true;
    return expect(talk, talk->redis, redisCommand(talk->redis, "SET %s:probe 1 PX 1", talk->prefix),
                  REDIS_REPLY_STATUS) &&
           talk_replicated(talk);
}

bool talk_open(struct talk *talk)
{
    talk->refused = false;
    talk->redis = redis_find(&talk->finder, talk->prefix, ANSWER_TIMEOUT_US, talk->reason, sizeof talk->reason);
    if (talk->redis && load_scripts(talk) && writes(talk) &&
        (talk->bell = redis_find_again(&talk->finder, ANSWER_TIMEOUT_US, talk->reason, sizeof talk->reason)) != NULL &&
        expect(talk, talk->bell, redisCommand(talk->bell, "SUBSCRIBE %s:bell", talk->prefix), REDIS_REPLY_ARRAY))
        return true;
    talk_close(talk);
    return false;
}

void talk_close(struct talk *talk)
{
    if (talk->redis)
        redisFree(talk->redis);
    if (talk->bell)
        redisFree(talk->bell);
    talk->redis = talk->bell = NULL;
}

static bool setting_is(struct talk *talk, const char *name, const char *value, char *ret_text, size_t bytes)
{
    redisReply *reply = redisCommand(talk->redis, "CONFIG GET %s", name);
    const char *text =
        reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 ? reply->element[1]->str : "unknown";
    snprintf(ret_text, bytes, "%s", text);
    freeReplyObject(reply);
    return strcmp(ret_text, value) == 0;
}

/* Replicas that the master has now. */
static int replicas_there(struct talk *talk)
{
    static const char field[] = "connected_slaves:";
    redisReply *reply = redisCommand(talk->redis, "INFO replication");
    const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, field) : NULL;
    int count = at ? atoi(at + strlen(field)) : 0;
    freeReplyObject(reply);
    return count;
}

/* What a failover leaves of the jobs. When only some replicas have to have a job, another one may be promoted, by order
   or on the other side of a split network. */
static void tell_replicas(struct talk *talk, char *text, size_t bytes)
{
    const struct redis_place *place = &talk->streams->options.place;
    size_t used = strlen(text);
    if (place->kind == REDIS_SINGLE)
        return;
    int there = replicas_there(talk);
    if (place->replicas == 0)
        snprintf(text + used, bytes - used, "; --redis-replicas 0: a failover may lose the last ones");
    else if (place->replicas < there)
        snprintf(text + used, bytes - used,
                 "; each job is on %d of %d replicas first: a failover to another may lose the last ones",
                 place->replicas, there);
    else
        snprintf(text + used, bytes - used, "; each job is on %d replica%s too before it is accepted", place->replicas,
                 place->replicas == 1 ? "" : "s");
}

void talk_durability(struct talk *talk, char *text, size_t bytes)
{
    char value[40];
    if (!setting_is(talk, "maxmemory-policy", "noeviction", value, sizeof value) && strncmp(value, "volatile", 8) != 0)
        snprintf(text, bytes, "maxmemory-policy %s: Redis may throw accepted jobs away", value);
    else if (!setting_is(talk, "appendonly", "yes", value, sizeof value))
        snprintf(text, bytes, "appendonly %s: accepted jobs are lost when Redis is killed", value);
    else if (!setting_is(talk, "appendfsync", "always", value, sizeof value))
        snprintf(text, bytes, "appendfsync %s: jobs accepted in the last second or more may be lost", value);
    else
        snprintf(text, bytes, "appendfsync always: an accepted job is on disk");
    tell_replicas(talk, text, bytes);
}
