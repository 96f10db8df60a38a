/* cmd_env.c - the environment: every flag and fact with its value, where that comes from, and what it means. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "env/env.h"
#include "tools/tool.h"

struct env_options {
    struct tool_options tool;
    bool markdown;
};

static const struct setting table[] = {TOOL_SETTINGS(struct env_options),
#include "tools/tool_flags.def"
                                       {.name = "markdown",
                                        .type = SETTING_FLAG,
                                        .offset = offsetof(struct env_options, markdown),
                                        .help = "print the page of all flags and facts instead, engine/FLAGS.md"},
                                       {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock-engine env",
    .usage = "penstock-engine env [options]",
    .about = "Lists the flags and the facts that were detected on this host: name, value, origin (default, detected, "
             "file, variable, flag), the place it was set at, and what it means. Flags that contradict each other are "
             "refused.",
    .after = "JSON keys: flags[{name, value, origin, where, meaning}], facts[{the same}].",
    .table = table,
    .variables = tool_variables,
};

static void flag_print(const struct pen_flag *f)
{
    printf("%-24s %-14s %s%s%s\n    %s\n", f->name, f->value[0] != '\0' ? f->value : "-", pen_origin_name(f->origin),
           f->where[0] != '\0' ? " " : "", f->where, f->meaning);
}

cJSON *tool_flag_json(const struct pen_flag *f)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", f->name);
    cJSON_AddStringToObject(o, "value", f->value);
    cJSON_AddStringToObject(o, "origin", pen_origin_name(f->origin));
    cJSON_AddStringToObject(o, "where", f->where);
    cJSON_AddStringToObject(o, "meaning", f->meaning);
    return o;
}

static void print_json(const struct pen_flag *flags, size_t count, size_t rows)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *settable = cJSON_AddArrayToObject(root, "flags"), *facts = cJSON_AddArrayToObject(root, "facts");
    for (size_t i = 0; i < count; i++) {
        cJSON_AddItemToArray(i < rows ? settable : facts, tool_flag_json(&flags[i]));
    }
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

/* ---- the page ---- */

/* A '|' would end the cell. */
static void cell_print(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            putchar('\\');
        }
        putchar(*text);
    }
}

static void values_print(const struct pen_flag_row *r)
{
    switch (r->type) {
    case PEN_FLAG_BOOL:
        cell_print("on|off");
        break;
    case PEN_FLAG_ENUM:
    case PEN_FLAG_WORD:
        cell_print(r->choices);
        break;
    case PEN_FLAG_INT:
        printf("%llu to %llu", (unsigned long long)r->least, (unsigned long long)r->most);
        break;
    case PEN_FLAG_BYTES:
        printf("a size");
        break;
    case PEN_FLAG_TEXT:
        printf("a text");
        break;
    case PEN_FLAG_LIST:
        printf("texts, separated by commas");
        break;
    }
}

static void markdown_print(void)
{
    size_t count = 0;
    const struct pen_flag_row *r = pen_flag_rows(&count);
    printf("# Flags and facts of the engine\n`penstock-engine env --markdown` writes this page. [env](env/README.md) "
           "says how flags are set and which origin is the strongest. A C program sets them with `pen_env_set` "
           "(`penstock/env.h`), `PENSTOCK_ENGINE_<FLAG>` is the variable. `penstock-engine` and `penstock-worker` take "
           "`--flag NAME=VALUE`, and some as options of their own.\n\n## Flags\n\n| flag | values | default | what it "
           "does |\n|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        printf("| `%s` | ", r[i].name);
        values_print(&r[i]);
        printf(" | %s | ", r[i].def[0] != '\0' ? r[i].def : "none");
        cell_print(r[i].meaning);
        printf(" |\n");
    }
    printf("\n## Facts\nThe engine finds them out. A name that ends in a dot stands for all that begin so.\n\n| fact | "
           "what it says |\n|---|---|\n");
    for (size_t i = 0; env_fact_name(i) != NULL; i++) {
        printf("| `%s` | ", env_fact_name(i));
        cell_print(env_fact_meaning(env_fact_name(i)));
        printf(" |\n");
    }
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct env_options *options = from;
    struct pen_engine *engine = NULL;
    (void)paths, (void)count;
    if (options->markdown) {
        markdown_print();
        return TOOL_OK;
    }
    int code = tool_engine(&options->tool, false, &engine);
    size_t flag_count = 0, rows = 0;
    (void)pen_flag_rows(&rows);
    const struct pen_flag *flags = code == TOOL_OK ? pen_engine_flags(engine, &flag_count) : NULL;
    if (code == TOOL_OK && options->tool.json) {
        print_json(flags, flag_count, rows);
    }
    for (size_t i = 0; !options->tool.json && i < flag_count; i++) {
        fputs(i == 0 ? "flags:\n" : i == rows ? "\nfacts about this host:\n" : "", stdout);
        flag_print(&flags[i]);
    }
    pen_engine_free(engine);
    return code;
}

int cmd_env(int argc, char **argv)
{
    struct env_options options = {0};
    const struct tool_command command = {&program, &options, NULL, 0, run, &options.tool};
    return tool_run(&command, argc, argv);
}
