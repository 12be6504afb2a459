/* attention_cases.h: the shapes on which attention and its tangent are tried: one token, short and long sequences, the
 * edges of tiles and blocks, grouped heads, odd widths, windows, and queries, keys and values in one fused matrix. */
#ifndef TESTS_BACKEND_ATTENTION_CASES_H
#define TESTS_BACKEND_ATTENTION_CASES_H

#include "engine/backend/cases.h"

struct attention_shape {
    int64_t lengths[8];
    int64_t heads, kv_heads, head_dim, window;
    bool fused;
    double scale;
};

static const struct attention_shape attention_shapes[] = {
    {{1}, 1, 1, 4, 0, false, 0.5},
    {{5, 1, 9}, 2, 2, 8, 0, false, 0.35},
    {{63, 64, 65, 130}, 4, 2, 16, 0, false, 0.25},
    {{40, 200}, 3, 3, 32, 0, true, 0.18},
    {{300, 7}, 4, 1, 24, 50, false, 0.2},
    {{260}, 2, 2, 8, 1, false, 0.35},
    {{600, 513}, 2, 1, 64, 0, false, 0.125},
    {{1200}, 1, 1, 16, 520, false, 0.25},
    {{1100}, 1, 1, 40, 0, true, 0.158},
    {{257, 20, 257}, 2, 1, 5, 0, false, 0.45},
    {{30, 270, 270}, 3, 1, 12, 100, false, 0.3},
};

enum { ATTENTION_SHAPES = sizeof attention_shapes / sizeof attention_shapes[0] };

#endif
