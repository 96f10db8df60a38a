/*
 * remote.h - `penstock model push`, `pull`, `list` and `label --remote`: models between folders, registries and stores.
 *
 * Threads: owner.
 */
#ifndef REMOTE_H
#define REMOTE_H

#include "command.h"

struct remote_options {
    const char *registry, *to, *store, *exchange, *peers, *as, *label;
    int64_t store_limit, transfers;
    bool remote, replace;
};

/* clang-format off */
#define REMOTE_SETTINGS(opts)                                                                                                    \
    {.name = "registry", .type = SETTING_TEXT, .offset = offsetof(opts, remote.registry), .def = "",                             \
     .help = "where models are: a folder, http://HOST/PATH, s3://BUCKET/PREFIX or s3+http://HOST:PORT/BUCKET/PREFIX"},           \
    {.name = "to", .type = SETTING_TEXT, .offset = offsetof(opts, remote.to), .def = "",                                         \
     .help = "with push: the registry; with pull: a folder that gets NAME/VERSION/, for --models of a worker"},                  \
    {.name = "as", .type = SETTING_TEXT, .offset = offsetof(opts, remote.as), .def = "",                                         \
     .help = "with push: NAME or NAME@VERSION in the registry, when they are not those of the folder"},                          \
    {.name = "label", .type = SETTING_TEXT, .offset = offsetof(opts, remote.label), .def = "",                                   \
     .help = "with push: the label that points to this version from now on; with shadow: it moves to --back by itself when a limit is passed"}, \
    {.name = "replace", .type = SETTING_FLAG, .offset = offsetof(opts, remote.replace), .def = "false",                          \
     .help = "with push: take the place of a version that the registry has with other files, and send all files again"},         \
    {.name = "remote", .type = SETTING_FLAG, .offset = offsetof(opts, remote.remote), .def = "false",                            \
     .help = "with list and label: of the registry, not of the store or the pool"},                                              \
    {.name = "store", .type = SETTING_TEXT, .offset = offsetof(opts, remote.store), .def = "",                                   \
     .help = "folder for what was pulled; default ~/.cache/penstock/store"},                                                           \
    {.name = "store-limit", .type = SETTING_BYTES, .offset = offsetof(opts, remote.store_limit), .def = "0", .unit = "bytes",    \
     .min = 0, .max = INT64_MAX,                                                                                                 \
     .help = "of the store: beyond it the models used least recently go, those in use never; 0 = no bound"},                     \
    {.name = "exchange", .type = SETTING_TEXT, .offset = offsetof(opts, remote.exchange), .def = "auto",                         \
     .help = "folder in which stores of this user and host find each other; auto = in XDG_RUNTIME_DIR or /tmp; none"},           \
    {.name = "model-peers", .type = SETTING_TEXT, .offset = offsetof(opts, remote.peers), .def = "",                             \
     .help = "with pull: HOST:PORT of workers with --share-models, separated by commas; they are asked before the registry"},    \
    {.name = "transfers", .type = SETTING_INT, .offset = offsetof(opts, remote.transfers), .def = "4", .unit = "connections",    \
     .min = 1, .max = 32, .help = "at a time, with push and pull"}

#define REMOTE_VARIABLES                                                                                                         \
    {"to", "", settings_old_never}, {"as", "", settings_old_never}, {"label", "", settings_old_never},                           \
    {"replace", "", settings_old_never}, {"remote", "", settings_old_never}
/* clang-format on */

/* words[0] is the verb. Return the exit code. */
int remote_push(const struct common *common, const struct remote_options *o, const char *const *words, size_t count);
int remote_pull(const struct common *common, const struct remote_options *o, const char *const *words, size_t count);
int remote_list(const struct common *common, const struct remote_options *o, const char *const *words, size_t count);
int remote_label(const struct common *common, const struct remote_options *o, const char *const *words, size_t count);

#endif
