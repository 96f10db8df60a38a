/* curl_library.c - dlopen of libcurl: OpenSSL's flavour, or GnuTLS'. */
#include "curl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct curl_library library;
static bool there;

static const struct {
    const char *name;
    size_t offset;
} names[] = {
    {"curl_easy_init", offsetof(struct curl_library, easy_init)},
    {"curl_easy_setopt", offsetof(struct curl_library, easy_setopt)},
    {"curl_easy_perform", offsetof(struct curl_library, easy_perform)},
    {"curl_easy_getinfo", offsetof(struct curl_library, easy_getinfo)},
    {"curl_easy_reset", offsetof(struct curl_library, easy_reset)},
    {"curl_easy_cleanup", offsetof(struct curl_library, easy_cleanup)},
    {"curl_slist_append", offsetof(struct curl_library, slist_append)},
    {"curl_slist_free_all", offsetof(struct curl_library, slist_free_all)},
};

static void open_library(void)
{
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    handle = handle ? handle : dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    void *begin = handle ? dlsym(handle, "curl_global_init") : NULL;
    CURLcode (*global_init)(long) = NULL;
    memcpy(&global_init, &begin, sizeof begin);
    there = begin && global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    for (size_t i = 0; there && i < sizeof names / sizeof names[0]; i++) {
        void *found = dlsym(handle, names[i].name);
        memcpy((char *)&library + names[i].offset, &found, sizeof found);
        there = found != NULL;
    }
}

const struct curl_library *curl_library(struct pen_error *reterr)
{
    pthread_once(&once, open_library);
    if (there)
        return &library;
    pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                  "this host has no libcurl, which web servers and buckets need: install the package libcurl4");
    return NULL;
}
