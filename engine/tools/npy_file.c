#include "tools/npy_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/case.h"

static const struct {
    const char *code;
    enum pen_dtype dtype;
} codes[] = {
    {"<f4", PEN_DTYPE_F32}, {"|u1", PEN_DTYPE_U8},    {"|i1", PEN_DTYPE_I8},  {"<u2", PEN_DTYPE_U16},
    {"<i2", PEN_DTYPE_I16}, {"<i4", PEN_DTYPE_I32},   {"<i8", PEN_DTYPE_I64}, {"|b1", PEN_DTYPE_BOOL},
    {"<f2", PEN_DTYPE_F16}, {"<f8", PEN_DTYPE_F64},   {"<u4", PEN_DTYPE_U32}, {"<u8", PEN_DTYPE_U64},
    {"<c8", PEN_DTYPE_C64}, {"<c16", PEN_DTYPE_C128},
};

/* The text behind 'key': in the header's dictionary, or NULL. */
static const char *header_value(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(quoted);
    while (*at == ' ') {
        at++;
    }
    return at;
}

static enum pen_dtype header_dtype(const char *header)
{
    const char *descr = header_value(header, "descr");
    for (size_t i = 0; descr != NULL && *descr == '\'' && i < sizeof codes / sizeof codes[0]; i++) {
        size_t length = strlen(codes[i].code);
        if (strncmp(descr + 1, codes[i].code, length) == 0 && descr[1 + length] == '\'') {
            return codes[i].dtype;
        }
    }
    return PEN_DTYPE_NONE;
}

static int header_shape(const char *header, struct pen_tensor *t)
{
    const char *at = header_value(header, "shape");
    if (at == NULL || *at != '(') {
        return -1;
    }
    for (at++; *at != ')';) {
        char *end = NULL;
        long long dim = strtoll(at, &end, 10);
        if (end == at || dim < 0 || t->rank == PEN_MAX_RANK) {
            return -1;
        }
        t->dims[t->rank++] = dim;
        at = end;
        while (*at == ',' || *at == ' ') {
            at++;
        }
    }
    return 0;
}

enum pen_status npy_read(const char *path, struct rt_arena *arena, struct pen_tensor *ret, struct pen_error *reterr)
{
    void *file = NULL;
    size_t size = 0;
    enum pen_status status = case_file(arena, path, &file, &size, reterr);
    if (status != PEN_OK) {
        return status;
    }
    const unsigned char *b = file;
    if (size < 12 || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s is not a .npy file of format 1 to 3", path);
    }
    size_t prefix = b[6] == 1 ? 10 : 12;
    size_t length = b[6] == 1 ? (size_t)b[8] | (size_t)b[9] << 8
                              : (size_t)b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24;
    char *header = length <= size - prefix ? rt_arena_alloc(arena, length + 1) : NULL;
    if (header == NULL) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the .npy header reaches past the end of the file", path);
    }
    memcpy(header, b + prefix, length);
    header[length] = '\0';
    struct pen_tensor t = {.name = ret->name, .dtype = header_dtype(header)};
    const char *fortran = header_value(header, "fortran_order");
    if (t.dtype == PEN_DTYPE_NONE || fortran == NULL || strncmp(fortran, "False", 5) != 0 ||
        header_shape(header, &t) != 0) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%s: only little-endian C-order numeric arrays of rank <= %d are read; header: %.120s",
                             path, PEN_MAX_RANK, header);
    }
    uint64_t elements = 0;
    status = pen_tensor_elements(&t, &elements);
    if (status != PEN_OK || pen_dtype_bytes(t.dtype, elements, &t.bytes) != 0 || t.bytes != size - prefix - length) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: its data has %zu bytes, not what its shape needs", path,
                             size - prefix - length);
    }
    void *data = rt_arena_alloc(arena, t.bytes);
    if (data == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %s", path);
    }
    memcpy(data, b + prefix + length, t.bytes);
    t.data = data;
    *ret = t;
    return PEN_OK;
}

enum pen_status npy_write(const char *path, const struct pen_tensor *t, struct pen_error *reterr)
{
    const char *code = NULL;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        code = codes[i].dtype == t->dtype ? codes[i].code : code;
    }
    if (code == NULL) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "output '%s' is %s, which NumPy files have no name for",
                             t->name, pen_dtype_name(t->dtype));
    }
    char header[512];
    int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", code);
    for (uint32_t d = 0; d < t->rank; d++) {
        used += snprintf(header + used, sizeof header - (size_t)used, "%lld%s", (long long)t->dims[d],
                         d + 1 < t->rank ? ", "
                         : t->rank == 1  ? ","
                                         : ""); /* as Python writes tuples */
    }
    used += snprintf(header + used, sizeof header - (size_t)used, "), }");
    size_t padded = ((10 + (size_t)used + 1 + 63) & ~(size_t)63) - 10; /* data starts on 64 bytes */
    memset(header + used, ' ', padded - (size_t)used);
    header[padded - 1] = '\n';
    unsigned char prefix[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(padded & 0xFF), (unsigned char)(padded >> 8)};
    FILE *f = fopen(path, "wb");
    bool done = f != NULL && fwrite(prefix, 1, 10, f) == 10 && fwrite(header, 1, padded, f) == padded &&
                (t->bytes == 0 || fwrite(t->data, 1, t->bytes, f) == t->bytes);
    int why = errno;
    if (f != NULL && fclose(f) != 0) {
        why = errno;
        done = false;
    }
    return done ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "cannot write %s: %s", path, strerror(why));
}
