/* manifest.c - manifests from JSON and back, with every rule checked. */
#include "manifest.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT     "penstock-model/1"
#define ROOM_FIRST 16u

static bool part_good(const char *part, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f || part[i] == '\\')
            return false;
    return length > 0 && length <= 255 && part[0] != '.';
}

static bool path_good(const char *path)
{
    unsigned depth = 0;
    if (strlen(path) >= MANIFEST_PATH_BYTES)
        return false;
    for (;; path++) {
        size_t length = strcspn(path, "/");
        if (!part_good(path, length) || ++depth > MANIFEST_DEPTH_MAX)
            return false;
        path += length;
        if (*path == '\0')
            return true;
    }
}

/* 16, 32, 64, ...: full whenever the count is one of these. */
static bool room_for(struct manifest *manifest)
{
    size_t count = manifest->count;
    if (count != 0 && (count < ROOM_FIRST || (count & (count - 1)) != 0))
        return true;
    struct manifest_file *files = realloc(manifest->files, (count ? 2 * count : ROOM_FIRST) * sizeof *files);
    if (files)
        manifest->files = files;
    return files != NULL;
}

enum pen_status manifest_add(struct manifest *manifest, const char *path, uint64_t bytes,
                             const struct content_digest *digest, struct pen_error *reterr)
{
    if (!path_good(path))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "'%.200s' is no path for a file of a model: it must be relative, without '..', hidden "
                             "parts, backslashes and control characters, and at most %u folders deep",
                             path, MANIFEST_DEPTH_MAX);
    if (manifest->count == MANIFEST_FILES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a model in a registry has at most %u files",
                             MANIFEST_FILES_MAX);
    if (bytes > MANIFEST_FILE_BYTES_MAX - manifest->bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a model in a registry has at most 1 TiB");
    if (!room_for(manifest))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a list of %zu files", manifest->count + 1);
    struct manifest_file *file = &manifest->files[manifest->count++];
    *file = (struct manifest_file){.bytes = bytes, .digest = *digest};
    memcpy(file->path, path, strlen(path) + 1);
    manifest->bytes += bytes;
    return PEN_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct manifest_file *)a)->path, ((const struct manifest_file *)b)->path);
}

void manifest_sort(struct manifest *manifest)
{
    if (manifest->count > 1)
        qsort(manifest->files, manifest->count, sizeof *manifest->files, by_path);
}

void manifest_fini(struct manifest *manifest)
{
    free(manifest->files);
    *manifest = (struct manifest){.files = NULL};
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------- */

static enum pen_status broken(struct pen_error *reterr, const char *what)
{
    return pen_error_set(reterr, PEN_ERR_CORRUPT, "the manifest is broken: %s", what);
}

static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static bool number_of(const cJSON *object, const char *name, uint64_t most, uint64_t *ret_number)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= (double)most))
        return false;
    *ret_number = (uint64_t)item->valuedouble;
    return (double)*ret_number == item->valuedouble;
}

static enum pen_status file_read(const cJSON *item, struct manifest *manifest, struct pen_error *reterr)
{
    const char *path = text_of(item, "path"), *sha256 = text_of(item, "sha256");
    struct content_digest digest;
    uint64_t bytes = 0;
    struct pen_error why = {.status = PEN_OK};
    if (!path || !sha256 || !number_of(item, "bytes", MANIFEST_FILE_BYTES_MAX, &bytes) ||
        !content_digest_parse(sha256, &digest))
        return broken(reterr, "each file needs path, bytes and sha256 (64 lower-case hex digits)");
    if (manifest->count > 0 && strcmp(manifest->files[manifest->count - 1].path, path) >= 0)
        return broken(reterr, "its files are not in the order of their paths, or one stands twice");
    if (manifest_add(manifest, path, bytes, &digest, &why) == PEN_ERR_INVALID)
        return broken(reterr, why.text);
    return why.status == PEN_OK ? PEN_OK : pen_error_set(reterr, why.status, "%s", why.text);
}

static enum pen_status document_read(const cJSON *document, struct manifest *manifest, struct pen_error *reterr)
{
    const char *format = text_of(document, "format"), *model = text_of(document, "model");
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(document, "files");
    enum pen_status status = PEN_OK;
    if (!format || strcmp(format, FORMAT) != 0)
        return pen_error_set(reterr, PEN_ERR_VERSION, "the manifest has format '%.40s'; this version reads " FORMAT,
                             format ? format : "");
    if (!model || !reference_name_good(model))
        return broken(reterr, "'model' is no name of a model");
    if (!number_of(document, "version", UINT64_C(999999999999999), &manifest->version) || manifest->version == 0)
        return broken(reterr, "'version' is no number from 1");
    if (!cJSON_IsArray(files) || !files->child)
        return broken(reterr, "it has no files");
    memcpy(manifest->model, model, strlen(model) + 1);
    for (const cJSON *item = files->child; status == PEN_OK && item; item = item->next)
        status = file_read(item, manifest, reterr);
    return status;
}

enum pen_status manifest_parse(const char *text, size_t bytes, struct manifest *ret_manifest, struct pen_error *reterr)
{
    struct manifest manifest = {.files = NULL};
    if (bytes > MANIFEST_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a manifest has at most %u bytes", MANIFEST_BYTES_MAX);
    cJSON *document = cJSON_ParseWithLength(text, bytes);
    enum pen_status status =
        cJSON_IsObject(document) ? document_read(document, &manifest, reterr) : broken(reterr, "it is no JSON object");
    cJSON_Delete(document);
    if (status != PEN_OK) {
        manifest_fini(&manifest);
        return status;
    }
    *ret_manifest = manifest;
    return PEN_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------------- */

static bool file_write(cJSON *list, const struct manifest_file *file)
{
    cJSON *item = cJSON_CreateObject();
    return item && cJSON_AddItemToArray(list, item) && cJSON_AddStringToObject(item, "path", file->path) &&
           cJSON_AddNumberToObject(item, "bytes", (double)file->bytes) &&
           cJSON_AddStringToObject(item, "sha256", file->digest.hex);
}

enum pen_status manifest_write(const struct manifest *manifest, char **ret_text, size_t *ret_bytes,
                               struct pen_error *reterr)
{
    cJSON *document = cJSON_CreateObject();
    bool good = document && cJSON_AddStringToObject(document, "format", FORMAT) &&
                cJSON_AddStringToObject(document, "model", manifest->model) &&
                cJSON_AddNumberToObject(document, "version", (double)manifest->version);
    cJSON *files = good ? cJSON_AddArrayToObject(document, "files") : NULL;
    good = files != NULL;
    for (size_t i = 0; good && i < manifest->count; i++)
        good = file_write(files, &manifest->files[i]);
    char *text = good ? cJSON_PrintUnformatted(document) : NULL;
    cJSON_Delete(document);
    if (!text)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to write the manifest");
    if (strlen(text) > MANIFEST_BYTES_MAX) {
        free(text);
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the manifest would have more than %u bytes",
                             MANIFEST_BYTES_MAX);
    }
    *ret_text = text;
    *ret_bytes = strlen(text);
    return PEN_OK;
}
