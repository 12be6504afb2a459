/* attention.c: causal attention of each sequence with itself (Vaswani et al., arXiv 1706.03762, eq. 1). Query head h
 * reads key/value head h / (H / K). Query i sees the keys j <= i, with a window only those with i - window < j. Scores
 * and weights are in double, and are computed again wherever they are needed, so that no scratch is.
 *
 *   s_j = scale q_i·k_j,  p_j = exp(s_j - L_i),  L_i = log sum_j exp(s_j),  out_i = sum_j p_j v_j
 *
 * Backward:
 *   D_i = dout_i·out_i,  e_j = dout_i·v_j - D_i,  ds_j = p_j e_j
 *   dq_i = scale sum_j ds_j k_j,  dk_j = scale sum_{h,i} ds_j q_i,  dv_j = sum_{h,i} p_j dout_i
 *
 * Tangents (a dot stands for _t):
 *   s._j = scale (q._i·k_j + q_i·k._j),  L._i = sum_j p_j s._j,  p._j = p_j (s._j - L._i)
 *   out._i = sum_j p._j v_j + p_j v._j
 *   D._i = dout._i·out_i + dout_i·out._i,  e._j = dout._i·v_j + dout_i·v._j - D._i,  ds._j = p._j e_j + p_j e._j
 *   dq._i = scale sum_j ds._j k_j + ds_j k._j,  dk._j = scale sum_{h,i} ds._j q_i + ds_j q._i
 *   dv._j = sum_{h,i} p._j dout_i + p_j dout._i */
#include "backend/reference/real.h"

#include <math.h>

static double head_dot(const real *a, const real *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* y += weight x */
static void head_add(real *y, double weight, const real *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) y[i] = (real)((double)y[i] + weight * (double)x[i]);
}

/* The first row that query row `i` of the sequence starting at row `start` sees. */
static int64_t first_key(const struct attention_args *args, int64_t start, int64_t i)
{
    return args->window > 0 && i - args->window + 1 > start ? i - args->window + 1 : start;
}

/* A query and its softmax so far. */
struct sight {
    const struct attention_args *args;
    const real *q;
    double largest, sum, log_sum;
    real *out;
};

static void see_largest(struct sight *sight, const real *k, const real *v)
{
    (void)v;
    const double score = sight->args->scale * head_dot(sight->q, k, sight->args->head_dim);
    if (score > sight->largest) sight->largest = score;
}

static void see_sum(struct sight *sight, const real *k, const real *v)
{
    (void)v;
    sight->sum += exp(sight->args->scale * head_dot(sight->q, k, sight->args->head_dim) - sight->largest);
}

static void see_value(struct sight *sight, const real *k, const real *v)
{
    const double score = sight->args->scale * head_dot(sight->q, k, sight->args->head_dim);
    head_add(sight->out, exp(score - sight->log_sum), v, sight->args->head_dim);
}

/* Visits all keys that query row `i` of sequence `b` sees: its own sequence's, then those of the text before it. */
static void see_all(struct sight *sight, int64_t b, int64_t i, int64_t kv_head,
                    void (*see)(struct sight *sight, const real *k, const real *v))
{
    const struct attention_args *args = sight->args;
    const struct batch *batch = args->batch;
    const int64_t start = batch->starts[b];
    struct branch_stretch stretch;
    for (int64_t j = first_key(args, start, i); j <= i; j++)
        see(sight, head_of(args->k, j, kv_head), head_of(args->v, j, kv_head));
    if (batch->branches == NULL) return;
    int64_t branch = batch->branches->parents[b], end = batch->branches->pasts[b];
    const int64_t oldest = args->window > 0 ? end + i - start - args->window + 1 : 0;
    while (branch_climb(batch, &branch, &end, &stretch)) {
        const struct head_view k = stretch.kept ? args->past_k : args->k, v = stretch.kept ? args->past_v : args->v;
        for (int64_t j = oldest > stretch.first ? oldest - stretch.first : 0; j < stretch.count; j++)
            see(sight, head_of(k, stretch.row + j, kv_head), head_of(v, stretch.row + j, kv_head));
    }
}

static void clear_heads(struct head_view view, int64_t first, int64_t end, int64_t head, int64_t count)
{
    for (int64_t t = first; t < end; t++)
        for (int64_t c = 0; c < count; c++) head_of(view, t, head)[c] = 0;
}

/* A pass: what it does for one query, and which gradients it makes. */
struct pass {
    const struct attention_args *args;
    void (*query)(const struct attention_args *args, int64_t b, int64_t i, int64_t head);
    bool backward, tangent;
};

/* One task: a key/value head of a sequence and all queries that read it; only this task writes their gradients. */
static void pass_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct pass *pass = context;
    const struct attention_args *args = pass->args;
    const int64_t b = task / args->kv_heads, kv_head = task % args->kv_heads, shared = args->heads / args->kv_heads;
    const int64_t start = args->batch->starts[b], end = args->batch->starts[b + 1];
    const bool backward_tangent = pass->backward && pass->tangent;
    if (pass->backward) clear_heads(args->dk, start, end, kv_head, args->head_dim);
    if (pass->backward) clear_heads(args->dv, start, end, kv_head, args->head_dim);
    if (backward_tangent) clear_heads(args->dk_t, start, end, kv_head, args->head_dim);
    if (backward_tangent) clear_heads(args->dv_t, start, end, kv_head, args->head_dim);
    for (int64_t head = kv_head * shared; head < (kv_head + 1) * shared; head++) {
        if (pass->backward) clear_heads(args->dq, start, end, head, args->head_dim);
        if (backward_tangent) clear_heads(args->dq_t, start, end, head, args->head_dim);
        for (int64_t i = start; i < end; i++) pass->query(args, b, i, head);
    }
}

static void pass_run(struct backend *backend, struct pass pass)
{
    team_run(backend->team, pass.args->batch->sequences * pass.args->kv_heads, pass_task, &pass);
}

static void query_forward(const struct attention_args *args, int64_t b, int64_t i, int64_t head)
{
    const int64_t kv_head = head / (args->heads / args->kv_heads);
    struct sight sight = {
        .args = args, .q = head_of(args->q, i, head), .largest = -INFINITY, .out = head_of(args->out, i, head)};
    see_all(&sight, b, i, kv_head, see_largest);
    see_all(&sight, b, i, kv_head, see_sum);
    sight.log_sum = sight.largest + log(sight.sum);
    if (args->log_sum.data != NULL) row_of(args->log_sum, i)[head] = (real)sight.log_sum;
    for (int64_t c = 0; c < args->head_dim; c++) sight.out[c] = 0;
    see_all(&sight, b, i, kv_head, see_value);
}

static void query_backward(const struct attention_args *args, int64_t b, int64_t i, int64_t head)
{
    const int64_t kv_head = head / (args->heads / args->kv_heads), start = args->batch->starts[b];
    const real *q = head_of(args->q, i, head), *dout = head_of(args->dout, i, head);
    const double log_sum = (double)row_of(args->log_sum, i)[head];
    const double d = head_dot(dout, head_of(args->out, i, head), args->head_dim);
    for (int64_t j = first_key(args, start, i); j <= i; j++) {
        const real *k = head_of(args->k, j, kv_head);
        const double p = exp(args->scale * head_dot(q, k, args->head_dim) - log_sum);
        const double ds = args->scale * p * (head_dot(dout, head_of(args->v, j, kv_head), args->head_dim) - d);
        head_add(head_of(args->dv, j, kv_head), p, dout, args->head_dim);
        head_add(head_of(args->dq, i, head), ds, k, args->head_dim);
        head_add(head_of(args->dk, j, kv_head), ds, q, args->head_dim);
    }
}

void REFERENCE(attention_forward)(struct backend *backend, const struct attention_args *args)
{
    pass_run(backend, (struct pass){.args = args, .query = query_forward});
}

void REFERENCE(attention_backward)(struct backend *backend, const struct attention_args *args)
{
    pass_run(backend, (struct pass){.args = args, .query = query_backward, .backward = true});
}

/* A score's softmax weight and its tangents. */
struct weight {
    double p, s_t, p_t; /* p_t: once L. is known */
};

static struct weight weight_of(const struct attention_args *args, int64_t i, int64_t j, int64_t head, double log_sum,
                               double log_sum_t)
{
    const int64_t kv_head = head / (args->heads / args->kv_heads), d = args->head_dim;
    const real *q = head_of(args->q, i, head), *k = head_of(args->k, j, kv_head);
    struct weight w;
    w.p = exp(args->scale * head_dot(q, k, d) - log_sum);
    w.s_t =
        args->scale * (head_dot(head_of(args->q_t, i, head), k, d) + head_dot(q, head_of(args->k_t, j, kv_head), d));
    w.p_t = w.p * (w.s_t - log_sum_t);
    return w;
}

static void query_tangent(const struct attention_args *args, int64_t b, int64_t i, int64_t head)
{
    const int64_t kv_head = head / (args->heads / args->kv_heads), first = first_key(args, args->batch->starts[b], i);
    const double log_sum = (double)row_of(args->log_sum, i)[head];
    real *out_t = head_of(args->out_t, i, head);
    double log_sum_t = 0;
    for (int64_t j = first; j <= i; j++) {
        const struct weight w = weight_of(args, i, j, head, log_sum, 0);
        log_sum_t += w.p * w.s_t;
    }
    row_of(args->log_sum_t, i)[head] = (real)log_sum_t;
    for (int64_t c = 0; c < args->head_dim; c++) out_t[c] = 0;
    for (int64_t j = first; j <= i; j++) {
        const struct weight w = weight_of(args, i, j, head, log_sum, log_sum_t);
        head_add(out_t, w.p_t, head_of(args->v, j, kv_head), args->head_dim);
        head_add(out_t, w.p, head_of(args->v_t, j, kv_head), args->head_dim);
    }
}

static void query_backward_tangent(const struct attention_args *args, int64_t b, int64_t i, int64_t head)
{
    const int64_t kv_head = head / (args->heads / args->kv_heads), n = args->head_dim, start = args->batch->starts[b];
    const real *q = head_of(args->q, i, head), *q_t = head_of(args->q_t, i, head), *out = head_of(args->out, i, head);
    const real *dout = head_of(args->dout, i, head), *dout_t = head_of(args->dout_t, i, head);
    const double log_sum = (double)row_of(args->log_sum, i)[head], log_sum_t = (double)row_of(args->log_sum_t, i)[head];
    const double d = head_dot(dout, out, n),
                 d_t = head_dot(dout_t, out, n) + head_dot(dout, head_of(args->out_t, i, head), n);
    for (int64_t j = first_key(args, start, i); j <= i; j++) {
        const real *k = head_of(args->k, j, kv_head), *k_t = head_of(args->k_t, j, kv_head),
                   *v = head_of(args->v, j, kv_head);
        const struct weight w = weight_of(args, i, j, head, log_sum, log_sum_t);
        const double e = head_dot(dout, v, n) - d;
        const double e_t = head_dot(dout_t, v, n) + head_dot(dout, head_of(args->v_t, j, kv_head), n) - d_t;
        const double ds = args->scale * w.p * e, ds_t = args->scale * (w.p_t * e + w.p * e_t);
        head_add(head_of(args->dv, j, kv_head), w.p, dout, n);
        head_add(head_of(args->dq, i, head), ds, k, n);
        head_add(head_of(args->dk, j, kv_head), ds, q, n);
        head_add(head_of(args->dv_t, j, kv_head), w.p_t, dout, n);
        head_add(head_of(args->dv_t, j, kv_head), w.p, dout_t, n);
        head_add(head_of(args->dq_t, i, head), ds_t, k, n);
        head_add(head_of(args->dq_t, i, head), ds, k_t, n);
        head_add(head_of(args->dk_t, j, kv_head), ds_t, q, n);
        head_add(head_of(args->dk_t, j, kv_head), ds, q_t, n);
    }
}

void REFERENCE(attention_tangent)(struct backend *backend, const struct attention_args *args)
{
    pass_run(backend, (struct pass){.args = args, .query = query_tangent, .tangent = true});
}

void REFERENCE(attention_backward_tangent)(struct backend *backend, const struct attention_args *args)
{
    pass_run(backend, (struct pass){.args = args, .query = query_backward_tangent, .backward = true, .tangent = true});
}
