#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/element_io.h"
#include "backend/reference/noise.h"
#include "run/internal.h"
#include "tools/case.h"
#include "tools/tool.h"

#define TURNS 4

/* The model once more, on the reference in single precision. */
struct trial {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    double *base[CASE_VALUES_MAX]; /* what it gives without noise; NULL = no float tensor */
    int64_t counts[CASE_VALUES_MAX];
};

static enum pen_status trial_open(struct trial *t, const char *path)
{
    struct pen_engine_options options;
    tool_engine_options(&options);
    options.backend = "reference";
    enum pen_status status = pen_engine_new(&options, &t->engine, NULL);
    if (status == PEN_OK) {
        status = pen_model_load(t->engine, path, &t->model, NULL);
    }
    if (status == PEN_OK && pen_model_stochastic(t->model)) {
        status = PEN_ERR_UNSUPPORTED; /* its answers differ in each run anyway */
    }
    return status == PEN_OK ? pen_session_new(t->model, &t->session, NULL) : status;
}

static void trial_close(struct trial *t)
{
    for (uint32_t i = 0; i < CASE_VALUES_MAX; i++) {
        free(t->base[i]);
    }
    pen_session_free(t->session);
    pen_model_free(t->model);
    pen_engine_free(t->engine);
}

static enum pen_status trial_run(struct trial *t, const struct case_set *set, struct noise *noise,
                                 struct rt_value *outputs)
{
    kernel_noise = noise;
    enum pen_status status =
        session_run_values(t->session, set->inputs, set->input_count, outputs, CASE_VALUES_MAX, NULL);
    kernel_noise = NULL;
    return status;
}

static bool is_float(const struct rt_value *v)
{
    return v->kind == VALUE_TENSOR && element_class(v->dtype) == ELEMENT_FLOAT;
}

static enum pen_status base_keep(struct trial *t, const struct rt_value *outputs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        t->counts[i] = is_float(&outputs[i]) ? shape_elements(&outputs[i].shape) : 0;
        t->base[i] = t->counts[i] > 0 ? malloc((size_t)t->counts[i] * sizeof *t->base[i]) : NULL;
        if (t->counts[i] > 0 && t->base[i] == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        if (t->counts[i] > 0) {
            load_f64(outputs[i].data, outputs[i].dtype, 0, 1, t->counts[i], t->base[i]);
        }
    }
    return PEN_OK;
}

/* The farthest that one output went, as a share of its range. */
static double spread(const struct trial *t, uint32_t index, const struct rt_value *output)
{
    const double *base = t->base[index];
    double low = INFINITY, high = -INFINITY, far = 0.0;
    if (base == NULL || !is_float(output) || shape_elements(&output->shape) != t->counts[index]) {
        return 0.0;
    }
    for (int64_t i = 0; i < t->counts[index]; i++) {
        double d = fabs(load_one_f64(output->data, output->dtype, i) - base[i]);
        if (isfinite(base[i])) {
            low = fmin(low, base[i]);
            high = fmax(high, base[i]);
            far = isfinite(d) ? fmax(far, d) : INFINITY;
        }
    }
    double range = high > low ? high - low : fabs(high);
    return range > 0.0 && isfinite(range) ? far / range : 0.0;
}

/* A golden of 16-bit floats comes from a runtime that rounded every number on the way; we compute such models in f32. */
static double rounding_of(const struct case_set *set)
{
    double most = 0.0;
    for (uint32_t i = 0; i < set->expected_count; i++) {
        enum pen_dtype dtype = set->expected[i].kind == VALUE_TENSOR ? set->expected[i].dtype : PEN_DTYPE_NONE;
        most = fmax(most, dtype == PEN_DTYPE_F16 ? 0x1p-11 : dtype == PEN_DTYPE_BF16 ? 0x1p-8 : 0.0);
    }
    return most;
}

bool case_noise(const char *model_path, const struct case_set *set, double *ret_noise)
{
    struct trial t = {0};
    struct rt_value outputs[CASE_VALUES_MAX];
    struct noise noise = {.state = 20240521, .rounding = rounding_of(set)};
    memset(ret_noise, 0, CASE_VALUES_MAX * sizeof *ret_noise);
    enum pen_status status = trial_open(&t, model_path);
    if (status == PEN_OK) {
        status = trial_run(&t, set, NULL, outputs);
    }
    if (status == PEN_OK) {
        status = base_keep(&t, outputs, set->expected_count);
    }
    for (int turn = 0; turn < TURNS && status == PEN_OK; turn++) {
        status = trial_run(&t, set, &noise, outputs);
        for (uint32_t i = 0; i < set->expected_count && status == PEN_OK; i++) {
            ret_noise[i] = fmax(ret_noise[i], spread(&t, i, &outputs[i]));
        }
    }
    trial_close(&t);
    return status == PEN_OK;
}
