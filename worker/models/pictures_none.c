/* pictures_none.c - in place of pictures.c in a build without PENSTOCK_PICTURES: such a model is refused, so no job ever brings files. */
#include "pictures.h"

enum pen_status pictures_join(struct served *served, struct pen_error *reterr)
{
    return pen_error_set(
        reterr, PEN_ERR_UNSUPPORTED,
        "config.json of '%.64s' has picture, but this worker was built without PENSTOCK_PICTURES: take "
        "it out, or build the worker with it",
        served->name);
}

bool pictures_carried(const struct served *served, int index, const struct pen_tensor *tensor)
{
    (void)served;
    (void)index;
    (void)tensor;
    return false;
}

struct pictures *pictures_prepare(const struct served *served, const struct pen_tensor *files,
                                  atomic_uint_fast64_t *held, uint64_t limit, uint64_t now_us)
{
    (void)served;
    (void)files;
    (void)held;
    (void)limit;
    (void)now_us;
    return NULL;
}

void pictures_free(struct pictures *pictures)
{
    (void)pictures;
}
