#include "trace_rules.h"

#include <stdlib.h>
#include <string.h>

#define RULES_MAX    256u
#define RATE_DEFAULT 1000u

struct model_rule {
    struct model_rule *next;
    struct trace_rule rule;
    uint32_t seen;
    char name[];
};

struct trace_rules {
    struct trace_rule all;
    uint32_t seen;
    unsigned count;
    struct model_rule *models;
};

static const struct trace_rule default_rule = {.on = false, .rate = RATE_DEFAULT, .left = -1};

struct trace_rules *trace_rules_new(void)
{
    struct trace_rules *rules = calloc(1, sizeof *rules);
    if (rules)
        rules->all = default_rule;
    return rules;
}

static struct model_rule **find(struct model_rule **link, const char *name)
{
    while (*link && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static void drop(struct trace_rules *rules, struct model_rule **link)
{
    struct model_rule *found = *link;
    if (!found)
        return;
    *link = found->next;
    rules->count--;
    free(found);
}

void trace_rules_free(struct trace_rules *rules)
{
    while (rules && rules->models)
        drop(rules, &rules->models);
    free(rules);
}

struct trace_rule trace_rules_get(const struct trace_rules *rules, const char *model)
{
    struct model_rule *first = rules->models;
    const struct model_rule *found = model && *model ? *find(&first, model) : NULL;
    return found ? found->rule : rules->all;
}

bool trace_rules_set(struct trace_rules *rules, const char *model, const struct trace_rule *rule)
{
    if (!model || !*model) {
        rules->all = rule ? *rule : default_rule;
        return true;
    }
    struct model_rule **link = find(&rules->models, model);
    if (!rule) {
        drop(rules, link);
        return true;
    }
    if (!*link && rules->count < RULES_MAX) {
        *link = calloc(1, sizeof **link + strlen(model) + 1);
        if (*link)
            memcpy((*link)->name, model, strlen(model) + 1);
        rules->count += *link != NULL;
    }
    if (*link)
        (*link)->rule = *rule;
    return *link != NULL;
}

bool trace_rules_ask(struct trace_rules *rules, const char *model)
{
    struct model_rule *found = rules->models ? *find(&rules->models, model) : NULL;
    struct trace_rule *rule = found ? &found->rule : &rules->all;
    uint32_t *seen = found ? &found->seen : &rules->seen;
    if (!rule->on || rule->left == 0 || (*seen)++ % rule->rate != 0)
        return false;
    rule->left -= rule->left > 0;
    return true;
}
