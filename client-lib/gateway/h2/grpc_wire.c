#include "grpc_wire.h"

#include <string.h>

const char *grpc_code_name(enum grpc_code code)
{
    static const char *const names[GRPC_CODES] = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    return (unsigned)code < GRPC_CODES ? names[code] : "UNKNOWN";
}

enum grpc_code grpc_code_of(enum pen_status status)
{
    switch (status) {
    case PEN_OK:
        return GRPC_OK;
    case PEN_ERR_NOT_FOUND:
        return GRPC_NOT_FOUND;
    case PEN_ERR_DENIED:
        return GRPC_PERMISSION_DENIED;
    case PEN_ERR_UNSUPPORTED:
        return GRPC_UNIMPLEMENTED;
    case PEN_ERR_DEADLINE:
    case PEN_ERR_TIMEOUT:
        return GRPC_DEADLINE_EXCEEDED;
    case PEN_ERR_CANCELLED:
        return GRPC_CANCELLED;
    case PEN_ERR_TOO_LARGE:
    case PEN_ERR_NO_MEMORY:
        return GRPC_RESOURCE_EXHAUSTED;
    case PEN_ERR_BUSY:
    case PEN_ERR_UNAVAILABLE:
    case PEN_ERR_WORKER_LOST:
    case PEN_ERR_DEVICE_LOST:
        return GRPC_UNAVAILABLE;
    case PEN_ERR_INTERNAL:
    case PEN_ERR_IO:
        return GRPC_INTERNAL;
    default:
        return GRPC_INVALID_ARGUMENT;
    }
}

/* ---- texts ---- */

bool grpc_timeout_parse(const char *text, size_t bytes, uint64_t *ret_us)
{
    static const char units[] = "HMSmun";
    static const uint64_t unit_us[] = {3600000000u, 60000000u, 1000000u, 1000u, 1u, 0u};
    const char *unit = bytes >= 2 && bytes <= 9 ? memchr(units, text[bytes - 1], sizeof units - 1) : NULL;
    uint64_t value = 0;
    if (!unit)
        return false;
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_us = *unit == 'n' ? (value + 999) / 1000 : value * unit_us[unit - units];
    return true;
}

static bool is_plain(unsigned char character)
{
    return character >= 0x20 && character <= 0x7e && character != '%';
}

size_t grpc_message_encode(const char *text, char *to, size_t room)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0;
    for (; *text; text++) {
        unsigned char character = (unsigned char)*text;
        size_t needed = is_plain(character) ? 1 : 3;
        if (used + needed >= room)
            break;
        if (needed == 1) {
            to[used++] = *text;
        } else {
            to[used++] = '%';
            to[used++] = digits[character >> 4];
            to[used++] = digits[character & 15];
        }
    }
    to[used] = '\0';
    return used;
}
