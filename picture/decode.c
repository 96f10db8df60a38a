/* decode.c - any file to an upright picture: the caps that are the same for all formats, the format, the orientation. */
#include "picture_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum pen_status too_many_bytes(const char *name, uint64_t size, uint64_t most, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "%s has %" PRIu64 " bytes; a picture of at most %" PRIu64 " is taken: make it smaller first.",
                         name, size, most);
}

bool rows_are_wanted(const struct picture_source *source, const struct picture_info *info)
{
    return source->taker && (source->options.as_stored || info->orientation == 1);
}

enum pen_status decode_stored(const struct picture_source *source, struct picture *ret_picture,
                              struct picture_info *ret_info, struct pen_error *reterr)
{
    const char *name = source->name;
    const struct format *format = format_of(source->bytes, source->size);
    if (!format) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s is no picture: it is neither PNG, JPEG, WebP nor BMP.", name);
    }
    if (!format->decode) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s is %s: convert it to PNG or JPEG.", name, format->name);
    }
    if (source->size > source->limits.file_bytes) {
        return too_many_bytes(name, source->size, source->limits.file_bytes, reterr);
    }
    return format->decode(source, ret_picture, ret_info, reterr);
}

enum pen_status picture_decode(const uint8_t *bytes, size_t size, const char *name, const struct picture_limits *limits,
                               struct picture *ret_picture, struct pen_error *reterr)
{
    const struct picture_source source = {
        .bytes = bytes,
        .size = size,
        .name = name,
        .limits = limits_or_default(limits),
        .options = {.background = {255, 255, 255}},
    };
    struct picture picture = {0};
    struct picture_info info = {.orientation = 1};
    enum pen_status status = decode_stored(&source, &picture, &info, reterr);
    if (status == PEN_OK) {
        status = picture_upright(&picture, info.orientation, name, &source.limits, reterr);
    }
    if (status == PEN_OK) {
        *ret_picture = picture;
    } else {
        picture_fini(&picture);
    }
    return status;
}

/* -1 with errno; a FIFO without a writer opens at once and is refused. */
static int file_open(const char *path, struct stat *info)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, info) != 0 || !S_ISREG(info->st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

static bool file_take(int fd, uint8_t *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            return false;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

enum pen_status picture_file(const char *path, size_t before, const struct picture_limits *limits, uint8_t **ret_block,
                             size_t *ret_size, struct pen_error *reterr)
{
    struct stat info = {.st_size = 0};
    struct picture_limits l = limits_or_default(limits);
    int fd = file_open(path, &info);
    if (fd < 0) {
        return pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "%s: cannot read it: %s.", path,
                             errno == EINVAL ? "no regular file" : strerror(errno));
    }
    size_t size = (size_t)info.st_size;
    bool fits = (uint64_t)size <= l.file_bytes;
    uint8_t *block = fits ? malloc(before + size + 1) : NULL;
    bool whole = block && file_take(fd, block + before, size);
    close(fd);
    if (whole) {
        *ret_block = block;
        *ret_size = size;
        return PEN_OK;
    }
    free(block);
    return !fits    ? too_many_bytes(path, size, l.file_bytes, reterr)
           : !block ? pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory for its %zu bytes.", path, size)
                    : pen_error_set(reterr, PEN_ERR_IO, "%s: cannot read its %zu bytes.", path, size);
}

enum pen_status picture_read(const char *path, const struct picture_limits *limits, struct picture *ret_picture,
                             struct pen_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum pen_status status = picture_file(path, 0, limits, &bytes, &size, reterr);
    if (status == PEN_OK) {
        status = picture_decode(bytes, size, path, limits, ret_picture, reterr);
    }
    free(bytes);
    return status;
}
