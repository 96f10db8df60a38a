/* detached_file.c - the detached store's journal: records that go into it, what it has made durable, and how a broker begins with what it holds. */
#include "detached_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "journal.h"
#include "logline.h"
#include "answer_send.h"

#define COMPACT_BYTES (1024u * 1024u) /* a smaller file is left alone */
#define COMPACT_US    5000000u        /* from one compaction to the next */
#define AGAIN_MAX     64u             /* results in one look */

int detached_descriptor(const struct detached_store *detached)
{
    return detached && detached->journal ? journal_descriptor(detached->journal) : -1;
}

enum pen_status detached_keep(struct broker *broker, struct entry *entry, struct pen_error *reterr)
{
    entry->shared = false;
    entry_move(broker->detached, entry, ENTRY_ACCEPTING, broker->now_us); /* behind those with earlier tickets */
    return detached_record(broker->detached, entry, JOURNAL_ACCEPTED, reterr);
}

/* Counts the bytes of the entry's last record in the file. */
static void weigh(struct detached_store *detached, struct entry *entry, uint64_t bytes)
{
    detached->live_bytes += bytes - entry->record_bytes;
    entry->record_bytes = bytes;
}

enum pen_status detached_record(struct detached_store *detached, struct entry *entry, unsigned type,
                                struct pen_error *reterr)
{
    struct journal_record record = {.type = (enum journal_type)type, .id = entry->id, .expires_us = entry->expires_us};
    char owner[OWNER_TEXT_BYTES];
    uint8_t *payload = NULL;
    owner_text(&entry->owner, owner);
    if (type == JOURNAL_ACCEPTED)
        payload = journal_pack(owner, 0, entry->request, &record.bytes);
    else if (type == JOURNAL_DONE)
        payload = journal_pack(owner, entry->status, entry->reply, &record.bytes);
    if (type != JOURNAL_GONE && !payload)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a record of the journal");
    record.payload = payload;
    enum pen_status status = journal_append(detached->journal, &record, &entry->ticket, reterr);
    if (status == PEN_OK)
        weigh(detached, entry, type == JOURNAL_GONE ? 0 : JOURNAL_HEADER_BYTES + record.bytes);
    free(payload);
    return status;
}

/* ---- what the journal has done ---- */

static void accepted(struct broker *broker, struct entry *entry)
{
    struct session *client = session_find(&broker->sessions, entry->id.client);
    entry_move(broker->detached, entry, ENTRY_WAITING, broker->now_us);
    if (client)
        answer_accepted(broker, client, entry->id);
    if (!broker->draining)
        detached_run(broker, entry);
}

static void not_accepted(struct broker *broker, struct entry *entry)
{
    struct session *client = session_find(&broker->sessions, entry->id.client);
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = entry->id;
    if (client)
        answer_refuse(broker, client, &env, PEN_ERR_UNAVAILABLE,
                      "the journal cannot be written (disk full?); the job was not accepted");
    entry->reply = answer_message_error(entry->id, PEN_ERR_NOT_FOUND,
                                        "the detached job was not accepted: the journal could not be written");
    if (entry->reply) /* a client may have fetched it already */
        detached_tell(broker, entry);
    entry_free(broker->detached, entry);
}

/* Results of a batch that could not be written stay in memory; they are written later. */
static void mark_unwritten(struct detached_store *detached, uint64_t first, uint64_t last)
{
    struct entry *entry;
    TAILQ_FOREACH(entry, &detached->lists[ENTRY_DONE], in_state)
    {
        if (!entry->shared && entry->ticket >= first && entry->ticket <= last)
            detached_unwritten(detached, entry, true);
    }
}

void detached_unwritten(struct detached_store *detached, struct entry *entry, bool unwritten)
{
    detached->unwritten += (uint64_t)unwritten - (uint64_t)entry->unwritten;
    entry->unwritten = unwritten;
}

static void write_again(struct detached_store *detached)
{
    struct entry *entry;
    unsigned left = AGAIN_MAX;
    if (detached->unwritten == 0)
        return;
    TAILQ_FOREACH(entry, &detached->lists[ENTRY_DONE], in_state)
    {
        if (!entry->unwritten)
            continue;
        if (left-- == 0 || detached_record(detached, entry, JOURNAL_DONE, NULL) != PEN_OK)
            return;
        detached_unwritten(detached, entry, false);
    }
}

/* When more than half of the file is void, it is written anew. */
void detached_file_look(struct broker *broker)
{
    struct detached_store *detached = broker->detached;
    uint64_t least = (uint64_t)broker->options->journal_bytes / 4;
    if (!detached->journal)
        return;
    write_again(detached);
    uint64_t size = journal_bytes(detached->journal);
    least = least < COMPACT_BYTES ? least : COMPACT_BYTES;
    if (size <= least || size <= 2 * detached->live_bytes || broker->now_us < detached->compact_us)
        return;
    detached->compact_us = broker->now_us + COMPACT_US;
    journal_compact(detached->journal, detached->wall());
}

void detached_file_tick(struct broker *broker)
{
    struct detached_store *detached = broker->detached;
    uint64_t first, last;
    bool ok;
    while (detached->journal && journal_poll(detached->journal, &first, &last, &ok)) {
        struct entry *entry, *next;
        detached->dealt = last;
        if (!ok)
            mark_unwritten(detached, first, last);
        for (entry = TAILQ_FIRST(&detached->lists[ENTRY_ACCEPTING]); entry; entry = next) {
            next = TAILQ_NEXT(entry, in_state);
            if (entry->shared)
                continue;
            if (entry->ticket > last)
                break; /* they are in the order of their tickets */
            if (ok)
                accepted(broker, entry);
            else
                not_accepted(broker, entry);
        }
    }
}

/* ---- from the file ---- */

/* The journal does not have the time of acceptance, but it has the lifetime and its end. */
static uint64_t age_of(struct broker *broker, const struct entry *entry)
{
    uint64_t now_us = broker->detached->wall(), ttl_us = (uint64_t)broker->options->detached_ttl_us;
    uint64_t left_us = entry->expires_us > now_us ? entry->expires_us - now_us : 0;
    struct envelope env;
    const uint8_t *meta;
    meta_arena_reset(&broker->arena);
    const Penstock__JobMeta *job = NULL;
    if (shared_message_open(entry->request, &env, &meta))
        job = meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env.meta_bytes);
    if (job && job->detached_ttl_us && job->detached_ttl_us < ttl_us)
        ttl_us = job->detached_ttl_us;
    return ttl_us > left_us ? ttl_us - left_us : 0;
}

static enum pen_status replay(struct broker *broker, const struct journal_record *record, struct pen_error *reterr)
{
    struct detached_store *detached = broker->detached;
    char text[OWNER_TEXT_BYTES];
    struct owner owner;
    uint32_t status = 0;
    const struct tenant *tenant = NULL;
    struct entry *entry = entry_find(detached, record->id);
    bool done = record->type == JOURNAL_DONE;
    if (record->type == JOURNAL_GONE || record->expires_us <= detached->wall()) {
        if (entry)
            entry_free(detached, entry);
        return PEN_OK;
    }
    struct shared_message *shared = journal_unpack(record->payload, record->bytes, text, sizeof text, &status);
    if (!shared || !owner_read(text, &owner)) {
        shared_message_release(shared);
        return pen_error_set(reterr, PEN_ERR_VERSION, "a job in it is whole, but not in a form that this build reads");
    }
    if (!shared_message_is_of(shared, record->id)) {
        char id[JOB_ID_TEXT_BYTES];
        log_event(LOG_ERROR, "journal_mismatch", "job=%s reason=%s", job_id_text(record->id, id),
                  "what is kept under this id is another job's; it is left out");
        shared_message_release(shared);
        return PEN_OK;
    }
    bool known = entry != NULL;
    enum pen_status result = tenant_intern(&broker->sessions, owner.tenant, &tenant, reterr);
    if (result == PEN_OK && !entry &&
        !(entry = entry_new(detached, record->id, tenant, record->expires_us, ENTRY_WAITING)))
        result = detached->count < DETACHED_JOBS_MAX
                     ? pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for its jobs")
                     : PEN_OK; /* the clock was set back: jobs whose time was over seem to count again */
    if (result != PEN_OK || !entry) {
        shared_message_release(shared);
        return result;
    }
    shared_message_release(entry->request);
    shared_message_release(entry->reply);
    entry->owner = owner;
    entry->request = done ? NULL : shared;
    entry->reply = done ? shared : NULL;
    if (!done || !known) /* the age of a job whose acceptance is no longer in the file counts from our start */
        entry->accepted_us = broker->now_us - (done ? 0 : age_of(broker, entry));
    weigh(detached, entry, JOURNAL_HEADER_BYTES + record->bytes);
    entry->status = status < PEN_STATUS_COUNT ? (enum pen_status)status : PEN_ERR_INTERNAL;
    entry_move(detached, entry, done ? ENTRY_DONE : ENTRY_WAITING, broker->now_us);
    return PEN_OK;
}

/*
 * When a record is broken but its header still says where it ends, the records behind it count: a torn tail is only
 * what has no whole record behind it. No other position is tried, because a payload may hold any bytes that a client
 * chose.
 */
static size_t skip_broken(const uint8_t *bytes, size_t left, size_t at)
{
    struct journal_record broken, next;
    uint64_t size = left >= JOURNAL_HEADER_BYTES ? journal_peek(bytes, &broken) : 0;
    char id[JOB_ID_TEXT_BYTES];
    if (size == 0 || size >= left || journal_read(bytes + size, left - (size_t)size, &next) == 0)
        return 0;
    log_event(LOG_ERROR, "journal_broken", "job=%s at=%zu bytes=%" PRIu64, job_id_text(broken.id, id), at, size);
    return (size_t)size;
}

static enum pen_status replay_all(struct broker *broker, const uint8_t *bytes, size_t size, size_t *ret_good,
                                  struct pen_error *reterr)
{
    size_t at = 0, used;
    struct journal_record record;
    enum pen_status status = PEN_OK;
    do {
        while (status == PEN_OK && (used = journal_read(bytes + at, size - at, &record)) > 0) {
            status = replay(broker, &record, reterr);
            at += status == PEN_OK ? used : 0;
        }
        if (status == PEN_OK && journal_newer(bytes + at, size - at))
            status =
                pen_error_set(reterr, PEN_ERR_VERSION, "it has records that only a later version of Penstock writes");
        used = status == PEN_OK ? skip_broken(bytes + at, size - at, at) : 0;
        at += used;
    } while (used > 0);
    *ret_good = at;
    return status;
}

enum pen_status detached_open_journal(struct broker *broker, struct journal *journal, const uint8_t *bytes, size_t size)
{
    size_t good;
    broker->detached = detached_new();
    if (!broker->detached)
        return PEN_ERR_NO_MEMORY;
    broker->detached->journal = journal;
    return replay_all(broker, bytes, size, &good, NULL);
}

static int not_yet(struct journal_file *file)
{
    (void)file;
    return 0; /* once for all, at the end */
}

static enum pen_status write_list(struct detached_store *detached, struct entry_list *list, unsigned type,
                                  struct pen_error *reterr)
{
    struct entry *entry;
    uint64_t first, last;
    bool ok = true;
    enum pen_status status = PEN_OK;
    TAILQ_FOREACH(entry, list, in_state)
    {
        if (status == PEN_OK)
            status = detached_record(detached, entry, type, reterr);
        entry->ticket = 0;
        while (status == PEN_OK && ok && journal_work(detached->journal))
            journal_poll(detached->journal, &first, &last, &ok);
    }
    if (status == PEN_OK && !ok)
        status = pen_error_set(reterr, PEN_ERR_IO, "cannot write the new journal: %s", strerror(errno));
    return status;
}

static enum pen_status write_all(struct detached_store *detached, struct journal_file *file, uint64_t bytes_max,
                                 struct pen_error *reterr)
{
    int (*sync)(struct journal_file *) = file->sync;
    file->sync = not_yet;
    enum pen_status status = journal_open_file(file, 0, bytes_max, &detached->journal);
    if (status == PEN_OK)
        status = write_list(detached, &detached->lists[ENTRY_WAITING], JOURNAL_ACCEPTED, reterr);
    if (status == PEN_OK)
        status = write_list(detached, &detached->lists[ENTRY_DONE], JOURNAL_DONE, reterr);
    journal_free(detached->journal);
    detached->journal = NULL;
    if (status == PEN_OK && sync(file) != 0)
        status = pen_error_set(reterr, PEN_ERR_IO, "cannot write the new journal: %s", strerror(errno));
    return status;
}

/* One record for each job that still counts, into a new file that takes the old one's place when it is durable. */
static enum pen_status write_anew(struct detached_store *detached, const char *path, uint64_t bytes_max,
                                  uint64_t *ret_size, struct pen_error *reterr)
{
    char fresh[560];
    struct journal_file file;
    struct stat facts;
    snprintf(fresh, sizeof fresh, "%.512s.new", path);
    enum pen_status status = journal_file_open(fresh, 0, &file, reterr);
    if (status != PEN_OK)
        return status;
    status = write_all(detached, &file, bytes_max, reterr);
    bool placed = status == PEN_OK && fstat(file.fd, &facts) == 0 && rename(fresh, path) == 0;
    close(file.fd);
    if (status == PEN_OK && !placed)
        status = pen_error_set(reterr, PEN_ERR_IO, "cannot put the new journal in the place of %.300s: %s", path,
                               strerror(errno));
    if (!placed)
        unlink(fresh);
    else
        *ret_size = (uint64_t)facts.st_size;
    return status;
}

/* A full disk may have no room for a second file. Then the old file is used on, behind its good bytes, and written
   anew when there is room. */
static enum pen_status open_for_more(struct broker *broker, const char *path, uint64_t good, struct pen_error *reterr)
{
    uint64_t size = good, bytes_max = (uint64_t)broker->options->journal_bytes;
    struct pen_error why = {0};
    enum pen_status status = write_anew(broker->detached, path, bytes_max, &size, &why);
    if (status == PEN_ERR_IO && good > 0) {
        log_event(LOG_WARN, "journal_kept", "bytes=%" PRIu64 " reason=%s", good, why.text);
        status = PEN_OK;
    }
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "%s", why.text);
    return journal_open(path, size, bytes_max, &broker->detached->journal, reterr);
}

enum pen_status detached_open(struct broker *broker, const char *path, struct pen_error *reterr)
{
    struct stat facts = {.st_size = 0};
    size_t good = 0;
    broker->detached = detached_new();
    if (!broker->detached)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the journal");
    enum pen_status status = journal_claim(path, &broker->detached->journal_lock, reterr);
    if (status != PEN_OK)
        return status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read --journal %.300s: %s", path, strerror(errno));
    if (fd >= 0 && fstat(fd, &facts) == 0 && facts.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            close(fd);
            return pen_error_set(reterr, PEN_ERR_IO, "cannot read --journal %.300s: %s", path, strerror(errno));
        }
        struct pen_error why = {0};
        enum pen_status read = replay_all(broker, bytes, (size_t)facts.st_size, &good, &why);
        log_event(good == (size_t)facts.st_size ? LOG_INFO : LOG_WARN, "journal_read",
                  "jobs=%" PRIu64 " bytes=%zu torn_bytes=%zu", broker->detached->count, good,
                  (size_t)facts.st_size - good);
        munmap(bytes, (size_t)facts.st_size);
        if (read != PEN_OK) {
            close(fd);
            return pen_error_set(reterr, read,
                                 "cannot go on with --journal %.300s, at byte %zu: %.200s. The file is left as it is: "
                                 "start the version that wrote it, or name another file",
                                 path, good, why.text);
        }
    }
    if (fd >= 0)
        close(fd);
    status = open_for_more(broker, path, good, reterr);
    journal_sync_folder(path);
    return status;
}
