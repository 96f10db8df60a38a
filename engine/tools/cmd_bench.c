#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/bench.h"
#include "words.h"

static const struct setting table[] = {
    {.name = "model", .type = SETTING_TEXT, .offset = offsetof(struct bench_options, model), .help = "model file"},
    TOOL_SETTINGS(struct bench_options),
#include "tools/tool_flags.def"
    TOOL_SHAPE_SETTINGS(struct bench_options),
    {.name = "runs",
     .type = SETTING_INT,
     .offset = offsetof(struct bench_options, runs),
     .def = "0",
     .min = 0,
     .max = 1000000,
     .help = "timed runs; 0 = as many as fit in --seconds, at least 10"},
    {.name = "seconds",
     .type = SETTING_DURATION,
     .offset = offsetof(struct bench_options, seconds_us),
     .def = "2s",
     .min = 1000,
     .max = 600000000,
     .help = "time for the timed runs"},
    {.name = "in-flight",
     .type = SETTING_INT,
     .offset = offsetof(struct bench_options, in_flight),
     .def = "1",
     .unit = "runs",
     .min = 1,
     .max = 3,
     .help = "runs on the device at a time; beyond 1 the times are those from one end to the next"},
    {.name = "profile",
     .type = SETTING_FLAG,
     .offset = offsetof(struct bench_options, profile),
     .help = "also print the time per node (on vulkan they run one after the other then)"},
    {.name = "modes",
     .type = SETTING_FLAG,
     .offset = offsetof(struct bench_options, modes),
     .help = "instead: load and run in the modes default and prod, in turn, and print what prod gains"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock-engine bench",
    .usage = "penstock-engine bench --model FILE [options]",
    .about = "Times loading, warm-up, the first run and then many runs of a model on seeded random inputs.",
    .after = "JSON keys: model, backend, device, library, precision, threads, batch, open_ms, pipeline_cache, "
             "kernels_compiled, load_ms, warmup_ms, first_run_ms, start_cpu_ms, "
             "in_flight, runs, runs_per_s, median_ms, p10_ms, p90_ms, min_ms,\n"
             "before_rss_bytes, peak_rss_bytes, weights_bytes, activations_bytes, placement, inputs{name: shape}; with "
             "--profile nodes[{backend, op, node, us, macs}].\n"
             "With --modes: model, backend, pairs, load{default_ms, prod_ms, ratio, p10, p90}, run{the same}: ratio is "
             "the median of default / prod over "
             "pairs of neighbours; above 1 prod is faster.",
    .table = table,
    .variables = tool_variables,
};

#define RUNS_MAX 100000

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Floats in [0, 1), bytes in 0..9, wider integers 0 and 1 (they may be rows of a table of two), booleans: values every model can take. */
static void fill(const struct pen_tensor *t, void *data, uint64_t *seed)
{
    size_t width = pen_dtype_bits(t->dtype) / 8;
    memset(data, 0, t->bytes);
    for (size_t i = 0; width > 0 && i < t->bytes / width; i++) {
        uint64_t r = splitmix64(seed);
        float f = (float)(r >> 40) * 0x1p-24f;
        double d = (double)f;
        uint16_t half = t->dtype == PEN_DTYPE_F16 ? pen_f32_to_f16(f) : pen_f32_to_bf16(f);
        uint64_t integer = t->dtype == PEN_DTYPE_BOOL || width > 2 ? r & 1u : r % 10u;
        const void *from = t->dtype == PEN_DTYPE_F32                                 ? (const void *)&f
                           : t->dtype == PEN_DTYPE_F64                               ? (const void *)&d
                           : t->dtype == PEN_DTYPE_F16 || t->dtype == PEN_DTYPE_BF16 ? (const void *)&half
                                                                                     : (const void *)&integer;
        memcpy((char *)data + i * width, from, width);
    }
}

enum pen_status bench_inputs(struct bench *b, struct pen_error *reterr)
{
    uint64_t seed = 1;
    enum pen_status status = tool_inputs(b->model, &b->options->shapes, b->options->batch, b->inputs, TOOL_INPUTS_MAX,
                                         &b->input_count, reterr);
    for (size_t i = 0; status == PEN_OK && i < b->input_count; i++) {
        if (b->inputs[i].dtype == PEN_DTYPE_STRING) {
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "input '%s' is a string: bench makes numbers only",
                                 b->inputs[i].name);
        }
        b->buffers[i] = malloc(b->inputs[i].bytes + 64);
        if (b->buffers[i] == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for input '%s'", b->inputs[i].name);
        }
        fill(&b->inputs[i], b->buffers[i], &seed);
        b->inputs[i].data = b->buffers[i];
    }
    return status;
}

int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_ms_since(uint64_t start_ns)
{
    return (double)(tool_now_ns() - start_ns) / 1e6;
}

enum pen_status bench_run(struct bench *b, double *ret_ms, struct pen_error *reterr)
{
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    uint64_t start = tool_now_ns();
    enum pen_status status = pen_session_run(b->session, b->inputs, b->input_count, NULL, &outputs, &count, reterr);
    *ret_ms = bench_ms_since(start);
    return status;
}

/* Is another run wanted after `begun` of them? */
static bool more(const struct bench *b, size_t begun, uint64_t until)
{
    size_t want = (size_t)b->options->runs;
    return begun < RUNS_MAX && (want > 0 ? begun < want : begun < 10 || tool_now_us() < until);
}

static enum pen_status runs_alone(struct bench *b, uint64_t until, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    while (status == PEN_OK && more(b, b->runs, until)) {
        status = bench_run(b, &b->times[b->runs++], reterr);
    }
    return status;
}

static enum pen_status submit_one(struct bench *b, struct pen_error *reterr)
{
    enum pen_status status = pen_session_bind(b->session, b->inputs, b->input_count, reterr);
    for (size_t i = 0; status == PEN_OK && i < b->input_count; i++) {
        size_t room = 0;
        void *to = pen_session_input(b->session, i, &room);
        if (to != NULL && b->inputs[i].bytes <= room) {
            memcpy(to, b->inputs[i].data, b->inputs[i].bytes);
        }
    }
    return status == PEN_OK ? pen_session_submit(b->session, NULL, reterr) : status;
}

/* Keeps the device's queue filled: the time of a run is what has passed since the one before it ended. */
static enum pen_status runs_ahead(struct bench *b, uint64_t until, struct pen_error *reterr)
{
    const struct pen_tensor *outputs = NULL;
    enum pen_status status = PEN_OK;
    size_t begun = 0, count = 0;
    uint64_t before = tool_now_ns();
    while (status == PEN_OK && (more(b, begun, until) || b->runs < begun)) {
        if (begun - b->runs < b->in_flight && more(b, begun, until)) {
            status = submit_one(b, reterr);
            begun++;
            continue;
        }
        status = pen_session_await(b->session, UINT64_MAX, &outputs, &count, reterr);
        uint64_t now = tool_now_ns();
        b->times[b->runs++] = (double)(now - before) / 1e6;
        before = now;
    }
    return status;
}

/* The timed runs. */
static enum pen_status runs_time(struct bench *b, struct pen_error *reterr)
{
    const uint32_t window = pen_session_window(b->session), asked = (uint32_t)b->options->in_flight;
    b->in_flight = asked < window ? asked : window;
    uint64_t start = tool_now_ns(), until = start / 1000u + (uint64_t)b->options->seconds_us;
    enum pen_status status = b->in_flight > 1 ? runs_ahead(b, until, reterr) : runs_alone(b, until, reterr);
    b->all_ms = bench_ms_since(start);
    return status;
}

/* Processor time of all threads: neighbours on a full machine do not change it. */
static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static enum pen_status measure(struct bench *b, struct pen_error *reterr)
{
    b->before_rss = tool_rss_bytes();
    const double cpu = cpu_ms();
    uint64_t start = tool_now_ns();
    enum pen_status status = pen_model_load(b->engine, b->options->model, &b->model, reterr);
    b->load_ms = bench_ms_since(start);
    if (status == PEN_OK) {
        status = pen_session_new(b->model, &b->session, reterr);
    }
    if (status == PEN_OK) {
        status = bench_inputs(b, reterr);
    }
    start = tool_now_ns();
    if (status == PEN_OK) {
        status = pen_session_warm(b->session, b->inputs, b->input_count, NULL, NULL, reterr);
    }
    b->warmup_ms = bench_ms_since(start);
    b->start_cpu_ms = cpu_ms() - cpu;
    if (status == PEN_OK) {
        status = bench_run(b, &b->first_ms, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    b->times = calloc(RUNS_MAX, sizeof *b->times);
    if (b->times == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the times");
    }
    pen_session_profile(b->session, b->options->profile);
    status = runs_time(b, reterr);
    qsort(b->times, b->runs, sizeof *b->times, bench_compare);
    return status;
}

/* What reading the cache of compiled kernels gave ("hit": a warm start); "-" where there is none. */
static const char *pipeline_cache(const struct pen_engine *engine)
{
    const char *cache = tool_fact(engine, ".pipeline_cache");
    return cache[0] != '\0' ? cache : "-";
}

static uint64_t threads_of(const struct bench *b)
{
    return strtoull(tool_flag(b->engine, "threads"), NULL, 10);
}

/* Memory of the session: values and scratch. */
static uint64_t activations(const struct bench *b)
{
    return pen_model_memory(b->model) - pen_model_bytes(b->model);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

static void print_json(const struct bench *b)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", b->options->model);
    cJSON_AddStringToObject(o, "backend", pen_engine_backend(b->engine));
    cJSON_AddStringToObject(o, "device", pen_engine_device(b->engine));
    cJSON_AddStringToObject(o, "library", pen_engine_library(b->engine));
    cJSON_AddStringToObject(o, "precision", pen_engine_precision_name(pen_model_precision(b->model)));
    cJSON_AddNumberToObject(o, "threads", (double)threads_of(b));
    cJSON_AddNumberToObject(o, "batch", (double)b->options->batch);
    cJSON_AddNumberToObject(o, "open_ms", b->open_ms);
    cJSON_AddStringToObject(o, "pipeline_cache", pipeline_cache(b->engine));
    cJSON_AddNumberToObject(o, "kernels_compiled", (double)pen_engine_compiled(b->engine));
    cJSON_AddNumberToObject(o, "load_ms", b->load_ms);
    cJSON_AddNumberToObject(o, "warmup_ms", b->warmup_ms);
    cJSON_AddNumberToObject(o, "first_run_ms", b->first_ms);
    cJSON_AddNumberToObject(o, "start_cpu_ms", b->start_cpu_ms);
    cJSON_AddNumberToObject(o, "in_flight", (double)b->in_flight);
    cJSON_AddNumberToObject(o, "runs", (double)b->runs);
    cJSON_AddNumberToObject(o, "runs_per_s", (double)b->runs * 1000.0 / b->all_ms);
    cJSON_AddNumberToObject(o, "median_ms", b->times[b->runs / 2]);
    cJSON_AddNumberToObject(o, "p10_ms", b->times[b->runs / 10]);
    cJSON_AddNumberToObject(o, "p90_ms", b->times[b->runs * 9 / 10]);
    cJSON_AddNumberToObject(o, "min_ms", b->times[0]);
    cJSON_AddNumberToObject(o, "before_rss_bytes", (double)b->before_rss);
    cJSON_AddNumberToObject(o, "peak_rss_bytes", (double)tool_peak_rss_bytes());
    cJSON_AddNumberToObject(o, "weights_bytes", (double)pen_model_weights(b->model));
    cJSON_AddNumberToObject(o, "activations_bytes", (double)activations(b));
    cJSON_AddStringToObject(o, "placement", pen_model_placement(b->model));
    cJSON *inputs = cJSON_AddObjectToObject(o, "inputs");
    for (size_t i = 0; i < b->input_count; i++) {
        char shape[128];
        cJSON_AddStringToObject(inputs, b->inputs[i].name,
                                pen_shape_text(b->inputs[i].dims, b->inputs[i].rank, shape, sizeof shape));
    }
    tool_profile_json(o, b->session);
    char *text = cJSON_PrintUnformatted(o);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(o);
}

struct time_text bench_time(double ms)
{
    struct time_text t;
    tool_time_text(ms, t.text, sizeof t.text);
    return t;
}

static void print_text(const struct bench *b)
{
    const double *times = b->times;
    const char *cache = pipeline_cache(b->engine);
    printf("model      %s\n", b->options->model);
    printf("backend    %s, %s (%s), %s, %" PRIu64 " %s, batch %" PRId64 "\n", pen_engine_backend(b->engine),
           pen_engine_device(b->engine), pen_engine_library(b->engine),
           pen_engine_precision_name(pen_model_precision(b->model)), threads_of(b),
           words_plural(threads_of(b), "thread", "threads"), b->options->batch);
    printf("placement  %s\n", pen_model_placement(b->model));
    printf("start      %s (%s): open %s, load, warm-up; %" PRIu64 " %s compiled, their cache: %s\n",
           bench_time(b->open_ms + b->load_ms + b->warmup_ms).text, strcmp(cache, "hit") == 0 ? "warm" : "cold",
           bench_time(b->open_ms).text, pen_engine_compiled(b->engine),
           words_plural(pen_engine_compiled(b->engine), "kernel", "kernels"), cache);
    printf("load       %s\nwarm-up    %s\nfirst run  %s\n", bench_time(b->load_ms).text, bench_time(b->warmup_ms).text,
           bench_time(b->first_ms).text);
    printf("runs       %zu: median %s, p10 %s, p90 %s, min %s\n", b->runs, bench_time(times[b->runs / 2]).text,
           bench_time(times[b->runs / 10]).text, bench_time(times[b->runs * 9 / 10]).text, bench_time(times[0]).text);
    printf("rate       %.1f runs/s with %u on their way at a time%s\n", (double)b->runs * 1000.0 / b->all_ms,
           b->in_flight, b->in_flight < b->options->in_flight ? ": the backend takes no more" : "");
    printf("peak RSS   %.1f MiB, %.1f MiB of it before the load; the model's weights take %.1f MiB, what it computes "
           "%.1f MiB\n",
           mib(tool_peak_rss_bytes()), mib(b->before_rss), mib(pen_model_weights(b->model)), mib(activations(b)));
    tool_profile_print(b->session);
}

void bench_fini(struct bench *b)
{
    for (size_t i = 0; i < b->input_count; i++) {
        free(b->buffers[i]);
    }
    free(b->times);
    pen_session_free(b->session);
    pen_model_free(b->model);
    pen_engine_free(b->engine);
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct bench_options *options = from;
    struct bench b = {.options = options};
    struct pen_error error = {0};
    (void)paths, (void)count;
    if (options->modes) {
        return bench_modes(options);
    }
    struct tool_options tool = options->tool;
    tool.profile_nodes = options->profile;
    struct setting_given given;
    tool.in_flight = options->in_flight;
    tool.in_flight_given = settings_given(tool.settings, "in-flight", &given);
    uint64_t start = tool_now_ns();
    int code = tool_engine(&tool, false, &b.engine);
    b.open_ms = bench_ms_since(start);
    if (code == TOOL_OK && measure(&b, &error) != PEN_OK) {
        code = tool_fail(&error);
    } else if (code == TOOL_OK) {
        (options->tool.json ? print_json : print_text)(&b);
    }
    bench_fini(&b);
    return code;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_options options = {0};
    const struct tool_command command = {&program, &options, &options.model, 0, run, &options.tool};
    return tool_run(&command, argc, argv);
}
