#include "run/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "assertion.h"
#include "error_complete.h"
#include "run/wire_string.h"
#include "words.h"

static uint64_t now_us(void)
{
    return backend_now_ns() / 1000u;
}

enum pen_status pen_session_new(struct pen_model *model, struct pen_session **ret_session, struct pen_error *reterr)
{
    struct pen_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a session");
    }
    s->model = model;
    s->context.arena_limit = model->engine->limits.arena_bytes;
    s->context.numerics = (struct numerics){.numbers = model->engine->options.check_numerics,
                                            .f16_range = model->engine->options.f16_range_check};
    s->context.compare = model->engine->options.compare_reference;
    s->context.debug = model->engine->options.mode == PEN_MODE_DEBUG ? debug_log_new() : NULL;
    s->context.precision = model->engine->options.precision;
    s->context.ledger = (struct ledger){.model = &model->ledger,
                                        .alone = model->engine->limits.arena_bytes,
                                        .make_room = runner_make_room,
                                        .context = &s->context};
    rt_arena_init(&s->context.arena, model->engine->limits.arena_bytes);
    s->context.arena.ledger = &s->context.ledger;
    atomic_fetch_add(&model->ledger.sessions, 1);
    s->outputs = calloc(model->output_count + 1, sizeof *s->outputs);
    s->shapes = calloc(model->input_count + 1, sizeof *s->shapes);
    s->order = calloc(model->input_count + 1, sizeof *s->order);
    s->values = calloc(model->input_count + 1, sizeof *s->values);
    atomic_fetch_add(&engine_counters.sessions, 1);
    if (s->outputs == NULL || s->shapes == NULL || s->order == NULL || s->values == NULL ||
        (model->engine->options.mode == PEN_MODE_DEBUG && s->context.debug == NULL) ||
        runner_new(model->program, &s->context, &s->runner) != PEN_OK) {
        pen_session_free(s);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a session");
    }
    *ret_session = s;
    return PEN_OK;
}

void pen_session_free(struct pen_session *session)
{
    if (session == NULL) {
        return;
    }
    atomic_fetch_sub(&engine_counters.sessions, 1);
    session_variants_fini(session);
    runner_free(session->runner);
    free(session->values);
    rt_arena_fini(&session->context.arena);
    atomic_fetch_sub(&session->model->ledger.sessions, 1);
    profile_free(session->profile);
    debug_log_free(session->context.debug);
    free(session->outputs);
    free(session->shapes);
    free(session->order);
    free(session);
}

static const struct pen_tensor *signature(const struct pen_session *s, size_t input)
{
    return &s->model->inputs[input];
}

/* Does a tensor fit the signature? The sentence names the input. */
static enum pen_status input_check(const struct pen_session *s, size_t input, const struct pen_tensor *t,
                                   struct pen_error *reterr)
{
    const struct pen_tensor *sig = signature(s, input);
    char want[96];
    char got[96];
    if (s->model->graph->values[s->model->graph->inputs[input]].kind != VALUE_TENSOR) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "input '%s' is a sequence or optional: only tensors can be given", sig->name);
    }
    if (t->rank > PEN_MAX_RANK) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s': rank %u is over the limit of %d", sig->name, t->rank,
                             PEN_MAX_RANK);
    }
    if (sig->dtype != PEN_DTYPE_NONE && t->dtype != sig->dtype) {
        return pen_error_set(reterr, PEN_ERR_DTYPE, "input '%s' must be %s, got %s", sig->name,
                             pen_dtype_name(sig->dtype), pen_dtype_name(t->dtype));
    }
    const struct shape *shape = &s->model->graph->values[s->model->graph->inputs[input]].shape;
    bool fits = shape->rank == SHAPE_RANK_UNKNOWN || (uint32_t)shape->rank == t->rank;
    for (uint32_t d = 0; fits && shape->rank != SHAPE_RANK_UNKNOWN && d < t->rank; d++) {
        fits = t->dims[d] >= 0 && (shape->dim[d] == SHAPE_DIM_UNKNOWN || shape->dim[d] == t->dims[d]);
    }
    if (!fits) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' must be %s, got %s", sig->name,
                             shape_text(shape, want, sizeof want), pen_shape_text(t->dims, t->rank, got, sizeof got));
    }
    return PEN_OK;
}

static enum pen_status inputs_match(struct pen_session *s, const struct pen_tensor *inputs, size_t count,
                                    struct pen_error *reterr)
{
    size_t need = s->model->input_count;
    if (count != need) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the model takes %zu %s, got %zu", need,
                             words_plural(need, "input", "inputs"), count);
    }
    for (size_t i = 0; i < need; i++) {
        size_t at = i;
        if (inputs[i].name != NULL) {
            for (at = 0; at < count && (inputs[at].name == NULL || strcmp(inputs[at].name, signature(s, i)->name) != 0);
                 at++) {
            }
            if (at == count) {
                return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "input '%s' is missing", signature(s, i)->name);
            }
        }
        enum pen_status status = input_check(s, i, &inputs[at], reterr);
        if (status != PEN_OK) {
            return status;
        }
        s->order[i] = (uint32_t)at;
        s->shapes[i] = shape_of((int32_t)inputs[at].rank, inputs[at].dims);
    }
    return PEN_OK;
}

/* Kernels and loops only know that there was none for them. */
static enum pen_status arena_spent(const struct pen_session *s, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "values whose shapes only the data decides need more than the %" PRIu64
                         " bytes that a session of this model may hold: send smaller inputs, or grant more memory",
                         ledger_limit(&s->context.ledger));
}

/* At the beginning of a bind, when nobody needs what the arena holds. */
static enum pen_status bucket_prepare(struct pen_session *s, struct runner *r, struct bucket **ret_bucket,
                                      struct pen_error *reterr)
{
    uint64_t before = s->context.prepared_count;
    s->context.arena_idle = s->flight_count == 0;
    enum pen_status status = runner_bucket(r, s->shapes, ret_bucket, reterr);
    s->context.arena_idle = false;
    if (s->context.prepared_count != before) {
        model_weigh(s->model); /* a device gets its weights with the first bucket */
    }
    return status;
}

enum pen_status pen_session_bind(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                 struct pen_error *reterr)
{
    enum pen_status status = session_free_inputs(session, reterr);
    if (status == PEN_OK) {
        status = inputs_match(session, inputs, count, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    session->bound = NULL;
    session->context.keep = NULL;
    rt_arena_reset(&session->context.arena);
    session->context.arena.own_refused = false;
    struct bucket *b = NULL;
    status = bucket_prepare(session, session->runner, &b, reterr);
    if (status != PEN_OK) {
        return status;
    }
    session->context.keep = b;
    const struct graph *g = session->model->graph;
    for (uint32_t i = 0; b->interpretive && i < g->input_count; i++) {
        struct rt_value *v = &b->values[g->inputs[i]];
        size_t bytes = 0;
        if (v->dtype == PEN_DTYPE_STRING || v->kind != VALUE_TENSOR) {
            continue;
        }
        status = shape_bytes(&v->shape, v->dtype, g->limits.tensor_bytes, &bytes);
        v->bytes = bytes;
        v->data = status == PEN_OK ? rt_arena_alloc(&session->context.arena, bytes) : NULL;
        if (v->data == NULL && session->context.arena.own_refused) {
            return arena_spent(session, reterr);
        }
        if (v->data == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for input '%s'", signature(session, i)->name);
        }
    }
    session->bound = b;
    return PEN_OK;
}

void *pen_session_input(struct pen_session *session, size_t index, size_t *ret_bytes)
{
    if (session->bound == NULL || index >= session->model->input_count) {
        return NULL;
    }
    struct rt_value *v = &session->bound->values[session->model->graph->inputs[index]];
    if (v->dtype == PEN_DTYPE_STRING) {
        return NULL;
    }
    *ret_bytes = v->bytes;
    return v->data;
}

static enum pen_status output_export(struct pen_session *s, const struct chosen *ran, size_t index,
                                     struct pen_error *reterr)
{
    const struct rt_value *v = &ran->bucket->values[ran->g->outputs[index]];
    struct pen_tensor *t = &s->outputs[index];
    const char *name = s->model->outputs[index].name;
    if (v->kind != VALUE_TENSOR || v->dtype == PEN_DTYPE_NONE || !shape_known(&v->shape)) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "output '%s' is a sequence or optional: only tensors can be returned", name);
    }
    *t = (struct pen_tensor){
        .name = name, .dtype = v->dtype, .rank = (uint32_t)v->shape.rank, .data = v->data, .bytes = v->bytes};
    memcpy(t->dims, v->shape.dim, sizeof t->dims);
    if (v->dtype == PEN_DTYPE_STRING) {
        void *wire = NULL;
        enum pen_status status =
            wire_string_encode(&s->context.arena, v->data, (size_t)shape_elements(&v->shape), &wire, &t->bytes, reterr);
        t->data = wire;
        return status;
    }
    return shape_bytes(&v->shape, v->dtype, 0, &t->bytes);
}

enum pen_status session_bound_choose(struct pen_session *s, struct chosen *ret_chosen, struct pen_error *reterr)
{
    const struct graph *g = s->model->graph;
    if (s->bound == NULL) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "bind inputs before running the session");
    }
    *ret_chosen = (struct chosen){.g = g, .runner = s->runner, .bucket = s->bound};
    if (s->model->variants == NULL) {
        return PEN_OK;
    }
    for (uint32_t i = 0; i < g->input_count;
         i++) { /* they lie in the general program's bucket and may ask for another */
        s->values[i] = s->bound->values[g->inputs[i]];
    }
    return session_choose(s, s->values, ret_chosen, reterr);
}

void session_context_set(struct pen_session *s, const struct pen_stop *stop, struct pen_error *reterr)
{
    s->context.cancel = stop != NULL ? &stop->cancel : NULL;
    s->context.turns = 0;
    if (debug_of(&s->context) != NULL) {
        debug_log_begin(s->context.debug);
    }
    s->context.numerics.note[0] = '\0';
    s->context.error = reterr;
    s->context.profile = s->profile;
}

enum pen_status session_conclude(struct pen_session *s, const struct chosen *ran, const struct pen_stop *stop,
                                 enum pen_status status, const struct pen_tensor **ret_outputs, size_t *ret_count,
                                 struct pen_error *reterr)
{
    s->last = *ran;
    if (status == PEN_ERR_CANCELLED && stop != NULL && atomic_load(&stop->cancel.stop) == 0) {
        status = PEN_ERR_DEADLINE;
    }
    if (status == PEN_ERR_CANCELLED || status == PEN_ERR_DEADLINE) {
        return pen_error_set(reterr, status,
                             status == PEN_ERR_DEADLINE ? "the deadline passed while the model ran"
                                                        : "the run was cancelled");
    }
    for (size_t i = 0; status == PEN_OK && i < s->model->output_count; i++) {
        status = output_export(s, ran, i, reterr);
    }
    if (status == PEN_ERR_NO_MEMORY && s->context.arena.own_refused) {
        status = arena_spent(s, reterr);
    }
    if (status != PEN_OK) {
        return error_complete(reterr, status, "run the model");
    }
    *ret_outputs = s->outputs;
    *ret_count = s->model->output_count;
    return status;
}

static enum pen_status chosen_run(struct pen_session *session, const struct chosen *ran, const struct pen_stop *stop,
                                  const struct pen_tensor **ret_outputs, size_t *ret_count, struct pen_error *reterr)
{
    session_context_set(session, stop, reterr);
    enum pen_status status = runner_run(ran->runner, ran->bucket);
    return session_conclude(session, ran, stop, status, ret_outputs, ret_count, reterr);
}

enum pen_status pen_session_run_bound(struct pen_session *session, const struct pen_stop *stop,
                                      const struct pen_tensor **ret_outputs, size_t *ret_count,
                                      struct pen_error *reterr)
{
    struct chosen ran;
    enum pen_status status = session_idle(session, reterr);
    if (status == PEN_OK) {
        status = session_bound_choose(session, &ran, reterr);
    }
    return status == PEN_OK ? chosen_run(session, &ran, stop, ret_outputs, ret_count, reterr) : status;
}

enum pen_status session_inputs_copy(struct pen_session *s, const struct pen_tensor *inputs,
                                    struct device_value *const *on_device, struct pen_error *reterr)
{
    const struct graph *g = s->model->graph;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const struct pen_tensor *t = &inputs[s->order[i]];
        struct rt_value *v = &s->bound->values[g->inputs[i]];
        if (on_device != NULL && on_device[s->order[i]] != NULL) {
            continue;
        }
        enum pen_status status = pen_tensor_check(t, reterr);
        if (status != PEN_OK) {
            return status;
        }
        if (v->dtype == PEN_DTYPE_STRING) {
            struct string_view *items = NULL;
            size_t count = (size_t)shape_elements(&v->shape);
            status = wire_string_decode(&s->context.arena, t->data, t->bytes, count, &items, reterr);
            v->data = items;
            v->bytes = count * sizeof *items;
            if (status != PEN_OK) {
                return status;
            }
        } else if (t->bytes > 0) {
            PEN_ASSERT(v->data != NULL && t->bytes <= v->bytes, "an input that fits the shapes fits the bound buffer");
            memcpy(v->data, t->data, t->bytes);
        }
    }
    return PEN_OK;
}

enum pen_status pen_session_run(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                const struct pen_stop *stop, const struct pen_tensor **ret_outputs, size_t *ret_count,
                                struct pen_error *reterr)
{
    enum pen_status status = session_idle(session, reterr);
    if (status == PEN_OK) {
        status = pen_session_bind(session, inputs, count, reterr);
    }
    if (status == PEN_OK) {
        status = session_inputs_copy(session, inputs, NULL, reterr);
    }
    if (status == PEN_OK) {
        status = pen_session_run_bound(session, stop, ret_outputs, ret_count, reterr);
    }
    return status;
}

static void warm_times_set(uint64_t prepare_us, uint64_t run_us, uint64_t *ret_prepare_us, uint64_t *ret_run_us)
{
    if (ret_prepare_us != NULL) {
        *ret_prepare_us = prepare_us;
    }
    if (ret_run_us != NULL) {
        *ret_run_us = run_us;
    }
}

/* Runs the bound bucket on zeros. */
static enum pen_status warm_run(struct pen_session *session, uint64_t start, uint64_t *ret_prepare_us,
                                uint64_t *ret_run_us, struct pen_error *reterr)
{
    const struct graph *g = session->model->graph;
    for (uint32_t i = 0; i < g->input_count; i++) {
        struct rt_value *v = &session->bound->values[g->inputs[i]];
        if (v->dtype == PEN_DTYPE_STRING) {
            size_t elements = (size_t)shape_elements(&v->shape);
            v->bytes = elements * sizeof(struct string_view);
            v->data = rt_arena_alloc(&session->context.arena, v->bytes);
        }
        if (v->data == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to warm input '%s'",
                                 signature(session, i)->name);
        }
        memset(v->data, 0, v->bytes);
    }
    uint64_t prepared = now_us();
    const struct pen_tensor *outputs = NULL;
    size_t output_count = 0;
    struct chosen general = {.g = g, .runner = session->runner, .bucket = session->bound};
    enum pen_status status =
        chosen_run(session, &general, NULL, &outputs, &output_count, reterr); /* zeros make no useful variant */
    if (status == PEN_OK) {
        status = runner_within(&session->context, reterr);
    }
    if (status == PEN_OK) {
        uint64_t run_us = now_us() - prepared;
        warm_times_set(prepared - start, run_us > 0 ? run_us : 1, ret_prepare_us, ret_run_us);
    }
    return status;
}

enum pen_status pen_session_warm(struct pen_session *session, const struct pen_tensor *inputs, size_t count,
                                 uint64_t *ret_prepare_us, uint64_t *ret_run_us, struct pen_error *reterr)
{
    const enum pen_warmup how = session->model->engine->options.warmup;
    uint64_t start = now_us();
    enum pen_status status = session_idle(session, reterr);
    warm_times_set(0, 0, ret_prepare_us, ret_run_us);
    if (status == PEN_OK && how != PEN_WARMUP_NONE) {
        session->context.keep_all = true;
        status = pen_session_bind(session, inputs, count, reterr);
        status = status == PEN_OK && how == PEN_WARMUP_EXECUTE
                     ? warm_run(session, start, ret_prepare_us, ret_run_us, reterr)
                     : status;
        session->context.keep_all = false;
    }
    return status;
}
void pen_thread_alone(bool alone)
{
    backend_alone = alone;
}

uint64_t pen_session_prepared(const struct pen_session *session)
{
    return session->context.prepared_count;
}

void pen_session_profile(struct pen_session *session, bool on)
{
    if (on && session->profile == NULL) {
        session->profile = profile_new();
    } else if (!on) {
        profile_free(session->profile);
        session->profile = NULL;
    }
}

const struct pen_profile_row *pen_session_profile_rows(struct pen_session *session, size_t *ret_count)
{
    *ret_count = 0;
    return session->profile != NULL ? profile_rows(session->profile, ret_count) : NULL;
}

const char *pen_session_note(const struct pen_session *session)
{
    return session->context.numerics.note;
}

uint64_t pen_session_compared(const struct pen_session *session)
{
    return session->context.compared;
}

struct pen_stop *pen_stop_new(void)
{
    struct pen_stop *stop = calloc(1, sizeof *stop);
    if (stop != NULL) {
        stop->cancel.deadline_us = UINT64_MAX;
    }
    return stop;
}

void pen_stop_free(struct pen_stop *stop)
{
    free(stop);
}

void pen_stop_arm(struct pen_stop *stop, uint64_t deadline_us)
{
    stop->cancel.deadline_us = deadline_us;
    atomic_store(&stop->cancel.stop, 0);
}

void pen_stop_now(struct pen_stop *stop)
{
    atomic_store(&stop->cancel.stop, 1);
}
