/* loader.c - a thread for each load: a thread's priority only goes down. */
#include "loader.h"

#include "warmup.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOW_PRIORITY 19

struct load {
    struct pen_engine *engine;
    struct catalog_entry *entry; /* NULL: `served` is cold and comes back */
    uint32_t slots;
    bool warm; /* here, too */
    struct served *served;
    enum pen_status status;
    struct pen_error *reterr;
};

static void *load_main(void *argument)
{
    struct load *load = argument;
    pthread_setname_np(pthread_self(), "load");
    setpriority(PRIO_PROCESS, (id_t)gettid(), LOW_PRIORITY); /* of this thread, on Linux */
    load->status = load->entry ? catalog_entry_load(load->entry, load->engine, &load->served, load->reterr)
                               : served_heat(load->served, load->engine, load->reterr);
    if (load->status == PEN_OK && load->warm)
        load->status = warmup_run(load->served, load->slots, load->reterr);
    return NULL;
}

static enum pen_status run(struct load *load, const char *name)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, load_main, load) != 0)
        return pen_error_set(load->reterr, PEN_ERR_NO_MEMORY, "cannot start a thread to load model '%s'", name);
    pthread_join(thread, NULL);
    if (load->status == PEN_OK && !load->warm)
        load->status = warmup_run(load->served, load->slots, load->reterr);
    return load->status;
}

enum pen_status loader_run(struct pen_engine *engine, struct catalog_entry *entry, uint32_t slots, uint32_t threads,
                           struct served **ret_served, struct pen_error *reterr)
{
    struct load load = {.engine = engine, .entry = entry, .slots = slots, .warm = threads <= 1, .reterr = reterr};
    enum pen_status status = run(&load, entry->name);
    if (status == PEN_OK)
        *ret_served = load.served;
    else
        served_free(load.served);
    return status;
}

enum pen_status loader_heat(struct pen_engine *engine, struct served *served, uint32_t slots, uint32_t threads,
                            struct pen_error *reterr)
{
    struct load load = {.engine = engine, .slots = slots, .warm = threads <= 1, .served = served, .reterr = reterr};
    enum pen_status status = run(&load, served->name);
    if (status != PEN_OK)
        served_cool(served);
    return status;
}
