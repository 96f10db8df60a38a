#include "load_record.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>

#include "arrivals.h"
#include "deadline.h"
#include "words.h"

#define ASK_EVERY_US 200000u
#define ASK_AGAIN    4096      /* after an answer of so many arrivals the next question follows at once */
#define LOST_US      30000000u /* without an answer for so long, the recording ends */

struct record {
    const struct record_plan *plan;
    struct record_report *report;
    struct arrivals_writer writer;
    uint64_t next;    /* number of the arrival to ask for */
    uint64_t base_us; /* unix time at which the broker's clock was 0 */
    uint64_t unnamed; /* as the broker told last */
    bool begun;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static uint64_t unix_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static double at(const cJSON *array, int index)
{
    const cJSON *item = cJSON_GetArrayItem(array, index);
    return cJSON_IsNumber(item) && item->valuedouble >= 0.0 && item->valuedouble < 1e18 ? item->valuedouble : 0.0;
}

static double number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsNumber(item) && item->valuedouble >= 0.0 && item->valuedouble < 1e18 ? item->valuedouble : 0.0;
}

static enum pen_status write_one(struct record *record, const cJSON *row, const cJSON *models, struct pen_error *reterr)
{
    const char *model = cJSON_GetStringValue(cJSON_GetArrayItem(models, (int)at(row, 1)));
    struct arrival arrival = {.at_us = record->base_us + (uint64_t)at(row, 0),
                              .priority = (uint8_t)at(row, 2),
                              .rows = (uint32_t)at(row, 3),
                              .bytes = (uint64_t)at(row, 4),
                              .deadline_us = (uint64_t)at(row, 5)};
    if (!model || (record->plan->model && strcmp(model, record->plan->model) != 0)) {
        return PEN_OK;
    }
    snprintf(arrival.model, sizeof arrival.model, "%s", model);
    return arrivals_write(&record->writer, &arrival, reterr);
}

/* A broker that was started again counts from the beginning. */
static void follow(struct record *record, const cJSON *json)
{
    uint64_t next = (uint64_t)number(json, "next"), unnamed = (uint64_t)number(json, "unnamed");
    if (!record->begun || next < record->next) {
        record->base_us = unix_now_us() - (uint64_t)number(json, "now_us");
        record->unnamed = 0;
    } else {
        record->report->missed += (uint64_t)number(json, "missed");
    }
    record->report->missed += unnamed > record->unnamed ? unnamed - record->unnamed : 0;
    record->unnamed = unnamed;
    record->next = next;
    record->begun = true;
}

/* *ret_count: arrivals of this answer. */
static enum pen_status ask(struct record *record, int *ret_count, struct pen_error *reterr)
{
    char since[24] = "", *text = NULL;
    if (record->begun) {
        snprintf(since, sizeof since, "%" PRIu64, record->next);
    }
    enum pen_status status = pen_client_arrivals(record->plan->client, since, record->plan->timeout_us, &text, reterr);
    if (status != PEN_OK) {
        return status;
    }
    cJSON *json = cJSON_Parse(text);
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(json, "arrivals"),
                *models = cJSON_GetObjectItemCaseSensitive(json, "models"), *row;
    pen_text_free(text);
    if (!cJSON_IsArray(rows)) {
        cJSON_Delete(json);
        return pen_error_set(reterr, PEN_ERR_INTERNAL, "the broker's answer about arrivals is no list.");
    }
    follow(record, json);
    *ret_count = cJSON_GetArraySize(rows);
    cJSON_ArrayForEach(row, rows)
    {
        status = status == PEN_OK ? write_one(record, row, models, reterr) : status;
    }
    cJSON_Delete(json);
    return status;
}

/* A broker that is being started again answers later. */
static enum pen_status ask_patiently(struct record *record, int *ret_count, struct pen_error *reterr)
{
    uint64_t limit_us = clock_now_us() + LOST_US;
    enum pen_status status;
    *ret_count = 0;
    do {
        status = ask(record, ret_count, reterr);
    } while (status == PEN_ERR_UNAVAILABLE && record->begun && !stopped && clock_now_us() < limit_us);
    return status;
}

static void progress(const struct record *record, uint64_t elapsed_us)
{
    if (record->plan->progress) {
        fprintf(stderr, "\r%3.0f s: %" PRIu64 " %s written  ", (double)elapsed_us * 1e-6, record->writer.written,
                words_plural(record->writer.written, "arrival", "arrivals"));
    }
}

static enum pen_status run(struct record *record, struct pen_error *reterr)
{
    uint64_t start_us = clock_now_us(), end_us = start_us + (uint64_t)record->plan->duration_us, shown_us = start_us;
    enum pen_status status = PEN_OK;
    for (uint64_t now_us = start_us; status == PEN_OK; now_us = clock_now_us()) {
        int count = 0;
        bool last = stopped || now_us >= end_us;
        status = ask_patiently(record, &count, reterr);
        record->report->elapsed_us = now_us - start_us;
        if (now_us - shown_us >= 1000000u) {
            progress(record, now_us - start_us);
            shown_us = now_us;
        }
        if (last && count < ASK_AGAIN) {
            break;
        }
        if (count < ASK_AGAIN) {
            uint64_t left_us = end_us > now_us ? end_us - now_us : 0;
            uint64_t pause_us = left_us < ASK_EVERY_US ? left_us : ASK_EVERY_US;
            nanosleep(&(struct timespec){.tv_nsec = (long)pause_us * 1000}, NULL); /* a signal ends it */
        }
    }
    return status;
}

enum pen_status load_record(const struct record_plan *plan, struct record_report *ret_report, struct pen_error *reterr)
{
    struct record record = {.plan = plan, .report = ret_report};
    struct sigaction action = {.sa_handler = on_signal};
    *ret_report = (struct record_report){.written = 0};
    int ignored = 0;
    enum pen_status status =
        ask(&record, &ignored, reterr); /* a broker that cannot tell says so before a file is made */
    if (status == PEN_OK) {
        status = arrivals_create(plan->file, (uint64_t)plan->bytes_max, unix_now_us(), &record.writer, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    status = run(&record, reterr);
    struct pen_error late;
    enum pen_status finished = record.writer.out ? arrivals_finish(&record.writer, &late) : PEN_OK;
    if (status == PEN_OK && finished != PEN_OK) {
        status = pen_error_set(reterr, finished, "%s", late.text);
    }
    ret_report->written = record.writer.written;
    ret_report->turned = record.writer.turned;
    if (plan->progress) {
        fprintf(stderr, "\n");
    }
    return status;
}
