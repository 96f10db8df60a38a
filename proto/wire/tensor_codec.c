/* tensor_codec.c - descriptors of a group <-> borrowed tensor views. On the broker's hot path: no allocation, one pass. */
#include "tensor_codec.h"
#include "frame.h"

#include <inttypes.h>
#include <string.h>

#define NAME_BYTES_MAX 255u

/* Names reach logs, error texts and file names: 1..255 bytes, none of them a control character. */
static enum pen_status name_check(const char *name, size_t index, const char *what, size_t *ret_length,
                                  struct pen_error *reterr)
{
    size_t length = 0;
    for (; name[length]; length++) {
        unsigned char c = (unsigned char)name[length];
        if (c < 0x20 || c == 0x7F)
            return pen_error_set(reterr, PEN_ERR_INVALID, "the name of %s %zu has the control character 0x%02x", what,
                                 index, c);
        if (length == NAME_BYTES_MAX)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the name of %s %zu is longer than %u bytes", what, index,
                                 NAME_BYTES_MAX);
    }
    if (length == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s %zu has no name", what, index);
    *ret_length = length;
    return PEN_OK;
}

/*
 * Equal names: a 64-bit set of name hashes says "surely new" for nearly all names; only a hit is compared with the
 * names before it (at most 64).
 */
static enum pen_status twin_check(const struct pen_tensor *tensors, size_t index, size_t length, uint64_t *seen,
                                  const char *what, struct pen_error *reterr)
{
    const char *name = tensors[index].name;
    uint64_t mixed = (length * 31 + (unsigned char)name[0]) * 31 + (unsigned char)name[length - 1];
    uint64_t bit = UINT64_C(1) << (mixed * 0x9E3779B97F4A7C15u >> 58);
    if (*seen & bit) {
        for (size_t i = 0; i < index; i++)
            if (strcmp(tensors[i].name, name) == 0)
                return pen_error_set(reterr, PEN_ERR_INVALID, "%s '%s' is given twice", what, name);
    }
    *seen |= bit;
    return PEN_OK;
}

/* Finds the payload of a descriptor; `used` has bit n - 1 set when raw frame n was taken. */
static enum pen_status payload_find(const Penstock__TensorDesc *desc, const struct raw_frame *frames,
                                    size_t frames_count, uint64_t *used, const char *what, struct pen_tensor *tensor,
                                    struct pen_error *reterr)
{
    if (desc->frame == 0) {
        tensor->data = desc->data.data;
        tensor->bytes = desc->data.len;
    } else {
        if (desc->frame > frames_count)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s '%s' says raw frame %u, but %zu came with the message",
                                 what, desc->name, desc->frame, frames_count);
        uint64_t bit = UINT64_C(1) << (desc->frame - 1);
        if (*used & bit)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s '%s' says raw frame %u, which another %s has taken", what,
                                 desc->name, desc->frame, what);
        if (desc->data.len != 0)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s '%s' has both inline data and raw frame %u", what,
                                 desc->name, desc->frame);
        *used |= bit;
        tensor->data = frames[desc->frame - 1].data;
        tensor->bytes = frames[desc->frame - 1].bytes;
    }
    if (tensor->bytes != desc->bytes)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s '%s' announces %" PRIu64 " bytes, but %zu came", what,
                             desc->name, desc->bytes, tensor->bytes);
    return PEN_OK;
}

static enum pen_status type_check(const Penstock__TensorDesc *desc, const char *what, struct pen_tensor *tensor,
                                  struct pen_error *reterr)
{
    if (desc->dtype == PEN_DTYPE_NONE || desc->dtype >= PEN_DTYPE_COUNT)
        return pen_error_set(reterr, PEN_ERR_DTYPE, "%s '%s' has the unknown element type %u", what, desc->name,
                             desc->dtype);
    if (desc->n_dims > PEN_MAX_RANK)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "%s '%s' has %zu dimensions, at most %d are allowed", what,
                             desc->name, desc->n_dims, PEN_MAX_RANK);
    tensor->dtype = (enum pen_dtype)desc->dtype;
    tensor->rank = (uint32_t)desc->n_dims;
    for (size_t i = 0; i < desc->n_dims; i++)
        tensor->dims[i] = desc->dims[i];
    return PEN_OK;
}

enum pen_status tensors_decode(Penstock__TensorDesc *const *descs, size_t count, const struct raw_frame *frames,
                               size_t frames_count, const char *what, struct pen_tensor *ret_tensors,
                               struct pen_error *reterr)
{
    uint64_t names_seen = 0, frames_used = 0;
    if (count > FRAME_MAX_TENSORS || frames_count > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%zu %ss in %zu raw frames, at most %u are allowed", count,
                             what, frames_count, FRAME_MAX_TENSORS);
    for (size_t i = 0; i < count; i++) {
        const Penstock__TensorDesc *desc = descs[i];
        struct pen_tensor *tensor = &ret_tensors[i];
        size_t length = 0;
        enum pen_status status = name_check(desc->name, i, what, &length, reterr);
        tensor->name = desc->name;
        if (status == PEN_OK)
            status = twin_check(ret_tensors, i, length, &names_seen, what, reterr);
        if (status == PEN_OK)
            status = type_check(desc, what, tensor, reterr);
        if (status == PEN_OK)
            status = payload_find(desc, frames, frames_count, &frames_used, what, tensor, reterr);
        if (status == PEN_OK)
            status = pen_tensor_check(tensor, reterr);
        if (status != PEN_OK)
            return status;
    }
    size_t taken = (size_t)__builtin_popcountll(frames_used);
    if (taken != frames_count)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%zu raw frames came, but the %ss use %zu of them", frames_count,
                             what, taken);
    return PEN_OK;
}

static bool fits_inline(const struct pen_tensor *tensors, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].bytes > FRAME_INLINE_BYTES - total)
            return false;
        total += tensors[i].bytes;
    }
    return true;
}

/* protobuf-c's structs have no const, but packing only reads, so the casts below are safe. */
static void *unconst(const void *pointer)
{
    void *writable;
    memcpy(&writable, &pointer, sizeof writable);
    return writable;
}

void tensors_encode(const struct pen_tensor *tensors, size_t count, Penstock__TensorDesc *descs,
                    Penstock__TensorDesc **desc_pointers, uint32_t *frame_order, size_t *ret_frames)
{
    bool all_inline = fits_inline(tensors, count);
    uint32_t frames = 0;
    for (size_t i = 0; i < count; i++) {
        const struct pen_tensor *tensor = &tensors[i];
        Penstock__TensorDesc *desc = &descs[i];
        penstock__tensor_desc__init(desc);
        desc->name = unconst(tensor->name);
        desc->dtype = (uint32_t)tensor->dtype;
        desc->n_dims = tensor->rank;
        desc->dims = unconst(tensor->dims);
        desc->bytes = tensor->bytes;
        if (all_inline || tensor->bytes == 0) {
            desc->data.len = tensor->bytes;
            desc->data.data = unconst(tensor->data);
        } else {
            frame_order[frames++] = (uint32_t)i;
            desc->frame = frames;
        }
        desc_pointers[i] = desc;
    }
    *ret_frames = frames;
}
