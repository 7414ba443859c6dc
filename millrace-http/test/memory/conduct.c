/* conduct.c - what a client of HTTP/2 or HTTP/3 may do (http_limit.h). Must not know: sockets, the clock. */
#include "memory_test.h"

#include "http_limit.h"

static const uint64_t SECOND = UINT64_C(1000000000);

static const http_allowances allowances = {
    .frames_max = 10, .frames_per_second = 2, .resets_max = 4, .resets_per_second = 1};

void bucket(uintptr_t unused)
{
    (void)unused;
    http_bucket b = {.tokens = 10, .filled_at = 5 * SECOND};
    for (int i = 0; i < 10; i++)
        CHECK(!http_bucket_take(&b, 1, 5 * SECOND, 10, 2));
    CHECK(http_bucket_take(&b, 1, 5 * SECOND, 10, 2));
    /* Two more in each second, and never more than the burst. */
    CHECK(!http_bucket_take(&b, 1, 6 * SECOND, 10, 2));
    CHECK(http_bucket_take(&b, 1, 6 * SECOND, 10, 2));
    CHECK(!http_bucket_take(&b, 10, 1000 * SECOND, 10, 2));
    CHECK(http_bucket_take(&b, 1, 1000 * SECOND, 10, 2));
    /* A clock that goes back adds nothing. */
    CHECK(http_bucket_take(&b, 0, 1 * SECOND, 10, 2));
    CHECK_EQ(b.filled_at, 1000 * SECOND);
}

void conduct(uintptr_t unused)
{
    (void)unused;
    uint64_t now = SECOND;
    http_conduct c;
    http_conduct_begin(&c, &allowances, now);
    /* Frames: the connection ends gently at first, and at once when the allowance is overdrawn by as much again. */
    for (int i = 0; i < 10; i++)
        CHECK_EQ(http_conduct_useless(&c, &allowances, 1, now), HTTP_GO_ON);
    CHECK_EQ(c.limit, HTTP_LIMIT_NONE);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(http_conduct_useless(&c, &allowances, 1, now), HTTP_GO_ON);
    CHECK_EQ(c.limit, HTTP_LIMIT_FRAMES);
    CHECK_EQ(http_conduct_useless(&c, &allowances, 1, now), HTTP_END_AT_ONCE);
    /* Something useful makes up for them. */
    http_conduct_begin(&c, &allowances, now);
    http_conduct_earn(&c, 5);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(http_conduct_useless(&c, &allowances, 1, now), HTTP_GO_ON);
    CHECK_EQ(c.limit, HTTP_LIMIT_NONE);

    /* A request that nobody serves yet costs only what it has earned. */
    http_conduct_begin(&c, &allowances, now);
    http_cancellation cancelled = {0};
    CHECK_EQ(http_conduct_cancel(&c, &allowances, &cancelled, 0, now), HTTP_GO_ON);
    CHECK(!cancelled.is_one);
    http_conduct_forgive(&c, &cancelled, now);
    CHECK_EQ(c.resets.tokens, 4);
    CHECK_EQ(c.frames.tokens, 8);
    /* One whose handler ends soon costs nothing; one whose handler goes on is a reset. */
    CHECK_EQ(http_conduct_cancel(&c, &allowances, &cancelled, 1, now), HTTP_GO_ON);
    CHECK_EQ(c.resets.tokens, 3);
    http_conduct_forgive(&c, &cancelled, now + HTTP_SOON);
    CHECK_EQ(c.resets.tokens, 4);
    CHECK_EQ(http_conduct_cancel(&c, &allowances, &cancelled, 1, now), HTTP_GO_ON);
    http_conduct_forgive(&c, &cancelled, now + HTTP_SOON + 1);
    CHECK_EQ(c.resets.tokens, 3);
    http_conduct_forgive(&c, &cancelled, now - 1); /* a clock that goes back */
    CHECK_EQ(c.resets.tokens, 4);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(http_conduct_cancel(&c, &allowances, &cancelled, 1, now), HTTP_GO_ON);
    CHECK_EQ(c.limit, HTTP_LIMIT_RESETS);
    CHECK_EQ(http_conduct_cancel(&c, &allowances, &cancelled, 1, now), HTTP_END_AT_ONCE);
}

/* The first limit is reported, once. */
void limits_told(uintptr_t unused)
{
    (void)unused;
    http_conduct c;
    http_conduct_begin(&c, &allowances, 1);
    CHECK_EQ(http_conduct_tell(&c), HTTP_LIMIT_NONE);
    http_conduct_exceed(&c, HTTP_LIMIT_HEADS);
    http_conduct_exceed(&c, HTTP_LIMIT_MEMORY);
    CHECK_EQ(http_conduct_tell(&c), HTTP_LIMIT_HEADS);
    CHECK_EQ(http_conduct_tell(&c), HTTP_LIMIT_NONE);
    for (int limit = HTTP_LIMIT_FRAMES; limit <= HTTP_LIMIT_MEMORY; limit++) {
        CHECK_GT(strlen(http_limit_text((http_limit)limit)), 0);
        for (int other = HTTP_LIMIT_NONE; other < limit; other++)
            CHECK(strcmp(http_limit_text((http_limit)limit), http_limit_text((http_limit)other)) != 0);
    }
    CHECK_EQ(strlen(http_limit_text(HTTP_LIMIT_NONE)), 0);
}
