/* The worker's own page and its heartbeats: each number where it belongs, and each way to ask wrongly. Without a program: a pair of sockets. */
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "http.h"

static struct vitals vitals;
static struct identity identity;
static char page[65536], answer[65536];

static void setup(void)
{
    cr_redirect_stderr();
    one_slot_setup();
    one_slot_put("first", one_slot_graph("Neg", "a", NULL, "c"), "{\"max_batch_size\":4}");
    one_slot_put("second", one_slot_graph("Abs", "a", NULL, "c"), NULL);
    one_slot_start();
    identity = (struct identity){.worker = "a \"name\"\n", .backend = "reference", .device = "d\\e", .library = "lib"};
    vitals = (struct vitals){.stats = &one_slot_stats,
                             .catalog = &one_slot_catalog,
                             .handoff = handoff_new(0),
                             .slots = &one_slot,
                             .slots_count = 1,
                             .identity = &identity,
                             .engine = one_slot_engine,
                             .memory_bytes = 4000000007u};
    vitals_begin(&vitals, clock_now_us());
}

static void teardown(void)
{
    handoff_free(vitals.handoff);
    one_slot_teardown();
}

TestSuite(page, .init = setup, .fini = teardown);

static void number_is(const char *name, const char *value)
{
    char line[128];
    snprintf(line, sizeof line, "\npenstock_worker_%s %s\n", name, value);
    cr_assert(strstr(page, line), "no '%s %s' in\n%s", name, value, page);
    snprintf(line, sizeof line, "# TYPE penstock_worker_%s ", name);
    const char *type = strstr(page, line);
    cr_assert_not_null(type);
    bool counts = strstr(name, "_total") != NULL;
    cr_assert(strncmp(type + strlen(line), counts ? "counter\n" : "gauge\n", counts ? 8 : 6) == 0, "%s", name);
}

Test(page, every_counter_has_a_line_of_its_own)
{
    struct stats *s = &one_slot_stats;
    atomic_uint_fast64_t *const counters[] = {&s->jobs_done,  &s->jobs_failed, &s->jobs_cancelled,  &s->jobs_expired,
                                              &s->batches,    &s->runs_ahead,  &s->prepared,        &s->rows_filled,
                                              &s->busy_waits, &s->pictures,    &s->messages_dropped};
    static const char *const names[] = {"jobs_done_total",       "jobs_failed_total",     "jobs_cancelled_total",
                                        "jobs_expired_total",    "batches_total",         "runs_ahead_total",
                                        "shapes_prepared_total", "rows_filled_total",     "busy_waits_total",
                                        "pictures_total",        "messages_dropped_total"};
    for (size_t i = 0; i < 11; i++)
        atomic_store(counters[i], 1000 + i);
    atomic_store(&s->decode_us, 2500000);
    atomic_store(&s->compute_us, 12345678);
    atomic_store(&one_slot_catalog.loads, 71);
    atomic_store(&one_slot_catalog.evictions, 72);
    vitals.started_us = 5000000;
    cr_assert(vitals_text(&vitals, 8000009, page, sizeof page) == strlen(page));
    for (size_t i = 0; i < 11; i++) {
        char value[32];
        snprintf(value, sizeof value, "%zu", 1000 + i);
        number_is(names[i], value);
    }
    number_is("decode_seconds_total", "2.500000");
    number_is("compute_seconds_total", "12.345678");
    number_is("uptime_seconds", "3.000009");
    number_is("oldest_running_seconds", "0.000000");
    number_is("slots", "1");
    number_is("slots_busy", "0");
    number_is("queued_dispatches", "0");
    number_is("device_memory_bytes", "4000000007");
    number_is("model_loads_total", "71");
    number_is("model_evictions_total", "72");
    number_is("kernels_compiled_total", "0");
    number_is("kernels_compiled_after_ready_total", "0");
}

/* Its numbers may have grown between two pages: what is given has room, with its end, or is nothing. */
Test(page, a_page_that_has_no_room_is_none)
{
    uint64_t now_us = clock_now_us();
    size_t bytes = vitals_text(&vitals, now_us, page, sizeof page);
    cr_assert(bytes > 1000 && strlen(page) == bytes);
    for (size_t room = bytes - 64; room < bytes + 64; room++) {
        size_t got = vitals_text(&vitals, now_us, page, room);
        cr_assert(got < room, "%zu bytes in room for %zu", got, room);
    }
    cr_assert(vitals_text(&vitals, now_us, page, bytes / 2) == 0 && vitals_text(&vitals, now_us, page, 1) == 0);
}

Test(page, models_are_warm_or_cold)
{
    one_slot_catalog.models[0]->warmed = one_slot_catalog.models[1]->warmed = true;
    one_slot_catalog.models[1]->residence.cold = true;
    vitals_text(&vitals, clock_now_us(), page, sizeof page);
    number_is("models_cold", "1");
    char line[400];
    for (size_t i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "\npenstock_worker_model_warm{model=\"%s\",version=\"1\"} %d\n",
                 one_slot_catalog.models[i]->name, i == 0);
        cr_assert(strstr(page, line), "no %s in\n%s", line, page);
    }
    Penstock__Heartbeat beat;
    vitals_fill(&vitals, clock_now_us(), &beat);
    cr_assert(beat.models_cold == 1 && beat.models_warm == 1);
    one_slot_catalog.models[0]->warmed = false;
    one_slot_catalog.models[1]->residence.cold = false;
    vitals_fill(&vitals, clock_now_us(), &beat);
    cr_assert(beat.models_cold == 0 && beat.models_warm == 1);
}

Test(page, names_cannot_break_its_form)
{
    vitals_text(&vitals, clock_now_us(), page, sizeof page);
    cr_assert(
        strstr(page, "penstock_worker_info{worker=\"a ?name??\",backend=\"reference\",device=\"d?e\",library=\"lib\""),
        "%s", page);
    cr_assert(vitals_text(&vitals, clock_now_us(), page, 300) == 0, "half a page is none");
    size_t bytes = vitals_text(&vitals, clock_now_us(), page, sizeof page);
    cr_assert(bytes > 1000);
}

Test(page, every_flag_of_the_engine_has_a_line)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(one_slot_engine, &count);
    vitals_text(&vitals, clock_now_us(), page, sizeof page);
    for (size_t i = 0; i < count; i++) {
        char line[200];
        snprintf(line, sizeof line, "\npenstock_worker_flag_info{flag=\"%s\",value=\"", flags[i].name);
        cr_expect(strstr(page, line), "no %s", line);
    }
    cr_expect(strstr(page, "{flag=\"backend\",value=\"reference\",origin=\"flag\"} 1\n"), "%s", page);
    cr_expect(strstr(page, "{flag=\"vk_layout\",value=\"nhwc\",origin=\"default\"} 1\n"));
}

Test(page, a_heartbeat_has_the_same_numbers)
{
    Penstock__Heartbeat beat;
    struct dispatch waits = {.jobs_count = 1};
    atomic_store(&one_slot_stats.jobs_done, 3);
    atomic_store(&one_slot_stats.jobs_failed, 4);
    atomic_store(&one_slot_stats.compute_us, 5);
    atomic_store(&one_slot_catalog.loads, 6);
    atomic_store(&one_slot_catalog.evictions, 7);
    handoff_push(vitals.handoff, &waits);
    vitals_fill(&vitals, clock_now_us(), &beat);
    cr_assert(beat.jobs_done == 3 && beat.jobs_failed == 4 && beat.compute_us == 5);
    cr_assert(beat.models_loaded == 6 && beat.models_evicted == 7 && beat.queued == 1);
    cr_assert(beat.slots == 1 && beat.slots_busy == 0 && beat.oldest_running_us == 0);
    cr_assert(beat.rss_bytes > 1000000 && beat.device_memory_bytes == 4000000007u);
    struct pen_memory memory;
    pen_memory(&memory);
    cr_assert(beat.device_memory_used_bytes == memory.weights_bytes + memory.arena_bytes);
    cr_assert(memory.arena_bytes > 0);
    cr_assert(beat.cpu_us > 0 && beat.cpu_us < 600000000);
}

/* ---- the requests ------------------------------------------------------------------------------------------------------------------ */

/* The status; 0: closed without an answer. */
static int ask(const char *request)
{
    int ends[2], status = 0;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    cr_assert(write(ends[1], request, strlen(request)) == (ssize_t)strlen(request));
    shutdown(ends[1], SHUT_WR);
    worker_http_serve(ends[0], &vitals, page, sizeof page);
    close(ends[0]);
    ssize_t got = 0, used = 0;
    while ((got = read(ends[1], answer + used, sizeof answer - 1 - (size_t)used)) > 0)
        used += got;
    answer[used] = '\0';
    close(ends[1]);
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

#define HOST "Host: here\r\n\r\n"

Test(page, each_path_has_its_answer)
{
    cr_assert(ask("GET /metrics HTTP/1.1\r\n" HOST) == 200);
    cr_assert(strstr(answer, "\r\nContent-Type: text/plain; version=0.0.4") &&
              strstr(answer, "penstock_worker_slots 1"));
    const char *body = strstr(answer, "\r\n\r\n") + 4, *length = strstr(answer, "Content-Length: ");
    size_t bytes = 0;
    cr_assert(length && sscanf(length, "Content-Length: %zu", &bytes) == 1 && bytes == strlen(body));
    cr_assert(ask("GET /nothing HTTP/1.1\r\n" HOST) == 404 && strstr(answer, "/v2/health/live"));
    cr_assert(ask("POST /metrics HTTP/1.1\r\n" HOST) == 405);
    cr_assert(ask("GET\r\n" HOST) != 200);
    cr_assert(ask("") == 0);
}

Test(page, health_is_about_the_thread_and_the_brokers)
{
    uint64_t now_us = clock_now_us();
    cr_assert(ask("GET /v2/health/live HTTP/1.1\r\n" HOST) == 200 && strstr(answer, "{\"live\":true}"));
    cr_assert(ask("GET /v2/health/ready HTTP/1.1\r\n" HOST) == 503 && strstr(answer, "{\"ready\":false}"));
    vitals_beat(&vitals, true, false, now_us);
    cr_assert(ask("GET /v2/health/ready HTTP/1.1\r\n" HOST) == 200);
    vitals_text(&vitals, now_us, page, sizeof page);
    number_is("ready", "1");
    number_is("draining", "0");
    vitals_beat(&vitals, true, true, now_us);
    cr_assert(ask("GET /v2/health/ready HTTP/1.1\r\n" HOST) == 503, "a worker that drains takes no more");
    vitals_text(&vitals, now_us, page, sizeof page);
    number_is("ready", "0");
    number_is("draining", "1");
    cr_assert(vitals_live(&vitals, now_us + VITALS_WEDGED_US - 1) && !vitals_live(&vitals, now_us + VITALS_WEDGED_US));
    cr_assert(vitals_live(&vitals, now_us - 5), "a beat that comes meanwhile");
    vitals_beat(&vitals, true, false, now_us - VITALS_WEDGED_US);
    cr_assert(ask("GET /v2/health/live HTTP/1.1\r\n" HOST) == 503);
    cr_assert(ask("GET /v2/health/ready HTTP/1.1\r\n" HOST) == 503, "who is wedged is not ready");
}

Test(page, a_request_has_one_host)
{
    cr_assert(ask("GET /metrics HTTP/1.1\r\n\r\n") == 400);
    cr_assert(ask("GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == 400);
    cr_assert(ask("GET /metrics HTTP/1.1\r\nhost \t: a\r\n\r\n") == 200);
    cr_assert(ask("GET /metrics HTTP/1.1\r\nHostess: a\r\n\r\n") == 400);
    cr_assert(ask("GET /metrics HTTP/1.0\r\n\r\n") == 200);
    cr_assert(ask("GET /metrics HTTP/1.0\nx: y\n\n") == 200);
    cr_assert(ask("GET /metrics HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n") == 400);
}

Test(page, addresses_are_checked)
{
    struct worker_http *http = NULL, *again = NULL;
    struct pen_error error = {0};
    static const char *const wrong[] = {"", "127.0.0.1", ":9100", "localhost:9100", "127.0.0.1:x", "[::1:9100"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_assert(worker_http_start(wrong[i], &vitals, &http, &error) == PEN_ERR_INVALID, "%s", wrong[i]);
    cr_assert(worker_http_start("127.0.0.1:0", &vitals, &http, &error) == PEN_OK, "%s", error.text);
    cr_assert(strncmp(worker_http_address(http), "127.0.0.1:", 10) == 0 && worker_http_address(http)[10] != '0');
    cr_assert(worker_http_start(worker_http_address(http), &vitals, &again, &error) == PEN_ERR_IO);
    cr_assert(strstr(error.text, "cannot be listened on"), "%s", error.text);
    char gone[80];
    snprintf(gone, sizeof gone, "%s", worker_http_address(http));
    worker_http_stop(http);
    worker_http_stop(NULL);
    cr_assert(worker_http_start(gone, &vitals, &http, &error) == PEN_OK, "its place is free again: %s", error.text);
    worker_http_stop(http);
}
