/* fetched.c - what the worker asks of a registry: at the start, and at each look. */
#include "fetched.h"

#include "catalog_own.h"
#include "deadline.h"
#include "pull.h"
#include "resolve.h"
#include "signals.h"
#include "view.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX           "registry:"
#define ITEMS_MAX        CATALOG_MODELS_MAX
#define SHARED_AT_A_TIME 16u /* contents sent to other workers */

struct fetched_item {
    struct model_reference asked;
    char text[REFERENCE_TEXT_BYTES];
    uint64_t version; /* served; 0 = none was pulled yet */
    struct content_digest digest;
    struct pen_error error; /* of the last try */
};

/* A version that was served and is not chosen any more; its link stays until the worker has let go of it. */
struct fetched_past {
    char name[REFERENCE_NAME_BYTES];
    uint64_t version;
};

struct fetched {
    struct pull pull;
    struct store_view *view;
    struct fetched_item items[ITEMS_MAX];
    size_t count;
    struct fetched_past past[ITEMS_MAX];
    size_t past_count;
};

static atomic_bool stopping;

static bool stop(void)
{
    return atomic_load(&stopping) || signals_asked();
}

void fetched_stop(struct fetched *fetched)
{
    if (fetched)
        atomic_store(&stopping, true);
}

bool fetched_wanted(const struct options *options)
{
    return strncmp(options->models, PREFIX, sizeof PREFIX - 1) == 0;
}

const char *fetched_folder(const struct fetched *fetched)
{
    return view_folder(fetched->view);
}

/* ---- settings ------------------------------------------------------------------------------------------------------------------------ */

static enum pen_status items_read(struct fetched *fetched, const char *list, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (const char *at = list + strspn(list, ", "); status == PEN_OK && *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", ");
        if (fetched->count == ITEMS_MAX)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a worker serves at most %u models", ITEMS_MAX);
        struct fetched_item *item = &fetched->items[fetched->count++];
        snprintf(item->text, sizeof item->text, "%.*s", (int)(length < 255 ? length : 255), at);
        status = reference_parse(item->text, &item->asked, reterr);
        at += length;
    }
    if (status == PEN_OK && fetched->count == 0)
        status =
            pen_error_set(reterr, PEN_ERR_INVALID, "--models %s names no model: write registry:NAME,NAME:LABEL", list);
    return status;
}

static enum pen_status store_get(struct fetched *fetched, const struct options *options, struct pen_error *reterr)
{
    char usual[DISK_PATH_BYTES];
    const char *folder = options->store;
    if (!*folder && !store_folder_usual(usual))
        return pen_error_set(reterr, PEN_ERR_INVALID, "there is no HOME: name the folder for models with --store");
    return store_open(*folder ? folder : usual, (uint64_t)options->store_limit, &fetched->pull.store, reterr);
}

static enum pen_status share_start(struct fetched *fetched, const struct options *options, struct pen_error *reterr)
{
    struct pull *pull = &fetched->pull;
    if (strcmp(options->share_models, "none") != 0) {
        enum pen_status status =
            mirror_start(options->share_models, pull->store, SHARED_AT_A_TIME, &pull->mirror, reterr);
        if (status != PEN_OK)
            return status;
        log_event(LOG_INFO, "models_shared", "address=%s", mirror_address(pull->mirror));
    }
    return *options->model_peers ? peers_new(options->model_peers, pull->mirror ? mirror_id(pull->mirror) : "", stop,
                                             &pull->peers, reterr)
                                 : PEN_OK;
}

static void exchange_get(struct fetched *fetched, const struct options *options)
{
    const char *why = "";
    fetched->pull.exchange = exchange_open(options->exchange, &why);
    if (*why)
        log_event(LOG_WARN, "exchange_unused", "exchange=%s reason=%s", options->exchange, why);
}

/* ---- models -------------------------------------------------------------------------------------------------------------------------- */

static bool is_chosen(const struct fetched *fetched, const char *name, uint64_t version)
{
    for (size_t i = 0; i < fetched->count; i++)
        if (fetched->items[i].version == version && strcmp(fetched->items[i].asked.name, name) == 0)
            return true;
    return false;
}

static void past_add(struct fetched *fetched, const char *name, uint64_t version)
{
    if (version == 0 || is_chosen(fetched, name, version) || fetched->past_count == ITEMS_MAX)
        return;
    struct fetched_past *past = &fetched->past[fetched->past_count++];
    snprintf(past->name, sizeof past->name, "%s", name);
    past->version = version;
}

static enum pen_status versions_choose(struct fetched *fetched, const char *name, struct pen_error *reterr)
{
    uint64_t versions[ITEMS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < fetched->count; i++)
        if (fetched->items[i].version != 0 && strcmp(fetched->items[i].asked.name, name) == 0)
            versions[count++] = fetched->items[i].version;
    return view_choose(fetched->view, name, versions, count, reterr);
}

static enum pen_status pulled_serve(struct fetched *fetched, struct fetched_item *item, const struct pulled *pulled,
                                    struct pen_error *reterr)
{
    uint64_t before = item->version;
    enum pen_status status =
        view_put(fetched->view, item->asked.name, pulled->manifest.version, &pulled->digest, reterr);
    if (status != PEN_OK)
        return status;
    item->version = pulled->manifest.version;
    item->digest = pulled->digest;
    past_add(fetched, item->asked.name, before);
    return versions_choose(fetched, item->asked.name, reterr);
}

static void pulled_log(const struct fetched_item *item, const struct pulled *pulled, uint64_t began_us)
{
    log_event(pulled->known ? LOG_WARN : LOG_INFO, "model_pulled",
              "model=%s version=%" PRIu64 " asked=%s digest=%s bytes=%" PRIu64 " registry_bytes=%" PRIu64
              " workers_bytes=%" PRIu64 " host_bytes=%" PRIu64 " store_bytes=%" PRIu64 " registry=%s us=%" PRIu64,
              item->asked.name, pulled->manifest.version, item->text, pulled->digest.hex, pulled->manifest.bytes,
              pulled->counts.registry, pulled->counts.workers, pulled->counts.host, pulled->counts.store,
              pulled->known ? "unreachable" : "reached", clock_now_us() - began_us);
}

/* True: it is another one than before. A failure is kept in the item. */
static bool item_pull(struct fetched *fetched, struct fetched_item *item)
{
    struct pulled pulled;
    struct pen_error error = {.status = PEN_OK};
    uint64_t began_us = clock_now_us();
    enum pen_status status = pull_model(&fetched->pull, item->text, &pulled, &error);
    if (status == PEN_OK) {
        pulled_log(item, &pulled, began_us);
        status = pulled_serve(fetched, item, &pulled, &error);
        manifest_fini(&pulled.manifest);
    }
    item->error = error;
    return status == PEN_OK;
}

enum pen_status fetched_open(const struct options *options, struct fetched **ret_fetched, struct pen_error *reterr)
{
    struct fetched *fetched = calloc(1, sizeof *fetched);
    if (!fetched)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the models of a registry");
    atomic_store(&stopping, false);
    fetched->pull.parallel = (unsigned)options->transfers;
    fetched->pull.stop = stop;
    enum pen_status status = items_read(fetched, options->models + sizeof PREFIX - 1, reterr);
    if (status == PEN_OK)
        status = place_open(options->registry, stop, &fetched->pull.place, reterr);
    if (status == PEN_OK)
        status = store_get(fetched, options, reterr);
    if (status == PEN_OK)
        status = view_open(fetched->pull.store, &fetched->view, reterr);
    if (status == PEN_OK)
        status = share_start(fetched, options, reterr);
    if (status != PEN_OK) {
        fetched_close(fetched);
        return status;
    }
    exchange_get(fetched, options);
    for (size_t i = 0; i < fetched->count && !stop(); i++)
        item_pull(fetched, &fetched->items[i]);
    *ret_fetched = fetched;
    return PEN_OK;
}

void fetched_close(struct fetched *fetched)
{
    if (!fetched)
        return;
    mirror_stop(fetched->pull.mirror);
    view_close(fetched->view);
    peers_free(fetched->pull.peers);
    exchange_close(fetched->pull.exchange);
    store_close(fetched->pull.store);
    place_close(fetched->pull.place);
    free(fetched);
}

void fetched_failures(const struct fetched *fetched, struct catalog *catalog)
{
    for (size_t i = 0; i < fetched->count; i++)
        if (fetched->items[i].error.status != PEN_OK)
            catalog_failed(catalog, fetched->items[i].asked.name, fetched->items[i].asked.version, 0,
                           &fetched->items[i].error);
}

/* ---- looks --------------------------------------------------------------------------------------------------------------------------- */

/* Only the pointer is read while nothing has changed. */
static void item_look(struct fetched *fetched, struct fetched_item *item)
{
    struct content_digest digest;
    struct pen_error before = item->error, error = {.status = PEN_OK};
    enum pen_status status = resolve_digest(fetched->pull.place, &item->asked, &digest, &error);
    bool same = status == PEN_OK && item->version != 0 && content_digest_equal(&digest, &item->digest);
    item->error = error;
    if (status == PEN_OK && !same)
        item_pull(fetched, item);
    if (item->error.status != PEN_OK && strcmp(before.text, item->error.text) != 0 && !stop())
        log_event(LOG_ERROR, "pull_failed", "model=%s asked=%s serving=%" PRIu64 " status=%s error=%s",
                  item->asked.name, item->text, item->version, pen_status_name(item->error.status), item->error.text);
}

/* Links to versions that the worker has let go of. */
static void past_drop(struct fetched *fetched, const struct catalog *catalog)
{
    size_t kept = 0;
    for (size_t i = 0; i < fetched->past_count; i++) {
        struct fetched_past past = fetched->past[i];
        if (is_chosen(fetched, past.name, past.version))
            continue;
        if (catalog_find(catalog, past.name, past.version))
            fetched->past[kept++] = past;
        else
            view_drop(fetched->view, past.name, past.version);
    }
    fetched->past_count = kept;
}

void fetched_look(struct fetched *fetched, const struct catalog *catalog)
{
    for (size_t i = 0; i < fetched->count && !stop(); i++)
        item_look(fetched, &fetched->items[i]);
    past_drop(fetched, catalog);
}
