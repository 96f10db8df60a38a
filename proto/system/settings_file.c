/*
 * settings_file.c - config files: `name = value` lines, # comments.
 *
 * A comment starts at the line's start or behind a blank; a value in double quotes is taken as it stands. A name set twice is an error, except
 * that lists add up.
 */
#include "settings_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "small_file.h"

struct reader {
    const struct settings_program *program;
    const char *path;
    unsigned line;
    void *options;
    struct settings_store *store;
    unsigned set_at[SETTINGS_TABLE_MAX]; /* line where each row was set; 0 = not yet */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **text, size_t *bytes)
{
    while (*bytes > 0 && is_blank(**text)) {
        (*text)++;
        (*bytes)--;
    }
    while (*bytes > 0 && is_blank((*text)[*bytes - 1]))
        (*bytes)--;
}

/* Cuts a comment that is not inside double quotes. */
static size_t without_comment(const char *line, size_t bytes)
{
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (line[i] == '"')
            quoted = !quoted;
        if (line[i] == '#' && !quoted && (i == 0 || is_blank(line[i - 1])))
            return i;
    }
    return bytes;
}

static enum pen_status unknown_name(const struct reader *reader, const char *name, size_t bytes,
                                    struct pen_error *reterr)
{
    const char *near = setting_suggest(reader->program->table, name, bytes);
    int shown = bytes > 100 ? 100 : (int)bytes;
    if (near)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s:%u: unknown setting '%.*s'; did you mean '%s'?", reader->path,
                             reader->line, shown, name, near);
    return pen_error_set(reterr, PEN_ERR_INVALID, "%s:%u: unknown setting '%.*s'; '%s --help' lists all", reader->path,
                         reader->line, shown, name, reader->program->name);
}

static enum pen_status line_apply(struct reader *reader, const char *line, size_t bytes, struct pen_error *reterr)
{
    char where[512];
    bytes = without_comment(line, bytes);
    trim(&line, &bytes);
    if (bytes == 0)
        return PEN_OK;
    const char *equals = memchr(line, '=', bytes);
    if (!equals)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s:%u: a line must read 'name = value'", reader->path,
                             reader->line);
    const char *name = line, *value = equals + 1;
    size_t name_bytes = (size_t)(equals - line), value_bytes = bytes - name_bytes - 1;
    trim(&name, &name_bytes);
    trim(&value, &value_bytes);
    const struct setting *setting = setting_find(reader->program->table, name, name_bytes);
    if (!setting)
        return unknown_name(reader, name, name_bytes, reterr);
    if (value_bytes >= 2 && value[0] == '"' && value[value_bytes - 1] == '"') {
        value++;
        value_bytes -= 2;
    }
    unsigned *set_at = &reader->set_at[setting - reader->program->table];
    if (*set_at != 0 && setting->type != SETTING_LIST)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s:%u: '%s' was set before in line %u; keep one of them",
                             reader->path, reader->line, setting->name, *set_at);
    if (*set_at == 0 && setting->type == SETTING_LIST)
        setting_clear(setting, reader->options); /* replaces the default */
    *set_at = reader->line;
    snprintf(where, sizeof where, "%.300s:%u: %s", reader->path, reader->line, setting->name);
    return setting_apply(setting, value, value_bytes, true, where, reader->options, reader->store, reterr);
}

/* The mark with which some editors begin a file of UTF-8. */
static size_t mark_bytes(const char *text, size_t bytes)
{
    static const char mark[] = "\xef\xbb\xbf";
    return bytes >= sizeof mark - 1 && memcmp(text, mark, sizeof mark - 1) == 0 ? sizeof mark - 1 : 0;
}

enum pen_status settings_apply_text(const struct settings_program *program, const char *path, const char *text,
                                    size_t bytes, void *options, struct settings_store *store, struct pen_error *reterr)
{
    struct reader reader = {.program = program, .path = path, .options = options, .store = store};
    enum pen_status status = PEN_OK;
    const char *end = text + bytes;
    text += mark_bytes(text, bytes);
    while (status == PEN_OK && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;
        reader.line++;
        if (memchr(text, '\0', (size_t)(stop - text)))
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s:%u: a zero byte: the file is damaged, or no text at all",
                                 path, reader.line);
        status = line_apply(&reader, text, (size_t)(stop - text), reterr);
        text = newline ? newline + 1 : end;
    }
    return status;
}

enum pen_status settings_apply_file(const struct settings_program *program, const char *path, void *options,
                                    struct settings_store *store, struct pen_error *reterr)
{
    struct stat facts;
    char *text = malloc(SETTINGS_FILE_BYTES_MAX + 1);
    if (!text)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to read the config file '%.300s'", path);
    enum pen_status status;
    ssize_t bytes = small_file_read(path, text, SETTINGS_FILE_BYTES_MAX + 1, &facts);
    if (bytes < 0)
        status = pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO,
                               "cannot read the config file '%.300s': %s", path, small_file_reason(errno));
    else if (bytes > SETTINGS_FILE_BYTES_MAX)
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                               "the config file '%.300s' is larger than %u bytes; is it the right file?", path,
                               SETTINGS_FILE_BYTES_MAX);
    else
        status = settings_apply_text(program, path, text, (size_t)bytes, options, store, reterr);
    free(text);
    return status;
}
