/*
 * bench_orders.c - unloads and loads a model again and again through the broker, over one connection: what the asking costs stays small beside what is
 * asked for. Prints one JSON object.
 *
 * Usage: bench_orders ENDPOINT MODEL SECONDS PAUSE_MS [--idle]: --idle only loads, which is nothing to do for a model that serves.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "penstock/admin.h"
#include "penstock/client.h"

#define WAIT_US  120000000 /* of one order */
#define READY_US 5000000

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Milliseconds that it took; ends the program when it fails. */
static double order(pen_client *client, const char *model, bool load)
{
    struct pen_error error = {0};
    double start = now_ms();
    enum pen_status status = load ? pen_client_model_load(client, model, WAIT_US, NULL, &error)
                                  : pen_client_model_unload(client, model, WAIT_US, NULL, &error);
    if (status != PEN_OK) {
        fprintf(stderr, "bench_orders: %s %s: %s\n", load ? "load" : "unload", model, error.text);
        exit(1);
    }
    return now_ms() - start;
}

int main(int argc, char **argv)
{
    struct pen_client_options options;
    struct pen_error error = {0};
    pen_client *client = NULL;
    if (argc < 5) {
        fprintf(stderr, "usage: bench_orders ENDPOINT MODEL SECONDS PAUSE_MS [--idle]\n");
        return 2;
    }
    bool idle = argc > 5 && strcmp(argv[5], "--idle") == 0;
    double until = now_ms() + strtod(argv[3], NULL) * 1e3, loading = 0, longest = 0;
    uint64_t loads = 0;
    long pause = strtol(argv[4], NULL, 10);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = argv[1];
    options.connect_timeout_us = READY_US;
    options.spin_us = 0;
    if (pen_client_connect(&options, &client, &error) != PEN_OK) {
        fprintf(stderr, "bench_orders: %s\n", error.text);
        return 1;
    }
    for (; now_ms() < until; loads++) {
        if (!idle) {
            order(client, argv[2], false);
            pause_ms(pause); /* what is still on its way out would only be offered again */
        }
        double took = order(client, argv[2], true);
        loading += took;
        longest = took > longest ? took : longest;
        pause_ms(pause);
    }
    pen_client_free(client);
    printf("{\"loads\": %" PRIu64 ", \"load_ms\": %.3f, \"longest_ms\": %.3f}\n", loads,
           loads > 0 ? loading / (double)loads : 0.0, longest);
    return 0;
}
