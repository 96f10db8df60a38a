/* catalog_scan.c - makes entries from folders: finds the models and versions that exist, and chooses among them. */
#include "catalog_own.h"

#include "assertion.h"
#include "logline.h"
#include "model_file.h"
#include "words.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER_BYTES       3072                      /* leaves room for a version and a file */
#define VERSIONS_LOOKED_AT (CONFIG_VERSIONS_MAX * 8) /* of one model, in the order of its folder */

static uint64_t text_hash(uint64_t hash, const char *text)
{
    return config_text_hash(hash, text, strlen(text));
}

/* ---- complaints ---------------------------------------------------------------------------------------------------------------------- */

/* True when it was logged before; otherwise notes that it is logged now. */
static bool told(struct catalog_seen *seen, const char *name, uint64_t version, const char *text)
{
    uint64_t model = text_hash(CONFIG_HASH_BASIS, name), sentence = text_hash(model ^ version, text);
    for (size_t i = 0; seen && i < seen->count && i < CATALOG_SEEN_MAX; i++)
        if (seen->told[i].model == model && seen->told[i].sentence == sentence)
            return true;
    if (seen) {
        seen->told[seen->count % CATALOG_SEEN_MAX].model = model;
        seen->told[seen->count++ % CATALOG_SEEN_MAX].sentence = sentence;
    }
    return false;
}

void catalog_seen_forget(struct catalog_seen *seen, const char *name)
{
    uint64_t model = text_hash(CONFIG_HASH_BASIS, name);
    for (size_t i = 0; i < seen->count && i < CATALOG_SEEN_MAX; i++)
        if (seen->told[i].model == model)
            seen->told[i].model = 0;
}

static struct failures *failures_of(const struct catalog *catalog)
{
    return catalog->seen ? catalog->seen->failures : catalog->failures;
}

void catalog_failed(struct catalog *catalog, const char *name, uint64_t version, uint64_t stamp,
                    const struct pen_error *error)
{
    catalog->failed++;
    failures_add(failures_of(catalog), name, version, stamp, error);
    if (!told(catalog->seen, name, version, error->text))
        log_event(LOG_ERROR, "model_failed", "model=%s version=%" PRIu64 " status=%s error=%s", name, version,
                  pen_status_name(error->status), error->text);
}

bool catalog_waits(struct catalog_seen *seen, const char *name, uint64_t version, const struct pen_error *error)
{
    if (told(seen, name, version, error->text))
        return true;
    log_event(LOG_INFO, "model_waits", "model=%s version=%" PRIu64 " reason=%s", name, version, error->text);
    return false;
}

/* A missing model is an error at the start. While the worker serves it may be on its way, so brokers are told only
   when a second look misses it, too. */
static void missing(struct catalog *catalog, const char *name, uint64_t version, const struct pen_error *error)
{
    if (!catalog->seen || error->status != PEN_ERR_NOT_FOUND) {
        catalog_failed(catalog, name, version, 0, error);
        return;
    }
    if (catalog_waits(catalog->seen, name, version, error))
        failures_add(failures_of(catalog), name, version, 0, error);
}

uint64_t catalog_entry_key(const struct catalog_entry *entry)
{
    return text_hash(CONFIG_HASH_BASIS ^ entry->version, entry->name);
}

/* ---- versions ------------------------------------------------------------------------------------------------------------------------ */

/* "12" -> 12; 0 for anything else (versions start at 1, "007" and "1x" are no versions). */
static uint64_t version_parse(const char *text)
{
    char *end = NULL;
    if (text[0] < '1' || text[0] > '9' || strlen(text) > 18)
        return 0;
    uint64_t version = strtoull(text, &end, 10);
    return *end == '\0' ? version : 0;
}

static int by_version_down(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static bool is_folder(const char *parent, const char *name)
{
    char path[CATALOG_PATH_BYTES];
    struct stat info;
    snprintf(path, sizeof path, "%.2800s/%.255s", parent, name);
    return name[0] != '.' && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* All versions in the folder, highest first. */
static size_t versions_list(const char *folder, uint64_t *versions, size_t room)
{
    struct dirent *item;
    size_t count = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    while ((item = readdir(dir)) && count < room) {
        uint64_t version = version_parse(item->d_name);
        if (version != 0 && is_folder(folder, item->d_name))
            versions[count++] = version;
    }
    closedir(dir);
    qsort(versions, count, sizeof *versions, by_version_down);
    return count;
}

static enum pen_status entry_add(struct catalog *catalog, const char *folder, const char *name, uint64_t version,
                                 struct config *config, struct pen_error *reterr)
{
    if (catalog->entries_count == CATALOG_MODELS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a worker serves at most %u models", CATALOG_MODELS_MAX);
    if (catalog->entries_count == catalog->entries_room) {
        size_t room = catalog->entries_room ? 2 * catalog->entries_room : 8;
        struct catalog_entry *entries = realloc(catalog->entries, room * sizeof *entries);
        if (!entries)
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the list of models");
        catalog->entries = entries;
        catalog->entries_room = room;
    }
    char path[CATALOG_PATH_BYTES];
    snprintf(path, sizeof path, "%.3072s/%" PRIu64, folder, version);
    struct catalog_entry *entry = &catalog->entries[catalog->entries_count];
    uint64_t files = model_file_stamp(path);
    *entry = (struct catalog_entry){.name = strdup(name),
                                    .path = strdup(path),
                                    .version = version,
                                    .files = files,
                                    .stamp = (text_hash(config->stamp ^ version, name) ^ files) | 1,
                                    .config = *config};
    if (!entry->name || !entry->path) {
        free(entry->name);
        free(entry->path);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the list of models");
    }
    config_init(config);
    catalog->entries_count++;
    return PEN_OK;
}

/* The version's own config.json wins over the model's. */
static enum pen_status version_add(struct catalog *catalog, const char *folder, const char *name, uint64_t version,
                                   struct pen_error *reterr)
{
    char own[CATALOG_PATH_BYTES];
    struct config config;
    config_init(&config);
    snprintf(own, sizeof own, "%.3072s/%" PRIu64, folder, version);
    enum pen_status status = config_load(&(struct config_place){own, folder}, &config, reterr);
    if (status == PEN_OK && !config.present)
        status = config_load(&(struct config_place){folder, NULL}, &config, reterr);
    if (status == PEN_OK)
        status = entry_add(catalog, folder, name, version, &config, reterr);
    config_fini(&config);
    return status;
}

static bool policy_takes(const struct config *config, uint64_t version, size_t place)
{
    if (config->policy == CONFIG_ALL)
        return true;
    if (config->policy == CONFIG_LATEST)
        return place < config->policy_latest;
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policy_versions[i] == version)
            return true;
    return false;
}

static void policy_missing(struct catalog *catalog, const char *name, const struct config *config,
                           const uint64_t *versions, size_t count)
{
    struct pen_error error = {0};
    for (size_t i = 0; config->policy == CONFIG_SPECIFIC && i < config->policy_count; i++) {
        uint64_t wanted = config->policy_versions[i];
        bool found = false;
        for (size_t j = 0; j < count; j++)
            found |= versions[j] == wanted;
        if (found)
            continue;
        pen_error_set(&error, PEN_ERR_NOT_FOUND, "version_policy names version %" PRIu64 ", which is not there",
                      wanted);
        missing(catalog, name, wanted, &error);
    }
}

/* A folder without a model is no version yet, so the former latest version still counts. An ensemble needs only its
   config.json. */
static bool version_holds(const char *folder, uint64_t version, struct pen_error *reterr)
{
    char own[CATALOG_PATH_BYTES], file[MODEL_FILE_PATH_BYTES];
    struct config config;
    snprintf(own, sizeof own, "%.3072s/%" PRIu64, folder, version);
    if (model_file_find(own, file, reterr) != PEN_ERR_NOT_FOUND)
        return true;
    config_init(&config);
    bool holds = config_load(&(struct config_place){own, folder}, &config, NULL) == PEN_OK && config.plan;
    config_fini(&config);
    return holds;
}

/* Keeps those that hold a model. */
static enum pen_status versions_sift(struct catalog *catalog, const char *folder, const char *name, uint64_t *versions,
                                     size_t *count, struct pen_error *reterr)
{
    size_t kept = 0;
    struct pen_error error = {0}, first = {0};
    for (size_t i = 0; i < *count; i++) {
        if (version_holds(folder, versions[i], &error)) {
            versions[kept++] = versions[i];
            continue;
        }
        first = first.status == PEN_OK ? error : first;
        if (catalog->seen || kept > 0 || i + 1 < *count)
            catalog_waits(catalog->seen, name, versions[i], &error);
    }
    *count = kept;
    return kept > 0 ? PEN_OK : pen_error_set(reterr, PEN_ERR_NOT_FOUND, "%.900s", first.text);
}

/* The versions to choose from, highest first. */
static enum pen_status versions_find(struct catalog *catalog, const char *folder, const char *name,
                                     const struct config *config, uint64_t *versions, size_t *count,
                                     struct pen_error *reterr)
{
    *count = versions_list(folder, versions, VERSIONS_LOOKED_AT);
    if (config->plan) {
        if (*count == 0)
            versions[(*count)++] = 1; /* an ensemble has no file of its own, so it needs no folder for it */
        return PEN_OK;
    }
    if (*count == 0)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "%.512s has no version: put the model at %.64s/1/model.onnx, model.tflite or model.json",
                             folder, name);
    return versions_sift(catalog, folder, name, versions, count, reterr);
}

/* Adds the versions that the policy takes. */
static enum pen_status versions_choose(struct catalog *catalog, const char *folder, const char *name,
                                       const struct config *config, struct pen_error *reterr)
{
    uint64_t versions[VERSIONS_LOOKED_AT];
    size_t count = 0;
    enum pen_status status = versions_find(catalog, folder, name, config, versions, &count, reterr);
    if (status == PEN_OK)
        policy_missing(catalog, name, config, versions, count);
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        if (!policy_takes(config, versions[i], i))
            continue;
        status = version_add(catalog, folder, name, versions[i], reterr);
        if (status == PEN_OK)
            catalog->entries[catalog->entries_count - 1].latest = config->policy == CONFIG_LATEST;
    }
    return status;
}

/* Adds the version that was asked for. */
static enum pen_status version_choose(struct catalog *catalog, const char *folder, const char *name, uint64_t wanted,
                                      const struct config *config, struct pen_error *reterr)
{
    uint64_t versions[VERSIONS_LOOKED_AT];
    size_t count = versions_list(folder, versions, VERSIONS_LOOKED_AT);
    bool found = count == 0 && config->plan && wanted == 1;
    for (size_t i = 0; i < count; i++)
        found |= versions[i] == wanted;
    if (!found)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "%.512s has no version %" PRIu64, folder, wanted);
    return version_add(catalog, folder, name, wanted, reterr);
}

/* One model folder; version 0 = by its policy. */
static void folder_scan(struct catalog *catalog, const char *parent, const char *name, uint64_t wanted)
{
    char folder[FOLDER_BYTES];
    struct config config;
    struct pen_error error = {0};
    PEN_ASSERT(strlen(name) <= CONFIG_NAME_BYTES_MAX, "no folder has a longer name, and no choice either");
    snprintf(folder, sizeof folder, "%.2800s/%.255s", parent, name);
    config_init(&config);
    enum pen_status status = config_load(&(struct config_place){folder, NULL}, &config, &error);
    if (status == PEN_OK)
        status = wanted != 0 ? version_choose(catalog, folder, name, wanted, &config, &error)
                             : versions_choose(catalog, folder, name, &config, &error);
    if (status != PEN_OK && wanted != 0)
        catalog_failed(catalog, name, wanted, 0, &error);
    else if (status != PEN_OK)
        missing(catalog, name, 0, &error);
    config_fini(&config);
}

static bool is_entry(const struct catalog *catalog, const char *name, uint64_t version)
{
    for (size_t i = 0; i < catalog->entries_count; i++)
        if (catalog->entries[i].version == version && strcmp(catalog->entries[i].name, name) == 0)
            return true;
    return false;
}

bool catalog_stand_in(struct catalog *catalog, size_t index)
{
    const struct catalog_entry *entry = &catalog->entries[index];
    char folder[FOLDER_BYTES], name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t versions[VERSIONS_LOOKED_AT], above = entry->version;
    struct pen_error error = {0};
    const char *slash = strrchr(entry->path, '/');
    if (!entry->latest || !slash || (size_t)(slash - entry->path) >= sizeof folder)
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - entry->path), entry->path);
    snprintf(name, sizeof name, "%s", entry->name); /* the list of entries may move */
    size_t count = versions_list(folder, versions, VERSIONS_LOOKED_AT);
    for (size_t i = 0; i < count; i++) {
        if (versions[i] >= above || is_entry(catalog, name, versions[i]) || !version_holds(folder, versions[i], &error))
            continue;
        if (version_add(catalog, folder, name, versions[i], &error) != PEN_OK)
            return false;
        catalog->entries[catalog->entries_count - 1].latest = true;
        return true;
    }
    return false;
}

const char *catalog_nearest(const char *folder, const char *name, char near[CATALOG_NEAREST_BYTES])
{
    struct nearest nearest;
    DIR *dir = opendir(folder);
    near[0] = '\0';
    nearest_begin(&nearest, name, strlen(name));
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        unsigned limit = nearest.limit;
        if (item->d_name[0] != '.' && is_folder(folder, item->d_name))
            nearest_offer(&nearest, item->d_name);
        if (nearest.limit < limit) /* the entry is gone with the next one */
            snprintf(near, CATALOG_NEAREST_BYTES, "; did you mean %.*s?", (int)NEAREST_BYTES_MAX, item->d_name);
    }
    if (dir)
        closedir(dir);
    if (nearest.limit == 0) /* it is there */
        near[0] = '\0';
    return near;
}

void catalog_choose(struct catalog *catalog, const char *folder, const char *choice)
{
    char name[CONFIG_NAME_BYTES_MAX + 1], near[CATALOG_NEAREST_BYTES];
    struct pen_error error = {0};
    const char *colon = strrchr(choice, ':');
    size_t length = colon ? (size_t)(colon - choice) : strlen(choice);
    uint64_t version = colon ? version_parse(colon + 1) : 0;
    if (length == 0 || length > CONFIG_NAME_BYTES_MAX || choice[0] == '.' || memchr(choice, '/', length) ||
        (colon && version == 0)) {
        pen_error_set(&error, PEN_ERR_INVALID, "--model %.128s is not of the form NAME or NAME:VERSION", choice);
        catalog_failed(catalog, choice, 0, 0, &error);
        return;
    }
    memcpy(name, choice, length);
    name[length] = '\0';
    if (!is_folder(folder, name)) {
        pen_error_set(&error, PEN_ERR_NOT_FOUND, "there is no folder %.512s/%.128s%s", folder, name,
                      catalog_nearest(folder, name, near));
        catalog_failed(catalog, name, version, 0, &error);
        return;
    }
    folder_scan(catalog, folder, name, version);
}

/* ---- a model that has no folder ------------------------------------------------------------------------------------------------------ */

/* DIR/loose.onnx is what people try first: it is not served, and the log says where to put it. */
static void loose_note(struct catalog *catalog, const char *folder, const char *file)
{
    char path[CATALOG_PATH_BYTES];
    struct pen_error error = {0};
    const char *dot = strrchr(file, '.');
    snprintf(path, sizeof path, "%.2800s/%.255s", folder, file);
    if (!dot || dot == file || is_folder(folder, file) || !model_file_alone(path))
        return;
    pen_error_set(&error, PEN_ERR_INVALID,
                  "%.512s/%.255s lies beside the model folders and is not served: a model is a folder NAME/VERSION/. "
                  "`penstock import %.512s/%.255s %.*s --models %.512s` makes one",
                  folder, file, folder, file, (int)(dot - file), file, folder);
    if (!told(catalog->seen, file, 0, error.text))
        log_event(LOG_WARN, "model_loose", "file=%s error=%s", file, error.text);
}

static int visible(const struct dirent *item)
{
    return item->d_name[0] != '.';
}

enum pen_status catalog_scan(const char *folder, const char *const *choices, size_t choices_count,
                             struct catalog *catalog, struct pen_error *reterr)
{
    return catalog_rescan(folder, choices, choices_count, NULL, catalog, reterr);
}

enum pen_status catalog_rescan(const char *folder, const char *const *choices, size_t choices_count,
                               struct catalog_seen *seen, struct catalog *catalog, struct pen_error *reterr)
{
    struct dirent **items = NULL;
    memset(catalog, 0, sizeof *catalog);
    catalog->seen = seen;
    if (!seen)
        catalog->failures = failures_new();
    pthread_mutex_init(&catalog->lock, NULL);
    int count = scandir(folder, &items, visible, alphasort);
    if (count < 0)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "cannot read the folder of models '%.512s': %s", folder,
                             strerror(errno));
    for (int i = 0; i < count; i++) {
        if (choices_count == 0 && is_folder(folder, items[i]->d_name))
            folder_scan(catalog, folder, items[i]->d_name, 0);
        loose_note(catalog, folder, items[i]->d_name);
        free(items[i]);
    }
    free(items);
    for (size_t i = 0; i < choices_count; i++)
        catalog_choose(catalog, folder, choices[i]);
    return PEN_OK;
}

void catalog_entry_drop(struct catalog *catalog, size_t index)
{
    struct catalog_entry *entry = &catalog->entries[index];
    PEN_ASSERT(index < catalog->entries_count, "an entry that goes is in the catalog");
    config_fini(&entry->config);
    free(entry->name);
    free(entry->path);
    catalog->entries_count--;
    for (size_t i = index; i < catalog->entries_count; i++)
        catalog->entries[i] = catalog->entries[i + 1];
}

uint32_t catalog_instances(const struct catalog *catalog)
{
    uint32_t most = 1;
    for (size_t i = 0; i < catalog->entries_count; i++)
        if (catalog->entries[i].config.instance_count > most)
            most = catalog->entries[i].config.instance_count;
    return most;
}
