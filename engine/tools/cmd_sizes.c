#include <cjson/cJSON.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/size_libraries.h"
#include "tools/size_map.h"
#include "tools/size_svg.h"
#include "tools/tool.h"

struct sizes_options {
    const char *program, *map, *before, *svg, *image;
    bool json;
};

#define TEXT(name_, field_, help_)                                                                                     \
    {                                                                                                                  \
        .name = (name_), .type = SETTING_TEXT, .offset = offsetof(struct sizes_options, field_), .def = "",            \
        .help = (help_)                                                                                                \
    }

static const struct setting table[] = {
    TEXT("program", program, "the program to weigh; this one without it"),
    TEXT("map", map, "the map that the linker wrote for it; without it maps/PROGRAM.map beside the program's folder"),
    TEXT("before", before, "another map to compare with"),
    TEXT("svg", svg, "write a treemap into this file"),
    TEXT("image", image, "make this folder: the program with the libraries that it loads, and a Dockerfile"),
    {.name = "json",
     .type = SETTING_FLAG,
     .offset = offsetof(struct sizes_options, json),
     .help = "print one JSON object instead of text"},
    {.name = NULL},
};

static const struct settings_program program = {
    .name = "penstock-engine sizes",
    .usage = "penstock-engine sizes [options]",
    .about =
        "Prints what each part of a program weighs: folders of the sources and static libraries, from the map that "
        "the linker wrote, and the shared libraries that it loads on this host.",
    .after = "JSON keys: program, file_bytes, code, other, engine (bytes of the engine without its tools), "
             "parts[{name, code, other, before}], before{code, other, engine}, libraries[{path, bytes}], "
             "libraries_bytes.",
    .table = table,
    .variables = tool_variables,
};

struct weighed {
    char program[PATH_MAX], map_path[PATH_MAX];
    struct size_map map, before;
    bool compared;
    struct size_libraries libraries;
};

static bool given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static void paths_choose(const struct sizes_options *o, struct weighed *w)
{
    char folder[PATH_MAX], name[PATH_MAX];
    ssize_t bytes = given(o->program) ? 0 : readlink("/proc/self/exe", w->program, sizeof w->program - 1);
    if (given(o->program)) {
        snprintf(w->program, sizeof w->program, "%s", o->program);
    } else {
        w->program[bytes > 0 ? bytes : 0] = '\0';
    }
    snprintf(folder, sizeof folder, "%s", w->program);
    snprintf(name, sizeof name, "%s", w->program);
    if (given(o->map)) {
        snprintf(w->map_path, sizeof w->map_path, "%s", o->map);
    } else {
        snprintf(w->map_path, sizeof w->map_path, "%.2000s/../maps/%.200s.map", dirname(folder), basename(name));
    }
}

static enum pen_status weigh(const struct sizes_options *o, struct weighed *w, struct pen_error *reterr)
{
    paths_choose(o, w);
    w->compared = given(o->before);
    enum pen_status status = size_map_read(w->map_path, &w->map, reterr);
    if (status == PEN_OK && w->compared) {
        status = size_map_read(o->before, &w->before, reterr);
    }
    if (status == PEN_OK) {
        status = size_libraries_read(w->program, &w->libraries, reterr);
    }
    if (status == PEN_OK && given(o->svg)) {
        status = size_svg_write(o->svg, w->compared ? &w->before : NULL, &w->map, reterr);
    }
    if (status == PEN_OK && given(o->image)) {
        status = size_image_write(o->image, w->program, &w->libraries, reterr);
    }
    return status;
}

static void line_print(const struct weighed *w, const char *name, uint64_t bytes, uint64_t before)
{
    printf("  %-34s %10" PRIu64, name, bytes);
    if (w->compared) {
        printf(" %10" PRIu64 " before", before);
    }
    printf("\n");
}

static void print_text(const struct weighed *w)
{
    printf("%s: %" PRIu64 " bytes on disk\n", w->program, w->libraries.program);
    for (size_t i = 0; i < w->map.count; i++) {
        const struct size_part *p = &w->map.parts[i];
        line_print(w, p->name, p->code + p->other, size_map_of(&w->before, p->name));
    }
    for (size_t i = 0; i < w->before.count; i++) {
        if (size_map_of(&w->map, w->before.parts[i].name) == 0) {
            line_print(w, w->before.parts[i].name, 0, w->before.parts[i].code + w->before.parts[i].other);
        }
    }
    line_print(w, "all", w->map.code + w->map.other, w->before.code + w->before.other);
    line_print(w, "of it code", w->map.code, w->before.code);
    line_print(w, "of it the engine", w->map.engine, w->before.engine);
    printf("shared libraries: %" PRIu64 " bytes\n", w->libraries.bytes);
    for (size_t i = 0; i < w->libraries.count; i++) {
        printf("  %-46s %10" PRIu64 "\n", w->libraries.items[i].path, w->libraries.items[i].bytes);
    }
}

static cJSON *part_json(const struct weighed *w, const struct size_part *p, bool gone)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", p->name);
    cJSON_AddNumberToObject(o, "code", gone ? 0.0 : (double)p->code);
    cJSON_AddNumberToObject(o, "other", gone ? 0.0 : (double)p->other);
    if (w->compared) {
        cJSON_AddNumberToObject(o, "before", (double)size_map_of(&w->before, p->name));
    }
    return o;
}

static void sums_json(cJSON *o, const struct size_map *map)
{
    cJSON_AddNumberToObject(o, "code", (double)map->code);
    cJSON_AddNumberToObject(o, "other", (double)map->other);
    cJSON_AddNumberToObject(o, "engine", (double)map->engine);
}

static void print_json(const struct weighed *w)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "program", w->program);
    cJSON_AddNumberToObject(root, "file_bytes", (double)w->libraries.program);
    sums_json(root, &w->map);
    cJSON *parts = cJSON_AddArrayToObject(root, "parts");
    for (size_t i = 0; i < w->map.count; i++) {
        cJSON_AddItemToArray(parts, part_json(w, &w->map.parts[i], false));
    }
    for (size_t i = 0; i < w->before.count; i++) {
        if (size_map_of(&w->map, w->before.parts[i].name) == 0) {
            cJSON_AddItemToArray(parts, part_json(w, &w->before.parts[i], true));
        }
    }
    if (w->compared) {
        sums_json(cJSON_AddObjectToObject(root, "before"), &w->before);
    }
    cJSON *libraries = cJSON_AddArrayToObject(root, "libraries");
    for (size_t i = 0; i < w->libraries.count; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "path", w->libraries.items[i].path);
        cJSON_AddNumberToObject(o, "bytes", (double)w->libraries.items[i].bytes);
        cJSON_AddItemToArray(libraries, o);
    }
    cJSON_AddNumberToObject(root, "libraries_bytes", (double)w->libraries.bytes);
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct sizes_options *o = from;
    struct pen_error error = {0};
    struct weighed *w = calloc(1, sizeof *w);
    (void)paths, (void)count;
    if (w == NULL) {
        return TOOL_FAILED;
    }
    enum pen_status status = weigh(o, w, &error);
    if (status == PEN_OK) {
        (o->json ? print_json : print_text)(w);
    }
    free(w);
    return status == PEN_OK ? TOOL_OK : tool_fail(&error);
}

int cmd_sizes(int argc, char **argv)
{
    struct sizes_options options = {0};
    const struct tool_command command = {&program, &options, NULL, 0, run, NULL};
    return tool_run(&command, argc, argv);
}
