/* status.c - names of result codes and the one way to fill a struct pen_error. */
#include "penstock/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[PEN_STATUS_COUNT] = {
    [PEN_OK] = "OK",
    [PEN_ERR_INVALID] = "INVALID",
    [PEN_ERR_NOT_FOUND] = "NOT_FOUND",
    [PEN_ERR_SHAPE] = "SHAPE",
    [PEN_ERR_DTYPE] = "DTYPE",
    [PEN_ERR_TOO_LARGE] = "TOO_LARGE",
    [PEN_ERR_BUSY] = "BUSY",
    [PEN_ERR_DEADLINE] = "DEADLINE",
    [PEN_ERR_CANCELLED] = "CANCELLED",
    [PEN_ERR_UNSUPPORTED] = "UNSUPPORTED",
    [PEN_ERR_NO_MEMORY] = "NO_MEMORY",
    [PEN_ERR_IO] = "IO",
    [PEN_ERR_CORRUPT] = "CORRUPT",
    [PEN_ERR_VERSION] = "VERSION",
    [PEN_ERR_UNAVAILABLE] = "UNAVAILABLE",
    [PEN_ERR_WORKER_LOST] = "WORKER_LOST",
    [PEN_ERR_DEVICE_LOST] = "DEVICE_LOST",
    [PEN_ERR_DENIED] = "DENIED",
    [PEN_ERR_TIMEOUT] = "TIMEOUT",
    [PEN_ERR_INTERNAL] = "INTERNAL",
};

_Static_assert(PEN_STATUS_COUNT == 20, "a new status has a name, and a word on whether it may be tried again");

const char *pen_status_name(enum pen_status status)
{
    if ((unsigned)status >= PEN_STATUS_COUNT)
        return "UNKNOWN";
    return status_names[status];
}

int pen_status_retryable(enum pen_status status)
{
    switch (status) {
    case PEN_ERR_BUSY:
    case PEN_ERR_UNAVAILABLE:
    case PEN_ERR_WORKER_LOST:
    case PEN_ERR_DEVICE_LOST:
    case PEN_ERR_TIMEOUT:
        return 1;
    default:
        return 0;
    }
}

/* Drops a UTF-8 sequence that the cut at `length` left incomplete. */
static void text_cut_cleanly(char *text, size_t length)
{
    size_t start = length;
    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t needed = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (length - (start - 1) < needed)
        text[start - 1] = '\0';
}

enum pen_status pen_error_set(struct pen_error *reterr, enum pen_status status, const char *format, ...)
{
    if (!reterr)
        return status;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(reterr->text, sizeof reterr->text, format, args);
    va_end(args);
    reterr->status = status;
    if (length < 0)
        reterr->text[0] = '\0';
    else if ((size_t)length >= sizeof reterr->text)
        text_cut_cleanly(reterr->text, sizeof reterr->text - 1);
    return status;
}
