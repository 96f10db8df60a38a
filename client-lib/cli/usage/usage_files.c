#include "usage/usage_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#define LINE_BYTES 4096 /* a name of 255 bytes may be escaped, six bytes each */
#define HOUR_S     3600u

static bool count_of(const cJSON *json, const char *name, uint64_t *ret)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > 9007199254740992.0) {
        return false;
    }
    *ret = (uint64_t)item->valuedouble;
    return true;
}

static bool hour_of(const cJSON *json, uint64_t *ret_unix_s)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "hour"));
    struct tm parts = {.tm_sec = 0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%MZ", &parts) : NULL;
    time_t seconds = end && *end == '\0' ? timegm(&parts) : -1;
    *ret_unix_s = (uint64_t)seconds;
    return seconds >= 0;
}

/* The row's texts are the JSON's. */
static bool row_of(const cJSON *json, struct pen_usage_row *ret)
{
    *ret = (struct pen_usage_row){
        .tenant = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "tenant")),
        .model = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "model")),
    };
    const struct {
        const char *name;
        uint64_t *to;
    } counts[] = {{"version", &ret->version},   {"jobs", &ret->jobs},           {"ok", &ret->ok},
                  {"failed", &ret->failed},     {"cancelled", &ret->cancelled}, {"computed", &ret->computed},
                  {"cached", &ret->cached},     {"coalesced", &ret->coalesced}, {"device_us", &ret->device_us},
                  {"bytes_in", &ret->bytes_in}, {"bytes_out", &ret->bytes_out}};
    bool good = ret->tenant && ret->model && hour_of(json, &ret->hour_unix_s);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && good; i++) {
        good = count_of(json, counts[i].name, counts[i].to);
    }
    return good;
}

struct reading {
    uint64_t since_unix_s, until_unix_s;
    struct usage_table *table;
    struct usage_files *files;
};

/* False: the table has no room. */
static bool line_take(const struct reading *r, const char *line)
{
    struct pen_usage_row row;
    cJSON *json = cJSON_Parse(line);
    bool ours = json && row_of(json, &row), room = true;
    r->files->broken += !ours;
    if (ours && row.hour_unix_s + HOUR_S > r->since_unix_s && row.hour_unix_s <= r->until_unix_s) {
        room = usage_table_add(r->table, &row);
    }
    cJSON_Delete(json);
    return room;
}

static bool lines_take(const struct reading *r, FILE *file)
{
    char line[LINE_BYTES];
    bool room = true;
    while (room && fgets(line, sizeof line, file)) {
        size_t bytes = strlen(line);
        if (bytes + 1 == sizeof line && line[bytes - 1] != '\n') { /* longer than ours ever are: skipped whole */
            int byte;
            while ((byte = fgetc(file)) != EOF && byte != '\n') {
                continue;
            }
            line[0] = '?';
        }
        room = line_take(r, line);
    }
    return room;
}

static enum pen_status file_take(const struct reading *r, int folder, const char *name, struct pen_error *reterr)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return PEN_OK; /* the broker has removed it, as it is old */
    }
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file) {
        pen_error_set(reterr, PEN_ERR_IO, "cannot read %.255s: %s", name, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return PEN_ERR_IO;
    }
    r->files->files++;
    bool room = lines_take(r, file);
    bool read = ferror(file) == 0;
    fclose(file);
    if (!read) {
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read all of %.255s", name);
    }
    return room ? PEN_OK
                : pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                                "there is no memory for so many rows; ask for less time, or by fewer things (--by)");
}

static bool is_ours(const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(name, "usage-", 6) == 0 && bytes > 12 && strcmp(name + bytes - 6, ".jsonl") == 0;
}

enum pen_status usage_files_read(const char *folder, uint64_t since_unix_s, uint64_t until_unix_s,
                                 struct usage_table *table, struct usage_files *ret_files, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    const struct reading reading = {since_unix_s, until_unix_s, table, ret_files};
    *ret_files = (struct usage_files){0};
    DIR *list = opendir(folder);
    if (!list) {
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read the folder %.300s: %s", folder, strerror(errno));
    }
    for (const struct dirent *item; status == PEN_OK && (item = readdir(list)) != NULL;) {
        if (is_ours(item->d_name)) {
            status = file_take(&reading, dirfd(list), item->d_name, reterr);
        }
    }
    closedir(list);
    return status;
}
