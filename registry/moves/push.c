/* push.c - uploads, the version's pointer, labels, the index for web servers. */
#include "push.h"

#include "content_key.h"
#include "model_files.h"
#include "remote_index.h"
#include "resolve.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 32u

struct uploads {
    const struct push *push;
    const struct model_files *files;
    pthread_mutex_t lock;
    size_t next;
    uint64_t sent_bytes;
    enum pen_status status;
    struct pen_error error;
};

/* What a digest names never changes: a content of the right size that is there stays. */
static bool is_there(struct place *place, const char *key, const struct manifest_file *file)
{
    uint64_t bytes = 0;
    return place_look(place, key, &bytes, NULL) == PEN_OK && bytes == file->bytes;
}

static enum pen_status upload(struct uploads *uploads, size_t index, uint64_t *ret_sent, struct pen_error *reterr)
{
    char key[PLACE_KEY_BYTES];
    const struct manifest_file *file = &uploads->files->manifest.files[index];
    *ret_sent = 0;
    content_key(&file->digest, key);
    if (!uploads->push->replace && is_there(uploads->push->place, key, file))
        return PEN_OK;
    int fd = model_files_open(uploads->files, index, reterr);
    if (fd < 0)
        return reterr->status;
    enum pen_status status =
        place_write(uploads->push->place, key,
                    &(struct place_content){.fd = fd, .size = file->bytes, .sha256 = file->digest.hex}, reterr);
    close(fd);
    *ret_sent = file->bytes;
    return status;
}

static bool upload_choose(struct uploads *uploads, size_t *ret_index)
{
    pthread_mutex_lock(&uploads->lock);
    bool found = uploads->status == PEN_OK && uploads->next < uploads->files->manifest.count;
    *ret_index = uploads->next;
    uploads->next += found;
    pthread_mutex_unlock(&uploads->lock);
    return found;
}

static void *uploads_run(void *context)
{
    struct uploads *uploads = context;
    size_t index;
    while (upload_choose(uploads, &index)) {
        struct pen_error error = {.status = PEN_OK};
        uint64_t sent = 0;
        enum pen_status status = upload(uploads, index, &sent, &error);
        pthread_mutex_lock(&uploads->lock);
        uploads->sent_bytes += sent;
        if (status != PEN_OK && uploads->status == PEN_OK) {
            uploads->status = status;
            uploads->error = error;
        }
        pthread_mutex_unlock(&uploads->lock);
    }
    return NULL;
}

static enum pen_status files_upload(const struct push *push, const struct model_files *files, uint64_t *ret_sent,
                                    struct pen_error *reterr)
{
    struct uploads uploads = {.push = push, .files = files};
    pthread_t threads[THREADS_MAX];
    size_t count = 0;
    pthread_mutex_init(&uploads.lock, NULL);
    while (count + 1 < push->parallel && count + 1 < files->manifest.count && count < THREADS_MAX &&
           pthread_create(&threads[count], NULL, uploads_run, &uploads) == 0)
        count++;
    uploads_run(&uploads);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    pthread_mutex_destroy(&uploads.lock);
    *ret_sent = uploads.sent_bytes;
    return uploads.status == PEN_OK ? PEN_OK : pen_error_set(reterr, uploads.status, "%s", uploads.error.text);
}

/* ---- the version --------------------------------------------------------------------------------------------------------------------- */

/* A version means the same files for ever, unless somebody says otherwise. */
static enum pen_status version_check(const struct push *push, const struct pushed *pushed, struct pen_error *reterr)
{
    char key[PLACE_KEY_BYTES];
    struct content_digest there;
    struct pen_error why = {.status = PEN_OK};
    enum pen_status status = pointer_read(push->place, version_key(pushed->name, pushed->version, key), &there, &why);
    if (status == PEN_ERR_NOT_FOUND || (status == PEN_OK && content_digest_equal(&there, &pushed->digest)) ||
        push->replace)
        return PEN_OK;
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "%s", why.text);
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "%.200s has %s@%" PRIu64 " already, with other files: push them as another version "
                         "(--as NAME@VERSION), or take its place (--replace)",
                         place_text(push->place), pushed->name, pushed->version);
}

static enum pen_status manifest_upload(const struct push *push, const struct pushed *pushed, const char *text,
                                       size_t bytes, struct pen_error *reterr)
{
    char key[PLACE_KEY_BYTES];
    enum pen_status status = place_write(
        push->place, content_key(&pushed->digest, key),
        &(struct place_content){.bytes = text, .fd = -1, .size = bytes, .sha256 = pushed->digest.hex}, reterr);
    if (status == PEN_OK)
        status = pointer_write(push->place, version_key(pushed->name, pushed->version, key), &pushed->digest, reterr);
    if (status == PEN_OK && push->label)
        status = pointer_write(push->place, label_key(pushed->name, push->label, key), &pushed->digest, reterr);
    return status == PEN_OK ? remote_index_write(push->place, reterr) : status;
}

static enum pen_status files_push(const struct push *push, const struct model_files *files, struct pushed *pushed,
                                  struct pen_error *reterr)
{
    char *text = NULL;
    size_t bytes = 0;
    enum pen_status status = manifest_write(&files->manifest, &text, &bytes, reterr);
    if (status != PEN_OK)
        return status;
    memcpy(pushed->name, files->manifest.model, sizeof pushed->name);
    pushed->version = files->manifest.version;
    pushed->digest = content_digest_of(text, bytes);
    pushed->files = files->manifest.count;
    pushed->bytes = files->manifest.bytes;
    status = version_check(push, pushed, reterr);
    if (status == PEN_OK)
        status = files_upload(push, files, &pushed->sent_bytes, reterr);
    if (status == PEN_OK)
        status = manifest_upload(push, pushed, text, bytes, reterr);
    free(text);
    return status;
}

static enum pen_status label_check(const char *label, struct pen_error *reterr)
{
    if (!label || reference_label_good(label))
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "'%.100s' is no label: it begins with a letter, and has letters, digits, '.', '_', '-'",
                         label);
}

enum pen_status push_run(const struct push *push, struct pushed *ret_pushed, struct pen_error *reterr)
{
    struct pushed pushed = {.version = 0};
    struct pen_error why = {.status = PEN_OK};
    struct model_files *files = malloc(sizeof *files);
    enum pen_status status = label_check(push->label, &why);
    if (!files)
        status = pen_error_set(&why, PEN_ERR_NO_MEMORY, "no memory to read the model");
    if (status == PEN_OK && !place_writable(push->place))
        status = place_write(push->place, "", &(struct place_content){.fd = -1}, &why);
    if (status == PEN_OK)
        status = model_files_read(push->folder, push->name, push->version, files, &why);
    if (status == PEN_OK) {
        status = files_push(push, files, &pushed, &why);
        model_files_fini(files);
    }
    free(files);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "%s", why.text);
    *ret_pushed = pushed;
    return PEN_OK;
}

enum pen_status push_label(struct place *place, const char *name, uint64_t version, const char *label,
                           struct pen_error *reterr)
{
    char key[PLACE_KEY_BYTES];
    struct content_digest digest;
    struct model_reference reference = {.version = version};
    enum pen_status status = label_check(label, reterr);
    if (status == PEN_OK && !reference_name_good(name))
        status = pen_error_set(reterr, PEN_ERR_INVALID, "'%.100s' is no name of a model", name);
    if (status != PEN_OK)
        return status;
    snprintf(reference.name, sizeof reference.name, "%.128s", name);
    status = resolve_digest(place, &reference, &digest, reterr);
    if (status == PEN_OK)
        status = pointer_write(place, label_key(name, label, key), &digest, reterr);
    return status == PEN_OK ? remote_index_write(place, reterr) : status;
}
