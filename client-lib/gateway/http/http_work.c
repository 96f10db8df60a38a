#include "http_work.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 4096u
#define SHELF_MAX  64u

/* All but the text, of which `used` bytes stay. */
static void clear(struct http_work *work, size_t used)
{
    char *text = work->text;
    size_t size = work->size;
    memset(work, 0, offsetof(struct http_work, head));
    memset(&work->request, 0, sizeof work->request);
    work->text = text;
    work->size = size;
    work->used = used;
}

static struct http_work *take(struct http_shelf *shelf)
{
    struct http_work *work = shelf->first;
    if (!work)
        return NULL;
    shelf->first = work->next;
    shelf->count--;
    work->next = NULL;
    return work;
}

struct http_work *http_work_new(struct http_shelf *shelf)
{
    struct http_work *work = take(shelf);
    if (work || !(work = malloc(sizeof *work)))
        return work;
    work->text = malloc(TEXT_BYTES);
    work->size = TEXT_BYTES;
    clear(work, 0);
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
    size_t left = work->used - work->taken;
    bool drained = work->drained;
    memmove(work->text, work->text + work->taken, left);
    drop(work);
    clear(work, left);
    work->drained = drained;
}

static void destroy(struct http_work *work)
{
    free(work->text);
    free(work);
}

void http_work_free(struct http_work *work, struct http_shelf *shelf)
{
    if (!work)
        return;
    drop(work);
    if (shelf->count >= SHELF_MAX || work->size > TEXT_BYTES) {
        destroy(work);
        return;
    }
    clear(work, 0);
    work->next = shelf->first;
    shelf->first = work;
    shelf->count++;
}

void http_shelf_fini(struct http_shelf *shelf)
{
    struct http_work *work;
    while ((work = take(shelf)))
        destroy(work);
}
