#include "show.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "answer_draw.h"
#include "command.h"
#include "measured.h"
#include "npy.h"

/* Give it free(3). */
static struct label *top_of(const struct show *show, const pen_result *result, size_t *ret_count)
{
    struct label *top = show->top ? calloc(SHOW_TOP_MAX, sizeof *top) : NULL;
    *ret_count = top ? labels_top(result, &show->names, show->top, SHOW_TOP_MAX, top) : 0;
    return top;
}

size_t show_labels(const struct show *show, const pen_result *result)
{
    size_t count = 0;
    char text[LABEL_TEXT_BYTES];
    struct label *top = top_of(show, result, &count);
    for (size_t k = 0; k < count; k++) {
        printf("  %8.4f  %s\n", top[k].score, label_text(top, count, k, text));
    }
    free(top);
    return count;
}

cJSON *show_labels_json(const struct show *show, const pen_result *result)
{
    size_t count = 0;
    struct label *top = top_of(show, result, &count);
    cJSON *labels = cJSON_CreateArray();
    for (size_t k = 0; k < count; k++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "label", top[k].text);
        cJSON_AddNumberToObject(one, "index", (double)top[k].index);
        cJSON_AddNumberToObject(one, "score", top[k].score);
        cJSON_AddNumberToObject(one, "row", top[k].row);
        cJSON_AddItemToArray(labels, one);
    }
    free(top);
    return labels;
}

/* The result's own, in the form that a worker's list has. */
static struct pen_offered_error error_of(const struct pen_result_info *i)
{
    return (struct pen_offered_error){.precision = i->precision,
                                      .measured = i->measured,
                                      .largest = i->error_largest,
                                      .mean = i->error_mean,
                                      .inputs = i->error_inputs,
                                      .source = i->error_source,
                                      .repeatable = i->error_repeatable};
}

/* What the numbers rest on. */
static void provenance_text(const struct pen_result_info *i)
{
    char age[AMOUNT_BYTES], text[MEASURED_TEXT_BYTES];
    const struct pen_offered_error error = error_of(i);
    printf("  library %s, isa %s, engine build %s; %s", i->library, i->isa, i->build, measured_text(&error, text));
    if (i->cached) {
        printf("; %s old", amount_us(i->age_us, age));
    }
    printf("\n");
}

void show_text(const struct show *show, const char *what, const char *job_id, const pen_result *result)
{
    const struct pen_result_info *i = pen_result_info(result);
    char queue[AMOUNT_BYTES], compute[AMOUNT_BYTES], total[AMOUNT_BYTES], trip[AMOUNT_BYTES];
    printf("%s  job %s\n", what, job_id);
    if (pen_result_status(result) != PEN_OK) {
        printf("  %s: %s\n", pen_status_name(pen_result_status(result)), pen_result_error(result));
    }
    size_t count = answer_show(result) ? 1 : show_labels(show, result);
    for (size_t k = 0; count == 0 && k < pen_result_outputs(result); k++) {
        show_output(pen_result_output(result, k));
    }
    if (pen_result_status(result) == PEN_OK) {
        char origin[32];
        snprintf(origin, sizeof origin, i->cached ? "from the cache" : "batch of %u", i->batch_size);
        printf("  model %s:%" PRIu64 ", backend %s, precision %s, device %s, worker %s\n", i->model, i->version,
               i->backend, pen_precision_name(i->precision), i->device, i->worker);
        printf("  queue %s, compute %s, total %s, round trip %s; %s\n", amount_us(i->queue_us, queue),
               amount_us(i->compute_us, compute), amount_us(i->total_us, total), amount_us(i->round_trip_us, trip),
               origin);
        provenance_text(i);
        if (pen_result_explanation(result)) {
            show_explanation(pen_result_explanation(result));
        }
    }
    fputs(pen_result_debug_log(result), stdout); /* "" unless asked for; of a failed run as well */
}

static void info_json(cJSON *json, const struct pen_result_info *i)
{
    const struct {
        const char *key, *text;
    } texts[] = {{"model", i->model},   {"backend", i->backend}, {"precision", pen_precision_name(i->precision)},
                 {"device", i->device}, {"worker", i->worker},   {"library", i->library},
                 {"isa", i->isa},       {"build", i->build},     {"batch_reason", i->batch_reason}};
    const struct {
        const char *key;
        uint64_t number;
    } numbers[] = {{"version", i->version},
                   {"batch_size", i->batch_size},
                   {"attempts", i->attempts},
                   {"queue_us", i->queue_us},
                   {"compute_us", i->compute_us},
                   {"worker_us", i->worker_us},
                   {"total_us", i->total_us},
                   {"round_trip_us", i->round_trip_us},
                   {"retry_after_us", i->retry_after_us},
                   {"decode_us", i->decode_us},
                   {"age_us", i->age_us}};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        cJSON_AddStringToObject(json, texts[k].key, texts[k].text);
    }
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        cJSON_AddNumberToObject(json, numbers[k].key, (double)numbers[k].number);
    }
    cJSON_AddBoolToObject(json, "cached", i->cached);
    const struct pen_offered_error error = error_of(i);
    cJSON_AddItemToObject(json, "measured", measured_json(&error));
}

cJSON *show_json(const struct show *show, const char *what, const char *job_id, const pen_result *result)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "file", what);
    cJSON_AddStringToObject(json, "job", job_id);
    cJSON_AddStringToObject(json, "status", pen_status_name(pen_result_status(result)));
    cJSON_AddStringToObject(json, "error", pen_result_error(result));
    info_json(json, pen_result_info(result));
    if (pen_result_explanation(result)) {
        cJSON_AddItemToObject(json, "explanation", show_explanation_json(pen_result_explanation(result)));
    }
    if (*pen_result_debug_log(result)) {
        cJSON_AddStringToObject(json, "debug_log", pen_result_debug_log(result));
    }
    cJSON_AddItemToObject(json, "labels", show_labels_json(show, result));
    cJSON *answer = answer_read(result);
    if (answer) {
        cJSON_AddItemToObject(json, "answer", answer);
    }
    cJSON *outputs = cJSON_AddArrayToObject(json, "outputs");
    for (size_t k = 0; k < pen_result_outputs(result); k++) {
        cJSON_AddItemToArray(outputs, show_output_json(pen_result_output(result, k)));
    }
    return json;
}

/* Names come from a model: nothing in them may lead out of the folder. */
static void safe_name(char *text)
{
    for (char *c = text; *c; c++) {
        if (*c == '/' || *c == '\\' || *c == ':' || (unsigned char)*c < ' ') {
            *c = '_';
        }
    }
}

/* The file's name without folders and extension. Returns where it begins. */
static const char *stem_of(const char *what, int *ret_length)
{
    const char *slash = strrchr(what, '/');
    const char *base = slash ? slash + 1 : what;
    const char *dot = strrchr(base, '.');
    *ret_length = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    return base;
}

static int by_stem(const void *a, const void *b)
{
    int one_length, other_length;
    const char *one = stem_of(*(const char *const *)a, &one_length);
    const char *other = stem_of(*(const char *const *)b, &other_length);
    int order = memcmp(one, other, (size_t)(one_length < other_length ? one_length : other_length));
    return order ? order : one_length - other_length;
}

bool show_clash(const char *const *files, size_t count, const char *ret_pair[2])
{
    const char **sorted = count > 1 ? malloc(count * sizeof *sorted) : NULL;
    bool found = false;
    if (!sorted) {
        return false;
    }
    memcpy(sorted, files, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_stem);
    for (size_t i = 1; i < count && !found; i++) {
        found = by_stem(&sorted[i - 1], &sorted[i]) == 0;
        ret_pair[0] = sorted[i - 1];
        ret_pair[1] = sorted[i];
    }
    free(sorted);
    return found;
}

enum pen_status show_save(const struct show *show, const char *what, const pen_result *result, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    int stem_length;
    const char *stem = stem_of(what, &stem_length);
    if (mkdir(show->output_dir, 0777) != 0 && errno != EEXIST) {
        return pen_error_set(reterr, PEN_ERR_IO, "%s: cannot make the folder: %s.", show->output_dir, strerror(errno));
    }
    for (size_t i = 0; status == PEN_OK && i < pen_result_outputs(result); i++) {
        char path[4096], name[256];
        const struct pen_tensor *t = pen_result_output(result, i);
        snprintf(name, sizeof name, "%s", t->name);
        safe_name(name);
        int length = snprintf(path, sizeof path, "%s/%.*s.%s.npy", show->output_dir, stem_length, stem, name);
        status = length < (int)sizeof path
                     ? npy_save(path, t, reterr)
                     : pen_error_set(reterr, PEN_ERR_INVALID, "%s: the path is too long.", show->output_dir);
    }
    return status;
}
