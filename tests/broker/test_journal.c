/*
 * Journals of other versions: what older brokers wrote is read, run and told; what a later one wrote is left as it is.
 *
 * journals/tenant_only.journal was written by the first broker that had a journal, before keys and secrets; version_1_0 by the last one of protocol 1.0; version_1_1
 * by one of 1.1. Each holds two jobs of model echo, x u8 [1,4]: of 1s, which has run there (result and request), and of 2s, which waited when that broker was killed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detached.h"
#include "desk.h"
#include "folder.h"
#include "journal.h"
#include "owner.h"
#include "paper.h"

#define FAR_US    (4102444800u * UINT64_C(1000000)) /* 2100 */
#define DIGEST_AT 40u

static const struct {
    const char *file;
    bool secret; /* of the job that waits */
} written[] = {{"tenant_only", false}, {"version_1_0", true}, {"version_1_1", true}};

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 1};

static struct paper *paper;
static struct journal *journal;
static struct desk *desk;

static void begin(void)
{
    paper = paper_new();
    desk = desk_new();
    desk_open(desk);
}

static void end(void)
{
    desk_free(desk);
    free(paper);
}

TestSuite(journal, .init = begin, .fini = end);

static enum pen_status open_journal(void)
{
    paper->written = paper->synced;
    cr_assert_eq(journal_open_file(&paper->file, paper->synced, 1 << 20, &journal), PEN_OK);
    return detached_open_journal(&desk->broker, journal, paper->bytes, paper->synced);
}

static void put(struct journal_record record)
{
    uint8_t *to = paper->bytes + paper->synced;
    cr_assert(journal_header(to, &record));
    if (record.bytes)
        memcpy(to + JOURNAL_HEADER_BYTES, record.payload, record.bytes);
    paper->synced += JOURNAL_HEADER_BYTES + record.bytes;
}

/* The file's records, as they are but for their end, which was a year after they were written. */
static void put_file(const char *name, struct job_id ids[2])
{
    char path[512];
    size_t size, at = 0, used, accepted = 0;
    struct journal_record record;
    snprintf(path, sizeof path, "%s/tests/broker/journals/%s.journal", PENSTOCK_SOURCE, name);
    uint8_t *bytes = file_read(path, &size);
    while ((used = journal_read(bytes + at, size - at, &record)) > 0) {
        if (record.type == JOURNAL_ACCEPTED) {
            cr_assert_lt(accepted, 2u);
            ids[accepted++] = record.id;
        }
        record.expires_us = FAR_US;
        put(record);
        at += used;
    }
    free(bytes);
    cr_assert_eq(at, size, "every byte is understood");
    cr_assert_eq(accepted, 2u);
}

static struct sent *fetch(uint64_t sequence, struct job_id id)
{
    uint8_t meta[256];
    char name[JOB_ID_TEXT_BYTES];
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    job_id_text(id, name);
    job.detached = name;
    env.job = (struct job_id){0xDEF, sequence};
    env.flags = FRAME_FLAG_FETCH;
    desk_say_client(desk, 1, env, meta, penstock__job_meta__pack(&job, meta), 0);
    return desk_next(&desk->clients, FRAME_RESULT);
}

static void check_first_byte(struct sent *sent, uint8_t expected)
{
    cr_assert_not_null(sent);
    cr_assert_eq(sent->env.status, PEN_OK);
    Penstock__ResultMeta *result = sent_result(sent);
    cr_assert_eq(result->n_outputs, 1u);
    cr_assert_eq(result->outputs[0]->data.data[0], expected);
    penstock__result_meta__free_unpacked(result, NULL);
}

Test(journal, older_brokers_jobs_are_run_and_told)
{
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        struct job_id ids[2];
        struct owner owner;
        if (i > 0) {
            end();
            begin();
        }
        put_file(written[i].file, ids);
        cr_assert_eq(open_journal(), PEN_OK, "%s", written[i].file);
        cr_assert_eq(detached_count(desk->broker.detached), 2u);
        desk_client(desk, 1, 0xDEF);
        check_first_byte(fetch(1, ids[0]), 1);
        cr_assert_null(fetch(2, ids[1]), "it waits");
        owner = (struct owner){.tenant = "default"};
        cr_assert(owner_unlock("open sesame", &owner));
        cr_assert_eq(detached_owned(&desk->broker, ids[1], &owner), written[i].secret, "whose it is was read, too");
        struct wire_worker one = {.uuid = 1, .name = "w", .slots = 1, .models = &echo, .models_count = 1};
        desk_worker(desk, 901, &one);
        cr_assert_eq(desk_pending(&desk->workers, FRAME_SUBMIT), 1u, "what has run does not run again");
        desk_result(desk, 901, ids[1], 0, 42);
        check_first_byte(desk_next(&desk->clients, FRAME_RESULT), 42);
    }
}

/* A record that a later version might write: its type is new, or its payload, or its form. */
static void put_newer(unsigned kind)
{
    static const uint8_t payload[] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    struct journal_record record = {.type = (enum journal_type)(kind == 0 ? JOURNAL_GONE + 1 : JOURNAL_ACCEPTED),
                                    .id = {0xABC, 9},
                                    .expires_us = FAR_US,
                                    .payload = payload,
                                    .bytes = sizeof payload};
    size_t at = paper->synced;
    put(record);
    if (kind == 2)
        paper->bytes[at + 3] = '2';
}

Test(journal, later_versions_records_are_not_taken_for_torn)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct job_id ids[2];
        if (kind > 0) {
            end();
            begin();
        }
        put_file(written[2].file, ids);
        put_newer(kind);
        cr_assert_eq(open_journal(), PEN_ERR_VERSION, "kind %u", kind);
    }
}

Test(journal, torn_tail_is_cut_off_whatever_it_was)
{
    struct job_id ids[2];
    put_file(written[2].file, ids);
    size_t whole = paper->synced, full;
    put_newer(0);
    full = paper->synced;
    for (size_t size = whole; size < full; size++) {
        cr_assert_not(journal_newer(paper->bytes + whole, size - whole), "%zu bytes", size - whole);
    }
    cr_assert(journal_newer(paper->bytes + whole, full - whole));
    paper->bytes[whole + DIGEST_AT] ^= 1;
    cr_assert_not(journal_newer(paper->bytes + whole, full - whole), "its digest is not right");
    memset(paper->bytes + whole, 0, full - whole);
    cr_assert_not(journal_newer(paper->bytes + whole, full - whole), "room that was never written");
    cr_assert_eq(open_journal(), PEN_OK);
    cr_assert_eq(detached_count(desk->broker.detached), 2u);
}

/* A real file: what it holds stays, and the sentence says where and what to do. */
static void check_left(const char *path, const void *bytes, size_t size, enum pen_status expected, const char *says)
{
    size_t left;
    struct pen_error error = {0};
    file_write(path, bytes, size);
    cr_assert_eq(detached_open(&desk->broker, path, &error), expected, "%s", error.text);
    cr_assert_not_null(strstr(error.text, says), "%s", error.text);
    cr_assert_not_null(strstr(error.text, "left as it is"), "%s", error.text);
    uint8_t *after = file_read(path, &left);
    cr_assert_eq(left, size);
    cr_assert_arr_eq(after, bytes, size);
    free(after);
}

Test(journal, later_versions_file_is_left_as_it_is)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    struct job_id ids[2];
    folder_new(folder);
    snprintf(path, sizeof path, "%s/journal", folder);
    put_file(written[0].file, ids);
    put_newer(0);
    check_left(path, paper->bytes, paper->synced, PEN_ERR_VERSION, "later version");
    folder_free(folder);
}

/* The header of the first is whole: it says where the second begins. */
Test(journal, broken_record_costs_no_other_job)
{
    struct job_id ids[2];
    struct journal_record record;
    put_file(written[2].file, ids);
    size_t first = journal_read(paper->bytes, paper->synced, &record);
    cr_assert_gt(first, JOURNAL_HEADER_BYTES);
    paper->bytes[first - 1] ^= 1;
    cr_assert_eq(open_journal(), PEN_OK);
    cr_assert_eq(detached_count(desk->broker.detached), 2u,
                 "the record that is broken was void, those behind it count");
}

/* At its start a broker writes the file anew, with what still counts. */
Test(journal, the_file_of_a_broker_that_has_started_holds_whole_records_and_nothing_else)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    struct job_id ids[2];
    struct pen_error error = {0};
    struct journal_record record;
    size_t size = 0, at = 0, used, count = 0;
    folder_new(folder);
    snprintf(path, sizeof path, "%s/journal", folder);
    put_file(written[2].file, ids);
    file_write(path, paper->bytes, paper->synced);
    cr_assert_eq(detached_open(&desk->broker, path, &error), PEN_OK, "%s", error.text);
    uint8_t *bytes = file_read(path, &size);
    for (; (used = journal_read(bytes + at, size - at, &record)) > 0; at += used)
        count++;
    cr_expect(at == size && size > 0 && size <= paper->synced, "%zu of %zu bytes", at, size);
    cr_expect(count >= 2, "%zu records", count);
    free(bytes);
    folder_free(folder);
}

/* A limit for files stands for a disk that has no room for a second one. */
Test(journal, full_disk_keeps_no_broker_from_starting)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16], fresh[FOLDER_PATH_BYTES + 24];
    struct job_id ids[2];
    struct pen_error error = {0};
    struct rlimit tight = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY}, wide = {RLIM_INFINITY, RLIM_INFINITY};
    struct stat facts;
    folder_new(folder);
    snprintf(path, sizeof path, "%s/journal", folder);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    put_file(written[2].file, ids);
    file_write(path, paper->bytes, paper->synced);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    enum pen_status status = detached_open(&desk->broker, path, &error);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &wide), 0);
    cr_assert_eq(status, PEN_OK, "%s", error.text);
    cr_assert_eq(detached_count(desk->broker.detached), 2u);
    cr_assert_eq(stat(path, &facts), 0);
    cr_assert_eq((size_t)facts.st_size, paper->synced, "the old file goes on");
    cr_assert_neq(access(fresh, F_OK), 0, "what did not become whole takes no room");
    folder_free(folder);
}

/* ---- the file itself ---- */

Test(journal_file, what_is_written_is_read_and_a_new_file_takes_its_place_or_goes)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16], beside[FOLDER_PATH_BYTES + 32], text[8] = "";
    struct journal_file file, *fresh = NULL;
    struct pen_error error;
    struct stat facts;
    folder_new(folder);
    snprintf(path, sizeof path, "%s/j", folder);
    snprintf(beside, sizeof beside, "%s.new", path);
    cr_assert_eq(journal_file_open(path, 0, &file, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(file.write(&file, "abcdef", 6), 0);
    cr_expect_eq(file.sync(&file), 0);
    cr_expect(file.read(&file, 2, text, 3) == 0 && strcmp(text, "cde") == 0, "%s", text);
    cr_expect_eq(file.read(&file, 4, text, 3), EIO, "beyond its end");
    close(file.fd);

    cr_assert_eq(journal_file_open(path, 4, &file, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(file.write(&file, "XY", 2), 0);
    cr_expect(file.read(&file, 0, text, 6) == 0 && strcmp(text, "abcdXY") == 0, "what is behind 4 bytes is void: %s",
              text);

    cr_assert_eq(file.fresh(&file, &fresh), 0);
    cr_expect(stat(beside, &facts) == 0 && facts.st_size == 0);
    file.abandon(&file, fresh);
    cr_expect(stat(beside, &facts) != 0, "nothing is left of it");

    cr_assert_eq(file.fresh(&file, &fresh), 0);
    cr_expect_eq(fresh->write(fresh, "new", 3), 0);
    cr_expect_eq(file.replace(&file, fresh), 0);
    cr_expect(stat(beside, &facts) != 0 && stat(path, &facts) == 0 && facts.st_size == 3);
    cr_expect_eq(file.write(&file, "er", 2), 0, "it goes on behind that");
    memset(text, 0, sizeof text);
    cr_expect(file.read(&file, 0, text, 5) == 0 && strcmp(text, "newer") == 0, "%s", text);
    close(file.fd);
    folder_free(folder);
}
