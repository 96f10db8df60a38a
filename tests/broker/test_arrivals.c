/* The verb `arrivals`: when jobs came, from the first question on; what is counted once, what is forgotten, what it costs when nobody asks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "arrival_log.h"
#include "control_arrivals.h"
#include "desk.h"

#define CLIENT  1u
#define WORKER  11u
#define SESSION 0xC1u

static struct wire_model model = {.name = "net \"a\"",
                                  .version = 1,
                                  .backend = "xnnpack",
                                  .precision = PRECISION_F32,
                                  .digest = 1,
                                  .cacheable = true,
                                  .warm_us = 1000,
                                  .dim = 4,
                                  .max_batch = 4};
static struct desk *desk;

static void begin(void)
{
    struct wire_worker worker = {.uuid = 0xA1, .name = "w", .slots = 4, .models = &model, .models_count = 1};
    desk = desk_new();
    desk_open(desk);
    desk_client(desk, CLIENT, SESSION);
    desk_worker(desk, WORKER, &worker);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(arrivals, .init = begin, .fini = end);

static struct wire_job job_of(uint64_t sequence, uint16_t flags)
{
    struct wire_job job = {
        .id = {SESSION, sequence}, .model = model.name, .dims = {2, 4}, .flags = flags, .priority = 7};
    return job;
}

static void submit(uint64_t sequence, uint16_t flags)
{
    struct wire_job job = job_of(sequence, flags);
    desk_submit(desk, CLIENT, &job);
}

static cJSON *told(const char *since, enum pen_status expected)
{
    enum pen_status status;
    Penstock__ControlReply *reply = desk_ask(desk, "arrivals", since, &status);
    cr_assert_eq(status, expected, "%s", reply->error);
    cJSON *json = status == PEN_OK ? cJSON_Parse(reply->text) : NULL;
    cr_assert(status != PEN_OK || cJSON_IsObject(json), "%s", reply->text);
    penstock__control_reply__free_unpacked(reply, NULL);
    return json;
}

static double number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(json, key);
    cr_assert(cJSON_IsNumber(item), "%s", key);
    return item->valuedouble;
}

static double at(const cJSON *json, int row, int column)
{
    const cJSON *rows = cJSON_GetObjectItem(json, "arrivals");
    return cJSON_GetNumberValue(cJSON_GetArrayItem(cJSON_GetArrayItem(rows, row), column));
}

static int count_of(const cJSON *json)
{
    return cJSON_GetArraySize(cJSON_GetObjectItem(json, "arrivals"));
}

Test(arrivals, nothing_is_kept_before_somebody_asks)
{
    submit(1, 0);
    cr_assert_null(desk->broker.arrival_log);
    cJSON *json = told("", PEN_OK);
    cr_assert(count_of(json) == 0 && number(json, "next") == 0);
    cJSON_Delete(json);
}

Test(arrivals, jobs_are_told_once_with_their_sizes)
{
    cJSON_Delete(told("", PEN_OK));
    uint64_t before_us = desk->broker.now_us;
    submit(1, 0);
    desk_wait(desk, 5000);
    submit(2, 0);
    submit(3, FRAME_FLAG_RESENT); /* it came before */
    cJSON *json = told("0", PEN_OK);
    cr_assert_eq(count_of(json), 2);
    cr_assert(at(json, 0, 0) >= (double)before_us && at(json, 1, 0) - at(json, 0, 0) >= 5000);
    cr_assert(at(json, 0, 1) == 0 && at(json, 0, 2) == 7, "model and priority");
    cr_assert(at(json, 0, 3) == 2 && at(json, 0, 4) > 0, "rows and bytes");
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "models"), 0)), model.name);
    cJSON_Delete(json);
    json = told("2", PEN_OK);
    cr_assert(count_of(json) == 0 && number(json, "next") == 2 && number(json, "missed") == 0);
    cJSON_Delete(json);
    cJSON_Delete(told("two", PEN_ERR_INVALID));
}

Test(arrivals, each_model_has_its_name)
{
    static const char *const names[] = {"first", "second", "third"};
    struct wire_model models[3] = {model, model, model};
    for (size_t i = 0; i < 3; i++)
        models[i].name = names[i];
    struct wire_worker more = {.uuid = 0xA2, .name = "v", .slots = 8, .models = models, .models_count = 3};
    desk_worker(desk, WORKER + 1, &more);
    cJSON_Delete(told("", PEN_OK));
    for (uint64_t i = 0; i < 6; i++) {
        struct wire_job job = job_of(i + 1, 0);
        job.model = names[i % 3];
        desk_submit(desk, CLIENT, &job);
    }
    cJSON *json = told("0", PEN_OK);
    const cJSON *list = cJSON_GetObjectItem(json, "models");
    cr_assert(count_of(json) == 6 && cJSON_GetArraySize(list) == 3);
    for (int i = 0; i < 6; i++)
        cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetArrayItem(list, (int)at(json, i, 1))), names[i % 3]);
    cJSON_Delete(json);
}

Test(arrivals, an_answer_from_the_cache_is_an_arrival_too)
{
    struct wire_job job = job_of(1, 0);
    job.digest = 5;
    desk_submit(desk, CLIENT, &job);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result(desk, WORKER, job.id, 5, 42);
    cJSON_Delete(told("", PEN_OK));
    job.id.sequence = 2;
    desk_submit(desk, CLIENT, &job);
    cr_assert_eq(desk->broker.stats.cache_hits, 1u);
    cJSON *json = told("0", PEN_OK);
    cr_assert_eq(count_of(json), 1);
    cJSON_Delete(json);
}

Test(arrivals, what_is_too_old_counts_as_missed)
{
    cJSON_Delete(told("", PEN_OK));
    struct arrival_log *log = desk->broker.arrival_log;
    log->next = ARRIVAL_LOG_COUNT + 100; /* as if so many had come */
    cJSON *json = told("40", PEN_OK);
    cr_assert(number(json, "missed") == 60 && count_of(json) == (int)CONTROL_ARRIVALS_MAX);
    cr_assert_eq(number(json, "next"), 100 + CONTROL_ARRIVALS_MAX);
    cJSON_Delete(json);
    json = told("99999999", PEN_OK);
    cr_assert(count_of(json) == 0 && number(json, "next") == ARRIVAL_LOG_COUNT + 100,
              "beyond the end: from the end on");
    cJSON_Delete(json);
}

Test(arrivals, when_nobody_asks_for_a_minute_all_is_forgotten)
{
    cJSON_Delete(told("", PEN_OK));
    submit(1, 0);
    cr_assert_not_null(desk->broker.arrival_log);
    desk->broker.arrival_log->asked_us = desk->broker.now_us - ARRIVAL_LOG_FORGET_US - 1;
    submit(2, 0);
    cr_assert_null(desk->broker.arrival_log);
}
