/* remote.c - push, pull, list and label of registries. */
#include "remote.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pull.h"
#include "push.h"
#include "remote_index.h"
#include "words.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static bool stop(void)
{
    return interrupted != 0;
}

/* What came stays in the store, so a pull that was stopped goes on from there. */
static void signals_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int usage(const char *text)
{
    fprintf(stderr, "penstock model: %s\n", text);
    return EXIT_USAGE;
}

/* What the user wrote wrong is usage; a registry that cannot be reached is no pool's fault, but a failure. */
static int failed(const struct common *common, const struct pen_error *error)
{
    int code = command_fail(common, error);
    return error->status == PEN_ERR_INVALID ? EXIT_USAGE : code == EXIT_NO_POOL ? EXIT_JOB_FAILED : code;
}

static struct place *registry_open(const struct common *common, const char *text, int *ret_exit)
{
    struct place *place = NULL;
    struct pen_error error = {.status = PEN_OK};
    if (place_open(text, stop, &place, &error) != PEN_OK)
        *ret_exit = failed(common, &error);
    return place;
}

static struct store *store_here(const struct common *common, const struct remote_options *o, int *ret_exit)
{
    char folder[DISK_PATH_BYTES] = "";
    struct store *store = NULL;
    struct pen_error error = {.status = PEN_OK};
    if (!*o->store && !store_folder_usual(folder))
        *ret_exit = usage("there is no HOME: name the folder for models with --store");
    else if (store_open(*o->store ? o->store : folder, (uint64_t)o->store_limit, &store, &error) != PEN_OK)
        *ret_exit = failed(common, &error);
    return store;
}

/* ---- push ---------------------------------------------------------------------------------------------------------------------------- */

static int pushed_show(const struct common *common, const struct remote_options *o, const struct pushed *pushed)
{
    char bytes[AMOUNT_BYTES], sent[AMOUNT_BYTES];
    if (!common->json) {
        printf("%s@%" PRIu64 "  sha256:%s\n%zu %s, %s, of which %s were sent%s%s\n", pushed->name, pushed->version,
               pushed->digest.hex, pushed->files, words_plural(pushed->files, "file", "files"),
               amount_bytes(pushed->bytes, bytes), amount_bytes(pushed->sent_bytes, sent), *o->label ? "; label " : "",
               o->label);
        return EXIT_OK;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "model", pushed->name);
    cJSON_AddNumberToObject(json, "version", (double)pushed->version);
    cJSON_AddStringToObject(json, "digest", pushed->digest.hex);
    cJSON_AddStringToObject(json, "label", o->label);
    cJSON_AddNumberToObject(json, "files", (double)pushed->files);
    cJSON_AddNumberToObject(json, "bytes", (double)pushed->bytes);
    cJSON_AddNumberToObject(json, "sent_bytes", (double)pushed->sent_bytes);
    return command_print(json);
}

int remote_push(const struct common *common, const struct remote_options *o, const char *const *words, size_t count)
{
    struct model_reference as = {.version = 0};
    struct pushed pushed;
    struct pen_error error = {.status = PEN_OK};
    int code = EXIT_USAGE;
    if (count != 2)
        return usage("push takes one folder: penstock model push DIR --to REGISTRY");
    if (*o->as && (reference_parse(o->as, &as, &error) != PEN_OK || as.label[0] || as.digest.hex[0]))
        return usage("--as takes NAME or NAME@VERSION");
    struct place *place = registry_open(common, *o->to ? o->to : o->registry, &code);
    if (!place)
        return code;
    signals_watch();
    const struct push push = {.place = place,
                              .folder = words[1],
                              .name = *o->as ? as.name : NULL,
                              .version = as.version,
                              .label = *o->label ? o->label : NULL,
                              .replace = o->replace,
                              .parallel = (unsigned)o->transfers,
                              .stop = stop};
    code = push_run(&push, &pushed, &error) == PEN_OK ? pushed_show(common, o, &pushed) : failed(common, &error);
    place_close(place);
    return code;
}

/* ---- pull ---------------------------------------------------------------------------------------------------------------------------- */

static void pulled_text(const struct pulled *pulled)
{
    const struct pull_counts *counts = &pulled->counts;
    const struct {
        const char *from;
        uint64_t bytes;
    } sources[] = {{"the registry", counts->registry},
                   {"other workers", counts->workers},
                   {"other stores of this host", counts->host},
                   {"this store", counts->store}};
    char amount[AMOUNT_BYTES];
    const char *comma = ": ";
    printf("%s@%" PRIu64 "  sha256:%s\n%s", pulled->manifest.model, pulled->manifest.version, pulled->digest.hex,
           amount_bytes(pulled->manifest.bytes, amount));
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (sources[i].bytes == 0)
            continue;
        printf("%s%s from %s", comma, amount_bytes(sources[i].bytes, amount), sources[i].from);
        comma = ", ";
    }
    puts(pulled->known ? "\nthe registry cannot be reached: this is what it said last" : "");
}

static void pulled_json(cJSON *list, const struct pulled *pulled)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "model", pulled->manifest.model);
    cJSON_AddNumberToObject(item, "version", (double)pulled->manifest.version);
    cJSON_AddStringToObject(item, "digest", pulled->digest.hex);
    cJSON_AddNumberToObject(item, "bytes", (double)pulled->manifest.bytes);
    cJSON_AddNumberToObject(item, "registry_bytes", (double)pulled->counts.registry);
    cJSON_AddNumberToObject(item, "workers_bytes", (double)pulled->counts.workers);
    cJSON_AddNumberToObject(item, "host_bytes", (double)pulled->counts.host);
    cJSON_AddNumberToObject(item, "store_bytes", (double)pulled->counts.store);
    cJSON_AddBoolToObject(item, "registry_reached", !pulled->known);
    cJSON_AddItemToArray(list, item);
}

static int pull_one(const struct common *common, const struct remote_options *o, const struct pull *pull,
                    const char *reference, cJSON *list)
{
    struct pulled pulled;
    struct pen_error error = {.status = PEN_OK};
    if (pull_model(pull, reference, &pulled, &error) != PEN_OK)
        return failed(common, &error);
    enum pen_status status = *o->to ? pull_unpack(pull, &pulled, o->to, &error) : PEN_OK;
    if (status == PEN_OK && list)
        pulled_json(list, &pulled);
    else if (status == PEN_OK)
        pulled_text(&pulled);
    manifest_fini(&pulled.manifest);
    return status == PEN_OK ? EXIT_OK : failed(common, &error);
}

static int pull_all(const struct common *common, const struct remote_options *o, const struct pull *pull,
                    const char *const *words, size_t count)
{
    cJSON *json = common->json ? cJSON_CreateObject() : NULL;
    cJSON *list = json ? cJSON_AddArrayToObject(json, "models") : NULL;
    int code = EXIT_OK;
    for (size_t i = 1; i < count && code == EXIT_OK; i++)
        code = pull_one(common, o, pull, words[i], list);
    if (json && code == EXIT_OK)
        return command_print(json);
    cJSON_Delete(json);
    return code;
}

int remote_pull(const struct common *common, const struct remote_options *o, const char *const *words, size_t count)
{
    struct pull pull = {.parallel = (unsigned)o->transfers, .stop = stop};
    struct pen_error error = {.status = PEN_OK};
    const char *why = "";
    int code = EXIT_USAGE;
    if (count < 2)
        return usage("name the models: penstock model pull NAME[@VERSION|:LABEL]... --registry REGISTRY");
    pull.place = registry_open(common, o->registry, &code);
    pull.store = pull.place ? store_here(common, o, &code) : NULL;
    bool good = pull.store != NULL;
    if (good && *o->peers && peers_new(o->peers, "", stop, &pull.peers, &error) != PEN_OK) {
        code = failed(common, &error);
        good = false;
    }
    if (good) {
        signals_watch();
        pull.exchange = exchange_open(o->exchange, &why);
        if (*why)
            fprintf(stderr, "penstock model: --exchange is not used: %s\n", why);
        code = pull_all(common, o, &pull, words, count);
    }
    exchange_close(pull.exchange);
    peers_free(pull.peers);
    store_close(pull.store);
    place_close(pull.place);
    return code;
}

/* ---- list and label ------------------------------------------------------------------------------------------------------------------ */

static cJSON *model_json(cJSON *models, const char *name)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "name", name);
    cJSON_AddArrayToObject(item, "versions");
    cJSON_AddArrayToObject(item, "labels");
    cJSON_AddItemToArray(models, item);
    return item;
}

static int names_json(const char *registry, const struct remote_names *names)
{
    cJSON *json = cJSON_CreateObject(), *model = NULL;
    cJSON_AddStringToObject(json, "registry", registry);
    cJSON *models = cJSON_AddArrayToObject(json, "models");
    for (size_t i = 0; i < names->count; i++) {
        const struct remote_name *name = &names->names[i];
        if (i == 0 || strcmp(name->model, names->names[i - 1].model) != 0)
            model = model_json(models, name->model);
        cJSON *item = cJSON_CreateObject();
        if (name->label[0])
            cJSON_AddStringToObject(item, "label", name->label);
        cJSON_AddNumberToObject(item, "version", (double)name->version);
        cJSON_AddStringToObject(item, "digest", name->digest.hex);
        cJSON_AddItemToArray(cJSON_GetObjectItem(model, name->label[0] ? "labels" : "versions"), item);
    }
    return command_print(json);
}

static void names_text(const struct remote_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct remote_name *name = &names->names[i];
        if (name->label[0])
            printf("%s:%s  version %" PRIu64 "  sha256:%s\n", name->model, name->label, name->version,
                   name->digest.hex);
        else
            printf("%s@%" PRIu64 "  sha256:%s\n", name->model, name->version, name->digest.hex);
    }
    if (names->count == 0)
        puts("it has no models yet: penstock model push DIR --to REGISTRY");
}

static int list_remote(const struct common *common, const struct remote_options *o)
{
    struct remote_names names;
    struct pen_error error = {.status = PEN_OK};
    int code = EXIT_USAGE;
    struct place *place = registry_open(common, o->registry, &code);
    if (!place)
        return code;
    signals_watch();
    if (remote_names_read(place, &names, &error) != PEN_OK) {
        code = failed(common, &error);
    } else {
        code = EXIT_OK;
        if (common->json)
            code = names_json(place_text(place), &names);
        else
            names_text(&names);
        free(names.names);
    }
    place_close(place);
    return code;
}

struct store_list {
    const struct store *store;
    cJSON *models; /* NULL: text */
};

static void stored_tell(void *context, const struct content_digest *digest)
{
    const struct store_list *list = context;
    struct manifest manifest;
    char amount[AMOUNT_BYTES];
    if (store_manifest(list->store, digest, &manifest, NULL) != PEN_OK)
        return;
    if (list->models) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", manifest.model);
        cJSON_AddNumberToObject(item, "version", (double)manifest.version);
        cJSON_AddStringToObject(item, "digest", digest->hex);
        cJSON_AddNumberToObject(item, "bytes", (double)manifest.bytes);
        cJSON_AddItemToArray(list->models, item);
    } else {
        printf("%s@%" PRIu64 "  sha256:%s  %s\n", manifest.model, manifest.version, digest->hex,
               amount_bytes(manifest.bytes, amount));
    }
    manifest_fini(&manifest);
}

static int list_store(const struct common *common, const struct remote_options *o)
{
    int code = EXIT_OK;
    struct store *store = store_here(common, o, &code);
    if (!store)
        return code;
    cJSON *json = common->json ? cJSON_CreateObject() : NULL;
    struct store_list list = {store, json ? cJSON_AddArrayToObject(json, "models") : NULL};
    if (json)
        cJSON_AddStringToObject(json, "store", store_folder(store));
    store_models(store, stored_tell, &list);
    code = json ? command_print(json) : EXIT_OK;
    store_close(store);
    return code;
}

int remote_list(const struct common *common, const struct remote_options *o, const char *const *words, size_t count)
{
    (void)words;
    if (count != 1)
        return usage("list takes no names: penstock model list [--remote --registry REGISTRY]");
    return o->remote ? list_remote(common, o) : list_store(common, o);
}

int remote_label(const struct common *common, const struct remote_options *o, const char *const *words, size_t count)
{
    struct pen_error error = {.status = PEN_OK};
    int code = EXIT_USAGE;
    uint64_t version = count == 4 ? reference_version(words[3]) : 0;
    if (version == 0)
        return usage("a label of a registry points to a version, a number from 1");
    struct place *place = registry_open(common, o->registry, &code);
    if (!place)
        return code;
    code = push_label(place, words[1], version, words[2], &error) == PEN_OK ? EXIT_OK : failed(common, &error);
    place_close(place);
    return code;
}
