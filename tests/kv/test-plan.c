/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a context comes back (L6), against every way there is; and the names of policies. */

#include <math.h>

#include "kv/llm-kv-plan.h"
#include "policies/bench-kv-policies.h"

#define MAX_CHUNKS 10
#define SLOTS 16

static void
make_profile (LlmKvProfile *profile)
{
  double us = exp (g_test_rand_double_range (4, 10));
  double step = exp (g_test_rand_double_range (4, 11));

  *profile = (LlmKvProfile) { 0 };
  profile->read_latency_us = g_test_rand_double_range (0, 1000);
  profile->read_bytes_per_us = exp (g_test_rand_double_range (2, 8));
  profile->write_bytes_per_us = 500;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    {
      profile->prompt_us[i] = us;
      us += g_test_rand_double_range (0, step);
    }
  profile->depth_us = g_test_rand_double_range (0, 100);
}

static double
get_longer (const LlmKvPlan *plan)
{
  return MAX (plan->read_us, plan->compute_us);
}

/* What the plan says it costs, by the profile's own functions. */
static void
check_plan (const LlmKvPlanChunk *chunks,
            guint                 n,
            guint                 n_new,
            guint                 depth,
            const LlmKvProfile   *profile,
            const LlmKvPlan      *plan)
{
  guint64 bytes = 0;
  guint n_recomputed = 0;
  double rows, lines, deeper;

  for (guint i = 0; i < n; i++)
    {
      if (chunks[i].recomputes)
        n_recomputed++;
      else
        bytes += chunks[i].bytes;
      g_assert_false (chunks[i].bytes == 0 && !chunks[i].recomputes);
      g_assert_false (chunks[i].bytes > 0 && chunks[i].is_fixed && chunks[i].recomputes);
    }
  rows = (double) n_recomputed * SLOTS;
  lines = llm_kv_profile_get_prompt_us (profile, n_recomputed * SLOTS + n_new, 0);
  deeper = profile->depth_us * depth / 1000.0 * (rows / 2 + n_new);
  g_assert_cmpuint (plan->n_recomputed, ==, n_recomputed);
  g_assert_cmpuint (plan->n_read, ==, n - n_recomputed);
  g_assert_cmpuint (plan->read_bytes, ==, bytes);
  g_assert_cmpfloat_with_epsilon (plan->read_us, llm_kv_profile_get_read_us (profile, bytes), 1e-6);
  g_assert_cmpfloat_with_epsilon (plan->compute_us, lines + deeper, 1e-6 * (1 + lines + deeper));
}

static void
test_all_ways (void)
{
  static const guint64 sizes[] = { 0, 12000, 20000, 37000, 70000 };
  guint n_mixed = 0;

  for (guint round = 0; round < 2000; round++)
    {
      LlmKvPlanChunk chunks[MAX_CHUNKS];
      guint n = (guint) g_test_rand_int_range (0, MAX_CHUNKS + 1);
      guint n_new = (guint) g_test_rand_int_range (0, 100);
      guint depth = (guint) g_test_rand_int_range (0, 5000);
      LlmKvProfile profile;
      LlmKvPlan plan;
      double least = INFINITY;
      double least_compute = INFINITY;

      make_profile (&profile);
      for (guint i = 0; i < n; i++)
        chunks[i] = (LlmKvPlanChunk) {
          .bytes = sizes[g_test_rand_int_range (round % 2, G_N_ELEMENTS (sizes))] * 10,
          .is_fixed = g_test_rand_int_range (0, 4) == 0,
          .recomputes = g_test_rand_bit (),
        };

      llm_kv_plan_make (chunks, n, SLOTS, n_new, depth, &profile, TRUE, &plan);
      check_plan (chunks, n, n_new, depth, &profile, &plan);
      if (plan.n_read > 0 && plan.n_recomputed > 0 && round % 2 == 1)
        n_mixed++;

      for (guint way = 0; way < 1u << n; way++)
        {
          guint64 bytes = 0;
          guint rows = n_new;
          double compute, longer;
          gboolean is_good = TRUE;

          for (guint i = 0; i < n; i++)
            if ((way >> i & 1) != 0)
              {
                is_good = is_good && (!chunks[i].is_fixed || chunks[i].bytes == 0);
                rows += SLOTS;
              }
            else
              {
                is_good = is_good && chunks[i].bytes > 0;
                bytes += chunks[i].bytes;
              }
          if (!is_good)
            continue;
          compute = llm_kv_profile_get_prompt_us (&profile, rows, 0)
                    + profile.depth_us * depth / 1000.0 * ((rows - n_new) / 2.0 + n_new);
          longer = MAX (compute, llm_kv_profile_get_read_us (&profile, bytes));
          if (longer < least * (1 - 1e-9))
            {
              least = longer;
              least_compute = compute;
            }
          else if (longer < least * (1 + 1e-9))
            least_compute = MIN (least_compute, compute);
        }
      g_assert_cmpfloat_with_epsilon (get_longer (&plan), least, 1e-6 * (1 + least));
      g_assert_cmpfloat_with_epsilon (plan.compute_us, least_compute, 1e-6 * (1 + least_compute));
    }
  g_assert_cmpuint (n_mixed, >, 50);
}

/* Without leave, or without a profile, only what lies nowhere is computed. */
static void
test_reads_only (void)
{
  for (guint round = 0; round < 3; round++)
    {
      LlmKvPlanChunk chunks[] = {
        { .bytes = 70000000 }, { .bytes = 0 }, { .bytes = 70000000, .is_fixed = TRUE },
        { .bytes = 0, .is_fixed = TRUE },
      };
      LlmKvProfile profile;
      LlmKvPlan plan;

      profile = (LlmKvProfile) { 0 };
      g_assert_false (llm_kv_profile_is_measured (&profile));
      if (round > 0)
        {
          make_profile (&profile);
          g_assert_true (llm_kv_profile_is_measured (&profile));
          profile.read_bytes_per_us = 1;
        }
      llm_kv_plan_make (chunks, G_N_ELEMENTS (chunks), SLOTS, 32, 100, &profile, round != 1, &plan);
      check_plan (chunks, G_N_ELEMENTS (chunks), 32, 100, &profile, &plan);
      g_assert_cmpuint (plan.n_recomputed, ==, round == 2 ? 3 : 2);
      g_assert_true (chunks[1].recomputes && chunks[3].recomputes && !chunks[2].recomputes);
      if (round == 0)
        g_assert_cmpfloat (get_longer (&plan), ==, 0);
    }
}

/* Where computing more costs nothing, but reading is faster anyway, nothing more is computed. */
static void
test_equals (void)
{
  LlmKvPlanChunk chunks[] = { { .bytes = 1000 }, { .bytes = 0 }, { .bytes = 2000 } };
  LlmKvProfile profile = { .read_latency_us = 1, .read_bytes_per_us = 1000 };
  LlmKvPlan plan;

  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 5000;
  llm_kv_plan_make (chunks, G_N_ELEMENTS (chunks), SLOTS, 32, 100, &profile, TRUE, &plan);
  g_assert_cmpuint (plan.n_recomputed, ==, 1);
  g_assert_cmpuint (plan.read_bytes, ==, 3000);

  /* Of equal ones the first, which sees the fewest slots. */
  chunks[2].bytes = 1000;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 2.0 * llm_kv_profile_rows[i];
  profile.read_bytes_per_us = 10;
  llm_kv_plan_make (chunks, G_N_ELEMENTS (chunks), SLOTS, 32, 100, &profile, TRUE, &plan);
  g_assert_cmpuint (plan.n_recomputed, ==, 2);
  g_assert_true (chunks[0].recomputes && !chunks[2].recomputes);
}

static void
test_profile (void)
{
  LlmKvProfile profile;

  for (guint round = 0; round < 50; round++)
    {
      double before = 0;

      make_profile (&profile);
      for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
        g_assert_cmpfloat_with_epsilon (
            llm_kv_profile_get_prompt_us (&profile, llm_kv_profile_rows[i], 0),
            profile.prompt_us[i], 1e-6);
      /* A point that was measured while something disturbed. */
      profile.prompt_us[g_test_rand_int_range (0, LLM_KV_PROFILE_POINTS)] *= 3;
      g_assert_cmpfloat (llm_kv_profile_get_prompt_us (&profile, 0, 1000), ==, 0);
      for (guint rows = 1; rows < 1200; rows++)
        {
          double us = llm_kv_profile_get_prompt_us (&profile, rows, 0);

          g_assert_cmpfloat (us, >=, before * (1 - 1e-12));
          before = us;
        }
    }

  profile = (LlmKvProfile) { 0 };
  profile.read_latency_us = 100;
  profile.read_bytes_per_us = 1000;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 1000 + 10.0 * llm_kv_profile_rows[i];
  profile.depth_us = 4;
  g_assert_cmpfloat_with_epsilon (llm_kv_profile_get_prompt_us (&profile, 40, 0), 1400, 1e-6);
  g_assert_cmpfloat_with_epsilon (llm_kv_profile_get_prompt_us (&profile, 1000, 0), 11000, 1e-6);
  g_assert_cmpfloat_with_epsilon (llm_kv_profile_get_prompt_us (&profile, 40, 2000), 1720, 1e-6);
  g_assert_cmpfloat_with_epsilon (llm_kv_profile_get_read_us (&profile, 5000), 105, 1e-6);
  g_assert_cmpfloat (llm_kv_profile_get_read_us (&profile, 0), ==, 0);

  /* Numbers that no measurement gives. */
  g_assert_true (llm_kv_profile_is_measured (&profile));
  profile.prompt_us[3] = NAN;
  g_assert_false (llm_kv_profile_is_measured (&profile));
  profile.prompt_us[3] = 5000;
  profile.read_bytes_per_us = -1;
  g_assert_false (llm_kv_profile_is_measured (&profile));
}

static void
test_policies (void)
{
  static const char *const names[] = {
    "llms", "lru", "lctru", "known", "clairvoyant", "llms-no-refill", "keep",
    "llms-no-compression", "llms-no-pipeline", "llms-no-ahead", "llms-inverted", "lmk",
    "swapping", "vllm-s", "vllm-sq",
  };

  const LlmKvPolicy *service = &llm_kv_policy_llms;

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      const LlmKvPolicy *policy = bench_kv_policy_find (names[i]);

      g_assert_nonnull (policy);
      g_assert_cmpstr (policy->name, ==, names[i]);
      g_assert_cmpfloat (policy->ratio, >, 0);
      g_assert_cmpfloat (policy->ratio, <=, 1);
      g_assert_true (llk_kv_is_packed (policy->uniform) || policy->compression == LLM_KV_KEEP);
      /* What can't be read back needs no writing. */
      g_assert_true (policy->swaps || !policy->writes_ahead);
    }
  g_assert_null (bench_kv_policy_find ("llm"));
  g_assert_null (bench_kv_policy_find (NULL));
  g_assert_false (bench_kv_policy_find ("lmk")->swaps);
  g_assert_true (bench_kv_policy_find ("swapping")->whole);
  g_assert_cmpuint (bench_kv_policy_find ("vllm-sq")->uniform, ==, LLK_KV_Q8);
  /* What the service is compared with differs in the order of eviction alone. */
  for (guint i = 1; i < 3; i++)
    {
      const LlmKvPolicy policy = *bench_kv_policy_find (names[i]);

      g_assert_cmpuint (policy.order, ==, i == 1 ? LLM_KV_BY_AGE : LLM_KV_BY_BITS);
      g_assert_true (policy.compression == service->compression && policy.swaps == service->swaps
                     && policy.ratio == service->ratio && policy.refills == service->refills
                     && policy.writes_ahead == service->writes_ahead
                     && policy.recomputes == service->recomputes && policy.whole == service->whole);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kv/plan/all-ways", test_all_ways);
  g_test_add_func ("/kv/plan/reads-only", test_reads_only);
  g_test_add_func ("/kv/plan/equals", test_equals);
  g_test_add_func ("/kv/plan/profile", test_profile);
  g_test_add_func ("/kv/plan/policies", test_policies);
  return g_test_run ();
}
