/* labelled_model.h - y = relu(x) [1, 1, 1, 3] as TFLite, with metadata: input normalisation of three channels, labels of y in a file of an archive behind the model. */
#ifndef LABELLED_MODEL_H
#define LABELLED_MODEL_H

#include "flat_writer.h"

/* The metadata names "labels.txt"; name: of the file in the archive, NULL = no archive. method: 0 = stored, 8 = packed (which it is not). Gives the metadata's bytes. */
size_t labelled_model_write(struct flat *f, const char *name, const char *labels, unsigned method);

#endif
