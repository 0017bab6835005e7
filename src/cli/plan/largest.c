#include "cli/plan/largest.h"

/** Return the number at which the line through two points reaches the limit. */
static int64_t line_meets(cli_point a, cli_point b, int64_t limit_bytes)
{
    const double slope = (double)(b.needs - a.needs) / (double)(b.n - a.n);
    const double n = (double)b.n + (double)(limit_bytes - b.needs) / (slope > 1 ? slope : 1);
    return n < 0x1p40 ? (int64_t)n : (int64_t)1 << 40;
}

/** Return the number to try next. Plans of large models take long, so try few numbers. Interpolate, because the bytes
 * grow nearly linearly. Bisect or double in each third round, so that the search ends soon for any curve. */
static int64_t next_try(int round, cli_point before, cli_point fits, cli_point fails, int64_t limit_bytes)
{
    const cli_point other = fails.needs ? fails : before;
    int64_t n = fails.needs ? fits.n + (fails.n - fits.n) / 2 : 2 * fits.n;
    if (round % 3 != 0) n = line_meets(other, fits, limit_bytes);
    if (!fails.needs && n > 16 * fits.n) n = 16 * fits.n;
    return n <= fits.n ? fits.n + 1 : n >= fails.n ? fails.n - 1 : n;
}

zr_status cli_largest(cli_needs_of *needs_of, void *arg, int64_t limit_bytes, int64_t guess, cli_point *fits,
                      cli_point *fails)
{
    cli_point before = {0};
    const int64_t last_guess = guess + 1;
    for (int round = 0; fails->n - fits->n > 1; round++) {
        const bool guessed = guess > fits->n && guess < fails->n && guess <= last_guess;
        cli_point now = {.n = guessed ? guess : next_try(round, before, *fits, *fails, limit_bytes)};
        ZR_TRY(needs_of(arg, now.n, &now.needs));
        if (now.needs <= limit_bytes) {
            if (guessed) guess++;
            before = *fits;
            *fits = now;
        } else {
            *fails = now;
        }
    }
    return ZR_OK;
}
