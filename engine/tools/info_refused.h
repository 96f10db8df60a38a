/*
 * info_refused.h - what `penstock-engine info` says of a model that cannot run here: which operators are missing, at which nodes, and what avoids them.
 */
#ifndef INFO_REFUSED_H
#define INFO_REFUSED_H

#include <cjson/cJSON.h>

#include "penstock/engine.h"
#include "tools/tool.h"

/*
 * Prints why `path` was refused with `why`: the text form, or, where `list` is not NULL, one object of it. `issue`: a text to report instead, with operators
 * and versions, without weights and names of nodes. Gives the exit code: TOOL_UNSUPPORTED where a conversion could help, else that of the failure.
 */
int info_refused(const char *path, const struct pen_error *why, const struct tool_options *options, bool issue,
                 cJSON *list);
/* The entry points of a file with several, into text ("encode, decode"); false: it has not several. */
bool info_entries(const char *path, char *text, size_t room);
/* The text to report of a model that does run. */
void info_issue(const char *path, const struct pen_model *model);
/* The file read again, for the operators that it asks for. Gives the format, or "?"; inventory_fini() it. */
struct inventory;
const char *info_inventory(const char *path, struct inventory *ret);
/* info_advice.c: what could avoid an operator in a file of this format; never NULL. */
const char *info_advice(const char *format, const char *op);

#endif
