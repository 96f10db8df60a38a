#include "lane_look.h"

#include <stdio.h>

#include "admit.h"
#include "answer.h"
#include "assertion.h"
#include "ensemble_models.h"
#include "failure.h"

void lanes_look(struct broker *broker)
{
    struct lane *lane;
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    effect_post(&broker->effects, &lane->look, EFFECT_LANE_LOOK);
}

bool lanes_fleet_changed(struct broker *broker, struct effect *effect)
{
    (void)effect;
    lanes_look(broker);
    return true;
}

static void unserved_text(const struct broker *broker, const struct model *model, char *text, size_t bytes)
{
    char why[FAILURE_TEXT_BYTES + 128];
    failure_text(&broker->fleet, model->name, model->version, why, sizeof why);
    snprintf(text, bytes, "no worker that could run the job is connected%s; start one or try again later", why);
}

static void lane_text(const struct broker *broker, const struct lane *lane, char *text, size_t bytes)
{
    *text = '\0';
    if (lane->model->plan)
        ensemble_missing(&broker->models, &broker->labels, lane->model, &lane->demand, text, bytes);
    else if (model_unloaded(lane->model))
        admit_unloaded(&broker->fleet, lane->model, text, bytes);
    else if (lane->model->offers_count > 0 && !forms_open(&lane->model->forms, lane->demand.forms))
        admit_reformed(lane->model, text, bytes);
    if (!*text)
        unserved_text(broker, lane->model, text, bytes);
}

/* True when no worker runs the lane's jobs, and none will soon. */
static bool lane_is_lost(struct broker *broker, struct lane *lane)
{
    if (model_served(lane->model, &lane->demand)) {
        lane->unserved_us = 0;
        if (lane->model->held_us != 0)
            lane->model->came_us = broker->now_us - lane->model->held_us;
        lane->model->held_us = 0;
        return false;
    }
    if (model_unloaded(lane->model) || !forms_open(&lane->model->forms, lane->demand.forms))
        return true;
    if (lane->unserved_us == 0 || model_may_serve(lane->model, &lane->demand))
        lane->unserved_us = broker->now_us;
    return broker->now_us - lane->unserved_us >= model_waits_us(lane->model, broker->options);
}

/* Each end takes one job out of the lane and puts at most one in (a follower). So each job of the batch is still
   there when its turn comes, and so is the lane. */
bool lane_unserved(struct broker *broker, struct effect *effect)
{
    struct lane *lane = effect_of(effect, struct lane, look);
    char text[PEN_ERROR_TEXT_BYTES];
    if (!lane_is_lost(broker, lane))
        return true;
    bool unkept = ensemble_unkept(&broker->models, &broker->labels, lane->model, &lane->demand);
    lane_text(broker, lane, text, sizeof text);
    effect_post_again(&broker->effects, effect); /* first: with its last job the lane may go, and the effect with it */
    for (size_t left = lane->count < LANE_BATCH ? lane->count : LANE_BATCH; left > 0; left--) {
        PEN_ASSERT(lane->count >= left, "an end takes one job out of its lane, no more");
        answer_error(broker, lane_head(lane), unkept ? PEN_ERR_UNSUPPORTED : PEN_ERR_UNAVAILABLE, text);
    }
    return false;
}
