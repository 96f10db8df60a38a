/* curve_file.c - curves as JSON: {"penstock_curves": 1, model, version, batched, curves: [...]}. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"

#define FORMAT         1.0
#define FILE_BYTES_MAX (16u << 20)

/* ---- writing ---- */

static double rounded(double us)
{
    return round(us * 10.0) / 10.0;
}

static void spread_add(cJSON *json, const char *key, const struct spread *spread)
{
    cJSON *object = cJSON_AddObjectToObject(json, key);
    cJSON_AddNumberToObject(object, "count", spread->count);
    cJSON *points = cJSON_AddArrayToObject(object, "us");
    for (unsigned i = 0; i < SPREAD_POINTS; i++) {
        cJSON_AddItemToArray(points, cJSON_CreateNumber(rounded(spread->us[i])));
    }
}

static cJSON *curve_json(const struct curve *curve)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "backend", curve->backend);
    cJSON_AddNumberToObject(json, "slots", curve->slots);
    cJSON_AddNumberToObject(json, "threads", curve->threads);
    cJSON_AddNumberToObject(json, "workers", curve->workers);
    cJSON_AddBoolToObject(json, "own", curve->own);
    cJSON_AddNumberToObject(json, "gap_us", rounded(curve->gap_us));
    cJSON_AddNumberToObject(json, "jobs_per_s", rounded(curve->jobs_per_s));
    cJSON_AddBoolToObject(json, "noisy", curve_is_noisy(curve)); /* for readers: it is computed again */
    spread_add(json, "way_alone", &curve->way_alone);
    spread_add(json, "way_all", &curve->way_all);
    cJSON *sizes = cJSON_AddArrayToObject(json, "sizes");
    for (size_t i = 0; i < curve->sizes_count; i++) {
        cJSON *size = cJSON_CreateObject();
        cJSON_AddNumberToObject(size, "rows", curve->sizes[i].rows);
        spread_add(size, "alone", &curve->sizes[i].alone);
        spread_add(size, "all", &curve->sizes[i].all);
        cJSON_AddItemToArray(sizes, size);
    }
    return json;
}

cJSON *curves_json(const struct curves *curves)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "penstock_curves", FORMAT);
    cJSON_AddStringToObject(json, "model", curves->model);
    cJSON_AddNumberToObject(json, "version", (double)curves->version);
    cJSON_AddBoolToObject(json, "batched", curves->batched);
    cJSON *list = cJSON_AddArrayToObject(json, "curves");
    for (size_t i = 0; i < curves->count; i++) {
        cJSON_AddItemToArray(list, curve_json(&curves->curves[i]));
    }
    return json;
}

enum pen_status curves_save(const struct curves *curves, const char *file, struct pen_error *reterr)
{
    cJSON *json = curves_json(curves);
    char *text = json ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    if (!text) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the curves.");
    }
    FILE *out = fopen(file, "w");
    bool good = out && fprintf(out, "%s\n", text) > 0;
    good = out && fclose(out) == 0 && good;
    cJSON_free(text);
    return good ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "%s: cannot write the curves: %s.", file, strerror(errno));
}

/* ---- reading ---- */

/* What is wrong is noted once; everything that is read after it is 0. */
struct reading {
    const char *file;
    char wrong[160];
};

static void wrong(struct reading *reading, const char *what)
{
    if (!*reading->wrong) {
        snprintf(reading->wrong, sizeof reading->wrong, "%s", what);
    }
}

static double number_take(struct reading *reading, const cJSON *json, const char *key, double least, double most)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most)) {
        char what[120];
        snprintf(what, sizeof what, "\"%s\" must be a number of %g to %g", key, least, most);
        wrong(reading, what);
        return least;
    }
    return item->valuedouble;
}

static void spread_take(struct reading *reading, const cJSON *json, const char *key, struct spread *ret_spread)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(json, key), *item;
    const cJSON *points = cJSON_GetObjectItemCaseSensitive(object, "us");
    size_t i = 0;
    double last = 0.0;
    ret_spread->count = (uint32_t)number_take(reading, object, "count", 0.0, 1e9);
    cJSON_ArrayForEach(item, points)
    {
        if (i == SPREAD_POINTS || !cJSON_IsNumber(item) || !(item->valuedouble >= last && item->valuedouble < 1e12)) {
            i = 0;
            break;
        }
        last = ret_spread->us[i++] = item->valuedouble;
    }
    if (i != SPREAD_POINTS) {
        wrong(reading, "\"us\" must be 41 times that do not fall");
    }
    spread_settle(ret_spread);
}

static void sizes_take(struct reading *reading, const cJSON *json, struct curve *curve)
{
    const cJSON *item;
    double last = 0.0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "sizes"))
    {
        if (curve->sizes_count == CURVE_SIZES_MAX) {
            wrong(reading, "a curve has at most 12 \"sizes\"");
            return;
        }
        struct curve_size *size = &curve->sizes[curve->sizes_count++];
        double rows = number_take(reading, item, "rows", last + 1.0, CURVE_BATCH_MAX);
        last = rows;
        size->rows = (uint32_t)rows;
        spread_take(reading, item, "alone", &size->alone);
        spread_take(reading, item, "all", &size->all);
    }
    if (curve->sizes_count == 0 || curve->sizes[0].rows != 1) {
        wrong(reading, "\"sizes\" must begin with 1 row");
    }
}

static void curve_take(struct reading *reading, const cJSON *json, struct curve *curve)
{
    const char *backend = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "backend"));
    snprintf(curve->backend, sizeof curve->backend, "%s", backend ? backend : "");
    curve->slots = (uint32_t)number_take(reading, json, "slots", 1.0, CURVE_SLOTS_MAX);
    curve->threads = (uint32_t)number_take(reading, json, "threads", 1.0, 4096.0);
    curve->workers = (uint32_t)number_take(reading, json, "workers", 1.0, CURVE_WORKERS_MAX);
    curve->own = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "own"));
    curve->gap_us = number_take(reading, json, "gap_us", 0.0, 1e9);
    curve->jobs_per_s = number_take(reading, json, "jobs_per_s", 0.0, 1e9);
    spread_take(reading, json, "way_alone", &curve->way_alone);
    spread_take(reading, json, "way_all", &curve->way_all);
    sizes_take(reading, json, curve);
}

static void curves_take(struct reading *reading, const cJSON *json, struct curves *curves)
{
    const cJSON *item;
    const char *model = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "model"));
    number_take(reading, json, "penstock_curves", FORMAT, FORMAT);
    curves->version = (uint64_t)number_take(reading, json, "version", 0.0, 9e15);
    curves->batched = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "batched"));
    if (!model || !*model || strlen(model) >= sizeof curves->model) {
        wrong(reading, "\"model\" must be a name");
        return;
    }
    snprintf(curves->model, sizeof curves->model, "%s", model);
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "curves"))
    {
        if (curves->count == CURVES_MAX) {
            wrong(reading, "there are more than 16 \"curves\"");
            return;
        }
        curve_take(reading, item, &curves->curves[curves->count++]);
    }
    if (curves->count == 0) {
        wrong(reading, "there are no \"curves\"");
    }
}

static char *text_take(const char *file, struct pen_error *reterr)
{
    FILE *in = fopen(file, "r");
    if (!in) {
        pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "%s: cannot read it: %s.", file,
                      strerror(errno));
        return NULL;
    }
    char *text = malloc(FILE_BYTES_MAX + 1);
    size_t bytes = text ? fread(text, 1, FILE_BYTES_MAX + 1, in) : 0;
    fclose(in);
    if (!text || bytes > FILE_BYTES_MAX) {
        free(text);
        pen_error_set(reterr, text ? PEN_ERR_TOO_LARGE : PEN_ERR_NO_MEMORY, "%s: curves have at most 16 MiB.", file);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

enum pen_status curves_load(const char *file, struct curves *ret_curves, struct pen_error *reterr)
{
    struct reading reading = {.file = file};
    char *text = text_take(file, reterr);
    if (!text) {
        return reterr ? reterr->status : PEN_ERR_IO;
    }
    cJSON *json = cJSON_Parse(text);
    free(text);
    memset(ret_curves, 0, sizeof *ret_curves);
    if (cJSON_IsObject(json)) {
        curves_take(&reading, json, ret_curves);
    } else {
        wrong(&reading, "it is no JSON object");
    }
    cJSON_Delete(json);
    return *reading.wrong
               ? pen_error_set(reterr, PEN_ERR_INVALID, "%s: %s; `penstock plan --save FILE` writes such curves.", file,
                               reading.wrong)
               : PEN_OK;
}
