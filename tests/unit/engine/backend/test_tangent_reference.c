/* Every tangent of the plain loops in double against central differences of the pass it belongs to.
 *
 * A trial is a pass from inputs to outputs, all of them moved along one random direction. With a step h = 1e-5 the
 * truncation error is h² / 6 times a third derivative, of some hundred here, and the rounding error 2^-53 / h times the
 * outputs: below 1e-8 of the largest together. */
#include "engine/backend/cases.h"

static const double step = 1e-5, tolerance = 1e-8;

/* What a tangent pass does with the value itself: computes the same as the pass it belongs to, or leaves it alone. */
enum value_rule { VALUE_COMPUTED, VALUE_LEFT };

struct line {
    const char *name;
    struct matrix value, tangent;
    double value_before, tangent_before; /* outputs: what is there before each pass; NaN: must not be read */
    enum value_rule rule;
};

enum { MAX_LINES = 10 };

struct trial {
    struct world *world;
    struct line inputs[MAX_LINES], outputs[MAX_LINES];
    int input_count, output_count;
    void (*pass)(const struct trial *trial);         /* values of inputs to values of outputs */
    void (*tangent_pass)(const struct trial *trial); /* and the tangents */
    void *args;
};

static struct backend *backend_of(const struct trial *trial)
{
    return trial->world->backend;
}

/* A random matrix that moves along a random direction. */
static struct line *trial_input(struct trial *trial, const char *name, int64_t rows, int64_t columns, int64_t gap,
                                double scale)
{
    assert_true(trial->input_count < MAX_LINES);
    struct line *line = &trial->inputs[trial->input_count++];
    *line = (struct line){name,
                          world_random(trial->world, rows, columns, gap, scale),
                          world_random(trial->world, rows, columns, gap + 1, 1),
                          0,
                          0,
                          VALUE_COMPUTED};
    return line;
}

static struct line *trial_output(struct trial *trial, const char *name, int64_t rows, int64_t columns, int64_t gap)
{
    assert_true(trial->output_count < MAX_LINES);
    struct line *line = &trial->outputs[trial->output_count++];
    *line = (struct line){name,
                          world_zeros(trial->world, rows, columns, gap),
                          world_zeros(trial->world, rows, columns, gap + 2),
                          (double)NAN,
                          (double)NAN,
                          VALUE_COMPUTED};
    return line;
}

/* A gradient that is added to, or (before NaN) overwritten. */
static struct line *trial_gradient(struct trial *trial, const char *name, int64_t rows, int64_t columns, int64_t gap,
                                   bool accumulate)
{
    struct line *line = trial_output(trial, name, rows, columns, gap);
    if (accumulate) line->value_before = 0.5, line->tangent_before = -0.25;
    return line;
}

static struct trial *trial_open(void (*pass)(const struct trial *trial),
                                void (*tangent_pass)(const struct trial *trial), void *args)
{
    struct trial *trial = calloc(1, sizeof *trial);
    struct error error;
    assert_non_null(trial);
    *trial = (struct trial){.pass = pass, .tangent_pass = tangent_pass, .args = args};
    trial->world = calloc(1, sizeof *trial->world);
    assert_non_null(trial->world);
    trial->world->seed = 8;
    assert_int_equal(backend_reference_new(true, NULL, &trial->world->backend, &error), STATUS_OK);
    return trial;
}

static void trial_close(struct trial *trial)
{
    world_clear(trial->world);
    backend_free(trial->world->backend);
    free(trial->world);
    free(trial);
}

static void run(struct trial *trial, bool with_tangents)
{
    for (int i = 0; i < trial->output_count; i++) {
        const struct line *line = &trial->outputs[i];
        backend_of(trial)->ops->fill(backend_of(trial), line->value, line->value_before);
        backend_of(trial)->ops->fill(backend_of(trial), line->tangent, line->tangent_before);
    }
    (with_tangents ? trial->tangent_pass : trial->pass)(trial);
}

static void move(struct trial *trial, double by)
{
    for (int i = 0; i < trial->input_count; i++)
        backend_of(trial)->ops->add(backend_of(trial), trial->inputs[i].value, trial->inputs[i].tangent, by, 1);
}

static void hold(const char *what, const char *name, const double *found, const double *expected, int64_t count,
                 double bound)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(found[i] - expected[i]) <= bound))
            fail_msg("%s of %s [%lld]: %.12g expected %.12g", what, name, (long long)i, found[i], expected[i]);
}

static void hold_value(const struct trial *trial, const struct line *line, double *expected)
{
    double *found = world_read(trial->world, line->value);
    const int64_t count = line->value.rows * line->value.columns;
    for (int64_t i = 0; line->rule == VALUE_LEFT && i < count; i++) expected[i] = line->value_before;
    hold("value", line->name, found, expected, count, 1e-13 * fmax(1, largest_size(expected, count)));
    free(found);
}

static void hold_tangent(const struct line *line, const double *found, const double *above, double *below)
{
    const int64_t count = line->value.rows * line->value.columns;
    for (int64_t i = 0; i < count; i++)
        below[i] = (above[i] - below[i]) / (2 * step) + (isnan(line->tangent_before) ? 0 : line->tangent_before);
    const double size = largest_size(below, count);
    hold("tangent", line->name, found, below, count, tolerance * fmax(1, size));
}

static void read_all(const struct trial *trial, double **out, bool tangents)
{
    for (int i = 0; i < trial->output_count; i++)
        out[i] = world_read(trial->world, tangents ? trial->outputs[i].tangent : trial->outputs[i].value);
}

static void check(struct trial *trial)
{
    double *values[MAX_LINES], *found[MAX_LINES], *above[MAX_LINES], *below[MAX_LINES];
    run(trial, false);
    read_all(trial, values, false);
    run(trial, true);
    read_all(trial, found, true);
    for (int i = 0; i < trial->output_count; i++) hold_value(trial, &trial->outputs[i], values[i]);
    move(trial, step);
    run(trial, false);
    read_all(trial, above, false);
    move(trial, -2 * step);
    run(trial, false);
    read_all(trial, below, false);
    for (int i = 0; i < trial->output_count; i++) {
        hold_tangent(&trial->outputs[i], found[i], above[i], below[i]);
        free(values[i]);
        free(found[i]);
        free(above[i]);
        free(below[i]);
    }
    trial_close(trial);
}

static void norm_pass(const struct trial *trial)
{
    backend_of(trial)->ops->norm_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->norm_backward(backend_of(trial), trial->args);
}

static void norm_tangent_pass(const struct trial *trial)
{
    backend_of(trial)->ops->norm_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->norm_tangent(backend_of(trial), trial->args);
    backend_of(trial)->ops->norm_backward_tangent(backend_of(trial), trial->args);
}

struct norm_form {
    enum norm_kind kind;
    int64_t groups;
    bool shared, bias, moving, accumulate,
        wanted; /* moving: weight and bias have tangents; wanted: so have their gradients */
};

static void norm_parameters(struct trial *trial, struct norm_args *args, const struct norm_form *form, int64_t columns)
{
    const struct line weight = *trial_input(trial, "weight", 1, columns, 0, 1);
    args->weight = weight.value;
    if (form->moving) args->weight_t = weight.tangent;
    if (!form->moving) trial->input_count--;
    if (form->bias) {
        const struct line bias = *trial_input(trial, "bias", 1, columns, 0, 1);
        args->bias = bias.value;
        if (form->moving) args->bias_t = bias.tangent;
        if (!form->moving) trial->input_count--;
    }
    if (!form->wanted) return;
    struct line *dweight = trial_gradient(trial, "dweight", 1, columns, 0, true);
    dweight->rule = VALUE_LEFT;
    args->dweight = dweight->value, args->dweight_t = dweight->tangent;
    if (!form->bias) return;
    struct line *dbias = trial_gradient(trial, "dbias", 1, columns, 0, true);
    dbias->rule = VALUE_LEFT;
    args->dbias = dbias->value, args->dbias_t = dbias->tangent;
}

static void check_norm(const struct norm_form *form)
{
    const int64_t rows = 5, columns = 12;
    struct norm_args args = {
        .kind = form->kind, .epsilon = 1e-2, .groups = form->groups, .accumulate = form->accumulate};
    struct trial *trial = trial_open(norm_pass, norm_tangent_pass, &args);
    const struct line x = *trial_input(trial, "x", rows, columns, 1, 1),
                      dy = *trial_input(trial, "dy", rows, columns, 3, 1);
    const struct line y = *trial_output(trial, "y", rows, columns, 2);
    const struct line dx = *trial_gradient(trial, "dx", rows, columns, 1, form->accumulate);
    args.x = x.value, args.x_t = x.tangent, args.dy = dy.value, args.dy_t = dy.tangent;
    args.y = y.value, args.y_t = y.tangent, args.dx = dx.value, args.dx_t = dx.tangent;
    norm_parameters(trial, &args, form, form->shared ? columns / form->groups : columns);
    check(trial);
}

static void test_norm_tangents(void **state)
{
    (void)state;
    for (int form = 0; form < 64; form++)
        for (int64_t groups = 1; groups <= 3; groups += 2)
            check_norm(&(struct norm_form){form & 1 ? NORM_RMS : NORM_LAYER, groups, form & 2, form & 4, form & 8,
                                           form & 16, form & 32});
}

static void activation_pass(const struct trial *trial)
{
    backend_of(trial)->ops->activation_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->activation_backward(backend_of(trial), trial->args);
}

static void activation_tangent_pass(const struct trial *trial)
{
    backend_of(trial)->ops->activation_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->activation_tangent(backend_of(trial), trial->args);
    backend_of(trial)->ops->activation_backward_tangent(backend_of(trial), trial->args);
}

static void check_activation(enum activation_kind kind, bool with_up, bool accumulate_gate, bool accumulate_up)
{
    const int64_t rows = 6, columns = 11;
    struct activation_args args = {.kind = kind, .accumulate_gate = accumulate_gate, .accumulate_up = accumulate_up};
    struct trial *trial = trial_open(activation_pass, activation_tangent_pass, &args);
    const struct line gate = *trial_input(trial, "gate", rows, columns, 1, 2),
                      dy = *trial_input(trial, "dy", rows, columns, 0, 1);
    const struct line y = *trial_output(trial, "y", rows, columns, 4);
    const struct line dgate = *trial_gradient(trial, "dgate", rows, columns, 0, accumulate_gate);
    args.gate = gate.value, args.gate_t = gate.tangent, args.dy = dy.value, args.dy_t = dy.tangent;
    args.y = y.value, args.y_t = y.tangent, args.dgate = dgate.value, args.dgate_t = dgate.tangent;
    if (with_up) {
        const struct line up = *trial_input(trial, "up", rows, columns, 0, 1);
        const struct line dup = *trial_gradient(trial, "dup", rows, columns, 2, accumulate_up);
        args.up = up.value, args.up_t = up.tangent, args.dup = dup.value, args.dup_t = dup.tangent;
    }
    check(trial);
}

static void test_activation_tangents(void **state)
{
    (void)state;
    const enum activation_kind kinds[] = {ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU};
    for (int form = 0; form < 32; form++) check_activation(kinds[form & 3], form & 4, form & 8, form & 16);
}

static void attention_pass(const struct trial *trial)
{
    backend_of(trial)->ops->attention_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->attention_backward(backend_of(trial), trial->args);
}

static void attention_tangent_pass(const struct trial *trial)
{
    backend_of(trial)->ops->attention_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->attention_tangent(backend_of(trial), trial->args);
    backend_of(trial)->ops->attention_backward_tangent(backend_of(trial), trial->args);
}

static struct head_view view_of(struct matrix matrix, int64_t offset, int64_t stride)
{
    return (struct head_view){matrix, offset, stride};
}

static void attention_heads(struct trial *trial, struct attention_args *args, int64_t tokens, bool fused)
{
    const int64_t d = args->head_dim, stride = fused ? 3 * d : d, wide = args->heads * stride,
                  wide_kv = fused ? wide : args->kv_heads * d;
    const struct line q = *trial_input(trial, "q", tokens, wide, 1, 1),
                      dq = *trial_output(trial, "dq", tokens, wide, 1);
    const struct line k = fused ? q : *trial_input(trial, "k", tokens, wide_kv, 2, 1);
    const struct line v = fused ? q : *trial_input(trial, "v", tokens, wide_kv, 0, 1);
    const struct line dk = fused ? dq : *trial_output(trial, "dk", tokens, wide_kv, 2);
    const struct line dv = fused ? dq : *trial_output(trial, "dv", tokens, wide_kv, 0);
    const int64_t at_k = fused ? d : 0, at_v = fused ? 2 * d : 0;
    args->q = view_of(q.value, 0, stride), args->q_t = view_of(q.tangent, 0, stride);
    args->k = view_of(k.value, at_k, stride), args->k_t = view_of(k.tangent, at_k, stride);
    args->v = view_of(v.value, at_v, stride), args->v_t = view_of(v.tangent, at_v, stride);
    args->dq = view_of(dq.value, 0, stride), args->dq_t = view_of(dq.tangent, 0, stride);
    args->dk = view_of(dk.value, at_k, stride), args->dk_t = view_of(dk.tangent, at_k, stride);
    args->dv = view_of(dv.value, at_v, stride), args->dv_t = view_of(dv.tangent, at_v, stride);
}

static void check_attention(const int64_t *lengths, int64_t sequences, int64_t heads, int64_t kv_heads, int64_t window,
                            bool fused)
{
    struct test_batch batch;
    test_batch_fill(&batch, lengths, sequences, 5);
    const int64_t tokens = batch.batch.tokens, d = 4;
    struct attention_args args = {
        .batch = &batch.batch, .heads = heads, .kv_heads = kv_heads, .head_dim = d, .window = window, .scale = 0.7};
    struct trial *trial = trial_open(attention_pass, attention_tangent_pass, &args);
    attention_heads(trial, &args, tokens, fused);
    const struct line dout = *trial_input(trial, "dout", tokens, heads * d, 1, 1);
    const struct line out = *trial_output(trial, "out", tokens, heads * d, 2),
                      log_sum = *trial_output(trial, "log_sum", tokens, heads, 0);
    args.dout = view_of(dout.value, 0, d), args.dout_t = view_of(dout.tangent, 0, d);
    args.out = view_of(out.value, 0, d), args.out_t = view_of(out.tangent, 0, d);
    args.log_sum = log_sum.value, args.log_sum_t = log_sum.tangent;
    check(trial);
}

static void test_attention_tangents(void **state)
{
    (void)state;
    check_attention((const int64_t[]){1}, 1, 1, 1, 0, false);
    check_attention((const int64_t[]){5, 1, 3}, 3, 2, 2, 0, false);
    check_attention((const int64_t[]){4, 6}, 2, 4, 2, 0, false);
    check_attention((const int64_t[]){7, 2}, 2, 3, 1, 3, false);
    check_attention((const int64_t[]){6, 3}, 2, 2, 2, 0, true);
    check_attention((const int64_t[]){6, 3}, 2, 2, 2, 2, true);
    check_attention((const int64_t[]){4, 3}, 2, 2, 1, 1, false);
}

static void scan_pass(const struct trial *trial)
{
    backend_of(trial)->ops->scan_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->scan_backward(backend_of(trial), trial->args);
}

static void scan_tangent_pass(const struct trial *trial)
{
    backend_of(trial)->ops->scan_forward(backend_of(trial), trial->args);
    backend_of(trial)->ops->scan_tangent(backend_of(trial), trial->args);
    backend_of(trial)->ops->scan_backward_tangent(backend_of(trial), trial->args);
}

/* A parameter, whose gradient's value the tangent pass leaves alone. */
static struct line scan_parameter(struct trial *trial, const char *name, int64_t rows, int64_t columns, double scale,
                                  struct matrix *value, struct matrix *tangent, struct matrix *dvalue,
                                  struct matrix *dtangent)
{
    const struct line line = *trial_input(trial, name, rows, columns, 0, scale);
    struct line *gradient = trial_gradient(trial, name, rows, columns, 1, true);
    gradient->rule = VALUE_LEFT;
    *value = line.value, *tangent = line.tangent, *dvalue = gradient->value, *dtangent = gradient->tangent;
    return line;
}

static void check_scan(int64_t heads, int64_t head_dim, int64_t groups, int64_t states, bool shared, bool bias,
                       double most)
{
    struct test_batch batch;
    test_batch_fill(&batch, (const int64_t[]){3, SCAN_CHUNK + 2, 1}, 3, 5);
    const int64_t tokens = batch.batch.tokens, channels = heads * head_dim, kept = scan_kept_columns(channels, states);
    struct scan_args args = {
        .batch = &batch.batch, .heads = heads, .groups = groups, .states = states, .step_most = most};
    struct trial *trial = trial_open(scan_pass, scan_tangent_pass, &args);
    const struct line x = *trial_input(trial, "x", tokens, channels, 1, 1),
                      step_sizes = *trial_input(trial, "step", tokens, heads, 2, 1);
    const struct line bc = *trial_input(trial, "bc", tokens, 2 * groups * states, 0, 1);
    const struct line dy = *trial_input(trial, "dy", tokens, channels, 3, 1);
    const struct line y = *trial_output(trial, "y", tokens, channels, 1),
                      dx = *trial_output(trial, "dx", tokens, channels, 2);
    const struct line dstep = *trial_output(trial, "dstep", tokens, heads, 0),
                      dbc = *trial_output(trial, "dbc", tokens, 2 * groups * states, 0);
    args.x = x.value, args.x_t = x.tangent, args.step = step_sizes.value, args.step_t = step_sizes.tangent;
    args.bc = bc.value, args.bc_t = bc.tangent, args.dy = dy.value, args.dy_t = dy.tangent;
    args.y = y.value, args.y_t = y.tangent, args.dx = dx.value, args.dx_t = dx.tangent;
    args.dstep = dstep.value, args.dstep_t = dstep.tangent, args.dbc = dbc.value, args.dbc_t = dbc.tangent;
    struct matrix *const scratch[] = {&args.kept, &args.kept_t, &args.dkept, &args.dkept_t};
    for (int i = 0; i < 4; i++) *scratch[i] = world_zeros(trial->world, tokens, kept, 0);
    scan_parameter(trial, "a_log", shared ? 1 : heads, shared ? heads : states, 0.5, &args.a_log, &args.a_log_t,
                   &args.da_log, &args.da_log_t);
    scan_parameter(trial, "skip", 1, heads, 1, &args.skip, &args.skip_t, &args.dskip, &args.dskip_t);
    if (bias)
        scan_parameter(trial, "step_bias", 1, heads, 1, &args.step_bias, &args.step_bias_t, &args.dstep_bias,
                       &args.dstep_bias_t);
    check(trial);
}

static void test_scan_tangents(void **state)
{
    (void)state;
    check_scan(5, 1, 1, 3, false, false, INFINITY);
    check_scan(4, 2, 2, 2, true, true, INFINITY);
    check_scan(2, 2, 1, 3, true, true, 0.9);
    check_scan(3, 2, 3, 2, false, true, INFINITY);
}

struct loss {
    struct cross_entropy_args args;
    struct matrix logits, logits_t;
    double losses[5], log_sum[5];
};

/* The passes work in place: on copies. */
static void loss_pass(const struct trial *trial)
{
    struct loss *loss = trial->args;
    const struct backend_ops *ops = backend_of(trial)->ops;
    ops->add(backend_of(trial), loss->args.logits, loss->logits, 1, 0);
    ops->cross_entropy_forward(backend_of(trial), &loss->args);
    ops->cross_entropy_backward(backend_of(trial), &loss->args);
}

static void loss_tangent_pass(const struct trial *trial)
{
    struct loss *loss = trial->args;
    const struct backend_ops *ops = backend_of(trial)->ops;
    ops->add(backend_of(trial), loss->args.logits, loss->logits, 1, 0);
    ops->add(backend_of(trial), loss->args.logits_t, loss->logits_t, 1, 0);
    ops->cross_entropy_forward(backend_of(trial), &loss->args);
    ops->cross_entropy_backward_tangent(backend_of(trial), &loss->args);
}

static void test_cross_entropy_tangent(void **state)
{
    (void)state;
    const uint32_t targets[] = {2, 0, TARGET_NONE, 8, 4};
    struct loss loss = {.args = {.targets = targets, .weight = 0.3}};
    struct trial *trial = trial_open(loss_pass, loss_tangent_pass, &loss);
    const struct line logits = *trial_input(trial, "logits", 5, 9, 2, 2),
                      gradient = *trial_output(trial, "dlogits", 5, 9, 1);
    loss.logits = logits.value, loss.logits_t = logits.tangent;
    loss.args.logits = gradient.value, loss.args.logits_t = gradient.tangent;
    loss.args.losses = loss.losses, loss.args.log_sum = loss.log_sum;
    check(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_tangents),         cmocka_unit_test(test_activation_tangents),
        cmocka_unit_test(test_attention_tangents),    cmocka_unit_test(test_scan_tangents),
        cmocka_unit_test(test_cross_entropy_tangent),
    };
    return cmocka_run_group_tests_name("reference tangents", tests, NULL, NULL);
}
