#include "tools/info_refused.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "graph/kept.h"
#include "import/inventory.h"
#include "run/source.h"
#include "version.h"
#include "words.h"

#define NODES_SHOWN 50 /* of one operator, as text */

const char *info_inventory(const char *path, struct inventory *ret)
{
    struct graph_limits limits = graph_limits_default();
    struct import_extra extra = {0};
    struct source source;
    struct graph *g = NULL;
    struct pen_engine_options eo;
    tool_engine_options(&eo);
    limits.model_bytes = eo.budget_bytes > 0 ? eo.budget_bytes : limits.model_bytes;
    *ret = (struct inventory){.op_count = 0};
    if (source_open(path, "/", limits.model_bytes, &source, NULL) != PEN_OK) {
        return "?";
    }
    const char *format = source_format(&source);
    struct source_options options = {.limits = limits};
    options.limits.inventory = ret;
    if (source_read(&source, &options, &g, &extra, NULL) == PEN_OK) {
        graph_free(g);
        import_extra_fini(&extra);
    }
    source_close(&source);
    return format;
}

bool info_entries(const char *path, char *text, size_t room)
{
    struct inventory all;
    (void)info_inventory(path, &all);
    snprintf(text, room, "%s", all.entries);
    inventory_fini(&all);
    return text[0] != '\0';
}

/* ---- another precision ---- */

/* The first precision in which the model loads; NULL = none. */
static const char *other_precision(const char *path, const struct tool_options *from)
{
    struct pen_env *env = NULL;
    const char *found = NULL;
    if (tool_env(from, &env) != TOOL_OK) {
        return NULL;
    }
    struct pen_engine_options options = *pen_env_options(env);
    enum pen_precision asked = options.precision == PEN_PRECISION_ANY ? PEN_PRECISION_F32 : options.precision;
    for (unsigned p = PEN_PRECISION_F32; p <= PEN_PRECISION_INT8 && found == NULL; p++) {
        struct pen_engine *engine = NULL;
        struct pen_model *model = NULL;
        options.precision = (enum pen_precision)p;
        if (options.precision != asked && pen_engine_new(&options, &engine, NULL) == PEN_OK &&
            pen_model_load(engine, path, &model, NULL) == PEN_OK) {
            found = pen_engine_precision_name(options.precision);
        }
        pen_model_free(model);
        pen_engine_free(engine);
    }
    pen_env_free(env);
    return found;
}

/* ---- as text ---- */

static void nodes_print(const struct inventory *all, uint32_t op)
{
    uint32_t shown = 0, left = all->ops[op].missed;
    printf("    %" PRIu32 " %s: ", left, words_plural(left, "node", "nodes"));
    for (uint32_t i = 0; i < all->node_count && shown < NODES_SHOWN; i++) {
        if (all->nodes[i].op == op) {
            printf("%s%s", shown > 0 ? ", " : "", all->nodes[i].name);
            shown++;
            left--;
        }
    }
    printf(left > 0 ? ", and %" PRIu32 " more\n" : "\n", left);
}

static void refusal_text(const char *path, const struct pen_error *why, const char *format, const struct inventory *all,
                         const char *precision)
{
    uint32_t missing = 0;
    printf("%s\t%s\tcannot run here\n", path, format);
    for (uint32_t i = 0; i < all->op_count; i++) {
        if (all->ops[i].missed == 0) {
            continue;
        }
        missing++;
        printf("  missing operator %s\n", all->ops[i].name);
        nodes_print(all, i);
        printf("    avoided by: %s\n", info_advice(format, all->ops[i].name));
        if (!KEPT_EVERYTHING) {
            printf("    or, if the whole engine reads it, by the line \"import %s %s\" in the list of "
                   "-DPENSTOCK_KERNELS\n",
                   format, all->ops[i].name);
        }
    }
    if (missing == 0) {
        printf("  %s\n", why->text);
    }
    if (precision != NULL) {
        printf("  with --precision %s it runs\n", precision);
    } else {
        printf("  no other precision of this host avoids it\n");
    }
    printf("  `penstock-engine info --issue %s` prints a text to report, without weights\n", path);
}

/* ---- as JSON ---- */

static cJSON *missing_json(const struct inventory *all, uint32_t op, const char *format)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "operator", all->ops[op].name);
    cJSON *nodes = cJSON_AddArrayToObject(o, "nodes");
    for (uint32_t i = 0; i < all->node_count; i++) {
        if (all->nodes[i].op == op) {
            cJSON_AddItemToArray(nodes, cJSON_CreateString(all->nodes[i].name));
        }
    }
    cJSON_AddStringToObject(o, "advice", info_advice(format, all->ops[op].name));
    if (!KEPT_EVERYTHING) {
        char line[160];
        snprintf(line, sizeof line, "import %s %s", format, all->ops[op].name);
        cJSON_AddStringToObject(o, "line", line);
    }
    return o;
}

static cJSON *refusal_json(const char *path, const struct pen_error *why, const char *format,
                           const struct inventory *all, const char *precision)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "model", path);
    cJSON_AddStringToObject(item, "format", format);
    cJSON_AddStringToObject(item, "error", why->text);
    cJSON *missing = cJSON_AddArrayToObject(item, "missing");
    for (uint32_t i = 0; i < all->op_count; i++) {
        if (all->ops[i].missed > 0) {
            cJSON_AddItemToArray(missing, missing_json(all, i, format));
        }
    }
    if (precision != NULL) {
        cJSON_AddStringToObject(item, "runs_in", precision);
    }
    return item;
}

/* ---- to report ---- */

static void issue_head(const char *format, const struct inventory *all)
{
    struct utsname host;
    printf("%s", version_build());
    if (uname(&host) == 0) {
        printf(", %s %s", host.sysname, host.machine);
    }
    printf("\nformat: %s%s%s\n", format, all->versions[0] != '\0' ? ", " : "", all->versions);
    if (all->maker[0] != '\0') {
        printf("made by: %s\n", all->maker);
    }
}

static void issue_operators(const struct inventory *all)
{
    printf("operators (nodes that use them, - the missing ones):\n");
    for (uint32_t i = 0; i < all->op_count; i++) {
        printf("%s %s %" PRIu32 "\n", all->ops[i].missed > 0 ? "-" : " ", all->ops[i].name,
               all->ops[i].nodes > 0 ? all->ops[i].nodes : all->ops[i].missed);
    }
}

static bool missing_any(const struct inventory *all)
{
    for (uint32_t i = 0; i < all->op_count; i++) {
        if (all->ops[i].missed > 0) {
            return true;
        }
    }
    return false;
}

static void issue_print(const struct pen_error *why, const char *format, const struct inventory *all)
{
    issue_head(format, all);
    if (missing_any(all)) { /* the sentence would name nodes */
        printf("refused: it uses operators that this build does not know\n");
    } else {
        printf("refused: %s (%s)\n", why->text, pen_status_name(why->status));
    }
    issue_operators(all);
}

void info_issue(const char *path, const struct pen_model *model)
{
    struct inventory all;
    const char *format = info_inventory(path, &all);
    issue_head(format, &all);
    printf("runs: %s\n", pen_model_placement(model));
    issue_operators(&all);
    inventory_fini(&all);
}

int info_refused(const char *path, const struct pen_error *why, const struct tool_options *options, bool issue,
                 cJSON *list)
{
    struct inventory all;
    bool conversion =
        why->status == PEN_ERR_UNSUPPORTED || why->status == PEN_ERR_VERSION || why->status == PEN_ERR_DTYPE;
    if (!conversion && !issue) {
        return tool_fail(why);
    }
    const char *format = info_inventory(path, &all);
    const char *precision = issue || missing_any(&all) ? NULL : other_precision(path, options);
    if (issue) {
        issue_print(why, format, &all);
    } else if (list != NULL) {
        cJSON_AddItemToArray(list, refusal_json(path, why, format, &all, precision));
    } else {
        refusal_text(path, why, format, &all, precision);
    }
    inventory_fini(&all);
    return conversion ? TOOL_UNSUPPORTED : TOOL_FAILED;
}
