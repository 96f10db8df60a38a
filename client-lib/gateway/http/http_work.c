#include "http_work.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 4096u

struct http_work *http_work_new(void)
{
    struct http_work *work = malloc(sizeof *work);
    if (!work)
        return NULL;
    memset(work, 0, offsetof(struct http_work, head));
    memset(&work->request, 0, sizeof work->request);
    work->text = malloc(TEXT_BYTES);
    work->size = TEXT_BYTES;
    if (work->text)
        return work;
    free(work);
    return NULL;
}

static void drop(struct http_work *work)
{
    hold_release(work->request.hold);
    bytes_fini(&work->answer_text);
    free(work->parts);
    if (work->release)
        work->release(work->release_arg);
}

void http_work_reset(struct http_work *work)
{
    char *text = work->text;
    size_t left = work->used - work->taken, size = work->size;
    memmove(text, text + work->taken, left);
    drop(work);
    memset(work, 0, offsetof(struct http_work, head));
    memset(&work->request, 0, sizeof work->request);
    work->text = text;
    work->used = left;
    work->size = size;
}

void http_work_free(struct http_work *work)
{
    if (!work)
        return;
    drop(work);
    free(work->text);
    free(work);
}
