/* try_page.c - the page /try: drop a picture, see what a model finds on it. It is the same for everybody; what it asks for needs a token where others do. */
#include "try_page.h"

#include <string.h>

#include "calls.h"

enum pen_status answer_try(struct call *call, struct pen_error *reterr)
{
    const char *asked = *call->region ? call->region : "index.html";
    for (size_t i = 0; i < try_files_count; i++) {
        if (strcmp(asked, try_files[i].path) != 0)
            continue;
        call->type = try_files[i].type;
        call->headers =
            "Content-Security-Policy: default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; "
            "base-uri 'none'\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
            "Cache-Control: no-cache\r\n";
        bytes_add(&call->text, try_files[i].bytes, try_files[i].size);
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "the page to try models is /try");
}
