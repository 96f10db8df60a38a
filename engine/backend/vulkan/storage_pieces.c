#include "backend/vulkan/storage_pieces.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES 3 /* with half of the share each: what was added up may be too little */

/* The largest sum over all measures if this piece came to those taken. */
static double sum_with(const double *sums, const double *added, size_t measures)
{
    double largest = 0.0;
    for (size_t m = 0; m < measures; m++) {
        largest = fmax(largest, sums[m] + added[m]);
    }
    return largest;
}

static uint32_t cheapest(const double *sums, const double *added, const uint64_t *bytes, uint32_t count,
                         size_t measures, double share, const bool *taken)
{
    uint32_t best = count;
    double best_cost = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        double sum = taken[i] || bytes[i] == 0 ? HUGE_VAL : sum_with(sums, added + i * measures, measures);
        double cost = sum / (double)(bytes[i] + 1);
        if (sum <= share && cost < best_cost) {
            best = i;
            best_cost = cost;
        }
    }
    return best;
}

void vk_pieces_take(const double *added, const uint64_t *bytes, uint32_t count, size_t measures, double share,
                    bool *taken)
{
    double *sums = calloc(measures + 1, sizeof *sums);
    memset(taken, 0, count * sizeof *taken);
    for (uint32_t next = 0; sums != NULL && next < count;) {
        next = cheapest(sums, added, bytes, count, measures, share, taken);
        if (next < count) {
            taken[next] = true;
            for (size_t m = 0; m < measures; m++) {
                sums[m] += added[next * measures + m];
            }
        }
    }
    free(sums);
}

/* Pieces are as long as each other: piece `i` of `count` begins here. */
static uint32_t piece_first(const struct plan *plan, uint32_t i, uint32_t count)
{
    return (uint32_t)((uint64_t)plan->part.node_count * i / count);
}

/* keep: [node_count of the partition] nodes that must be f32 whatever piece they are in. */
static void apply(struct plan *plan, const bool *keep, const bool *taken, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = piece_first(plan, i, count); k < piece_first(plan, i + 1, count); k++) {
            plan->wide[plan->part.nodes[k]] = !taken[i] || keep[k];
        }
    }
}

/* Every piece alone. */
static enum pen_status measure(struct plan *plan, struct vk_trial *t, const struct shape_env *env, const bool *keep,
                               uint32_t count, double *added, uint64_t *bytes, struct pen_error *reterr)
{
    const size_t measures = vk_trial_measures(t);
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        bool alone[VK_PIECES_MAX] = {[0] = false};
        double worst = 0.0;
        alone[i] = true;
        apply(plan, keep, alone, count);
        status = vk_trial_run(t, plan->wide, &worst, reterr);
        memcpy(added + i * measures, vk_trial_deviations(t), measures * sizeof *added);
        bytes[i] = 0;
        for (uint32_t k = piece_first(plan, i, count); k < piece_first(plan, i + 1, count); k++) {
            bytes[i] += keep[k] ? 0 : vk_storage_bytes(plan, env, k);
        }
    }
    return status;
}

static enum pen_status find(struct plan *plan, struct vk_trial *t, const struct shape_env *env, const bool *keep,
                            double *added, double share, double *ret_after, struct pen_error *reterr)
{
    const uint32_t nodes = plan->part.node_count, count = nodes < VK_PIECES_MAX ? nodes : VK_PIECES_MAX;
    uint64_t bytes[VK_PIECES_MAX] = {0};
    bool taken[VK_PIECES_MAX] = {false};
    double after = HUGE_VAL, within = share;
    enum pen_status status = measure(plan, t, env, keep, count, added, bytes, reterr);
    for (int i = 0; status == PEN_OK && i <= RETRIES && after > share; i++, within /= 2.0) {
        vk_pieces_take(added, bytes, count, vk_trial_measures(t), within, taken);
        apply(plan, keep, taken, count);
        status = vk_trial_run(t, plan->wide, &after, reterr);
    }
    if (after > share) {
        memset(taken, 0, sizeof taken);
        apply(plan, keep, taken, count);
        after = 0.0;
    }
    *ret_after = after;
    return status;
}

enum pen_status vk_pieces_find(struct plan *plan, struct vk_trial *t, const struct shape_env *env, double share,
                               double *ret_after, struct pen_error *reterr)
{
    const uint32_t nodes = plan->part.node_count;
    bool *keep = calloc((size_t)nodes + 1, sizeof *keep);
    double *added = calloc(VK_PIECES_MAX * vk_trial_measures(t) + 1, sizeof *added);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (keep != NULL && added != NULL) {
        for (uint32_t i = 0; i < nodes; i++) {
            keep[i] = vk_trial_beyond(t, i);
        }
        status = find(plan, t, env, keep, added, share, ret_after, reterr);
    } else {
        pen_error_set(reterr, status, "vulkan: no memory for a trial");
    }
    free(keep);
    free(added);
    return status;
}
