#include "depot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "dispatch.h"
#include "journal.h"
#include "logline.h"
#include "submit.h"

#define LOOK_US     1000000u
#define WAITERS_MAX 16u /* clients that wait for one job */

enum entry_state {
    ENTRY_ACCEPTING, /* the journal does not have it yet */
    ENTRY_WAITING,   /* for a worker */
    ENTRY_RUNNING,   /* a job of the broker like any other */
    ENTRY_DONE,
};

struct entry {
    struct table_node by_id;
    TAILQ_ENTRY(entry) in_all;
    struct job_id id;
    enum entry_state state;
    const struct tenant *tenant;
    struct parcel *request; /* until it is done */
    struct parcel *reply;   /* when it is done */
    enum pen_status status;
    uint64_t ticket;     /* of the record that is on its way; 0 = none */
    uint64_t expires_us; /* wall clock */
    uint64_t since_us;
    struct job_id waiters[WAITERS_MAX]; /* fetches, by their own ids */
    uint32_t waiters_count;
};
TAILQ_HEAD(entry_list, entry);

struct depot {
    struct journal *journal;
    struct table by_id;
    struct entry_list all;
    uint64_t count, look_us;
};

static uint64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* ---- entries ---- */

static struct entry *entry_find(const struct depot *depot, struct job_id id)
{
    struct table_node *node = table_first(&depot->by_id, table_hash(&depot->by_id, id.client, id.sequence));
    for (; node; node = table_next(&depot->by_id, node)) {
        struct entry *entry = table_entry(node, struct entry, by_id);
        if (job_id_equal(entry->id, id))
            return entry;
    }
    return NULL;
}

static struct entry *entry_new(struct depot *depot, struct job_id id, const struct tenant *tenant)
{
    struct entry *entry = depot->count < DEPOT_JOBS_MAX ? calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    entry->id = id;
    entry->tenant = tenant;
    table_insert(&depot->by_id, &entry->by_id, table_hash(&depot->by_id, id.client, id.sequence));
    TAILQ_INSERT_TAIL(&depot->all, entry, in_all);
    depot->count++;
    return entry;
}

static void entry_free(struct depot *depot, struct entry *entry)
{
    table_remove(&depot->by_id, &entry->by_id);
    TAILQ_REMOVE(&depot->all, entry, in_all);
    depot->count--;
    parcel_release(entry->request);
    parcel_release(entry->reply);
    free(entry);
}

int depot_descriptor(const struct depot *depot)
{
    return depot && depot->journal ? journal_descriptor(depot->journal) : -1;
}

uint64_t depot_count(const struct depot *depot)
{
    return depot ? depot->count : 0;
}

/* The tenant's session of our own; never connected, never over. */
static struct session *home_of(struct broker *broker, const struct tenant *tenant)
{
    uint64_t uuid = DEPOT_UUID_FIRST + tenant->number;
    struct session *home = session_find(&broker->sessions, uuid);
    if (home || !(home = session_new(&broker->sessions, uuid)))
        return home;
    home->depot = true;
    home->tenant = tenant;
    snprintf(home->name, sizeof home->name, "detached");
    return home;
}

/* ---- the journal ---- */

static enum pen_status write_down(struct depot *depot, struct entry *entry, enum journal_type type,
                                  struct pen_error *reterr)
{
    struct journal_record record = {.type = type, .id = entry->id, .expires_us = entry->expires_us};
    uint8_t *payload = NULL;
    if (type == JOURNAL_ACCEPTED)
        payload = journal_pack(entry->tenant->name, 0, entry->request, &record.bytes);
    else if (type == JOURNAL_DONE)
        payload = journal_pack(entry->tenant->name, entry->status, entry->reply, &record.bytes);
    if (type != JOURNAL_GONE && !payload)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a record of the journal");
    record.payload = payload;
    enum pen_status status = journal_append(depot->journal, &record, &entry->ticket, reterr);
    free(payload);
    return status;
}

/* ---- answers ---- */

static void tell_accepted(struct broker *broker, const struct entry *entry)
{
    struct session *client = session_find(&broker->sessions, entry->id.client);
    if (client)
        answer_accepted(broker, client, entry->id);
}

static void tell_waiters(struct broker *broker, struct entry *entry)
{
    for (uint32_t i = 0; i < entry->waiters_count; i++) {
        struct session *client = session_find(&broker->sessions, entry->waiters[i].client);
        if (client)
            answer_stored(broker, client, entry->waiters[i], entry->reply);
    }
    entry->waiters_count = 0;
}

static void refuse(struct broker *broker, struct session *session, const struct envelope *env, enum pen_status status,
                   const char *text)
{
    struct pen_error error = {.status = PEN_OK};
    pen_error_set(&error, status, "%s", text);
    answer_refusal(broker, session, env, "", 0, &error);
}

/* ---- running ---- */

/* The request as the message that a client would send; its frames are shared. */
static bool message_of(const struct entry *entry, struct message *message)
{
    for (uint32_t i = 0; i < entry->request->count; i++) {
        zmq_msg_t frame;
        if (parcel_frame(entry->request, i, &frame) != PEN_OK || message_add(message, &frame) != PEN_OK)
            return false;
    }
    return true;
}

/* What is refused for good ends it; what may be cured by time waits. */
static void judge(struct broker *broker, struct entry *entry, enum pen_status status, const struct pen_error *error)
{
    if (status == PEN_OK) {
        entry->state = ENTRY_RUNNING;
        return;
    }
    entry->state = ENTRY_WAITING;
    if (pen_status_retryable(status) || status == PEN_ERR_NOT_FOUND)
        return;
    struct parcel *reply = answer_parcel_error(entry->id, status, error->text);
    if (reply) {
        entry->state = ENTRY_RUNNING;
        struct job ended = {.id = entry->id};
        depot_done(broker, &ended, reply, status);
    }
}

static void start(struct broker *broker, struct entry *entry)
{
    struct message message = {.count = 0};
    struct envelope env;
    const uint8_t *meta;
    struct pen_error error = {.status = PEN_OK};
    struct session *home = home_of(broker, entry->tenant);
    if (home && message_of(entry, &message)) {
        zmq_msg_t *header = &message.frames[0];
        enum pen_status status = envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, &error);
        if (status == PEN_OK) {
            env.deadline_us = 0;
            env.flags = (uint16_t)((env.flags & ~FRAME_FLAG_DETACHED) | FRAME_FLAG_NO_CACHE);
            status = submit_try(broker, home, &env, meta, &message, &error);
        }
        judge(broker, entry, status, &error);
    }
    message_fini(&message);
}

void depot_start(struct broker *broker)
{
    struct entry *entry, *next;
    if (!broker->depot || broker->draining)
        return;
    for (entry = TAILQ_FIRST(&broker->depot->all); entry; entry = next) {
        next = TAILQ_NEXT(entry, in_all);
        if (entry->state == ENTRY_WAITING)
            start(broker, entry);
    }
}

void depot_done(struct broker *broker, const struct job *job, struct parcel *reply, enum pen_status status)
{
    struct entry *entry = broker->depot ? entry_find(broker->depot, job->id) : NULL;
    if (!entry || entry->state != ENTRY_RUNNING || !reply || (status == PEN_ERR_UNAVAILABLE)) {
        if (entry && entry->state == ENTRY_RUNNING)
            entry->state =
                ENTRY_WAITING; /* nobody could run it, or the broker stops: later, perhaps by the next broker */
        parcel_release(reply);
        return;
    }
    struct pen_error error = {.status = PEN_OK};
    entry->reply = reply;
    entry->status = status;
    entry->state = ENTRY_DONE;
    if (write_down(broker->depot, entry, JOURNAL_DONE, &error) != PEN_OK)
        log_event(LOG_WARN, "result_not_in_journal", "reason=%s",
                  error.text); /* it is here until the broker ends, then the job runs again */
    parcel_release(entry->request);
    entry->request = NULL;
    tell_waiters(broker, entry);
}

bool depot_cancel(struct broker *broker, struct job_id id)
{
    struct entry *entry = broker->depot ? entry_find(broker->depot, id) : NULL;
    if (!entry || entry->state != ENTRY_WAITING)
        return false; /* a running one is found among the jobs */
    struct parcel *reply = answer_parcel_error(id, PEN_ERR_CANCELLED, "the job was cancelled by its id");
    struct job ended = {.id = id};
    entry->state = ENTRY_RUNNING;
    depot_done(broker, &ended, reply, PEN_ERR_CANCELLED);
    return true;
}

/* ---- what clients say ---- */

static uint64_t lifetime_us(const struct broker *broker, const uint8_t *meta, size_t bytes)
{
    uint64_t ttl_us = 0;
    Penstock__JobMeta *job = penstock__job_meta__unpack(NULL, bytes, meta);
    if (job) {
        ttl_us = job->detached_ttl_us;
        penstock__job_meta__free_unpacked(job, NULL);
    }
    uint64_t most_us = (uint64_t)broker->options->detached_ttl_us;
    return ttl_us == 0 || ttl_us > most_us ? most_us : ttl_us;
}

static struct parcel *take_frames(struct message *message)
{
    struct parcel *parcel = parcel_new(message->count);
    for (size_t i = 0; parcel && i < message->count; i++) {
        if (parcel_take(parcel, i, &message->frames[i]) != PEN_OK) {
            parcel_release(parcel);
            return NULL;
        }
    }
    return parcel;
}

static enum pen_status accept_entry(struct broker *broker, struct session *session, const struct envelope *env,
                                    uint64_t ttl_us, struct message *message, struct pen_error *reterr)
{
    struct depot *depot = broker->depot;
    if (message->overflow || message->count != 1u + env->frames)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the envelope announces %u raw frames, the message has %zu",
                             env->frames, message->count - 1);
    if (message->bytes > (uint64_t)broker->options->max_job_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "the job has %zu bytes; this broker takes %" PRId64 " (--max-job-bytes)", message->bytes,
                             broker->options->max_job_bytes);
    struct entry *entry = entry_new(depot, env->job, session->tenant);
    if (!entry)
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker keeps %u detached jobs, its limit", DEPOT_JOBS_MAX);
    entry->since_us = broker->now_us;
    entry->expires_us = wall_us() + ttl_us;
    entry->request = take_frames(message);
    enum pen_status status = entry->request ? write_down(depot, entry, JOURNAL_ACCEPTED, reterr)
                                            : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the job");
    if (status != PEN_OK)
        entry_free(depot, entry);
    return status;
}

void depot_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                  struct message *message)
{
    struct pen_error error = {.status = PEN_OK};
    if (!broker->depot) {
        refuse(broker, session, env, PEN_ERR_UNSUPPORTED,
               "this broker takes no detached jobs: it was started without --journal");
        return;
    }
    if (broker->draining) {
        refuse(broker, session, env, PEN_ERR_UNAVAILABLE,
               "the broker is draining and takes no new jobs; try again shortly or another broker");
        return;
    }
    const struct entry *known = entry_find(broker->depot, env->job);
    if (known) {
        if (known->state != ENTRY_ACCEPTING)
            answer_accepted(broker, session, env->job);
        return; /* else when the journal has it */
    }
    if (accept_entry(broker, session, env, lifetime_us(broker, meta, env->meta_bytes), message, &error) != PEN_OK)
        answer_refusal(broker, session, env, "", 100000, &error);
}

void depot_fetch(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta)
{
    struct job_id id = {0, 0};
    Penstock__JobMeta *asked = penstock__job_meta__unpack(NULL, env->meta_bytes, meta);
    bool good = asked && job_id_parse(asked->detached, &id) == 0;
    if (asked)
        penstock__job_meta__free_unpacked(asked, NULL);
    struct entry *entry = good && broker->depot ? entry_find(broker->depot, id) : NULL;
    if (!good) {
        refuse(broker, session, env, PEN_ERR_INVALID, "that is no job id; one looks like 0123456789abcdef-42");
    } else if (!entry || entry->tenant != session->tenant) {
        refuse(broker, session, env, PEN_ERR_NOT_FOUND,
               "no detached job of that id is here: it never came, or is too old");
    } else if (entry->state == ENTRY_DONE) {
        answer_stored(broker, session, env->job, entry->reply);
    } else {
        for (uint32_t i = 0; i < entry->waiters_count; i++) {
            if (job_id_equal(entry->waiters[i], env->job))
                return; /* sent again */
        }
        if (entry->waiters_count == WAITERS_MAX)
            refuse(broker, session, env, PEN_ERR_BUSY, "16 clients already wait for that job");
        else
            entry->waiters[entry->waiters_count++] = env->job;
    }
}

/* ---- clockwork ---- */

static void dealt_with(struct broker *broker, uint64_t first, uint64_t last, bool ok)
{
    struct entry *entry, *next;
    for (entry = TAILQ_FIRST(&broker->depot->all); entry; entry = next) {
        next = TAILQ_NEXT(entry, in_all);
        if (entry->ticket < first || entry->ticket > last)
            continue;
        entry->ticket = 0;
        if (entry->state != ENTRY_ACCEPTING)
            continue; /* a result that could not be written stays in memory */
        if (ok) {
            entry->state = ENTRY_WAITING;
            tell_accepted(broker, entry);
            if (!broker->draining)
                start(broker, entry);
            continue;
        }
        struct session *client = session_find(&broker->sessions, entry->id.client);
        struct envelope env = envelope_make(FRAME_SUBMIT);
        env.job = entry->id;
        if (client)
            refuse(broker, client, &env, PEN_ERR_UNAVAILABLE,
                   "the journal cannot be written (disk full?); the job was not accepted");
        entry_free(broker->depot, entry);
    }
}

static void forget_old(struct broker *broker)
{
    struct depot *depot = broker->depot;
    uint64_t now_us = wall_us();
    struct entry *entry, *next;
    for (entry = TAILQ_FIRST(&depot->all); entry; entry = next) {
        next = TAILQ_NEXT(entry, in_all);
        if (entry->expires_us > now_us || entry->ticket != 0)
            continue;
        struct job *job = entry->state == ENTRY_RUNNING ? jobs_find(&broker->jobs, entry->id) : NULL;
        write_down(depot, entry, JOURNAL_GONE, NULL);
        entry->state = ENTRY_DONE; /* so that its end below changes nothing */
        if (job && job->state != JOB_DONE)
            answer_error(broker, job, PEN_ERR_DEADLINE, "the detached job was not done in its lifetime");
        entry_free(depot, entry);
    }
}

void depot_tick(struct broker *broker)
{
    struct depot *depot = broker->depot;
    uint64_t first, last;
    bool ok;
    if (!depot)
        return;
    while (journal_poll(depot->journal, &first, &last, &ok))
        dealt_with(broker, first, last, ok);
    if (broker->now_us < depot->look_us)
        return;
    depot->look_us = broker->now_us + LOOK_US;
    forget_old(broker);
    depot_start(broker);
}

/* ---- from the file ---- */

static void replay(struct broker *broker, const struct journal_record *record)
{
    struct depot *depot = broker->depot;
    char name[TENANT_BYTES_MAX + 1];
    uint32_t status = 0;
    const struct tenant *tenant = NULL;
    struct entry *entry = entry_find(depot, record->id);
    if (record->type == JOURNAL_GONE || record->expires_us <= wall_us()) {
        if (entry)
            entry_free(depot, entry);
        return;
    }
    struct parcel *parcel = journal_unpack(record->payload, record->bytes, name, sizeof name, &status);
    if (!parcel || tenant_intern(&broker->sessions, name, &tenant, NULL) != PEN_OK ||
        (!entry && !(entry = entry_new(depot, record->id, tenant)))) {
        parcel_release(parcel);
        return;
    }
    bool done = record->type == JOURNAL_DONE;
    parcel_release(entry->request);
    parcel_release(entry->reply);
    entry->request = done ? NULL : parcel;
    entry->reply = done ? parcel : NULL;
    entry->state = done ? ENTRY_DONE : ENTRY_WAITING;
    entry->status = status < PEN_STATUS_COUNT ? (enum pen_status)status : PEN_ERR_INTERNAL;
    entry->expires_us = record->expires_us;
    entry->since_us = broker->now_us;
}

static size_t replay_all(struct broker *broker, const uint8_t *bytes, size_t size)
{
    size_t at = 0, used;
    struct journal_record record;
    while ((used = journal_read(bytes + at, size - at, &record)) > 0) {
        replay(broker, &record);
        at += used;
    }
    return at;
}

static struct depot *depot_new(void)
{
    struct depot *depot = calloc(1, sizeof *depot);
    if (!depot || table_init(&depot->by_id) != PEN_OK) {
        free(depot);
        return NULL;
    }
    TAILQ_INIT(&depot->all);
    return depot;
}

void depot_free(struct depot *depot)
{
    if (!depot)
        return;
    while (!TAILQ_EMPTY(&depot->all))
        entry_free(depot, TAILQ_FIRST(&depot->all));
    journal_free(depot->journal);
    table_fini(&depot->by_id);
    free(depot);
}

enum pen_status depot_open_journal(struct broker *broker, struct journal *journal, const uint8_t *bytes, size_t size)
{
    broker->depot = depot_new();
    if (!broker->depot)
        return PEN_ERR_NO_MEMORY;
    broker->depot->journal = journal;
    replay_all(broker, bytes, size);
    return PEN_OK;
}

static int not_yet(struct journal_file *file)
{
    (void)file;
    return 0; /* once for all, at the end */
}

static enum pen_status write_all(struct depot *depot, struct journal_file *file, uint64_t bytes_max,
                                 struct pen_error *reterr)
{
    struct entry *entry;
    uint64_t first, last;
    bool ok = true;
    int (*sync)(struct journal_file *) = file->sync;
    file->sync = not_yet;
    enum pen_status status = journal_open_file(file, 0, bytes_max, &depot->journal);
    TAILQ_FOREACH(entry, &depot->all, in_all)
    {
        if (status == PEN_OK)
            status = write_down(depot, entry, entry->state == ENTRY_DONE ? JOURNAL_DONE : JOURNAL_ACCEPTED, reterr);
        entry->ticket = 0;
        while (status == PEN_OK && ok && journal_work(depot->journal))
            journal_poll(depot->journal, &first, &last, &ok);
    }
    journal_free(depot->journal);
    depot->journal = NULL;
    if (status == PEN_OK && (!ok || sync(file) != 0))
        status = pen_error_set(reterr, PEN_ERR_IO, "cannot write the new journal: %s", strerror(errno));
    return status;
}

/* One record for each job that still counts, into a new file that takes the old one's place when it is durable. */
static enum pen_status write_anew(struct depot *depot, const char *path, uint64_t bytes_max, uint64_t *ret_size,
                                  struct pen_error *reterr)
{
    char fresh[560];
    struct journal_file file;
    struct stat facts;
    snprintf(fresh, sizeof fresh, "%.512s.new", path);
    enum pen_status status = journal_file_open(fresh, 0, &file, reterr);
    if (status != PEN_OK)
        return status;
    status = write_all(depot, &file, bytes_max, reterr);
    bool placed = status == PEN_OK && fstat(file.fd, &facts) == 0 && rename(fresh, path) == 0;
    close(file.fd);
    if (status == PEN_OK && !placed)
        status = pen_error_set(reterr, PEN_ERR_IO, "cannot put the new journal in the place of %.300s: %s", path,
                               strerror(errno));
    *ret_size = placed ? (uint64_t)facts.st_size : 0;
    return status;
}

/* The rename is durable when the folder is. */
static void sync_folder(const char *path)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%.511s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *(slash == folder ? slash + 1 : slash) = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

enum pen_status depot_open(struct broker *broker, const char *path, struct pen_error *reterr)
{
    struct stat facts = {.st_size = 0};
    uint64_t size = 0, bytes_max = (uint64_t)broker->options->journal_bytes;
    broker->depot = depot_new();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!broker->depot)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the journal");
    if (fd < 0 && errno != ENOENT)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read --journal %.300s: %s", path, strerror(errno));
    if (fd >= 0 && fstat(fd, &facts) == 0 && facts.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            close(fd);
            return pen_error_set(reterr, PEN_ERR_IO, "cannot read --journal %.300s: %s", path, strerror(errno));
        }
        size_t good = replay_all(broker, bytes, (size_t)facts.st_size);
        log_event(good == (size_t)facts.st_size ? LOG_INFO : LOG_WARN, "journal_read",
                  "jobs=%" PRIu64 " bytes=%zu torn_bytes=%zu", broker->depot->count, good,
                  (size_t)facts.st_size - good);
        munmap(bytes, (size_t)facts.st_size);
    }
    if (fd >= 0)
        close(fd);
    enum pen_status status = write_anew(broker->depot, path, bytes_max, &size, reterr);
    if (status == PEN_OK)
        status = journal_open(path, size, bytes_max, &broker->depot->journal, reterr);
    sync_folder(path);
    return status;
}
