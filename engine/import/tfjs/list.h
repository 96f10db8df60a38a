/*
 * list.h - lists of tensors: what TensorList and TensorArray have in common.
 *
 * Threads: one-at-a-time.
 */
#ifndef TFJS_LIST_H
#define TFJS_LIST_H

#include "import/build/list.h"
#include "import/tfjs/reader.h"

uint32_t js_list_place(struct call *c, uint32_t index); /* an input as int64 */

#endif
