#include "logline.h"
#include "logline_rate.h"
#include "logline_text.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char line[LOGLINE_BYTES + 1];

__attribute__((format(printf, 2, 3))) static const char *format(bool json, const char *fmt, ...)
{
    static const struct logline_head head = {"2026-01-31T12:00:00.000Z", "broker", "info", "job_done", "n0nce123"};
    va_list args;
    va_start(args, fmt);
    size_t bytes = logline_format(line, &head, json, fmt, args);
    va_end(args);
    line[bytes] = '\0';
    cr_assert(bytes > 0 && bytes <= LOGLINE_BYTES && line[bytes - 1] == '\n');
    cr_assert_eq(strchr(line, '\n'), line + bytes - 1, "one line");
    return line;
}

static cJSON *json_of(const char *text)
{
    cJSON *object = cJSON_Parse(text);
    cr_assert_not_null(object, "no JSON: %s", text);
    return object;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    cr_assert_not_null(text, "no text under %s", key);
    return text;
}

#define HEAD "ts=2026-01-31T12:00:00.000Z program=broker level=info evt=job_done"

Test(logline, text_form_quotes_only_what_needs_it)
{
    cr_assert_str_eq(format(false, "job=%s us=%d", "a-1", 12), HEAD " job=a-1 us=12\n");
    cr_assert_str_eq(format(false, "error=%s model=%s", "no such file", ""),
                     HEAD " error=\"no such file\" model=\"\"\n");
    cr_assert_str_eq(format(false, "x=%s", "say \"hi\"\\\n\x01"), HEAD " x=\"say \\\"hi\\\"\\\\\\u000a\\u0001\"\n");
}

Test(logline, a_value_cannot_forge_a_pair)
{
    cr_assert_str_eq(format(false, "model=%s us=%d", "x level=error evt=fake", 1),
                     HEAD " model=\"x level=error evt=fake\" us=1\n");
    cJSON *object = json_of(format(true, "model=%s us=%d", "x\",\"level\":\"error us=7", 1));
    cr_assert_str_eq(text_of(object, "model"), "x\",\"level\":\"error us=7");
    cr_assert_eq(cJSON_GetObjectItem(object, "us")->valueint, 1);
    cr_assert_eq(cJSON_GetArraySize(object), 6);
    cJSON_Delete(object);
}

Test(logline, json_numbers_are_numbers_and_texts_are_texts)
{
    cJSON *object = json_of(format(true, "a=%d b=%.2f c=%s d=%s e=%x f=%g g=5 h=%zu", -3, 1.5, "12", "", 18u,
                                   (double)1.0f / 0.0f, (size_t)9));
    cr_assert_eq(cJSON_GetObjectItem(object, "a")->valuedouble, -3);
    cr_assert_eq(cJSON_GetObjectItem(object, "b")->valuedouble, 1.5);
    cr_assert_str_eq(text_of(object, "c"), "12");
    cr_assert_str_eq(text_of(object, "d"), "");
    cr_assert_str_eq(text_of(object, "e"), "12");
    cr_assert_str_eq(text_of(object, "f"), "inf");
    cr_assert_eq(cJSON_GetObjectItem(object, "g")->valueint, 5);
    cr_assert_eq(cJSON_GetObjectItem(object, "h")->valueint, 9);
    cr_assert_str_eq(text_of(object, "evt"), "job_done");
    cJSON_Delete(object);
}

Test(logline, any_bytes_make_valid_json)
{
    char value[600];
    unsigned seed = 1;
    for (int round = 0; round < 500; round++) {
        size_t length = (size_t)round % (sizeof value - 1);
        for (size_t i = 0; i < length; i++) {
            seed = seed * 1103515245u + 12345u;
            value[i] = (char)(seed >> 16 ? seed >> 16 & 0xFF : 1);
            if (value[i] == '\0')
                value[i] = '\x1e';
        }
        value[length] = '\0';
        cJSON *object = json_of(format(true, "a=%s b=%d", value, round));
        cr_assert_eq(cJSON_GetObjectItem(object, "b")->valueint, round);
        cJSON_Delete(object);
    }
}

Test(logline, utf8_passes_and_broken_utf8_is_replaced)
{
    cJSON *object = json_of(format(true, "a=%s b=%s", "gr\xC3\xBC\xC3\x9F", "x\xC3(\xED\xA0\x80"));
    cr_assert_str_eq(text_of(object, "a"), "gr\xC3\xBC\xC3\x9F");
    cr_assert_str_eq(text_of(object, "b"), "x\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    cJSON_Delete(object);
}

Test(logline, a_long_value_is_cut_and_the_line_stays_whole)
{
    static char value[3 * LOGLINE_BYTES];
    for (int quote = 0; quote < 2; quote++) {
        memset(value, quote ? '"' : 'v', sizeof value - 1);
        cJSON *object = json_of(format(true, "a=%s b=%d", value, 1));
        cr_assert_gt(strlen(text_of(object, "a")), LOGLINE_BYTES / 2 - 200);
        cJSON_Delete(object);
        format(false, "a=%s b=%d", value, 1);
        cr_assert_eq(line[strlen(line) - 2], '"');
    }
}

Test(logline, text_before_the_first_key_is_a_message)
{
    cr_assert_str_eq(format(false, "%s", "hello world"), HEAD " msg=\"hello world\"\n");
    cr_assert_str_eq(format(false, "%s", ""), HEAD "\n");
}

Test(logline, too_many_keys_are_reported_not_overrun)
{
    char fmt[4000] = "";
    for (int i = 0; i < 60; i++)
        snprintf(fmt + strlen(fmt), sizeof fmt - strlen(fmt), "k%d=1 ", i);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
    cr_assert(strstr(format(false, fmt), "log_fault="));
#pragma GCC diagnostic pop
}

Test(logline, levels_parse_and_filter)
{
    enum log_level level = LOG_DEBUG;
    cr_assert_eq(log_level_parse("warn", &level), 0);
    cr_assert_eq(level, LOG_WARN);
    cr_assert_eq(log_level_parse("WARN", &level), -1);
    cr_assert_eq(log_level_parse(NULL, &level), -1);
    log_level_set(LOG_WARN);
    cr_assert(!log_enabled(LOG_INFO));
    cr_assert(log_enabled(LOG_WARN));
    cr_assert(log_enabled(LOG_ERROR));
}

Test(logline_rate, repeats_are_counted_and_reported_once)
{
    static struct log_rate rate;
    struct log_rate_slot slot;
    uint64_t now = 5000000;
    for (uint32_t i = 0; i < LOG_RATE_LINES; i++)
        cr_assert(log_rate_admit(&rate, "job_done", 1, now));
    for (uint32_t i = 0; i < 7; i++)
        cr_assert(!log_rate_admit(&rate, "job_done", 2, now + i));
    cr_assert(log_rate_admit(&rate, "other", 1, now), "events do not disturb each other");
    cr_assert(!log_rate_report(&rate, now + 999999, false, &slot));
    cr_assert(log_rate_report(&rate, now + 1000000, false, &slot));
    cr_assert_eq(slot.suppressed, 7);
    cr_assert_str_eq(slot.evt, "job_done");
    cr_assert_eq(slot.level, 2);
    cr_assert(!log_rate_report(&rate, now + 1000000, true, &slot), "once");
    cr_assert(log_rate_admit(&rate, "job_done", 1, now + 1000001));
}

Test(logline_rate, a_new_second_is_a_new_budget)
{
    static struct log_rate rate;
    for (uint64_t second = 1; second < 5; second++)
        for (uint32_t i = 0; i < LOG_RATE_LINES; i++)
            cr_assert(log_rate_admit(&rate, "beat", 1, second * 1000000 + i));
}

Test(logline_rate, a_full_table_lets_pass)
{
    static struct log_rate rate;
    char name[16];
    for (unsigned i = 0; i < LOG_RATE_EVENTS + 5; i++) {
        snprintf(name, sizeof name, "evt_%u", i);
        for (unsigned j = 0; j < LOG_RATE_LINES; j++)
            cr_assert(log_rate_admit(&rate, name, 1, 10000000));
    }
    cr_assert(log_rate_admit(&rate, name, 1, 10000000));
}

/* The whole way, into a pipe in the place of stderr. */
Test(logline, events_arrive_on_stderr_and_repeats_at_exit_of_the_window)
{
    int ends[2], saved = dup(STDERR_FILENO);
    static char got[65536];
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    log_setup("test", LOG_INFO, true);
    for (int i = 0; i < 100; i++)
        log_event(LOG_INFO, "repeat", "i=%d", i);
    log_event(LOG_DEBUG, "hidden", "x=%d", 1);
    usleep(1100000);
    log_event(LOG_WARN, "after", "x=%d", 1);
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(ends[0], got + used, sizeof got - 1 - used)) > 0;)
        used += (size_t)n;
    int lines = 0, reports = 0;
    for (char *at = strtok(got, "\n"); at; at = strtok(NULL, "\n"), lines++) {
        cJSON *object = json_of(at), *suppressed = cJSON_GetObjectItem(object, "suppressed");
        cr_assert_str_neq(text_of(object, "evt"), "hidden");
        if (suppressed) {
            cr_assert_eq(suppressed->valueint, 80);
            reports++;
        }
        cJSON_Delete(object);
    }
    cr_assert_eq(reports, 1);
    cr_assert_eq(lines, 22);
}
