/* pictures.c - what config.picture leaves open follows from the model: size, layout, channels, type, quantisation. */
#include "pictures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"

/* ---- the model --------------------------------------------------------------------------------------------------------------------- */

static bool is_channels(int64_t dim)
{
    return dim == 1 || dim == 3;
}

/* Which dims are height, width and channels. Declared, or the one that can only be so. */
static enum pen_status layout_join(const struct config_picture *config, const struct pen_tensor *network,
                                   struct pen_error *reterr)
{
    bool last = is_channels(network->dims[3]), first = is_channels(network->dims[1]);
    if (network->rank != 4)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "picture needs an input of rank 4, but '%s' has rank %u",
                             network->name, network->rank);
    if (!config->layout_given && last == first)
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "picture: the dims of '%s' do not say where its channels are; add {\"layout\": \"nhwc\"} or "
            "{\"layout\": \"nchw\"} to the steps",
            network->name);
    if (!config->layout_given)
        config->steps->nchw = first;
    return PEN_OK;
}

static enum pen_status channels_join(const struct config_picture *config, const struct pen_tensor *network,
                                     struct pen_error *reterr)
{
    int64_t dim = network->dims[config->steps->nchw ? 1 : 3];
    config->steps->channels = config->color_given ? config->channels : dim == 1 ? 1 : 3;
    if (dim >= 0 && dim != config->steps->channels)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "picture gives %u channels (color), but '%s' takes %" PRId64,
                             config->steps->channels, network->name, dim);
    return PEN_OK;
}

static enum pen_status size_join(const struct config_picture *config, const struct pen_tensor *network,
                                 struct pen_error *reterr)
{
    struct picture_steps *steps = config->steps;
    int64_t height = network->dims[steps->nchw ? 2 : 1], width = network->dims[steps->nchw ? 3 : 2];
    if (!picture_steps_size(steps, &steps->width, &steps->height))
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "picture.steps leave the size open: end them with a resize to width and height, or a crop");
    if ((height >= 0 && height != steps->height) || (width >= 0 && width != steps->width))
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "picture.steps end with %ux%u (width x height), but '%s' takes %" PRId64 "x%" PRId64,
                             steps->width, steps->height, network->name, width, height);
    return PEN_OK;
}

static void channels_spread(float values[3], size_t given, float otherwise)
{
    for (size_t c = given; c < 3; c++)
        values[c] = given == 1 ? values[0] : otherwise;
}

static bool of_bytes(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8;
}

static enum pen_status type_join(struct served *served, size_t index, struct pen_error *reterr)
{
    struct config_picture *config = &served->config.picture;
    struct picture_numbers *numbers = &config->numbers;
    const struct pen_tensor *network = &served->network_inputs[index];
    enum pen_dtype dtype = network->dtype;
    bool floats = dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16;
    if ((!floats && !of_bytes(dtype)) || (config->dtype_given && numbers->dtype != dtype))
        return pen_error_set(reterr, PEN_ERR_DTYPE,
                             "picture gives %s, but '%s' takes %s; known are float32, float16, bfloat16, uint8, int8",
                             pen_dtype_name(config->dtype_given ? numbers->dtype : PEN_DTYPE_F32), network->name,
                             pen_dtype_name(dtype));
    numbers->dtype = dtype;
    float scale = 0;
    int32_t zero = 0;
    if (of_bytes(dtype) && config->normal_given && !numbers->quantised) {
        if (!pen_model_input_quant(served->model, index, &scale, &zero))
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "picture.steps normalise, but the model does not say what real number a byte of '%s' "
                                 "stands for: add {\"dtype\": {\"type\": ..., \"scale\": ..., \"zero_point\": ...}}",
                                 network->name);
        numbers->quantised = true;
        numbers->q_scale = scale;
        numbers->q_zero = zero;
    }
    return PEN_OK;
}

static enum pen_status normal_join(struct config_picture *config, struct pen_error *reterr)
{
    uint32_t channels = config->steps->channels;
    if ((config->means > 1 && config->means != channels) || (config->stds > 1 && config->stds != channels))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "picture.steps: normalize has %zu means and %zu stds for %u channels: give one, or one "
                             "each, in the model's order",
                             config->means, config->stds, channels);
    channels_spread(config->numbers.mean, config->means, 0.0f);
    channels_spread(config->numbers.std, config->stds, 1.0f);
    return PEN_OK;
}

static enum pen_status input_find(const struct served *served, int *ret_index, struct pen_error *reterr)
{
    const char *name = served->config.picture.input;
    *ret_index = name[0] ? served_input(served, name) : 0;
    if (*ret_index < 0)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "picture names the input '%s', which the model does not have",
                             name);
    if (!name[0] && served->inputs_count != 1)
        return pen_error_set(reterr, PEN_ERR_INVALID, "picture must say which of the %zu inputs it means (input)",
                             served->inputs_count);
    if (served->config.preprocess.text || served->strings)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "picture together with %s in one model is not supported: keep one",
                             served->strings ? "inputs of text" : "input.preprocess");
    return PEN_OK;
}

enum pen_status pictures_join(struct served *served, struct pen_error *reterr)
{
    struct config_picture *config = &served->config.picture;
    int index = 0;
    enum pen_status status = input_find(served, &index, reterr);
    const struct pen_tensor *network = status == PEN_OK ? &served->network_inputs[index] : NULL;
    status = status == PEN_OK ? layout_join(config, network, reterr) : status;
    status = status == PEN_OK ? channels_join(config, network, reterr) : status;
    status = status == PEN_OK ? size_join(config, network, reterr) : status;
    status = status == PEN_OK ? type_join(served, (size_t)index, reterr) : status;
    status = status == PEN_OK ? normal_join(config, reterr) : status;
    if (status == PEN_OK) {
        picture_steps_ready(config->steps, &config->numbers);
        served->files_input = index;
    }
    return status;
}

/* ---- a job's files ----------------------------------------------------------------------------------------------------------------- */

bool pictures_carried(const struct served *served, int index, const struct pen_tensor *tensor)
{
    return index >= 0 && index == served->files_input && tensor->rank == 1 &&
           (tensor->dtype == PEN_DTYPE_STRING || tensor->dtype == PEN_DTYPE_U8);
}

static uint32_t u32_at(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static enum pen_status rows_of(const struct served *served, const struct pen_tensor *files, uint32_t *ret_rows,
                               struct pen_error *reterr)
{
    int64_t rows = files->dtype == PEN_DTYPE_U8 ? 1 : files->dims[0];
    int64_t own = served->network_inputs[served->files_input].dims[0];
    int64_t most = served->max_batch_size > 0 ? served->max_batch_size : own > 0 ? own : (int64_t)PICTURES_ROWS_MAX;
    int64_t least = served->max_batch_size > 0 || own < 0 ? 1 : own;
    if (rows < least || rows > most)
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "input '%s' has %" PRId64 " pictures, model '%s' takes %" PRId64 " to %" PRId64,
                             files->name, rows, served->name, least, most);
    *ret_rows = (uint32_t)rows;
    return PEN_OK;
}

static enum pen_status room_take(const struct served *served, struct pictures *p, uint64_t limit,
                                 struct pen_error *reterr)
{
    const struct picture_steps *steps = served->config.picture.steps;
    size_t row = (size_t)steps->width * steps->height * steps->channels * steps->element_bytes;
    uint64_t bytes = (uint64_t)row * p->rows + (uint64_t)p->rows * sizeof *p->maps;
    if (p->held && atomic_fetch_add(p->held, bytes) + bytes > limit) {
        atomic_fetch_sub(p->held, bytes);
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "the decoded pictures that wait on this worker need more than %" PRIu64
                             " bytes (--queue-bytes): send this one later",
                             limit);
    }
    p->bytes = bytes;
    p->maps = calloc(p->rows, sizeof *p->maps);
    void *data = malloc(row * p->rows);
    p->tensor = served->network_inputs[served->files_input];
    p->tensor.dims[0] = p->rows;
    p->tensor.dims[1] = steps->nchw ? steps->channels : steps->height;
    p->tensor.dims[2] = steps->nchw ? steps->height : steps->width;
    p->tensor.dims[3] = steps->nchw ? steps->width : steps->channels;
    p->tensor.bytes = row * p->rows;
    p->tensor.data = data;
    return data && p->maps ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %u pictures", p->rows);
}

/* The elements were checked when the tensor came: their lengths add up. */
static enum pen_status files_decode(const struct served *served, const struct pen_tensor *files, struct pictures *p,
                                    struct pen_error *reterr)
{
    const struct picture_steps *steps = served->config.picture.steps;
    const uint8_t *at = files->data;
    size_t row = p->tensor.bytes / p->rows;
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < p->rows && status == PEN_OK; i++) {
        char name[CONFIG_NAME_BYTES_MAX + 64];
        bool list = files->dtype == PEN_DTYPE_STRING;
        size_t size = list ? u32_at(at) : files->bytes;
        at += list ? 4 : 0;
        if (p->rows > 1)
            snprintf(name, sizeof name, "picture %u of input '%s'", i, files->name);
        else
            snprintf(name, sizeof name, "the picture in input '%s'", files->name);
        void *to = (uint8_t *)(uintptr_t)p->tensor.data + row * i;
        status = picture_steps_run(steps, at, size, name, to, &p->maps[i], reterr);
        at += size;
    }
    return status;
}

struct pictures *pictures_prepare(const struct served *served, const struct pen_tensor *files,
                                  atomic_uint_fast64_t *held, uint64_t limit, uint64_t now_us)
{
    struct pen_error error = {.text = ""};
    struct pictures *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->held = held;
    p->model = served->digest;
    p->status = rows_of(served, files, &p->rows, &error);
    if (p->status == PEN_OK)
        p->status = room_take(served, p, limit, &error);
    if (p->status == PEN_OK)
        p->status = files_decode(served, files, p, &error);
    snprintf(p->text, sizeof p->text, "%s", error.text);
    p->took_us = clock_now_us() - now_us;
    return p;
}

void pictures_free(struct pictures *p)
{
    if (!p)
        return;
    if (p->held)
        atomic_fetch_sub(p->held, p->bytes);
    free((void *)(uintptr_t)p->tensor.data);
    free(p->maps);
    free(p);
}
