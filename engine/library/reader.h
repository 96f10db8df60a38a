/*
 * reader.h - the library's own thread: runs that go on in the background, and asynchronous reads. It begins with the first of them; pen_shutdown ends it.
 *
 * Threads: any, unless marked.
 */
#ifndef LIBRARY_READER_H
#define LIBRARY_READER_H

#include "library/task.h"

/* Brings the run to its end in its turn. It holds the task until then. */
enum pen_status reader_run(struct task *task, struct pen_error *reterr);
/* Ends the thread when it has made all its calls. Owner: nobody else asks it for anything meanwhile. */
void reader_end(void);

#endif
