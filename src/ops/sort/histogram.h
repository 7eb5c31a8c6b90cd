// What histograms of one and of several dims share.
#ifndef NBX_OPS_HISTOGRAM_H
#define NBX_OPS_HISTOGRAM_H

#include "ops/op.h"

// The bin of x among rising edges, the last one closed; -1: outside.
int64_t nbx_histogram_bin(const nbx_tensor *edges, double x);
// Fills edges evenly from low to high, as linspace: from both ends.
void nbx_histogram_edges(const nbx_tensor *edges, double low, double high);

#endif
