#include "run/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/element_io.h"
#include "error_complete.h"
#include "graph/build_id.h"
#include "run/measure_error.h"

#define SEEDED_SETS 4u
#define ENOUGH_NS                                                                                                      \
    UINT64_C(20000000000) /* after so long what has been run must do: the reference takes seconds for a large model */
#define KEPT_BYTES 32u    /* largest, mean, inputs, source, repeatable: as they are written */

/* ---- what is kept ---- */

static void inputs_digest(struct digest_stream *key, const struct pen_measure_inputs *inputs, size_t count)
{
    digest_update_u64(key, inputs->sets);
    for (size_t i = 0; i < inputs->sets * count; i++) {
        const struct pen_tensor *t = &inputs->tensors[i];
        digest_update_u64(key, t->dtype);
        for (uint32_t d = 0; d < t->rank; d++) {
            digest_update_u64(key, (uint64_t)t->dims[d]);
        }
        digest_update(key, t->data, t->bytes);
    }
    for (size_t i = 0; inputs->sets == 0 && i < count; i++) {
        for (uint32_t d = 0; d < inputs->shapes[i].rank; d++) {
            digest_update_u64(key, (uint64_t)inputs->shapes[i].dims[d]);
        }
        if (inputs->ranges != NULL) {
            digest_update(key, &inputs->ranges[i], sizeof inputs->ranges[i]);
        }
    }
}

static void text_add(struct digest_stream *key, const char *text)
{
    digest_update_text(key, text != NULL ? text : "");
}

/* Flags that change no number: they follow the host and its load. */
static bool is_indifferent(const char *flag)
{
    static const char *const names[] = {"threads", "pin", "budget_bytes", "vk_cache_dir", "keep_measured"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(flag, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void flags_digest(struct digest_stream *key, const struct pen_engine *e)
{
    size_t count = 0;
    const struct pen_flag_row *rows = pen_flag_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (!is_indifferent(rows[i].name)) {
            text_add(key, rows[i].name);
            text_add(key, pen_env_get(e->env, rows[i].name));
        }
    }
}

/* All that decides the numbers, beside the model's content and the engine's build. */
static bool key_make(const struct pen_model *m, const struct pen_measure_inputs *inputs, struct digest *ret_key)
{
    const struct pen_engine *e = m->engine;
    struct digest_stream *key = m->memo != NULL ? memo_key(m->memo, MEMO_ERROR) : NULL;
    if (key == NULL) {
        return false;
    }
    text_add(key, pen_engine_backend(e));
    text_add(key, pen_engine_device(e));
    text_add(key, pen_engine_library(e));
    text_add(key, pen_engine_isa(e));
    text_add(key, m->placement);
    flags_digest(key, e);
    digest_update_u64(key, m->precision);
    inputs_digest(key, inputs, m->input_count);
    *ret_key = digest_final(key);
    digest_free(key);
    return true;
}

struct kept_error {
    double largest, mean;
    uint32_t inputs, source, repeatable, none;
};
_Static_assert(sizeof(struct kept_error) == KEPT_BYTES, "what is kept has no holes; the file's digest has the build in "
                                                        "its key, so that no other layout is ever read");

static bool sound(const struct kept_error *k, size_t bytes)
{
    return bytes == sizeof *k && k->largest >= 0.0 && k->mean >= 0.0 && k->mean <= k->largest && k->inputs > 0 &&
           (k->source == PEN_MEASURED_CALIBRATION || k->source == PEN_MEASURED_SEEDED) && k->repeatable <= 1 &&
           k->none == 0;
}

/* The reference is what all are compared with: nothing is measured of it. */
static bool is_reference(const struct pen_model *m)
{
    return backend_is_reference(m->engine->backends[0].ops);
}

bool pen_model_measured(const struct pen_model *model, const struct pen_measure_inputs *inputs,
                        struct pen_measured *ret_measured)
{
    struct digest key;
    struct kept_error kept = {0};
    size_t bytes = 0;
    if (is_reference(model)) {
        *ret_measured =
            (struct pen_measured){.source = PEN_MEASURED_REFERENCE, .repeatable = !model->graph->stochastic};
        return true;
    }
    if (!key_make(model, inputs, &key) || !memo_find(model->memo, &key, MEMO_ERROR, &kept, sizeof kept, &bytes) ||
        !sound(&kept, bytes)) {
        return false;
    }
    memo_count_found();
    *ret_measured = (struct pen_measured){.largest = kept.largest,
                                          .mean = kept.mean,
                                          .inputs = kept.inputs,
                                          .source = (enum pen_measured_source)kept.source,
                                          .repeatable = kept.repeatable != 0};
    return true;
}

static bool keep(const struct pen_model *m, const struct pen_measure_inputs *inputs, const struct pen_measured *found)
{
    struct digest key;
    const struct kept_error kept = {.largest = found->largest,
                                    .mean = found->mean,
                                    .inputs = found->inputs,
                                    .source = found->source,
                                    .repeatable = found->repeatable};
    return key_make(m, inputs, &key) && memo_put(m->memo, &key, MEMO_ERROR, &kept, sizeof kept);
}

/* ---- inputs ---- */

/* splitmix64 (Steele, Lea, Flood 2014): 0 <= x < 1. */
static double next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* A declared range; else floats of 0..1 and -1..1 in turn, 8-bit integers of their whole range, other integers and bools 0 or 1: an index that exists everywhere. */
static struct pen_range range_of(const struct pen_measure_inputs *inputs, size_t input, size_t set)
{
    enum pen_dtype dtype = inputs->shapes[input].dtype;
    if (inputs->ranges != NULL && inputs->ranges[input].low < inputs->ranges[input].high) {
        return inputs->ranges[input];
    }
    if ((element_class(dtype) & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) != 0) {
        return (struct pen_range){set % 2 == 0 ? 0.0 : -1.0, 1.0};
    }
    return dtype == PEN_DTYPE_U8   ? (struct pen_range){0.0, 255.0}
           : dtype == PEN_DTYPE_I8 ? (struct pen_range){-128.0, 127.0}
                                   : (struct pen_range){0.0, 1.0};
}

static void fill(struct pen_tensor *t, struct pen_range range, uint64_t seed)
{
    uint64_t elements = 0;
    bool whole = (element_class(t->dtype) & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) == 0;
    bool pairs = (element_class(t->dtype) & ELEMENT_COMPLEX) != 0;
    enum pen_dtype dtype = !pairs ? t->dtype : t->dtype == PEN_DTYPE_C64 ? PEN_DTYPE_F32 : PEN_DTYPE_F64;
    if (pen_tensor_elements(t, &elements) != PEN_OK) {
        return;
    }
    for (uint64_t i = 0; i < (pairs ? 2 * elements : elements); i++) {
        double x = next(&seed);
        x = whole ? floor(range.low + x * (range.high - range.low + 1.0)) : range.low + x * (range.high - range.low);
        store_one_f64((void *)(uintptr_t)t->data, dtype, (int64_t)i, x);
    }
}

static enum pen_status tensor_make(const struct pen_tensor *shape, struct pen_tensor *ret, struct pen_error *reterr)
{
    uint64_t elements = 0;
    *ret = *shape;
    if (shape->dtype == PEN_DTYPE_STRING) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "input '%s' is text, which cannot be drawn", shape->name);
    }
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (shape->dims[d] < 0) {
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                                 "dimension %u of input '%s' is open: name calibration "
                                 "files, or give the dims in model_warmup",
                                 d, shape->name);
        }
    }
    enum pen_status status = pen_tensor_elements(shape, &elements);
    if (status != PEN_OK || pen_dtype_bytes(shape->dtype, elements, &ret->bytes) != 0) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' has a size that cannot be", shape->name);
    }
    ret->data = calloc(1, ret->bytes + 64);
    return ret->data != NULL ? PEN_OK
                             : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for input '%s'", shape->name);
}

/* All sets, one after the other: [sets][count]. Data of seeded ones are owned. */
struct sets {
    struct pen_tensor *tensors;
    size_t count, sets;
    bool owned;
};

static void sets_fini(struct sets *s)
{
    for (size_t i = 0; s->owned && i < s->count * s->sets; i++) {
        free((void *)(uintptr_t)s->tensors[i].data);
    }
    free(s->tensors);
}

static enum pen_status sets_init(struct sets *s, const struct pen_model *m, const struct pen_measure_inputs *inputs,
                                 struct pen_error *reterr)
{
    *s = (struct sets){
        .count = m->input_count, .sets = inputs->sets > 0 ? inputs->sets : SEEDED_SETS, .owned = inputs->sets == 0};
    s->tensors = calloc(s->count * s->sets + 1, sizeof *s->tensors);
    enum pen_status status = s->tensors != NULL ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory");
    for (size_t i = 0; status == PEN_OK && i < s->count * s->sets; i++) {
        if (!s->owned) {
            s->tensors[i] = inputs->tensors[i];
            continue;
        }
        status = tensor_make(&inputs->shapes[i % s->count], &s->tensors[i], reterr);
        if (status == PEN_OK) {
            fill(&s->tensors[i], range_of(inputs, i % s->count, i / s->count), i + 1);
        }
    }
    if (status != PEN_OK) {
        sets_fini(s);
        s->tensors = NULL;
    }
    return status;
}

/* ---- runs ---- */

/* The model on the reference backend beside the one that is measured. */
struct pair {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session, *tried;
};

static void pair_fini(struct pair *p)
{
    pen_session_free(p->tried);
    pen_session_free(p->session);
    pen_model_free(p->model);
    pen_engine_free(p->engine);
}

static enum pen_status pair_init(struct pair *p, struct pen_model *m, struct pen_error *reterr)
{
    struct pen_engine_options options;
    *p = (struct pair){.engine = NULL};
    pen_engine_options_init(&options);
    options.backend = "reference";
    options.budget_bytes = m->engine->options.budget_bytes;
    options.fold_bytes = m->engine->options.fold_bytes;
    options.optimise = m->engine->options.optimise;
    enum pen_status status = pen_engine_new(&options, &p->engine, reterr);
    if (status == PEN_OK) {
        status = pen_model_load_beneath(p->engine, m->path, m->beneath, &p->model, reterr);
    }
    if (status == PEN_OK) {
        status = pen_session_new(p->model, &p->session, reterr);
    }
    return status == PEN_OK ? pen_session_new(m, &p->tried, reterr) : status;
}

/* One set on both. again: the bits of an earlier run, which must come again. */
static enum pen_status set_run(struct pair *p, const struct sets *s, size_t set, const struct pen_stop *stop,
                               struct measure_error *error, struct measure_bits *bits, struct pen_error *reterr)
{
    const struct pen_tensor *in = s->tensors + set * s->count, *want = NULL, *got = NULL;
    size_t wanted = 0, given = 0;
    enum pen_status status = pen_session_run(p->tried, in, s->count, stop, &got, &given, reterr);
    if (status == PEN_OK && bits != NULL) {
        status = measure_bits_take(bits, got, given) ? PEN_OK : PEN_ERR_NO_MEMORY;
    }
    if (status == PEN_OK && error != NULL) {
        status = pen_session_run(p->session, in, s->count, stop, &want, &wanted, reterr);
    }
    if (status == PEN_OK && error != NULL) {
        measure_error_add(error, got, given, want, wanted);
    }
    return status;
}

static enum pen_status sets_run(struct pair *p, const struct sets *s, const struct pen_stop *stop,
                                struct pen_measured *found, struct pen_error *reterr)
{
    struct measure_error error = {.largest = 0.0};
    struct measure_bits first = {.hash = 0}, second = {.hash = 0};
    uint64_t begun = backend_now_ns();
    enum pen_status status = PEN_OK;
    size_t done = 0;
    while (status == PEN_OK && done < s->sets && (done == 0 || backend_now_ns() - begun < ENOUGH_NS)) {
        status = set_run(p, s, done, stop, &error, &first, reterr);
        done += status == PEN_OK;
    }
    for (size_t i = 0; status == PEN_OK && i < done; i++) {
        status = set_run(p, s, i, stop, NULL, &second, reterr);
    }
    found->largest = error.largest;
    found->mean = error.count > 0 ? fmin(error.sum / (double)error.count, error.largest) : 0.0;
    found->inputs = (uint32_t)done;
    found->source = s->owned ? PEN_MEASURED_SEEDED : PEN_MEASURED_CALIBRATION;
    found->repeatable = first.hash == second.hash;
    return status;
}

enum pen_status pen_model_measure(struct pen_model *model, const struct pen_measure_inputs *inputs,
                                  const struct pen_stop *stop, struct pen_measured *ret_measured, bool *ret_kept,
                                  struct pen_error *reterr)
{
    struct pair pair;
    struct sets sets;
    struct pen_measured found = {0};
    *ret_kept = false;
    if (model->graph->stochastic) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "the model is random, or keeps a state: no two answers are alike");
    }
    if (is_reference(model)) {
        (void)pen_model_measured(model, inputs, ret_measured);
        return PEN_OK;
    }
    enum pen_status status = sets_init(&sets, model, inputs, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = pair_init(&pair, model, reterr);
    if (status == PEN_OK) {
        status = error_complete(reterr, sets_run(&pair, &sets, stop, &found, reterr), "measure the model");
    }
    pair_fini(&pair);
    sets_fini(&sets);
    if (status != PEN_OK) {
        return status;
    }
    memo_count_made();
    *ret_kept = keep(model, inputs, &found);
    *ret_measured = found;
    return PEN_OK;
}

void pen_measure_counts(uint64_t *ret_made, uint64_t *ret_found)
{
    memo_counts(ret_made, ret_found);
}

const char *pen_measured_source_name(enum pen_measured_source source)
{
    static const char *const names[] = {"reference", "calibration", "seeded"};
    return (size_t)source < sizeof names / sizeof names[0] ? names[source] : "unknown";
}

const char *pen_engine_build(void)
{
    return build_id();
}
