#include "curvature/critical.h"

#include <math.h>

enum { MOST_DOUBLINGS = 40, MOST_LOSSES = 100 };

struct search {
    const struct critical_line *line;
    double still; /* the loss without a step */
    struct critical *out;
};

static enum status exceeds(struct search *search, double step, bool *out, struct error *error)
{
    double loss = 0;
    const enum status status = search->line->loss(search->line->owner, step, &loss, error);
    search->out->losses++;
    *out = !(loss <= search->still);
    return status;
}

/* Finds two steps, one twice the other, of which only the larger exceeds. */
static enum status bracket(struct search *search, double first, struct error *error)
{
    bool above, began;
    double step = first, before = first;
    enum status status = exceeds(search, step, &began, error);
    above = began;
    for (int i = 0; status == STATUS_OK && above == began && i < MOST_DOUBLINGS; i++) {
        before = step;
        step *= began ? 0.5 : 2;
        status = exceeds(search, step, &above, error);
    }
    search->out->found = status == STATUS_OK && above != began;
    search->out->low = began ? step : before;
    search->out->high = began ? before : step;
    return status;
}

enum status critical_find(const struct critical_line *line, double first, double tolerance, struct critical *out,
                          struct error *error)
{
    struct search search = {.line = line, .out = out};
    enum status status;
    *out = (struct critical){.losses = 0};
    if (!(first > 0 && isfinite(first))) return STATUS_OK;
    if ((status = line->loss(line->owner, 0, &search.still, error)) != STATUS_OK) return status;
    out->losses++;
    status = bracket(&search, first, error);
    while (status == STATUS_OK && out->found && out->high > out->low * (1 + tolerance) && out->losses < MOST_LOSSES) {
        const double middle = sqrt(out->low * out->high);
        bool above;
        if ((status = exceeds(&search, middle, &above, error)) != STATUS_OK) break;
        *(above ? &out->high : &out->low) = middle;
    }
    return status;
}

double critical_sharpness(const struct critical *critical)
{
    return 2 / sqrt(critical->low * critical->high);
}
