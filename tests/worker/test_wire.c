/* The real worker with the digits model; this test is its broker. Serving: batches, digests, typed refusals, hostile frames. */
#include "play_broker.h"

#include "deadline.h"
#include "pack.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct play play;
static struct play_message message;
/* A config of its own: the one of deploy/ is for users and may change. */
static const char config_text[] =
    "{\"platform\":\"onnx\",\"version_labels\":{\"stable\":{\"version\":1,\"share\":0.25},\"canary\":2},"
    "\"max_batch_size\":16,\"dynamic_batching\":{\"preferred_batch_size\":[4,8],"
    "\"max_queue_delay_microseconds\":500,\"priority_levels\":3,\"default_priority_level\":2,\"default_queue_policy\":{"
    "\"default_timeout_microseconds\":7000,\"max_queue_size\":99},\"priority_queue_policy\":{\"3\":{\"timeout_action\":"
    "\"DELAY\",\"allow_timeout_override\":false,\"default_timeout_microseconds\":8000,\"max_queue_size\":5}}},\"model_"
    "warmup\":[{\"batch_size\":2}],"
    "\"input\":{\"preprocess\":{\"input\":\"image\",\"layout\":\"NCHW\",\"scale\":[0.00392156862745098]}},"
    "\"output\":{\"labels\":[\"zero\",\"one\",\"two\",\"three\",\"four\",\"five\",\"six\",\"seven\",\"eight\",\"nine\"]"
    "}}";
static char root[64];

static void open_served(void)
{
    char command[512], path[128];
    const char *const arguments[] = {"--models", root,    "--backend", "reference", "--name", "tested", "--tag",
                                     "red",      "--tag", "blue",      "--slots",   "1",      NULL};
    snprintf(root, sizeof root, "/tmp/penstock-wire-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    snprintf(command, sizeof command, "mkdir -p %s/digits && cp -r %s/digits/1 %s/digits/", root, PLAY_DIGITS, root);
    cr_assert(system(command) == 0);
    snprintf(path, sizeof path, "%s/digits/config.json", root);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(config_text, file) >= 0);
    fclose(file);
    play_open(&play);
    play_start(&play, arguments);
}

static void close_served(void)
{
    char command[128];
    play_message_fini(&message);
    play_close(&play);
    snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert(system(command) == 0);
}

TestSuite(wire, .init = open_served, .fini = close_served, .timeout = 60);

static int best(const float *scores)
{
    int place = 0;
    for (int i = 1; i < 10; i++)
        place = scores[i] > scores[place] ? i : place;
    return place;
}

static void expect_digit(const struct play_result *result, size_t index)
{
    cr_expect(result->env.status == PEN_OK, "%s", result->error);
    cr_expect(result->scores_bytes == 40 && result->rows == 1);
    cr_expect(best(result->scores) == play_digit_class(index), "image %zu: %d instead of %d", index,
              best(result->scores), play_digit_class(index));
}

Test(wire, hello_tells_who_and_what)
{
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_expect_str_eq(hello->name, "tested");
    cr_expect(hello->uuid != 0 && hello->pid == (uint32_t)play.pid && hello->slots == 1 && hello->threads >= 1);
    cr_expect_str_eq(hello->backend, "reference");
    cr_expect(hello->n_tags == 2 && strcmp(hello->tags[1], "blue") == 0);
    cr_expect(hello->n_running == 0 && hello->memory_bytes > 0 && hello->software[0] && hello->host[0]);
    bool zmq = false, selftest = false;
    for (size_t i = 0; i < hello->n_flags; i++) {
        zmq |= strcmp(hello->flags[i]->name, "library.libzmq") == 0;
        selftest |= strncmp(hello->flags[i]->name, "selftest", 8) == 0;
    }
    cr_expect(zmq && selftest);
}

Test(wire, hello_offers_the_model_with_all_that_matters)
{
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_assert(hello->n_models == 1);
    const Penstock__ModelOffer *offer = hello->models[0];
    cr_expect(strcmp(offer->name, "digits") == 0 && offer->version == 1 && offer->digest.len == 16 && offer->ready);
    cr_assert(offer->n_inputs == 1 && offer->n_outputs == 1);
    const Penstock__TensorSig *input = offer->inputs[0];
    cr_expect(strcmp(input->name, "image") == 0 && input->dtype == PEN_DTYPE_U8 && input->batched &&
              input->n_dims == 4);
    cr_expect(input->dims[0] == -1 && input->dims[1] == 8 && input->dims[2] == 8 && input->dims[3] == 1);
    cr_expect(strcmp(offer->outputs[0]->name, "probabilities") == 0 && offer->outputs[0]->dtype == PEN_DTYPE_F32);
    cr_expect(offer->max_batch_size == 16 && offer->n_preferred_batch_size == 2 && offer->max_queue_delay_us == 500);
    cr_expect(offer->cacheable && offer->precision == PRECISION_F32 && offer->memory_bytes > 0);
    cr_expect(offer->placement[0] && strcmp(offer->platform, "onnx") == 0 && strcmp(offer->backend, "reference") == 0);
    cr_expect(offer->n_labels == 10 && strcmp(offer->labels[9], "nine") == 0);
    cr_expect(strstr(offer->preprocess, "\"layout\":\"NCHW\"") != NULL, "%s", offer->preprocess);
    cr_expect(offer->priority_levels == 3 && offer->default_priority_level == 2 && offer->max_queue_size == 99);
    cr_expect(offer->default_timeout_us == 7000);
    cr_assert(offer->n_version_labels == 1, "the other one is of a version that is not this one");
    cr_expect(strcmp(offer->version_labels[0]->label, "stable") == 0 && offer->version_labels[0]->share_ppm == 250000);
    cr_assert(offer->n_priority_queue_policy == 1);
    const Penstock__QueuePolicy *policy = offer->priority_queue_policy[0];
    cr_expect(policy->level == 3 && policy->max_queue_size == 5 && policy->default_timeout_us == 8000);
    cr_expect(policy->timeout_delays && policy->timeout_fixed);
    cr_assert(offer->n_warm == 5);
    const uint32_t batches[] = {1, 2, 4, 8, 16};
    for (size_t i = 0; i < 5; i++)
        cr_expect(offer->warm[i]->batch == batches[i] && offer->warm[i]->cold_us > 0 && offer->warm[i]->warm_us > 0);
}

Test(wire, batch_of_three_jobs_is_answered_as_one)
{
    struct play_job jobs[3];
    struct play_result results[3];
    play_serve(&play, &message);
    for (size_t i = 0; i < 3; i++)
        jobs[i] = (struct play_job){
            .sequence = i + 1, .input = play_digit_tensor(i, 1), .flags = FRAME_FLAG_DIGEST, .labels = 2};
    play_submit(&play, jobs, 3);
    play_results(&play, results, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_expect(results[i].env.job.sequence == i + 1 && results[i].batch_size == 3);
        expect_digit(&results[i], i);
        cr_expect(results[i].labels == 2 && strcmp(results[i].backend, "reference") == 0);
        cr_expect(results[i].env.flags & FRAME_FLAG_DIGEST);
        cr_expect(digest_equal(results[i].env.digest, jobs[i].digest), "digest of what ran");
        cr_expect(results[i].env.precision == PRECISION_F32);
    }
}

Test(wire, jobs_may_bring_rows_of_their_own)
{
    struct play_job jobs[3] = {{.sequence = 1, .input = play_digit_tensor(0, 2), .labels = 1},
                               {.sequence = 2, .input = play_digit_tensor(2, 1)},
                               {.sequence = 3, .input = play_digit_tensor(3, 16)}};
    struct play_result results[3], alone;
    play_serve(&play, &message);
    play_submit(&play, jobs, 3);
    play_results(&play, results, 3);
    cr_expect(results[0].rows == 2 && results[0].scores_bytes == 80 && results[0].batch_size == 2);
    cr_expect(best(results[0].scores + 10) == play_digit_class(1));
    cr_expect(results[0].labels == 2, "one label for each row");
    expect_digit(&results[1], 2);
    cr_expect(results[2].rows == 16 && results[2].batch_size == 1, "17 rows are too many for one batch");
    jobs[1].sequence = 4;
    play_submit(&play, &jobs[1], 1);
    play_results(&play, &alone, 1);
    for (size_t i = 0; i < 10; i++)
        cr_expect_float_eq(alone.scores[i], results[1].scores[i], 1e-6f, "alone and in a batch the same");
}

Test(wire, jobs_of_a_batch_get_the_classes_that_each_asks_for)
{
    struct play_job jobs[3] = {
        {.sequence = 1, .input = play_digit_tensor(0, 2), .top_k = 1, .flags = FRAME_FLAG_DIGEST},
        {.sequence = 2, .input = play_digit_tensor(2, 1)},
        {.sequence = 3, .input = play_digit_tensor(3, 1), .top_k = 1000, .labels = 1, .output = "probabilities"}};
    struct play_result results[3];
    const Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_expect(hello->models[0]->annotates);
    play_submit(&play, jobs, 3);
    play_results(&play, results, 3);
    cr_expect_eq(results[0].batch_size, 3);
    cr_assert_eq(results[0].annotations, 2);
    cr_expect((int)results[0].best[0] == play_digit_class(0) && (int)results[0].best[1] == play_digit_class(1));
    cr_expect(digest_equal(results[0].env.digest, jobs[0].digest), "what was asked for is in the digest");
    cr_expect_eq(results[1].annotations, 0);
    cr_expect(results[2].annotations == 1 && (int)results[2].best[0] == play_digit_class(3));
    cr_expect_eq(results[2].labels, 1, "the older form is beside it");
}

Test(wire, sha256_digest_is_recomputed)
{
    struct play_job job = {
        .sequence = 1, .input = play_digit_tensor(0, 1), .flags = FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256};
    struct play_result result;
    play_serve(&play, &message);
    play_submit(&play, &job, 1);
    play_results(&play, &result, 1);
    cr_expect(digest_equal(result.env.digest, job.digest));
    cr_expect((result.env.flags & (FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256)) ==
              (FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256));
}

static void refused(struct play_job job, enum pen_status status, const char *part)
{
    struct play_job jobs[2] = {job, {.sequence = 2, .input = play_digit_tensor(7, 1)}};
    struct play_result results[2];
    jobs[0].sequence = 1;
    play_submit(&play, jobs, 2);
    play_results(&play, results, 2);
    const struct play_result *bad = results[0].env.job.sequence == 1 ? &results[0] : &results[1];
    const struct play_result *good = bad == &results[0] ? &results[1] : &results[0];
    cr_expect(bad->env.status == status, "%s instead of %s: %s", pen_status_name(bad->env.status),
              pen_status_name(status), bad->error);
    cr_expect(strstr(bad->error, part), "'%s' lacks '%s'", bad->error, part);
    cr_expect(!(bad->env.flags & FRAME_FLAG_DIGEST));
    expect_digit(good, 7);
}

Test(wire, bad_jobs_are_typed_and_harm_no_neighbour)
{
    struct pen_tensor good = play_digit_tensor(0, 1), wide = good, f32 = good, named = good, many, none = good;
    play_serve(&play, &message);
    wide.dims[1] = 4;
    wide.dims[2] = 16;
    f32.dtype = PEN_DTYPE_F32;
    f32.dims[1] = 2;
    named.name = "picture";
    many = play_digit_tensor(0, 17);
    none.dims[0] = 0;
    none.bytes = 0;
    refused((struct play_job){.model = "nobody", .input = good}, PEN_ERR_NOT_FOUND, "no model 'nobody'");
    refused((struct play_job){.version = 9, .input = good}, PEN_ERR_NOT_FOUND, "'digits' of version 9");
    refused((struct play_job){.input = wide}, PEN_ERR_SHAPE, "input 'image' is 1x4x16x1, model 'digits' takes ?x8x8x1");
    refused((struct play_job){.input = f32}, PEN_ERR_DTYPE, "input 'image' is f32, model 'digits' takes u8");
    refused((struct play_job){.input = named}, PEN_ERR_NOT_FOUND, "has no input 'picture'; its input is image");
    refused((struct play_job){.input = many}, PEN_ERR_SHAPE, "17 rows, model 'digits' takes 1 to 16");
    refused((struct play_job){.input = none}, PEN_ERR_SHAPE, "0 rows");
    refused((struct play_job){.input = good, .output = "nothing"}, PEN_ERR_NOT_FOUND, "no output 'nothing'");
    refused((struct play_job){.input = good, .labels = 100000}, PEN_ERR_INVALID, "parameter 'labels'");
    refused((struct play_job){.input = good, .top_k = 1001}, PEN_ERR_INVALID, "top_k 1001");
    refused((struct play_job){.input = good, .deadline_us = 1}, PEN_ERR_DEADLINE, "deadline passed");
}

/* 3 x 64 jobs of 16 rows keep the slot busy for long after the network thread has read everything. */
static void keep_busy(void)
{
    static struct play_job jobs[64];
    for (uint64_t d = 0; d < 3; d++) {
        for (uint64_t i = 0; i < 64; i++)
            jobs[i] = (struct play_job){.sequence = 1000 + d * 64 + i, .input = play_digit_tensor(i, 16)};
        play_submit(&play, jobs, 64);
    }
}

Test(wire, queued_job_is_cancelled_at_once)
{
    struct play_job job = {.sequence = 7, .input = play_digit_tensor(0, 1)};
    static struct play_result results[193];
    size_t cancelled = 0, place = 0;
    play_serve(&play, &message);
    kill(play.pid, SIGSTOP); /* so that all of it is there when the network thread looks */
    keep_busy();
    play_submit(&play, &job, 1);
    play_cancel(&play, 7);
    play_cancel(&play, 7);
    play_cancel(&play, 999999);
    kill(play.pid, SIGCONT);
    play_results(&play, results, 193);
    for (size_t i = 0; i < 193; i++)
        if (results[i].env.status == PEN_ERR_CANCELLED) {
            cancelled++;
            place = i;
        } else {
            cr_expect(results[i].env.status == PEN_OK, "%s", results[i].error);
        }
    cr_expect(cancelled == 1 && results[place].env.job.sequence == 7);
    cr_expect(place < 192, "it did not wait for the jobs before it");
}

/* One slot holds at most 256 jobs. */
Test(wire, held_jobs_beyond_the_cap_are_busy)
{
    static struct play_job jobs[64];
    static struct play_result results[257];
    size_t busy = 0;
    play_serve(&play, &message);
    for (uint64_t i = 0; i < 64; i++)
        jobs[i] = (struct play_job){.sequence = 1 + i, .input = play_digit_tensor(0, 1)};
    kill(play.pid, SIGSTOP);
    keep_busy();
    play_submit(&play, jobs, 64);
    play_submit(&play, jobs, 1);
    kill(play.pid, SIGCONT);
    play_results(&play, results, 257);
    for (size_t i = 0; i < 257; i++)
        busy += results[i].env.status == PEN_ERR_BUSY;
    cr_expect(busy == 1, "%zu", busy);
}

Test(wire, thousands_of_malformed_messages_change_nothing)
{
    struct play_job job = {.sequence = 3, .input = play_digit_tensor(5, 1)};
    struct play_result result;
    uint8_t bytes[200];
    uint64_t state = 0x9E3779B97F4A7C15u;
    play_serve(&play, &message);
    for (int i = 0; i < 5000; i++) {
        struct envelope env = envelope_make((enum frame_type)(1 + i % 16));
        memset(bytes, 0, sizeof bytes);
        if (env.type == FRAME_WELCOME || env.type == FRAME_DRAIN || env.type == FRAME_RESUME)
            env.type = FRAME_SUBMIT; /* these would be obeyed */
        env.frames = (uint8_t)(i % 3);
        env.meta_bytes = (uint32_t)(i % 50);
        envelope_encode(&env, bytes);
        for (size_t j = 80; j < sizeof bytes; j++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[j] = (uint8_t)state;
        }
        play_send_identity(&play);
        play_send_raw(&play, bytes, i % 5 == 0 ? (size_t)(state % 200) : 80 + (size_t)(i % 50), i % 4 == 1);
        if (i % 4 == 1)
            play_send_raw(&play, bytes, state % 100, false);
    }
    play_submit(&play, &job, 1);
    for (;;) { /* PONGs and refusals of what looked like jobs come first */
        cr_assert(play_receive(&play, &message, PLAY_WAIT_MS), "%s", play_log(&play));
        if (message.env.type == FRAME_RESULT && message.env.job.sequence == 3)
            break;
    }
    cr_expect(message.env.status == PEN_OK);
    job.sequence = 4;
    play_submit(&play, &job, 1);
    play_results(&play, &result, 1);
    expect_digit(&result, 5);
}

Test(wire, jobs_with_a_readable_name_but_a_broken_rest_are_answered)
{
    struct envelope env = envelope_make(FRAME_SUBMIT);
    struct play_result result;
    play_serve(&play, &message);
    env.job = (struct job_id){.client = 0x1234567812345678u, .sequence = 5};
    play_send(&play, &env, "\xff\xff\xff", 3);
    play_results(&play, &result, 1);
    cr_expect(result.env.status == PEN_ERR_CORRUPT, "%s", result.error);
    env.frames = 2;
    play_send(&play, &env, NULL, 0);
    play_results(&play, &result, 1);
    cr_expect(result.env.status == PEN_ERR_CORRUPT && strstr(result.error, "announces 2 frames"), "%s", result.error);
}

Test(wire, results_above_the_brokers_frame_limit_become_errors)
{
    struct play_job job = {.sequence = 3, .input = play_digit_tensor(5, 1)};
    struct play_result result;
    play_hello(&play, &message);
    play_send_welcome(&play, PEN_OK, NULL, 1000000, 30000000, 90);
    play_submit(&play, &job, 1);
    play_results(&play, &result, 1);
    cr_expect(result.env.status == PEN_ERR_TOO_LARGE && strstr(result.error, "90 bytes"), "%s", result.error);
}

/* A broker that takes packs gets the results of a batch as one frame; jobs in a pack are dispatches of their own. */
Test(wire, packs_both_ways)
{
    struct play_job jobs[3];
    struct play_result results[3];
    struct pack_reader reader;
    struct pack_item item;
    struct pen_error error = {0};
    unsigned seen = 0;
    play.pack_bytes = pack_bytes_taken(0);
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_expect_gt(hello->pack_bytes, 65536);
    for (size_t i = 0; i < 3; i++)
        jobs[i] =
            (struct play_job){.sequence = i + 1, .model = "digits", .version = 1, .input = play_digit_tensor(i, 1)};
    play_submit(&play, jobs, 3);
    play_expect(&play, FRAME_PACK, &message);
    cr_assert_eq(pack_reader_open(&reader, message.meta, message.env.meta_bytes, &error), PEN_OK, "%s", error.text);
    while (pack_next(&reader, &item)) {
        struct envelope env;
        const uint8_t *meta;
        cr_assert_eq(envelope_decode(item.data, item.bytes, &env, &meta, NULL), PEN_OK);
        cr_assert(env.type == FRAME_RESULT && env.status == PEN_OK && env.job.sequence - 1 < 3);
        cr_assert_eq(item.more, seen < 2, "they are one message");
        seen++;
    }
    cr_assert_eq(seen, 3);
    play_submit(&play, jobs, 1);
    play_results(&play, results, 1); /* one frame alone is as it always was */
    expect_digit(&results[0], 0);
}
