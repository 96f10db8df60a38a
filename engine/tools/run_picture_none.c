/* run_picture_none.c - in place of run_picture.c where PENSTOCK_FOLDERS leaves the folder picture out. */
#include "tools/run_picture.h"

enum pen_status picture_into(const uint8_t *bytes, size_t size, const char *path, double scale, struct rt_arena *arena,
                             struct pen_tensor *t, struct pen_error *reterr)
{
    (void)bytes, (void)size, (void)scale, (void)arena, (void)t;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                         "%s: this build reads no pictures; give a .npy, or build with picture in -DPENSTOCK_FOLDERS",
                         path);
}

bool picture_known(const uint8_t *bytes, size_t size)
{
    (void)bytes, (void)size;
    return false;
}
