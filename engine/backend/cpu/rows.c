/* rows.c: the ops whose tasks are groups of rows (or runs of elements) and whose work is one kernel call. */
#include "backend/cpu/cpu.h"

struct call {
    const struct kernels *kernels;
    const void *args;
};

static void norm_forward_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->norm_forward(call->args, first, end);
}

void cpu_norm_forward(struct backend *backend, const struct norm_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->x.rows, args->x.columns, norm_forward_rows, &call);
}

static void norm_tangent_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->norm_tangent(call->args, first, end);
}

void cpu_norm_tangent(struct backend *backend, const struct norm_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->x.rows, args->x.columns, norm_tangent_rows, &call);
}

static void rope_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->rope(call->args, first, end);
}

void cpu_rope(struct backend *backend, const struct rope_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->x.matrix.rows, args->heads * args->rotary, rope_rows, &call);
}

static void activation_forward_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct call *call = context;
    call->kernels->activation_forward(call->args, t, column, count);
}

void cpu_activation_forward(struct backend *backend, const struct activation_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    const bool dense = cpu_dense(args->gate) && cpu_dense(args->up) && cpu_dense(args->y);
    cpu_for_runs(backend->team, args->gate.rows, args->gate.columns, dense, activation_forward_run, &call);
}

static void activation_backward_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct call *call = context;
    call->kernels->activation_backward(call->args, t, column, count);
}

void cpu_activation_backward(struct backend *backend, const struct activation_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    const bool dense = cpu_dense(args->gate) && cpu_dense(args->up) && cpu_dense(args->dy) && cpu_dense(args->dgate) &&
                       (args->up.data == NULL || cpu_dense(args->dup));
    cpu_for_runs(backend->team, args->gate.rows, args->gate.columns, dense, activation_backward_run, &call);
}

static void activation_tangent_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct call *call = context;
    call->kernels->activation_tangent(call->args, t, column, count);
}

void cpu_activation_tangent(struct backend *backend, const struct activation_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    const bool dense = cpu_dense(args->gate) && cpu_dense(args->gate_t) && cpu_dense(args->y_t) &&
                       (args->up.data == NULL || (cpu_dense(args->up) && cpu_dense(args->up_t)));
    cpu_for_runs(backend->team, args->gate.rows, args->gate.columns, dense, activation_tangent_run, &call);
}

static void activation_backward_tangent_run(void *context, int64_t t, int64_t column, int64_t count)
{
    const struct call *call = context;
    call->kernels->activation_backward_tangent(call->args, t, column, count);
}

void cpu_activation_backward_tangent(struct backend *backend, const struct activation_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    const struct matrix alone[] = {args->gate, args->gate_t, args->dy, args->dy_t, args->dgate, args->dgate_t};
    const struct matrix with_up[] = {args->up, args->up_t, args->dup, args->dup_t};
    bool dense = true;
    for (int i = 0; i < 6; i++) dense = dense && cpu_dense(alone[i]);
    for (int i = 0; i < 4 && args->up.data != NULL; i++) dense = dense && cpu_dense(with_up[i]);
    cpu_for_runs(backend->team, args->gate.rows, args->gate.columns, dense, activation_backward_tangent_run, &call);
}

static void cross_entropy_forward_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->cross_entropy_forward(call->args, first, end);
}

void cpu_cross_entropy_forward(struct backend *backend, const struct cross_entropy_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->logits.rows, args->logits.columns, cross_entropy_forward_rows, &call);
}

static void cross_entropy_backward_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->cross_entropy_backward(call->args, first, end);
}

void cpu_cross_entropy_backward(struct backend *backend, const struct cross_entropy_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->logits.rows, args->logits.columns, cross_entropy_backward_rows, &call);
}

static void cross_entropy_tangent_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->cross_entropy_backward_tangent(call->args, first, end);
}

void cpu_cross_entropy_backward_tangent(struct backend *backend, const struct cross_entropy_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->logits.rows, args->logits.columns, cross_entropy_tangent_rows, &call);
}

static void compare_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->compare(call->args, first, end);
}

void cpu_compare(struct backend *backend, const struct compare_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    const struct cross_entropy_args loss = {
        .logits = args->q, .targets = args->targets, .losses = args->losses, .log_sum = args->q_log_sum};
    cpu_cross_entropy_forward(backend, &loss);
    cpu_for_rows(backend->team, args->p.rows, args->p.columns, compare_rows, &call);
}

static void adamw_rows(void *context, int64_t first, int64_t end)
{
    const struct call *call = context;
    call->kernels->adamw(call->args, first, end);
}

void cpu_adamw(struct backend *backend, const struct adamw_args *args)
{
    struct call call = {cpu_of(backend)->kernels, args};
    cpu_for_rows(backend->team, args->count, 1, adamw_rows, &call);
}
