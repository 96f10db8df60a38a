/*
 * content_coding.h - gzip and deflate of bodies, by zlib.
 * Threads: any.
 */
#ifndef CONTENT_CODING_H
#define CONTENT_CODING_H

#include <sys/uio.h>

#include "bytes.h"
#include "hold.h"
#include "penstock/status.h"

enum content_coding { CODING_NONE, CODING_GZIP, CODING_DEFLATE, CODING_UNKNOWN };

enum content_coding content_coding_parse(const char *name);      /* NULL or "identity": none */
enum content_coding content_coding_choose(const char *accepted); /* of Accept-Encoding; NULL: none */
const char *content_coding_name(enum content_coding coding);

/*
 * Unpacks a body into a block of `hold`. INVALID: it is not of that coding, or is cut; TOO_LARGE: more than bytes_max; NO_MEMORY.
 * deflate: in zlib's wrapping as RFC 9110 says, or raw as some send it.
 */
enum pen_status content_unpack(enum content_coding coding, const void *data, size_t bytes, size_t bytes_max,
                               struct hold *hold, char **ret_data, size_t *ret_bytes, struct pen_error *reterr);

/* The text and the parts behind it, packed: they become the text. False without memory: they are as they were. */
bool content_pack(enum content_coding coding, struct bytes *text, const struct iovec *parts, size_t parts_count);

#endif
