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

enum pen_status picture_decode(const uint8_t *bytes, size_t size, const char *name, const struct picture_limits *limits,
                               struct picture *ret_picture, struct pen_error *reterr)
{
    const struct picture_source source = {bytes, size, name, limits_or_default(limits)};
    const struct format *format = format_of(bytes, size);
    struct picture picture = {0};
    uint32_t orientation = 1;
    if (!format) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s is no picture: it is neither PNG, JPEG nor BMP.", name);
    }
    if (!format->decode) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s is %s: convert it to PNG or JPEG.", name, format->name);
    }
    if (size > source.limits.file_bytes) {
        return too_many_bytes(name, size, source.limits.file_bytes, reterr);
    }
    enum pen_status status = format->decode(&source, &picture, &orientation, reterr);
    if (status == PEN_OK) {
        status = picture_upright(&picture, orientation, name, &source.limits, reterr);
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

enum pen_status picture_read(const char *path, const struct picture_limits *limits, struct picture *ret_picture,
                             struct pen_error *reterr)
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
    uint8_t *bytes = fits ? malloc(size ? size : 1) : NULL;
    bool whole = bytes && file_take(fd, bytes, size);
    close(fd);
    enum pen_status status =
        !fits    ? too_many_bytes(path, size, l.file_bytes, reterr)
        : !bytes ? pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: no memory for its %zu bytes.", path, size)
        : !whole ? pen_error_set(reterr, PEN_ERR_IO, "%s: cannot read its %zu bytes.", path, size)
                 : picture_decode(bytes, size, path, &l, ret_picture, reterr);
    free(bytes);
    return status;
}
