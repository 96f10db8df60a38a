/* cmd_usage.c - `penstock usage`: what tenants have used of which models, from brokers or from their files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "usage/usage_files.h"
#include "words.h"

struct options {
    struct common common;
    int64_t since_us, until_us;
    const char *by, *dir;
};

#define OPTION(called, kind, member, standard, text)                                                                   \
    {                                                                                                                  \
        .name = called, .type = kind, .offset = offsetof(struct options, member), .def = standard, .help = text        \
    }

static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    OPTION("since", SETTING_DURATION, since_us, "24h", "how far back; 0 = all there is"),
    OPTION("until", SETTING_DURATION, until_us, "0", "leave out what is younger; 0 = up to now"),
    OPTION("by", SETTING_TEXT, by, "tenant,model", "what is told apart, of hour,tenant,model; the rest is added up"),
    OPTION("dir", SETTING_TEXT, dir, "", "read the files of the brokers' --usage-dir, and ask no broker"),
    {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock usage",
    .usage = "penstock usage [--since 24h] [--by hour,tenant,model] [--broker A,B | --dir DIR] [options]",
    .about = "Says what each tenant has used of each model: jobs, the time of devices, bytes, and what came from the "
             "cache.\nEach broker counts its own part: name them all, with commas. They know whole hours since their "
             "start; the files\n(--usage-dir of the broker, --dir here) know all hours.",
    .after = "JSON: {\"complete_since_unix_s\", \"rows\": [{hour_unix_s, tenant, model, version, jobs, ok, failed, "
             "cancelled, computed, cached,\ncoalesced, device_us, bytes_in, bytes_out}], \"total\": {...}, \"files\", "
             "\"broken_lines\"}; files and broken_lines with --dir\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

/* What was asked, and what has come so far. */
struct inquiry {
    const struct options *o;
    uint64_t since_unix_s, until_unix_s;
    uint64_t complete_unix_s; /* the hours from here on are all in the table */
    struct usage_table table;
    struct usage_files files;
};

/* ---- asking ---- */

static enum pen_status take(struct inquiry *q, const struct pen_usage *usage, struct pen_error *reterr)
{
    for (size_t i = 0; i < usage->count; i++) {
        if (!usage_table_add(&q->table, &usage->rows[i])) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for so many rows; ask for less time");
        }
    }
    if (usage->since_unix_s > q->complete_unix_s) {
        q->complete_unix_s = usage->since_unix_s;
    }
    return PEN_OK;
}

static int ask_one(struct inquiry *q, const char *broker)
{
    struct common common = q->o->common;
    struct pen_usage *usage = NULL;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    common.broker = broker;
    pen_client *client = command_connect(&common, program.name, &code);
    if (!client) {
        return code;
    }
    if (pen_client_usage(client, q->since_unix_s, q->until_unix_s, common.timeout_us, &usage, &error) != PEN_OK ||
        take(q, usage, &error) != PEN_OK) {
        code = command_exit_of(error.status);
        command_fail(&common, &error);
    }
    pen_client_usage_free(usage);
    pen_client_free(client);
    return code;
}

static int ask_brokers(struct inquiry *q)
{
    char *list = strdup(q->o->common.broker), *rest = NULL;
    int code = list ? EXIT_OK : EXIT_JOB_FAILED;
    for (char *one = list ? strtok_r(list, ",", &rest) : NULL; one && code == EXIT_OK;
         one = strtok_r(NULL, ",", &rest)) {
        code = ask_one(q, one);
    }
    free(list);
    return code;
}

static int read_files(struct inquiry *q)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    if (usage_files_read(q->o->dir, q->since_unix_s, q->until_unix_s, &q->table, &q->files, &error) == PEN_OK) {
        return EXIT_OK;
    }
    command_fail(&q->o->common, &error);
    return EXIT_JOB_FAILED;
}

/* ---- telling ---- */

static cJSON *row_json(const struct pen_usage_row *row, unsigned by)
{
    cJSON *json = cJSON_CreateObject();
    if (by & USAGE_BY_HOUR) {
        cJSON_AddNumberToObject(json, "hour_unix_s", (double)row->hour_unix_s);
    }
    if (by & USAGE_BY_TENANT) {
        cJSON_AddStringToObject(json, "tenant", row->tenant);
    }
    if (by & USAGE_BY_MODEL) {
        cJSON_AddStringToObject(json, "model", row->model);
        cJSON_AddNumberToObject(json, "version", (double)row->version);
    }
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {{"jobs", row->jobs},           {"ok", row->ok},
                  {"failed", row->failed},       {"cancelled", row->cancelled},
                  {"computed", row->computed},   {"cached", row->cached},
                  {"coalesced", row->coalesced}, {"device_us", row->device_us},
                  {"bytes_in", row->bytes_in},   {"bytes_out", row->bytes_out}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        cJSON_AddNumberToObject(json, counts[i].name, (double)counts[i].count);
    }
    return json;
}

static int print_json(const struct inquiry *q)
{
    struct pen_usage_row total = usage_table_total(&q->table);
    cJSON *json = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(json, "rows");
    cJSON_AddNumberToObject(json, "complete_since_unix_s", (double)q->complete_unix_s);
    for (size_t i = 0; i < q->table.count; i++) {
        cJSON_AddItemToArray(rows, row_json(&q->table.rows[i], q->table.by));
    }
    cJSON_AddItemToObject(json, "total", row_json(&total, 0));
    if (*q->o->dir) {
        cJSON_AddNumberToObject(json, "files", (double)q->files.files);
        cJSON_AddNumberToObject(json, "broken_lines", (double)q->files.broken);
    }
    return command_print(json);
}

static const char *hour_text(uint64_t unix_s, char text[24])
{
    time_t seconds = (time_t)unix_s;
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(text, 24, "%Y-%m-%d %H:00Z", &parts);
    return text;
}

static void print_row(const struct pen_usage_row *row, unsigned by, const char *instead)
{
    char hour[24], time[AMOUNT_BYTES], in[AMOUNT_BYTES], out[AMOUNT_BYTES], model[300] = "";
    if (by & USAGE_BY_MODEL && !instead) {
        snprintf(model, sizeof model, "%s:%" PRIu64, row->model, row->version);
    }
    if (by & USAGE_BY_HOUR) {
        printf("%-17s  ", instead ? instead : hour_text(row->hour_unix_s, hour));
    }
    if (by & USAGE_BY_TENANT) {
        printf("%-16s  ", instead ? (by & USAGE_BY_HOUR ? "" : instead) : row->tenant);
    }
    if (by & USAGE_BY_MODEL) {
        printf("%-24s  ", instead && !(by & (USAGE_BY_HOUR | USAGE_BY_TENANT)) ? instead : model);
    }
    double shared = row->ok ? 100.0 * (double)(row->cached + row->coalesced) / (double)row->ok : 0;
    printf("%10" PRIu64 "  %8" PRIu64 "  %9" PRIu64 "  %6.1f%%  %9s  %9s  %9s\n", row->jobs, row->failed,
           row->cancelled, shared, amount_us(row->device_us, time), amount_bytes(row->bytes_in, in),
           amount_bytes(row->bytes_out, out));
}

static void print_table(const struct inquiry *q)
{
    const struct usage_table *table = &q->table;
    struct pen_usage_row total = usage_table_total(table);
    char since[24];
    printf("%s%s%s%10s  %8s  %9s  %7s  %9s  %9s  %9s\n", table->by & USAGE_BY_HOUR ? "HOUR               " : "",
           table->by & USAGE_BY_TENANT ? "TENANT            " : "",
           table->by & USAGE_BY_MODEL ? "MODEL                     " : "", "JOBS", "FAILED", "CANCELLED", "SHARED",
           "DEVICE", "IN", "OUT");
    for (size_t i = 0; i < table->count; i++) {
        print_row(&table->rows[i], table->by, NULL);
    }
    if (table->count > 1 || !table->by) {
        print_row(&total, table->by, "total");
    }
    if (q->complete_unix_s > q->since_unix_s) {
        printf("the brokers know the hours since %s; earlier ones are in their files: penstock usage --dir DIR\n",
               hour_text(q->complete_unix_s, since));
    }
    if (q->files.broken > 0) {
        printf("%zu %s no usage and %s left out\n", q->files.broken,
               words_plural(q->files.broken, "line is", "lines are"), words_plural(q->files.broken, "was", "were"));
    }
}

static int run(const struct options *o)
{
    uint64_t now = (uint64_t)time(NULL), since = (uint64_t)o->since_us / 1000000,
             until = (uint64_t)o->until_us / 1000000;
    struct inquiry q = {.o = o, .since_unix_s = since && since < now ? now - since : 0, .until_unix_s = now - until};
    if (!usage_by(o->by, &q.table.by)) {
        fprintf(stderr, "%s: --by takes hour, tenant and model, with commas; not \"%s\"\n", program.name, o->by);
        return EXIT_USAGE;
    }
    int code = *o->dir ? read_files(&q) : ask_brokers(&q);
    usage_table_settle(&q.table);
    if (code == EXIT_OK && o->common.json) {
        code = print_json(&q);
    } else if (code == EXIT_OK) {
        print_table(&q);
    }
    usage_table_fini(&q.table);
    return code;
}

int command_usage(int argc, char **argv)
{
    struct options options;
    struct command_line line = {.argc = argc, .argv = argv};
    if (command_settings(&program, &line, &options)) {
        line.exit = run(&options);
        settings_free(line.store);
    }
    return line.exit;
}
