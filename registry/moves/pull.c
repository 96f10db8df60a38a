/* pull.c - contents from anywhere, several at a time, then the model. */
#include "pull.h"

#include "resolve.h"
#include "store_room.h"
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX      32u
#define TRIES_MAX        3u /* of a model: another process may have made room of its contents in between */
#define EXCHANGE_WAIT_NS 20000000L

/* ---- one content --------------------------------------------------------------------------------------------------------------------- */

struct content_fetch {
    const struct pull *pull;
    const struct manifest_file *file;
    struct partial *partial;
    unsigned parallel;
    struct pull_counts *counts;
};

static enum pen_status from_place(const struct content_fetch *fetch, struct place *place, uint64_t *count,
                                  struct pen_error *reterr)
{
    uint64_t bytes = 0;
    enum pen_status status = transfer_run(
        &(struct transfer_asked){
            .place = place, .partial = fetch->partial, .parallel = fetch->parallel, .stop = fetch->pull->stop},
        &bytes, reterr);
    *count += bytes;
    return status == PEN_OK ? partial_finish(fetch->partial, true, reterr) : status;
}

/* A worker that sends something else is not asked again; what it sent is forgotten. */
static enum pen_status from_afar(const struct content_fetch *fetch, struct pen_error *reterr)
{
    struct place *place = NULL;
    const struct pull *pull = fetch->pull;
    while (pull->peers && peers_find(pull->peers, &fetch->file->digest, &place) == PEERS_HAVE) {
        enum pen_status status = from_place(fetch, place, &fetch->counts->workers, reterr);
        if (status == PEN_OK || status == PEN_ERR_CANCELLED)
            return status;
        peers_blame(pull->peers, place);
    }
    return from_place(fetch, pull->place, &fetch->counts->registry, reterr);
}

static bool stopped(const struct pull *pull)
{
    return pull->stop && pull->stop();
}

/* The first process of this host fetches it; the others wait, and take it from that one's store. */
static enum pen_status from_host_or_afar(const struct content_fetch *fetch, struct pen_error *reterr)
{
    const struct pull *pull = fetch->pull;
    const struct content_digest *digest = &fetch->file->digest;
    for (; !stopped(pull); nanosleep(&(struct timespec){.tv_nsec = EXCHANGE_WAIT_NS}, NULL)) {
        if (exchange_take(pull->exchange, fetch->partial)) {
            fetch->counts->host += fetch->file->bytes;
            return PEN_OK;
        }
        int lock = exchange_lock(pull->exchange, digest);
        if (lock < 0)
            continue;
        bool taken = exchange_take(pull->exchange, fetch->partial); /* it came while we took the lock */
        enum pen_status status = taken ? PEN_OK : from_afar(fetch, reterr);
        fetch->counts->host += taken ? fetch->file->bytes : 0;
        if (status == PEN_OK)
            exchange_tell(pull->exchange, pull->store, digest);
        exchange_unlock(pull->exchange, digest, lock);
        return status;
    }
    return pen_error_set(reterr, PEN_ERR_CANCELLED, "the transfer was stopped");
}

static enum pen_status content_get(const struct pull *pull, const struct manifest_file *file, unsigned parallel,
                                   struct pull_counts *counts, struct pen_error *reterr)
{
    struct content_fetch fetch = {.pull = pull, .file = file, .parallel = parallel, .counts = counts};
    enum pen_status status = partial_open(pull->store, &file->digest, file->bytes, pull->stop, &fetch.partial, reterr);
    if (status != PEN_OK)
        return status;
    if (!fetch.partial) {
        counts->store += file->bytes;
        return PEN_OK;
    }
    status = pull->exchange ? from_host_or_afar(&fetch, reterr) : from_afar(&fetch, reterr);
    partial_close(fetch.partial);
    return status;
}

/* ---- all contents -------------------------------------------------------------------------------------------------------------------- */

struct contents_run {
    const struct pull *pull;
    const struct manifest *manifest;
    pthread_mutex_t lock;
    size_t next;
    struct pull_counts counts;
    enum pen_status status;
    struct pen_error error;
};

static bool is_small(const struct manifest_file *file)
{
    return file->bytes <= PARTIAL_PART_BYTES;
}

static const struct manifest_file *small_choose(struct contents_run *run)
{
    const struct manifest_file *file = NULL;
    pthread_mutex_lock(&run->lock);
    while (!file && run->status == PEN_OK && run->next < run->manifest->count) {
        const struct manifest_file *next = &run->manifest->files[run->next++];
        file = is_small(next) ? next : NULL;
    }
    pthread_mutex_unlock(&run->lock);
    return file;
}

static void one_get(struct contents_run *run, const struct manifest_file *file, unsigned parallel)
{
    struct pull_counts counts = {.registry = 0};
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = content_get(run->pull, file, parallel, &counts, &error);
    pthread_mutex_lock(&run->lock);
    run->counts.registry += counts.registry;
    run->counts.workers += counts.workers;
    run->counts.host += counts.host;
    run->counts.store += counts.store;
    if (status != PEN_OK && run->status == PEN_OK) {
        run->status = status;
        run->error = error;
    }
    pthread_mutex_unlock(&run->lock);
}

static void *small_run(void *context)
{
    struct contents_run *run = context;
    for (const struct manifest_file *file = small_choose(run); file; file = small_choose(run))
        one_get(run, file, 1);
    return NULL;
}

/* Small ones several at a time; then each large one in parts of which several come at a time. */
static enum pen_status contents_get(const struct pull *pull, const struct manifest *manifest,
                                    struct pull_counts *counts, struct pen_error *reterr)
{
    struct contents_run run = {.pull = pull, .manifest = manifest};
    pthread_t threads[THREADS_MAX];
    size_t count = 0;
    sigset_t all, before;
    pthread_mutex_init(&run.lock, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (count + 1 < pull->parallel && count + 1 < manifest->count && count < THREADS_MAX &&
           pthread_create(&threads[count], NULL, small_run, &run) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    small_run(&run);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    for (size_t i = 0; run.status == PEN_OK && i < manifest->count; i++)
        if (!is_small(&manifest->files[i]))
            one_get(&run, &manifest->files[i], pull->parallel);
    pthread_mutex_destroy(&run.lock);
    *counts = run.counts;
    return run.status == PEN_OK ? PEN_OK : pen_error_set(reterr, run.status, "%s", run.error.text);
}

/* ---- a model ------------------------------------------------------------------------------------------------------------------------- */

/* From the store when it is there, else from the registry into the store. */
static enum pen_status manifest_get(const struct pull *pull, struct pulled *pulled, struct pen_error *reterr)
{
    char *text = NULL;
    size_t bytes = 0;
    if (store_manifest(pull->store, &pulled->digest, &pulled->manifest, NULL) == PEN_OK)
        return PEN_OK;
    enum pen_status status = resolve_manifest(pull->place, &pulled->digest, &text, &bytes, &pulled->manifest, reterr);
    if (status != PEN_OK)
        return status;
    status = store_blob_put(pull->store, &pulled->digest, text, bytes, reterr);
    free(text);
    if (status != PEN_OK)
        manifest_fini(&pulled->manifest);
    return status;
}

/* A store that holds what the reference meant lately serves it while the registry cannot be reached. */
static enum pen_status digest_get(const struct pull *pull, const char *reference, const struct model_reference *parsed,
                                  struct pulled *pulled, struct pen_error *reterr)
{
    enum pen_status status = resolve_digest(pull->place, parsed, &pulled->digest, reterr);
    if (status == PEN_OK) {
        store_known_put(pull->store, place_text(pull->place), reference, &pulled->digest);
        return PEN_OK;
    }
    if ((status == PEN_ERR_UNAVAILABLE || status == PEN_ERR_BUSY || status == PEN_ERR_IO) &&
        store_known(pull->store, place_text(pull->place), reference, &pulled->digest)) {
        pulled->known = true;
        return PEN_OK;
    }
    return status;
}

static enum pen_status model_try(const struct pull *pull, struct pulled *pulled, struct pen_error *reterr)
{
    const struct manifest *manifest = &pulled->manifest;
    if (store_model_has(pull->store, &pulled->digest) &&
        store_model_check(pull->store, &pulled->digest, manifest, reterr) == PEN_OK) {
        pulled->counts = (struct pull_counts){.store = manifest->bytes};
        return PEN_OK;
    }
    enum pen_status status = store_room_make(pull->store, &pulled->digest, manifest, reterr);
    if (status == PEN_OK && pull->mirror)
        mirror_expect(pull->mirror, manifest);
    if (status == PEN_OK)
        status = contents_get(pull, manifest, &pulled->counts, reterr);
    if (pull->mirror)
        mirror_expect(pull->mirror, NULL);
    if (status == PEN_OK)
        status = store_model_put(pull->store, &pulled->digest, manifest, reterr);
    /* what lay in the store already may have been changed there: then it is gone now, and is fetched again */
    if (status == PEN_OK && pulled->counts.store > 0 &&
        store_model_check(pull->store, &pulled->digest, manifest, reterr) != PEN_OK)
        status = PEN_ERR_NOT_FOUND;
    return status;
}

enum pen_status pull_model(const struct pull *pull, const char *reference, struct pulled *ret_pulled,
                           struct pen_error *reterr)
{
    struct model_reference parsed;
    struct pulled pulled = {.known = false};
    enum pen_status status = reference_parse(reference, &parsed, reterr);
    if (status == PEN_OK)
        status = digest_get(pull, reference, &parsed, &pulled, reterr);
    for (unsigned tries = 0; status == PEN_OK && tries < TRIES_MAX; tries++) {
        status = manifest_get(pull, &pulled, reterr);
        if (status != PEN_OK)
            break;
        status = resolve_check(&parsed, &pulled.manifest, reterr);
        if (status == PEN_OK)
            status = model_try(pull, &pulled, reterr);
        if (status == PEN_OK) {
            *ret_pulled = pulled;
            return PEN_OK;
        }
        manifest_fini(&pulled.manifest);
        if (status == PEN_ERR_NOT_FOUND && tries + 1 < TRIES_MAX)
            status = PEN_OK;
    }
    return status;
}

/* ---- into a folder ------------------------------------------------------------------------------------------------------------------- */

static bool file_pass(int from, int to, uint64_t bytes)
{
    char block[65536];
    uint64_t at = 0;
    while (at < bytes) {
        ssize_t got = pread(from, block, sizeof block, (off_t)at);
        if (got <= 0 || !disk_pwrite(to, block, (size_t)got, at))
            return false;
        at += (uint64_t)got;
    }
    return true;
}

static enum pen_status file_unpack(const struct pull *pull, const struct manifest_file *file, const char *folder,
                                   struct pen_error *reterr)
{
    char blob[DISK_PATH_BYTES], path[DISK_PATH_BYTES];
    store_blob_path(pull->store, &file->digest, blob);
    if (!disk_path(path, folder, file->path))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of %.200s is too long", file->path);
    enum pen_status status = disk_make_above(path, reterr);
    if (status != PEN_OK)
        return status;
    int from = open(blob, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int to = from >= 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
    if (to < 0 || !file_pass(from, to, file->bytes))
        status = disk_failed("write", path, reterr);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return status;
}

/* The old folder changes its name for the moment of the switch. */
static enum pen_status folder_switch(const char *making, const char *path, const char *old, struct pen_error *reterr)
{
    bool had = rename(path, old) == 0;
    if (rename(making, path) != 0) {
        enum pen_status status = disk_failed("make", path, reterr);
        if (had && rename(old, path) != 0)
            return disk_failed("put back", path, reterr);
        return status;
    }
    if (had)
        disk_remove(old);
    return PEN_OK;
}

enum pen_status pull_unpack(const struct pull *pull, const struct pulled *pulled, const char *folder,
                            struct pen_error *reterr)
{
    char model[DISK_PATH_BYTES], path[DISK_PATH_BYTES], making[DISK_PATH_BYTES], old[DISK_PATH_BYTES];
    char number[24], name[48], other[48];
    snprintf(number, sizeof number, "%" PRIu64, pulled->manifest.version);
    disk_new_name(name);
    disk_new_name(other);
    if (!disk_path(model, folder, pulled->manifest.model) || !disk_path(path, model, number) ||
        !disk_path(making, model, name) || !disk_path(old, model, other))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path %.200s is too long", folder);
    enum pen_status status = disk_make(making, reterr);
    for (size_t i = 0; status == PEN_OK && i < pulled->manifest.count; i++)
        status = file_unpack(pull, &pulled->manifest.files[i], making, reterr);
    if (status == PEN_OK)
        status = folder_switch(making, path, old, reterr);
    if (status != PEN_OK)
        disk_remove(making);
    return status;
}
