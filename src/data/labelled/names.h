/** The number of a label. */
#ifndef ZR_DATA_LABELLED_NAMES_H
#define ZR_DATA_LABELLED_NAMES_H

#include "base/json/json.h"
#include "data/labelled/labelled.h"

/** Return the number of a label, which is given as its name or as a number, or -1. */
int32_t zr__label_of(const zr_labelled_args *args, const json_t *label);

#endif
