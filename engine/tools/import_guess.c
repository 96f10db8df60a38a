/* import_guess.c - batch, picture, pixels, classes: each looks at the signature and says what it saw, guessed or could not know. */
#include "tools/import_guess.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "run/internal.h"

#define BATCH_GUESSED 8 /* rows of one run; more is a matter of memory and patience */
#define SIDE_MIN      8 /* pixels: a smaller plane is hardly a picture's */
#define SIDE_GUESSED  224
#define SENTENCE      512

static void say(cJSON *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(cJSON *list, const char *format, ...)
{
    char text[SENTENCE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

/* ---- batch ------------------------------------------------------------------------------------------------------------------------- */

static const struct pen_tensor *tensor_at(const struct pen_model *m, size_t i)
{
    return i < m->input_count ? &m->inputs[i] : &m->outputs[i - m->input_count];
}

/* The first tensor that cannot be cut and joined along its first dimension. */
static const struct pen_tensor *batch_obstacle(const struct pen_model *m)
{
    for (size_t i = 0; i < m->input_count + m->output_count; i++) {
        const struct pen_tensor *t = tensor_at(m, i);
        if (t->rank == 0 || t->dims[0] != -1 || pen_dtype_bits(t->dtype) < 8) {
            return t;
        }
    }
    return NULL;
}

static bool batch_named(const struct pen_model *m)
{
    for (size_t i = 0; i < m->input_count; i++) {
        const char *symbol = pen_model_symbol(m, i, 0);
        if (symbol == NULL || (strcasecmp(symbol, "n") != 0 && strcasestr(symbol, "batch") == NULL)) {
            return false;
        }
    }
    return true;
}

static void batch_guess(const struct pen_model *m, bool picture, struct import_guess *g)
{
    const struct pen_tensor *obstacle = batch_obstacle(m);
    bool rows = picture;
    for (size_t i = 0; i < m->input_count && !picture; i++) {
        rows = (i == 0 || rows) && m->inputs[i].rank >= 2;
    }
    if (obstacle != NULL || m->input_count == 0 || (!batch_named(m) && !rows)) {
        cJSON_AddNumberToObject(g->config, "max_batch_size", 0);
        say(g->seen,
            "no batches (max_batch_size 0): the first dimension of '%s' is not an open batch. Export the model with "
            "one "
            "to run jobs together",
            obstacle != NULL     ? obstacle->name
            : m->input_count > 0 ? m->inputs[0].name
                                 : "");
        return;
    }
    cJSON_AddNumberToObject(g->config, "max_batch_size", BATCH_GUESSED);
    say(batch_named(m) ? g->seen : g->guessed,
        "the first dimension is the batch, and open: up to %d jobs run together (max_batch_size)", BATCH_GUESSED);
}

/* ---- picture ----------------------------------------------------------------------------------------------------------------------- */

struct picture {
    const struct pen_tensor *input;
    size_t index;
    bool nhwc, either; /* either: both layouts fit the dims */
    uint32_t channels, height, width;
    bool size_open;
};

static bool is_channels(int64_t dim)
{
    return dim == 1 || dim == 3 || dim == 4;
}

static bool is_side(int64_t dim)
{
    return dim == -1 || (dim >= SIDE_MIN && dim <= 65535);
}

static bool layout_fits(const struct pen_tensor *t, bool nhwc)
{
    bool open = t->dims[nhwc ? 3 : 1] == -1 && t->dims[nhwc ? 1 : 2] == -1 && t->dims[nhwc ? 2 : 3] == -1;
    return (is_channels(t->dims[nhwc ? 3 : 1]) || open) && is_side(t->dims[nhwc ? 1 : 2]) &&
           is_side(t->dims[nhwc ? 2 : 3]);
}

static bool is_pixels(const struct pen_tensor *t)
{
    bool typed =
        t->dtype == PEN_DTYPE_F32 || t->dtype == PEN_DTYPE_F16 || t->dtype == PEN_DTYPE_U8 || t->dtype == PEN_DTYPE_I8;
    return typed && t->rank == 4 && (layout_fits(t, false) || layout_fits(t, true));
}

/* The only input that looks like one. */
static bool picture_find(const struct pen_model *m, struct picture *p)
{
    for (size_t i = 0; i < m->input_count; i++) {
        if (!is_pixels(&m->inputs[i])) {
            continue;
        }
        if (p->input != NULL) {
            return false;
        }
        p->input = &m->inputs[i];
        p->index = i;
    }
    return p->input != NULL;
}

static enum pen_status layout_decide(const struct pen_model *m, const struct import_wish *wish, struct picture *p,
                                     struct import_guess *g, struct pen_error *reterr)
{
    bool chw = layout_fits(p->input, false), hwc = layout_fits(p->input, true);
    bool stated = strcmp(wish->layout, "auto") != 0;
    char shape[96];
    pen_shape_text(p->input->dims, p->input->rank, shape, sizeof shape);
    p->nhwc = stated ? strcmp(wish->layout, "NHWC") == 0 : chw && hwc ? strcmp(pen_model_format(m), "onnx") != 0 : hwc;
    if (stated && !(p->nhwc ? hwc : chw)) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "--layout %s does not fit the input '%s' %s", wish->layout,
                             p->input->name, shape);
    }
    say(chw && hwc && !stated ? g->guessed : g->seen, "the input '%s' %s takes pictures, layout %s%s", p->input->name,
        shape, p->nhwc ? "NHWC" : "NCHW",
        chw && hwc && !stated ? ", as most files of this format (--layout says it otherwise)" : "");
    return PEN_OK;
}

static enum pen_status side_decide(const char *what, int64_t dim, uint32_t wished, uint32_t *ret_side,
                                   struct pen_error *reterr)
{
    if (wished != 0 && dim > 0 && dim != (int64_t)wished) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "--size says %s %u, but the model takes %" PRId64, what, wished,
                             dim);
    }
    *ret_side = wished != 0 ? wished : dim > 0 ? (uint32_t)dim : SIDE_GUESSED;
    return PEN_OK;
}

static enum pen_status size_decide(const struct import_wish *wish, struct picture *p, struct import_guess *g,
                                   struct pen_error *reterr)
{
    const int64_t *dims = p->input->dims;
    int64_t channels = dims[p->nhwc ? 3 : 1], height = dims[p->nhwc ? 1 : 2], width = dims[p->nhwc ? 2 : 3];
    enum pen_status status = side_decide("height", height, wish->height, &p->height, reterr);
    if (status == PEN_OK) {
        status = side_decide("width", width, wish->width, &p->width, reterr);
    }
    p->channels = channels > 0 ? (uint32_t)channels : 3;
    if (channels <= 0) {
        say(g->guessed, "3 channels: the model leaves them open");
    }
    if (wish->width == 0 && (height <= 0 || width <= 0)) {
        say(g->unknown,
            "the size of pictures: the model leaves it open, %u x %u was written. --size WIDTHxHEIGHT says it",
            p->width, p->height);
    }
    return status;
}

/* ---- pixels ------------------------------------------------------------------------------------------------------------------------ */

struct preset {
    const char *name, *order, *fit, *words;
    double mean[3], scale[3];
    bool colour; /* its constants are of three channels */
};

/* (pixel - mean) * scale per channel, in the network's order: the three conventions of Keras' imagenet_utils, torchvision's being the first. */
static const struct preset presets[] = {
    {"imagenet",
     "RGB",
     "crop",
     "RGB of 0..1, less the mean of ImageNet and divided by its deviation",
     {123.675, 116.28, 103.53},
     {1 / 58.395, 1 / 57.12, 1 / 57.375},
     true},
    {"tf", "RGB", "stretch", "RGB of -1..1", {127.5, 127.5, 127.5}, {1 / 127.5, 1 / 127.5, 1 / 127.5}, false},
    {"caffe", "BGR", "crop", "BGR of 0..255, less the mean of ImageNet", {103.939, 116.779, 123.68}, {1, 1, 1}, true},
};

static void numbers_add(cJSON *pre, const char *key, const double values[3], bool colour)
{
    cJSON_AddItemToObject(pre, key, cJSON_CreateDoubleArray(values, colour ? 3 : 1));
}

static enum pen_status preset_write(const struct preset *preset, const struct picture *p, cJSON *pre,
                                    struct import_guess *g, struct pen_error *reterr)
{
    if (preset->colour && p->channels != 3) {
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "--preset %s is for 3 channels, the model takes %u: take tf or none, or leave it out",
                             preset->name, p->channels);
    }
    if (p->channels == 3) {
        cJSON_AddStringToObject(pre, "order", preset->order);
    }
    cJSON_AddStringToObject(pre, "fit", preset->fit);
    numbers_add(pre, "mean", preset->mean, preset->colour);
    numbers_add(pre, "scale", preset->scale, preset->colour);
    say(g->seen, "pixels as --preset %s says: %s", preset->name, preset->words);
    return PEN_OK;
}

/* Integers of a network that states what they stand for need no constants: its bytes span the same range. */
static enum pen_status bytes_write(const struct pen_model *m, const struct picture *p, const struct preset *preset,
                                   cJSON *pre, struct import_guess *g, struct pen_error *reterr)
{
    float scale = 0;
    int32_t zero = 0;
    bool known = pen_model_input_quant(m, p->index, &scale, &zero);
    if (preset != NULL && !known) {
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "--preset %s: the model takes bytes and does not say what real numbers they stand for: take --preset none",
            preset->name);
    }
    if (preset != NULL) {
        return preset_write(preset, p, pre, g, reterr);
    }
    say(g->guessed, "pixels go in as the %s values of the model's input, as in most quantised models",
        pen_dtype_name(p->input->dtype));
    return PEN_OK;
}

static enum pen_status pixels_write(const struct pen_model *m, const struct import_wish *wish, const struct picture *p,
                                    cJSON *pre, struct import_guess *g, struct pen_error *reterr)
{
    static const double byte[3] = {1.0 / 255, 1.0 / 255, 1.0 / 255};
    const struct preset *preset = NULL;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        preset = strcmp(wish->preset, presets[i].name) == 0 ? &presets[i] : preset;
    }
    if (p->input->dtype == PEN_DTYPE_U8 || p->input->dtype == PEN_DTYPE_I8) {
        return bytes_write(m, p, preset, pre, g, reterr);
    }
    if (preset != NULL) {
        return preset_write(preset, p, pre, g, reterr);
    }
    if (strcmp(wish->preset, "none") == 0) {
        say(g->seen, "pixels as they are, 0..255 (--preset none)");
        return PEN_OK;
    }
    numbers_add(pre, "scale", byte, false);
    say(g->unknown,
        "the range of pixels that the model was trained with: %s0..1 was written. --preset imagenet, tf, caffe "
        "or none says it; the wrong one gives wrong answers, not an error",
        p->channels == 3 ? "RGB of " : "");
    return PEN_OK;
}

static enum pen_status picture_guess(const struct pen_model *m, const struct import_wish *wish, struct import_guess *g,
                                     bool *ret_picture, struct pen_error *reterr)
{
    struct picture p = {0};
    *ret_picture = picture_find(m, &p);
    if (!*ret_picture) {
        bool asked = strcmp(wish->preset, "auto") != 0 || strcmp(wish->layout, "auto") != 0 || wish->width != 0;
        return asked ? pen_error_set(reterr, PEN_ERR_SHAPE,
                                     "the model has no input of rank 4 that could be a picture, or several: leave "
                                     "--preset, --layout and --size out, and send tensors")
                     : PEN_OK;
    }
    enum pen_status status = layout_decide(m, wish, &p, g, reterr);
    if (status == PEN_OK) {
        status = size_decide(wish, &p, g, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    cJSON *pre = cJSON_AddObjectToObject(cJSON_AddObjectToObject(g->config, "input"), "preprocess");
    cJSON_AddStringToObject(pre, "input", p.input->name);
    cJSON_AddStringToObject(pre, "layout", p.nhwc ? "NHWC" : "NCHW");
    cJSON_AddNumberToObject(pre, "channels", p.channels);
    cJSON_AddNumberToObject(pre, "height", p.height);
    cJSON_AddNumberToObject(pre, "width", p.width);
    cJSON_AddStringToObject(pre, "resize", "bilinear");
    return pixels_write(m, wish, &p, pre, g, reterr);
}

/* ---- classes ----------------------------------------------------------------------------------------------------------------------- */

/* Does the output come from a softmax or a sigmoid? Steps that only move values are looked through. */
static bool is_probability(const struct graph *graph, uint32_t value)
{
    static const char *const through[] = {"reshape", "identity", "squeeze", "flatten", "cast", "dequantize"};
    for (int step = 0; step < 8 && graph->values[value].producer != NODE_NONE; step++) {
        const struct node *node = &graph->nodes[graph->values[value].producer];
        bool pass = false;
        if (strcasestr(node->origin, "softmax") != NULL || strcasestr(node->origin, "sigmoid") != NULL ||
            strcasecmp(node->origin, "LOGISTIC") == 0) {
            return true;
        }
        for (size_t i = 0; i < sizeof through / sizeof *through; i++) {
            pass |= strcasestr(node->origin, through[i]) != NULL;
        }
        if (!pass || node->in_count == 0 || node->in[0] == VALUE_NONE) {
            return false;
        }
        value = node->in[0];
    }
    return false;
}

static enum pen_status labels_guess(const struct pen_model *m, const struct import_wish *wish, struct import_guess *g,
                                    struct pen_error *reterr)
{
    const struct pen_tensor *out = m->output_count > 0 ? &m->outputs[0] : NULL;
    int64_t classes = out != NULL && out->rank >= 1 ? out->dims[out->rank - 1] : -1;
    bool classifier = out != NULL && out->rank == 2 && (classes > 1 || classes == -1);
    if (wish->labels == 0) {
        if (classifier && classes > 1) {
            say(g->unknown,
                "what the %" PRId64 " values of '%s' mean: if they are classes, --labels FILE names them, one a line",
                classes, out->name);
        }
        return PEN_OK;
    }
    if (classifier && classes > 1 && (size_t)classes != wish->labels) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--labels has %zu lines, the output '%s' has %" PRId64 " classes: one line for each",
                             wish->labels, out->name, classes);
    }
    cJSON *output = cJSON_AddObjectToObject(g->config, "output");
    cJSON_AddStringToObject(output, "labels_file", "labels.txt");
    bool probability = out != NULL && is_probability(m->graph, m->graph->outputs[0]);
    if (out != NULL && out->dtype == PEN_DTYPE_F32 && !probability) {
        cJSON_AddBoolToObject(output, "softmax", true);
        say(g->guessed, "scores are the softmax of '%s': the model does not end in one", out->name);
    }
    return PEN_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static void open_dims_say(const struct pen_model *m, bool picture, struct import_guess *g)
{
    bool batched = cJSON_GetObjectItem(g->config, "max_batch_size")->valuedouble > 0;
    for (size_t i = 0; i < m->input_count; i++) {
        const struct pen_tensor *t = &m->inputs[i];
        for (uint32_t d = batched ? 1 : 0; d < t->rank && !(picture && is_pixels(t)); d++) {
            if (t->dims[d] == -1) {
                say(g->unknown,
                    "dimension %u of the input '%s' is open: model_warmup in config.json can name the sizes to be "
                    "ready for, else the first job of each size waits a little longer",
                    d, t->name);
            }
        }
    }
}

enum pen_status import_guess(const struct pen_model *model, const struct import_wish *wish,
                             struct import_guess *ret_guess, struct pen_error *reterr)
{
    struct import_guess g = {cJSON_CreateObject(), cJSON_CreateArray(), cJSON_CreateArray(), cJSON_CreateArray()};
    bool picture = false;
    if (g.config == NULL || g.seen == NULL || g.guessed == NULL || g.unknown == NULL) {
        import_guess_fini(&g);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's config");
    }
    enum pen_status status = picture_guess(model, wish, &g, &picture, reterr);
    if (status == PEN_OK) {
        batch_guess(model, picture, &g);
        open_dims_say(model, picture, &g);
        status = labels_guess(model, wish, &g, reterr);
    }
    if (status != PEN_OK) {
        import_guess_fini(&g);
        return status;
    }
    *ret_guess = g;
    return PEN_OK;
}

void import_guess_fini(struct import_guess *guess)
{
    cJSON_Delete(guess->config);
    cJSON_Delete(guess->seen);
    cJSON_Delete(guess->guessed);
    cJSON_Delete(guess->unknown);
    *guess = (struct import_guess){0};
}
