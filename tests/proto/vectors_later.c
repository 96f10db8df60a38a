/* vectors_later.c - what was added behind version 1.1: detached jobs, suspects that run alone, classes. */
#include "vectors_making.h"

#include "control.pb-c.h"
#include "worker.pb-c.h"

#include <string.h>
static void make_detached(void)
{
    static uint8_t lock[] = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
                             0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf};
    struct envelope env = making_example(FRAME_SUBMIT);
    Penstock__JobMeta meta = making_job();
    meta.detached_ttl_us = 600000000;
    meta.detached_lock = (ProtobufCBinaryData){.len = sizeof lock, .data = lock};
    env.flags |= FRAME_FLAG_DETACHED;
    making_begin(
        "SUBMIT of a detached job that is kept for ten minutes, with the digest of a secret that may cancel it");
    making_group(env, &meta.base, &making_image, 1);
    making_end("submit_detached");

    Penstock__JobMeta fetch = PENSTOCK__JOB_META__INIT;
    fetch.detached = "0123456789abcdef-6";
    env = making_example(FRAME_SUBMIT);
    env.flags = FRAME_FLAG_FETCH;
    env.model_hash = 0;
    making_begin("SUBMIT that fetches a detached job's result");
    making_group(env, &fetch.base, NULL, 0);
    making_end("submit_fetch");
    fetch.detached_state = true;
    making_begin("SUBMIT that asks how a detached job stands, without its result");
    making_group(env, &fetch.base, NULL, 0);
    making_end("submit_fetch_state");

    Penstock__DetachedState state = PENSTOCK__DETACHED_STATE__INIT;
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    state.state = "done";
    state.status = PEN_ERR_WORKER_LOST;
    state.attempts = 2;
    state.age_us = 601;
    state.left_us = 602;
    result.detached = &state;
    making_begin("RESULT that tells how a detached job stands");
    making_group(making_example(FRAME_RESULT), &result.base, NULL, 0);
    making_end("result_detached");
}

static void make_alone(void)
{
    struct envelope env = making_example(FRAME_SUBMIT);
    Penstock__JobMeta meta = making_job();
    Penstock__RunningJob job = PENSTOCK__RUNNING_JOB__INIT;
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    Penstock__WorkerHello hello = PENSTOCK__WORKER_HELLO__INIT;
    env.flags |= FRAME_FLAG_ALONE;
    making_begin("SUBMIT to a worker: a suspect, beside which nothing else may run");
    making_group(env, &meta.base, &making_image, 1);
    making_end("submit_alone");
    hello.uuid = 0xFEDCBA9876543210u;
    hello.slots = 1;
    hello.runs_alone = true;
    making_begin("WORKER_HELLO of one that honours that");
    making_header(making_example(FRAME_WORKER_HELLO), &hello.base);
    making_end("worker_hello_alone");
    job.client = 0x0123456789ABCDEFu;
    job.sequence = 7;
    beat.alone = &job;
    making_begin("HEARTBEAT to the suspect's broker: it is about to run, and nothing else does");
    making_header(making_example(FRAME_HEARTBEAT), &beat.base);
    making_end("heartbeat_alone");
    beat.alone = NULL;
    beat.paused = true;
    making_begin("HEARTBEAT to the other brokers: nothing of theirs has begun, nor does for now");
    making_header(making_example(FRAME_HEARTBEAT), &beat.base);
    making_end("heartbeat_paused");
}

/* Payloads in sealed memory (version 1.3). */
static void make_sealed(void)
{
    static uint8_t secret[32];
    Penstock__ClientHello client = PENSTOCK__CLIENT_HELLO__INIT;
    Penstock__WorkerHello worker = PENSTOCK__WORKER_HELLO__INIT;
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)(0x40 + i);
    client.uuid = worker.uuid = 0x0123456789ABCDEFu;
    client.sealed = worker.sealed = true;
    making_begin("CLIENT_HELLO of one that knows sealed memory");
    making_header(making_example(FRAME_CLIENT_HELLO), &client.base);
    making_end("client_hello_sealed");
    making_begin("WORKER_HELLO of one that knows sealed memory");
    making_header(making_example(FRAME_WORKER_HELLO), &worker.base);
    making_end("worker_hello_sealed");
    welcome.sealed_name = "penstock-0123456789abcdef0123456789abcdef";
    welcome.sealed_secret = (ProtobufCBinaryData){.len = sizeof secret, .data = secret};
    welcome.sealed_bytes = 131072;
    making_begin("WELCOME: where the Unix socket is, what to say there, and from what size on");
    making_header(making_example(FRAME_WELCOME), &welcome.base);
    making_end("welcome_sealed");
}

static void make_needs(void)
{
    static char *needs[] = {"vk_i8", "cpu.isa=avx2"};
    Penstock__JobMeta meta = making_job();
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    meta.needs = needs;
    meta.n_needs = 2;
    making_begin("SUBMIT that demands flags of its worker: one that is on, one with a value");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making_end("submit_needs");
    welcome.needs = true;
    making_begin("WELCOME of a broker that knows such demands");
    making_header(making_example(FRAME_WELCOME), &welcome.base);
    making_end("welcome_needs");
}

static void make_debug(void)
{
    struct envelope env = making_example(FRAME_SUBMIT);
    Penstock__JobMeta meta = making_job();
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    meta.debug = true;
    env.flags |= FRAME_FLAG_NO_CACHE;
    making_begin("SUBMIT of a job that is to run in debug mode");
    making_group(env, &meta.base, &making_image, 1);
    making_end("submit_debug");
    result.debug_log = "no NaN and no infinity\n";
    making_begin("RESULT with the log of such a run");
    making_group(making_example(FRAME_RESULT), &result.base, NULL, 0);
    making_end("result_debug");
}

static void make_contracts(void)
{
    static Penstock__MeasuredError measured = PENSTOCK__MEASURED_ERROR__INIT;
    Penstock__JobMeta meta = making_job();
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    Penstock__ModelOffer offer = PENSTOCK__MODEL_OFFER__INIT, *offers[] = {&offer};
    Penstock__WorkerUpdate update = PENSTOCK__WORKER_UPDATE__INIT;
    meta.max_relative_error = 0.01;
    making_begin("SUBMIT that states a bound on its error");
    making_group(making_example(FRAME_SUBMIT), &meta.base, &making_image, 1);
    making_end("submit_contract");
    welcome.contracts = true;
    making_begin("WELCOME of a broker that keeps such bounds");
    making_header(making_example(FRAME_WELCOME), &welcome.base);
    making_end("welcome_contracts");
    measured.largest = 0.0018;
    measured.mean = 0.00011;
    measured.inputs = 4;
    measured.source = "seeded";
    measured.repeatable = true;
    offer.name = "digits";
    offer.version = 3;
    offer.measured = &measured;
    offer.contract_precision = PRECISION_F32;
    offer.contract_error = 0.05;
    offer.contract_exact = true;
    update.models = offers;
    update.n_models = 1;
    making_begin("WORKER_UPDATE with a model whose error was measured, and what its config.json states");
    making_header(making_example(FRAME_WORKER_UPDATE), &update.base);
    making_end("worker_update_measured");
}

static void make_timeouts(void)
{
    Penstock__ModelOffer offer = PENSTOCK__MODEL_OFFER__INIT, *offers[] = {&offer};
    Penstock__WorkerUpdate update = PENSTOCK__WORKER_UPDATE__INIT;
    offer.name = "digits";
    offer.version = 3;
    offer.default_timeout_us = 20000;
    offer.timeout_fixed = true;
    offer.timeout_delays = true;
    offer.load_us = 603;
    update.models = offers;
    update.n_models = 1;
    making_begin(
        "WORKER_UPDATE with a model whose default timeout is every job's and delays, and which is not in memory");
    making_header(making_example(FRAME_WORKER_UPDATE), &update.base);
    making_end("worker_update_timeouts");
}

static void make_failures(void)
{
    Penstock__ModelFailure failure = PENSTOCK__MODEL_FAILURE__INIT, *failures[] = {&failure};
    Penstock__FailedModel failed = PENSTOCK__FAILED_MODEL__INIT, *faileds[] = {&failed};
    Penstock__WorkerHello hello = PENSTOCK__WORKER_HELLO__INIT;
    Penstock__WorkerUpdate update = PENSTOCK__WORKER_UPDATE__INIT;
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    failure.name = "digits";
    failure.version = 4;
    failure.status = PEN_ERR_CORRUPT;
    failure.error = "digits/4/model.onnx ends in the middle";
    failure.since_unix_us = 604;
    hello.uuid = 0xFEDCBA9876543210u;
    hello.slots = 1;
    hello.failures = failures;
    hello.n_failures = 1;
    hello.failures_count = 2;
    making_begin("WORKER_HELLO of one that has a model which it cannot load, and another that is not listed");
    making_header(making_example(FRAME_WORKER_HELLO), &hello.base);
    making_end("worker_hello_failures");
    failure.version = 0;
    failure.serving = true;
    update.failures = failures;
    update.n_failures = 1;
    update.failures_count = 1;
    making_begin("WORKER_UPDATE: a change of a config.json was refused, what was loaded before serves on");
    making_header(making_example(FRAME_WORKER_UPDATE), &update.base);
    making_end("worker_update_failures");
    failed.worker = "w1";
    failed.failure = &failure;
    reply.serial = 605;
    reply.failures = faileds;
    reply.n_failures = 1;
    making_begin("CONTROL_REPLY to \"models\": what a worker cannot load");
    making_header(making_example(FRAME_CONTROL_REPLY), &reply.base);
    making_end("control_reply_failures");
}

/* What a worker reads out of outputs, and the question for it. */
static void make_annotations(void)
{
    static Penstock__Class classes[3] = {PENSTOCK__CLASS__INIT, PENSTOCK__CLASS__INIT, PENSTOCK__CLASS__INIT};
    static Penstock__Class *first[] = {&classes[0], &classes[1]}, *second[] = {&classes[2]};
    Penstock__Annotation rows[2] = {PENSTOCK__ANNOTATION__INIT, PENSTOCK__ANNOTATION__INIT};
    Penstock__Annotation *annotations[] = {&rows[0], &rows[1]};
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__JobMeta meta = making_job();
    Penstock__ModelOffer offer = PENSTOCK__MODEL_OFFER__INIT, *offers[] = {&offer};
    Penstock__WorkerUpdate update = PENSTOCK__WORKER_UPDATE__INIT;
    struct envelope env = making_example(FRAME_SUBMIT);
    env.flags |= FRAME_FLAG_DIGEST;
    meta.top_k = 2;
    making_begin("SUBMIT that asks for the two best classes");
    making_group(env, &meta.base, &making_image, 1);
    making_end("submit_top_k");
    classes[0] = (Penstock__Class){classes[0].base, 9, 0.75f, "nine"};
    classes[1] = (Penstock__Class){classes[1].base, 4, 0.125f, "four"};
    classes[2].score = -2.5f; /* index 0, without a name */
    rows[0].output = rows[1].output = "scores";
    rows[0].classes = first;
    rows[0].n_classes = 2;
    rows[1].row = 1;
    rows[1].classes = second;
    rows[1].n_classes = 1;
    result.annotations = annotations;
    result.n_annotations = 2;
    making_begin("RESULT with the classes of two rows");
    making_group(making_example(FRAME_RESULT), &result.base, NULL, 0);
    making_end("result_annotations");
    offer.name = "digits";
    offer.version = 3;
    offer.annotates = true;
    update.models = offers;
    update.n_models = 1;
    making_begin("WORKER_UPDATE of a worker that knows top_k");
    making_header(making_example(FRAME_WORKER_UPDATE), &update.base);
    making_end("worker_update_annotates");
}

/* A frame behind its length; the highest bit: another one of the same message follows. */
static size_t pack_put(uint8_t *to, const uint8_t *frame, uint32_t bytes, bool more)
{
    uint32_t length = bytes | (more ? 0x80000000u : 0);
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(length >> (8 * i));
    memcpy(to + 4, frame, bytes);
    return 4 + bytes;
}

/* An acknowledgement, and a chunk with its raw frame (which our programs send by itself). */
static void make_pack(void)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES + 512], part[FRAME_ENVELOPE_BYTES];
    struct envelope env = making_example(FRAME_PACK), ack = making_example(FRAME_ACK),
                    chunk = envelope_make(FRAME_CHUNK);
    size_t used = FRAME_ENVELOPE_BYTES;
    envelope_encode(&ack, part);
    used += pack_put(bytes + used, part, sizeof part, false);
    chunk.job = (struct job_id){0x0123456789ABCDEFu, 7};
    chunk.frames = 1;
    chunk.transfer = 5;
    envelope_encode(&chunk, part);
    used += pack_put(bytes + used, part, sizeof part, true);
    used += pack_put(bytes + used, (const uint8_t *)"\1\2\3\4\5", 5, false);
    env.meta_bytes = (uint32_t)(used - FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, bytes);
    making_begin("PACK of two messages: an ACK, and a CHUNK with its raw frame");
    vector_add(&making.vector, bytes, used);
    making_end("pack");
}

void vectors_later_make(void)
{
    make_pack();
    make_failures();
    make_annotations();
    make_debug();
    make_timeouts();
    make_needs();
    make_sealed();
    make_contracts();
    make_detached();
    make_alone();
}
