/*
 * vectors_make.c - writes the files of vectors/. Old files are frozen: it writes only those that do not exist yet.
 *
 * Usage: vectors_make FOLDER
 */
#include "control.pb-c.h"
#include "frame.h"
#include "bulk.h"
#include "job.pb-c.h"
#include "tensor_codec.h"
#include "vectors_making.h"
#include "vectors_metas.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_submit_full(void)
{
    static Penstock__Parameter list[4], *parameters[4];
    static char *outputs[] = {"scores", "mask"}, *tags[] = {"rack1", "gpu"};
    static const struct pen_tensor tensors[] = {{"image", PEN_DTYPE_U8, 4, {1, 1, 4, 4}, making_payload, 16},
                                                {"gain", PEN_DTYPE_F32, 0, {0}, making_payload + 16, 4},
                                                {"boxes", PEN_DTYPE_F32, 2, {0, 4}, NULL, 0}};
    static char *const names[] = {"zoom", "labels", "mode", "flip"};
    for (size_t i = 0; i < 4; i++) {
        penstock__parameter__init(&list[i]);
        list[i].name = names[i];
        parameters[i] = &list[i];
    }
    list[0].value_case = PENSTOCK__PARAMETER__VALUE_NUMBER;
    list[0].number = 0.1;
    list[1].value_case = PENSTOCK__PARAMETER__VALUE_INTEGER;
    list[1].integer = -5;
    list[2].value_case = PENSTOCK__PARAMETER__VALUE_TEXT;
    list[2].text = "fast";
    list[3].value_case = PENSTOCK__PARAMETER__VALUE_FLAG;
    list[3].flag = 1;
    Penstock__JobMeta meta = making_job();
    meta.version = 3;
    meta.n_outputs = 2;
    meta.outputs = outputs;
    meta.n_parameters = 4;
    meta.parameters = parameters;
    meta.backend = "xnnpack";
    meta.tenant = "lab";
    meta.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    meta.n_tags = 2;
    meta.tags = tags;
    meta.sequence = "camera-4";
    making_begin(
        "SUBMIT with a value in every field; inputs, outputs and parameters stand in no order, as a client may send "
        "them");
    struct envelope env = making_example(FRAME_SUBMIT);
    env.flags |= FRAME_FLAG_DIGEST | FRAME_FLAG_DIGEST_SHA256;
    for (unsigned i = 0; i < 16; i++)
        env.digest.bytes[i] = (uint8_t)(0xA0 + i);
    making_group(env, &meta.base, tensors, 3);
    making_end("submit_full");
}

static void make_submits(void)
{
    static const struct pen_tensor raw[] = {{"a", PEN_DTYPE_U8, 1, {2049}, making_payload, 2049},
                                            {"none", PEN_DTYPE_F32, 1, {0}, NULL, 0},
                                            {"b", PEN_DTYPE_F32, 2, {2, 3}, making_payload + 3000, 24}};
    Penstock__JobMeta meta = making_job();
    making_begin("SUBMIT with one small tensor inline; its request digests of both kinds");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making_end("submit_inline");

    making_begin("SUBMIT above 2048 bytes: two raw frames, the empty tensor stays in the meta");
    making_group(making_example(FRAME_SUBMIT), &meta.base, raw, 3);
    making_end("submit_raw");

    struct pen_tensor edge = {"x", PEN_DTYPE_U8, 1, {2048}, making_payload, 2048};
    making_begin("SUBMIT of exactly 2048 bytes: still inline");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &edge, 1);
    making_end("submit_2048");

    making_begin("SUBMIT of the broker to a worker: two groups, the first raw, the second inline");
    struct envelope env = making_example(FRAME_SUBMIT);
    making_group(env, &meta.base, raw, 1);
    env.job.sequence = 8;
    making_group(env, &meta.base, &making_image, 1);
    making_end("submit_batch");
}

/* One tensor of each element type, three elements each. */
static void make_dtypes(void)
{
    static const uint8_t strings[] = {2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 1, 0, 0, 0, 'c'};
    static struct pen_tensor tensors[PEN_DTYPE_COUNT];
    for (unsigned i = 1; i < PEN_DTYPE_COUNT; i++) {
        enum pen_dtype dtype = (enum pen_dtype)i;
        struct pen_tensor *tensor = &tensors[i - 1];
        *tensor = (struct pen_tensor){
            .name = pen_dtype_name(dtype), .dtype = dtype, .rank = 1, .dims = {3}, .data = making_payload + 16 * i};
        if (dtype == PEN_DTYPE_STRING) {
            tensor->data = strings;
            tensor->bytes = sizeof strings;
        } else if (dtype == PEN_DTYPE_BOOL) {
            tensor->data = "\0\1\1";
            tensor->bytes = 3;
        } else if (pen_dtype_bytes(dtype, 3, &tensor->bytes) != 0) {
            abort();
        }
    }
    Penstock__JobMeta meta = making_job();
    making_begin("SUBMIT with every element type");
    making_group(making_example(FRAME_SUBMIT), &meta.base, tensors, PEN_DTYPE_COUNT - 1);
    making_end("submit_dtypes");
}

static Penstock__ResultMeta full_result(void)
{
    static char *labels[] = {"0.93 nine", "0.04 four"};
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    meta.model = "digits";
    meta.version = 3;
    meta.backend = "xnnpack";
    meta.device = "cpu";
    meta.worker = "host-77";
    meta.precision = PRECISION_F32;
    meta.cached = 1;
    meta.queue_us = 101;
    meta.compute_us = 102;
    meta.total_us = 103;
    meta.worker_us = 104;
    meta.batch_size = 2;
    meta.batch_reason = "full";
    meta.library = "xnnpack-2022 avx512";
    meta.retry_after_us = 105;
    meta.n_labels = 2;
    meta.labels = labels;
    meta.model_digest = (ProtobufCBinaryData){16, making_payload};
    meta.attempts = 1;
    return meta;
}

static void make_results(void)
{
    static const struct pen_tensor scores = {"scores", PEN_DTYPE_F32, 2, {1, 10}, making_payload, 40};
    static const struct pen_tensor big = {"map", PEN_DTYPE_F16, 2, {33, 32}, making_payload, 2112};
    Penstock__ResultMeta meta = full_result();
    struct envelope env = making_example(FRAME_RESULT);
    env.precision = PRECISION_F32;
    making_begin("RESULT, one job, inline");
    making_group(env, &meta.base, &scores, 1);
    making_end("result_inline");

    making_begin("RESULT of a worker for a batch of two, in one message, the second job failed");
    env.flags = FRAME_FLAG_DIGEST;
    memset(env.digest.bytes, 0x5A, 16);
    making_group(env, &meta.base, &big, 1);
    Penstock__ResultMeta failed = PENSTOCK__RESULT_META__INIT;
    failed.error = "the deadline passed before the job started; give it more time or add workers";
    failed.model = "digits";
    env.status = PEN_ERR_DEADLINE;
    env.job.sequence = 8;
    making_group(env, &failed.base, NULL, 0);
    making_end("result_batch");

    making_begin("RESULT of a broker whose queue is full");
    Penstock__ResultMeta busy = PENSTOCK__RESULT_META__INIT;
    busy.error = "model 'digits' has 1000 jobs waiting, which is its limit; try again later";
    busy.retry_after_us = 20000;
    env = making_example(FRAME_RESULT);
    env.status = PEN_ERR_BUSY;
    making_group(env, &busy.base, NULL, 0);
    making_end("result_busy");
}

/* One explanation, in a reply and as an answer of its own. */
static void make_explained(void)
{
    static Penstock__Candidate candidate = PENSTOCK__CANDIDATE__INIT, *candidates[] = {&candidate};
    static Penstock__Explanation explanation = PENSTOCK__EXPLANATION__INIT;
    candidate.worker = "rack1-77";
    candidate.backend = "xnnpack";
    candidate.backlog_us = 301;
    candidate.expect_us = 302;
    candidate.transfer_us = 303;
    candidate.credit = candidate.chosen = 1;
    explanation.job = "0123456789abcdef-7";
    explanation.model = "digits";
    explanation.version = 3;
    explanation.state = "done";
    explanation.tenant = "acme";
    explanation.priority = 4;
    explanation.worker = "rack1-77";
    explanation.backend = "xnnpack";
    explanation.why_worker = "it was free";
    explanation.why_batch = "it was full";
    explanation.why_not = "-";
    explanation.n_candidates = 1;
    explanation.candidates = candidates;
    explanation.capable = 2;
    explanation.batch_reason = "full";
    explanation.batch_jobs = 5;
    explanation.batch_rows = 6;
    explanation.queue_us = 310;
    explanation.expect_us = 311;
    explanation.compute_us = 312;
    explanation.total_us = 313;
    explanation.attempts = 1;
    explanation.status = PEN_ERR_CANCELLED;
    Penstock__JobMeta meta = making_job();
    meta.explain = 1;
    making_begin("SUBMIT that asks for its explanation");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making_end("submit_explain");
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    result.explanation = &explanation;
    making_begin("RESULT with its explanation, a value in every field of it");
    making_group(making_example(FRAME_RESULT), &result.base, NULL, 0);
    making_end("result_explained");
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    reply.serial = 9;
    reply.explanation = &explanation;
    making_begin("CONTROL_REPLY to the verb explain");
    making_header(making_example(FRAME_CONTROL_REPLY), &reply.base);
    making_end("control_reply_explain");
}

/* What a traced job, its result and a changed level of the log add. */
static void make_traced(void)
{
    static Penstock__LayerTime layer = PENSTOCK__LAYER_TIME__INIT, *layers[] = {&layer};
    layer.name = "conv1";
    layer.op = "Conv";
    layer.backend = "xnnpack";
    layer.us = 412;
    Penstock__JobMeta meta = making_job();
    meta.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    meta.submit_unix_us = 1700000000123456;
    meta.trace = 2;
    making_begin("SUBMIT with a trace context that asks for the times of layers");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making_end("submit_traced");
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    result.worker_wait_us = 401;
    result.gather_us = 402;
    result.split_us = 403;
    result.n_layers = 1;
    result.layers = layers;
    making_begin("RESULT with the worker's own times and a layer");
    making_group(making_example(FRAME_RESULT), &result.base, NULL, 0);
    making_end("result_traced");
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    beat.cpu_us = 501;
    beat.device_memory_bytes = 502;
    beat.device_memory_used_bytes = 503;
    beat.slots = 4;
    beat.models_warm = 5;
    making_begin("HEARTBEAT of a worker: processor, memory, warm models");
    making_header(making_example(FRAME_HEARTBEAT), &beat.base);
    making_end("heartbeat_vitals");
    Penstock__Heartbeat level = PENSTOCK__HEARTBEAT__INIT;
    level.log_level = "debug";
    making_begin("HEARTBEAT of the broker that changes the level of the worker's log");
    making_header(making_example(FRAME_HEARTBEAT), &level.base);
    making_end("heartbeat_log_level");
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    reply.serial = 10;
    reply.text = "{\"traces\":[]}";
    making_begin("CONTROL_REPLY to the verb trace");
    making_header(making_example(FRAME_CONTROL_REPLY), &reply.base);
    making_end("control_reply_trace");
}

/* Models at run time: a label instead of a version, an order to a worker, what became of it, names of versions. */
static void make_orders(void)
{
    static Penstock__Outcome outcome = PENSTOCK__OUTCOME__INIT, *outcomes[] = {&outcome};
    static Penstock__VersionLabel label = PENSTOCK__VERSION_LABEL__INIT, *labels[] = {&label};
    static Penstock__ModelInfo info = PENSTOCK__MODEL_INFO__INIT, *infos[] = {&info};
    Penstock__JobMeta meta = making_job();
    meta.version_label = "canary";
    making_begin("SUBMIT for the version that carries a label");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making_end("submit_label");
    meta = making_job();
    meta.sequence_after = 6;
    making_begin("SUBMIT of a sequence, behind the client's job 6");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making_end("submit_after");
    Penstock__WorkerHello hello = PENSTOCK__WORKER_HELLO__INIT;
    hello.name = "rack1-77";
    hello.uuid = 7;
    hello.slots = 1;
    hello.takes_orders = 1;
    making_begin("WORKER_HELLO of a worker that takes orders");
    making_header(making_example(FRAME_WORKER_HELLO), &hello.base);
    making_end("worker_hello_orders");
    Penstock__ControlRequest request = PENSTOCK__CONTROL_REQUEST__INIT;
    request.verb = "load";
    request.argument = "digits:3";
    request.serial = 9;
    making_begin("CONTROL of the broker to a worker: an order");
    making_header(making_example(FRAME_CONTROL), &request.base);
    making_end("control_order");
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    reply.serial = 9;
    reply.n_outcomes = reply.n_models = 1;
    reply.outcomes = outcomes;
    outcome.worker = "rack1-77";
    outcome.status = PEN_ERR_CORRUPT;
    outcome.error = "the file is cut";
    reply.models = infos;
    info.name = "digits";
    info.n_version_labels = 1;
    info.version_labels = labels;
    label.label = "canary";
    label.share_ppm = 50000;
    making_begin("CONTROL_REPLY with outcomes of an order and labels of versions");
    making_header(making_example(FRAME_CONTROL_REPLY), &reply.base);
    making_end("control_reply_orders");
}

static void make_plain_types(void)
{
    for (unsigned type = 1; type < FRAME_ATTACH; type++) {
        char name[64], about[128];
        if (type == FRAME_SUBMIT || type == FRAME_RESULT)
            continue;
        const ProtobufCMessage *meta = example_meta((int)type);
        struct envelope env = making_example((enum frame_type)type);
        snprintf(name, sizeof name, "%s", frame_type_name((uint8_t)type));
        for (char *at = name; *at; at++)
            *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at);
        snprintf(about, sizeof about, "%s%s", frame_type_name((uint8_t)type),
                 meta ? " with a value in every field" : ", which has no meta");
        making_begin(about);
        if (type == FRAME_CONTROL_REPLY)
            env.status = PEN_ERR_NOT_FOUND;
        making_header(env, meta);
        making_end(name);
    }
    making_begin("HEARTBEAT of the broker: no meta");
    making_header(making_example(FRAME_HEARTBEAT), NULL);
    making_end("heartbeat_broker");
    making_begin("WELCOME that refuses a peer of another major version");
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    welcome.error = "the peer speaks protocol 2.0 and this side 1.0";
    struct envelope env = making_example(FRAME_WELCOME);
    env.status = PEN_ERR_VERSION;
    making_header(env, &welcome.base);
    making_end("welcome_version");
}

/* A SUBMIT whose header frame `change` may damage; canonical is off. */
/* Large payloads (version 1.1): who can, the announcement, the second connection, its chunks, their credit. */
static void make_bulk(void)
{
    static const uint8_t bytes[] = {1, 2, 3, 4, 5};
    Penstock__ClientHello client = PENSTOCK__CLIENT_HELLO__INIT;
    Penstock__WorkerHello worker = PENSTOCK__WORKER_HELLO__INIT;
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    client.uuid = worker.uuid = 0x0123456789ABCDEFu;
    client.bulk = worker.bulk = 1;
    worker.name = "rack1-77";
    welcome.bulk_bytes = 1048576;
    making_begin("CLIENT_HELLO of one that knows chunks");
    making_header(making_example(FRAME_CLIENT_HELLO), &client.base);
    making_end("client_hello_bulk");
    client.notices = true;
    making_begin("CLIENT_HELLO of one that wants to be told why jobs wait");
    making_header(making_example(FRAME_CLIENT_HELLO), &client.base);
    making_end("client_hello_notices");
    making_begin("WORKER_HELLO of one that knows chunks");
    making_header(making_example(FRAME_WORKER_HELLO), &worker.base);
    making_end("worker_hello_bulk");
    making_begin("WELCOME: payloads of more than 1 MiB are to be announced");
    making_header(making_example(FRAME_WELCOME), &welcome.base);
    making_end("welcome_bulk");
    welcome.digest_first_bytes = 65536;
    making_begin("WELCOME: those of more than 64 KiB may be announced, too, for an answer by their digest");
    making_header(making_example(FRAME_WELCOME), &welcome.base);
    making_end("welcome_digest_first");
    making_begin("ATTACH: this connection is the bulk connection of that session");
    struct envelope env = envelope_make(FRAME_ATTACH);
    env.job.client = 0x0123456789ABCDEFu;
    making_header(env, NULL);
    making_end("attach");

    Penstock__JobMeta meta = making_job();
    Penstock__TensorDesc desc = PENSTOCK__TENSOR_DESC__INIT, *descs[] = {&desc};
    int64_t dims[] = {1, 3000000};
    desc.name = "image";
    desc.dtype = PEN_DTYPE_U8;
    desc.dims = dims;
    desc.n_dims = 2;
    desc.bytes = 3000000;
    desc.frame = 1;
    meta.inputs = descs;
    meta.n_inputs = 1;
    making_begin("SUBMIT whose payload is announced: transfer 5, no raw frame follows");
    env = making_example(FRAME_SUBMIT);
    env.frames = 1;
    env.transfer = 5;
    making_header(env, &meta.base);
    making.vector.canonical = false;
    making_end("submit_announced");
    making_begin("SUBMIT whose payload lies in sealed memory: parcel 6 went before it, no raw frame follows");
    env.transfer = 6;
    env.flags |= FRAME_FLAG_SEALED;
    making_header(env, &meta.base);
    making.vector.canonical = false;
    making_end("submit_sealed");
    struct job_id job = {0x0123456789ABCDEFu, 7};
    making_begin("CREDIT: transfer 5 may go on up to byte 1048576 (sequence_id is the offset here)");
    making_header(bulk_envelope(FRAME_CREDIT, job, 5, 1048576), NULL);
    making_end("credit");
    making_begin("CREDIT with a status: the rest of transfer 5 is not wanted");
    env = bulk_envelope(FRAME_CREDIT, job, 5, 0);
    env.status = PEN_ERR_CANCELLED;
    making_header(env, NULL);
    making_end("credit_declined");
    Penstock__JobNotice notice = PENSTOCK__JOB_NOTICE__INIT;
    notice.reason = (char *)(uintptr_t) "loading";
    notice.wait_us = 41000;
    env = envelope_make(FRAME_NOTICE);
    env.job = job;
    making_begin("NOTICE: the job waits until a worker has loaded its model, about 41 ms");
    making_header(env, &notice.base);
    making_end("notice");
    making_begin("CHUNK: five bytes of transfer 5 from byte 262144 on (sequence_id is the offset here)");
    making_header(bulk_envelope(FRAME_CHUNK, job, 5, 262144), NULL);
    vector_add(&making.vector, bytes, sizeof bytes);
    making_end("chunk");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: vectors_make FOLDER\n");
        return 2;
    }
    making.folder = argv[1];
    for (size_t i = 0; i < sizeof making_payload; i++)
        making_payload[i] = (uint8_t)(i * 37 + i / 256);
    make_plain_types();
    make_submits();
    make_submit_full();
    make_dtypes();
    make_results();
    make_explained();
    make_orders();
    make_traced();
    vectors_faults_make();
    make_bulk();
    vectors_later_make();
    vectors_neighbours_make();
    return making.failures ? 1 : 0;
}
