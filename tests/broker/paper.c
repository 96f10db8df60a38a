#include "paper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int paper_write(struct journal_file *file, const void *bytes, size_t size)
{
    struct paper *paper = (struct paper *)(void *)file;
    size_t fits = paper->written + size <= paper->room ? size : paper->room - paper->written;
    memcpy(paper->bytes + paper->written, bytes, fits);
    paper->written += fits;
    return fits == size ? 0 : ENOSPC;
}

static int paper_sync(struct journal_file *file)
{
    struct paper *paper = (struct paper *)(void *)file;
    if (paper->sync_fails)
        return EIO;
    paper->synced = paper->written;
    return 0;
}

static int paper_cut(struct journal_file *file, uint64_t size)
{
    struct paper *paper = (struct paper *)(void *)file;
    paper->written = (size_t)size;
    return 0;
}

static int paper_read(struct journal_file *file, uint64_t at, void *bytes, size_t size)
{
    struct paper *paper = (struct paper *)(void *)file;
    if (at + size > paper->written)
        return EIO;
    memcpy(bytes, paper->bytes + at, size);
    return 0;
}

static int paper_fresh(struct journal_file *file, struct journal_file **ret_fresh)
{
    struct paper *paper = (struct paper *)(void *)file;
    paper->fresh = paper_new();
    paper->fresh->room = paper->room;
    paper->fresh->sync_fails = paper->sync_fails;
    *ret_fresh = &paper->fresh->file;
    return 0;
}

/* Only what was synced has a place to take. */
static int paper_replace(struct journal_file *file, struct journal_file *fresh)
{
    struct paper *paper = (struct paper *)(void *)file, *other = (struct paper *)(void *)fresh;
    memcpy(paper->bytes, other->bytes, other->synced);
    paper->written = paper->synced = other->synced;
    paper->fresh = NULL;
    paper->replaced++;
    free(other);
    return 0;
}

static void paper_abandon(struct journal_file *file, struct journal_file *fresh)
{
    struct paper *paper = (struct paper *)(void *)file;
    paper->fresh = NULL;
    free(fresh);
}

struct paper *paper_new(void)
{
    struct paper *paper = calloc(1, sizeof *paper);
    paper->file = (struct journal_file){.write = paper_write,
                                        .sync = paper_sync,
                                        .cut = paper_cut,
                                        .read = paper_read,
                                        .fresh = paper_fresh,
                                        .replace = paper_replace,
                                        .abandon = paper_abandon};
    paper->room = sizeof paper->bytes;
    return paper;
}
