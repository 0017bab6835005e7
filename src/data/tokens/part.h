/** Divides data into a share that is held out, for validation, and the rest, for training (zr_data_part). */
#ifndef ZR_DATA_PART_H
#define ZR_DATA_PART_H

#include "zr/data.h"

/** Return the record that is held out of block `block`, counted from 0. With a share x, block b has the records from
 * b/x to (b+1)/x, rounded down, and one is drawn. So records of every part of a file are held out, also if it is
 * sorted. The draw depends on the block alone: the same records are held out whatever the seed of a run, and records
 * that are added at the end change nothing for those before them. */
int64_t zr__part_record(double share, int64_t block);

/** Return whether record number `record`, counted from 0, is in a part. Without a share every record is. */
bool zr__part_has(const zr_data_part *part, int64_t record);

/** A part of some data, for its check. */
typedef struct zr__part_size {
    const char *name;        /* file, for messages */
    const char *unit;        /* plural name of the counted units, such as "records" */
    int64_t has, all, least; /* size of the part; of all data; size that the part must have at least */
} zr__part_size;

/** Fail with ZR_ERR_CONFIG if a part is too small. Do nothing for data without a share. */
ZR_NODISCARD zr_status zr__part_check(const zr_data_part *part, const zr__part_size *size);

#endif
