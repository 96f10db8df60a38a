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

struct paper *paper_new(void)
{
    struct paper *paper = calloc(1, sizeof *paper);
    paper->file = (struct journal_file){.write = paper_write, .sync = paper_sync, .cut = paper_cut};
    paper->room = sizeof paper->bytes;
    return paper;
}
