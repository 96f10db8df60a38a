#include "run/measure.h"

#include <inttypes.h>
#include <math.h>

#include "error_complete.h"
#include "graph/build_id.h"
#include "run/measure_error.h"
#include "run/measure_kept.h"
#include "run/measure_pair.h"
#include "run/measure_sets.h"

/* Of all that is kept beside the model. False: nothing is. */
static bool key_make(const struct pen_model *m, const struct pen_measure_inputs *inputs, struct digest *ret_key)
{
    struct digest_stream *key = m->memo != NULL ? memo_key(m->memo, MEMO_ERROR) : NULL;
    if (key == NULL) {
        return false;
    }
    measure_key_model(key, m);
    measure_key_inputs(key, inputs, m->input_count);
    *ret_key = digest_final(key);
    digest_free(key);
    return true;
}

bool measure_is_reference(const struct pen_model *m)
{
    return backend_is_reference(m->engine->backends[0].ops);
}

bool pen_model_measured(const struct pen_model *model, const struct pen_measure_inputs *inputs,
                        struct pen_measured *ret_measured)
{
    struct digest key;
    if (measure_is_reference(model)) {
        *ret_measured =
            (struct pen_measured){.source = PEN_MEASURED_REFERENCE, .repeatable = !model->graph->stochastic};
        return true;
    }
    return key_make(model, inputs, &key) && measure_kept_find(model->memo, &key, ret_measured);
}

/* ---- runs ---- */

static enum pen_status set_run(void *context, const struct pen_tensor *set, const struct pen_stop *stop,
                               struct measure_error *error, struct measure_bits *bits, struct pen_error *reterr)
{
    struct measure_pair *p = context;
    const size_t inputs = p->model->input_count;
    const struct pen_tensor *want = NULL, *got = NULL;
    size_t wanted = 0, given = 0;
    enum pen_status status = pen_session_run(p->tried, set, inputs, stop, &got, &given, reterr);
    if (status == PEN_OK && !measure_bits_take(bits, got, given)) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to measure a model");
    }
    if (status == PEN_OK && error != NULL) {
        status = pen_session_run(p->session, set, inputs, stop, &want, &wanted, reterr);
    }
    if (status == PEN_OK && error != NULL) {
        measure_error_add(error, got, given, want, wanted);
    }
    return status;
}

static struct pen_measured found_of(const struct measure_error *error, const struct measure_sets *sets, size_t done,
                                    bool repeatable)
{
    double mean = error->count > 0 ? fmin(error->sum / (double)error->count, error->largest) : 0.0;
    return (struct pen_measured){.largest = error->largest,
                                 .mean = mean,
                                 .inputs = (uint32_t)done,
                                 .source = sets->owned ? PEN_MEASURED_SEEDED : PEN_MEASURED_CALIBRATION,
                                 .repeatable = repeatable};
}

enum pen_status measure_sets_run(const struct measure_sets *sets, measure_set_fn *run, void *context,
                                 const struct pen_stop *stop, struct pen_measured *found, struct pen_error *reterr)
{
    struct measure_error error = {.largest = 0.0};
    struct measure_bits first = {.hash = 0}, second = {.hash = 0};
    uint64_t begun = backend_now_ns();
    enum pen_status status = PEN_OK;
    size_t done = 0;
    while (status == PEN_OK && done < sets->sets && (done == 0 || backend_now_ns() - begun < MEASURE_ENOUGH_NS)) {
        status = run(context, sets->tensors + done * sets->count, stop, &error, &first, reterr);
        done += status == PEN_OK;
    }
    for (size_t i = 0; status == PEN_OK && i < done; i++) {
        status = run(context, sets->tensors + i * sets->count, stop, NULL, &second, reterr);
    }
    *found = found_of(&error, sets, done, first.hash == second.hash);
    return status;
}

enum pen_status pen_model_measure(struct pen_model *model, const struct pen_measure_inputs *inputs,
                                  const struct pen_stop *stop, struct pen_measured *ret_measured, bool *ret_kept,
                                  struct pen_error *reterr)
{
    struct measure_pair pair;
    struct measure_sets sets;
    struct digest key;
    struct pen_measured found = {0};
    *ret_kept = false;
    if (model->graph->stochastic) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "the model is random, or keeps a state: no two answers are alike");
    }
    if (measure_is_reference(model)) {
        (void)pen_model_measured(model, inputs, ret_measured);
        return PEN_OK;
    }
    enum pen_status status = measure_sets_init(&sets, model->input_count, inputs, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = measure_pair_init(&pair, model, reterr);
    if (status == PEN_OK) {
        status =
            error_complete(reterr, measure_sets_run(&sets, set_run, &pair, stop, &found, reterr), "measure the model");
    }
    measure_pair_fini(&pair);
    measure_sets_fini(&sets);
    if (status != PEN_OK) {
        return status;
    }
    *ret_kept = key_make(model, inputs, &key) && measure_kept_put(model->memo, &key, &found);
    *ret_measured = found;
    return PEN_OK;
}

void pen_measure_counts(uint64_t *ret_made, uint64_t *ret_found)
{
    memo_counts(ret_made, ret_found);
}

const char *pen_measured_source_name(enum pen_measured_source source)
{
    static const char *const names[] = {"reference", "calibration", "seeded", "steps"};
    return (size_t)source < sizeof names / sizeof names[0] ? names[source] : "unknown";
}

const char *pen_engine_build(void)
{
    return build_id();
}
