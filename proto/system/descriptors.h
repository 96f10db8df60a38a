/*
 * descriptors.h - are enough descriptors free for ZeroMQ? It ends the whole program when it gets none for a thread of
 * its own.
 *
 * Threads: any; another thread may take what was free.
 */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdbool.h>

/* What a context with one I/O thread, its socket, the socket's monitor and a connection need, with libzmq 4.3.4. */
#define DESCRIPTORS_CONTEXT 9u
#define DESCRIPTORS_MOST    32u

/* Whether that many (at most DESCRIPTORS_MOST) could be opened now. */
bool descriptors_free(unsigned count);

#endif
