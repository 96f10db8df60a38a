#include <string.h>

#include "import/tfjs/reader.h"

const cJSON *js_attr_get(const struct call *c, const char *name)
{
    return tfjs_json_get(c->attrs, name);
}

int64_t js_attr_int(const struct call *c, const char *name, int64_t def)
{
    return tfjs_json_int(js_attr_get(c, name), "i", def);
}

float js_attr_float(const struct call *c, const char *name, float def)
{
    const cJSON *f = tfjs_json_get(js_attr_get(c, name), "f");
    return cJSON_IsNumber(f) ? (float)f->valuedouble : def;
}

bool js_attr_bool(const struct call *c, const char *name, bool def)
{
    return tfjs_json_bool(js_attr_get(c, name), "b", def);
}

static int digit_of(char ch)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = ch ? strchr(digits, ch) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Base64 to text, NUL-terminated, cut to fit. */
static void decode(const char *from, char *text, size_t room)
{
    unsigned bits = 0, held = 0;
    size_t n = 0;
    for (; *from && n + 1 < room; from++) {
        int digit = digit_of(*from);
        if (digit < 0)
            break;
        bits = (bits << 6 | (unsigned)digit) & 0xFFFFFF;
        held += 6;
        if (held >= 8) {
            held -= 8;
            text[n++] = (char)(bits >> held & 0xFF);
        }
    }
    text[n] = '\0';
}

static void text_of(const cJSON *item, char *text, size_t bytes)
{
    const char *encoded = cJSON_GetStringValue(item);
    const cJSON *part;
    size_t n = 0;
    text[0] = '\0';
    if (encoded) {
        decode(encoded, text, bytes);
    } else if (cJSON_IsArray(item)) { /* some files list the bytes */
        cJSON_ArrayForEach(part, item)
        {
            if (cJSON_IsNumber(part) && n + 1 < bytes)
                text[n++] = (char)part->valueint;
        }
        text[n] = '\0';
    }
}

const char *js_attr_text(const struct call *c, const char *name, char *text, size_t bytes)
{
    text_of(tfjs_json_get(js_attr_get(c, name), "s"), text, bytes);
    return text;
}

const char *js_attr_list_text(const struct call *c, const char *name, int index, char *text, size_t bytes)
{
    text_of(cJSON_GetArrayItem(tfjs_json_get(tfjs_json_get(js_attr_get(c, name), "list"), "s"), index), text, bytes);
    return text;
}

static bool fused_activation(const char *name, struct fused *f)
{
    static const struct {
        const char *name;
        enum tf_activation act;
    } list[] = {{"Relu", TF_ACT_RELU},       {"Relu6", TF_ACT_RELU6}, {"Elu", TF_ACT_ELU},
                {"Sigmoid", TF_ACT_SIGMOID}, {"Tanh", TF_ACT_TANH},   {"LeakyRelu", TF_ACT_LEAKY}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i].name, name) == 0) {
            f->act = list[i].act;
            return true;
        }
    }
    return false;
}

struct fused js_fused(struct call *c)
{
    struct fused f = {.alpha = js_attr_float(c, "leakyrelu_alpha", 0.2f)};
    char name[32];
    int count = js_attr_list_size(c, "fused_ops", "s");
    for (int i = 0; i < count && i < 4; i++) {
        (void)js_attr_list_text(c, "fused_ops", i, name, sizeof name);
        if (strcmp(name, "BiasAdd") == 0)
            f.bias = true;
        else if (strcmp(name, "Prelu") == 0)
            f.prelu = true;
        else if (!fused_activation(name, &f))
            build_stop(c->b, PEN_ERR_UNSUPPORTED, "fused operator '%s' is not known", name);
    }
    return f;
}

enum pen_dtype js_dtype(const cJSON *type)
{
    static const struct {
        const char *name;
        int number;
        enum pen_dtype dtype;
    } list[] = {
        {"DT_FLOAT", 1, PEN_DTYPE_F32},     {"DT_DOUBLE", 2, PEN_DTYPE_F32},    {"DT_INT32", 3, PEN_DTYPE_I32},
        {"DT_UINT8", 4, PEN_DTYPE_I32},     {"DT_INT16", 5, PEN_DTYPE_I32},     {"DT_INT8", 6, PEN_DTYPE_I32},
        {"DT_STRING", 7, PEN_DTYPE_STRING}, {"DT_COMPLEX64", 8, PEN_DTYPE_C64}, {"DT_INT64", 9, PEN_DTYPE_I32},
        {"DT_BOOL", 10, PEN_DTYPE_BOOL},    {"DT_HALF", 19, PEN_DTYPE_F32},
    };
    const char *name = cJSON_GetStringValue(type);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (name ? strcmp(name, list[i].name) == 0 : cJSON_IsNumber(type) && type->valueint == list[i].number)
            return list[i].dtype;
    }
    return PEN_DTYPE_NONE;
}

enum pen_dtype js_attr_dtype(const struct call *c, const char *name, enum pen_dtype def)
{
    enum pen_dtype dtype = js_dtype(tfjs_json_get(js_attr_get(c, name), "type"));
    return dtype == PEN_DTYPE_NONE ? def : dtype;
}

int js_attr_ints(const struct call *c, const char *name, int64_t *items, int room)
{
    return tfjs_json_ints(tfjs_json_get(tfjs_json_get(js_attr_get(c, name), "list"), "i"), items, room, 1);
}

int js_attr_list_size(const struct call *c, const char *name, const char *kind)
{
    const cJSON *list = tfjs_json_get(tfjs_json_get(js_attr_get(c, name), "list"), kind);
    return cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
}

const char *js_attr_func(const struct call *c, const char *name)
{
    return tfjs_json_text(tfjs_json_get(js_attr_get(c, name), "func"), "name");
}

struct shape js_shape(const cJSON *shape)
{
    struct shape s = shape_scalar();
    const cJSON *dim, *dims = tfjs_json_list(shape, "dim");
    if (!shape || tfjs_json_bool(shape, "unknownRank", false) || tfjs_json_bool(shape, "unknown_rank", false) ||
        (cJSON_IsArray(dims) && cJSON_GetArraySize(dims) > PEN_MAX_RANK))
        return shape_unknown();
    cJSON_ArrayForEach(dim, dims)
    {
        int64_t size = tfjs_json_int(dim, "size", 0);
        s.dim[s.rank++] = size < 0 ? SHAPE_DIM_UNKNOWN : size;
    }
    return s;
}
