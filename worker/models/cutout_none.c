/* cutout_none.c - instead of cutout.c in builds that decode no pictures: no ensemble with crop gets so far. */
#include "cutout.h"

enum pen_status cutout_open(const uint8_t *bytes, size_t size, const struct served *model, struct picture *ret_picture,
                            struct pen_error *reterr)
{
    (void)bytes;
    (void)size;
    (void)model;
    (void)ret_picture;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this worker was built without pictures (PENSTOCK_PICTURES)");
}

void cutout_close(struct picture *picture)
{
    (void)picture;
}

enum pen_status cutout_file(const struct pen_tensor *tensor, const uint8_t **ret_bytes, size_t *ret_size,
                            struct pen_error *reterr)
{
    (void)tensor;
    (void)ret_bytes;
    (void)ret_size;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this worker was built without pictures (PENSTOCK_PICTURES)");
}

struct uncut *uncut_new(const struct served *model, const struct pen_tensor *files, atomic_uint_fast64_t *held,
                        uint64_t limit, uint64_t now_us)
{
    (void)model;
    (void)files;
    (void)held;
    (void)limit;
    (void)now_us;
    return NULL;
}

void uncut_free(struct uncut *uncut)
{
    (void)uncut;
}

struct answer_map cutout_map(const struct ensemble_plan_crop *crop, const float box[4], const float *points,
                             const struct picture *picture, uint32_t width, uint32_t height)
{
    (void)crop;
    (void)box;
    (void)points;
    (void)picture;
    return (struct answer_map){.width = width, .height = height};
}

void cutout_sample(const struct picture *picture, const struct answer_map *map, const struct served *served, void *to)
{
    (void)picture;
    (void)map;
    (void)served;
    (void)to;
}
