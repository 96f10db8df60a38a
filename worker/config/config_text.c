/* config_text.c - what all readers of config.json use: names, files beside it, the mark of its content. */
#include "config_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "penstock/model_folder.h"

enum pen_status config_no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's settings");
}

enum pen_status config_copy_text(const cJSON *value, const char *path, char *ret_text, struct pen_error *reterr)
{
    const char *text = NULL;
    enum pen_status status = json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
    if (status == PEN_OK)
        snprintf(ret_text, CONFIG_NAME_BYTES_MAX + 1, "%s", text);
    return status;
}

uint64_t config_text_hash(uint64_t hash, const void *bytes, size_t count)
{
    for (const uint8_t *byte = bytes; count > 0; byte++, count--)
        hash = (hash ^ *byte) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* As many bytes as there are, at most `room`; -1 = errno. */
static ssize_t read_all(int fd, char *text, size_t room)
{
    size_t bytes = 0;
    while (bytes < room) {
        ssize_t got = read(fd, text + bytes, room - bytes);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        bytes += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)bytes;
}

enum pen_status config_file_read(const struct config_place *place, const char *name, size_t limit, char **ret_text,
                                 size_t *ret_bytes, struct pen_error *reterr)
{
    int fd = -1;
    size_t bytes = 0;
    enum pen_status status = pen_model_folder_open(place->folder, name, place->model, &fd, &bytes, reterr);
    if (status != PEN_OK)
        return status;
    char *text = bytes <= limit ? malloc(bytes + 1) : NULL;
    ssize_t got = text ? read_all(fd, text, bytes) : -1;
    close(fd);
    if (bytes > limit)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%.256s is larger than %zu bytes", name, limit);
    if (!text)
        return config_no_memory(reterr);
    if (got < 0) {
        free(text);
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read %.256s: %s", name, strerror(errno));
    }
    bytes = (size_t)got;
    text[bytes] = '\0';
    *ret_text = text;
    *ret_bytes = bytes;
    return PEN_OK;
}
