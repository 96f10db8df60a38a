/* vectors_metas.h - example metas of the messages that carry no tensors, with a value in every field. Threads: one-at-a-time. */
#ifndef VECTORS_METAS_H
#define VECTORS_METAS_H

#include <protobuf-c/protobuf-c.h>

/* Static memory; NULL for types whose message has no such meta. */
const ProtobufCMessage *example_meta(int type);

#endif
