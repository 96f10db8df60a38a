#include "streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "assertion.h"
#include "mutex.h"
#include "streams_thread.h"

/* ---- boxes ---- */

enum pen_status box_init(struct box *box)
{
    TAILQ_INIT(&box->notes);
    box->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->event < 0)
        return PEN_ERR_IO;
    mutex_init(&box->lock);
    return PEN_OK;
}

void box_fini(struct box *box)
{
    struct note *note;
    while ((note = box_take(box)) != NULL)
        note_free(note);
    close(box->event);
    mutex_fini(&box->lock);
}

void box_put(struct box *box, struct note *note)
{
    uint64_t one = 1;
    mutex_take(&box->lock);
    TAILQ_INSERT_TAIL(&box->notes, note, in_box);
    mutex_give(&box->lock);
    if (write(box->event, &one, sizeof one) < 0)
        return; /* it is readable already */
}

/* Resets the event first, so that whatever comes after this look sets it again. */
struct note *box_take(struct box *box)
{
    uint64_t count;
    mutex_take(&box->lock);
    struct note *note = TAILQ_FIRST(&box->notes);
    PEN_ASSERT(box->event >= 0, "a box is used between its beginning and its end");
    if (note)
        TAILQ_REMOVE(&box->notes, note, in_box);
    bool empty = TAILQ_EMPTY(&box->notes);
    if (empty && read(box->event, &count, sizeof count) < 0 && errno != EAGAIN)
        empty = false; /* costs one look that was not needed */
    mutex_give(&box->lock);
    return note;
}

/* ---- life ---- */

enum pen_status streams_new(const struct streams_options *options, struct streams **ret_streams,
                            struct pen_error *reterr)
{
    struct streams *streams = calloc(1, sizeof *streams);
    if (!streams)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for detached jobs in Redis");
    streams->options = *options;
    if (box_init(&streams->in) != PEN_OK) {
        free(streams);
        return pen_error_set(reterr, PEN_ERR_IO, "no descriptor for detached jobs in Redis: %s", strerror(errno));
    }
    if (box_init(&streams->out) == PEN_OK) {
        if (pthread_create(&streams->thread, NULL, streams_run, streams) == 0) {
            *ret_streams = streams;
            return PEN_OK;
        }
        box_fini(&streams->out);
    }
    box_fini(&streams->in);
    free(streams);
    return pen_error_set(reterr, PEN_ERR_IO, "cannot start the thread of detached jobs in Redis");
}

void streams_free(struct streams *streams)
{
    struct note *stop = streams ? note_new(NOTE_STOP, (struct job_id){0, 0}) : NULL;
    if (!stop)
        return; /* without memory: the thread still uses what would be freed */
    box_put(&streams->in, stop);
    pthread_join(streams->thread, NULL);
    box_fini(&streams->in);
    box_fini(&streams->out);
    free(streams);
}

void streams_send(struct streams *streams, struct note *note)
{
    box_put(&streams->in, note);
}

struct note *streams_receive(struct streams *streams)
{
    return box_take(&streams->out);
}

int streams_descriptor(const struct streams *streams)
{
    return streams->out.event;
}
