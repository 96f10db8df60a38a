#include "keyring.h"

#include <inttypes.h>
#include <pthread.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "assertion.h"
#include "key_list.h"
#include "mutex.h"

#define LINE_BYTES_MAX 1024u
#define PATH_BYTES_MAX 512u

struct keyring {
    pthread_mutex_t lock; /* guards identities and count: the ZAP thread reads while the owner adds or changes */
    struct identity *identities[IDENTITIES_MAX];
    uint32_t count;
    char path[PATH_BYTES_MAX];
    struct timespec changed;
    off_t size;
    ino_t inode;
};

/* ---- one line ---- */

struct reader {
    const char *path;
    unsigned line;
};

static enum pen_status bad(const struct reader *reader, struct pen_error *reterr, const char *what)
{
    return pen_error_set(reterr, PEN_ERR_INVALID, "%.300s:%u: %s", reader->path, reader->line, what);
}

static bool roles_parse(char *text, unsigned *ret_roles)
{
    static const struct {
        const char *name;
        enum role role;
    } known[] = {{"submit", ROLE_SUBMIT}, {"worker", ROLE_WORKER}, {"admin", ROLE_ADMIN}, {"observe", ROLE_OBSERVE}};
    char *rest = text;
    *ret_roles = 0;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        unsigned before = *ret_roles;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            if (strcmp(word, known[i].name) == 0)
                *ret_roles |= known[i].role;
        }
        if (*ret_roles == before)
            return false;
    }
    return *ret_roles != 0;
}

static bool bytes_parse(const char *text, uint64_t *ret_bytes)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (*text >= '0' && *text <= '9' && strcmp(end, units[i].unit) == 0 &&
            value <= UINT64_MAX >> 1 >> units[i].shift) {
            *ret_bytes = (uint64_t)value << units[i].shift;
            return true;
        }
    }
    return false;
}

static bool option_parse(const char *word, struct identity *identity)
{
    char *end;
    if (strncmp(word, "tenant=", 7) == 0 && key_name_valid(word + 7)) {
        snprintf(identity->tenant, sizeof identity->tenant, "%s", word + 7);
        return true;
    }
    if (strncmp(word, "rate=", 5) == 0) {
        identity->rate = strtod(word + 5, &end);
        return *end == '\0' && identity->rate > 0 && identity->rate < 1e9;
    }
    if (strncmp(word, "bytes=", 6) == 0)
        return bytes_parse(word + 6, &identity->bytes_max) && identity->bytes_max > 0;
    if (strncmp(word, "share=", 6) == 0) {
        unsigned long share = strtoul(word + 6, &end, 10);
        identity->share = (uint32_t)share;
        return *end == '\0' && share >= 1 && share <= 100;
    }
    return false;
}

/* PEN_OK with an empty name: a comment or an empty line. */
static enum pen_status line_parse(const struct reader *reader, char *line, struct identity *ret_identity,
                                  struct pen_error *reterr)
{
    char *words[8], *rest = line;
    size_t count = 0;
    *ret_identity = (struct identity){.active = true};
    for (char *word; (word = strsep(&rest, " \t\r\n")) != NULL;) {
        if (*word == '#')
            break;
        if (*word && count == sizeof words / sizeof words[0])
            return bad(reader, reterr, "more words than a line may have");
        if (*word)
            words[count++] = word;
    }
    if (count == 0)
        return PEN_OK;
    if (key_parse(words[0], ret_identity->key, NULL) != PEN_OK)
        return bad(reader, reterr, "the first word is no public key of 64 hex digits");
    if (count < 3 || !key_name_valid(words[1]))
        return bad(reader, reterr, "expected KEY NAME ROLES; a name has 1 to 64 characters of A-Z a-z 0-9 . _ -");
    if (!roles_parse(words[2], &ret_identity->roles))
        return bad(reader, reterr, "the roles are submit, worker, admin and observe, separated by commas");
    snprintf(ret_identity->name, sizeof ret_identity->name, "%s", words[1]);
    snprintf(ret_identity->tenant, sizeof ret_identity->tenant, "%s", words[1]);
    for (size_t i = 3; i < count; i++) {
        if (!option_parse(words[i], ret_identity))
            return bad(reader, reterr,
                       "behind the roles come tenant=NAME, rate=JOBS_PER_SECOND, bytes=SIZE and share=1..100");
    }
    return PEN_OK;
}

/* ---- the file ---- */

struct parsed {
    struct identity *items; /* [IDENTITIES_MAX + 1]: one more than allowed, to notice the excess */
    size_t count;
};

static enum pen_status text_parse(struct reader *reader, char *rest, struct parsed *parsed, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (char *line; status == PEN_OK && (line = strsep(&rest, "\n")) != NULL;) {
        reader->line++;
        if (strlen(line) >= LINE_BYTES_MAX)
            return bad(reader, reterr, "the line is longer than 1023 characters");
        status = line_parse(reader, line, &parsed->items[parsed->count], reterr);
        bool one = status == PEN_OK && parsed->items[parsed->count].name[0] != '\0';
        if (one && parsed->count == IDENTITIES_MAX)
            return bad(reader, reterr, "more keys than a broker takes (4096)");
        parsed->count += one;
    }
    return status;
}

static enum pen_status file_parse(const char *path, struct parsed *parsed, struct pen_error *reterr)
{
    struct reader reader = {.path = path};
    struct key_list list;
    enum pen_status status = key_list_read(path, KEY_SEAL_FITS, &list, reterr);
    if (status != PEN_OK)
        return status;
    status = text_parse(&reader, list.text, parsed, reterr);
    key_list_fini(&list);
    return status;
}

static struct identity *find_key(const struct keyring *keyring, const uint8_t key[KEY_BYTES])
{
    for (uint32_t i = 0; i < keyring->count; i++) {
        if (memcmp(keyring->identities[i]->key, key, KEY_BYTES) == 0)
            return keyring->identities[i];
    }
    return NULL;
}

/* A new file does not reset the counters of an identity. */
static void take_over(struct identity *to, const struct identity *from)
{
    memcpy(to->name, from->name, sizeof to->name);
    memcpy(to->tenant, from->tenant, sizeof to->tenant);
    to->roles = from->roles;
    to->rate = from->rate;
    to->bytes_max = from->bytes_max;
    to->share = from->share;
    to->active = true;
}

static enum pen_status apply(struct keyring *keyring, const struct parsed *parsed, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    mutex_take(&keyring->lock);
    for (uint32_t i = 0; i < keyring->count; i++)
        keyring->identities[i]->active = false;
    for (size_t i = 0; i < parsed->count; i++) {
        struct identity *identity = find_key(keyring, parsed->items[i].key);
        if (!identity && keyring->count < IDENTITIES_MAX && (identity = calloc(1, sizeof *identity)) != NULL) {
            *identity = parsed->items[i];
            identity->tokens = identity->rate;
            keyring->identities[keyring->count++] = identity;
        }
        if (identity)
            take_over(identity, &parsed->items[i]);
        else
            status = pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                                   "no room for another key; restart the broker to forget those that are gone");
    }
    mutex_give(&keyring->lock);
    return status;
}

static enum pen_status load(struct keyring *keyring, struct pen_error *reterr)
{
    struct parsed parsed = {.items = calloc(IDENTITIES_MAX + 1, sizeof(struct identity))};
    if (!parsed.items)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the keys");
    enum pen_status status = file_parse(keyring->path, &parsed, reterr);
    if (status == PEN_OK)
        status = apply(keyring, &parsed, reterr);
    free(parsed.items);
    return status;
}

/* True when the file is not the one that was read last. */
static bool look(struct keyring *keyring)
{
    struct stat facts;
    if (stat(keyring->path, &facts) != 0)
        return false; /* an editor may be about to put it back */
    bool same = facts.st_mtim.tv_sec == keyring->changed.tv_sec && facts.st_mtim.tv_nsec == keyring->changed.tv_nsec &&
                facts.st_size == keyring->size && facts.st_ino == keyring->inode;
    keyring->changed = facts.st_mtim;
    keyring->size = facts.st_size;
    keyring->inode = facts.st_ino;
    return !same;
}

enum pen_status keyring_new(const char *path, struct keyring **ret_keyring, struct pen_error *reterr)
{
    if (strlen(path) >= PATH_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of --keys is longer than %u characters",
                             PATH_BYTES_MAX);
    struct keyring *keyring = calloc(1, sizeof *keyring);
    if (!keyring)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the keys");
    mutex_init(&keyring->lock);
    memcpy(keyring->path, path, strlen(path) + 1);
    look(keyring);
    enum pen_status status = load(keyring, reterr);
    if (status != PEN_OK) {
        keyring_free(keyring);
        return status;
    }
    *ret_keyring = keyring;
    return PEN_OK;
}

void keyring_free(struct keyring *keyring)
{
    if (!keyring)
        return;
    for (uint32_t i = 0; i < keyring->count; i++)
        free(keyring->identities[i]);
    mutex_fini(&keyring->lock);
    free(keyring);
}

bool keyring_refresh(struct keyring *keyring, struct pen_error *reterr)
{
    if (!look(keyring))
        return false;
    enum pen_status status = load(keyring, reterr);
    if (status == PEN_ERR_IO || status == PEN_ERR_NO_MEMORY)
        keyring->size = -1; /* unknown: the next look takes the file for a new one */
    return status == PEN_OK;
}

unsigned keyring_count(const struct keyring *keyring)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < keyring->count; i++)
        count += keyring->identities[i]->active;
    return count;
}

struct identity *keyring_find(struct keyring *keyring, const char *user)
{
    uint8_t key[KEY_BYTES];
    if (!user || key_parse(user, key, NULL) != PEN_OK)
        return NULL;
    struct identity *identity = find_key(keyring, key);
    return identity && identity->active ? identity : NULL;
}

bool keyring_knows(struct keyring *keyring, const uint8_t key[KEY_BYTES])
{
    mutex_take(&keyring->lock);
    const struct identity *identity = find_key(keyring, key);
    bool known = identity && identity->active;
    mutex_give(&keyring->lock);
    return known;
}

/* ---- quotas ---- */

static void refill(struct identity *identity, double rate, uint64_t now_us)
{
    if (now_us > identity->tokens_us)
        identity->tokens += (double)(now_us - identity->tokens_us) * 1e-6 * rate;
    identity->tokens_us = now_us;
    identity->tokens = fmin(identity->tokens, fmax(rate, 1));
}

/* For the sentence of a refusal; "" when the quota is not divided. */
static const char *part_text(uint32_t brokers, char text[64])
{
    text[0] = '\0';
    if (brokers > 1)
        snprintf(text, 64, " (divided among %u brokers)", brokers);
    return text;
}

static uint64_t share_of(const struct identity *identity, uint64_t limit)
{
    return limit / 100 * identity->share + limit % 100 * identity->share / 100;
}

static bool beyond_share(const struct identity *identity, uint64_t used, uint64_t more, uint64_t limit)
{
    return identity->share != 0 && used + more > share_of(identity, limit);
}

/* A job that does not fit even into an empty queue must not be tried again. */
static enum pen_status check_fits(const struct identity *identity, uint32_t brokers, size_t bytes, uint64_t queue_bytes,
                                  struct pen_error *reterr)
{
    char part[64];
    if (identity->bytes_max != 0 && bytes > identity->bytes_max / brokers)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "the job has %zu bytes; the quota of %s is %" PRIu64
                             " bytes of unanswered jobs%s: send less at a time, or have bytes= raised",
                             bytes, identity->name, identity->bytes_max, part_text(brokers, part));
    if (beyond_share(identity, 0, bytes, queue_bytes))
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "the job has %zu bytes; %s may have %u per cent of the queue (share=), which are %" PRIu64
                             " bytes",
                             bytes, identity->name, identity->share, share_of(identity, queue_bytes));
    return PEN_OK;
}

static enum pen_status check_rate(struct identity *identity, uint32_t brokers, uint64_t now_us, uint64_t *ret_wait_us,
                                  struct pen_error *reterr)
{
    double rate = identity->rate / brokers;
    char part[64];
    refill(identity, rate, now_us);
    if (identity->tokens < 1) {
        identity->refused++;
        *ret_wait_us = (uint64_t)((1 - identity->tokens) / rate * 1e6) + 1;
        return pen_error_set(reterr, PEN_ERR_BUSY, "%s submits more than its quota of %g jobs per second%s",
                             identity->name, identity->rate, part_text(brokers, part));
    }
    identity->tokens -= 1;
    return PEN_OK;
}

enum pen_status quota_check(struct identity *identity, uint32_t brokers, size_t bytes, uint64_t queue_limit,
                            uint64_t queue_bytes, uint64_t now_us, uint64_t *ret_wait_us, struct pen_error *reterr)
{
    char part[64];
    *ret_wait_us = 100000;
    if (check_fits(identity, brokers, bytes, queue_bytes, reterr) != PEN_OK) {
        identity->refused++;
        return PEN_ERR_TOO_LARGE;
    }
    if (identity->bytes_max != 0 && identity->bytes + bytes > identity->bytes_max / brokers) {
        identity->refused++;
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "%s has %" PRIu64 " bytes of unanswered jobs, its quota is %" PRIu64 "%s", identity->name,
                             identity->bytes, identity->bytes_max, part_text(brokers, part));
    }
    if (beyond_share(identity, identity->jobs, 1, queue_limit) ||
        beyond_share(identity, identity->bytes, bytes, queue_bytes)) {
        identity->refused++;
        return pen_error_set(reterr, PEN_ERR_BUSY, "%s has its share of the queue, %u per cent", identity->name,
                             identity->share);
    }
    return identity->rate > 0 ? check_rate(identity, brokers, now_us, ret_wait_us, reterr) : PEN_OK;
}

void quota_uncheck(struct identity *identity)
{
    if (identity && identity->rate > 0)
        identity->tokens += 1;
}

void quota_take(struct identity *identity, size_t bytes)
{
    if (identity) {
        identity->jobs++;
        identity->bytes += bytes;
        PEN_ASSERT(identity->jobs > 0 && identity->bytes >= bytes, "a quota's counters do not run over");
    }
}

void quota_give(struct identity *identity, size_t bytes)
{
    if (identity) {
        PEN_ASSERT(identity->jobs > 0 && identity->bytes >= bytes,
                   "what a key gets back has been counted in its quota");
        identity->jobs--;
        identity->bytes -= bytes;
    }
}
