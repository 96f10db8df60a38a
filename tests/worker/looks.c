#include "looks.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onnx_file.h"

char looks_root[FOLDER_PATH_BYTES];
struct catalog looks_catalog;
struct options looks_options;
struct watch looks_watch;
static uint64_t generation;

const char *looks_at(const char *path)
{
    static char paths[4][FOLDER_PATH_BYTES + 96];
    static size_t next;
    char *whole = paths[next++ % 4];
    snprintf(whole, sizeof paths[0], "%s/%.80s", looks_root, path);
    return whole;
}

void looks_put_text(const char *path, const char *text)
{
    file_write(looks_at(path), text, strlen(text));
}

uint8_t *looks_model(const char *op, size_t *ret_size)
{
    const struct onnx_node node = {.op = op, .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    return onnx_bytes(
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1},
        ret_size);
}

/* `folder` below the root with that model, in one step. */
void looks_put(const char *folder, const char *op)
{
    char part[96], whole[96];
    size_t size = 0;
    uint8_t *bytes = looks_model(op, &size);
    folder_make(looks_at(folder));
    snprintf(part, sizeof part, "%s/.part", folder);
    snprintf(whole, sizeof whole, "%s/model.onnx", folder);
    file_write(looks_at(part), bytes, size);
    cr_assert(rename(looks_at(part), looks_at(whole)) == 0);
    free(bytes);
}

void looks_put_sum(const char *folder)
{
    char file[96];
    folder_make(looks_at(folder));
    snprintf(file, sizeof file, "%s/model.onnx", folder);
    onnx_write_sum(looks_at(file));
}

/* True: the list of offers has changed. */
bool looks_again(void)
{
    bool again = false, changed = watch_look(&looks_watch, &again);
    if (changed)
        retired_offered(&looks_watch.retired, ++generation);
    retired_steps(&looks_watch.retired, generation); /* what was withdrawn settles at once */
    return changed;
}

/* What is offered, "a:1 a:2"; what only lingers in parentheses. */
static const char *offers(void)
{
    static char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < looks_catalog.count; i++) {
        const struct served *served = looks_catalog.models[i];
        if (served->withdrawn)
            continue;
        const char *form = retired_has(&looks_watch.retired, served) ? "%s(%s:%d)" : "%s%s:%d";
        used += (size_t)snprintf(text + used, sizeof text - used, form, used ? " " : "", served->name,
                                 (int)served->version);
    }
    return text;
}

void looks_offers_are(const char *expected)
{
    cr_assert_str_eq(offers(), expected, "'%s' instead of '%s'", offers(), expected);
}

char looks_log[LOOKS_LOG_BYTES];

/* How often the log says it. Redirected stderr can be read once: what was read is kept. */
size_t looks_logged(const char *part)
{
    size_t used = strlen(looks_log), count = 0;
    fflush(stderr);
    used += fread(looks_log + used, 1, sizeof looks_log - 1 - used, cr_get_redirected_stderr());
    looks_log[used] = '\0';
    for (const char *found = strstr(looks_log, part); found; found = strstr(found + 1, part))
        count++;
    return count;
}

static struct pen_engine *engine_open(void)
{
    struct pen_engine *engine = NULL;
    struct pen_engine_options settings;
    struct pen_error error = {0};
    pen_engine_options_init(&settings);
    settings.backend = "reference";
    cr_assert(pen_engine_new(&settings, &engine, &error) == PEN_OK, "%s", error.text);
    return engine;
}

/* A start with what lies in the folder. */
void looks_start(void)
{
    struct pen_error error = {0};
    cr_assert(catalog_scan(looks_root, NULL, 0, &looks_catalog, &error) == PEN_OK, "%s", error.text);
    cr_assert(catalog_load(&looks_catalog, looks_watch.context.engine, NULL, NULL, NULL, &error) == PEN_OK, "%s",
              error.text);
    while (looks_catalog.entries_count > 0)
        catalog_entry_drop(&looks_catalog, 0);
    looks_watch.seen.failures = looks_catalog.failures;
}

void looks_setup(void)
{
    cr_redirect_stderr();
    folder_new(looks_root);
    looks_put("a/1", "Neg");
    looks_options = (struct options){.models = looks_root};
    looks_watch.context = (struct watch_context){.catalog = &looks_catalog,
                                                 .engine = engine_open(),
                                                 .options = &looks_options,
                                                 .facts = {.slots = 1, .threads = 1}};
    looks_watch.context.orders = orders_new();
    looks_watch.retired.catalog = &looks_catalog;
    looks_watch.retired.quiet_us = 60000000; /* what is replaced lingers for the whole test */
    pthread_mutex_init(&looks_watch.lock, NULL);
}

void looks_teardown(void)
{
    retired_fini(&looks_watch.retired);
    catalog_fini(&looks_catalog);
    orders_free(looks_watch.context.orders);
    pen_engine_free(looks_watch.context.engine);
    folder_free(looks_root);
}
