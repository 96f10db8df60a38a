/* served.c - loads a file and finds out what the worker can offer with it. */
#include "served.h"

#include "declared.h"
#include "logline.h"
#include "model_file.h"
#include "pictures.h"
#include "steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AUTO_BATCH 8u /* for models without config.json whose first dimension has the name of a batch */

int served_input(const struct served *served, const char *name)
{
    for (size_t i = 0; i < served->inputs_count; i++)
        if (strcmp(served->inputs[i].name, name) == 0)
            return (int)i;
    return -1;
}

int served_output(const struct served *served, const char *name)
{
    for (size_t i = 0; i < served->outputs_count; i++)
        if (strcmp(served->outputs[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* NULL when tensor `t` can be split and joined along dims[0], else the reason. */
static const char *batch_obstacle(const struct pen_tensor *t)
{
    if (t->rank == 0 || t->dims[0] != -1)
        return "has a fixed first dimension";
    if (pen_dtype_bits(t->dtype) < 8)
        return "has elements that do not fill whole bytes";
    return NULL;
}

static bool batch_possible(const struct served *served, const char **ret_name, const char **ret_why)
{
    for (size_t i = 0; i < served->inputs_count + served->network_outputs_count; i++) {
        const struct pen_tensor *t =
            i < served->inputs_count ? &served->network_inputs[i] : &served->network_outputs[i - served->inputs_count];
        *ret_name = t->name;
        *ret_why = batch_obstacle(t);
        if (*ret_why)
            return false;
    }
    return served->inputs_count > 0;
}

/* A free first dimension may be a sequence or a count of boxes: without a config only its name makes it a batch. */
static bool batch_named(const struct served *served)
{
    for (size_t i = 0; i < served->inputs_count; i++) {
        const char *symbol = pen_model_symbol(served->model, i, 0);
        if (!symbol || (strcasecmp(symbol, "n") != 0 && !strcasestr(symbol, "batch")))
            return false;
    }
    return true;
}

static enum pen_status batch_decide(struct served *served, struct pen_error *reterr)
{
    const char *name = "", *why = "";
    bool possible = batch_possible(served, &name, &why);
    if (!served->config.batch_given) {
        served->max_batch_size = possible && batch_named(served) ? AUTO_BATCH : 0;
        return PEN_OK;
    }
    if (served->config.max_batch_size > 0 && !possible)
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "config.json says max_batch_size %u, but '%s' %s: say 0, or export the model with a free batch",
            served->config.max_batch_size, name, why);
    served->max_batch_size = served->config.max_batch_size;
    return PEN_OK;
}

static enum pen_status names_check(const struct pen_tensor *tensors, size_t count, const char *what,
                                   struct pen_error *reterr)
{
    if (count > SERVED_TENSORS_MAX)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "the model has %zu %ss; at most %u can travel", count, what,
                             SERVED_TENSORS_MAX);
    for (size_t i = 0; i < count; i++)
        if (!tensors[i].name || !tensors[i].name[0] || strlen(tensors[i].name) > CONFIG_NAME_BYTES_MAX)
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s %zu has no name of 1 to %u bytes", what, i,
                                 CONFIG_NAME_BYTES_MAX);
    return PEN_OK;
}

/* Mean and scale as the model's file has them: (pixel - mean) / deviation. */
static enum pen_status normalisation_adopt(struct served *served, int input, struct pen_error *reterr)
{
    struct config_preprocess *config = &served->config.preprocess;
    float deviation[CONFIG_CHANNELS_MAX];
    size_t count = pen_model_normalisation(served->model, config->mean, deviation, CONFIG_CHANNELS_MAX);
    if (input != 0 || count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "input.preprocess has normalisation 'model', but the model's file does not say how the "
                             "pixels of that input were normalised: give mean and scale");
    for (size_t i = 0; i < count && i < CONFIG_CHANNELS_MAX; i++) {
        if (!(fabsf(deviation[i]) > 0.0f))
            return pen_error_set(reterr, PEN_ERR_INVALID, "the model's file divides pixels by %g: give mean and scale",
                                 (double)deviation[i]);
        config->scale[i] = 1.0f / deviation[i];
    }
    config->mean_count = config->scale_count = count;
    return PEN_OK;
}

static enum pen_status pixels_join(struct served *served, struct pen_error *reterr)
{
    const struct config_preprocess *config = &served->config.preprocess;
    int index = config->input[0] ? served_input(served, config->input) : 0;
    if (index < 0)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "input.preprocess names the input '%s', which the model does not have", config->input);
    if (!config->input[0] && served->inputs_count != 1)
        return pen_error_set(reterr, PEN_ERR_INVALID, "input.preprocess must say which of the %zu inputs it means",
                             served->inputs_count);
    if (served->strings)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "input.preprocess and text inputs in one model are not supported");
    enum pen_status status = config->of_model ? normalisation_adopt(served, index, reterr) : PEN_OK;
    if (status != PEN_OK)
        return status;
    served->pixels_input = index;
    struct preprocess_quant quant = {0};
    quant.known = pen_model_input_quant(served->model, (size_t)index, &quant.scale, &quant.zero_point);
    return preprocess_init(&served->preprocess, config, &served->network_inputs[index], &quant, &served->inputs[index],
                           reterr);
}

static enum pen_status platform_check(const struct served *served, struct pen_error *reterr)
{
    const char *wanted = served->config.platform, *format = pen_model_format(served->model);
    return !wanted || strcmp(wanted, format) == 0
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_INVALID, "config.json says platform %s, but the model's format is %s",
                               wanted, format);
}

static bool is_float(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F64 || dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16;
}

static bool has_scores(struct served *served, size_t i, struct classes_quant *ret_quant)
{
    enum pen_dtype dtype = served->network_outputs[i].dtype;
    *ret_quant = (struct classes_quant){.known = false};
    if (dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8)
        ret_quant->known = pen_model_output_quant(served->model, i, &ret_quant->scale, &ret_quant->zero_point);
    return is_float(dtype) || ret_quant->known;
}

/* How well output `i` fits as the classes' scores; 0 = not at all. */
static int labels_rank(struct served *served, size_t i, struct classes_quant *ret_quant)
{
    const struct pen_tensor *output = &served->network_outputs[i];
    int64_t numbers = 1;
    if (!has_scores(served, i, ret_quant))
        return 0;
    for (uint32_t d = output->rank > 1 ? 1 : 0; d < output->rank && numbers <= CONFIG_LABELS_MAX; d++) {
        bool few = output->dims[d] > 0 && output->dims[d] <= CONFIG_LABELS_MAX;
        numbers = few ? numbers * output->dims[d] : INT64_MAX;
    }
    if (served->config.labels_count > 0 && numbers == (int64_t)served->config.labels_count)
        return 4;
    return output->dtype == PEN_DTYPE_F32 ? 3 : is_float(output->dtype) ? 2 : 1;
}

/* The first of the outputs that fit best. */
static void labels_join(struct served *served)
{
    int best = 0;
    for (size_t i = 0; i < served->network_outputs_count; i++) {
        struct classes_quant quant;
        int rank = labels_rank(served, i, &quant);
        if (rank > best) {
            best = rank;
            served->labels_output = (int)i;
            served->labels_quant = quant;
        }
    }
}

/* Copies of `from` with their names, in one block of memory, because a cold model is still described. */
static struct pen_tensor *tensors_copy(const struct pen_tensor *from, size_t count)
{
    size_t bytes = (count ? count : 1) * sizeof *from;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(from[i].name ? from[i].name : "") + 1;
    struct pen_tensor *to = calloc(1, bytes);
    char *name = to ? (char *)(to + (count ? count : 1)) : NULL;
    for (size_t i = 0; to && i < count; i++) {
        to[i] = from[i];
        to[i].name = name;
        name = stpcpy(name, from[i].name ? from[i].name : "") + 1;
    }
    return to;
}

static enum pen_status description_build(struct served *served, struct pen_error *reterr)
{
    const struct pen_tensor *inputs = pen_model_inputs(served->model, &served->inputs_count);
    const struct pen_tensor *outputs = pen_model_outputs(served->model, &served->network_outputs_count);
    served->network_inputs = tensors_copy(inputs, served->inputs_count);
    served->network_outputs = tensors_copy(outputs, served->network_outputs_count);
    served->outputs = served->network_outputs;
    served->outputs_count = served->network_outputs_count;
    served->placement = strdup(pen_model_placement(served->model));
    served->format = pen_model_format(served->model);
    served->precision = pen_model_precision(served->model);
    return served->network_inputs && served->network_outputs && served->placement
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's signature");
}

/* The names of the classes that the file has, where config.json gives none. Names that do not fit are left out: the model runs without them. */
static void labels_adopt(struct served *served)
{
    struct pen_error error = {0};
    size_t bytes = 0;
    const char *labels = pen_model_labels(served->model, &bytes);
    if (labels && served->config.labels_count == 0)
        (void)config_labels_parse(labels, bytes, &served->config, &error);
}

static enum pen_status signature_build(struct served *served, struct pen_error *reterr)
{
    enum pen_status status = description_build(served, reterr);
    if (status != PEN_OK)
        return status;
    status = names_check(served->network_inputs, served->inputs_count, "input", reterr);
    if (status == PEN_OK)
        status = names_check(served->network_outputs, served->network_outputs_count, "output", reterr);
    if (status != PEN_OK)
        return status;
    served->inputs = calloc(served->inputs_count ? served->inputs_count : 1, sizeof *served->inputs);
    if (!served->inputs)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's signature");
    for (size_t i = 0; i < served->inputs_count; i++) {
        served->inputs[i] = served->network_inputs[i];
        served->strings |= served->inputs[i].dtype == PEN_DTYPE_STRING;
    }
    labels_adopt(served);
    labels_join(served);
    status = served->config.picture.text ? pictures_join(served, reterr) : PEN_OK;
    return status == PEN_OK && served->config.preprocess.present ? pixels_join(served, reterr) : status;
}

/* Declared dims may leave out the batch dimension; dims that the model leaves open must be declared. */
static enum pen_status state_tensor(const struct served *served, const struct config_state *config,
                                    const struct pen_tensor *input, struct pen_tensor *ret, struct pen_error *reterr)
{
    char want[128];
    uint32_t batch = served->max_batch_size > 0 ? 1 : 0;
    uint64_t elements = 0;
    *ret = *input;
    if (batch)
        ret->dims[0] = 1;
    bool fits = !config->dims_given || config->tensor.rank + batch == input->rank;
    for (uint32_t i = batch; fits && config->dims_given && i < input->rank; i++) {
        int64_t dim = config->tensor.dims[i - batch];
        fits = dim == input->dims[i] || input->dims[i] < 0;
        ret->dims[i] = dim;
    }
    if (!fits || (config->tensor.dtype != PEN_DTYPE_NONE && config->tensor.dtype != input->dtype))
        return pen_error_set(reterr, PEN_ERR_INVALID, "state '%s' is declared unlike the model's input, %s %s",
                             config->input, pen_dtype_name(input->dtype),
                             pen_shape_text(input->dims, input->rank, want, sizeof want));
    if (pen_tensor_elements(ret, &elements) != PEN_OK || pen_dtype_bytes(ret->dtype, elements, &ret->bytes) != 0 ||
        ret->bytes > SERVED_STATE_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "state '%s' of the model is %s: name its dims, of at most %u bytes together, in "
                             "sequence_batching.state",
                             config->input, pen_shape_text(ret->dims, ret->rank, want, sizeof want),
                             SERVED_STATE_BYTES_MAX);
    if (config->initial && config->initial_bytes != ret->bytes)
        return pen_error_set(reterr, PEN_ERR_INVALID, "'%s' has %zu bytes, state '%s' has %zu", config->file,
                             config->initial_bytes, config->input, ret->bytes);
    ret->data = config->initial;
    return PEN_OK;
}

static enum pen_status state_join(struct served *served, const struct config_state *config, struct served_state *state,
                                  struct pen_error *reterr)
{
    int input = served_input(served, config->input), output = served_output(served, config->output);
    if (input < 0 || output < 0 || input == served->pixels_input)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "sequence_batching.state names '%s' and '%s': the model needs an input and an output of "
                             "those names, and the input takes no pictures",
                             config->input, config->output);
    const struct pen_tensor *in = &served->network_inputs[input], *out = &served->network_outputs[output];
    if (in->dtype != out->dtype) /* the shape of a branch is known only after it has run (slot_answer.c) */
        return pen_error_set(reterr, PEN_ERR_INVALID, "state '%s' and '%s' differ in type", config->input,
                             config->output);
    state->input = (uint32_t)input;
    state->output = (uint32_t)output;
    served->hidden_inputs |= UINT64_C(1) << input;
    served->hidden_outputs |= UINT64_C(1) << output;
    return state_tensor(served, config, in, &state->tensor, reterr);
}

static enum pen_status states_join(struct served *served, struct pen_error *reterr)
{
    const struct config_sequence *config = &served->config.sequence;
    if (!config->present)
        return PEN_OK;
    served->states = calloc(config->states_count, sizeof *served->states);
    if (!served->states)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's states");
    for (size_t i = 0; i < config->states_count; i++) {
        enum pen_status status = state_join(served, &config->states[i], &served->states[i], reterr);
        if (status != PEN_OK)
            return status;
        served->states_count++;
        served->states_bytes += served->states[i].tensor.bytes;
    }
    return PEN_OK;
}

/* The quantisation of 8-bit outputs; others are numbers as they are. */
static void outputs_quant(const struct served *served, struct classes_quant quants[SERVED_TENSORS_MAX])
{
    for (size_t i = 0; i < served->network_outputs_count; i++) {
        enum pen_dtype dtype = served->network_outputs[i].dtype;
        quants[i] = (struct classes_quant){.known = false};
        if (dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8)
            quants[i].known = pen_model_output_quant(served->model, i, &quants[i].scale, &quants[i].zero_point);
    }
}

/* Height and width of the input: of the pixels, or of its only tensor of rank 4, whose smaller outer dimension has the channels. 0 = not known. */
static void input_size(const struct served *served, uint32_t *ret_height, uint32_t *ret_width)
{
    const struct pen_tensor *input = &served->network_inputs[0];
    *ret_height = *ret_width = 0;
    if (served->files_input >= 0) {
        *ret_height = served->config.picture.steps->height;
        *ret_width = served->config.picture.steps->width;
    } else if (served->pixels_input >= 0) {
        *ret_height = served->preprocess.height;
        *ret_width = served->preprocess.width;
    } else if (served->inputs_count == 1 && input->rank == 4) {
        bool last = input->dims[3] > 0 && input->dims[3] <= (int64_t)CONFIG_CHANNELS_MAX;
        int64_t height = input->dims[last ? 1 : 2], width = input->dims[last ? 2 : 3];
        *ret_height = height > 0 && height < 65536 ? (uint32_t)height : 0;
        *ret_width = width > 0 && width < 65536 ? (uint32_t)width : 0;
    }
}

/* What comes after the model takes the place of its outputs. */
static enum pen_status answer_join(struct served *served, struct pen_error *reterr)
{
    struct classes_quant quants[SERVED_TENSORS_MAX];
    if (!served->config.answer)
        return PEN_OK;
    if (served->states_count > 0)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "config.json has answer and sequence_batching: keep one");
    outputs_quant(served, quants);
    struct answer_model model = {.outputs = served->network_outputs,
                                 .outputs_count = served->network_outputs_count,
                                 .quants = quants,
                                 .batched = served->max_batch_size > 0,
                                 .labels = served->config.labels,
                                 .labels_count = served->config.labels_count};
    input_size(served, &model.height, &model.width);
    enum pen_status status = answer_new(served->config.answer, &model, &served->answer, reterr);
    if (status == PEN_OK)
        served->outputs = answer_outputs(served->answer, &served->outputs_count);
    return status;
}

/* The model's content and every setting that changes what a caller gets for the same request. */
static enum pen_status digest_build(const struct served *served, struct digest *ret_digest, struct pen_error *reterr)
{
    uint8_t content[16];
    struct digest_stream *stream = digest_new(DIGEST_SHA256);
    if (!stream)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's digest");
    pen_model_digest(served->model, content);
    digest_update(stream, content, sizeof content);
    digest_update_text(stream, served->config.preprocess.text ? served->config.preprocess.text : "");
    if (served->config.answer)
        digest_update_text(stream, served->config.answer);
    digest_update_text(stream, served->config.picture.text ? served->config.picture.text : "");
    digest_update_u64(stream, served->config.softmax);
    digest_update_u64(stream, served->config.labels_count);
    for (size_t i = 0; i < served->config.labels_count; i++)
        digest_update_text(stream, served->config.labels[i]);
    *ret_digest = digest_final(stream);
    digest_free(stream);
    return PEN_OK;
}

/* FILE, or FILE#ENTRY. */
static char *entry_path(const char *file, const char *entry)
{
    size_t room = strlen(file) + strlen(entry) + 2;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s%s%s", file, entry[0] ? "#" : "", entry);
    return path;
}

enum pen_status served_new(struct pen_engine *engine, const char *name, uint64_t version, const char *path,
                           struct config *config, struct served **ret_served, struct pen_error *reterr)
{
    struct served *served = calloc(1, sizeof *served);
    if (!served) {
        config_fini(config);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for model '%s'", name);
    }
    snprintf(served->name, sizeof served->name, "%s", name);
    served->version = version;
    served->pixels_input = served->files_input = served->labels_output = -1;
    served->config = *config;
    config_init(config);

    served->path = entry_path(path, served->config.signature);
    char home[MODEL_FILE_PATH_BYTES];
    model_file_home(path, home);
    enum pen_status status = served->path ? pen_model_load_beneath(engine, served->path, home, &served->model, reterr)
                                          : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for model '%s'", name);
    if (status == PEN_OK)
        status = platform_check(served, reterr);
    if (status == PEN_OK)
        status = signature_build(served, reterr);
    if (status == PEN_OK)
        status = batch_decide(served, reterr);
    if (status == PEN_OK)
        status = declared_check(served, reterr);
    if (status == PEN_OK)
        status = states_join(served, reterr);
    if (status == PEN_OK)
        status = answer_join(served, reterr);
    if (status == PEN_OK)
        status = digest_build(served, &served->digest, reterr);
    if (status != PEN_OK) {
        served_free(served);
        return status;
    }
    served->cacheable =
        served->config.cache_enable && !pen_model_stochastic(served->model) && served->states_count == 0;
    served->memory_bytes = pen_model_bytes(served->model);
    *ret_served = served;
    return PEN_OK;
}

void served_cool(struct served *served)
{
    for (uint32_t i = 0; i < served->seats_count; i++)
        pen_session_free(served->seats[i].session);
    free(served->seats);
    served->seats = NULL;
    served->seats_count = 0;
    pen_model_free(served->model);
    served->model = NULL;
    served->warmed = false;
}

enum pen_status served_heat(struct served *served, struct pen_engine *engine, struct pen_error *reterr)
{
    struct digest digest;
    enum pen_status status = pen_model_load(engine, served->path, &served->model, reterr);
    bool touched = !served->folder || model_file_stamp(served->folder) != served->files;
    if (status == PEN_OK && touched) /* reading it all costs as much as loading it */
        status = digest_build(served, &digest, reterr);
    if (status == PEN_OK && touched && !digest_equal(digest, served->digest))
        status =
            pen_error_set(reterr, PEN_ERR_CORRUPT,
                          "'%.512s' is not what it was when it was last in memory; load the model anew", served->path);
    if (status != PEN_OK)
        served_cool(served);
    return status;
}

void served_free(struct served *served)
{
    if (!served)
        return;
    served_cool(served);
    if (!served->config.plan) { /* the plan owns those of an ensemble */
        free((void *)(uintptr_t)served->network_inputs);
        free((void *)(uintptr_t)served->network_outputs);
    }
    answer_free(served->answer);
    free(served->placement);
    free(served->inputs);
    free(served->states);
    free(served->path);
    free(served->folder);
    config_fini(&served->config);
    free(served);
}

uint32_t served_precision(const struct served *served, uint32_t otherwise)
{
    return served->precision != PEN_PRECISION_ANY ? (uint32_t)served->precision : otherwise;
}

void served_release(struct served *served)
{
    atomic_fetch_sub_explicit(&served->users, 1, memory_order_release);
}

void served_log(const struct served *served, uint64_t took_us)
{
    char digest[DIGEST_TEXT_BYTES];
    const struct warm_time *one = served->warm_count > 0 ? &served->warm[0] : NULL;
    if (!served->model)
        return; /* an ensemble: ensembles_check tells of it */
    log_event(LOG_INFO, "model_ready",
              "model=%s version=%" PRIu64 " digest=%s placement=%s max_batch_size=%u cold_us=%" PRIu64
              " warm_us=%" PRIu64 " took_us=%" PRIu64 " bytes=%" PRIu64,
              served->name, served->version, digest_text(served->digest, digest), served->placement,
              served->max_batch_size, one ? one->cold_us : 0, one ? one->warm_us : 0, took_us, served->memory_bytes);
}
