#include "load_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "command.h"

static void number(cJSON *json, const char *key, uint64_t value)
{
    cJSON_AddNumberToObject(json, key, (double)value);
}

static void middle_and_tail(cJSON *json, const char *key, const struct histogram *h)
{
    cJSON *object = cJSON_AddObjectToObject(json, key);
    number(object, "p50", histogram_at(h, 0.5));
    number(object, "p99", histogram_at(h, 0.99));
}

cJSON *load_report_json(const struct load_report *r)
{
    cJSON *json = cJSON_CreateObject();
    number(json, "requests", r->requests);
    number(json, "errors", r->errors);
    cJSON_AddNumberToObject(json, "throughput_per_s", load_throughput(r));
    cJSON *latency = cJSON_AddObjectToObject(json, "latency_us");
    number(latency, "p50", histogram_at(&r->latency_us, 0.5));
    number(latency, "p90", histogram_at(&r->latency_us, 0.9));
    number(latency, "p99", histogram_at(&r->latency_us, 0.99));
    number(latency, "p999", histogram_at(&r->latency_us, 0.999));
    number(latency, "max", r->latency_us.max);
    middle_and_tail(json, "queue_us", &r->queue_us);
    middle_and_tail(json, "compute_us", &r->compute_us);
    number(json, "cache_hits", r->cache_hits);
    cJSON_AddNumberToObject(json, "batch_mean", load_batch(r));
    cJSON_AddNumberToObject(json, "slot_us_mean", load_slot_us(r));
    if (r->late_us.count) {
        middle_and_tail(json, "late_us", &r->late_us);
    }
    return json;
}

void load_report_text(const struct load_report *r)
{
    const struct histogram *l = &r->latency_us;
    printf("requests %" PRIu64 ", errors %" PRIu64 ", from the cache %" PRIu64 ", %.1f per second over %.1f s\n",
           r->requests, r->errors, r->cache_hits, load_throughput(r), (double)r->elapsed_us * 1e-6);
    printf("latency us  p50 %" PRIu64 "  p90 %" PRIu64 "  p99 %" PRIu64 "  p99.9 %" PRIu64 "  max %" PRIu64 "\n",
           histogram_at(l, 0.5), histogram_at(l, 0.9), histogram_at(l, 0.99), histogram_at(l, 0.999), l->max);
    printf("queue us    p50 %" PRIu64 "  p99 %" PRIu64 "\n", histogram_at(&r->queue_us, 0.5),
           histogram_at(&r->queue_us, 0.99));
    printf("compute us  p50 %" PRIu64 "  p99 %" PRIu64 "  jobs in a run %.1f\n", histogram_at(&r->compute_us, 0.5),
           histogram_at(&r->compute_us, 0.99), load_batch(r));
    if (r->late_us.count && histogram_at(&r->late_us, 0.99) > 1000) {
        printf("this program submitted late: p99 %" PRIu64 " us after a job was due; it is counted in the latency\n",
               histogram_at(&r->late_us, 0.99));
    }
}

int load_report_exit(const struct load_report *r)
{
    if (!r->errors) {
        return EXIT_OK;
    }
    fprintf(stderr, "penstock: the last error was %s: %s\n", pen_status_name(r->error), r->error_text);
    return command_exit_of_answer(r->error);
}
