#include "infer_count.h"

#include "deadline.h"

static uint64_t rows_of(const struct infer_tally *tally)
{
    const struct pen_tensor *first = &tally->inference->inputs[0];
    uint64_t rows = 1;
    if (first->rank == 0 || first->dims[0] <= 1)
        return rows;
    const struct listing *listing = directory_peek(tally->session->directory);
    const struct pen_model *model = listing ? listing_find(listing, tally->model, tally->version) : NULL;
    if (model && model_batch_max(model) > 0)
        rows = (uint64_t)first->dims[0];
    listing_release(listing);
    return rows;
}

void infer_count(const struct infer_tally *tally)
{
    const struct pen_result_info *info = tally->result ? pen_result_info(tally->result) : NULL;
    struct usage_request request = {
        .model = tally->model, .backend = "", .total_ns = (clock_now_us() - tally->began_us) * 1000};
    if (!info || tally->status == PEN_ERR_NOT_FOUND)
        return;
    request.failed = tally->status != PEN_OK;
    request.cancelled = tally->status == PEN_ERR_CANCELLED;
    request.version = info->version;
    request.backend = info->backend;
    request.rows = rows_of(tally);
    request.queue_ns = info->queue_us * 1000;
    request.infer_ns = info->compute_us * 1000;
    request.input_ns = tally->input_us * 1000;
    request.output_ns = tally->output_us * 1000;
    request.batch = info->batch_size;
    request.cached = info->cached;
    usage_add(tally->gateway->usage, &request);
}
