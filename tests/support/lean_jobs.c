#include "lean_jobs.h"

#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "onnx_file.h"
#include "onnx_writer.h"
#include "process.h"

#define ROW         1024u
#define LARGE_BYTES (192u * ROW)
#define WAIT_US     ((int64_t)support_slow(60000) * 1000)

enum { SMALL = 6, ALIKE = 2, MANY = 6, LARGE = 3, STEPS = 3, JOBS = SMALL + ALIKE + MANY + LARGE + STEPS + 2 };

static uint8_t bytes[LARGE_BYTES];
static float values[STEPS][2];

/* ---- models ------------------------------------------------------------------------------------------------------------------------ */

static void adder_write(const char *path)
{
    static const int64_t dims[2] = {1, 2};
    struct onnx_writer *w = onnx_writer_new("adder");
    onnx_writer_input(w, "x", 1, 2, dims, NULL);
    onnx_writer_input(w, "sum", 1, 2, dims, NULL);
    onnx_writer_output(w, "y", 1, 2, dims, NULL);
    onnx_writer_output(w, "total", 1, 2, dims, NULL);
    onnx_writer_node(w, "Add", ONNX_LIST("x", "sum"), ONNX_LIST("total"), NULL);
    onnx_writer_node(w, "Identity", ONNX_LIST("total"), ONNX_LIST("y"), NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

void lean_models(const char *folder)
{
    char file[FOLDER_PATH_BYTES + 32];
    onnx_identity_folder(folder, "wide");
    snprintf(file, sizeof file, "%s/file.onnx", folder);
    onnx_write_identity(file);
    model_folder_make(folder, "many", file, "{\"max_batch_size\": 8}");
    adder_write(file);
    model_folder_make(folder, "adder", file,
                      "{\"sequence_batching\":{\"state\":[{\"input_name\":\"sum\",\"output_name\":\"total\"}]}}");
    remove(file);
}

/* ---- jobs -------------------------------------------------------------------------------------------------------------------------- */

static void rows_of(struct pen_tensor *tensor, size_t rows, size_t from)
{
    *tensor = (struct pen_tensor){.name = "bytes",
                                  .dtype = PEN_DTYPE_U8,
                                  .rank = 2,
                                  .dims = {(int64_t)rows, ROW},
                                  .data = bytes + from * ROW,
                                  .bytes = rows * ROW};
}

static void step_of(struct pen_tensor *tensor, size_t step)
{
    values[step][0] = (float)(step + 1);
    values[step][1] = 10.0f;
    *tensor = (struct pen_tensor){
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 2}, .data = values[step], .bytes = 8};
}

static struct pen_job_options options_of(const char *model, const struct pen_tensor *tensor, unsigned flags)
{
    struct pen_job_options options;
    pen_job_options_init(&options, sizeof options);
    options.model = model;
    options.inputs = tensor;
    options.inputs_count = tensor ? 1 : 0;
    options.flags = flags;
    return options;
}

struct entry {
    struct pen_tensor tensor;
    pen_job *job;
    bool cancelled, follows; /* follows: ends CANCELLED after a step that did not end well */
    unsigned released;       /* times */
    bool borrowed;
};

static bool may_end(const struct entry *entry, enum pen_status status)
{
    switch (status) {
    case PEN_OK:
    case PEN_ERR_NO_MEMORY:
    case PEN_ERR_BUSY:        /* of a worker without memory for what is announced */
    case PEN_ERR_WORKER_LOST: /* given back too often */
    case PEN_ERR_UNAVAILABLE: /* no worker, or its connection was lost again and again */
        return true;
    case PEN_ERR_CANCELLED:
        return entry->cancelled || entry->follows;
    case PEN_ERR_NOT_FOUND: /* the sequence was begun by a job that failed */
        return entry->follows;
    default:
        return false;
    }
}

static void note(struct lean_tally *tally, const struct entry *entry, const pen_result *result)
{
    enum pen_status status = pen_result_status(result);
    tally->ended[status]++;
    if (!may_end(entry, status)) {
        tally->odd = status;
        snprintf(tally->sentence, sizeof tally->sentence, "%.250s", pen_result_error(result));
    }
    if (status != PEN_OK || entry->follows)
        return;
    const struct pen_tensor *copy = pen_result_find(result, "copy");
    tally->wrong +=
        !copy || copy->bytes != entry->tensor.bytes || memcmp(copy->data, entry->tensor.data, entry->tensor.bytes) != 0;
}

static void submitted(struct lean_tally *tally, struct entry *entry, enum pen_status status, const char *text)
{
    tally->submitted += status == PEN_OK;
    tally->refused += status != PEN_OK;
    if (status == PEN_OK)
        return;
    entry->job = NULL;
    if (status != PEN_ERR_NO_MEMORY) {
        tally->odd = status;
        snprintf(tally->sentence, sizeof tally->sentence, "at the submission: %.200s", text);
    }
}

static void submit(pen_client *client, const struct pen_job_options *options, struct entry *entry,
                   struct lean_tally *tally)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    submitted(tally, entry, pen_client_submit(client, options, &entry->job, &error), error.text);
}

static void released(void *arg)
{
    (*(unsigned *)arg)++;
}

static void submit_small(pen_client *client, unsigned seed, struct entry *entries, struct lean_tally *tally)
{
    for (size_t i = 0; i < SMALL + ALIKE; i++) {
        rows_of(&entries[i].tensor, i < SMALL ? 1 + (seed + 5 * i) % 30 : 2, i < SMALL ? i : 40);
        struct pen_job_options options = options_of("wide", &entries[i].tensor, i < SMALL ? PEN_JOB_NO_CACHE : 0);
        options.flags |= i == 1 ? PEN_JOB_EXPLAIN | PEN_JOB_TRACE : i == 2 ? PEN_JOB_LAYERS : 0;
        options.flags |= i == 3 || i == 4 ? PEN_JOB_ORDERED : 0;
        submit(client, &options, &entries[i], tally);
    }
}

static void submit_many(pen_client *client, struct entry *entries, struct lean_tally *tally)
{
    struct pen_job_options options[MANY];
    pen_job *jobs[MANY] = {NULL};
    struct pen_error error = {.status = PEN_OK, .text = ""};
    for (size_t i = 0; i < MANY; i++) {
        rows_of(&entries[i].tensor, 1, 60 + i);
        options[i] = options_of("many", &entries[i].tensor, PEN_JOB_NO_CACHE);
    }
    enum pen_status status = pen_client_submit_many(client, options, MANY, jobs, &error);
    for (size_t i = 0; i < MANY; i++) {
        entries[i].job = jobs[i];
        submitted(tally, &entries[i], status, error.text);
    }
}

static void submit_large(pen_client *client, struct entry *entries, struct lean_tally *tally)
{
    for (size_t i = 0; i < LARGE; i++) {
        rows_of(&entries[i].tensor, LARGE_BYTES / ROW - i, i);
        struct pen_job_options options = options_of("wide", &entries[i].tensor, PEN_JOB_NO_CACHE);
        entries[i].borrowed = i == 1;
        if (entries[i].borrowed) {
            options.flags |= PEN_JOB_BORROW;
            options.release = released;
            options.release_arg = &entries[i].released;
        }
        submit(client, &options, &entries[i], tally);
    }
}

static void submit_steps(pen_client *client, unsigned seed, struct entry *entries, struct lean_tally *tally)
{
    for (size_t i = 0; i < STEPS; i++) {
        step_of(&entries[i].tensor, i);
        struct pen_job_options options = options_of("adder", &entries[i].tensor, 0);
        options.sequence_id = seed + 1;
        options.flags = i == 0 ? PEN_JOB_SEQUENCE_START : i + 1 == STEPS ? PEN_JOB_SEQUENCE_END : 0;
        entries[i].follows = true;
        submit(client, &options, &entries[i], tally);
    }
}

/* The second is large: its payload is under way. */
static void submit_cancelled(pen_client *client, struct entry *entries, struct lean_tally *tally)
{
    for (size_t i = 0; i < 2; i++) {
        rows_of(&entries[i].tensor, i == 0 ? 1 : 128, 20);
        struct pen_job_options options = options_of("wide", &entries[i].tensor, PEN_JOB_NO_CACHE);
        entries[i].cancelled = true;
        submit(client, &options, &entries[i], tally);
        if (entries[i].job)
            pen_job_cancel(entries[i].job);
    }
}

/* A sum is right only when every step that was submitted until then is in it once. */
static void steps_check(const struct entry *entries, const float *sums, const bool *good, struct lean_tally *tally)
{
    float sum = 0;
    for (size_t i = 0; i < STEPS; i++) {
        sum += entries[i].job ? values[i][0] : 0.0f;
        tally->wrong += good[i] && sums[i] != sum;
    }
}

static void collect(struct entry *entries, struct lean_tally *tally)
{
    float sums[STEPS] = {0};
    bool good[STEPS] = {false};
    size_t first_step = SMALL + ALIKE + MANY + LARGE;
    for (size_t i = 0; i < JOBS; i++) {
        struct entry *entry = &entries[i];
        pen_result *result = NULL;
        if (!entry->job)
            continue;
        if (pen_job_wait(entry->job, WAIT_US, &result, NULL) != PEN_OK) {
            tally->lost++;
            snprintf(tally->sentence, sizeof tally->sentence, "job %zu of the table", i);
            pen_job_free(entry->job);
            continue;
        }
        note(tally, entry, result);
        const struct pen_tensor *y = pen_result_find(result, "y");
        if (entry->follows && y && y->bytes == 8) {
            good[i - first_step] = true;
            memcpy(&sums[i - first_step], y->data, sizeof sums[0]);
        }
        pen_result_free(result);
        tally->twice += pen_job_wait(entry->job, 0, &result, NULL) == PEN_OK;
        pen_job_free(entry->job);
    }
    steps_check(entries + first_step, sums, good, tally);
}

/* ---- detached ---------------------------------------------------------------------------------------------------------------------- */

struct told {
    unsigned times;
    enum pen_status status;
};

static void told(pen_job *job, pen_result *result, void *arg)
{
    struct told *mine = arg;
    (void)job;
    mine->times++;
    mine->status = pen_result_status(result);
    pen_result_free(result);
}

/* False: it did not end with PEN_OK. */
static bool leave(pen_client *client, char id[PEN_JOB_ID_BYTES], struct lean_tally *tally)
{
    struct entry entry = {.cancelled = false};
    pen_result *result = NULL;
    rows_of(&entry.tensor, 2, 33);
    struct pen_job_options options = options_of("wide", &entry.tensor, PEN_JOB_DETACHED);
    options.detached_secret = "who knows this may cancel it";
    submit(client, &options, &entry, tally);
    if (!entry.job)
        return false;
    pen_job_id(entry.job, id);
    enum pen_status status = pen_job_wait(entry.job, WAIT_US, &result, NULL);
    tally->lost += status != PEN_OK;
    if (status == PEN_OK) {
        status = pen_result_status(result);
        tally->ended[status]++;
        tally->odd = may_end(&entry, status) ? tally->odd : status;
        pen_result_free(result);
    }
    pen_job_free(entry.job);
    return status == PEN_OK;
}

static void subscribe(pen_client *client, const char *id, struct lean_tally *tally)
{
    struct entry entry = {.cancelled = false};
    struct told mine = {0};
    struct pen_job_options options = options_of(NULL, NULL, 0);
    options.detached = id;
    options.callback = told;
    options.callback_arg = &mine;
    submit(client, &options, &entry, tally);
    if (!entry.job)
        return;
    uint64_t until_us = support_now_us() + (uint64_t)WAIT_US;
    while (mine.times == 0 && support_now_us() < until_us)
        pen_client_dispatch(client, 100000);
    tally->lost += mine.times == 0;
    tally->twice += mine.times > 1;
    tally->ended[mine.status] += mine.times;
    tally->odd = may_end(&entry, mine.status) ? tally->odd : mine.status;
    pen_job_free(entry.job);
}

void lean_jobs(pen_client *client, unsigned seed, bool detached, struct lean_tally *tally)
{
    struct entry entries[JOBS] = {{.job = NULL}}, *at = entries;
    char id[PEN_JOB_ID_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(seed * 31 + i * 7 + i / ROW);
    memcpy(bytes, &seed, sizeof seed);
    submit_small(client, seed, at, tally);
    submit_many(client, at += SMALL + ALIKE, tally);
    submit_large(client, at += MANY, tally);
    submit_steps(client, seed, at += LARGE, tally);
    submit_cancelled(client, at += STEPS, tally);
    collect(entries, tally);
    for (size_t i = 0; i < JOBS; i++)
        tally->twice += entries[i].released > 1;
    if (detached && leave(client, id, tally))
        subscribe(client, id, tally);
}

enum pen_status lean_job_one(pen_client *client, const char *model, unsigned seed)
{
    struct pen_tensor tensor;
    pen_result *result = NULL;
    rows_of(&tensor, 1, 7);
    memcpy(bytes + 7 * ROW, &seed, sizeof seed);
    struct pen_job_options options = options_of(model, &tensor, PEN_JOB_NO_CACHE);
    options.deadline_us = (uint64_t)WAIT_US;
    enum pen_status status = pen_client_run(client, &options, &result, NULL);
    if (status == PEN_OK && memcmp(pen_result_find(result, "copy")->data, tensor.data, ROW) != 0)
        status = PEN_ERR_CORRUPT;
    pen_result_free(result);
    return status;
}
