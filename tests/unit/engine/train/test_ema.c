/* The moving average against its definition, summed anew. */
#include "base/random.h"
#include "train/ema.h"
#include "unit.h"

#include <math.h>
#include <string.h>

#define MODEL                                                                                  \
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":7,\"hidden_size\":4,\"num_hidden_layers\":1," \
    "\"num_attention_heads\":1,"                                                               \
    "\"intermediate_size\":6,\"max_position_embeddings\":8,\"rotary_pct\":0.5}"

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static void test_the_average_is_its_definition_at_every_step(void **state)
{
    (void)state;
    const double decay = 0.9;
    struct backend *backend = NULL;
    struct parameters_layout *layout = NULL;
    struct model_config config;
    struct parameters parameters;
    struct ema ema;
    ok(backend_reference_new(true, NULL, &backend, &error));
    ok(config_parse("model", MODEL, strlen(MODEL), &config, &error));
    ok(parameters_layout_new(&config, &layout, &error));
    ok(parameters_init(&parameters, layout, backend, "parameters", &error));
    ok(ema_init(&ema, decay, layout, backend, &error));
    for (int n = 1; n <= 30; n++) {
        for (int64_t i = 0; i < layout->elements; i++)
            ((double *)parameters.data)[i] = random_normal(3, (uint64_t)n, (uint64_t)i);
        ema_add(&ema, &parameters);
        for (int64_t i = 0; i < layout->elements; i++) {
            double sum = 0, weights = 0;
            for (int k = 1; k <= n; k++) {
                sum += pow(decay, n - k) * random_normal(3, (uint64_t)k, (uint64_t)i);
                weights += pow(decay, n - k);
            }
            assert_true(fabs(((double *)ema.mean.data)[i] - sum / weights) < 1e-14);
        }
    }
    ema_reset(&ema);
    parameters_reset(&parameters);
    parameters_layout_free(layout);
    backend_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_average_is_its_definition_at_every_step),
    };
    return cmocka_run_group_tests_name("ema", tests, NULL, NULL);
}
