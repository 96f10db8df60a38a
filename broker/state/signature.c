#include "signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX     64u
#define NAME_MAX_BYTES  255u
#define LIST_TEXT_BYTES 256u
#define FILES_SHAPE     0xF11E5u /* in the hash of a job's shape, in place of the dims of an input that came as files */

static enum pen_status copy_sig(const Penstock__TensorSig *from, struct tensor_sig *ret_sig, struct pen_error *reterr)
{
    size_t length = strlen(from->name);
    if (length == 0 || length > NAME_MAX_BYTES)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a tensor of the offer has a name of %zu bytes; 1 to %u are allowed", length,
                             NAME_MAX_BYTES);
    if (from->n_dims > PEN_MAX_RANK)
        return pen_error_set(reterr, PEN_ERR_INVALID, "tensor '%s' of the offer has rank %zu; at most %d is allowed",
                             from->name, from->n_dims, PEN_MAX_RANK);
    ret_sig->dtype = from->dtype;
    ret_sig->rank = (uint32_t)from->n_dims;
    for (size_t i = 0; i < from->n_dims; i++)
        ret_sig->dims[i] = from->dims[i];
    ret_sig->batched = from->batched && from->n_dims > 0;
    ret_sig->optional = from->optional;
    ret_sig->pictures = from->pictures;
    ret_sig->name = strdup(from->name);
    return ret_sig->name ? PEN_OK : PEN_ERR_NO_MEMORY;
}

static enum pen_status copy_sigs(Penstock__TensorSig *const *from, size_t count, struct tensor_sig **ret_sigs,
                                 size_t *ret_count, struct pen_error *reterr)
{
    if (count > TENSORS_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the offer has %zu tensors; at most %u are allowed", count,
                             TENSORS_MAX);
    *ret_sigs = calloc(count ? count : 1, sizeof **ret_sigs);
    if (!*ret_sigs)
        return PEN_ERR_NO_MEMORY;
    *ret_count = count;
    for (size_t i = 0; i < count; i++) {
        enum pen_status status = copy_sig(from[i], &(*ret_sigs)[i], reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

enum pen_status signature_new(Penstock__TensorSig *const *inputs, size_t inputs_count,
                              Penstock__TensorSig *const *outputs, size_t outputs_count,
                              struct signature **ret_signature, struct pen_error *reterr)
{
    struct signature *signature = calloc(1, sizeof *signature);
    if (!signature)
        return PEN_ERR_NO_MEMORY;
    signature->users = 1;
    enum pen_status status = copy_sigs(inputs, inputs_count, &signature->inputs, &signature->inputs_count, reterr);
    if (status == PEN_OK)
        status = copy_sigs(outputs, outputs_count, &signature->outputs, &signature->outputs_count, reterr);
    if (status != PEN_OK) {
        signature_release(signature);
        return status;
    }
    *ret_signature = signature;
    return PEN_OK;
}

static void free_sigs(struct tensor_sig *sigs, size_t count)
{
    for (size_t i = 0; sigs && i < count; i++)
        free(sigs[i].name);
    free(sigs);
}

struct signature *signature_retain(struct signature *signature)
{
    signature->users++;
    return signature;
}

void signature_release(struct signature *signature)
{
    if (!signature || --signature->users > 0)
        return;
    free_sigs(signature->inputs, signature->inputs_count);
    free_sigs(signature->outputs, signature->outputs_count);
    free(signature);
}

static bool sigs_equal(const struct tensor_sig *a, const struct tensor_sig *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].dtype != b[i].dtype || a[i].rank != b[i].rank ||
            memcmp(a[i].dims, b[i].dims, sizeof a[i].dims) != 0 || a[i].batched != b[i].batched ||
            a[i].optional != b[i].optional || a[i].pictures != b[i].pictures)
            return false;
    }
    return true;
}

bool signature_equal(const struct signature *a, const struct signature *b)
{
    return a->inputs_count == b->inputs_count && a->outputs_count == b->outputs_count &&
           sigs_equal(a->inputs, b->inputs, a->inputs_count) && sigs_equal(a->outputs, b->outputs, a->outputs_count);
}

/* "x, y, z": names for an error text, cut to fit. */
static const char *names_text(const struct tensor_sig *sigs, size_t count, char text[LIST_TEXT_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used + 8 < LIST_TEXT_BYTES; i++) {
        int n = snprintf(text + used, LIST_TEXT_BYTES - used, "%s%s", i ? ", " : "", sigs[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static const struct tensor_sig *find_sig(const struct tensor_sig *sigs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(sigs[i].name, name) == 0)
            return &sigs[i];
    }
    return NULL;
}

static enum pen_status shape_error(const char *model, const struct tensor_sig *sig, const struct pen_tensor *tensor,
                                   struct pen_error *reterr)
{
    char want[128], have[128];
    return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' of model '%s' has shape %s, expected %s%s", sig->name,
                         model, pen_shape_text(tensor->dims, tensor->rank, have, sizeof have),
                         pen_shape_text(sig->dims, sig->rank, want, sizeof want),
                         sig->batched ? " (the first is the batch)" : "");
}

/* The batch dimension is free up to rows_max and the same for all batched inputs. */
static enum pen_status check_rows(const char *model, uint32_t rows_max, const struct tensor_sig *sig,
                                  const struct pen_tensor *tensor, uint32_t *rows, struct pen_error *reterr)
{
    int64_t own = tensor->dims[0];
    if (own < 1 || own > (int64_t)rows_max)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' of model '%s' has a batch of %lld, expected 1 to %u",
                             sig->name, model, (long long)own, rows_max);
    if (*rows != 0 && *rows != (uint32_t)own)
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "input '%s' of model '%s' has a batch of %lld, but another input has one of %u", sig->name,
                             model, (long long)own, *rows);
    *rows = (uint32_t)own;
    return PEN_OK;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/* Files of pictures in place of the plain tensor. Their sizes are no shape: such jobs share batches. */
static bool has_files(const struct tensor_sig *sig, const struct pen_tensor *tensor)
{
    return sig->pictures && tensor->rank == 1 && (tensor->dtype == PEN_DTYPE_STRING || tensor->dtype == PEN_DTYPE_U8);
}

static enum pen_status check_files(const char *model, uint32_t rows_max, const struct tensor_sig *sig,
                                   const struct pen_tensor *tensor, uint32_t *rows, uint64_t *shape,
                                   struct pen_error *reterr)
{
    struct pen_tensor one = *tensor;
    if (tensor->dtype == PEN_DTYPE_U8)
        one.dims[0] = 1;
    *shape = mix(*shape, FILES_SHAPE);
    return rows_max > 0 && sig->batched ? check_rows(model, rows_max, sig, &one, rows, reterr) : PEN_OK;
}

static enum pen_status check_tensor(const char *model, uint32_t rows_max, const struct tensor_sig *sig,
                                    const struct pen_tensor *tensor, uint32_t *rows, uint64_t *shape,
                                    struct pen_error *reterr)
{
    if (has_files(sig, tensor))
        return check_files(model, rows_max, sig, tensor, rows, shape, reterr);
    if (tensor->dtype != (enum pen_dtype)sig->dtype)
        return pen_error_set(reterr, PEN_ERR_DTYPE, "input '%s' of model '%s' has element type %s, expected %s",
                             sig->name, model, pen_dtype_name(tensor->dtype),
                             pen_dtype_name((enum pen_dtype)sig->dtype));
    if (tensor->rank != sig->rank)
        return shape_error(model, sig, tensor, reterr);
    bool batched = sig->batched && rows_max > 0;
    if (batched) {
        enum pen_status status = check_rows(model, rows_max, sig, tensor, rows, reterr);
        if (status != PEN_OK)
            return status;
    }
    *shape = mix(*shape, tensor->rank);
    for (uint32_t i = batched ? 1 : 0; i < sig->rank; i++) {
        if (sig->dims[i] >= 0 && sig->dims[i] != tensor->dims[i])
            return shape_error(model, sig, tensor, reterr);
        *shape = mix(*shape, (uint64_t)tensor->dims[i]);
    }
    return PEN_OK;
}

static const struct pen_tensor *find_tensor(const struct pen_tensor *tensors, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(tensors[i].name, name) == 0)
            return &tensors[i];
    }
    return NULL;
}

static enum pen_status check_names(const struct signature *signature, const char *model,
                                   const struct pen_tensor *inputs, size_t count, struct pen_error *reterr)
{
    char names[LIST_TEXT_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (!find_sig(signature->inputs, signature->inputs_count, inputs[i].name))
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model '%s' has no input '%s', it takes: %s", model,
                                 inputs[i].name, names_text(signature->inputs, signature->inputs_count, names));
    }
    return PEN_OK;
}

enum pen_status signature_check(const struct signature *signature, const char *model, uint32_t rows_max,
                                const struct pen_tensor *inputs, size_t count, uint32_t *ret_rows, uint64_t *ret_shape,
                                struct pen_error *reterr)
{
    uint32_t rows = 0;
    uint64_t shape = 0;
    enum pen_status status = check_names(signature, model, inputs, count, reterr);
    for (size_t i = 0; status == PEN_OK && i < signature->inputs_count; i++) {
        const struct tensor_sig *sig = &signature->inputs[i];
        const struct pen_tensor *tensor = find_tensor(inputs, count, sig->name);
        shape = mix(shape, tensor != NULL);
        if (tensor)
            status = check_tensor(model, rows_max, sig, tensor, &rows, &shape, reterr);
        else if (!sig->optional)
            status = pen_error_set(reterr, PEN_ERR_INVALID, "input '%s' of model '%s' is missing", sig->name, model);
    }
    if (status == PEN_OK) {
        *ret_rows = rows ? rows : 1;
        *ret_shape = shape;
    }
    return status;
}

enum pen_status signature_check_outputs(const struct signature *signature, const char *model, char *const *names,
                                        size_t count, struct pen_error *reterr)
{
    char text[LIST_TEXT_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (!find_sig(signature->outputs, signature->outputs_count, names[i]))
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model '%s' has no output '%s', it gives: %s", model,
                                 names[i], names_text(signature->outputs, signature->outputs_count, text));
    }
    return PEN_OK;
}

/* ---- results ---- */

size_t signature_output(const struct signature *signature, const char *name, size_t bytes)
{
    size_t i = 0;
    while (i < signature->outputs_count &&
           (strncmp(signature->outputs[i].name, name, bytes) != 0 || signature->outputs[i].name[bytes] != '\0'))
        i++;
    return i;
}

static enum pen_status check_output(const struct tensor_sig *sig, const struct pen_tensor *tensor, bool crops,
                                    struct pen_error *reterr)
{
    char want[128], have[128];
    bool fits = sig->rank == 0 || tensor->rank == sig->rank;
    if (tensor->dtype != (enum pen_dtype)sig->dtype)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "output '%s' has element type %s, the model gives %s", sig->name,
                             pen_dtype_name(tensor->dtype), pen_dtype_name((enum pen_dtype)sig->dtype));
    for (uint32_t i = sig->batched || crops ? 1 : 0; fits && i < sig->rank; i++)
        fits = sig->dims[i] < 0 || sig->dims[i] == tensor->dims[i];
    return fits ? PEN_OK
                : pen_error_set(reterr, PEN_ERR_CORRUPT, "output '%s' has shape %s, the model gives %s", sig->name,
                                pen_shape_text(tensor->dims, tensor->rank, have, sizeof have),
                                pen_shape_text(sig->dims, sig->rank, want, sizeof want));
}

enum pen_status signature_check_output(const struct signature *signature, size_t at, bool crops, uint64_t *asked,
                                       const struct pen_tensor *output, struct pen_error *reterr)
{
    if (!(*asked >> at & 1))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "it has the output '%s' twice, or it was not asked for",
                             signature->outputs[at].name);
    *asked &= ~(UINT64_C(1) << at);
    return check_output(&signature->outputs[at], output, crops, reterr);
}

enum pen_status signature_check_all(const struct signature *signature, uint64_t asked, struct pen_error *reterr)
{
    if (!asked)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_CORRUPT, "it lacks the output '%s'",
                         signature->outputs[__builtin_ctzll(asked)].name);
}
