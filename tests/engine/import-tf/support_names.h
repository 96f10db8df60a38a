/* support_names.h - names of the rows that the importers' tables hold, one after the other; NULL behind the last. */
#ifndef SUPPORT_NAMES_H
#define SUPPORT_NAMES_H

#include <stdint.h>

const char *support_graph(uint32_t index);
const char *support_layer(uint32_t index);
const char *support_lite(uint32_t index); /* "" = a name of what is not read */

#endif
