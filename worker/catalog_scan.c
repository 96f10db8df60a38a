/* catalog_scan.c - folders to entries: which models and versions there are, and which of them are chosen. */
#include "catalog_own.h"

#include "logline.h"
#include "model_file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER_BYTES 3072 /* leaves room for a version and a file */

static uint64_t text_hash(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* True when it was told before; notes it otherwise. */
static bool told(struct catalog_seen *seen, const char *name, uint64_t version, const char *text)
{
    uint64_t hash = text_hash(text_hash(0xcbf29ce484222325u ^ version, name), text);
    for (size_t i = 0; seen && i < seen->count && i < CATALOG_SEEN_MAX; i++)
        if (seen->failures[i] == hash)
            return true;
    if (seen)
        seen->failures[seen->count++ % CATALOG_SEEN_MAX] = hash;
    return false;
}

void catalog_failed(struct catalog *catalog, const char *name, uint64_t version, const struct pen_error *error)
{
    catalog->failed++;
    if (!told(catalog->seen, name, version, error->text))
        log_event(LOG_ERROR, "model_failed", "model=%s version=%" PRIu64 " status=%s error=%s", name, version,
                  pen_status_name(error->status), error->text);
}

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

/* All versions in the folder, highest first; at most CONFIG_VERSIONS_MAX * 8 are looked at. */
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

/* Of all that an entry is made from; never 0. */
static uint64_t entry_stamp(const char *folder, const char *name, uint64_t version)
{
    char path[CATALOG_PATH_BYTES];
    uint64_t hash = text_hash(0xcbf29ce484222325u ^ version, name);
    snprintf(path, sizeof path, "%.3072s/config.json", folder);
    hash = model_file_stat_mix(hash, path);
    snprintf(path, sizeof path, "%.3072s/%" PRIu64 "/config.json", folder, version);
    hash = model_file_stat_mix(hash, path);
    snprintf(path, sizeof path, "%.3072s/%" PRIu64, folder, version);
    return model_file_stamp(path, hash) | 1;
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
    *entry = (struct catalog_entry){.name = strdup(name),
                                    .path = strdup(path),
                                    .version = version,
                                    .stamp = entry_stamp(folder, name, version),
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
    enum pen_status status = config_load(own, &config, reterr);
    if (status == PEN_OK && !config.present)
        status = config_load(folder, &config, reterr);
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

static enum pen_status policy_missing(const struct config *config, const uint64_t *versions, size_t count,
                                      struct pen_error *reterr)
{
    for (size_t i = 0; config->policy == CONFIG_SPECIFIC && i < config->policy_count; i++) {
        bool found = false;
        for (size_t j = 0; j < count; j++)
            found |= versions[j] == config->policy_versions[i];
        if (!found)
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                                 "version_policy names version %" PRIu64 ", which is not there",
                                 config->policy_versions[i]);
    }
    return PEN_OK;
}

/* One model folder; version 0 = by its policy. */
static void folder_scan(struct catalog *catalog, const char *parent, const char *name, uint64_t wanted)
{
    char folder[FOLDER_BYTES];
    uint64_t versions[CONFIG_VERSIONS_MAX * 8];
    struct config config;
    struct pen_error error = {0};
    enum pen_status status = PEN_OK;
    snprintf(folder, sizeof folder, "%.2800s/%.255s", parent, name);
    size_t count = versions_list(folder, versions, sizeof versions / sizeof *versions), taken = 0;
    config_init(&config);
    if (strlen(name) > CONFIG_NAME_BYTES_MAX)
        status =
            pen_error_set(&error, PEN_ERR_INVALID, "the folder's name is longer than %u bytes", CONFIG_NAME_BYTES_MAX);
    if (status == PEN_OK)
        status = config_load(folder, &config, &error);
    if (status == PEN_OK && count == 0 && config.recipe)
        versions[count++] = 1; /* an ensemble has no file of its own, so it needs no folder for it */
    if (status == PEN_OK && count == 0)
        status = pen_error_set(&error, PEN_ERR_NOT_FOUND,
                               "%.512s has no version: put the model at %.64s/1/model.onnx, model.tflite or model.json",
                               folder, name);
    if (status == PEN_OK && wanted == 0)
        status = policy_missing(&config, versions, count, &error);
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        if (wanted != 0 ? versions[i] != wanted : !policy_takes(&config, versions[i], i))
            continue;
        taken++;
        status = version_add(catalog, folder, name, versions[i], &error);
    }
    if (status == PEN_OK && taken == 0)
        status = pen_error_set(&error, PEN_ERR_NOT_FOUND, "%.512s has no version %" PRIu64, folder, wanted);
    if (status != PEN_OK)
        catalog_failed(catalog, name, wanted, &error);
    config_fini(&config);
}

void catalog_choose(struct catalog *catalog, const char *folder, const char *choice)
{
    char name[CONFIG_NAME_BYTES_MAX + 1];
    struct pen_error error = {0};
    const char *colon = strrchr(choice, ':');
    size_t length = colon ? (size_t)(colon - choice) : strlen(choice);
    uint64_t version = colon ? version_parse(colon + 1) : 0;
    if (length == 0 || length > CONFIG_NAME_BYTES_MAX || choice[0] == '.' || memchr(choice, '/', length) ||
        (colon && version == 0)) {
        pen_error_set(&error, PEN_ERR_INVALID, "--model %.128s is not of the form NAME or NAME:VERSION", choice);
        catalog_failed(catalog, choice, 0, &error);
        return;
    }
    memcpy(name, choice, length);
    name[length] = '\0';
    if (!is_folder(folder, name)) {
        pen_error_set(&error, PEN_ERR_NOT_FOUND, "there is no folder %.512s/%.128s", folder, name);
        catalog_failed(catalog, name, version, &error);
        return;
    }
    folder_scan(catalog, folder, name, version);
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
    pthread_mutex_init(&catalog->lock, NULL);
    int count = scandir(folder, &items, visible, alphasort);
    if (count < 0)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "cannot read the folder of models '%.512s': %s", folder,
                             strerror(errno));
    for (int i = 0; i < count; i++) {
        if (choices_count == 0 && is_folder(folder, items[i]->d_name))
            folder_scan(catalog, folder, items[i]->d_name, 0);
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
