#include "journal_compact.h"

#include <errno.h>
#include <stdlib.h>

#include "assertion.h"
#include "table.h"

#define STEP_RECORDS 1024u
#define STEP_BYTES   (4u * 1024u * 1024u)

/* The last record of a job that still counts. */
struct last {
    struct table_node by_id;
    struct last *next; /* of all, for freeing */
    struct job_id id;
    uint64_t at; /* UINT64_MAX: its last one is void */
};

struct compaction {
    struct journal_file *file, *fresh;
    uint64_t now_us;
    uint64_t indexed, copied; /* how far the passes are, in the old file */
    uint64_t from;            /* records behind this were appended after the compaction began */
    uint64_t size;            /* of the new file */
    struct table by_id;
    struct last *all;
};

int compaction_new(struct journal_file *file, uint64_t size, uint64_t now_us, struct compaction **ret_compaction)
{
    struct compaction *compaction = file->fresh ? calloc(1, sizeof *compaction) : NULL;
    if (!compaction || table_init(&compaction->by_id) != PEN_OK) {
        free(compaction);
        return ENOMEM;
    }
    compaction->file = file;
    compaction->from = size;
    compaction->now_us = now_us;
    int error = file->fresh(file, &compaction->fresh);
    if (error != 0) {
        compaction->fresh = NULL;
        compaction_free(compaction);
        return error;
    }
    *ret_compaction = compaction;
    return 0;
}

void compaction_free(struct compaction *compaction)
{
    if (!compaction)
        return;
    if (compaction->fresh)
        compaction->file->abandon(compaction->file, compaction->fresh);
    while (compaction->all) {
        struct last *last = compaction->all;
        compaction->all = last->next;
        free(last);
    }
    table_fini(&compaction->by_id);
    free(compaction);
}

static struct last *find(const struct compaction *compaction, struct job_id id)
{
    struct table_node *node = table_first(&compaction->by_id, table_hash(&compaction->by_id, id.client, id.sequence));
    for (; node; node = table_next(&compaction->by_id, node)) {
        struct last *last = table_entry(node, struct last, by_id);
        if (job_id_equal(last->id, id))
            return last;
    }
    return NULL;
}

/* ---- which record is the last ---- */

static struct last *add(struct compaction *compaction, struct job_id id)
{
    struct last *last = calloc(1, sizeof *last);
    if (!last)
        return NULL;
    last->id = id;
    last->next = compaction->all;
    compaction->all = last;
    table_insert(&compaction->by_id, &last->by_id, table_hash(&compaction->by_id, id.client, id.sequence));
    return last;
}

static int note_record(struct compaction *compaction, const struct journal_record *record, uint64_t at)
{
    bool counts = record->type != JOURNAL_GONE && record->expires_us > compaction->now_us;
    struct last *last = find(compaction, record->id);
    if (!last && counts && !(last = add(compaction, record->id)))
        return ENOMEM;
    if (last)
        last->at = counts ? at : UINT64_MAX;
    return 0;
}

static int peek(const struct compaction *compaction, uint64_t at, struct journal_record *ret_record, uint64_t *ret_size)
{
    uint8_t header[JOURNAL_HEADER_BYTES];
    if (at + sizeof header > compaction->from)
        return EIO;
    int error = compaction->file->read(compaction->file, at, header, sizeof header);
    if (error != 0)
        return error;
    *ret_size = journal_peek(header, ret_record);
    /* a broken record: the old file is used on, and the next start handles it */
    return *ret_size == 0 || *ret_size > compaction->from - at ? EIO : 0;
}

static int index_some(struct compaction *compaction)
{
    int error = 0;
    for (unsigned i = 0; i < STEP_RECORDS && error == 0 && compaction->indexed < compaction->from; i++) {
        struct journal_record record;
        uint64_t size;
        error = peek(compaction, compaction->indexed, &record, &size);
        if (error == 0)
            error = note_record(compaction, &record, compaction->indexed);
        compaction->indexed += error ? 0 : size;
    }
    return error;
}

/* ---- copying ---- */

/* check: these bytes are one record, and must be a whole one. */
static int copy(struct compaction *compaction, uint64_t at, size_t size, bool check)
{
    struct journal_record record;
    uint8_t *bytes = malloc(size);
    int error = bytes ? compaction->file->read(compaction->file, at, bytes, size) : ENOMEM;
    if (error == 0 && check && journal_read(bytes, size, &record) != size)
        error = EIO;
    if (error == 0)
        error = compaction->fresh->write(compaction->fresh, bytes, size);
    compaction->size += error ? 0 : size;
    free(bytes);
    return error;
}

static int copy_some(struct compaction *compaction)
{
    int error = 0;
    uint64_t until = compaction->size + STEP_BYTES;
    for (unsigned i = 0; i < STEP_RECORDS && error == 0 && compaction->copied < compaction->from; i++) {
        struct journal_record record;
        uint64_t size;
        error = peek(compaction, compaction->copied, &record, &size);
        const struct last *last = error ? NULL : find(compaction, record.id);
        if (last && last->at == compaction->copied)
            error = copy(compaction, compaction->copied, (size_t)size, true);
        compaction->copied += error ? 0 : size;
        if (compaction->size >= until)
            break;
    }
    return error;
}

static int copy_tail(struct compaction *compaction, uint64_t size)
{
    PEN_ASSERT(compaction->copied >= compaction->from && compaction->copied < size,
               "what was appended during the compaction is copied last");
    uint64_t left = size - compaction->copied;
    size_t some = left < STEP_BYTES ? (size_t)left : STEP_BYTES;
    int error = copy(compaction, compaction->copied, some, false);
    compaction->copied += error ? 0 : some;
    return error;
}

static int take_place(struct compaction *compaction)
{
    PEN_ASSERT(compaction->size <= compaction->copied, "the new file has no more than was read of the old one");
    int error = compaction->fresh->sync(compaction->fresh);
    if (error == 0)
        error = compaction->file->replace(compaction->file, compaction->fresh);
    if (error == 0)
        compaction->fresh = NULL;
    return error;
}

bool compaction_step(struct compaction *compaction, uint64_t size, uint64_t *ret_size, int *ret_error)
{
    *ret_error = 0;
    if (compaction->indexed < compaction->from) {
        *ret_error = index_some(compaction);
        return false;
    }
    if (compaction->copied < compaction->from) {
        *ret_error = copy_some(compaction);
        return false;
    }
    if (compaction->copied < size)
        *ret_error = copy_tail(compaction, size);
    if (*ret_error != 0 || compaction->copied < size)
        return false;
    /* In the step that has caught up, because another batch may come before the next step. */
    *ret_error = take_place(compaction);
    if (*ret_error == 0)
        *ret_size = compaction->size;
    return *ret_error == 0;
}
