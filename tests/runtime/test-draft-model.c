/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A smaller model that guesses for a larger one: the text is that of plain decoding, what it says
 * of a tree's nodes is what it says of texts that end like them, and one of another vocabulary is
 * refused. */

#include "draft-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "policies/bench-growths.h"
#include "support/llm-test-folder.h"

#define DRAFT "llmsvc-demo-draft-1M-F16.gguf"

static LlmDraftModel *
open_draft (Rig        *rig,
            const char *folder)
{
  g_autofree char *path = g_build_filename (folder, DRAFT, NULL);

  return draft_rig_open (rig, path, 2);
}

/* A small model guesses for a larger one: alone, and four answers at once. */
static void
test_draft_model (void)
{
  Rig rig;
  LlmDraftModel *draft;
  g_autofree char *models = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", NULL);
  guint n_alone[DRAFT_RIG_SHAPES] = { 0 }, n_passes = 0;
  g_autoptr(GError) error = NULL;

  draft_rig_init (&rig, TRUE, TRUE);
  draft = open_draft (&rig, models);
  g_assert_true (llm_draft_model_check (draft, rig.models[0], &error));
  for (guint s = 0; s < DRAFT_RIG_SAMPLERS; s++)
    {
      Outcome plain[DRAFT_RIG_PROMPTS], found[DRAFT_RIG_PROMPTS];

      for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
        {
          draft_rig_submit (&rig, p, s, NULL, NULL, 0, &plain[p]);
          rig_wait_for (&rig, &plain[p].is_done);
        }
      for (guint i = 0; i < DRAFT_RIG_SHAPES; i++)
        {
          draft_rig_submit (&rig, 3, s, llm_draft_model_new_source (draft), &draft_rig_shapes[i], 0,
                            &found[3]);
          rig_wait_for (&rig, &found[3].is_done);
          outcome_assert_same (&found[3], &plain[3]);
          n_alone[i] += found[3].n_accepted;
          n_passes += i == 0 ? found[3].n_passes : 0;
          outcome_clear (&found[3]);
        }
      for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
        draft_rig_submit (&rig, p, s, llm_draft_model_new_source (draft), &draft_rig_shapes[0], 0,
                          &found[p]);
      for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
        {
          rig_wait_for (&rig, &found[p].is_done);
          outcome_assert_same (&found[p], &plain[p]);
          outcome_clear (&found[p]);
          outcome_clear (&plain[p]);
        }
    }
  for (guint i = 0; i < DRAFT_RIG_SHAPES; i++)
    {
      g_test_message ("shape %u: %u of %d tokens were guessed", i, n_alone[i],
                      DRAFT_RIG_TOKENS * DRAFT_RIG_SAMPLERS);
      g_assert_cmpuint (n_alone[i], >, DRAFT_RIG_TOKENS * DRAFT_RIG_SAMPLERS / 8);
    }
  /* where rows are free, more than one and a half tokens a pass, over all temperatures */
  g_assert_cmpuint (3 * n_passes, <, 2 * DRAFT_RIG_TOKENS * DRAFT_RIG_SAMPLERS);
  llm_draft_model_unref (draft);
  draft_rig_clear (&rig);
}

/* What may follow @node, bit for bit that of a text that ends with its path. */
static void
assert_follows (LlmDraftModel  *draft,
                LlmDraftSource *source,
                LlmDraftGrowth *growth,
                guint           node,
                const gint32   *text,
                guint           n_text)
{
  const LlmGrowthConfig config = BENCH_GROWTH_CHAIN (0);
  const LlmDraftCosts costs = { .read_us = 0 };
  LlmDraftSource *other = llm_draft_model_new_source (draft);
  LlmDraftCandidate found[LLM_DRAFT_MAX_CANDIDATES], expected[LLM_DRAFT_MAX_CANDIDATES];
  LlmDraftGrowth root;
  guint n_found, n_expected;

  llm_draft_growth_init (&root, &config);
  llm_draft_growth_begin (&root, &costs);
  other->class->begin (other, text, n_text);
  while (other->class->expand (other, &root, 0, expected, &n_expected) == LLM_PENDING)
    ;
  g_assert_cmpint (source->class->expand (source, growth, node, found, &n_found), ==, LLM_READY);
  g_assert_cmpuint (n_found, ==, LLM_DRAFT_MAX_CANDIDATES);
  g_assert_cmpmem (found, n_found * sizeof *found, expected, n_expected * sizeof *expected);
  for (guint i = 1; i < n_found; i++)
    g_assert_cmpfloat (found[i].confidence, <=, found[i - 1].confidence);
  llm_draft_growth_expand (growth, node, found, 2);
  other->class->free (other);
}

/* Guesses in a tree, in any order, and when the text has gone on; a prompt of several steps. */
static void
test_draft_rows (void)
{
  g_autofree char *models = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", NULL);
  const LlmGrowthConfig config = BENCH_GROWTH_FIXED (2, 2, 2);
  const LlmDraftCosts costs = { .read_us = 0 };
  g_autoptr(GArray) text = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmDraftGrowth growth;
  LlmDraftModel *draft;
  LlmDraftSource *source;
  Rig rig;

  draft_rig_init (&rig, TRUE, TRUE);
  draft = open_draft (&rig, models);
  source = llm_draft_model_new_source (draft);
  for (gint32 i = 0; i < 300; i++)
    {
      gint32 token = 300 + i * i % 700;

      g_array_append_val (text, token);
    }
  source->class->begin (source, (const gint32 *) text->data, text->len);
  llm_draft_growth_init (&growth, &config);
  for (guint round = 0; round < 2; round++)
    {
      LlmDraftCandidate late[LLM_DRAFT_MAX_CANDIDATES];
      guint node, n, n_late = 0;

      llm_draft_growth_begin (&growth, &costs);
      for (; round == 0
             && source->class->expand (source, &growth, 0, late, &n) == LLM_PENDING; n_late++)
        g_assert_cmpuint (n, ==, 0);
      g_assert_cmpuint (n_late, ==, round == 0 ? 2 : 0);
      /* the text's last token is computed once: what follows the root is known from then on */
      if (round == 0)
        {
          g_array_append_val (text, late[1].token);
          source->class->accept (source, late[1].token);
        }
      while ((node = llm_draft_growth_next (&growth)) != LLM_DRAFT_NONE)
        {
          gint32 path[LLM_GROWTH_MAX_NODES];
          guint n_path = llm_draft_growth_get_path (&growth, node, path), n_text = text->len;

          g_array_append_vals (text, path, n_path);
          assert_follows (draft, source, &growth, node, (const gint32 *) text->data, text->len);
          g_array_set_size (text, n_text);
        }
      g_assert_cmpuint (growth.n, ==, 15);
      for (guint i = 0; i < 3; i++)
        {
          gint32 token = growth.nodes[i < 2 ? 1 + 2 * i : 9].token;

          g_array_append_val (text, token);
          source->class->accept (source, token);
        }
    }
  source->class->free (source);
  llm_draft_model_unref (draft);
  draft_rig_clear (&rig);
}

/* The text goes on to any node: what was computed of it and below it stays, and is what it would be
 * if all were new. */
static void
test_kept_rows (void)
{
  g_autofree char *models = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", NULL);
  LlmDraftCosts costs = { .read_us = 1 };
  g_autoptr(GArray) text = g_array_new (FALSE, FALSE, sizeof (gint32));
  guint n_kept = 0;
  LlmDraftGrowth growth;
  LlmDraftModel *draft;
  LlmDraftSource *source;
  Rig rig;

  draft_rig_init (&rig, TRUE, TRUE);
  draft = open_draft (&rig, models);
  source = llm_draft_model_new_source (draft);
  for (gint32 i = 0; i < 50; i++)
    {
      gint32 token = 300 + i * i % 700;

      g_array_append_val (text, token);
    }
  source->class->begin (source, (const gint32 *) text->data, text->len);
  llm_draft_growth_init (&growth, &LLM_GROWTH_CONFIG_BEST);
  llm_draft_growth_begin (&growth, &costs);
  for (guint round = 0; round < 8; round++)
    {
      gint32 path[LLM_GROWTH_MAX_NODES];
      guint numbers[LLM_GROWTH_MAX_NODES], to, n_path;

      if (!growth.nodes[0].is_asked)
        {
          g_assert_cmpuint (llm_draft_growth_next (&growth), ==, 0);
          assert_follows (draft, source, &growth, 0, (const gint32 *) text->data, text->len);
        }
      for (guint i = 0; i < 10; i++)
        {
          guint node = llm_draft_growth_next_ahead (&growth, 1000), n_text = text->len;

          n_path = llm_draft_growth_get_path (&growth, node, path);
          g_array_append_vals (text, path, n_path);
          assert_follows (draft, source, &growth, node, (const gint32 *) text->data, text->len);
          g_array_set_size (text, n_text);
        }
      /* now and then to one that was not asked about */
      to = round % 3 == 2 ? growth.n - 1 : (guint) g_test_rand_int_range (1, 5);
      n_path = llm_draft_growth_get_path (&growth, to, path);
      for (guint i = 0; i < n_path; i++)
        source->class->accept (source, path[i]);
      g_array_append_vals (text, path, n_path);
      llm_draft_growth_number (&growth, to, numbers);
      source->class->keep (source, &growth, to, numbers);
      llm_draft_growth_keep (&growth, &costs, to);
      n_kept += growth.n - 1;
    }
  g_assert_cmpuint (n_kept, >, 10);
  source->class->free (source);
  llm_draft_model_unref (draft);
  draft_rig_clear (&rig);
}

/* A model with one other token is refused. */
static void
test_other_tokens (void)
{
  Rig rig;
  LlmDraftModel *draft;
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *from = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", DRAFT, NULL);
  g_autofree char *to = g_build_filename (folder, DRAFT, NULL);
  g_autofree char *data = NULL;
  g_autoptr(GError) error = NULL;
  char *token;
  gsize n;

  g_assert_true (g_file_get_contents (from, &data, &n, NULL));
  token = memmem (data, n, "people", 6);
  g_assert_nonnull (token);
  token[5] = 'i';
  g_assert_true (g_file_set_contents (to, data, (gssize) n, NULL));

  draft_rig_init (&rig, TRUE, TRUE);
  draft = open_draft (&rig, folder);
  g_assert_false (llm_draft_model_check (draft, rig.models[0], &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "vocabulary"));
  llm_draft_model_unref (draft);
  draft_rig_clear (&rig);
  llm_test_folder_remove (folder);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/draft-model/same-text", test_draft_model);
  g_test_add_func ("/draft-model/rows", test_draft_rows);
  g_test_add_func ("/draft-model/kept-rows", test_kept_rows);
  g_test_add_func ("/draft-model/other-tokens", test_other_tokens);
  return g_test_run ();
}
