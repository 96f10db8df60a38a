#include "inputs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "failed.h"
#include "picture.h"
#include "npy.h"
#include "preprocess.h"
#include "words.h"

#define FILE_BYTES_MAX (INT64_C(1) << 31)

void inputs_fini(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        free(inputs->memory[i]);
    }
    inputs->count = 0;
}

const struct pen_model *model_find(const struct pen_model_list *list, const char *name, uint64_t version)
{
    const struct pen_model *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct pen_model *m = list->models[i];
        bool fits = strcmp(m->name, name) == 0 && (version == 0 || m->version == version);
        if (fits && (!best || m->version > best->version)) {
            best = m;
        }
    }
    return best;
}

enum pen_status model_missing(const struct pen_model_list *list, const char *name, uint64_t version,
                              struct pen_error *reterr)
{
    struct nearest nearest;
    if (failed_why(list, name, version, reterr) != PEN_OK) {
        return PEN_ERR_NOT_FOUND;
    }
    if (list->count == 0) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                             "no worker with a model is there: start penstock-worker --models DIR; penstock workers "
                             "lists those there are.");
    }
    if (version && model_find(list, name, 0)) {
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "no worker has model \"%s\" in version %" PRIu64 "; penstock models lists what there is.",
                             name, version);
    }
    nearest_begin(&nearest, name, strlen(name));
    for (size_t i = 0; i < list->count; i++) {
        nearest_offer(&nearest, list->models[i]->name);
    }
    return nearest.found
               ? pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                               "no worker has model \"%s\"; did you mean \"%s\"? penstock models lists all.", name,
                               nearest.found)
               : pen_error_set(reterr, PEN_ERR_NOT_FOUND, "no worker has model \"%s\"; see penstock models.", name);
}

enum pen_status inputs_read_file(const char *file, uint8_t **ret_bytes, size_t *ret_size, struct pen_error *reterr)
{
    struct stat info;
    FILE *in = fopen(file, "rb");
    if (!in || fstat(fileno(in), &info) != 0 || !S_ISREG(info.st_mode)) {
        int why = in ? EINVAL : errno;
        if (in) {
            fclose(in);
        }
        return pen_error_set(reterr, why == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "%s: cannot read it: %s.", file,
                             in ? "no regular file" : strerror(why));
    }
    size_t size = (size_t)info.st_size;
    uint8_t *bytes = info.st_size <= FILE_BYTES_MAX ? malloc(size + 1) : NULL;
    bool ok = bytes && fread(bytes, 1, size, in) == size;
    fclose(in);
    if (!ok) {
        free(bytes);
        return pen_error_set(reterr, PEN_ERR_IO, "%s: cannot read its %zu bytes (at most %" PRId64 " are taken).", file,
                             size, FILE_BYTES_MAX);
    }
    bytes[size] = 0;
    *ret_bytes = bytes;
    *ret_size = size;
    return PEN_OK;
}

static enum pen_status picture_tensor(const struct pen_model *model, const struct pen_signature *sig, const char *file,
                                      const uint8_t *bytes, size_t size, struct pen_tensor *t, void **ret_memory,
                                      struct pen_error *reterr)
{
    struct preprocess p;
    struct picture decoded;
    uint8_t *pixels = NULL;
    enum pen_status status = preprocess_of(model, sig, &p, reterr);
    status = status == PEN_OK ? picture_decode(bytes, size, file, NULL, &decoded, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    status = preprocess_tensor(&p, &decoded, t, &pixels, reterr);
    picture_fini(&decoded);
    if (status == PEN_OK) {
        *ret_memory = pixels;
    }
    return status;
}

/* As it is: the worker decodes it. */
static enum pen_status file_tensor(uint8_t *bytes, size_t size, struct pen_tensor *t, void **ret_memory,
                                   struct pen_error *reterr)
{
    uint8_t *block = malloc(size + 4);
    if (!block) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a picture of %zu bytes.", size);
    }
    memcpy(block + 4, bytes, size);
    preprocess_file(block, size, t);
    *ret_memory = block;
    return PEN_OK;
}

/* Fills the one dynamic dimension so that the bytes fit; a second one is ambiguous. */
static enum pen_status raw_tensor(const struct pen_signature *sig, const char *file, uint8_t *bytes, size_t size,
                                  struct pen_tensor *t, struct pen_error *reterr)
{
    char shape[128];
    uint64_t known = 1, dynamic = 0;
    size_t one = 0;
    *t = (struct pen_tensor){.dtype = sig->dtype, .rank = sig->rank, .data = bytes, .bytes = size};
    for (uint32_t d = 0; d < sig->rank; d++) {
        t->dims[d] = sig->dims[d];
        dynamic += sig->dims[d] < 0;
        known =
            sig->dims[d] > 0 && known <= UINT64_MAX / (uint64_t)sig->dims[d] ? known * (uint64_t)sig->dims[d] : known;
    }
    bool fits = pen_dtype_bytes(sig->dtype, known, &one) == 0 && one > 0 && dynamic <= 1 && size % one == 0;
    for (uint32_t d = 0; fits && d < sig->rank; d++) {
        t->dims[d] = sig->dims[d] < 0 ? (int64_t)(size / one) : sig->dims[d];
    }
    if (!fits || (!dynamic && size != one)) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "%s: %zu raw bytes do not make up input \"%s\", %s %s; use .npy.",
                             file, size, sig->name, pen_dtype_name(sig->dtype),
                             pen_shape_text(sig->dims, sig->rank, shape, sizeof shape));
    }
    return PEN_OK;
}

enum pen_status inputs_add_file(struct inputs *inputs, const struct pen_model *model, const char *name,
                                const char *file, struct pen_error *reterr)
{
    const struct pen_signature *sig = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct pen_tensor t;
    if (inputs->count >= INPUTS_MAX) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "more than %d inputs.", INPUTS_MAX);
    }
    enum pen_status status = preprocess_input(model, name, &sig, reterr);
    status = status == PEN_OK ? inputs_read_file(file, &bytes, &size, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    void *memory = bytes;
    if (npy_is(bytes, size)) {
        status = npy_view(bytes, size, file, &t, reterr);
        status = status == PEN_OK ? preprocess_array(model, sig, file, &t, reterr) : status;
    } else if (sig->pictures && picture_probe(bytes, size) != PICTURE_NONE) {
        status = file_tensor(bytes, size, &t, &memory, reterr);
    } else if (picture_probe(bytes, size) != PICTURE_NONE) {
        status = picture_tensor(model, sig, file, bytes, size, &t, &memory, reterr);
    } else {
        status = raw_tensor(sig, file, bytes, size, &t, reterr);
    }
    if (memory != bytes || status != PEN_OK) {
        free(bytes);
    }
    if (status == PEN_OK) {
        t.name = sig->name;
        inputs->picture |= memory != bytes;
        inputs->memory[inputs->count] = memory;
        inputs->tensors[inputs->count++] = t;
    }
    return status;
}

enum pen_status inputs_add_list(struct inputs *inputs, const struct pen_model *model, const struct setting_list *list,
                                struct pen_error *reterr)
{
    for (size_t i = 0; i < list->count; i++) {
        char name[256];
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i] || (size_t)(equals - list->items[i]) >= sizeof name) {
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "--input %s: it must be NAME=FILE, or of a map NAME={\"key\": value}.",
                                 list->items[i]);
        }
        snprintf(name, sizeof name, "%.*s", (int)(equals - list->items[i]), list->items[i]);
        enum pen_status status = pen_model_has_map(model, name)
                                     ? inputs_add_map(inputs, model, name, equals + 1, reterr)
                                     : inputs_add_file(inputs, model, name, equals + 1, reterr);
        if (status != PEN_OK) {
            return status;
        }
    }
    return PEN_OK;
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15)); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Floats in -1..1, other types small and not negative. */
static void values_fill(struct pen_tensor *t, void *data, uint64_t elements)
{
    uint64_t state = 42;
    memset(data, 0, t->bytes);
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t bits = random_next(&state);
        float value = (float)(bits >> 40) / 8388608.0f - 1.0f;
        double wide = (double)value;
        uint16_t half = t->dtype == PEN_DTYPE_BF16 ? pen_f32_to_bf16(value) : pen_f32_to_f16(value);
        switch (t->dtype) {
        case PEN_DTYPE_F32:
            memcpy((char *)data + i * 4, &value, 4);
            break;
        case PEN_DTYPE_F64:
            memcpy((char *)data + i * 8, &wide, 8);
            break;
        case PEN_DTYPE_F16:
        case PEN_DTYPE_BF16:
            memcpy((char *)data + i * 2, &half, 2);
            break;
        case PEN_DTYPE_U8:
            ((uint8_t *)data)[i] = (uint8_t)bits;
            break;
        default: /* zero is valid for every other type */
            return;
        }
    }
}

enum pen_status inputs_generate_one(struct inputs *inputs, const struct pen_signature *sig, const int64_t *dims,
                                    struct pen_error *reterr)
{
    struct pen_tensor t = {.name = sig->name, .dtype = sig->dtype, .rank = sig->rank};
    uint64_t elements = 0;
    memcpy(t.dims, dims, sig->rank * sizeof *dims);
    if (pen_tensor_elements(&t, &elements) != PEN_OK || pen_dtype_bytes(t.dtype, elements, &t.bytes) != 0 ||
        t.bytes > (size_t)FILE_BYTES_MAX || inputs->count >= INPUTS_MAX) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "values for input \"%s\" (%s) cannot be made up; give a file.", sig->name,
                             pen_dtype_name(sig->dtype));
    }
    void *data = malloc(t.bytes + 1);
    if (!data) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %zu bytes of input \"%s\".", t.bytes, sig->name);
    }
    values_fill(&t, data, elements);
    t.data = data;
    inputs->memory[inputs->count] = data;
    inputs->tensors[inputs->count++] = t;
    return PEN_OK;
}

void inputs_vary(struct inputs *inputs, uint64_t counter)
{
    const struct pen_tensor *t = &inputs->tensors[0];
    if (inputs->count == 0 || t->bytes < 4) {
        return;
    }
    /* memory[] may begin before the data (a .npy header): write where the data are. */
    unsigned char *data = (unsigned char *)(uintptr_t)t->data;
    if (t->dtype == PEN_DTYPE_F32) {
        uint32_t bits = 0x3F800000u | (uint32_t)(counter & 0x7FFFFF); /* in [1, 2) */
        memcpy(data, &bits, 4);
        if (t->bytes >= 8) {
            bits = 0x3F800000u | (uint32_t)(counter >> 23 & 0x7FFFFF);
            memcpy(data + 4, &bits, 4);
        }
    } else if (t->dtype == PEN_DTYPE_U8 || t->dtype == PEN_DTYPE_I8) {
        memcpy(data, &counter, t->bytes < 8 ? t->bytes : 8);
    } else if (t->dtype == PEN_DTYPE_F64 && t->bytes >= 8) {
        double value = 1.0 + (double)(counter & 0xFFFFFFFFFF) * 0x1p-40;
        memcpy(data, &value, 8);
    } else if (t->dtype == PEN_DTYPE_F16) {
        for (size_t i = 0; i < 4 && i * 2 + 2 <= t->bytes; i++) {
            uint16_t bits = (uint16_t)(0x3C00u | (counter >> (10 * i) & 0x3FF));
            memcpy(data + 2 * i, &bits, 2);
        }
    }
}
