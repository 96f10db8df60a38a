/* Sequences: a model's state stays on a worker from job to job; the chunked run is the run of one session. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "digits.h"
#include "folder.h"
#include "onnx_writer.h"
#include "pool.h"

#define SHARED PENSTOCK_SOURCE "/../shared/models/onnx/"
#define CHUNK  576
#define STATE  (2 * 128)
#define CHUNKS 24

static char root[FOLDER_PATH_BYTES];
static struct pool pool;
static pen_client *client;

static void put_config(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/config.json", root, name);
    file_write(path, text, strlen(text));
}

static void put_file(const char *name, const char *from)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/1", root, name);
    folder_make(path);
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", root, name);
    file_copy(from, path);
}

/* float32 [1, 2]: y = total = x + sum; "sum" is the state and "total" what it becomes. */
static void put_adder(const char *more)
{
    static const int64_t dims[2] = {1, 2};
    char path[512], config[512];
    struct onnx_writer *w = onnx_writer_new("adder");
    onnx_writer_input(w, "x", 1, 2, dims, NULL);
    onnx_writer_input(w, "sum", 1, 2, dims, NULL);
    onnx_writer_output(w, "y", 1, 2, dims, NULL);
    onnx_writer_output(w, "total", 1, 2, dims, NULL);
    onnx_writer_node(w, "Add", ONNX_LIST("x", "sum"), ONNX_LIST("total"), NULL);
    onnx_writer_node(w, "Identity", ONNX_LIST("total"), ONNX_LIST("y"), NULL);
    snprintf(path, sizeof path, "%s/adder/1", root);
    folder_make(path);
    snprintf(path, sizeof path, "%s/adder/1/model.onnx", root);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
    snprintf(config, sizeof config,
             "{\"sequence_batching\":{%s\"state\":[{\"input_name\":\"sum\",\"output_name\":\"total\"}]}}", more);
    put_config("adder", config);
}

static void setup(void)
{
    folder_new(root);
    pool_start(&pool, NULL);
    client = NULL;
}

static void teardown(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(root);
}

TestSuite(sequences, .init = setup, .fini = teardown, .timeout = 120);

static pen_job *submit(const char *model, const struct pen_tensor *inputs, size_t count, uint64_t sequence,
                       unsigned flags)
{
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_job *job = NULL;
    pen_job_options_init(&options, sizeof options);
    options.model = model;
    options.inputs = inputs;
    options.inputs_count = count;
    options.sequence_id = sequence;
    options.flags = flags;
    cr_assert(pen_client_submit(client, &options, &job, &error) == PEN_OK, "%s", error.text);
    return job;
}

static pen_result *wait(pen_job *job)
{
    pen_result *result = NULL;
    struct pen_error error = {0};
    cr_assert(pen_job_wait(job, (int64_t)support_slow(30000) * 1000, &result, &error) == PEN_OK, "%s", error.text);
    pen_job_free(job);
    return result;
}

/* ---- the adder ---- */

static pen_job *add(uint64_t sequence, float value, unsigned flags)
{
    float pair[2] = {value, 2 * value};
    struct pen_tensor x = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 2}, .data = pair, .bytes = sizeof pair};
    return submit("adder", &x, 1, sequence, flags);
}

static void expect_sum(pen_job *job, float sum)
{
    float y[2];
    pen_result *result = wait(job);
    cr_assert(pen_result_status(result) == PEN_OK, "%s", pen_result_error(result));
    cr_assert(pen_result_outputs(result) == 1, "the state does not travel");
    memcpy(y, pen_result_find(result, "y")->data, sizeof y);
    cr_expect(y[0] == sum && y[1] == 2 * sum, "%g, not %g", (double)y[0], (double)sum);
    cr_expect(!pen_result_info(result)->cached);
    pen_result_free(result);
}

static void expect_error(pen_job *job, enum pen_status status, const char *words)
{
    pen_result *result = wait(job);
    cr_expect(pen_result_status(result) == status, "%s: %s", pen_status_name(pen_result_status(result)),
              pen_result_error(result));
    cr_expect(strstr(pen_result_error(result), words), "'%s' is not in '%s'", words, pen_result_error(result));
    pen_result_free(result);
}

static void adder_pool(const char *more, size_t workers)
{
    put_adder(more);
    for (size_t i = 0; i < workers; i++)
        pool_add_worker(&pool, "reference", root, NULL);
    client = digits_client(pool.clients);
}

Test(sequences, many_sequences_keep_their_order_and_their_own_state)
{
    enum { SEQUENCES = 8, JOBS = 25 };
    pen_job *jobs[SEQUENCES][JOBS];
    adder_pool("", 2);
    for (unsigned j = 0; j < JOBS; j++)
        for (unsigned s = 0; s < SEQUENCES; s++)
            jobs[s][j] = add(s + 1, (float)(j + s),
                             (j == 0 ? PEN_JOB_SEQUENCE_START : 0u) | (j + 1 == JOBS ? PEN_JOB_SEQUENCE_END : 0u));
    for (unsigned s = 0; s < SEQUENCES; s++) {
        float sum = 0;
        for (unsigned j = 0; j < JOBS; j++)
            expect_sum(jobs[s][j], sum += (float)(j + s));
    }
    expect_error(add(1, 1, 0), PEN_ERR_NOT_FOUND, "is not open here"); /* its last job was its end */
}

Test(sequences, what_does_not_belong_is_refused_with_a_sentence)
{
    adder_pool("", 1);
    expect_error(add(0, 1, 0), PEN_ERR_INVALID, "keeps state between jobs: name a sequence");
    expect_error(add(5, 1, 0), PEN_ERR_NOT_FOUND, "sequence 5 is not open here");
    expect_sum(add(5, 1, PEN_JOB_SEQUENCE_START), 1);
    expect_sum(add(5, 1, 0), 2);
    expect_sum(add(5, 7, PEN_JOB_SEQUENCE_START), 7); /* begun anew */
    float row[2] = {1, 2};
    struct pen_tensor wrong = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {2}, .data = row, .bytes = sizeof row};
    expect_error(submit("adder", &wrong, 1, 5, 0), PEN_ERR_SHAPE, "'x'");
    expect_error(add(5, 1, 0), PEN_ERR_CANCELLED, "sequence 5 has ended: a job of it was refused");
    struct pen_tensor state = {
        .name = "sum", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 2}, .data = row, .bytes = sizeof row};
    expect_error(submit("adder", &state, 1, 6, PEN_JOB_SEQUENCE_START), PEN_ERR_NOT_FOUND, "no input 'sum'");
}

Test(sequences, a_silent_one_ends_by_its_idle_time)
{
    adder_pool("\"max_sequence_idle_microseconds\":50000,", 1);
    expect_sum(add(3, 1, PEN_JOB_SEQUENCE_START), 1);
    cr_assert(process_wait_text(pool.broker, "evt=sequence_ended", 10000));
    expect_error(add(3, 1, 0), PEN_ERR_TIMEOUT, "no job of it came for 50000 us");
    expect_sum(add(3, 4, PEN_JOB_SEQUENCE_START), 4);
}

Test(sequences, those_of_a_lost_worker_end_and_do_not_begin_anew)
{
    adder_pool("", 1);
    expect_sum(add(3, 1, PEN_JOB_SEQUENCE_START), 1);
    process_signal(pool.workers[0], SIGKILL);
    cr_assert(process_wait_text(pool.broker, "evt=sequence_ended", 10000));
    pool_add_worker(&pool, "reference", root, NULL); /* it could run the job, but has not the state */
    expect_error(add(3, 1, 0), PEN_ERR_WORKER_LOST, "which kept its state, was lost");
    expect_sum(add(3, 9, PEN_JOB_SEQUENCE_START), 9);
}

Test(sequences, those_of_a_draining_worker_end)
{
    adder_pool("", 1);
    expect_sum(add(3, 1, PEN_JOB_SEQUENCE_START), 1);
    pool_add_worker(&pool, "reference", root, NULL);
    cr_expect(process_stop(pool.workers[0], 10000) == 0);
    cr_assert(process_wait_text(pool.broker, "evt=sequence_ended", 10000));
    expect_error(add(3, 1, 0), PEN_ERR_UNAVAILABLE, "is draining");
    expect_sum(add(3, 2, PEN_JOB_SEQUENCE_START), 2);
}

Test(sequences, those_of_an_unloaded_model_end)
{
    char *out = NULL, *err = NULL;
    adder_pool("", 1);
    expect_sum(add(3, 1, PEN_JOB_SEQUENCE_START), 1);
    cr_assert(pool_cli(&pool, "model", (const char *const[]){"unload", "adder", NULL}, &out, &err) == 0, "%s", err);
    free(out);
    free(err);
    cr_assert(process_wait_text(pool.broker, "evt=sequence_ended", 10000));
    cr_assert(pool_cli(&pool, "model", (const char *const[]){"load", "adder", NULL}, &out, &err) == 0, "%s", err);
    free(out);
    free(err);
    expect_error(add(3, 1, 0), PEN_ERR_UNAVAILABLE, "does not serve the model any more");
}

Test(sequences, a_worker_takes_no_more_than_its_memory_and_its_limit)
{
    put_adder("\"oldest\":{\"max_candidate_sequences\":2},");
    pool_add_worker(&pool, "reference", root, NULL);
    client = digits_client(pool.clients);
    expect_sum(add(1, 1, PEN_JOB_SEQUENCE_START), 1);
    expect_sum(add(2, 1, PEN_JOB_SEQUENCE_START), 1);
    expect_error(add(3, 1, PEN_JOB_SEQUENCE_START), PEN_ERR_BUSY, "max_candidate_sequences");
    expect_sum(add(1, 1, PEN_JOB_SEQUENCE_END), 2); /* makes room */
    expect_sum(add(3, 1, PEN_JOB_SEQUENCE_START), 1);
    process_stop(pool.workers[0], 10000);
    pool_add_worker(&pool, "reference", root, (const char *const[]){"--sequence-memory", "12", NULL});
    expect_sum(add(8, 1, PEN_JOB_SEQUENCE_START), 1); /* 8 bytes */
    expect_error(add(9, 1, PEN_JOB_SEQUENCE_START), PEN_ERR_BUSY, "--sequence-memory");
}

Test(sequences, the_files_of_a_submit_are_a_sequence)
{
    char *out = NULL, *err = NULL, path[3][FOLDER_PATH_BYTES + 32];
    put_adder("");
    pool_add_worker(&pool, "reference", root, NULL);
    for (int i = 0; i < 3; i++) {
        const float pair[2] = {(float)(i + 1), 0};
        snprintf(path[i], sizeof path[i], "%s/%d.raw", root, i);
        file_write(path[i], pair, sizeof pair);
    }
    cr_expect(pool_cli(&pool, "submit",
                       (const char *const[]){"adder", path[0], path[1], path[2], "--sequence", "4", "--json", NULL},
                       &out, &err) == 0,
              "%s", err);
    const char *one = strstr(out, "\"values\":"), *two = one ? strstr(one + 1, "\"values\":") : NULL,
               *three = two ? strstr(two + 1, "\"values\":") : NULL;
    cr_assert(three, "%s", out);
    cr_expect(strtof(strchr(one, '[') + 1, NULL) == 1 && strtof(strchr(two, '[') + 1, NULL) == 3 &&
                  strtof(strchr(three, '[') + 1, NULL) == 6,
              "%s", out);
    free(out);
    free(err);
}

/* ---- real models ---- */

static bool have_shared(const char *name)
{
    struct stat info;
    char path[512];
    snprintf(path, sizeof path, "%s%s", SHARED, name);
    if (stat(path, &info) == 0)
        return true;
    cr_assert(stat(SHARED, &info) != 0, "../shared has no %s", name);
    cr_skip("%s is not here", path);
    return false;
}

static const char *shared_file(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s%s", SHARED, name);
    return path;
}

static float *golden(const char *name, size_t count)
{
    size_t bytes = 0;
    float *values = file_read(shared_file(name), &bytes);
    cr_assert(bytes == count * sizeof(float), "%s has %zu bytes", name, bytes);
    return values;
}

/* As sound: a tone that changes. */
static void chunk_make(int index, float *samples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        samples[i] = 0.4f * sinf((float)(i + (size_t)index * count) * (0.05f + 0.01f * (float)(index % 7)));
}

static struct pen_tensor floats(const char *name, const float *data, uint32_t rank, int64_t a, int64_t b, int64_t c,
                                int64_t d)
{
    struct pen_tensor t = {.name = name, .dtype = PEN_DTYPE_F32, .rank = rank, .dims = {a, b, c, d}, .data = data};
    t.bytes = sizeof(float);
    for (uint32_t i = 0; i < rank; i++)
        t.bytes *= (size_t)t.dims[i];
    return t;
}

static void take(const pen_result *result, const char *name, float *values, size_t count)
{
    cr_assert(pen_result_status(result) == PEN_OK, "%s", pen_result_error(result));
    const struct pen_tensor *t = pen_result_find(result, name);
    cr_assert(t && t->bytes == count * sizeof(float), "%s", name);
    memcpy(values, t->data, count * sizeof(float));
}

static void expect_near(const float *a, const float *b, size_t count, float bound, const char *what, int chunk)
{
    for (size_t i = 0; i < count; i++)
        cr_assert(fabsf(a[i] - b[i]) <= bound, "%s, chunk %d, value %zu: %g, not %g", what, chunk, i, (double)a[i],
                  (double)b[i]);
}

/* Begins with the golden case's state, from a file. */
static const char vad_config[] =
    "{\"max_batch_size\":0,\"sequence_batching\":{\"state\":[{\"input_name\":\"state\",\"output_name\":\"stateN\","
    "\"data_type\":\"TYPE_FP32\",\"dims\":[2,1,128],\"initial_state\":[{\"data_file\":\"begin.bin\"}]}]}}";

Test(sequences, voice_activity_in_chunks_is_that_of_one_session)
{
    static float samples[CHUNKS][CHUNK];
    static const int64_t rate = 16000;
    const struct pen_tensor sr = {.name = "sr", .dtype = PEN_DTYPE_I64, .data = &rate, .bytes = sizeof rate};
    char path[512];
    pen_job *jobs[CHUNKS];
    float kept, own, state[STATE], next[STATE];
    if (!have_shared("silero_vad_16k"))
        return;
    float *first = golden("silero_vad_16k/golden/sine.in0.bin", CHUNK),
          *begin = golden("silero_vad_16k/golden/sine.in1.bin", STATE),
          *wanted = golden("silero_vad_16k/golden/sine.out0.bin", 1);
    put_file("vad", shared_file("silero_vad_16k/model.onnx"));
    put_file("plain", shared_file("silero_vad_16k/model.onnx"));
    put_config("vad", vad_config);
    put_config("plain", "{\"max_batch_size\":0}");
    snprintf(path, sizeof path, "%s/vad/begin.bin", root);
    file_write(path, begin, STATE * sizeof(float));
    pool_add_worker(&pool, "xnnpack", root, NULL);
    pool_add_worker(&pool, "xnnpack", root, NULL);
    client = digits_client(pool.clients);
    for (int i = 0; i < CHUNKS; i++) {
        if (i == 0)
            memcpy(samples[i], first, sizeof samples[i]);
        else
            chunk_make(i, samples[i], CHUNK);
        const struct pen_tensor inputs[2] = {floats("input", samples[i], 2, 1, CHUNK, 0, 0), sr};
        jobs[i] = submit("vad", inputs, 2, 77,
                         (i == 0 ? PEN_JOB_SEQUENCE_START : 0u) | (i + 1 == CHUNKS ? PEN_JOB_SEQUENCE_END : 0u));
    }
    memcpy(state, begin, sizeof state);
    for (int i = 0; i < CHUNKS; i++) {
        const struct pen_tensor inputs[3] = {floats("input", samples[i], 2, 1, CHUNK, 0, 0),
                                             floats("state", state, 3, 2, 1, 128, 0), sr};
        pen_result *result = wait(jobs[i]), *plain = wait(submit("plain", inputs, 3, 0, PEN_JOB_NO_CACHE));
        cr_assert(pen_result_outputs(result) == 1, "%s", pen_result_error(result));
        take(result, "output", &kept, 1);
        take(plain, "output", &own, 1);
        take(plain, "stateN", next, STATE);
        expect_near(&kept, &own, 1, 1e-6f, "output", i);
        if (i == 0)
            expect_near(&kept, wanted, 1, 1e-4f, "the golden output", i);
        memcpy(state, next, sizeof state);
        pen_result_free(result);
        pen_result_free(plain);
    }
    free(first);
    free(begin);
    free(wanted);
}

Test(sequences, denoising_in_chunks_is_that_of_one_session)
{
    enum { BINS = 257, KEPT = 2 * 128 * 2 };
    static float spectra[CHUNKS][BINS];
    pen_job *jobs[CHUNKS];
    float kept[BINS], own[BINS], state[KEPT] = {0}, next[KEPT];
    if (!have_shared("dtln_1"))
        return;
    float *first = golden("dtln_1/golden/zero_state.in0.bin", BINS),
          *wanted = golden("dtln_1/golden/zero_state.out0.bin", BINS);
    put_file("dtln", shared_file("dtln_1/model.onnx"));
    put_file("plain", shared_file("dtln_1/model.onnx"));
    put_config("dtln", "{\"max_batch_size\":0,\"sequence_batching\":{\"state\":[{\"input_name\":\"input_3\","
                       "\"output_name\":\"tf_op_layer_stack_2\",\"initial_state\":[{\"zero_data\":true}]}]}}");
    put_config("plain", "{\"max_batch_size\":0}");
    pool_add_worker(&pool, "xnnpack", root, NULL);
    client = digits_client(pool.clients);
    for (int i = 0; i < CHUNKS; i++) {
        for (size_t j = 0; j < BINS; j++)
            spectra[i][j] = i == 0 ? first[j] : fabsf(sinf((float)(j * 3 + (size_t)i * 11)));
        const struct pen_tensor input = floats("input_2", spectra[i], 3, 1, 1, BINS, 0);
        jobs[i] = submit("dtln", &input, 1, 5,
                         (i == 0 ? PEN_JOB_SEQUENCE_START : 0u) | (i + 1 == CHUNKS ? PEN_JOB_SEQUENCE_END : 0u));
    }
    for (int i = 0; i < CHUNKS; i++) {
        const struct pen_tensor inputs[2] = {floats("input_2", spectra[i], 3, 1, 1, BINS, 0),
                                             floats("input_3", state, 4, 1, 2, 128, 2)};
        pen_result *result = wait(jobs[i]), *plain = wait(submit("plain", inputs, 2, 0, PEN_JOB_NO_CACHE));
        take(result, "activation_2", kept, BINS);
        take(plain, "activation_2", own, BINS);
        take(plain, "tf_op_layer_stack_2", next, KEPT);
        expect_near(kept, own, BINS, 1e-6f, "mask", i);
        if (i == 0)
            expect_near(kept, wanted, BINS, 1e-4f, "the golden mask", i);
        memcpy(state, next, sizeof state);
        pen_result_free(result);
        pen_result_free(plain);
    }
    free(first);
    free(wanted);
}
