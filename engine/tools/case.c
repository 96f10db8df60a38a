#include "tools/case.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX ((uint64_t)1 << 31)

enum pen_status case_file(struct rt_arena *arena, const char *path, void **ret_bytes, size_t *ret_size,
                          struct pen_error *reterr)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (f == NULL || fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > FILE_BYTES_MAX) {
        int why = errno;
        if (f != NULL) {
            fclose(f);
        }
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read %s: %s", path,
                             f == NULL ? strerror(why) : "not a regular file of reasonable size");
    }
    size_t size = (size_t)st.st_size;
    unsigned char *bytes = rt_arena_alloc(arena, size);
    bool whole = bytes != NULL && fread(bytes, 1, size, f) == size;
    fclose(f);
    if (!whole) {
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read all of %s", path);
    }
    memset(bytes + size, 0, 64);
    *ret_bytes = bytes;
    *ret_size = size;
    return PEN_OK;
}

static enum pen_status strings_copy(struct rt_arena *arena, struct rt_value *v)
{
    struct string_view *items = v->data;
    for (int64_t i = 0; i < shape_elements(&v->shape); i++) {
        char *text = rt_arena_alloc(arena, items[i].bytes);
        if (text == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        if (items[i].bytes > 0) {
            memcpy(text, items[i].text, items[i].bytes);
        }
        items[i].text = text;
    }
    return PEN_OK;
}

enum pen_status case_value_copy(struct rt_arena *arena, const struct rt_value *from, struct rt_value *ret)
{
    *ret = *from;
    enum pen_status status = PEN_OK;
    if (from->data != NULL) {
        ret->data = rt_arena_alloc(arena, from->bytes);
        if (ret->data == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        memcpy(ret->data, from->data, from->bytes);
    }
    if (from->kind == VALUE_TENSOR && from->dtype == PEN_DTYPE_STRING) {
        status = strings_copy(arena, ret);
    }
    if (from->item_count > 0) {
        ret->items = rt_arena_alloc(arena, from->item_count * sizeof *ret->items);
        status = ret->items != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; status == PEN_OK && i < from->item_count; i++) {
        status = case_value_copy(arena, &from->items[i], &ret->items[i]);
    }
    return status;
}

char *case_join(struct rt_arena *arena, const char *folder, const char *name)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = rt_arena_alloc(arena, room);
    if (path != NULL) {
        snprintf(path, room, "%s/%s", folder, name);
    }
    return path;
}

const char *case_model_path(const struct case_ref *ref, struct rt_arena *arena, struct pen_error *reterr)
{
    switch (ref->kind) {
    case CASE_ONNX_FOLDER:
        return case_join(arena, ref->path, "model.onnx");
    case CASE_GOLDEN:
        return golden_model_path(ref->path, arena, reterr);
    case CASE_LIGHT:
        break;
    }
    return ref->path;
}

uint32_t case_sets(const struct case_ref *ref)
{
    return ref->kind == CASE_ONNX_FOLDER ? onnx_folder_sets(ref->path) : 1;
}

enum pen_status case_read(const struct case_ref *ref, uint32_t index, const struct pen_model *model,
                          enum pen_precision precision, struct rt_arena *arena, struct case_set *set,
                          struct tolerance *ret_tolerance, struct pen_error *reterr)
{
    memset(set, 0, sizeof *set);
    *ret_tolerance = tolerance_suite(ref->path, precision);
    switch (ref->kind) {
    case CASE_ONNX_FOLDER:
        return onnx_folder_read(ref->path, index, model, arena, set, reterr);
    case CASE_LIGHT:
        return light_read(ref->path, model, arena, set, reterr);
    case CASE_GOLDEN:
        break;
    }
    return golden_read(ref->path, model, precision, arena, set, ret_tolerance, reterr);
}
