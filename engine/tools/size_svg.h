/*
 * size_svg.h - a treemap of what parts weigh, as SVG: areas are bytes, and two maps are drawn to one scale side by side.
 *
 * Threads: any.
 */
#ifndef SIZE_SVG_H
#define SIZE_SVG_H

#include "tools/size_map.h"

/* before: NULL = `after` alone. */
enum pen_status size_svg_write(const char *path, const struct size_map *before, const struct size_map *after,
                               struct pen_error *reterr);

#endif
