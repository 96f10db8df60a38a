/* fetched_none.c - a worker built without the folder registry: its models lie in a folder. */
#include "fetched.h"

#include <string.h>

bool fetched_wanted(const struct options *options)
{
    return strncmp(options->models, "registry:", 9) == 0;
}

enum pen_status fetched_open(const struct options *options, struct fetched **ret_fetched, struct pen_error *reterr)
{
    (void)ret_fetched;
    return pen_error_set(
        reterr, PEN_ERR_UNSUPPORTED,
        "--models %.200s: this worker was built without registries (PENSTOCK_FOLDERS names no registry); "
        "give it a folder, which `penstock model pull --to` can fill",
        options->models);
}

void fetched_stop(struct fetched *fetched)
{
    (void)fetched;
}

void fetched_close(struct fetched *fetched)
{
    (void)fetched;
}

const char *fetched_folder(const struct fetched *fetched)
{
    (void)fetched;
    return "";
}

void fetched_failures(const struct fetched *fetched, struct catalog *catalog)
{
    (void)fetched;
    (void)catalog;
}

void fetched_look(struct fetched *fetched, const struct catalog *catalog)
{
    (void)fetched;
    (void)catalog;
}
