#include "flow_desk.h"

const struct wire_model flow_models[FLOW_MODELS] = {
    {.name = "slow", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 50000, .digest = 1},
    {.name = "fast", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 2},
    {.name = "batchy",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 50000,
     .digest = 3,
     .max_batch = 4,
     .delay_us = 3000,
     .dim = -1},
    {.name = "small",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 50000,
     .digest = 4,
     .max_queue = 2},
    {.name = "timed",
     .version = 1,
     .backend = "xnnpack",
     .precision = PRECISION_F32,
     .warm_us = 50000,
     .digest = 5,
     .timeout_us = 7000},
};

struct desk *flow_desk(uint32_t slots)
{
    struct desk *desk = desk_new();
    desk->options.queue_limit = 5;
    desk_open(desk);
    desk_worker(desk, FLOW_WORKER,
                &(struct wire_worker){
                    .uuid = 1, .name = "one", .slots = slots, .models = flow_models, .models_count = FLOW_MODELS});
    desk_client(desk, FLOW_CLIENT, 0xA);
    return desk;
}

void flow_submit(struct desk *desk, const char *model, uint64_t sequence, struct wire_job job)
{
    job.id = (struct job_id){0xA, sequence};
    job.model = model;
    job.no_digest = true;
    desk_submit(desk, FLOW_CLIENT, &job);
}
