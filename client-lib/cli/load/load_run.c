#include "load_run.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "deadline.h"
#include "urgency.h"
#include "words.h"

#define STRAGGLER_US 60000000u  /* after the end, for jobs without a deadline */
#define COPIED_BYTES (1u << 20) /* a job of more takes this thread longer than a slice */

struct load {
    const struct load_plan *plan;
    struct load_report *report;
    uint64_t start_us, stop_us, progress_us;
    uint64_t counter;   /* of inputs */
    uint64_t in_flight; /* asynchronous jobs */
    bool closed;        /* a job that ends starts the next */
    uint64_t random;    /* state of the generator of random times */
    double due_us;      /* of the last job of a rate, since the start */
    uint64_t numbered;  /* jobs of the rate so far */
};

/* One asynchronous job: when it was due. */
struct shot {
    struct load *load;
    uint64_t due_us;
};

static void note_error(struct load_report *r, enum pen_status status, const char *text)
{
    r->errors++;
    r->error = status;
    snprintf(r->error_text, sizeof r->error_text, "%s", text);
}

static void note(const struct load *load, uint64_t due_us, const pen_result *result)
{
    struct load_report *r = load->report;
    const struct pen_result_info *info = pen_result_info(result);
    uint64_t latency_us = clock_now_us() - due_us;
    r->requests++;
    if (pen_result_status(result) != PEN_OK) {
        note_error(r, pen_result_status(result), pen_result_error(result));
        return;
    }
    histogram_add(&r->latency_us, latency_us);
    if (load->plan->each) {
        load->plan->each(load->plan->context, result, latency_us);
    }
    r->cache_hits += info->cached;
    if (!info->cached) {
        r->batched += info->batch_size;
        r->slot_us += (double)info->compute_us / (double)(info->batch_size ? info->batch_size : 1u);
        histogram_add(&r->queue_us, info->queue_us);
        histogram_add(&r->compute_us, info->compute_us);
    }
}

static void progress(struct load *load, uint64_t now_us)
{
    const struct load_report *r = load->report;
    if (!load->plan->progress || now_us < load->progress_us) {
        return;
    }
    fprintf(stderr, "\r%3.0f s: %llu %s, %llu %s, p50 %llu us, p99 %llu us  ", (double)(now_us - load->start_us) * 1e-6,
            (unsigned long long)r->requests, words_plural(r->requests, "answer", "answers"),
            (unsigned long long)r->errors, words_plural(r->errors, "error", "errors"),
            (unsigned long long)histogram_at(&r->latency_us, 0.5),
            (unsigned long long)histogram_at(&r->latency_us, 0.99));
    load->progress_us = now_us + 1000000;
}

static void vary(struct load *load)
{
    if (load->plan->unique) {
        inputs_vary(load->plan->inputs, load->start_us + ++load->counter);
    }
}

static struct pen_job_options job_of(const struct load *load)
{
    struct pen_job_options job = load->plan->job;
    job.inputs = load->plan->inputs->tensors;
    job.inputs_count = load->plan->inputs->count;
    return job;
}

static void pause_us(long us)
{
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* One at a time, in the blocking style: the shortest path there is. */
static void run_one_by_one(struct load *load)
{
    struct pen_job_options job = job_of(load);
    for (uint64_t now = clock_now_us(); now < load->stop_us; now = clock_now_us()) {
        struct pen_error error = {.status = PEN_OK, .text = ""};
        pen_result *result = NULL;
        vary(load);
        if (load->plan->unique) {
            now = clock_now_us();
        }
        if (pen_client_run(load->plan->client, &job, &result, &error) == PEN_OK) {
            note(load, now, result);
            pen_result_free(result);
        } else {
            load->report->requests++;
            note_error(load->report, error.status, error.text);
            pause_us(1000); /* refusals come fast: do not hammer */
        }
        progress(load, now);
    }
}

static bool shoot(struct load *load, uint64_t due_us, const struct pen_job_options *job);

static void on_result(pen_job *job, pen_result *result, void *arg)
{
    struct shot *shot = arg;
    struct load *load = shot->load;
    (void)job;
    load->in_flight--;
    note(load, shot->due_us, result);
    bool ok = pen_result_status(result) == PEN_OK;
    pen_result_free(result);
    free(shot);
    uint64_t now = clock_now_us();
    if (load->closed && now < load->stop_us) {
        if (!ok) {
            pause_us(1000);
        }
        shoot(load, now, NULL);
    }
}

/* given: NULL = the plan's job. False: refused on the spot, counted as an error. */
static bool shoot(struct load *load, uint64_t due_us, const struct pen_job_options *given)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct shot *shot = malloc(sizeof *shot);
    struct pen_job_options job = given ? *given : job_of(load);
    if (!given) {
        vary(load);
    }
    job.callback = on_result;
    job.callback_arg = shot;
    enum pen_status status = shot ? PEN_OK : pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory for a job.");
    if (shot) {
        *shot = (struct shot){load, due_us};
        load->in_flight++;
        status = pen_client_submit(load->plan->client, &job, NULL, &error);
    }
    if (status == PEN_OK) {
        return true;
    }
    load->in_flight -= shot != NULL;
    free(shot);
    load->report->requests++;
    note_error(load->report, status, error.text);
    return false;
}

static void wait_for_stragglers(struct load *load)
{
    uint64_t limit = clock_now_us() + STRAGGLER_US;
    load->closed = false;
    while (load->in_flight && clock_now_us() < limit) {
        pen_client_dispatch(load->plan->client, 100000);
    }
}

static void run_closed(struct load *load)
{
    load->closed = true;
    for (int64_t i = 0; i < load->plan->concurrency; i++) {
        shoot(load, clock_now_us(), NULL);
    }
    for (uint64_t now = clock_now_us(); now < load->stop_us; now = clock_now_us()) {
        pen_client_dispatch(load->plan->client, 100000);
        while ((int64_t)load->in_flight < load->plan->concurrency && shoot(load, clock_now_us(), NULL)) {
        }
        progress(load, now);
    }
    wait_for_stragglers(load);
}

/* The descriptor allows waits of less than a millisecond. */
static void wait_until(struct load *load, int fd, uint64_t due_us)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    for (uint64_t now = clock_now_us(); now < due_us; now = clock_now_us()) {
        uint64_t left = due_us - now;
        struct timespec timeout = {.tv_sec = (time_t)(left / 1000000), .tv_nsec = (long)(left % 1000000) * 1000};
        if (ppoll(&item, 1, &timeout, NULL) > 0) {
            pen_client_dispatch(load->plan->client, 0);
        }
    }
}

/* In 0..1, 0 excepted; splitmix64. */
static double random_share(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return ((double)((z ^ (z >> 31)) >> 11) + 1.0) * 0x1p-53;
}

/* Independent arrivals have gaps of exponential lengths. */
static bool next_of_rate(struct load *load, struct load_due *ret_due)
{
    const struct load_plan *plan = load->plan;
    if (plan->arrivals == LOAD_POISSON) {
        load->due_us += -log(random_share(&load->random)) * 1e6 / plan->rate;
    } else {
        load->due_us = (double)load->numbered++ * 1e6 / plan->rate;
    }
    *ret_due = (struct load_due){.at_us = (uint64_t)load->due_us};
    return true;
}

static bool next_due(struct load *load, struct load_due *ret_due)
{
    bool found = load->plan->next ? load->plan->next(load->plan->context, ret_due) : next_of_rate(load, ret_due);
    return found && load->start_us + ret_due->at_us < load->stop_us;
}

static void run_open(struct load *load)
{
    int fd = pen_client_fd(load->plan->client);
    struct load_due due;
    while (next_due(load, &due)) {
        uint64_t due_us = load->start_us + due.at_us;
        wait_until(load, fd, due_us);
        histogram_add(&load->report->late_us, clock_now_us() - due_us);
        shoot(load, due_us, due.job);
        pen_client_dispatch(load->plan->client, 0);
        progress(load, due_us);
    }
    wait_for_stragglers(load);
}

/* Who copies large payloads all the time would keep its processor to the next tick from all those that wake up with slices no shorter than its own. */
static bool is_short(const struct load_plan *plan)
{
    size_t bytes = 0;
    for (size_t i = 0; i < plan->inputs->count; i++) {
        bytes += plan->inputs->tensors[i].bytes;
    }
    return bytes <= COPIED_BYTES;
}

void load_run(const struct load_plan *plan, struct load_report *report)
{
    struct load load = {.plan = plan, .report = report, .start_us = clock_now_us(), .random = plan->seed};
    load.stop_us = load.start_us + (uint64_t)plan->duration_us;
    load.progress_us = load.start_us + 1000000;
    urgency_ask(is_short(plan) ? URGENCY_SLICE_US : 0); /* what is measured is not how late this thread got its turn */
    if (plan->rate > 0.0 || plan->next) {
        run_open(&load);
    } else if (plan->concurrency > 1) {
        run_closed(&load);
    } else {
        run_one_by_one(&load);
    }
    report->elapsed_us = clock_now_us() - load.start_us;
    if (plan->progress) {
        fprintf(stderr, "\n");
    }
}

double load_throughput(const struct load_report *r)
{
    return r->elapsed_us ? (double)(r->requests - r->errors) * 1e6 / (double)r->elapsed_us : 0.0;
}

double load_batch(const struct load_report *r)
{
    return r->compute_us.count ? (double)r->batched / (double)r->compute_us.count : 0.0;
}

double load_slot_us(const struct load_report *r)
{
    return r->compute_us.count ? r->slot_us / (double)r->compute_us.count : 0.0;
}
