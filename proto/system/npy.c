#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct npy_type {
    const char *text; /* without the byte order */
    enum pen_dtype dtype;
} types[] = {{"f4", PEN_DTYPE_F32}, {"u1", PEN_DTYPE_U8},   {"i1", PEN_DTYPE_I8},  {"u2", PEN_DTYPE_U16},
             {"i2", PEN_DTYPE_I16}, {"i4", PEN_DTYPE_I32},  {"i8", PEN_DTYPE_I64}, {"b1", PEN_DTYPE_BOOL},
             {"f2", PEN_DTYPE_F16}, {"f8", PEN_DTYPE_F64},  {"u4", PEN_DTYPE_U32}, {"u8", PEN_DTYPE_U64},
             {"c8", PEN_DTYPE_C64}, {"c16", PEN_DTYPE_C128}};

bool npy_is(const uint8_t *bytes, size_t size)
{
    return size >= 10 && memcmp(bytes, magic, sizeof magic) == 0;
}

/* The header is a Python dict as text: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } */
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    at = at ? strchr(at, ':') : NULL;
    if (!at) {
        return NULL;
    }
    do {
        at++;
    } while (*at == ' ');
    return at;
}

static enum pen_dtype dtype_of(const char *text)
{
    if (!text || (*text != '\'' && *text != '"')) {
        return PEN_DTYPE_NONE;
    }
    char order = text[1];
    size_t length = strcspn(text + 1, "'\"");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bool one_byte = types[i].text[1] == '1' && !types[i].text[2];
        bool fits = order == '<' || ((order == '|' || order == '>') && one_byte);
        if (fits && length == strlen(types[i].text) + 1 && strncmp(text + 2, types[i].text, length - 1) == 0) {
            return types[i].dtype;
        }
    }
    return PEN_DTYPE_NONE;
}

static enum pen_status shape_of(const char *text, const char *file, struct pen_tensor *t, struct pen_error *reterr)
{
    if (!text || *text++ != '(') {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the .npy header has no shape.", file);
    }
    for (t->rank = 0;; t->rank++) {
        char *end;
        text += strspn(text, " ,");
        if (*text == ')') {
            return PEN_OK;
        }
        errno = 0;
        long long dim = strtoll(text, &end, 10);
        if (end == text || dim < 0 || errno || t->rank >= PEN_MAX_RANK) {
            return pen_error_set(reterr, PEN_ERR_CORRUPT,
                                 "%s: the .npy shape is malformed or has more than %d dimensions.", file, PEN_MAX_RANK);
        }
        t->dims[t->rank] = dim;
        text = end;
    }
}

/* Where the header's text lies. */
static enum pen_status header_of(const uint8_t *bytes, size_t size, const char *file, size_t *ret_at,
                                 size_t *ret_length, struct pen_error *reterr)
{
    bool known = npy_is(bytes, size) && bytes[6] >= 1 && bytes[6] <= 3 && (bytes[6] == 1 || size >= 12);
    if (!known) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: not a .npy file of format 1 to 3.", file);
    }
    size_t at = bytes[6] == 1 ? 10 : 12;
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    length |= bytes[6] == 1 ? 0 : (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > size - at || length > 65536) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the .npy header is cut off.", file);
    }
    *ret_at = at;
    *ret_length = length;
    return PEN_OK;
}

static enum pen_status header_parse(const char *text, const char *file, struct pen_tensor *t, struct pen_error *reterr)
{
    t->dtype = dtype_of(value_of(text, "descr"));
    if (t->dtype == PEN_DTYPE_NONE) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%s: an element type that is not taken: little-endian numbers and bool only.", file);
    }
    const char *fortran = value_of(text, "fortran_order");
    if (!fortran || strncmp(fortran, "False", 5) != 0) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%s: in Fortran order; save it with numpy.ascontiguousarray().", file);
    }
    return shape_of(value_of(text, "shape"), file, t, reterr);
}

enum pen_status npy_view(const uint8_t *bytes, size_t size, const char *file, struct pen_tensor *ret_tensor,
                         struct pen_error *reterr)
{
    struct pen_tensor t = {.name = NULL};
    size_t at = 0, length = 0, need = 0;
    uint64_t elements = 0;
    enum pen_status status = header_of(bytes, size, file, &at, &length, reterr);
    if (status != PEN_OK) {
        return status;
    }
    char *text = calloc(1, length + 1);
    if (!text) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory.", file);
    }
    memcpy(text, bytes + at, length);
    status = header_parse(text, file, &t, reterr);
    free(text);
    if (status != PEN_OK) {
        return status;
    }
    if (pen_tensor_elements(&t, &elements) != PEN_OK || pen_dtype_bytes(t.dtype, elements, &need) != 0 ||
        need > size - at - length) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s: the .npy file ends before its data do.", file);
    }
    t.data = bytes + at + length;
    t.bytes = need;
    *ret_tensor = t;
    return PEN_OK;
}

static const char *type_text(enum pen_dtype dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].dtype == dtype) {
            return types[i].text;
        }
    }
    return NULL;
}

/* The data begin at a multiple of 64. Returns the header's length with the 10 bytes before it. */
static size_t header_write(const struct pen_tensor *t, char header[1024])
{
    const char *type = type_text(t->dtype);
    char text[900], shape[512];
    size_t at = 0;
    shape[0] = '\0';
    for (uint32_t d = 0; type && d < t->rank; d++) {
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%" PRId64 ", ", t->dims[d]);
    }
    if (!type) {
        snprintf(shape, sizeof shape, "%zu,", t->bytes);
    }
    const char *order = !type || (type[1] == '1' && !type[2]) ? "|" : "<";
    int length = snprintf(text, sizeof text, "{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order,
                          type ? type : "u1", shape);
    size_t total = (10 + (size_t)length + 1 + 63) / 64 * 64;
    memset(header, ' ', total);
    memcpy(header, magic, sizeof magic);
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)((total - 10) & 0xFF);
    header[9] = (char)((total - 10) >> 8);
    memcpy(header + 10, text, (size_t)length);
    header[total - 1] = '\n';
    return total;
}

enum pen_status npy_save(const char *file, const struct pen_tensor *tensor, struct pen_error *reterr)
{
    char header[1024];
    size_t length = header_write(tensor, header);
    FILE *out = fopen(file, "wb");
    bool ok = out && fwrite(header, 1, length, out) == length &&
              (tensor->bytes == 0 || fwrite(tensor->data, 1, tensor->bytes, out) == tensor->bytes);
    int why = errno;
    if (out && fclose(out) != 0) {
        why = errno;
        ok = false;
    }
    return ok ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "%s: cannot write: %s.", file, strerror(why));
}
