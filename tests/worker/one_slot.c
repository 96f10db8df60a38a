#include "one_slot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "ensemble.h"
#include "job_meta.h"
#include "tensor_codec.h"
#include "warmup.h"

char one_slot_root[FOLDER_PATH_BYTES];
struct catalog one_slot_catalog;
struct stats one_slot_stats;
struct slot *one_slot;
struct pen_engine *one_slot_engine;
struct pen_error one_slot_error;
struct one_answer one_slot_answers[ONE_SLOT_JOBS];

struct debugger *one_slot_debugger;
struct handoff *one_slot_handoff;
static struct outbox *outbox;
static struct inbox *inbox;
static struct states *states;
static const struct identity identity = {.worker = "w",
                                         .backend = "reference",
                                         .device = "a processor",
                                         .library = "loops-1",
                                         .isa = "plain",
                                         .build = "today",
                                         .precision = PRECISION_F32};

void one_slot_setup(void)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = "reference";
    cr_assert(pen_engine_new(&options, &one_slot_engine, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    folder_new(one_slot_root);
    one_slot_handoff = handoff_new(0);
    outbox = outbox_new();
    inbox = inbox_new();
    states = states_new(1u << 20);
    cr_assert(one_slot_handoff && outbox && inbox && states);
}

void one_slot_teardown(void)
{
    slot_free(one_slot);
    debugger_free(one_slot_debugger);
    one_slot_debugger = NULL;
    catalog_fini(&one_slot_catalog);
    states_free(states);
    inbox_free(inbox);
    outbox_free(outbox);
    handoff_free(one_slot_handoff);
    pen_engine_free(one_slot_engine);
    folder_free(one_slot_root);
}

void one_slot_put(const char *name, struct onnx_writer *graph, const char *config)
{
    char path[FOLDER_PATH_BYTES + 96];
    snprintf(path, sizeof path, "%s/%.64s/1", one_slot_root, name);
    folder_make(path);
    snprintf(path, sizeof path, "%s/%.64s/1/model.onnx", one_slot_root, name);
    if (graph)
        onnx_writer_save(graph, 17, path);
    onnx_writer_free(graph);
    snprintf(path, sizeof path, "%s/%.64s/config.json", one_slot_root, name);
    if (config)
        file_write(path, config, strlen(config));
}

struct onnx_writer *one_slot_graph(const char *op, const char *x, const char *y, const char *z)
{
    static const int64_t dims[] = {-1, 2};
    struct onnx_writer *g = onnx_writer_new("graph");
    onnx_writer_input(g, x, PEN_DTYPE_F32, 2, dims, NULL);
    if (y)
        onnx_writer_input(g, y, PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_node(g, op, y ? ONNX_LIST(x, y) : ONNX_LIST(x), ONNX_LIST(z), NULL);
    onnx_writer_output(g, z, PEN_DTYPE_F32, 2, dims, NULL);
    return g;
}

void one_slot_start(void)
{
    struct slot_context context = {.states = states,
                                   .catalog = &one_slot_catalog,
                                   .handoff = one_slot_handoff,
                                   .outbox = outbox,
                                   .stats = &one_slot_stats,
                                   .debugger = one_slot_debugger,
                                   .identity = &identity};
    struct pen_error *error = &one_slot_error;
    cr_assert(catalog_scan(one_slot_root, NULL, 0, &one_slot_catalog, error) == PEN_OK, "%s", error->text);
    cr_assert(catalog_load(&one_slot_catalog, one_slot_engine, NULL, NULL, NULL, error) == PEN_OK, "%s", error->text);
    cr_assert(one_slot_catalog.failed == 0, "a model could not be loaded");
    for (size_t i = 0; i < one_slot_catalog.count; i++)
        cr_assert(warmup_run(one_slot_catalog.models[i], 1, error) == PEN_OK, "%s", error->text);
    ensembles_check(&one_slot_catalog);
    cr_assert(slot_new(&context, 0, &one_slot, error) == PEN_OK, "%s", error->text);
}

struct pen_tensor one_slot_rows(const char *name, int64_t rows, const float *values)
{
    return (struct pen_tensor){.name = name,
                               .dtype = PEN_DTYPE_F32,
                               .rank = 2,
                               .dims = {rows, 2},
                               .data = values,
                               .bytes = (size_t)rows * 2 * sizeof *values};
}

/* ---- jobs in ------------------------------------------------------------------------------------------------------------------------- */

static void header_make(zmq_msg_t *frame, const struct envelope *asked, const Penstock__JobMeta *meta)
{
    struct envelope env = *asked;
    env.meta_bytes = (uint32_t)penstock__job_meta__get_packed_size(meta);
    cr_assert(zmq_msg_init_size(frame, FRAME_ENVELOPE_BYTES + env.meta_bytes) == 0);
    penstock__job_meta__pack(meta, envelope_encode(&env, zmq_msg_data(frame)));
}

/* Adds the frames of one job; returns their number. */
static size_t job_frames(const struct one_job *job, uint64_t sequence, zmq_msg_t *frames)
{
    Penstock__TensorDesc descs[8], *pointers[8];
    Penstock__Parameter labels = PENSTOCK__PARAMETER__INIT, *parameters[] = {&labels};
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    uint32_t order[8];
    size_t raw = 0;
    tensors_encode(job->inputs, job->inputs_count, descs, pointers, order, &raw);
    meta.model = meta_text(job->model);
    meta.version = job->version;
    meta.inputs = pointers;
    meta.n_inputs = job->inputs_count;
    meta.outputs = (char **)(uintptr_t)job->outputs;
    while (meta.n_outputs < ONE_SLOT_OUTPUTS && job->outputs[meta.n_outputs])
        meta.n_outputs++;
    labels.name = meta_text("labels");
    labels.value_case = PENSTOCK__PARAMETER__VALUE_INTEGER;
    labels.integer = (int64_t)job->labels;
    meta.parameters = parameters;
    meta.n_parameters = job->labels > 0;
    meta.top_k = job->top_k;
    meta.trace = job->trace;
    meta.debug = job->debug;
    env.job = (struct job_id){.client = 1, .sequence = sequence};
    env.flags = job->flags;
    env.deadline_us = job->deadline_us;
    env.frames = (uint8_t)raw;
    header_make(&frames[0], &env, &meta);
    for (size_t i = 0; i < raw; i++) {
        const struct pen_tensor *tensor = &job->inputs[order[i]];
        cr_assert(zmq_msg_init_size(&frames[1 + i], tensor->bytes) == 0);
        memcpy(zmq_msg_data(&frames[1 + i]), tensor->data, tensor->bytes);
    }
    return 1 + raw;
}

/* ---- answers out --------------------------------------------------------------------------------------------------------------------- */

static void output_read(const Penstock__TensorDesc *desc, const zmq_msg_t *raw, struct one_output *ret)
{
    const void *data = raw ? zmq_msg_data((zmq_msg_t *)(uintptr_t)raw) : desc->data.data;
    size_t bytes = raw ? zmq_msg_size(raw) : desc->data.len;
    snprintf(ret->name, sizeof ret->name, "%s", desc->name);
    ret->rank = (uint32_t)desc->n_dims;
    for (size_t i = 0; i < desc->n_dims && i < 4; i++)
        ret->dims[i] = desc->dims[i];
    ret->count = bytes / sizeof(float);
    memcpy(ret->values, data, bytes < sizeof ret->values ? bytes : sizeof ret->values);
}

static void meta_read(const Penstock__ResultMeta *meta, struct one_answer *ret)
{
    snprintf(ret->error, sizeof ret->error, "%s", meta->error);
    ret->batch_size = meta->batch_size;
    ret->batch_rows = meta->batch_rows;
    ret->batch_place = meta->batch_place;
    ret->compute_us = meta->compute_us;
    ret->worker_us = meta->worker_us;
    ret->wait_us = meta->worker_wait_us;
    ret->decode_us = meta->decode_us;
    ret->gather_us = meta->gather_us;
    ret->split_us = meta->split_us;
    ret->version = meta->version;
    ret->precision = meta->precision;
    snprintf(ret->made, sizeof ret->made, "%s | %s | %s | %s | %s | %s | %s", meta->model, meta->backend, meta->device,
             meta->library, meta->isa, meta->build, meta->worker);
    ret->layers = meta->n_layers;
    ret->measured = meta->measured != NULL;
    ret->repeatable = meta->measured && meta->measured->repeatable;
    ret->largest = meta->measured ? meta->measured->largest : 0;
    snprintf(ret->debug_log, sizeof ret->debug_log, "%s", meta->debug_log);
    ret->labels_count = meta->n_labels;
    if (meta->model_digest.len == sizeof ret->model_digest.bytes)
        memcpy(ret->model_digest.bytes, meta->model_digest.data, meta->model_digest.len);
    for (size_t i = 0; i < meta->n_labels && i < 8; i++)
        snprintf(ret->labels[i], sizeof ret->labels[i], "%s", meta->labels[i]);
    ret->annotations_count = meta->n_annotations;
    for (size_t i = 0; i < meta->n_annotations && i < 8; i++) {
        const Penstock__Annotation *a = meta->annotations[i];
        snprintf(ret->annotations[i].output, sizeof ret->annotations[i].output, "%s", a->output);
        ret->annotations[i].row = a->row;
        ret->annotations[i].classes = (uint32_t)a->n_classes;
        ret->annotations[i].best = a->classes[0]->index;
    }
}

/* One group of a reply; returns its frames. */
static size_t answer_read(zmq_msg_t *frames)
{
    struct meta_arena arena;
    struct envelope env;
    const uint8_t *bytes = NULL;
    size_t next = 1;
    cr_assert(envelope_decode(zmq_msg_data(frames), zmq_msg_size(frames), &env, &bytes, NULL) == PEN_OK);
    cr_assert(env.type == FRAME_RESULT && env.job.client == 1 && env.job.sequence - 1 < ONE_SLOT_JOBS);
    struct one_answer *answer = &one_slot_answers[env.job.sequence - 1];
    meta_arena_init(&arena, 1u << 20);
    const Penstock__ResultMeta *meta = meta_unpack(&arena, &penstock__result_meta__descriptor, bytes, env.meta_bytes);
    cr_assert_not_null(meta);
    answer->times++;
    answer->status = (enum pen_status)env.status;
    answer->flags = env.flags;
    answer->digest = env.digest;
    meta_read(meta, answer);
    answer->outputs_count = meta->n_outputs;
    for (size_t i = 0; i < meta->n_outputs && i < ONE_SLOT_OUTPUTS; i++) {
        bool is_inline = meta->outputs[i]->data.len > 0 || env.frames == 0;
        output_read(meta->outputs[i], is_inline ? NULL : &frames[next++], &answer->outputs[i]);
    }
    meta_arena_fini(&arena);
    return 1u + env.frames;
}

struct dispatch *one_slot_dispatch(const struct one_job *jobs, size_t count, size_t first)
{
    zmq_msg_t frames[ONE_SLOT_JOBS * 4];
    struct dispatch *dispatch = NULL;
    size_t used = 0;
    cr_assert(first + count <= ONE_SLOT_JOBS);
    for (size_t i = 0; i < count; i++)
        used += job_frames(&jobs[i], first + i + 1, &frames[used]);
    struct message message = {.frames = frames, .frames_count = used};
    cr_assert(inbox_dispatch(inbox, &message, clock_now_us(), &dispatch, &one_slot_error) == PEN_OK, "%s",
              one_slot_error.text);
    for (size_t i = 0; i < used; i++)
        zmq_msg_close(&frames[i]);
    for (size_t i = 0; i < count; i++)
        atomic_store(&dispatch->jobs[i].cancelled, jobs[i].cancelled);
    return dispatch;
}

void one_slot_forget(void)
{
    memset(one_slot_answers, 0, sizeof one_slot_answers);
}

size_t one_slot_collect(void)
{
    size_t finished = 0;
    for (struct reply *reply = outbox_take_all(outbox), *next; reply; reply = next) {
        next = reply->next;
        for (size_t at = 0; at < reply->frames_count;)
            at += answer_read(&reply->frames[at]);
        finished += reply->finished != NULL;
        dispatch_free(reply->finished);
        reply_free(reply);
    }
    return finished;
}

void one_slot_run(const struct one_job *jobs, size_t count)
{
    one_slot_forget();
    slot_run(one_slot, one_slot_dispatch(jobs, count, 0));
    cr_assert(one_slot_collect() == 1, "a dispatch is finished with the last of its replies");
    for (size_t i = 0; i < count; i++)
        cr_assert(one_slot_answers[i].times == 1, "job %zu was answered %zu times", i, one_slot_answers[i].times);
    for (size_t i = 0; i < one_slot_catalog.count; i++)
        cr_assert(atomic_load(&one_slot_catalog.models[i]->users) == 0, "a model is still held");
}

void one_slot_refused(size_t job, enum pen_status status, const char *part)
{
    const struct one_answer *answer = &one_slot_answers[job];
    cr_assert(answer->status == status, "job %zu: %s: %s", job, pen_status_name(answer->status), answer->error);
    cr_assert(strstr(answer->error, part), "'%s' is not in '%s'", part, answer->error);
    cr_assert(answer->outputs_count == 0);
}

void one_slot_gave(size_t job, const char *name, int64_t rows, const float *values)
{
    const struct one_answer *answer = &one_slot_answers[job];
    const struct one_output *output = answer->outputs;
    cr_assert(answer->status == PEN_OK, "job %zu: %s", job, answer->error);
    while (output < answer->outputs + answer->outputs_count && strcmp(output->name, name) != 0)
        output++;
    cr_assert(output < answer->outputs + answer->outputs_count, "job %zu has no output %s", job, name);
    cr_assert(output->rank == 2 && output->dims[0] == rows && output->dims[1] == 2);
    cr_assert(output->count == (size_t)rows * 2, "%zu elements", output->count);
    for (size_t i = 0; i < output->count && i < ONE_SLOT_VALUES; i++)
        cr_assert(output->values[i] == values[i], "job %zu, %s[%zu] is %g", job, name, i, (double)output->values[i]);
}

#define STEP_CONFIG "{\"max_batch_size\":4}"
#define WHOLE                                                                                                          \
    "{\"platform\":\"ensemble\",\"max_batch_size\":4,\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\",\"dims\":" \
    "[2]}],\"output\":[{\"name\":\"y\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],\"ensemble_scheduling\":{\"step\":"  \
    "[{\"model_name\":\"neg\",\"input_map\":{\"a\":\"x\"},\"output_map\":{\"c\":\"n\"}},{\"model_name\":\"add\","      \
    "\"input_map\":{\"a\":\"n\",\"b\":\"x\"},\"output_map\":{\"c\":\"y\"}}]}}"

void one_slot_ensemble_setup(void)
{
    struct pen_engine_options options;
    struct pen_error error = {.status = PEN_OK};
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    options.threads = 1;
    one_slot_setup();
    pen_engine_free(one_slot_engine);
    one_slot_engine = NULL;
    if (pen_engine_new(&options, &one_slot_engine, &error) != PEN_OK)
        cr_skip_test("the reference is not measured: %s", error.text);
    one_slot_put("neg", one_slot_graph("Exp", "a", NULL, "c"), STEP_CONFIG);
    one_slot_put("add", one_slot_graph("Add", "a", "b", "c"), STEP_CONFIG);
    one_slot_put("whole", NULL, WHOLE);
    one_slot_start();
}
