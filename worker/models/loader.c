/* loader.c - does in the background: loading, warming up, freeing. */
#include "loader.h"

#include "background.h"
#include "error_complete.h"
#include "measure.h"
#include "warmup.h"

struct load {
    struct pen_engine *engine;
    struct catalog_entry *entry; /* NULL: `served` is a cold model that is loaded again */
    uint32_t slots;
    struct served *served;
    enum pen_status status;
    struct pen_error *reterr;
};

/* The helper threads of a run have the priority of serving threads, so none are used. */
static void load_aside(void *argument)
{
    struct load *load = argument;
    pen_thread_alone(true);
    load->status = load->entry ? catalog_entry_load(load->entry, load->engine, &load->served, load->reterr)
                               : served_heat(load->served, load->engine, load->reterr);
    if (load->status == PEN_OK)
        load->status = warmup_run(load->served, load->slots, load->reterr);
    if (load->status == PEN_OK)
        load->status = measure_settle(load->served, load->reterr);
}

static enum pen_status run(struct load *load, uint32_t threads, const char *name)
{
    if (background_run("load", load_aside, load) != PEN_OK)
        return load->status =
                   pen_error_set(load->reterr, PEN_ERR_NO_MEMORY, "cannot start a thread to load model '%s'", name);
    if (load->status == PEN_OK && threads > 1)
        load->status = warmup_helped(load->served, load->reterr);
    return error_complete(load->reterr, load->status, "load the model");
}

enum pen_status loader_run(struct pen_engine *engine, struct catalog_entry *entry, uint32_t slots, uint32_t threads,
                           struct served **ret_served, struct pen_error *reterr)
{
    struct load load = {.engine = engine, .entry = entry, .slots = slots, .reterr = reterr};
    enum pen_status status = run(&load, threads, entry->name);
    if (status == PEN_OK)
        *ret_served = load.served;
    else
        served_free(load.served);
    return status;
}

enum pen_status loader_heat(struct pen_engine *engine, struct served *served, uint32_t slots, uint32_t threads,
                            struct pen_error *reterr)
{
    struct load load = {.engine = engine, .slots = slots, .served = served, .reterr = reterr};
    enum pen_status status = run(&load, threads, served->name);
    if (status != PEN_OK)
        served_cool(served);
    return status;
}

/* What was measured of the same content on the same engine holds. */
static void wake(void *argument)
{
    struct load *load = argument;
    load->status = served_heat(load->served, load->engine, load->reterr);
    if (load->status == PEN_OK)
        load->status = warmup_again(load->served, load->slots, load->reterr);
    if (load->status == PEN_OK && atomic_load(&load->served->measured_as) == SERVED_NOT_MEASURED)
        load->status = measure_settle(load->served, load->reterr);
}

enum pen_status loader_wake(struct pen_engine *engine, struct served *served, uint32_t slots, bool aside,
                            struct pen_error *reterr)
{
    struct load load = {.engine = engine, .slots = slots, .served = served, .reterr = reterr};
    if (!aside || background_run("load", wake, &load) != PEN_OK)
        wake(&load);
    if (load.status != PEN_OK)
        served_cool(served);
    return error_complete(reterr, load.status, "load the model");
}

static void free_aside(void *argument)
{
    served_free(argument);
}

static void cool_aside(void *argument)
{
    served_cool(argument);
}

void loader_free(struct served *served)
{
    if (background_run("unload", free_aside, served) != PEN_OK)
        served_free(served);
}

void loader_cool(struct served *served)
{
    if (background_run("unload", cool_aside, served) != PEN_OK)
        served_cool(served);
}
