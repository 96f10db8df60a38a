#include "import/onnx/external.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/onnx/message.h"
#include "penstock/model_folder.h"

#define FIELD_EXTERNAL 13
#define FILES_MAX      4096

void import_extra_fini(struct import_extra *extra)
{
    for (uint32_t i = 0; i < extra->file_count; i++) {
        free(extra->files[i].name);
        if (extra->files[i].data)
            munmap(extra->files[i].data, extra->files[i].bytes);
    }
    free(extra->files);
    *extra = (struct import_extra){0};
}

static enum pen_status map_file(struct external *e, const char *location, struct import_file *ret_file,
                                struct pen_error *reterr)
{
    int fd = -1;
    size_t bytes = 0;
    struct pen_error inner = {0};
    const char *what = e->what ? e->what : "external data";
    enum pen_status status = pen_model_folder_open_plain(e->folder, location, &fd, &bytes, &inner);
    if (status == PEN_ERR_NOT_FOUND)
        return pen_error_set(reterr, PEN_ERR_IO, "%s '%.200s' is missing: copy it into the model's folder", what,
                             location);
    if (status != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_IO, "%s %.700s", what, inner.text);
    if (bytes > e->budget) {
        close(fd);
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s '%.200s' exceeds the model's budget", what, location);
    }
    void *data = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (data == MAP_FAILED)
        return pen_error_set(reterr, PEN_ERR_IO, "%s '%.200s' cannot be mapped", what, location);
    e->budget -= bytes;
    *ret_file = (struct import_file){.data = data, .bytes = bytes};
    return PEN_OK;
}

static enum pen_status file_add(struct import_extra *extra, struct import_file file)
{
    struct import_file *bigger = realloc(extra->files, ((size_t)extra->file_count + 1) * sizeof *bigger);
    if (!bigger)
        return PEN_ERR_NO_MEMORY;
    extra->files = bigger;
    extra->files[extra->file_count++] = file;
    return PEN_OK;
}

enum pen_status external_file(struct external *e, const char *location, struct bytes *ret, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < e->to->file_count; i++) {
        if (strcmp(e->to->files[i].name, location) == 0) {
            *ret = (struct bytes){e->to->files[i].data, e->to->files[i].bytes};
            return PEN_OK;
        }
    }
    if (e->to->file_count >= FILES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the model names more than %d files of external data",
                             FILES_MAX);
    struct import_file file = {0};
    enum pen_status status = map_file(e, location, &file, reterr);
    if (status != PEN_OK)
        return status;
    file.name = strdup(location);
    if (!file.name || file_add(e->to, file) != PEN_OK) {
        free(file.name);
        if (file.data)
            munmap(file.data, file.bytes);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the external data's file list");
    }
    *ret = (struct bytes){file.data, file.bytes};
    return PEN_OK;
}

/* StringStringEntryProto */
static bool parse_entry(struct bytes message, struct bytes *ret_key, struct bytes *ret_value)
{
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_BYTES)
            *ret_key = f.bytes;
        else if (f.number == 2 && f.type == WIRE_BYTES)
            *ret_value = f.bytes;
    }
    return got == 0;
}

static bool parse_number(struct bytes text, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.at[i] - '0'), &value))
            return false;
    }
    *ret = value;
    return text.size > 0;
}

struct place {
    struct bytes location;
    uint64_t offset, length;
    bool has_length;
};

static bool parse_place(struct bytes tensor, struct place *p)
{
    struct bytes entry;
    int got;
    while ((got = pb_each(&tensor, FIELD_EXTERNAL, &entry)) == 1) {
        struct bytes key = {0}, value = {0};
        if (!parse_entry(entry, &key, &value))
            return false;
        if (bytes_are(key, "location"))
            p->location = value;
        else if (bytes_are(key, "offset") && !parse_number(value, &p->offset))
            return false;
        else if (bytes_are(key, "length")) {
            p->has_length = true;
            if (!parse_number(value, &p->length))
                return false;
        }
    }
    return got == 0 && p->location.size > 0 && p->location.size < PATH_MAX;
}

enum pen_status external_data(struct external *e, struct bytes tensor, size_t need, size_t pad, struct bytes *ret_data,
                              bool *ret_copy, struct pen_error *reterr)
{
    struct place p = {0};
    char location[PATH_MAX];
    struct bytes file = {0};
    if (!e || !e->folder)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "the model keeps data in other files, but no folder is known");
    if (!parse_place(tensor, &p))
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "a tensor's external data has no proper location, offset or length");
    if (memchr(p.location.at, '\0', p.location.size))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "the location '%.*s...' of a tensor's external data has a NUL byte in it",
                             (int)strnlen((const char *)p.location.at, p.location.size), (const char *)p.location.at);
    memcpy(location, p.location.at, p.location.size);
    location[p.location.size] = '\0';
    enum pen_status status = external_file(e, location, &file, reterr);
    if (status != PEN_OK)
        return status;
    if (p.offset > file.size || need > file.size - p.offset)
        return pen_error_set(
            reterr, PEN_ERR_CORRUPT,
            "external data '%.200s' is truncated: it has %zu bytes, a tensor needs %zu from byte %llu on", location,
            file.size, need, (unsigned long long)p.offset);
    if (p.has_length && p.length != need)
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "external data '%.200s' (%zu bytes) does not hold the %zu bytes at offset %llu that a "
                             "tensor needs",
                             location, file.size, need, (unsigned long long)p.offset);
    *ret_data = (struct bytes){file.at ? file.at + p.offset : NULL, need};
    *ret_copy = file.size - p.offset - need < pad;
    return PEN_OK;
}
