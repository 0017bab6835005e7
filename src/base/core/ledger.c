/* Counters of bytes held and bytes moved. They are ordinary functions, so that tests can replace them. */
#include "base/core/core.h"
#include "base/core/names.h"
#include "zr/base.h"

const char *zr__category_name(zr_category category)
{
    ZR__NAME_IN(ZR_CATEGORY_LIST, ZR_CATEGORIES, category, "unknown");
}

void zr__ledger_take(zr_ledger *ledger, zr_category category, int64_t bytes)
{
    int64_t live = ledger->live_bytes[category] += bytes;
    if (live > ledger->peak_bytes[category]) ledger->peak_bytes[category] = live;
}

void zr__ledger_give(zr_ledger *ledger, zr_category category, int64_t bytes)
{
    ledger->live_bytes[category] -= bytes;
}

void zr__traffic_count(zr_traffic *traffic, zr_traffic_kind kind, int64_t bytes)
{
    traffic->bytes[kind] += bytes;
}
