/* vectors_metas.c - one example per meta. Values are distinct, so that no two fields can be taken for each other. */
#include "vectors_metas.h"

#include "control.pb-c.h"
#include "frame.h"
#include "worker.pb-c.h"

static uint8_t digest_bytes[16] = {0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static int64_t image_dims[] = {-1, 1, 8, 8}, scores_dims[] = {-1, 10};

static Penstock__TensorSig *image_sig(void)
{
    static Penstock__TensorSig sig;
    penstock__tensor_sig__init(&sig);
    sig.name = "image";
    sig.dtype = 2;
    sig.n_dims = 4;
    sig.dims = image_dims;
    sig.batched = 1;
    sig.optional = 1;
    return &sig;
}

static Penstock__TensorSig *scores_sig(void)
{
    static Penstock__TensorSig sig;
    penstock__tensor_sig__init(&sig);
    sig.name = "scores";
    sig.dtype = 1;
    sig.n_dims = 2;
    sig.dims = scores_dims;
    sig.batched = 1;
    return &sig;
}

static Penstock__Flag *flag(void)
{
    static Penstock__Flag flag;
    penstock__flag__init(&flag);
    flag.name = "avx2";
    flag.value = "yes";
    return &flag;
}

static Penstock__ModelOffer *offer(void)
{
    static Penstock__ModelOffer offer;
    static Penstock__TensorSig *inputs[1], *outputs[1];
    static Penstock__WarmTime warm, *warms[] = {&warm};
    static uint32_t preferred[] = {4, 8};
    static char *labels[] = {"zero", "one"};
    inputs[0] = image_sig();
    outputs[0] = scores_sig();
    penstock__warm_time__init(&warm);
    warm.batch = 1;
    warm.cold_us = 900;
    warm.warm_us = 45;
    penstock__model_offer__init(&offer);
    offer.name = "digits";
    offer.version = 3;
    offer.digest = (ProtobufCBinaryData){sizeof digest_bytes, digest_bytes};
    offer.n_inputs = 1;
    offer.inputs = inputs;
    offer.n_outputs = 1;
    offer.outputs = outputs;
    offer.backend = "xnnpack";
    offer.precision = PRECISION_F32;
    offer.placement = "xnnpack 7/7 nodes 100.0 % of MACs";
    offer.max_batch_size = 8;
    offer.n_preferred_batch_size = 2;
    offer.preferred_batch_size = preferred;
    offer.max_queue_delay_us = 250;
    offer.n_warm = 1;
    offer.warm = warms;
    offer.cacheable = 1;
    offer.memory_bytes = 123456;
    offer.ready = 1;
    offer.platform = "onnx";
    offer.n_labels = 2;
    offer.labels = labels;
    offer.priority_levels = 5;
    offer.default_priority_level = 2;
    offer.max_queue_size = 100;
    offer.default_timeout_us = 2000000;
    offer.device = "cpu";
    offer.preprocess = "{\"layout\":\"NCHW\"}";
    return &offer;
}

static const ProtobufCMessage *client_hello(void)
{
    static Penstock__ClientHello hello;
    penstock__client_hello__init(&hello);
    hello.uuid = 0x0123456789ABCDEFu;
    hello.software = "penstock 0.1.0";
    hello.name = "penstock submit";
    hello.tenant = "lab";
    hello.grace_us = 1000000;
    return &hello.base;
}

static const ProtobufCMessage *control_request(void)
{
    static Penstock__ControlRequest request;
    penstock__control_request__init(&request);
    request.verb = "workers";
    request.argument = "gpu*";
    request.serial = 300;
    return &request.base;
}

static Penstock__WorkerInfo *worker_info(void)
{
    static Penstock__WorkerInfo info;
    static Penstock__Flag *flags[1];
    static char *models[] = {"digits:3", "faces:1"};
    flags[0] = flag();
    penstock__worker_info__init(&info);
    info.name = "host-77";
    info.uuid = 0xFEDCBA9876543210u;
    info.host = "host";
    info.backend = "xnnpack";
    info.device = "cpu";
    info.state = "ready";
    info.slots = 2;
    info.jobs_running = 3;
    info.jobs_done = 1000;
    info.jobs_failed = 4;
    info.rss_bytes = 50000000;
    info.age_us = 600000000;
    info.last_seen_us = 12000;
    info.n_flags = 1;
    info.flags = flags;
    info.n_models = 2;
    info.models = models;
    info.software = "penstock 0.1.0";
    info.backlog_us = 5500;
    info.threads = 6;
    return &info;
}

static Penstock__ModelInfo *model_info(void)
{
    static Penstock__ModelInfo info;
    static Penstock__TensorSig *inputs[1], *outputs[1];
    static Penstock__ModelOffer *offers[1];
    static char *workers[] = {"host-77"};
    inputs[0] = image_sig();
    outputs[0] = scores_sig();
    offers[0] = offer();
    penstock__model_info__init(&info);
    info.name = "digits";
    info.version = 3;
    info.n_inputs = 1;
    info.inputs = inputs;
    info.n_outputs = 1;
    info.outputs = outputs;
    info.n_offers = 1;
    info.offers = offers;
    info.n_worker_names = 1;
    info.worker_names = workers;
    info.queued = 7;
    info.running = 8;
    info.jobs_done = 9;
    info.jobs_failed = 10;
    info.cache_hits = 11;
    return &info;
}

static Penstock__Stats *stats(void)
{
    static Penstock__Stats s;
    penstock__stats__init(&s);
    uint64_t *const counters[] = {
        &s.uptime_us,      &s.jobs_admitted, &s.jobs_done,      &s.jobs_failed,       &s.jobs_rejected, &s.jobs_expired,
        &s.jobs_cancelled, &s.jobs_requeued, &s.jobs_coalesced, &s.results_duplicate, &s.cache_hits,    &s.cache_misses,
        &s.cache_bytes,    &s.cache_entries, &s.queued,         &s.running,           &s.clients,       &s.workers,
        &s.bytes_in,       &s.bytes_out,     &s.replies_kept,   &s.rss_bytes,         &s.workers_lost,
    };
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        *counters[i] = 1000 + i;
    s.cache_kind = "redis";
    s.cache_state = "open: connection refused";
    s.draining = 1;
    s.software = "penstock 0.1.0";
    return &s;
}

static const ProtobufCMessage *control_reply(void)
{
    static Penstock__ControlReply reply;
    static Penstock__ModelInfo *models[1];
    static Penstock__WorkerInfo *workers[1];
    models[0] = model_info();
    workers[0] = worker_info();
    penstock__control_reply__init(&reply);
    reply.serial = 300;
    reply.error = "only an example";
    reply.n_models = 1;
    reply.models = models;
    reply.n_workers = 1;
    reply.workers = workers;
    reply.stats = stats();
    return &reply.base;
}

static const ProtobufCMessage *welcome(void)
{
    static Penstock__Welcome welcome;
    penstock__welcome__init(&welcome);
    welcome.software = "penstock 0.1.0";
    welcome.heartbeat_us = 500000;
    welcome.liveness_us = 1500000;
    welcome.max_frame_bytes = 67108864;
    welcome.max_job_bytes = 268435456;
    welcome.broker_uuid = 0xB0B0B0B0B0B0B0B0u;
    welcome.digest_kind = DIGEST_SHA256;
    welcome.error = "only an example";
    welcome.grace_us = 1000001;
    return &welcome.base;
}

static const ProtobufCMessage *worker_hello(void)
{
    static Penstock__WorkerHello hello;
    static Penstock__Flag *flags[1];
    static Penstock__ModelOffer *models[1];
    static char *tags[] = {"rack1", "spot"};
    static Penstock__RunningJob running, *runnings[] = {&running};
    flags[0] = flag();
    models[0] = offer();
    penstock__running_job__init(&running);
    running.client = 0x0123456789ABCDEFu;
    running.sequence = 41;
    penstock__worker_hello__init(&hello);
    hello.name = "host-77";
    hello.uuid = 0xFEDCBA9876543210u;
    hello.host = "host";
    hello.pid = 77;
    hello.software = "penstock 0.1.0";
    hello.slots = 2;
    hello.threads = 6;
    hello.backend = "xnnpack";
    hello.device = "cpu";
    hello.n_flags = 1;
    hello.flags = flags;
    hello.n_models = 1;
    hello.models = models;
    hello.n_tags = 2;
    hello.tags = tags;
    hello.n_running = 1;
    hello.running = runnings;
    hello.memory_bytes = 2000000000;
    return &hello.base;
}

static const ProtobufCMessage *worker_update(void)
{
    static Penstock__WorkerUpdate update;
    static Penstock__ModelOffer *models[1];
    models[0] = offer();
    penstock__worker_update__init(&update);
    update.n_models = 1;
    update.models = models;
    return &update.base;
}

static const ProtobufCMessage *heartbeat(void)
{
    static Penstock__Heartbeat beat;
    penstock__heartbeat__init(&beat);
    beat.slots_busy = 1;
    beat.jobs_done = 1000;
    beat.jobs_failed = 4;
    beat.rss_bytes = 50000000;
    beat.compute_us = 45000;
    beat.oldest_running_us = 33;
    beat.queued = 2;
    return &beat.base;
}

const ProtobufCMessage *example_meta(int type)
{
    static const ProtobufCMessage *(*const makers[FRAME_TYPE_COUNT])(void) = {
        [FRAME_CLIENT_HELLO] = client_hello, [FRAME_CONTROL] = control_request,   [FRAME_CONTROL_REPLY] = control_reply,
        [FRAME_WELCOME] = welcome,           [FRAME_WORKER_HELLO] = worker_hello, [FRAME_WORKER_UPDATE] = worker_update,
        [FRAME_HEARTBEAT] = heartbeat,
    };
    return makers[type] ? makers[type]() : NULL;
}
