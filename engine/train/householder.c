/* householder.c: A = Q R (Golub and Van Loan, "Matrix Computations", 5.2.3; Schreiber and Van Loan 1989, "A
 * storage-efficient WY representation for products of Householder transformations").
 *
 *   H_j = I - tau_j v_j v_jᵀ,  v_j zero above row j and 1 in it;  a panel's  H_1 … H_w = I - V T Vᵀ,  T upper
 *   the columns to the right become (I - V Tᵀ Vᵀ) A;  Q is made from the last panel to the first, I - V T Vᵀ times what
 *   is there
 *
 * R is not wanted: V takes the place of its panel in A, with its zeros and ones. A column that is zero below its
 * diagonal is not reflected (tau = 0). */
#include "train/householder.h"

#include <math.h>

enum { PANEL = 32 };

static int64_t panels_of(int64_t n)
{
    return (n + PANEL - 1) / PANEL;
}

int64_t householder_scratch(int64_t n)
{
    return panels_of(n) * PANEL * PANEL + 2 * PANEL * n;
}

int64_t householder_host(int64_t n)
{
    return n * PANEL + PANEL * PANEL + PANEL;
}

/* A panel on the host: v [rows, width] holds the columns of a, and then the reflectors. */
struct panel {
    int64_t rows, width;
    double *v, *t, *sums; /* t [width, width]; sums [width] */
};

/* Makes reflector j of column j and returns its tau; 0: the column needs none. */
static double reflector(const struct panel *p, int64_t j)
{
    double tail = 0;
    for (int64_t i = j + 1; i < p->rows; i++) tail += p->v[i * p->width + j] * p->v[i * p->width + j];
    double *head = &p->v[j * p->width + j];
    const double alpha = *head;
    *head = 1;
    if (tail == 0) return 0;
    const double beta = -copysign(sqrt(alpha * alpha + tail), alpha);
    for (int64_t i = j + 1; i < p->rows; i++) p->v[i * p->width + j] /= alpha - beta;
    return (beta - alpha) / beta;
}

/* sums = v_jᵀ times all columns: columns before j are reflectors, columns behind it still belong to a. */
static void products_with(const struct panel *p, int64_t j)
{
    for (int64_t c = 0; c < p->width; c++) p->sums[c] = 0;
    for (int64_t i = j; i < p->rows; i++) {
        const double *row = p->v + i * p->width;
        for (int64_t c = 0; c < p->width; c++) p->sums[c] += row[j] * row[c];
    }
}

/* Column j of T: -tau T (Vᵀ v_j) above its diagonal, tau on it. */
static void factor_grow(const struct panel *p, int64_t j, double tau)
{
    for (int64_t r = 0; r < p->width; r++) {
        double sum = 0;
        for (int64_t c = r; c < j; c++) sum += p->t[r * p->width + c] * p->sums[c];
        p->t[r * p->width + j] = r < j ? -tau * sum : r == j ? tau : 0;
    }
}

static void panel_reduce(const struct panel *p)
{
    for (int64_t j = 0; j < p->width; j++) {
        const double tau = reflector(p, j);
        products_with(p, j);
        for (int64_t i = j; i < p->rows && tau != 0; i++) {
            double *row = p->v + i * p->width;
            for (int64_t c = j + 1; c < p->width; c++) row[c] -= tau * row[j] * p->sums[c];
        }
        factor_grow(p, j, tau);
    }
    for (int64_t i = 0; i < p->width; i++)
        for (int64_t c = i + 1; c < p->width; c++) p->v[i * p->width + c] = 0;
}

struct basis {
    struct backend *backend;
    struct matrix a;
    char *factors, *x, *w; /* of the backend: every panel's T; [PANEL, n]; [n, PANEL] */
};

/* The panel that begins with column `first`. */
struct reflectors {
    int64_t rows, width;
    struct matrix v, t;
};

static struct reflectors reflectors_of(const struct basis *b, int64_t first)
{
    const int64_t n = b->a.rows, rows = n - first, width = rows < PANEL ? rows : PANEL;
    const size_t factors = (size_t)(first * PANEL) * b->a.element;
    return (struct reflectors){rows, width, matrix_columns(matrix_rows(b->a, first, rows), first, width),
                               matrix_of(b->factors + factors, width, width, b->a.element)};
}

/* rest -= V T Vᵀ rest, or with Tᵀ. */
static void reflect(const struct basis *b, const struct reflectors *at, struct matrix rest, bool transpose)
{
    const struct backend_ops *ops = b->backend->ops;
    const struct matrix x = matrix_of(b->x, at->width, rest.columns, rest.element);
    const struct matrix w = matrix_of(b->w, at->rows, at->width, rest.element);
    ops->gemm(b->backend,
              &(struct gemm_args){.a = at->v, .b = rest, .c = x, .transpose_a = true, .alpha = 1, .exact = true});
    ops->gemm(b->backend,
              &(struct gemm_args){.a = at->v, .b = at->t, .c = w, .transpose_b = transpose, .alpha = 1, .exact = true});
    ops->gemm(b->backend, &(struct gemm_args){.a = w, .b = x, .c = rest, .alpha = -1, .beta = 1, .exact = true});
}

static void panel_make(const struct basis *b, int64_t first, double *host)
{
    const struct backend_ops *ops = b->backend->ops;
    const struct reflectors at = reflectors_of(b, first);
    const struct panel panel = {at.rows, at.width, host + PANEL * PANEL + PANEL, host, host + PANEL * PANEL};
    ops->download(b->backend, at.v, panel.v, DTYPE_F64);
    panel_reduce(&panel);
    ops->upload(b->backend, at.v, panel.v, DTYPE_F64);
    ops->upload(b->backend, at.t, panel.t, DTYPE_F64);
    if (at.rows > at.width)
        reflect(b, &at, matrix_columns(matrix_rows(b->a, first, at.rows), first + at.width, at.rows - at.width), true);
}

void householder_basis(struct backend *backend, struct matrix a, struct matrix q, void *scratch, double *host)
{
    const int64_t n = a.rows, panels = panels_of(n);
    char *const factors = scratch, *const x = factors + (size_t)(panels * PANEL * PANEL) * a.element;
    const struct basis b = {backend, a, factors, x, x + (size_t)(PANEL * n) * a.element};
    for (int64_t k = 0; k < panels; k++) panel_make(&b, k * PANEL, host);
    backend->ops->fill(backend, q, 0);
    backend->ops->fill(backend, matrix_diagonal(q), 1);
    for (int64_t k = panels - 1; k >= 0; k--) {
        const struct reflectors at = reflectors_of(&b, k * PANEL);
        reflect(&b, &at, matrix_columns(matrix_rows(q, k * PANEL, at.rows), k * PANEL, at.rows), false);
    }
}
