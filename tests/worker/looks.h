/*
 * looks.h - looks at a folder of models, one by one, without a thread and without time. For tests of what is half there, of versions and of links.
 */
#ifndef LOOKS_H
#define LOOKS_H

#include "folder.h"
#include "watch_own.h"

#define LOOKS_LOG_BYTES 65536

extern char looks_root[FOLDER_PATH_BYTES]; /* has model a, version 1, at first */
extern struct catalog looks_catalog;
extern struct options looks_options;
extern struct watch looks_watch;
extern char looks_log[LOOKS_LOG_BYTES]; /* what looks_logged has read */

void looks_setup(void);
void looks_teardown(void);
void looks_start(void); /* with what lies in the folder */
bool looks_again(void); /* one look; true: the list of offers has changed */

const char *looks_at(const char *path); /* below the root; one of four buffers in turn */
void looks_put_text(const char *path, const char *text);
uint8_t *looks_model(const char *op,
                     size_t *ret_size); /* a model file, y = op(x) over float32 [N, 2]; freed by the caller */
void looks_put(const char *folder, const char *op); /* with such a model, in one step */
void looks_put_sum(const char *folder);             /* with that of onnx_write_sum */

/* What is offered is "a:1 a:2"; what only lingers in parentheses. */
void looks_offers_are(const char *expected);
/* How often the log says it. */
size_t looks_logged(const char *part);

#define LOGGED_ONCE(part)                                                                                              \
    cr_expect(looks_logged(part) == 1, "%zu times '%s' in:\n%s", looks_logged(part), part, looks_log)

#endif
