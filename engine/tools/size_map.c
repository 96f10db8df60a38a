#include "tools/size_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines of a map: " .text.name  0xaddress  0xsize object", or the name alone and the rest on the next line. */
#define LINE_MAX_BYTES 4096

static int starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Without "CMakeFiles/target.dir/", dots and the file's own name: the folder of the source. */
static void folder_of(const char *object, char *name, size_t bytes)
{
    const char *cmake = strstr(object, "CMakeFiles/"), *dir = cmake != NULL ? strstr(cmake, ".dir/") : NULL;
    if (dir != NULL) {
        snprintf(name, bytes, "%.*s%s", (int)(cmake - object), object, dir + 5);
    } else {
        snprintf(name, bytes, "%s", object);
    }
    char *last = strrchr(name, '/');
    if (last != NULL) {
        *last = '\0';
    }
    for (char *dot = strstr(name, "/."); dot != NULL && (dot[2] == '/' || dot[2] == '\0'); dot = strstr(name, "/.")) {
        memmove(dot, dot + 2, strlen(dot + 2) + 1);
    }
}

static void part_name(const char *object, char *name, size_t bytes)
{
    const char *archive = strchr(object, '('), *crt = strrchr(object, '/');
    if (archive != NULL) {
        const char *from = archive;
        while (from > object && from[-1] != '/') {
            from--;
        }
        snprintf(name, bytes, "%.*s", (int)(archive - from), from);
    } else if (strstr(object, "CMakeFiles/") == NULL || crt == NULL) {
        snprintf(name, bytes, "linker");
    } else {
        folder_of(object, name, bytes);
    }
}

static struct size_part *part_get(struct size_map *map, const char *name)
{
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->parts[i].name, name) == 0) {
            return &map->parts[i];
        }
    }
    if (map->count == SIZE_PARTS_MAX) {
        return &map->parts[SIZE_PARTS_MAX - 1];
    }
    struct size_part *p = &map->parts[map->count++];
    *p = (struct size_part){.code = 0};
    snprintf(p->name, sizeof p->name, "%.79s", name);
    return p;
}

static void section_add(struct size_map *map, const char *section, uint64_t bytes, const char *object)
{
    char name[LINE_MAX_BYTES];
    part_name(object, name, sizeof name);
    struct size_part *p = part_get(map, name);
    if (starts(section, ".text") || starts(section, ".init") || starts(section, ".fini") || starts(section, ".plt")) {
        p->code += bytes;
    } else {
        p->other += bytes;
    }
}

/* One line, with the section's name of the line before when it stands alone. */
static void line_read(struct size_map *map, const char *line, char *section, size_t room)
{
    char name[LINE_MAX_BYTES] = "", object[LINE_MAX_BYTES] = "";
    uint64_t address = 0, bytes = 0;
    if (sscanf(line, " %4095s 0x%" SCNx64 " 0x%" SCNx64 " %4095[^\n]", name, &address, &bytes, object) == 4 &&
        name[0] == '.') {
        snprintf(section, room, "%s", name);
    } else if (sscanf(line, " 0x%" SCNx64 " 0x%" SCNx64 " %4095[^\n]", &address, &bytes, object) != 3) {
        snprintf(section, room, "%s", sscanf(line, " %4095s", name) == 1 && name[0] == '.' ? name : "");
        return;
    }
    if (address != 0 && bytes != 0 && section[0] == '.' && line[0] == ' ' && !starts(section, ".bss") &&
        !starts(section, ".tbss") && !starts(section, ".debug")) {
        section_add(map, section, bytes, object);
    }
    section[0] = '\0';
}

static int by_bytes(const void *a, const void *b)
{
    const struct size_part *x = a, *y = b;
    uint64_t p = x->code + x->other, q = y->code + y->other;
    return p < q ? 1 : p > q ? -1 : strcmp(x->name, y->name);
}

enum pen_status size_map_read(const char *path, struct size_map *ret_map, struct pen_error *reterr)
{
    char line[LINE_MAX_BYTES], section[LINE_MAX_BYTES] = "";
    int inside = 0;
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "there is no map %s: a build folder has them in maps/; name one with --map", path);
    }
    *ret_map = (struct size_map){.count = 0};
    while (fgets(line, sizeof line, f) != NULL) {
        inside |= starts(line, "Linker script and memory map");
        if (inside) {
            line_read(ret_map, line, section, sizeof section);
        }
    }
    fclose(f);
    if (ret_map->count == 0) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s is no map of the linker (-Wl,-Map)", path);
    }
    qsort(ret_map->parts, ret_map->count, sizeof ret_map->parts[0], by_bytes);
    for (size_t i = 0; i < ret_map->count; i++) {
        const struct size_part *p = &ret_map->parts[i];
        ret_map->code += p->code;
        ret_map->other += p->other;
        ret_map->engine += starts(p->name, "engine") && !starts(p->name, "engine/tools") ? p->code + p->other : 0;
    }
    return PEN_OK;
}

uint64_t size_map_of(const struct size_map *map, const char *part)
{
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->parts[i].name, part) == 0) {
            return map->parts[i].code + map->parts[i].other;
        }
    }
    return 0;
}
