#include <stdlib.h>
#include <string.h>

#include "grpc_stream.h"

static uint64_t content_bytes(const struct grpc_answer *answer)
{
    uint64_t bytes = answer->text.used;
    for (size_t i = 0; i < answer->parts_count; i++)
        bytes += answer->parts[i].iov_len;
    return bytes;
}

struct grpc_out *out_new(struct grpc_answer *answer)
{
    uint64_t bytes = content_bytes(answer);
    struct grpc_out *out = NULL;
    if (!answer->text.failed && bytes <= UINT32_MAX)
        out = malloc(sizeof *out + (answer->parts_count + 2) * sizeof out->parts[0]);
    if (!out)
        return NULL;
    *out = (struct grpc_out){.text = answer->text,
                             .parts_count = answer->parts_count + 2,
                             .left = bytes + GRPC_PREFIX_BYTES,
                             .release = answer->release,
                             .release_arg = answer->release_arg};
    answer->text = (struct bytes){.data = NULL};
    grpc_prefix_write(bytes, answer->packed, out->prefix);
    out->parts[0] = (struct iovec){out->prefix, GRPC_PREFIX_BYTES};
    out->parts[1] = (struct iovec){out->text.data, out->text.used};
    if (answer->parts_count)
        memcpy(out->parts + 2, answer->parts, answer->parts_count * sizeof out->parts[0]);
    return out;
}

void out_free(struct grpc_out *out)
{
    bytes_fini(&out->text);
    if (out->release)
        out->release(out->release_arg);
    free(out);
}

size_t out_gather(const struct grpc_out *out, size_t bytes, struct iovec *to, size_t room, size_t *ret_count)
{
    size_t gathered = 0, skip = out->used, count = 0;
    for (size_t i = out->at; i < out->parts_count && count < room && gathered < bytes; i++, skip = 0) {
        size_t left = out->parts[i].iov_len - skip, part = left < bytes - gathered ? left : bytes - gathered;
        if (part > 0)
            to[count++] = (struct iovec){(char *)out->parts[i].iov_base + skip, part};
        gathered += part;
    }
    *ret_count = count;
    return gathered;
}

void out_advance(struct grpc_out *out, size_t bytes)
{
    out->left -= bytes;
    while (bytes > 0) {
        size_t left = out->parts[out->at].iov_len - out->used, part = left < bytes ? left : bytes;
        out->used += part;
        bytes -= part;
        if (out->used == out->parts[out->at].iov_len) {
            out->at++;
            out->used = 0;
        }
    }
}
