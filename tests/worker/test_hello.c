/* What a worker tells of its models: each field of the offer, ensembles with their steps, failures, and what is left out. */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "ensemble.h"
#include "hello.h"
#include "measure_whole.h"
#include "pack.h"
#include "tensor_codec.h"
#include "worker.pb-c.h"

static struct options options;
static struct meta_arena arena;
static Penstock__WorkerHello *told;
static const struct identity identity = {
    .worker = "name", .backend = "reference", .device = "a device", .library = "", .precision = PRECISION_F32};

static void setup(void)
{
    cr_redirect_stderr();
    one_slot_setup();
    meta_arena_init(&arena, 1u << 24);
}

static void teardown(void)
{
    meta_arena_fini(&arena);
    one_slot_teardown();
}

TestSuite(hello, .init = setup, .fini = teardown);

/* The hello as a broker reads it, of a worker that holds this. */
static void tell_holding(const struct in_flight *held, const struct reply *unsent)
{
    const struct hello_facts facts = {.catalog = &one_slot_catalog,
                                      .engine = one_slot_engine,
                                      .options = &options,
                                      .identity = &identity,
                                      .host = "host",
                                      .uuid = 77,
                                      .slots = 3,
                                      .threads = 4,
                                      .memory_bytes = 5,
                                      .queue_bytes = 6};
    struct hello *hello = NULL;
    struct envelope env;
    const uint8_t *meta = NULL;
    zmq_msg_t frame;
    options.tags.items[0] = "fast";
    options.tags.items[1] = "near";
    options.tags.count = 2;
    options.memory_budget = 7;
    cr_assert(hello_new(&facts, &hello, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    cr_assert(hello_uuid(hello) == 77);
    cr_assert(hello_frame(hello, held, unsent, &frame, &one_slot_error) == PEN_OK);
    cr_assert(envelope_decode(zmq_msg_data(&frame), zmq_msg_size(&frame), &env, &meta, NULL) == PEN_OK);
    cr_assert(env.type == FRAME_WORKER_HELLO);
    told = meta_unpack(&arena, &penstock__worker_hello__descriptor, meta, env.meta_bytes);
    cr_assert_not_null(told);
    zmq_msg_close(&frame);
    hello_free(hello);
}

static void tell(void)
{
    struct in_flight none;
    in_flight_init(&none, 1, 1);
    tell_holding(&none, NULL);
}

static const Penstock__ModelOffer *offer(const char *name)
{
    for (size_t i = 0; i < told->n_models; i++)
        if (strcmp(told->models[i]->name, name) == 0)
            return told->models[i];
    return NULL;
}

static const char *flag(const char *name)
{
    for (size_t i = 0; i < told->n_flags; i++)
        if (strcmp(told->flags[i]->name, name) == 0)
            return told->flags[i]->value;
    return "";
}

static bool has_flag(const char *name)
{
    return *flag(name) != '\0';
}

Test(hello, the_worker_says_what_it_is)
{
    one_slot_start();
    tell();
    cr_assert_str_eq(told->name, "name");
    cr_assert_str_eq(told->host, "host");
    cr_assert_str_eq(told->backend, "reference");
    cr_assert_str_eq(told->device, "a device");
    cr_assert(strncmp(told->software, "penstock ", 9) == 0);
    cr_assert(told->uuid == 77 && told->slots == 3 && told->threads == 4 && told->pid > 1);
    cr_assert(told->memory_bytes == 5 && told->queue_bytes == 6 && told->budget_bytes == 7);
    cr_assert(told->bulk && told->runs_alone && told->takes_orders && told->sealed);
    cr_assert(told->n_tags == 2 && strcmp(told->tags[1], "near") == 0);
    cr_assert(told->n_models == 0 && told->n_failures == 0 && told->failures_count == 0 && told->n_running == 0);
    cr_assert(has_flag("library.libzmq") && has_flag("library.protobuf-c") && has_flag("build"));
    cr_assert(has_flag("backend.reference"), "what the engine found stands there, too");
    cr_assert_str_eq(flag("debug_jobs"), "off");
    options.allow_debug = true;
    tell();
    cr_assert_str_eq(flag("debug_jobs"), "on");
    options.allow_debug = false;
}

/* Packs that are larger than a frame may be are taken by nobody. */
Test(hello, packs_are_taken_up_to_the_limit_of_a_frame)
{
    one_slot_start();
    options.frame_limit = 1000;
    tell();
    cr_assert_eq(told->pack_bytes, pack_bytes_taken(1000));
    options.frame_limit = 1 << 20;
    tell();
    cr_assert_eq(told->pack_bytes, pack_bytes_taken(1 << 20));
    cr_assert_neq(told->pack_bytes, pack_bytes_taken(1000));
}

/* A broker asks for jobs again that nobody holds any more. */
Test(hello, jobs_that_are_held_or_answered_but_not_sent_are_told)
{
    static struct job jobs[3];
    struct dispatch dispatch = {.jobs = jobs, .jobs_count = 3};
    struct in_flight held;
    struct pen_error error;
    struct job_id sent[2] = {{5, 50}, {6, 60}};
    struct reply newer = {.jobs = sent + 1, .jobs_count = 1}, older = {.jobs = sent, .jobs_count = 1, .next = &newer};
    one_slot_start();
    in_flight_init(&held, 10, 10);
    for (uint64_t i = 0; i < 3; i++)
        jobs[i].env.job = (struct job_id){i + 1, 10 * (i + 1)};
    atomic_store(&jobs[0].state, JOB_RUNNING);
    atomic_store(&jobs[1].state, JOB_ANSWERED);
    cr_assert_eq(in_flight_add(&held, &dispatch, &error), PEN_OK);
    tell_holding(&held, &older);
    static const uint64_t clients[] = {1, 3, 5, 6};
    cr_assert_eq(told->n_running, 4);
    for (size_t i = 0; i < 4; i++)
        cr_assert(told->running[i]->client == clients[i] && told->running[i]->sequence == 10 * clients[i]);
}

#define CONFIG                                                                                                         \
    "{\"max_batch_size\":8,\"dynamic_batching\":{\"preferred_batch_size\":[2,4],\"max_queue_delay_microseconds\":500," \
    "\"priority_levels\":3,\"default_priority_level\":2,\"default_queue_policy\":{\"timeout_action\":\"DELAY\","       \
    "\"default_timeout_microseconds\":70,\"allow_timeout_override\":true,\"max_queue_size\":9},"                       \
    "\"priority_queue_policy\":{\"1\":{\"max_queue_size\":11,\"default_timeout_microseconds\":12,"                     \
    "\"allow_timeout_override\":false},\"3\":{\"timeout_action\":\"DELAY\",\"default_timeout_microseconds\":13,"       \
    "\"allow_timeout_override\":true}}},\"version_labels\":{\"stable\":{\"version\":1,\"share\":0.25},\"next\":2},"    \
    "\"output\":{\"labels\":[\"left\",\"right\"]}}"

static void model_start(void)
{
    one_slot_put("model", one_slot_graph("Add", "a", "b", "c"), CONFIG);
    one_slot_start();
}

Test(hello, an_offer_has_every_setting_of_the_config)
{
    model_start();
    tell();
    const Penstock__ModelOffer *model = offer("model");
    cr_assert(model && model->version == 1 && model->ready && model->annotates);
    cr_assert(model->max_batch_size == 8 && model->n_preferred_batch_size == 2 && model->preferred_batch_size[1] == 4);
    cr_assert(model->max_queue_delay_us == 500 && model->priority_levels == 3 && model->default_priority_level == 2);
    cr_assert(model->default_timeout_us == 70 && model->max_queue_size == 9);
    cr_assert(model->timeout_delays && !model->timeout_fixed);
    cr_assert(model->n_priority_queue_policy == 2);
    const Penstock__QueuePolicy *first = model->priority_queue_policy[0], *third = model->priority_queue_policy[1];
    cr_assert(first->level == 1 && first->max_queue_size == 11 && first->default_timeout_us == 12);
    cr_assert(first->timeout_fixed && !first->timeout_delays);
    cr_assert(third->level == 3 && third->max_queue_size == 0 && third->default_timeout_us == 13);
    cr_assert(!third->timeout_fixed && third->timeout_delays);
    cr_assert(model->n_version_labels == 1, "the labels of other versions are theirs");
    cr_assert_str_eq(model->version_labels[0]->label, "stable");
    cr_assert(model->n_labels == 2 && strcmp(model->labels[1], "right") == 0);
}

Test(hello, an_offer_has_the_signature_and_what_the_engine_knows)
{
    model_start();
    struct served *served = one_slot_catalog.models[0];
    served->residence.load_us = 21;
    tell();
    const Penstock__ModelOffer *model = offer("model");
    cr_assert(model->n_inputs == 2 && model->n_outputs == 1 && !model->sequence && model->n_steps == 0);
    const Penstock__TensorSig *b = model->inputs[1];
    cr_assert(strcmp(b->name, "b") == 0 && b->dtype == PEN_DTYPE_F32 && b->batched);
    cr_assert(b->n_dims == 2 && b->dims[0] == -1 && b->dims[1] == 2);
    cr_assert_str_eq(model->outputs[0]->name, "c");
    cr_assert(model->digest.len == 16 && memcmp(model->digest.data, served->digest.bytes, 16) == 0);
    cr_assert_str_eq(model->platform, "onnx");
    cr_assert_str_eq(model->placement, served->placement);
    cr_assert_str_eq(model->backend, "reference");
    cr_assert(model->precision == PRECISION_F32 && model->memory_bytes == served->memory_bytes);
    cr_assert(model->load_us == 21 && model->cacheable == served->cacheable);
    cr_assert(model->n_warm == served->warm_count && served->warm_count == 4);
    for (size_t i = 0; i < model->n_warm; i++) {
        cr_assert(model->warm[i]->batch == served->warm[i].batch);
        cr_assert(model->warm[i]->cold_us == served->warm[i].cold_us);
        cr_assert(model->warm[i]->warm_us == served->warm[i].warm_us);
    }
}

Test(hello, a_model_that_leaves_or_is_cold_is_not_ready)
{
    model_start();
    struct served *served = one_slot_catalog.models[0];
    served->residence.leaving = true;
    tell();
    cr_assert(!offer("model")->ready);
    served->residence.leaving = false;
    served->residence.cold = true;
    tell();
    cr_assert(!offer("model")->ready);
    served->residence.cold = false;
    served->withdrawn = true;
    tell();
    cr_assert_null(offer("model"), "what is withdrawn is not offered");
    served->withdrawn = false;
    tell();
    cr_assert(offer("model")->ready);
}

Test(hello, a_state_is_neither_input_nor_output)
{
    one_slot_put("model", one_slot_graph("Add", "a", "b", "c"),
                 "{\"max_batch_size\":0,\"sequence_batching\":{\"max_sequence_idle_microseconds\":5000,\"oldest\":"
                 "{\"max_candidate_sequences\":7},\"state\":[{\"input_name\":\"b\",\"output_name\":\"c\",\"data_type\":"
                 "\"TYPE_FP32\",\"dims\":[1,2]}]}}");
    one_slot_start();
    tell();
    const Penstock__ModelOffer *model = offer("model");
    cr_assert(model->n_inputs == 1 && strcmp(model->inputs[0]->name, "a") == 0 && model->n_outputs == 0);
    cr_assert(!model->inputs[0]->batched && model->sequence);
    cr_assert(model->sequence->idle_us == 5000 && model->sequence->max_sequences == 7);
    cr_assert(model->sequence->state_bytes == one_slot_catalog.models[0]->states_bytes);
    cr_assert(model->sequence->state_bytes >= 8);
}

Test(hello, a_model_tells_its_error_or_that_it_will_be_measured)
{
    model_start();
    struct served *served = one_slot_catalog.models[0];
    atomic_store(&served->measured_as, SERVED_NOT_MEASURED);
    options.measure = NULL;
    tell();
    cr_assert(!offer("model")->measures && !offer("model")->measured);
    options.measure = "off";
    tell();
    cr_assert(!offer("model")->measures);
    options.measure = "idle";
    tell();
    cr_assert(offer("model")->measures && !offer("model")->measured);
    atomic_store(&served->measured_as, SERVED_UNMEASURABLE);
    tell();
    cr_assert(!offer("model")->measures && !offer("model")->measured);
    served->measured = (struct pen_measured){
        .largest = 0.5, .mean = 0.25, .inputs = 7, .source = PEN_MEASURED_CALIBRATION, .repeatable = true};
    atomic_store(&served->measured_as, SERVED_MEASURED);
    tell();
    const Penstock__MeasuredError *measured = offer("model")->measured;
    cr_assert(measured && !offer("model")->measures);
    cr_assert(measured->largest == 0.5 && measured->mean == 0.25 && measured->inputs == 7 && measured->repeatable);
    cr_assert_str_eq(measured->source, pen_measured_source_name(PEN_MEASURED_CALIBRATION));
}

Test(hello, a_model_tells_what_its_config_states)
{
    model_start();
    tell();
    cr_assert(offer("model")->contract_precision == PEN_PRECISION_ANY && !offer("model")->contract_exact);
    cr_assert(!(offer("model")->contract_error > 0) && !offer("model")->crops && !offer("model")->inputs[0]->pictures);
    one_slot_catalog.models[0]->config.contract =
        (struct contract){.precision = PEN_PRECISION_F32, .error_max = 0.125, .exact = true};
    tell();
    cr_assert(offer("model")->contract_precision == PEN_PRECISION_F32 && offer("model")->contract_exact);
    cr_assert(offer("model")->contract_error == 0.125);
}

/* Of 1 MiB in all, with four bytes beside each: what is beyond that is read from the model's page. */
Test(hello, labels_have_room_or_are_left_out_whole)
{
    static char name[1 << 20];
    char *labels[3] = {name, name, name};
    model_start();
    struct config *config = &one_slot_catalog.models[0]->config;
    char **own = config->labels;
    size_t count = config->labels_count;
    memset(name, 'x', sizeof name - 1);
    config->labels = labels;
    config->labels_count = 3;
    tell();
    cr_assert_eq(offer("model")->n_labels, 0);
    config->labels_count = 1;
    name[sizeof name - 3] = '\0';
    tell();
    cr_assert_eq(offer("model")->n_labels, 0);
    name[sizeof name - 4] = '\0';
    tell();
    cr_assert_eq(offer("model")->n_labels, 1, "exactly");
    config->labels_count = 3;
    name[1000] = '\0';
    tell();
    cr_assert(offer("model")->n_labels == 3 && strlen(offer("model")->labels[2]) == 1000);
    config->labels = own;
    config->labels_count = count;
}

Test(hello, labels_of_all_models_share_that_room)
{
    static char name[600 << 10];
    char *labels[1] = {name};
    one_slot_put("first", one_slot_graph("Add", "a", "b", "c"), "{}");
    one_slot_put("second", one_slot_graph("Add", "a", "b", "c"), "{}");
    one_slot_start();
    memset(name, 'x', sizeof name - 1);
    for (size_t i = 0; i < 2; i++) {
        one_slot_catalog.models[i]->config.labels = labels;
        one_slot_catalog.models[i]->config.labels_count = 1;
    }
    tell();
    cr_expect_eq(offer("first")->n_labels + offer("second")->n_labels, 1, "there is room for one of both");
    for (size_t i = 0; i < 2; i++) {
        one_slot_catalog.models[i]->config.labels = NULL;
        one_slot_catalog.models[i]->config.labels_count = 0;
    }
}

/* ---- ensembles -------------------------------------------------------------------------------------------------------------------- */

#define WHOLE                                                                                                          \
    "{\"platform\":\"ensemble\",\"max_batch_size\":4,\"response_cache\":{\"enable\":true},\"input\":[{\"name\":\"x\"," \
    "\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],\"output\":[{\"name\":\"y\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}" \
    "],"                                                                                                               \
    "\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"neg\",\"model_version\":1,\"input_map\":{\"a\":\"x\"},"      \
    "\"output_map\":{\"c\":\"n\"}},{\"model_name\":\"add\",\"model_version\":-1,\"input_map\":{\"a\":\"n\",\"b\":"     \
    "\"x\"},"                                                                                                          \
    "\"output_map\":{\"c\":\"y\"}}]}}"
#define STEP_CONFIG "{\"max_batch_size\":4,\"response_cache\":{\"enable\":true}}"

static struct served *model_named(const char *name)
{
    return catalog_find(&one_slot_catalog, name, 0);
}

static void whole_start(void)
{
    one_slot_put("neg", one_slot_graph("Neg", "a", NULL, "c"), STEP_CONFIG);
    one_slot_put("add", one_slot_graph("Add", "a", "b", "c"), STEP_CONFIG);
    one_slot_put("whole", NULL, WHOLE);
    one_slot_start();
}

Test(hello, an_ensemble_tells_its_steps)
{
    whole_start();
    model_named("neg")->warm[0].cold_us = 100;
    model_named("neg")->warm[0].warm_us = 10;
    model_named("add")->warm[0].cold_us = 200;
    model_named("add")->warm[0].warm_us = 20;
    tell();
    const Penstock__ModelOffer *whole = offer("whole");
    cr_assert(whole->ready && whole->cacheable && whole->n_steps == 2 && whole->max_batch_size == 4);
    cr_assert_str_eq(whole->platform, "ensemble");
    cr_assert(whole->n_inputs == 1 && whole->inputs[0]->n_dims == 2 && whole->inputs[0]->dims[0] == -1);
    const Penstock__EnsembleStep *neg = whole->steps[0], *add = whole->steps[1];
    cr_assert(neg->number == 1 && neg->version == 1 && add->number == 2 && add->version == 0);
    cr_assert_str_eq(neg->model, "neg");
    cr_assert(neg->n_inputs == 1 && neg->n_outputs == 1 && add->n_inputs == 2 && add->n_outputs == 1);
    cr_assert(strcmp(neg->outputs[0]->port, "c") == 0 && strcmp(neg->outputs[0]->tensor, "n") == 0);
    cr_assert(strcmp(add->inputs[1]->port, "b") == 0 && strcmp(add->inputs[1]->tensor, "x") == 0);
    cr_assert(whole->n_warm == 1 && whole->warm[0]->batch == 1, "one row through all steps");
    cr_assert(whole->warm[0]->cold_us == 300 && whole->warm[0]->warm_us == 30);
    struct served *steps[ENSEMBLE_PLAN_STEPS_MAX];
    cr_assert(ensemble_resolve(&one_slot_catalog, model_named("whole"), steps, NULL) == PEN_OK);
    struct digest digest = ensemble_digest(model_named("whole"), steps);
    cr_assert(whole->digest.len == 16 && memcmp(whole->digest.data, digest.bytes, 16) == 0);
}

Test(hello, an_ensemble_is_as_good_as_its_steps)
{
    whole_start();
    model_named("add")->cacheable = false;
    model_named("add")->warm_count = 0;
    tell();
    cr_assert(!offer("whole")->cacheable && offer("whole")->n_warm == 0 && offer("whole")->ready);
    model_named("add")->withdrawn = true;
    tell();
    const Penstock__ModelOffer *whole = offer("whole");
    cr_assert(whole && !whole->ready && whole->digest.len == 0 && whole->n_steps == 2, "the broker runs the steps");
}

/* Of the whole, once it was measured with these models; else what follows from its steps. */
Test(hello, an_ensemble_tells_its_error_or_that_it_will_be_measured)
{
    struct served *steps[ENSEMBLE_PLAN_STEPS_MAX];
    whole_start();
    struct served *whole = model_named("whole");
    cr_assert(ensemble_resolve(&one_slot_catalog, whole, steps, NULL) == PEN_OK);
    const struct pen_measured small = {.largest = 0.0, .inputs = 1, .repeatable = true};
    for (size_t i = 0; i < 2; i++) {
        steps[i]->measured = small;
        atomic_store(&steps[i]->measured_as, SERVED_MEASURED);
    }
    options.measure = "off";
    tell();
    cr_assert(!offer("whole")->measures && offer("whole")->measured && offer("whole")->measured->largest == 0.0);
    cr_assert_str_eq(offer("whole")->measured->source, pen_measured_source_name(PEN_MEASURED_STEPS));
    options.measure = "idle";
    tell();
    cr_assert(offer("whole")->measures && !offer("whole")->measured, "it will be known better");
    whole->whole = (struct whole_measured){
        .of = ensemble_digest(whole, steps), .as = SERVED_MEASURED, .measured = {.largest = 0.5, .inputs = 3}};
    tell();
    cr_assert(!offer("whole")->measures && offer("whole")->measured->largest == 0.5);
    whole->whole.of.bytes[0] ^= 1;
    tell();
    cr_assert(offer("whole")->measures, "other models were measured");
    options.measure = "off";
    steps[0]->measured.largest = 0.25;
    tell();
    cr_assert(!offer("whole")->measures && !offer("whole")->measured, "what another step makes of an error is unknown");
}

/* ---- failures ---------------------------------------------------------------------------------------------------------------------- */

Test(hello, failures_are_told_and_whether_something_else_serves)
{
    struct pen_error why = {0};
    model_start();
    pen_error_set(&why, PEN_ERR_CORRUPT, "it is broken");
    cr_assert_not_null(one_slot_catalog.failures);
    failures_add(one_slot_catalog.failures, "model", 1, 99, &why);
    failures_add(one_slot_catalog.failures, "model", 2, 99, &why);
    failures_add(one_slot_catalog.failures, "model", 0, 0, &why);
    failures_add(one_slot_catalog.failures, "other", 1, 99, &why);
    failures_add(one_slot_catalog.failures, "third", 1, one_slot_catalog.models[0]->stamp, &why);
    tell();
    cr_assert(told->n_failures == 5 && told->failures_count == 5);
    static const struct {
        const char *name;
        uint64_t version;
        bool serving;
    } want[] = {{"model", 1, true}, {"model", 2, false}, {"model", 0, true}, {"other", 1, false}, {"third", 1, false}};
    for (size_t i = 0; i < 5; i++) {
        const Penstock__ModelFailure *got = told->failures[i];
        cr_assert(strcmp(got->name, want[i].name) == 0 && got->version == want[i].version, "failure %zu", i);
        cr_assert(got->serving == want[i].serving, "failure %zu", i);
        cr_assert(got->status == PEN_ERR_CORRUPT && got->since_unix_us > 0);
        cr_assert_str_eq(got->error, "it is broken");
    }
    one_slot_catalog.models[0]->withdrawn = true;
    tell();
    cr_assert(!told->failures[0]->serving, "what is withdrawn does not serve");
}
