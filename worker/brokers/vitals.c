/* vitals.c - gathers the numbers from where they are counted. */
#include "vitals.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "deadline.h"
#include "version.h"

void vitals_beat(struct vitals *vitals, bool serving, bool draining, uint64_t now_us)
{
    atomic_store_explicit(&vitals->serving, serving, memory_order_relaxed);
    atomic_store_explicit(&vitals->draining, draining, memory_order_relaxed);
    atomic_store_explicit(&vitals->beat_us, now_us, memory_order_relaxed);
}

void vitals_begin(struct vitals *vitals, uint64_t now_us)
{
    vitals_beat(vitals, false, false, now_us);
}

bool vitals_live(const struct vitals *vitals, uint64_t now_us)
{
    uint64_t beat_us = atomic_load(&vitals->beat_us);
    return now_us < beat_us || now_us - beat_us < VITALS_WEDGED_US;
}

bool vitals_ready(const struct vitals *vitals)
{
    return atomic_load(&vitals->serving) && !atomic_load(&vitals->draining);
}

static uint64_t cpu_us(void)
{
    struct timespec cpu = {.tv_sec = 0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (uint64_t)cpu.tv_sec * 1000000u + (uint64_t)cpu.tv_nsec / 1000u;
}

static void models_count(struct catalog *catalog, Penstock__Heartbeat *heartbeat)
{
    pthread_mutex_lock(&catalog->lock);
    for (size_t i = 0; i < catalog->count; i++) {
        bool cold = catalog->models[i]->residence.cold;
        heartbeat->models_cold += cold;
        heartbeat->models_warm += !cold && catalog->models[i]->warmed;
    }
    pthread_mutex_unlock(&catalog->lock);
    heartbeat->models_loaded = atomic_load(&catalog->loads);
    heartbeat->models_evicted = atomic_load(&catalog->evictions);
}

void vitals_fill(struct vitals *vitals, uint64_t now_us, Penstock__Heartbeat *heartbeat)
{
    struct pen_memory memory;
    penstock__heartbeat__init(heartbeat);
    for (size_t i = 0; i < vitals->slots_count; i++) {
        struct slot_running running;
        slot_running(vitals->slots[i], &running);
        uint64_t age_us = running.busy && now_us > running.started_us ? now_us - running.started_us : 0;
        heartbeat->slots_busy += running.busy;
        heartbeat->oldest_running_us = age_us > heartbeat->oldest_running_us ? age_us : heartbeat->oldest_running_us;
    }
    pen_memory(&memory);
    heartbeat->slots = (uint32_t)vitals->slots_count;
    heartbeat->jobs_done = atomic_load(&vitals->stats->jobs_done);
    heartbeat->jobs_failed = atomic_load(&vitals->stats->jobs_failed);
    heartbeat->compute_us = atomic_load(&vitals->stats->compute_us);
    heartbeat->rss_bytes = stats_rss_bytes();
    heartbeat->queued = (uint32_t)(handoff_length(vitals->handoff) + decoders_waiting(vitals->decoders));
    heartbeat->cpu_us = cpu_us();
    heartbeat->device_memory_bytes = vitals->memory_bytes;
    heartbeat->device_memory_used_bytes = memory.weights_bytes + memory.arena_bytes;
    models_count(vitals->catalog, heartbeat);
}

/* ---- the page ---- */

struct page {
    char *text;
    size_t used, room;
};

__attribute__((format(printf, 2, 3))) static void put(struct page *page, const char *format, ...)
{
    va_list arguments;
    if (page->used >= page->room)
        return;
    va_start(arguments, format);
    int count = vsnprintf(page->text + page->used, page->room - page->used, format, arguments);
    va_end(arguments);
    page->used += count > 0 ? (size_t)count : page->room;
}

static void put_family(struct page *page, const char *name, const char *type, const char *help)
{
    put(page, "# HELP penstock_worker_%s %s\n# TYPE penstock_worker_%s %s\n", name, help, name, type);
}

static void put_number(struct page *page, const char *name, const char *type, const char *help, uint64_t value)
{
    put_family(page, name, type, help);
    put(page, "penstock_worker_%s %" PRIu64 "\n", name, value);
}

static void put_seconds(struct page *page, const char *name, const char *type, const char *help, uint64_t us)
{
    put_family(page, name, type, help);
    put(page, "penstock_worker_%s %" PRIu64 ".%06" PRIu64 "\n", name, us / 1000000u, us % 1000000u);
}

/* A label's value: characters that the text form cannot express become '?'. */
static void put_label(struct page *page, const char *name, const char *value)
{
    put(page, "%s=\"", name);
    for (; *value; value++)
        put(page, "%c", *value == '"' || *value == '\\' || (unsigned char)*value < ' ' ? '?' : *value);
    put(page, "\"");
}

static void put_info(struct page *page, const struct identity *identity)
{
    put_family(page, "info", "gauge", "1, with what the worker is.");
    put(page, "penstock_worker_info{");
    put_label(page, "worker", identity->worker);
    put(page, ",");
    put_label(page, "backend", identity->backend);
    put(page, ",");
    put_label(page, "device", identity->device);
    put(page, ",");
    put_label(page, "library", identity->library);
    put(page, ",");
    put_label(page, "version", PENSTOCK_VERSION);
    put(page, "} 1\n");
}

#define FLAG_LABEL_BYTES 128 /* longer values are cut */

/* One line per flag of the engine, and per fact: as many as its tables have. */
static void put_flags(struct page *page, const struct pen_engine *engine)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    put_family(page, "flag_info", "gauge", "1, with a flag or fact of the engine and where it comes from.");
    for (size_t i = 0; i < count; i++) {
        char value[FLAG_LABEL_BYTES];
        snprintf(value, sizeof value, "%s", flags[i].value);
        put(page, "penstock_worker_flag_info{");
        put_label(page, "flag", flags[i].name);
        put(page, ",");
        put_label(page, "value", value);
        put(page, ",");
        put_label(page, "origin", pen_origin_name(flags[i].origin));
        put(page, "} 1\n");
    }
}

static void put_models(struct page *page, struct catalog *catalog)
{
    put_family(page, "model_warm", "gauge", "1 when all declared batch sizes of the model have been run.");
    pthread_mutex_lock(&catalog->lock);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct served *served = catalog->models[i];
        put(page, "penstock_worker_model_warm{");
        put_label(page, "model", served->name);
        put(page, ",version=\"%" PRIu64 "\"} %d\n", served->version, served->warmed && !served->residence.cold);
    }
    pthread_mutex_unlock(&catalog->lock);
}

size_t vitals_text(struct vitals *vitals, uint64_t now_us, char *text, size_t room)
{
    Penstock__Heartbeat beat;
    struct page page = {.text = text, .room = room};
    const struct stats *stats = vitals->stats;
    vitals_fill(vitals, now_us, &beat);
    put_info(&page, vitals->identity);
    put_number(&page, "ready", "gauge", "1 when the broker gives work and the worker takes it.", vitals_ready(vitals));
    put_number(&page, "draining", "gauge", "1 when the worker is about to end.", atomic_load(&vitals->draining));
    put_number(&page, "slots", "gauge", "Slots.", beat.slots);
    put_number(&page, "slots_busy", "gauge", "Slots at work.", beat.slots_busy);
    put_number(&page, "queued_dispatches", "gauge", "Dispatches that wait for a slot.", beat.queued);
    put_number(&page, "jobs_done_total", "counter", "Jobs answered with a result.", beat.jobs_done);
    put_number(&page, "jobs_failed_total", "counter", "Jobs answered with an error.", beat.jobs_failed);
    put_number(&page, "jobs_cancelled_total", "counter", "Jobs stopped because nobody wanted them any more.",
               atomic_load(&stats->jobs_cancelled));
    put_number(&page, "jobs_expired_total", "counter", "Jobs whose deadline passed here.",
               atomic_load(&stats->jobs_expired));
    put_number(&page, "batches_total", "counter", "Batches run.", atomic_load(&stats->batches));
    put_number(&page, "jobs_joined_total", "counter", "Jobs with decoded pictures that ran in a batch composed here.",
               atomic_load(&stats->joined));
    put_number(&page, "runs_ahead_total", "counter",
               "Batches given to a device that was computing another of the slot.", atomic_load(&stats->runs_ahead));
    put_number(&page, "shapes_prepared_total", "counter", "Shapes made ready while jobs waited.",
               atomic_load(&stats->prepared));
    uint64_t measured = 0, recalled = 0;
    pen_measure_counts(&measured, &recalled);
    put_number(&page, "measurements_total", "counter",
               "Measurements made: of models' errors against the reference, and trials of f16.", measured);
    put_number(&page, "measurements_recalled_total", "counter",
               "Results of earlier measurements that were found beside the models instead.", recalled);
    put_number(&page, "kernels_compiled_total", "counter", "Kernels the backend has compiled.",
               pen_engine_compiled(vitals->engine));
    put_number(&page, "kernels_compiled_after_ready_total", "counter",
               "Of them those since the worker was ready: 0 unless models came later or sizes that none declared.",
               pen_engine_compiled(vitals->engine) - vitals->compiled_ready);
    put_number(&page, "rows_filled_total", "counter", "Rows run to fill a batch up to a size that is ready.",
               atomic_load(&stats->rows_filled));
    put_number(&page, "pictures_total", "counter", "Files of pictures that were decoded for jobs.",
               atomic_load(&stats->pictures));
    put_seconds(&page, "decode_seconds_total", "counter", "Time that decoding them took.",
                atomic_load(&stats->decode_us));
    put_number(&page, "busy_waits_total", "counter", "Waits for messages that were spent awake (--spin).",
               atomic_load(&stats->busy_waits));
    put_number(&page, "messages_dropped_total", "counter", "Messages from brokers that made no sense.",
               atomic_load(&stats->messages_dropped));
    put_seconds(&page, "compute_seconds_total", "counter", "Time that slots spent in the engine.", beat.compute_us);
    put_seconds(&page, "cpu_seconds_total", "counter", "Processor time of the process.", beat.cpu_us);
    put_seconds(&page, "oldest_running_seconds", "gauge", "Age of the oldest run: a wedged kernel shows here.",
                beat.oldest_running_us);
    put_seconds(&page, "uptime_seconds", "gauge", "Since the process started.", now_us - vitals->started_us);
    put_number(&page, "resident_bytes", "gauge", "Resident memory.", beat.rss_bytes);
    put_number(&page, "device_memory_bytes", "gauge", "Memory of the device that the worker may use.",
               beat.device_memory_bytes);
    put_number(&page, "device_memory_used_bytes", "gauge", "Of it, what models and their buffers hold.",
               beat.device_memory_used_bytes);
    put_number(&page, "models_cold", "gauge", "Models that are loaded when a job comes for them.", beat.models_cold);
    put_number(&page, "model_loads_total", "counter", "Models loaded because a job came.", beat.models_loaded);
    put_number(&page, "model_evictions_total", "counter", "Models that made room for another.", beat.models_evicted);
    put_models(&page, vitals->catalog);
    put_flags(&page, vitals->engine);
    return page.used < page.room ? page.used : 0;
}
