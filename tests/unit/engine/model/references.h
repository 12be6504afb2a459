/* references.h: the models whose numbers another program computed in double. Three tests go through this list and
 * compare each model: logits and losses (test_reference.c), gradients (test_gradient.c), products with the Hessian
 * (engine/curvature/test_hvp.c). So a model that stands here lacks none of them.
 *
 * Those of Qwen2 lie in the repository, the rest beside it; tests/tools/reference_qwen2.py shows how such values are
 * made. The micro ones are small enough for a whole Hessian. */
#ifndef REFERENCES_H
#define REFERENCES_H

/* clang-format off */
#define REFERENCES(X) \
    X(micro, llama) X(micro, llama_tied) X(micro, llama_rope3) X(micro, gpt_neox) X(models, llama) \
    X(models, llama_tied) X(models, llama_rope3) X(models, gpt_neox) X(micro, olmo2) X(micro, qwen3) \
    X(micro, mistral) X(micro, qwen2) X(micro, qwen2_window) X(micro, smollm3) X(micro, opensci) X(models, olmo2) \
    X(models, qwen3) X(models, mistral) X(models, smollm3) X(models, opensci) X(micro, mamba) X(micro, mamba2) \
    X(models, mamba) X(models, mamba2) X(micro, gpt2) X(models, gpt2) X(micro, apertus) X(models, apertus) \
    X(micro, olmoe) X(models, olmoe)

/* Architectures without such a model, and what they are compared with in its place. */
#define WITHOUT_REFERENCES(X) \
    X(opt, "losses and gradients of the published code (test_published.c), finite differences (test_tangent.c)")
/* clang-format on */

#define REFERENCE_PATH(group, name) "reference/" #group "/" #name

#endif
