#include "formats/pytorch/strided.h"

#include <string.h>

enum { CHUNK_BYTES = 1 << 15, CHUNK_FLOATS = CHUNK_BYTES / 2 };

struct axis {
    int64_t extent, from, to; /* steps in the file and in the output, in elements */
};

/* Reads one run along an axis as one contiguous stretch of the file, gaps included, and scatters it over the output. */
static enum status read_run(const struct file *file, const struct dtype_info *dtype, int64_t offset,
                            const struct axis *axis, float *out, struct error *error)
{
    _Alignas(64) char chunk[CHUNK_BYTES];
    _Alignas(64) float values[CHUNK_FLOATS];
    const int64_t width = (int64_t)dtype->bits / 8, step = axis->extent == 1 ? 1 : axis->from;
    const int64_t space = step * width > CHUNK_BYTES ? 1 : (CHUNK_BYTES / width - 1) / step + 1;
    const int64_t most = space < CHUNK_FLOATS ? space : CHUNK_FLOATS;
    for (int64_t done = 0; done < axis->extent;) {
        const int64_t left = axis->extent - done, count = left < most ? left : most;
        const size_t span = (size_t)(((count - 1) * step + 1) * width);
        const enum status status = file_read(file, offset + done * step * width, chunk, span, error);
        if (status != STATUS_OK) return status;
        for (int64_t i = 1; step > 1 && i < count; i++)
            memcpy(chunk + i * width, chunk + i * step * width, (size_t)width);
        if (axis->to == 1) {
            dtype->to_f32(chunk, out + done, count);
        } else {
            dtype->to_f32(chunk, values, count);
            for (int64_t i = 0; i < count; i++) out[(done + i) * axis->to] = values[i];
        }
        done += count;
    }
    return STATUS_OK;
}

/* Reads a box of the view in runs along the axis with the smallest step, in the order of the file. */
static enum status read_box(const struct file *file, const struct dtype_info *dtype, int64_t offset, struct axis *axes,
                            int rank, float *out, struct error *error)
{
    int64_t index[STRIDED_RANK_MAX] = {0};
    for (int i = 1; i < rank; i++) { /* widest step first; an axis of one element has no step */
        const struct axis axis = axes[i];
        int at = i;
        for (; at > 0 && (axes[at - 1].extent == 1 ? 0 : axes[at - 1].from) < (axis.extent == 1 ? 0 : axis.from); at--)
            axes[at] = axes[at - 1];
        axes[at] = axis;
    }
    while (rank > 1 && axes[rank - 1].extent == 1) rank--;
    for (;;) {
        int64_t from = 0, to = 0;
        for (int i = 0; i + 1 < rank; i++) {
            from += index[i] * axes[i].from;
            to += index[i] * axes[i].to;
        }
        const int64_t at = offset + from * (int64_t)dtype->bits / 8;
        const enum status status = read_run(file, dtype, at, &axes[rank - 1], out + to, error);
        if (status != STATUS_OK) return status;
        int i = rank - 2;
        while (i >= 0 && ++index[i] == axes[i].extent) index[i--] = 0;
        if (i < 0) return STATUS_OK;
    }
}

/* The axes of `view`, without those of one element, and with neighbours joined that are contiguous in the file. Returns
 * their number, at least 1. */
static int join_axes(const struct strided *view, struct axis *axes)
{
    int rank = 0;
    for (int i = 0; i < view->rank; i++) {
        const struct axis axis = {view->shape[i], view->stride[i], 0};
        if (axis.extent == 1) continue;
        if (rank > 0 && axes[rank - 1].from == axis.extent * axis.from)
            axes[rank - 1] = (struct axis){axes[rank - 1].extent * axis.extent, axis.from, 0};
        else
            axes[rank++] = axis;
    }
    if (rank == 0) axes[rank++] = (struct axis){1, 1, 0};
    int64_t to = 1;
    for (int i = rank; i-- > 0; to *= axes[i].extent) axes[i].to = to;
    return rank;
}

bool strided_contiguous(const struct strided *view)
{
    struct axis axes[STRIDED_RANK_MAX];
    return join_axes(view, axes) == 1 && (axes[0].from == 1 || axes[0].extent == 1);
}

enum status strided_read_f32(const struct file *file, const struct strided *view, int64_t first, int64_t count,
                             float *out, struct error *error)
{
    struct axis axes[STRIDED_RANK_MAX], box[STRIDED_RANK_MAX];
    const struct dtype_info *dtype = dtype_info(view->dtype);
    const int rank = join_axes(view, axes);
    /* A span of the flattened view is a sequence of boxes: each is the largest that begins at `first` and ends in the
     * span. */
    while (count > 0) {
        int outer = 0;
        while (first % axes[outer].to != 0 || count < axes[outer].to) outer++;
        int64_t offset = 0;
        for (int i = 0; i <= outer; i++) offset += first / axes[i].to % axes[i].extent * axes[i].from;
        const int64_t start = first / axes[outer].to % axes[outer].extent, whole = count / axes[outer].to;
        memcpy(box, axes + outer, (size_t)(rank - outer) * sizeof *box);
        box[0].extent = whole < axes[outer].extent - start ? whole : axes[outer].extent - start;
        const int64_t taken = box[0].extent * axes[outer].to;
        const enum status status =
            read_box(file, dtype, view->offset + offset * (int64_t)dtype->bits / 8, box, rank - outer, out, error);
        if (status != STATUS_OK) return status;
        first += taken;
        count -= taken;
        out += taken;
    }
    return STATUS_OK;
}
