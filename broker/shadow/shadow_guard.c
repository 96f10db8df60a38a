#include "shadow_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "label.h"
#include "logline.h"

enum pen_status shadow_guard_set(struct broker *broker, const char *argument, struct pen_error *reterr)
{
    char name[SHADOW_NAME_BYTES];
    enum pen_status status = shadow_set(&broker->shadow, argument, reterr);
    struct shadow_rule *rule =
        status == PEN_OK && sscanf(argument, "%255s", name) == 1 ? shadow_rule(&broker->shadow, name) : NULL;
    const struct model *model = rule ? model_find(&broker->models, rule->model, rule->version) : NULL;
    if (model) {
        rule->guard.done = model->jobs_done;
        rule->guard.failed = model->jobs_failed;
    }
    return status;
}

/* The share of the jobs that the label has now. */
static uint32_t share_of(struct broker *broker, const struct shadow_rule *rule)
{
    struct label_choice choices[LABEL_CHOICES_MAX];
    size_t count = label_choices(&broker->labels, &broker->models, rule->model, choices);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(choices[i].label, rule->guard.label) == 0)
            return choices[i].share_ppm;
    }
    return 0;
}

static void go_back(struct broker *broker, struct shadow_rule *rule, const char *why)
{
    char order[512];
    struct pen_error error = {.status = PEN_OK};
    snprintf(order, sizeof order, "%s %s %" PRIu64 " %u", rule->model, rule->guard.label, rule->guard.back,
             share_of(broker, rule));
    if (label_set(&broker->labels, order, &error) != PEN_OK) {
        log_event(LOG_ERROR, "label_stuck", "model=%s label=%s version=%" PRIu64 " error=%s", rule->model,
                  rule->guard.label, rule->version, error.text);
    } else {
        cluster_tell(broker->cluster, order);
        rule->went_back++;
        log_event(LOG_WARN, "label_went_back", "model=%s label=%s from=%" PRIu64 " to=%" PRIu64 " reason=%s",
                  rule->model, rule->guard.label, rule->version, rule->guard.back, why);
    }
    rule->guard.label[0] = '\0'; /* a person sets it again */
}

void shadow_guard_beat(struct broker *broker)
{
    char why[256];
    for (uint32_t i = 0; i < broker->shadow.rules_count; i++) {
        struct shadow_rule *rule = &broker->shadow.rules[i];
        const struct model *model =
            rule->guard.label[0] ? model_find(&broker->models, rule->model, rule->version) : NULL;
        if (!model || model->jobs_done < rule->guard.done || model->jobs_failed < rule->guard.failed ||
            label_version(&broker->labels, &broker->models, rule->model, rule->guard.label) != rule->version)
            continue;
        if (shadow_verdict(rule, model->jobs_done, model->jobs_failed, why, sizeof why))
            go_back(broker, rule, why);
    }
}
