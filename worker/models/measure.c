/* measure.c - builds the inputs that the engine measures on, and judges what it found. */
#include "measure.h"

#include "logline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What pen_model_measure borrows. */
struct inputs {
    struct pen_measure_inputs asked;
    struct warm_shape shape;
    struct pen_range ranges[SERVED_TENSORS_MAX];
    struct pen_tensor *tensors; /* [sets][inputs]; none owns its data */
    void **blocks;              /* [sets * inputs]: data that are not the config's own */
};

static void inputs_free(const struct served *served, struct inputs *in)
{
    if (!in)
        return;
    for (size_t i = 0; in->blocks && i < in->asked.sets * served->inputs_count; i++)
        free(in->blocks[i]);
    free(in->blocks);
    free(in->tensors);
    free(in);
}

static const struct config_calibration_file *file_of(const struct config_calibration *c, size_t set, const char *input)
{
    for (size_t i = 0; i < c->files_count; i++)
        if (c->files[i].set == set && strcmp(c->files[i].input, input) == 0)
            return &c->files[i];
    return NULL;
}

static const struct served_state *state_of(const struct served *served, size_t input)
{
    for (size_t i = 0; i < served->states_count; i++)
        if (served->states[i].input == input)
            return &served->states[i];
    return NULL;
}

/* Pixels as clients send them, u8 [images, height, width, channels], become the network's input. */
static enum pen_status pixels_make(const struct served *served, const struct config_calibration_file *file,
                                   struct pen_tensor *to, void **ret_block, struct pen_error *reterr)
{
    const struct preprocess *pre = &served->preprocess;
    const struct pen_tensor *from = &file->tensor;
    if (from->rank != 4 || from->dims[1] != pre->height || from->dims[2] != pre->width ||
        from->dims[3] != pre->channels)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "calibration: '%s' must be u8 [images, %u, %u, %u], as jobs are",
                             file->file, pre->height, pre->width, pre->channels);
    to->dims[0] = from->dims[0];
    to->dims[1] = pre->nhwc ? pre->height : pre->channels;
    to->dims[2] = pre->nhwc ? pre->width : pre->height;
    to->dims[3] = pre->nhwc ? pre->channels : pre->width;
    to->bytes = from->bytes * pre->element_bytes;
    to->data = *ret_block = malloc(to->bytes + 64);
    if (!to->data)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for calibration inputs");
    preprocess_run(pre, from->data, (size_t)from->dims[0], *ret_block);
    return PEN_OK;
}

static enum pen_status state_make(const struct served_state *state, struct pen_tensor *to, void **ret_block,
                                  struct pen_error *reterr)
{
    *to = state->tensor;
    to->data = *ret_block = calloc(1, to->bytes + 64);
    if (!to->data)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for calibration inputs");
    if (state->tensor.data)
        memcpy(*ret_block, state->tensor.data, to->bytes);
    return PEN_OK;
}

static enum pen_status tensor_take(const struct served *served, size_t set, size_t input, struct inputs *in,
                                   struct pen_error *reterr)
{
    size_t at = set * served->inputs_count + input;
    struct pen_tensor *to = &in->tensors[at];
    const struct pen_tensor *network = &served->network_inputs[input];
    const struct config_calibration_file *file = file_of(&served->config.calibration, set, network->name);
    const struct served_state *state = file ? NULL : state_of(served, input);
    *to = *network;
    if (state)
        return state_make(state, to, &in->blocks[at], reterr);
    if (!file)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "calibration: set %zu has no file for input '%s'", set + 1,
                             network->name);
    if ((int)input == served->pixels_input && file->tensor.dtype == PEN_DTYPE_U8)
        return pixels_make(served, file, to, &in->blocks[at], reterr);
    *to = file->tensor;
    to->name = network->name;
    return PEN_OK;
}

static enum pen_status sets_make(const struct served *served, struct inputs *in, struct pen_error *reterr)
{
    size_t sets = served->config.calibration.sets, count = sets * served->inputs_count;
    in->asked.sets = sets;
    in->tensors = calloc(count ? count : 1, sizeof *in->tensors);
    in->blocks = calloc(count ? count : 1, sizeof *in->blocks);
    if (!in->tensors || !in->blocks)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for calibration inputs");
    in->asked.tensors = in->tensors;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < count; i++)
        status = tensor_take(served, i / served->inputs_count, i % served->inputs_count, in, reterr);
    return status;
}

/* Floats that pixels become lie between those of 0 and of 255. */
static struct pen_range pixels_range(const struct preprocess *pre)
{
    struct pen_range range = {INFINITY, -INFINITY};
    for (uint32_t c = 0; c < pre->channels; c++) {
        double ends[2] = {(0.0 - (double)pre->mean[c]) * (double)pre->scale[c],
                          (255.0 - (double)pre->mean[c]) * (double)pre->scale[c]};
        for (size_t i = 0; i < 2; i++) {
            range.low = fmin(range.low, ends[i]);
            range.high = fmax(range.high, ends[i]);
        }
    }
    return range;
}

static void ranges_make(const struct served *served, struct pen_range ranges[SERVED_TENSORS_MAX])
{
    const struct config_calibration *c = &served->config.calibration;
    if (served->pixels_input >= 0 && served->preprocess.element_bytes > 1)
        ranges[served->pixels_input] = pixels_range(&served->preprocess);
    for (size_t i = 0; i < c->ranges_count; i++) {
        int input = served_input(served, c->ranges[i].input);
        if (input >= 0)
            ranges[input] = (struct pen_range){c->ranges[i].low, c->ranges[i].high};
    }
}

enum pen_status measure_drawn(const struct served *served, struct warm_shape *ret_shape,
                              struct pen_range ret_ranges[SERVED_TENSORS_MAX], struct pen_error *reterr)
{
    memset(ret_ranges, 0, SERVED_TENSORS_MAX * sizeof *ret_ranges);
    ranges_make(served, ret_ranges);
    return warmup_shape(served, 1, warmup_entry(served, 1), ret_shape, reterr);
}

static enum pen_status inputs_new(const struct served *served, struct inputs **ret_inputs, struct pen_error *reterr)
{
    struct inputs *in = calloc(1, sizeof *in);
    if (!in)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for calibration inputs");
    enum pen_status status = PEN_OK;
    if (served->config.calibration.sets > 0) {
        status = sets_make(served, in, reterr);
    } else {
        status = measure_drawn(served, &in->shape, in->ranges, reterr);
        in->asked.shapes = in->shape.inputs;
        in->asked.ranges = in->ranges;
    }
    if (status != PEN_OK) {
        inputs_free(served, in);
        return status;
    }
    *ret_inputs = in;
    return PEN_OK;
}

/* ---- the result ---------------------------------------------------------------------------------------------------------------------- */

static void publish(struct served *served, const struct pen_measured *measured)
{
    served->measured = *measured;
    atomic_store(&served->measured_as, SERVED_MEASURED);
}

void measure_recall(struct served *served)
{
    struct inputs *in = NULL;
    struct pen_measured measured;
    if (served->config.plan || atomic_load(&served->measured_as) == SERVED_MEASURED)
        return;
    if (inputs_new(served, &in, NULL) != PEN_OK)
        return; /* measure_run says why */
    if (pen_model_measured(served->model, &in->asked, &measured))
        publish(served, &measured);
    inputs_free(served, in);
}

static void measured_log(const struct served *served, bool kept)
{
    const struct pen_measured *m = &served->measured;
    log_event(LOG_INFO, "model_measured",
              "model=%s version=%" PRIu64
              " precision=%s largest=%.3g mean=%.3g inputs=%u source=%s repeatable=%s kept=%s",
              served->name, served->version, pen_engine_precision_name(served->precision), m->largest, m->mean,
              m->inputs, pen_measured_source_name(m->source), m->repeatable ? "yes" : "no", kept ? "yes" : "no");
}

enum pen_status measure_run(struct served *served, const struct pen_stop *stop, struct pen_error *reterr)
{
    struct inputs *in = NULL;
    struct pen_measured measured;
    bool kept = false;
    if (served->config.plan || atomic_load(&served->measured_as) == SERVED_MEASURED)
        return PEN_OK;
    enum pen_status status = inputs_new(served, &in, reterr);
    if (status == PEN_OK)
        status = pen_model_measure(served->model, &in->asked, stop, &measured, &kept, reterr);
    inputs_free(served, in);
    if (status == PEN_OK) {
        publish(served, &measured);
        measured_log(served, kept);
    } else if (status != PEN_ERR_CANCELLED && status != PEN_ERR_DEADLINE) {
        atomic_store(&served->measured_as, SERVED_UNMEASURABLE);
    }
    return status;
}

bool measure_result(const struct served *served, struct pen_measured *ret_measured)
{
    if (atomic_load(&served->measured_as) != SERVED_MEASURED)
        return false;
    *ret_measured = served->measured;
    return true;
}

/* ---- what config.json states --------------------------------------------------------------------------------------------------------- */

/* Quantised models compute in their integers whatever is asked for. */
static bool class_kept(const struct served *served, enum pen_precision asked)
{
    return asked == PEN_PRECISION_ANY || served->precision == PEN_PRECISION_F32 || served->precision == asked ||
           served->precision == PEN_PRECISION_INT8;
}

static enum pen_status bound_check(const struct served *served, struct pen_error *reterr)
{
    char text[CONTRACT_TEXT_BYTES];
    const struct contract *contract = &served->config.contract;
    const struct pen_measured *m = &served->measured;
    if (contract->error_max > 0.0 && !(m->largest <= contract->error_max))
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "config.json states %s, and the largest error here is %.3g (%s, %s inputs): serve it "
                             "with another --precision or --backend, or state a wider bound",
                             contract_text(contract, text), m->largest, pen_engine_precision_name(served->precision),
                             pen_measured_source_name(m->source));
    if (contract->exact && !m->repeatable)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "config.json states f32-exact, and equal inputs did not give equal bits here");
    return PEN_OK;
}

enum pen_status measure_settle(struct served *served, struct pen_error *reterr)
{
    char text[CONTRACT_TEXT_BYTES];
    struct pen_error inner = {0};
    const struct contract *contract = &served->config.contract;
    measure_recall(served);
    if (served->config.plan)
        return PEN_OK; /* its steps keep what they state; the broker asks each of them */
    if (!class_kept(served, contract->precision))
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "config.json states %s, and this worker serves it in %s: start one with --precision %s",
                             contract_text(contract, text), pen_engine_precision_name(served->precision),
                             pen_engine_precision_name(contract->precision));
    if (contract->error_max <= 0.0 && !contract->exact)
        return PEN_OK;
    if (measure_run(served, NULL, &inner) != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "config.json states %s, and its error cannot be measured: %s",
                             contract_text(contract, text), inner.text);
    return bound_check(served, reterr);
}
