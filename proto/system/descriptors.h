/*
 * descriptors.h - is there room for what ZeroMQ opens? It ends the whole program where it finds none for a thread of its own.
 *
 * Threads: any; another thread may take what was free.
 */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdbool.h>

/* Of a context with one thread for input and output, its socket, the socket's monitor and a connection, with libzmq 4.3.4. */
#define DESCRIPTORS_CONTEXT 9u
#define DESCRIPTORS_MOST    32u

/* Whether that many (at most DESCRIPTORS_MOST) could be opened now. */
bool descriptors_free(unsigned count);

#endif
