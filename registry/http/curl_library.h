/*
 * curl_library.h - libcurl's functions, opened at run time.
 *
 * Threads: any.
 */
#ifndef CURL_LIBRARY_H
#define CURL_LIBRARY_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "penstock/status.h"

struct curl_library {
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
    CURLcode (*easy_perform)(CURL *);
    CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
    void (*easy_reset)(CURL *);
    void (*easy_cleanup)(CURL *);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free_all)(struct curl_slist *);
};

/* NULL: there is none, and *reterr says which package brings it. It stays open. */
const struct curl_library *curl_library(struct pen_error *reterr);

#endif
