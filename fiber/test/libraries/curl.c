/* curl.c: libcurl's easy interface: many downloads at once from a slow server. */
#include "libraries.h"

#include <curl/curl.h>
#include <stdatomic.h>

enum { FILES = 200, SERVED_BY_FIBERS = 300 };

typedef struct download {
    const char *url;
    size_t bytes;
    unsigned checksum;
} download;

static size_t take(char *data, size_t size, size_t count, void *argument)
{
    download *d = argument;
    for (size_t i = 0; i < size * count; i++)
        d->checksum = d->checksum * 31 + (unsigned char)data[i];
    d->bytes += size * count;
    return size * count;
}

static void *fetch(void *argument)
{
    download *d = argument;
    long status = 0;
    CURL *curl = curl_easy_init();
    CHECK(curl != NULL);
    curl_easy_setopt(curl, CURLOPT_URL, d->url);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, d);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    CURLcode error = curl_easy_perform(curl);
    if (error)
        FAIL("%s: %s", d->url, curl_easy_strerror(error));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    CHECK_EQ(status, 200);
    curl_easy_cleanup(curl);
    return NULL;
}

static void fetch_all(download *downloads, int count)
{
    mr_fiber **fibers = calloc((size_t)count, sizeof *fibers);
    for (int i = 0; i < count; i++)
        fibers[i] = spawn(fetch, &downloads[i]);
    for (int i = 0; i < count; i++)
        join(fibers[i]);
    free(fibers);
}

/* The server takes 300 ms for each. One after the other they would take a minute. */
void curl_parallel_download(void)
{
    static download downloads[FILES];
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (int i = 0; i < FILES; i++)
        downloads[i].url = setting("MILLRACE_TEST_SLOW_URL");
    uint64_t begin_ns = mr_clock_now_ns();
    fetch_all(downloads, FILES);
    CHECK_LT(mr_clock_now_ns() - begin_ns, 15000 * NS_PER_MS);
    CHECK_LE(os_threads(), 1 + mr_carriers_count() + 4);
    for (int i = 0; i < FILES; i++) {
        CHECK_EQ(downloads[i].bytes, 40000);
        CHECK_EQ(downloads[i].checksum, downloads[0].checksum);
    }
    curl_global_cleanup();
}

/* examples/http_server, another process of fibers, at the other end. */
void curl_from_a_server_of_fibers(void)
{
    static download downloads[SERVED_BY_FIBERS];
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (int i = 0; i < SERVED_BY_FIBERS; i++)
        downloads[i].url = setting("MILLRACE_TEST_FIBER_URL");
    fetch_all(downloads, SERVED_BY_FIBERS);
    for (int i = 0; i < SERVED_BY_FIBERS; i++)
        CHECK_EQ(downloads[i].bytes, 13);
    curl_global_cleanup();
}
