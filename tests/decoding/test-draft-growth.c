/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Draft trees and how they grow: each rule against figures computed by hand, and the choice by cost
 * against all others that are possible. */

#include "policies/bench-growths.h"

#include <math.h>

typedef struct
{
  LlmDraftGrowth growth;
  LlmDraftTree tree;
} Rig;

static const LlmDraftCosts flat = { .verify_us = { 1 } };

static void
rig_init (Rig                   *rig,
          const LlmGrowthConfig *config,
          const LlmDraftCosts   *costs)
{
  llm_draft_growth_init (&rig->growth, config);
  llm_draft_growth_begin (&rig->growth, costs);
  rig->growth.credit = 1000;
  rig->tree = (LlmDraftTree) { .n_max = LLM_DRAFT_MAX_NODES, .max_depth = 100 };
}

/* The next node is @node, and these confidences follow it, with tokens 10 · node + 0, 1, … */
static void
expand (Rig         *rig,
        guint        node,
        guint        n,
        const float *confidences)
{
  LlmDraftCandidate candidates[LLM_DRAFT_MAX_CANDIDATES];

  g_assert_cmpuint (llm_draft_growth_next (&rig->growth), ==, node);
  for (guint i = 0; i < n; i++)
    candidates[i] = (LlmDraftCandidate) { (gint32) (10 * node + i), confidences[i] };
  llm_draft_growth_expand (&rig->growth, node, candidates, n);
}
#define EXPAND(rig, node, ...) \
  expand (rig, node, sizeof (float[]) { __VA_ARGS__ } / sizeof (float), (float[]) { __VA_ARGS__ })

static void
fill (Rig *rig)
{
  llm_draft_tree_begin (&rig->tree, 99);
  llm_draft_growth_fill (&rig->growth, &rig->tree);
}

/* --- the tree --- */

static void
test_tree (void)
{
  LlmDraftTree tree = { .n_max = 5, .max_depth = 2 };
  guint a, b, c;

  llm_draft_tree_begin (&tree, 7);
  g_assert_cmpuint (tree.n, ==, 1);
  g_assert_cmphex (tree.paths[0], ==, 1);
  a = llm_draft_tree_add (&tree, 0, 10, 0.5f);
  b = llm_draft_tree_add (&tree, 0, 11, 0.25f);
  c = llm_draft_tree_add (&tree, b, 10, 0.5f);
  g_assert_cmpuint (a, ==, 1);
  g_assert_cmpuint (c, ==, 3);
  /* as forward/ takes rows: the path's bits, its own the highest */
  g_assert_cmphex (tree.paths[a], ==, 0x3);
  g_assert_cmphex (tree.paths[b], ==, 0x5);
  g_assert_cmphex (tree.paths[c], ==, 0xd);
  g_assert_cmpfloat (tree.cumulative[c], ==, 0.125f);
  g_assert_true (llm_draft_tree_is_chain (&tree, a));
  g_assert_false (llm_draft_tree_is_chain (&tree, b));
  g_assert_cmpuint (llm_draft_tree_find_child (&tree, 0, 10), ==, a);
  g_assert_cmpuint (llm_draft_tree_find_child (&tree, b, 10), ==, c);
  g_assert_cmpuint (llm_draft_tree_find_child (&tree, a, 10), ==, LLM_DRAFT_NONE);
  g_assert_cmpuint (llm_draft_tree_find_child (&tree, 0, 12), ==, LLM_DRAFT_NONE);

  /* too deep, behind what is not there, and one too many */
  g_assert_cmpuint (llm_draft_tree_add (&tree, c, 1, 1), ==, LLM_DRAFT_NONE);
  g_assert_cmpuint (llm_draft_tree_add (&tree, LLM_DRAFT_NONE, 1, 1), ==, LLM_DRAFT_NONE);
  g_assert_cmpuint (llm_draft_tree_add (&tree, 0, 1, 1), ==, 4);
  g_assert_cmpuint (llm_draft_tree_add (&tree, 0, 2, 1), ==, LLM_DRAFT_NONE);
  g_assert_cmpuint (tree.n, ==, 5);

  tree = (LlmDraftTree) { .n_max = 1000, .max_depth = 1000 };
  llm_draft_tree_begin (&tree, 7);
  for (guint i = 1; i < LLM_DRAFT_MAX_NODES; i++)
    g_assert_cmpuint (llm_draft_tree_add (&tree, i - 1, 1, 1), ==, i);
  g_assert_cmphex (tree.paths[63], ==, G_MAXUINT64);
  g_assert_cmpuint (llm_draft_tree_add (&tree, 63, 1, 1), ==, LLM_DRAFT_NONE);
}

/* --- fixed shapes --- */

static void
test_chain (void)
{
  const LlmGrowthConfig config = BENCH_GROWTH_CHAIN (3);
  Rig rig;

  rig_init (&rig, &config, &flat);
  EXPAND (&rig, 0, 0.4f, 0.39f);
  EXPAND (&rig, 1, 0.01f);
  EXPAND (&rig, 2, 0.9f, 0.1f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 4);
  g_assert_cmphex (rig.tree.paths[3], ==, 0xf);
  g_assert_cmpint (rig.tree.tokens[1], ==, 0);
  g_assert_cmpint (rig.tree.tokens[2], ==, 10);
  g_assert_cmpint (rig.tree.tokens[3], ==, 20);

  /* where the source knows nothing more */
  rig_init (&rig, &config, &flat);
  EXPAND (&rig, 0, 0.4f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, 1);
  llm_draft_growth_expand (&rig.growth, 1, NULL, 0);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
}

static void
test_fixed (void)
{
  const LlmGrowthConfig config = BENCH_GROWTH_FIXED (2, 1);
  Rig rig;

  rig_init (&rig, &config, &flat);
  EXPAND (&rig, 0, 0.4f, 0.3f, 0.2f);
  EXPAND (&rig, 1, 0.5f, 0.5f);
  EXPAND (&rig, 2, 0.9f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  fill (&rig);
  /* likeliest first: 1 (.4), 2 (.3), behind 2 (.27), behind 1 (.2) */
  g_assert_cmpuint (rig.tree.n, ==, 5);
  g_assert_cmpint (rig.tree.tokens[3], ==, 20);
  g_assert_cmphex (rig.tree.paths[3], ==, 0xd);
  g_assert_cmpint (rig.tree.tokens[4], ==, 10);
  g_assert_cmphex (rig.tree.paths[4], ==, 0x13);

  /* a smaller step has the likeliest of them; a flat one none behind the first */
  rig.tree.n_max = 3;
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 3);
  rig.tree.n_max = 64;
  rig.tree.max_depth = 1;
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 3);
}

/* --- the paper's rules --- */

static void
test_threshold (void)
{
  Rig rig;

  rig_init (&rig, &BENCH_GROWTH_PAPER, &flat);
  EXPAND (&rig, 0, 0.35f, 0.31f, 0.29f);
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 3);
  /* the likeliest goes on however unlikely it is */
  EXPAND (&rig, 1, 0.2f, 0.19f);
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 4);
}

/* f(x) = M · C_x / ΣC − T_x; the branch with the largest is next. */
static void
test_pacer (void)
{
  Rig rig;

  rig_init (&rig, &BENCH_GROWTH_PAPER, &flat);
  /* M = 2, ΣC = 1: f(1) = 0.2, f(2) = −0.2 */
  EXPAND (&rig, 0, 0.6f, 0.4f);
  /* 3: C = 0.3, T = 2; M = 3, ΣC = 0.7: f(3) = −0.71, f(2) = 0.71 */
  EXPAND (&rig, 1, 0.5f);
  /* 4: C = 0.36, T = 2; M = 4, ΣC = 0.66: f(3) = −0.18, f(4) = 0.18 */
  EXPAND (&rig, 2, 0.9f);
  /* 5: C = 0.324, T = 3; M = 5, ΣC = 0.624: f(3) = 0.40, f(5) = −0.40 */
  EXPAND (&rig, 4, 0.9f, 0.1f);
  /* 6: 0.12, 7: 0.105, T = 3; M = 9, ΣC = 0.549: f(5) = 2.3 */
  EXPAND (&rig, 3, 0.4f, 0.35f);
  /* 8: 0.0324, T = 4; M = 10, ΣC = 0.2574: f(6) = 1.66, f(7) = 1.08 */
  EXPAND (&rig, 5, 0.1f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, 6);
}

/* Verified when the likeliest branch falls below α. */
static void
test_fallback (void)
{
  LlmGrowthConfig config = BENCH_GROWTH_PAPER;
  Rig rig;

  config.alpha = 0.2;
  rig_init (&rig, &config, &flat);
  EXPAND (&rig, 0, 0.5f, 0.45f);
  EXPAND (&rig, 1, 0.3f);         /* 0.15 is below, but 0.45 is not */
  EXPAND (&rig, 2, 0.4f);         /* 0.18: both are */
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 5);
}

static double
learn (LlmDraftTree *tree,
       double        alpha,
       guint         node)
{
  LlmGrowthConfig config = BENCH_GROWTH_PAPER;
  LlmDraftGrowth growth;

  config.alpha = alpha;
  llm_draft_growth_init (&growth, &config);
  llm_draft_growth_learn (&growth, tree, node);
  return growth.alpha;
}

/* Equation 3. */
static void
test_alpha (void)
{
  LlmDraftTree tree = { .n_max = 64, .max_depth = 64 };
  guint node = 0;

  llm_draft_tree_begin (&tree, 1);
  g_assert_cmpfloat (learn (&tree, 0.01, 0), ==, 0.01);   /* nothing was guessed */
  for (guint i = 0; i < 4; i++)
    node = llm_draft_tree_add (&tree, node, 5, 0.3f);

  /* all four right: half; T_c = 0.3⁴ = 0.0081 */
  g_assert_cmpfloat_with_epsilon (learn (&tree, 0.01, 4), 0.005, 1e-9);
  g_assert_cmpfloat_with_epsilon (learn (&tree, 0.00015, 4), 1e-4, 1e-9);
  /* three of four: divided by 0.0081^(1/4) = 0.3; two: by 0.09; none: by 0.0081, at most 0.5 */
  g_assert_cmpfloat_with_epsilon (learn (&tree, 0.01, 3), 0.01 / 0.3, 1e-6);
  g_assert_cmpfloat_with_epsilon (learn (&tree, 0.01, 2), 0.01 / 0.09, 1e-6);
  g_assert_cmpfloat_with_epsilon (learn (&tree, 0.01, 0), 0.5, 1e-9);

  /* A branch of two beside it, right to its end. Then one whose likeliest end is three deep, wrong
   * from its second node on: T_c is still the tree's, 0.16 by now. */
  node = llm_draft_tree_add (&tree, llm_draft_tree_add (&tree, 0, 6, 0.4f), 7, 0.4f);
  g_assert_cmpfloat_with_epsilon (learn (&tree, 0.01, node), 0.005, 1e-9);
  llm_draft_tree_add (&tree, node, 8, 0.1f);
  node = llm_draft_tree_add (&tree, 5, 9, 0.4f);
  g_assert_cmpuint (tree.parents[6], ==, 5);
  g_assert_cmpfloat_with_epsilon (learn (&tree, 0.01, 5), 0.01 / pow (0.16, 2.0 / 3), 1e-6);
}

/* --- by cost --- */

/* A row more costs a tenth of a step, a draft step as much. Rates by hand, in tokens per 100 µs. */
static void
test_best (void)
{
  LlmDraftCosts costs = { .draft_us = 1 };
  Rig rig;

  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 9 + n;
  rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
  g_assert_cmpuint (llm_draft_growth_count_rows (&rig.growth), ==, 1);
  EXPAND (&rig, 0, 0.6f, 0.3f);  /* 1.6 / 12 = 13.3, 1.9 / 13 = 14.6: 3 rows */
  g_assert_cmpuint (llm_draft_growth_count_rows (&rig.growth), ==, 3);
  EXPAND (&rig, 1, 0.5f, 0.1f);  /* 0.6, 0.3, 0.3, 0.06: 2.2 / 15 = 14.67: 4 rows */
  g_assert_cmpuint (llm_draft_growth_count_rows (&rig.growth), ==, 4);
  EXPAND (&rig, 2, 0.2f);        /* 0.3 > 2 · 0.1467; another 0.06: 2.2 / 16 = 13.75 */
  EXPAND (&rig, 3, 0.9f);        /* 0.3 > 2 · 0.1375; 0.27: 2.47 / 18 = 13.72: 5 rows */
  g_assert_cmpuint (llm_draft_growth_count_rows (&rig.growth), ==, 5);
  /* 0.27 < 2 · 0.1372 */
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  g_assert_cmpfloat_with_epsilon (llm_draft_growth_expect (&rig.growth, 5), 2.47, 1e-6);
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 5);
  g_assert_cmphex (rig.tree.paths[4], ==, 0x1b);
}

/* Where rows are dear nothing is guessed; where weights stream, rows are free until they take
 * longer; beside others a row costs the same, but a step's tokens are more. */
static void
test_costs (void)
{
  LlmDraftCosts costs = { 0 };
  Rig rig;

  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 10.0 * n;
  rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
  /* even a certain guess only pays for its row */
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  costs.verify_us[2] = 19.5;
  rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
  EXPAND (&rig, 0, 0.99f);
  /* 1.99 / 19.5 is 2 % better than 1 / 10: too little to rely on */
  g_assert_cmpuint (llm_draft_growth_count_rows (&rig.growth), ==, 1);
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 1);

  costs.read_us = 60;
  rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
  EXPAND (&rig, 0, 0.2f, 0.2f, 0.1f, 0.1f, 0.05f, 0.05f, 0.05f, 0.05f);
  /* five guesses until 60 µs; a sixth of 0.05 costs 10 µs, where 1.65 tokens cost 60 */
  g_assert_cmpuint (llm_draft_growth_count_rows (&rig.growth), ==, 6);

  costs.read_us = 0;
  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 40 + 2 * n;
  for (guint i = 0; i < 2; i++)
    {
      costs.n_others = i * 9;
      rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
      EXPAND (&rig, 0, 0.2f);
      /* 1.2 / 44 > 1 / 42; 10.2 / 44 < 10 / 42 */
      g_assert_cmpuint (llm_draft_growth_count_rows (&rig.growth), ==, i == 0 ? 2 : 1);
    }
}

/* --- while a tree is verified --- */

/* As expand(), for a later tree. */
static void
expand_ahead (Rig         *rig,
              guint        max_depth,
              guint        node,
              guint        n,
              const float *confidences)
{
  LlmDraftCandidate candidates[LLM_DRAFT_MAX_CANDIDATES];

  g_assert_cmpuint (llm_draft_growth_next_ahead (&rig->growth, max_depth), ==, node);
  for (guint i = 0; i < n; i++)
    candidates[i] = (LlmDraftCandidate) { (gint32) (10 * node + i), confidences[i] };
  llm_draft_growth_expand (&rig->growth, node, candidates, n);
}
#define EXPAND_AHEAD(rig, max_depth, node, ...) \
  expand_ahead (rig, max_depth, node, sizeof (float[]) { __VA_ARGS__ } / sizeof (float), \
                (float[]) { __VA_ARGS__ })

/* The tree of test_best() goes on while it is verified, and then the text to its node 3. */
static void
test_keep (void)
{
  const guint expected[] = { LLM_DRAFT_NONE, LLM_DRAFT_NONE, LLM_DRAFT_NONE, 0, LLM_DRAFT_NONE,
                             LLM_DRAFT_NONE, 1, LLM_DRAFT_NONE, 2, 3, 4 };
  const double cumulative[] = { 1, 0.9, 0.72, 0.09, 0.36 };
  const guint depths[] = { 0, 1, 2, 2, 3 }, n_children[] = { 1, 2, 1, 0, 0 };
  const guint order[] = { 1, 2, 4, 3 };
  LlmDraftCosts costs = { .draft_us = 1 };
  guint numbers[LLM_GROWTH_MAX_NODES];
  LlmGrowthConfig chain = BENCH_GROWTH_CHAIN (2);
  Rig rig;

  chain.goes_ahead = TRUE;
  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 9 + n;
  rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
  /* the root is not for later */
  g_assert_cmpuint (llm_draft_growth_next_ahead (&rig.growth, 100), ==, LLM_DRAFT_NONE);
  EXPAND (&rig, 0, 0.6f, 0.3f);
  EXPAND (&rig, 1, 0.5f, 0.1f);
  EXPAND (&rig, 2, 0.2f);
  EXPAND (&rig, 3, 0.9f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  llm_draft_tree_begin (&rig.tree, 99);
  g_assert_cmpuint (llm_draft_growth_fill (&rig.growth, &rig.tree), ==, 0);

  /* 6 has 0.27, but is three deep; then 4 has 0.06, as 5 */
  EXPAND_AHEAD (&rig, 3, 4, 0.5f);
  EXPAND_AHEAD (&rig, 4, 6, 0.8f, 0.1f);
  EXPAND_AHEAD (&rig, 5, 8, 0.5f);
  g_assert_cmpuint (rig.growth.n_steps, ==, 4);
  g_assert_cmpuint (rig.growth.n, ==, 11);

  g_assert_cmpuint (llm_draft_growth_find_child (&rig.growth, 0, 0), ==, 1);
  g_assert_cmpuint (llm_draft_growth_find_child (&rig.growth, 1, 10), ==, 3);
  g_assert_cmpuint (llm_draft_growth_find_child (&rig.growth, 0, 10), ==, LLM_DRAFT_NONE);
  llm_draft_growth_number (&rig.growth, 3, numbers);
  g_assert_cmpmem (numbers, sizeof expected, expected, sizeof expected);
  llm_draft_growth_keep (&rig.growth, &costs, 3);
  g_assert_cmpuint (rig.growth.n, ==, 5);
  g_assert_cmpuint (rig.growth.n_steps, ==, 0);
  for (guint i = 0; i < 5; i++)
    {
      g_assert_cmpfloat_with_epsilon (rig.growth.nodes[i].cumulative, cumulative[i], 1e-6);
      g_assert_cmpuint (rig.growth.nodes[i].depth, ==, depths[i]);
      g_assert_cmpuint (rig.growth.nodes[i].n_children, ==, n_children[i]);
      g_assert_cmpint (rig.growth.nodes[i].is_asked, ==, i < 3);
      g_assert_cmpint (rig.growth.nodes[i].is_ahead, ==, i > 1);
    }
  g_assert_cmpmem (rig.growth.order, sizeof order, order, sizeof order);
  /* they cost nothing: 2.98 / 13 is best, four rows; 0.36 < 2 · 0.229 */
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  llm_draft_tree_begin (&rig.tree, 99);
  g_assert_cmpuint (llm_draft_growth_fill (&rig.growth, &rig.tree), ==, 2);
  g_assert_cmpuint (rig.tree.n, ==, 4);
  g_assert_cmpint (rig.tree.tokens[1], ==, 30);
  g_assert_cmpint (rig.tree.tokens[2], ==, 60);
  g_assert_cmpint (rig.tree.tokens[3], ==, 80);

  /* a root that was not asked about is now */
  llm_draft_growth_keep (&rig.growth, &costs, 3);
  g_assert_cmpuint (rig.growth.n, ==, 1);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, 0);

  /* a chain has as many rows as before, and needs as many steps fewer */
  rig_init (&rig, &chain, &flat);
  EXPAND (&rig, 0, 0.4f);
  EXPAND (&rig, 1, 0.4f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  EXPAND_AHEAD (&rig, 100, 2, 0.4f, 0.4f);
  EXPAND_AHEAD (&rig, 100, 3, 0.4f);
  g_assert_cmpuint (rig.growth.n, ==, 5);
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 3);
  llm_draft_growth_keep (&rig.growth, &flat, 3);
  EXPAND (&rig, 1, 0.4f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
}

/* It ends: as many are asked about as a draft has rows for, and as many known as there is room for.
 * Who may not go ahead does not. */
static void
test_ahead_ends (void)
{
  const float few[] = { 0.9f }, many[] = { 0.2f, 0.2f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f };
  LlmGrowthConfig config = LLM_GROWTH_CONFIG_BEST;
  LlmDraftCandidate candidates[LLM_DRAFT_MAX_CANDIDATES];
  Rig rig;

  for (guint round = 0; round < 2; round++)
    {
      guint n = round == 0 ? 1 : G_N_ELEMENTS (many), n_steps = 0, node = 0;

      for (guint i = 0; i < n; i++)
        candidates[i] = (LlmDraftCandidate) { (gint32) i, round == 0 ? few[i] : many[i] };
      rig_init (&rig, &config, &flat);
      rig.growth.nodes[0].is_asked = TRUE;
      do
        {
          llm_draft_growth_expand (&rig.growth, node, candidates, n);
          node = llm_draft_growth_next_ahead (&rig.growth, 1000);
        }
      while (node != LLM_DRAFT_NONE && ++n_steps < 1000);
      g_assert_cmpuint (n_steps, ==, round == 0 ? LLM_DRAFT_MAX_NODES : 63);
      g_assert_cmpuint (rig.growth.n, ==, round == 0 ? LLM_DRAFT_MAX_NODES + 2 : LLM_GROWTH_MAX_NODES);
    }
  config.goes_ahead = FALSE;
  rig_init (&rig, &config, &flat);
  rig.growth.nodes[0].is_asked = TRUE;
  llm_draft_growth_expand (&rig.growth, 0, candidates, 1);
  g_assert_cmpuint (llm_draft_growth_next_ahead (&rig.growth, 100), ==, LLM_DRAFT_NONE);
}

/* --- whether it pays --- */

/* One tree after the other: each node has a continuation that is promised with 0.9, and as many of a
 * tree's are right as a test says. */
typedef struct
{
  Rig rig;
  LlmDraftCosts costs;
  guint n_tokens;       /* that came */
  double us;            /* for them */
  guint n_rows;         /* of the last tree */
} Text;

/* A row more costs @row_us, where one costs 100. */
static void
text_init (Text   *text,
           double  draft_us,
           double  row_us)
{
  *text = (Text) { .costs = { .draft_us = draft_us } };
  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    text->costs.verify_us[n] = 100 + row_us * (n - 1);
  rig_init (&text->rig, &LLM_GROWTH_CONFIG_BEST, &text->costs);
  text->rig.growth.credit = LLM_GROWTH_CREDIT;
}

static void
text_go_on (Text  *text,
            guint  n_right)
{
  LlmDraftGrowth *growth = &text->rig.growth;
  LlmDraftCandidate candidate = { 5, 0.9f };
  guint node;

  llm_draft_growth_begin (growth, &text->costs);
  while ((node = llm_draft_growth_next (growth)) != LLM_DRAFT_NONE)
    llm_draft_growth_expand (growth, node, &candidate, 1);
  fill (&text->rig);
  n_right = MIN (n_right, text->rig.tree.n - 1);
  text->n_rows = text->rig.tree.n;
  text->n_tokens += 1 + n_right;
  text->us += growth->n_steps * text->costs.draft_us + text->costs.verify_us[text->n_rows];
  llm_draft_growth_learn (growth, &text->rig.tree, n_right);
}

/* Where no promise is kept, an answer loses what it began with and a hundredth of its tokens, however
 * dear rows and draft steps are. */
static void
test_loses_little (void)
{
  const struct { double draft_us, row_us; } costs[] = {
    { 0.02, 0 }, { 1, 1 }, { 3, 12 }, { 30, 1 }, { 0.1, 60 }, { 45, 40 },
  };
  guint n_tried = 0;

  for (guint i = 0; i < G_N_ELEMENTS (costs); i++)
    {
      Text text;

      text_init (&text, costs[i].draft_us, costs[i].row_us);
      for (guint n = 1; n <= 1000; n++)
        {
          text_go_on (&text, 0);
          n_tried += n > 900 && text.n_rows > 1;
          g_assert_cmpfloat (text.us, <=, 100 * (n * 1.01 + LLM_GROWTH_CREDIT + 1e-6));
          if (n == 64)
            g_assert_cmpfloat (64 * 100 / text.us, >=, 0.98);
        }
      g_test_message ("draft %.2f, row %.0f: %.4f of plain", costs[i].draft_us, costs[i].row_us,
                      1000 * 100 / text.us);
    }
  g_assert_cmpuint (n_tried, >, G_N_ELEMENTS (costs));
}

/* What is won may be lost again, but no more than four tokens of it; and where trees begin to be
 * right they are soon as large as they are worth. */
static void
test_comes_back (void)
{
  guint n_before, n_until = 0;
  double before_us;
  Text text;

  text_init (&text, 3, 12);
  for (guint i = 0; i < 50; i++)
    text_go_on (&text, 100);
  g_assert_cmpfloat (text.rig.growth.credit, ==, 4);
  g_assert_cmpuint (text.n_rows, >, 8);
  n_before = text.n_tokens;
  before_us = text.us;
  for (guint i = 0; i < 300; i++)
    text_go_on (&text, 0);
  g_assert_cmpfloat (text.us - before_us, <=, 100 * ((text.n_tokens - n_before) * 1.01 + 4));
  /* a tree of two rows risks 0.15 tokens: one in fifteen steps */
  while (text.rig.growth.credit < 3 && n_until++ < 100)
    text_go_on (&text, 100);
  g_test_message ("%u trees until the credit is 3 again", n_until);
  g_assert_cmpuint (n_until, <, 25);
}

/* Tokens of others that are in the same step are at risk, too; what reads longer than it computes
 * risks nothing. */
static void
test_risk (void)
{
  Text text;

  text_init (&text, 0, 12);
  text_go_on (&text, 0);
  g_assert_cmpuint (text.n_rows, ==, 5);    /* 48 of 100 µs */
  g_assert_cmpfloat_with_epsilon (text.rig.growth.credit, 0.5 - 0.48 + 0.01, 1e-9);
  text_init (&text, 0, 12);
  text.costs.n_others = 1;
  text_go_on (&text, 0);
  g_assert_cmpuint (text.n_rows, ==, 3);    /* two answers of 24 of 100 µs */
  g_assert_cmpfloat_with_epsilon (text.rig.growth.credit, 0.5 - 0.48 + 0.01, 1e-9);
  text_init (&text, 0, 12);
  text.costs.read_us = 400;
  text_go_on (&text, 0);
  g_assert_cmpuint (text.n_rows, >=, 26);
  g_assert_cmpfloat (text.rig.growth.credit, >=, 0);
  /* a draft step that was held up has to be paid for */
  text_init (&text, 10, 1);
  llm_draft_growth_begin (&text.rig.growth, &text.costs);
  g_assert_cmpuint (llm_draft_growth_next (&text.rig.growth), ==, 0);
  llm_draft_growth_expand (&text.rig.growth, 0, &(LlmDraftCandidate) { 5, 0.9f }, 1);
  text.rig.growth.late_us += 70;
  g_assert_cmpuint (llm_draft_growth_next (&text.rig.growth), ==, LLM_DRAFT_NONE);
  fill (&text.rig);
  g_assert_cmpuint (text.rig.tree.n, ==, 1);
  llm_draft_growth_learn (&text.rig.growth, &text.rig.tree, 0);
  g_assert_cmpfloat_with_epsilon (text.rig.growth.credit, 0.5 - 0.8 + 0.01, 1e-9);
  /* before it is known what steps cost nothing is */
  text_init (&text, 0, 0);
  text.costs = (LlmDraftCosts) { 0 };
  llm_draft_growth_begin (&text.rig.growth, &text.costs);
  fill (&text.rig);
  llm_draft_growth_learn (&text.rig.growth, &text.rig.tree, 0);
  g_assert_cmpfloat_with_epsilon (text.rig.growth.credit, 0.51, 1e-9);
}

/* What is likelier but came later goes first; what finds no room is left out. */
static void
test_late (void)
{
  LlmDraftCosts costs = { .draft_us = 0 };
  Rig rig;

  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 100 + n;
  rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
  EXPAND (&rig, 0, 0.5f, 0.4f);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, 1);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, 2);
  g_assert_cmpuint (llm_draft_growth_next (&rig.growth), ==, LLM_DRAFT_NONE);
  llm_draft_growth_expand (&rig.growth, 2, (LlmDraftCandidate[]) { { 1, 0.5f } }, 1);
  llm_draft_growth_expand (&rig.growth, 1, (LlmDraftCandidate[]) { { 2, 0.9f } }, 1);
  rig.tree.n_max = 4;
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, ==, 4);
  g_assert_cmpint (rig.tree.tokens[2], ==, 2);   /* 0.45 before 0.4 */
  g_assert_cmpuint (rig.tree.parents[2], ==, 1);

  /* all that a tree can know of */
  rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
  for (guint node; (node = llm_draft_growth_next (&rig.growth)) != LLM_DRAFT_NONE;)
    {
      LlmDraftCandidate candidates[LLM_DRAFT_MAX_CANDIDATES];

      for (guint i = 0; i < LLM_DRAFT_MAX_CANDIDATES; i++)
        candidates[i] = (LlmDraftCandidate) { (gint32) i, 0.124f };
      llm_draft_growth_expand (&rig.growth, node, candidates, LLM_DRAFT_MAX_CANDIDATES);
    }
  fill (&rig);
  g_assert_cmpuint (rig.tree.n, >, 8);
  for (guint i = 1; i < rig.tree.n; i++)
    g_assert_cmpfloat (rig.tree.cumulative[i], <=, rig.tree.cumulative[rig.tree.parents[i]]);
}

/* Tokens per time of the rows of @mask of a known tree; 0 where a parent is missing. */
static double
get_rate (const LlmDraftGrowth *growth,
          guint                 mask)
{
  double tokens = 1 + growth->costs.n_others;
  guint n = 1;

  for (guint i = 1; i < growth->n; i++)
    if ((mask >> i & 1) != 0)
      {
        if ((mask >> growth->nodes[i].parent & 1) == 0)
          return 0;
        tokens += growth->nodes[i].cumulative;
        n++;
      }
  return tokens / (growth->n_steps * growth->costs.draft_us + growth->costs.verify_us[n]);
}

/* Of all subtrees, by brute force. */
static void
test_brute_force (void)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (18);
  guint n_drafting = 0;

  for (guint round = 0; round < 200; round++)
    {
      LlmDraftCosts costs = { .draft_us = g_rand_double (random) };
      double best = 0, us = 10, tokens;
      Rig rig;
      guint n;

      for (n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
        costs.verify_us[n] = us += g_rand_double (random) * 4;
      costs.n_others = g_rand_int_range (random, 0, 3);
      rig_init (&rig, &LLM_GROWTH_CONFIG_BEST, &costs);
      for (guint node; rig.growth.n < 12
                       && (node = llm_draft_growth_next (&rig.growth)) != LLM_DRAFT_NONE;)
        {
          LlmDraftCandidate candidates[3];
          float left = 1;

          for (guint i = 0; i < 3; i++)
            {
              candidates[i].token = (gint32) i;
              candidates[i].confidence = left * (float) g_rand_double (random);
              left -= candidates[i].confidence;
            }
          llm_draft_growth_expand (&rig.growth, node, candidates, 3);
        }
      for (guint mask = 1; mask < 1u << rig.growth.n; mask += 2)
        best = MAX (best, get_rate (&rig.growth, mask));
      n = llm_draft_growth_count_rows (&rig.growth);
      tokens = llm_draft_growth_expect (&rig.growth, n) + costs.n_others;
      if (n > 1)
        g_assert_cmpfloat_with_epsilon (
          tokens / (rig.growth.n_steps * costs.draft_us + costs.verify_us[n]), best, 1e-9);
      else
        g_assert_cmpfloat (best, <, 1.05 * get_rate (&rig.growth, 1));
      n_drafting += n > 1;
    }
  g_assert_cmpuint (n_drafting, >, 50);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/draft/tree", test_tree);
  g_test_add_func ("/draft/chain", test_chain);
  g_test_add_func ("/draft/fixed", test_fixed);
  g_test_add_func ("/draft/threshold", test_threshold);
  g_test_add_func ("/draft/pacer", test_pacer);
  g_test_add_func ("/draft/fallback", test_fallback);
  g_test_add_func ("/draft/alpha", test_alpha);
  g_test_add_func ("/draft/best", test_best);
  g_test_add_func ("/draft/costs", test_costs);
  g_test_add_func ("/draft/keep", test_keep);
  g_test_add_func ("/draft/ahead-ends", test_ahead_ends);
  g_test_add_func ("/draft/loses-little", test_loses_little);
  g_test_add_func ("/draft/comes-back", test_comes_back);
  g_test_add_func ("/draft/risk", test_risk);
  g_test_add_func ("/draft/late", test_late);
  g_test_add_func ("/draft/brute-force", test_brute_force);
  return g_test_run ();
}
