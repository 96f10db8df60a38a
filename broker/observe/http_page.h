/*
 * http_page.h - what each path answers: a table of pages, made from snapshots.
 * Threads: any.
 */
#ifndef HTTP_PAGE_H
#define HTTP_PAGE_H

#include "historian.h"
#include "metrics_post.h"
#include "metrics_writer.h"
#include "preview.h"

struct page {
    unsigned status; /* HTTP */
    const char *type;
    const char *fixed; /* a constant body; NULL: in `body` */
    size_t fixed_bytes;
    struct preview *held; /* `fixed` lies in a frame of it; free it by preview_free once the body is sent */
    struct writer body;
    bool stream; /* /events: the body is sent piece by piece */
};

/* What pages are made from. */
struct page_source {
    struct post *post;
    struct historian *historian; /* NULL: no history is kept */
    struct previews *previews;   /* NULL: no pictures are kept */
};

/* Fills *ret_page (page_fini it); unknown paths are a 404. */
void page_make(const struct page_source *source, const char *path, struct page *ret_page);
void page_fini(struct page *page);

/* Writes one server-sent event with the state; false when there is no snapshot. */
bool page_event(struct post *post, struct writer *writer);

#endif
