/*
 * frames.h - the frames that this program's own objects have received and not closed, for programs that close connections in the middle of messages.
 *
 * libzmq (4.3) loses the first frames of a message whose last frame had not come when its socket is closed. LeakSanitizer cannot tell that from a frame that we
 * forget, because both are memory of libzmq. So these programs do not look at leaks of libzmq, and count frames instead: "left at exit" and the frame's size are
 * written when the process ends, or when the memory of a frame is used again. That fails the program (penstock_test). Link with FRAMES_SOURCES and FRAMES_WRAPS.
 *
 * Threads: any.
 */
#ifndef SUPPORT_FRAMES_H
#define SUPPORT_FRAMES_H

#include <stddef.h>

size_t frames_open(void);      /* received, and neither closed nor sent */
size_t frames_forgotten(void); /* whose zmq_msg_t was used again before it was closed */

#endif
