/* Squares around objects: where their pixels lie in the picture, by hand. */
#include "cutout.h"

#include <criterion/criterion.h>
#include <math.h>

static void leads_to(const struct answer_map *map, double x, double y, double to_x, double to_y)
{
    double got_x = map->m[0] * x + map->m[1] * y + map->m[2], got_y = map->m[3] * x + map->m[4] * y + map->m[5];
    cr_expect(fabs(got_x - to_x) < 1e-4 && fabs(got_y - to_y) < 1e-4, "%g %g leads to %g %g, not %g %g", x, y, got_x,
              got_y, to_x, to_y);
}

static const struct picture picture = {.width = 100, .height = 80, .channels = 3};

/* A box of 20 x 10 around (30, 40), twice as large: 40 x 40. */
Test(cutout, an_upright_square_around_the_box)
{
    const struct ensemble_plan_crop crop = {.present = true, .scale = 2, .to = 1};
    const float box[4] = {20, 35, 40, 45};
    struct answer_map map = cutout_map(&crop, box, NULL, &picture, 10, 10);
    cr_expect(map.width == 100 && map.height == 80);
    leads_to(&map, 0, 0, 10, 20);
    leads_to(&map, 10, 10, 50, 60);
    leads_to(&map, 5, 5, 30, 40);
}

/* The second point lies straight below the first: the cut-out's x goes down in the picture. */
Test(cutout, points_become_level)
{
    const struct ensemble_plan_crop crop = {.present = true, .turned = true, .scale = 1, .from = 1, .to = 0};
    const float box[4] = {20, 30, 40, 50}, points[6] = {30, 48, 1, 30, 32, 1};
    struct answer_map map = cutout_map(&crop, box, points, &picture, 20, 20);
    leads_to(&map, 10, 10, 30, 40);
    leads_to(&map, 20, 10, 30, 50);
    leads_to(&map, 10, 20, 20, 40);
    leads_to(&map, 0, 0, 40, 30);
}
