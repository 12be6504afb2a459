#include "store/measured.h"

#include <string.h>

const char *const measured_names[] = {
    "delta",
    "loss_fp",
    "loss_q",
    "kl",
    "top1_agreement",
    "bits_per_weight",
    "delta_stddev", /* quantize */
    "loss",
    "perplexity", /* evaluate */
    "top_eigenvalue",
    "largest_algebraic",
    "smallest_algebraic",
    "trace",
    "gradient_norm",
    "weight_norm", /* sharpness */
    "predicted_delta",
    "gradient_term",
    "curvature_term",
    "measured_delta", /* its direction */
    "additive_share", /* attribution */
    "accuracy",
    "accuracy_norm",
    "accuracy_change",
    "accuracy_norm_change", /* tasks, each */
    "mean_accuracy",
    "mean_accuracy_norm",
    "mean_accuracy_change",
    "mean_accuracy_norm_change", /* and all */
    "weight_l1",
    "weight_l2",
    "weight_linf",
    "weight_kurtosis",
    "weight_outlier_share", /* health */
    "weight_change",
    "weight_cosine", /* beside the one before */
    "train_loss",
    "validation_loss", /* train */
    "learning_rate",   /* of the checkpoint */
    NULL,
};

bool measured_known(const char *name)
{
    for (const char *const *known = measured_names; *known != NULL; known++)
        if (strcmp(*known, name) == 0) return true;
    return false;
}

enum { NAME_MOST = 40 };

/* Levenshtein's distance, and a swap of neighbours as one edit. Names longer than NAME_MOST are far from everything. */
static size_t distance(const char *a, const char *b)
{
    const size_t rows = strlen(a), columns = strlen(b);
    size_t last[3][NAME_MOST + 1] = {{0}};
    if (rows > NAME_MOST || columns > NAME_MOST) return NAME_MOST;
    for (size_t j = 0; j <= columns; j++) last[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        const size_t *two = last[(i + 1) % 3], *one = last[(i + 2) % 3];
        size_t *row = last[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = one[j - 1] + (a[i - 1] != b[j - 1]);
            if (one[j] + 1 < best) best = one[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && two[j - 2] + 1 < best) best = two[j - 2] + 1;
            row[j] = best;
        }
    }
    return last[rows % 3][columns];
}

const char *measured_nearest(const char *name)
{
    const char *nearest = NULL;
    size_t least = strlen(name) / 3 + 1;
    for (const char *const *known = measured_names; *known != NULL; known++) {
        const size_t edits = distance(name, *known);
        if (edits > least || (edits == least && nearest != NULL)) continue;
        least = edits;
        nearest = *known;
    }
    return nearest;
}
