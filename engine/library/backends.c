#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/env.h"
#include "library/reader.h"
#include "mutex.h"
#include "penstock/backends.h"
#include "run/internal.h"

/* The backends of this process. Opening, loading and closing happen one at a time: what backends ask for. */
struct opened {
    struct pen_engine *engine; /* NULL = not open */
    unsigned models;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened opened[BACKENDS_MAX]; /* in the order of backend_table */
static struct opened *current;
static struct pen_env *wanted; /* NULL = not read yet */

static struct opened *place_of(const char *name)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    for (size_t i = 0; i < count && i < BACKENDS_MAX; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            return &opened[i];
        }
    }
    return NULL;
}

static void close_locked(struct opened *place)
{
    pen_engine_free(place->engine);
    place->engine = NULL;
    current = current == place ? NULL : current;
}

static enum pen_status env_locked(struct pen_error *reterr)
{
    if (wanted != NULL) {
        return PEN_OK;
    }
    enum pen_status status = pen_env_new(&wanted, reterr);
    if (status == PEN_OK) {
        status = pen_env_read_variables(wanted, reterr);
    }
    if (status != PEN_OK) {
        pen_env_free(wanted);
        wanted = NULL;
    }
    return status;
}

/* Opens the backend of that name; NULL = the environment's. */
static enum pen_status engine_open(const char *name, struct pen_engine **ret_engine, struct pen_error *reterr)
{
    struct pen_env *env = NULL;
    enum pen_status status = env_copy(wanted, &env, reterr);
    if (status == PEN_OK && name != NULL) {
        status = pen_env_set(env, "backend", name, PEN_ORIGIN_FLAG, "pen_backend_set", reterr);
    }
    if (status == PEN_OK) {
        status = pen_engine_open(env, ret_engine, reterr);
    }
    pen_env_free(env);
    return status;
}

static enum pen_status set_locked(const char *name, struct pen_error *reterr)
{
    struct opened *place = name != NULL ? place_of(name) : NULL;
    if (place != NULL && place->engine != NULL) {
        current = place;
        return PEN_OK;
    }
    struct pen_engine *engine = NULL;
    enum pen_status status = env_locked(reterr);
    if (status == PEN_OK) {
        status = engine_open(name, &engine, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    place = place_of(pen_engine_backend(engine));
    if (place->engine != NULL) { /* by priority the one that is open already */
        pen_engine_free(engine);
    } else {
        place->engine = engine;
    }
    current = place;
    return PEN_OK;
}

static enum pen_status ready_locked(struct pen_error *reterr)
{
    return current != NULL ? PEN_OK : set_locked(NULL, reterr);
}

/* Models on the place, or (NULL) on any. */
static unsigned models_locked(const struct opened *place)
{
    unsigned count = 0;
    for (size_t i = 0; i < BACKENDS_MAX; i++) {
        count += place == NULL || place == &opened[i] ? opened[i].models : 0;
    }
    return count;
}

static enum pen_status close_all_locked(struct pen_error *reterr)
{
    const unsigned models = models_locked(NULL);
    if (models > 0) {
        return pen_error_set(reterr, PEN_ERR_BUSY, "%u models are open: close them with pen_model_close first", models);
    }
    for (size_t i = 0; i < BACKENDS_MAX; i++) {
        close_locked(&opened[i]);
    }
    return PEN_OK;
}

enum pen_status pen_backend_set(const char *name, struct pen_error *reterr)
{
    mutex_take(&lock);
    enum pen_status status = set_locked(name != NULL ? name : "auto", reterr);
    mutex_give(&lock);
    return status;
}

enum pen_status pen_backend_ready(struct pen_error *reterr)
{
    mutex_take(&lock);
    enum pen_status status = ready_locked(reterr);
    mutex_give(&lock);
    return status;
}

const char *pen_backend_get(void)
{
    mutex_take(&lock);
    const char *name = ready_locked(NULL) == PEN_OK ? pen_engine_backend(current->engine) : NULL;
    mutex_give(&lock);
    return name;
}

enum pen_status pen_backend_engine(struct pen_engine **ret_engine, struct pen_error *reterr)
{
    mutex_take(&lock);
    enum pen_status status = ready_locked(reterr);
    if (status == PEN_OK) {
        *ret_engine = current->engine;
    }
    mutex_give(&lock);
    return status;
}

enum pen_status pen_backend_configure(const struct pen_env *env, struct pen_error *reterr)
{
    struct pen_env *copy = NULL;
    enum pen_status status = env != NULL ? env_copy(env, &copy, reterr) : PEN_OK;
    if (status != PEN_OK) {
        return status;
    }
    mutex_take(&lock);
    status = close_all_locked(reterr);
    if (status == PEN_OK) {
        pen_env_free(wanted);
        wanted = copy;
        copy = NULL;
    }
    mutex_give(&lock);
    pen_env_free(copy);
    return status;
}

enum pen_status pen_backend_remove(const char *name, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    mutex_take(&lock);
    struct opened *place = place_of(name);
    if (place == NULL || place->engine == NULL) {
        status = pen_error_set(reterr, PEN_ERR_NOT_FOUND, "no backend '%s' is open", name);
    } else if (place->models > 0) {
        status = pen_error_set(reterr, PEN_ERR_BUSY, "%u models are open on %s: close them first", place->models, name);
    } else {
        close_locked(place);
    }
    mutex_give(&lock);
    return status;
}

enum pen_status pen_shutdown(struct pen_error *reterr)
{
    reader_end();
    mutex_take(&lock);
    enum pen_status status = close_all_locked(reterr);
    if (status == PEN_OK) {
        pen_env_free(wanted);
        wanted = NULL;
    }
    mutex_give(&lock);
    return status;
}

/* ---- models --------------------------------------------------------------------------------------------------------- */

enum pen_status pen_model_open(const char *path, struct pen_model **ret_model, struct pen_error *reterr)
{
    mutex_take(&lock);
    enum pen_status status = ready_locked(reterr);
    if (status == PEN_OK) {
        status = pen_model_load(current->engine, path, ret_model, reterr);
    }
    if (status == PEN_OK) {
        current->models++;
        (*ret_model)->opened = true;
    }
    mutex_give(&lock);
    return status;
}

void pen_model_close(struct pen_model *model)
{
    if (model == NULL) {
        return;
    }
    mutex_take(&lock);
    struct opened *place = place_of(pen_engine_backend(model->engine));
    if (model->opened) {
        PEN_ASSERT(place->engine == model->engine && place->models > 0, "a backend with models stays open");
        place->models--;
    }
    pen_model_free(model);
    mutex_give(&lock);
}
