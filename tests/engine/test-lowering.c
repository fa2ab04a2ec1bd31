/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sub-models for new calls while memory is short (E11, S4), and the rest of the weights given back, by
 * what the kernel says to another process. */

#include "elastic-rig.h"

#include <string.h>

#include "engine/llm-engine-private.h"
#include "engine/models/llm-engine-models.h"
#include "runtime/llm-executor-private.h"
#include "support/llm-test-folder.h"
#include "weights/llm-weights-file-private.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)
#define PROMPT "I want to find an Italian restaurant in San Jose."

typedef enum { IN_FILE, IN_MEMORY } Place;

static void
set_up_at (Elastic      *self,
           gconstpointer data)
{
  self->has_cache = GPOINTER_TO_UINT (data) == IN_FILE;
  set_up_elastic (self, NULL);
}

/* (transfer full): of a call with @options, answered by @wanted percent of the model. */
static char *
complete_by (Elastic    *self,
             const char *options,
             guint       wanted)
{
  g_autofree char *all = g_strdup_printf ("{'temperature': <0.0>, 'max-tokens': <uint32 24>%s}",
                                          options);
  g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, all);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, wanted);
  return g_strdup (answer->text);
}

#define BACKGROUND ", 'slo': <'background'>"
#define RESPONSIVE ", 'slo': <'responsive'>"
#define INTERACTIVE ", 'slo': <'interactive'>"

/* Class after class; who says what he wants gets that, and so does who can't do with less. */
static void
test_classes (Elastic      *self,
              gconstpointer data)
{
  g_autofree char *whole = complete_by (self, BACKGROUND, 100);
  g_autofree char *small = complete_by (self, BACKGROUND ", 'sub-model': <uint32 40>", 40);
  g_autofree char *lowered = NULL;

  llm_engine_set_lowered (self->fixture.engine, LLM_LOWERED_BACKGROUND);
  lowered = complete_by (self, BACKGROUND, 40);
  g_assert_cmpstr (lowered, ==, small);
  g_assert_cmpstr (lowered, !=, whole);
  g_free (complete_by (self, RESPONSIVE, 100));
  g_free (complete_by (self, INTERACTIVE, 100));

  llm_engine_set_lowered (self->fixture.engine, LLM_LOWERED_RESPONSIVE);
  g_free (complete_by (self, BACKGROUND, 40));
  g_free (complete_by (self, RESPONSIVE, 70));
  g_free (complete_by (self, INTERACTIVE, 100));
  g_free (complete_by (self, BACKGROUND ", 'sub-model': <uint32 100>", 100));
  g_free (complete_by (self, BACKGROUND ", 'sub-model': <uint32 70>", 70));
  g_free (complete_by (self, BACKGROUND ", 'regex': <'[a-z]{3}'>", 100));
  g_free (complete_by (self, BACKGROUND ", 'response-format': <'json-schema'>, "
                             "'schema': <'{\"type\": \"integer\"}'>", 100));
  g_assert_cmpuint (get_statistic (self->fixture.engine, "lowered-calls"), ==, 3);

  llm_engine_set_lowered (self->fixture.engine, LLM_LOWERED_NONE);
  g_free (lowered);
  lowered = complete_by (self, BACKGROUND, 100);
  g_assert_cmpstr (lowered, ==, whole);
}

/* The packed weights, in a mapping of a file or in memory of this process. */
static const LlmRepacked *
get_repacked (Elastic *self)
{
  const LlmRunner *runner = g_ptr_array_index (self->fixture.engine->executor->runners, 0);

  return ((const LlmFileWeights *) runner->instance->weights)->repacked;
}

/* Bytes that this process has in memory where they are, as another process reads it. */
static guint64
read_pss (const LlmRepacked *repacked)
{
  const char *const argv[] = { "sh", "-c", "grep -E '^[0-9a-f]+-|^Pss:' /proc/$PPID/smaps", NULL };
  guint64 begin = GPOINTER_TO_SIZE (repacked->data), end = begin + repacked->plan->bytes;
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;
  g_autoptr(GError) error = NULL;
  gboolean has_weights = FALSE;
  guint64 sum = 0;

  g_assert_true (g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &text,
                               NULL, NULL, &error));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    if (!g_str_has_prefix (lines[i], "Pss:"))
      {
        char *rest = lines[i];
        guint64 first = g_ascii_strtoull (rest, &rest, 16);

        has_weights = *rest == '-' && first < end && g_ascii_strtoull (rest + 1, NULL, 16) > begin;
      }
    else if (has_weights)
      sum += g_ascii_strtoull (lines[i] + strlen ("Pss:"), NULL, 10) * 1024;
  return sum;
}

/* Bytes of the weights that only levels above 40 percent read. */
static guint64
measure_tail (Elastic *self)
{
  const LlmCompanion *companion = self->fixture.engine->use.companion;
  LlmModel *model = self->fixture.engine->use.model;
  LlmSubModelCost whole, least;

  g_assert_true (llm_sub_models_measure (companion->sub_models, llm_model_get_gguf (model),
                                         llm_model_get_hparams (model), ELASTIC_N_LEVELS - 1, &whole,
                                         NULL));
  g_assert_true (llm_sub_models_measure (companion->sub_models, llm_model_get_gguf (model),
                                         llm_model_get_hparams (model), 0, &least, NULL));
  return whole.bytes - least.bytes;
}

/* The tail goes, by what the kernel says, also while a smaller sub-model answers; a call that needs it
 * has it again, and it goes behind that. What is left computes what it did. */
static void
test_tail (Elastic      *self,
           gconstpointer data)
{
  g_autofree char *whole = complete_by (self, INTERACTIVE, 100);
  g_autofree char *small = complete_by (self, BACKGROUND ", 'sub-model': <uint32 40>", 40);
  g_autofree char *again = complete_by (self, INTERACTIVE, 100);
  guint64 tail = measure_tail (self);
  const LlmRepacked *repacked = get_repacked (self);
  gsize size = repacked->plan->bytes;
  guint64 before, after, given, there;
  LlmMemoryFigures figures;

  g_assert_cmpuint (tail, >, MIB);
  g_assert_cmpuint (get_statistic (self->fixture.engine, "unused-tail-bytes"), ==, 0);
  there = count_in_memory (repacked->data, size);
  before = read_pss (repacked);
  llm_engine_set_lowered (self->fixture.engine, LLM_LOWERED_BACKGROUND);
  WAIT_FOR ((given = get_statistic (self->fixture.engine, "unused-tail-bytes")) > 0);
  after = read_pss (repacked);
  g_test_message ("%.2f MiB of a tail of %.2f MiB", (double) (before - after) / MIB,
                  (double) tail / MIB);
  g_assert_cmpuint (before, >, after);
  g_assert_cmpuint (before - after, >=, tail / 10 * 9);
  /* nor has the system a page of it in its cache */
  g_assert_cmpuint (there - count_in_memory (repacked->data, size), >=, tail / 10 * 9);
  llm_engine_get_memory (self->fixture.engine, &figures);
  g_assert_cmpuint (figures.sub_model, ==, 40);

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *lowered = complete_by (self, BACKGROUND, 40);
      g_autofree char *text = NULL;
      gint64 ended_us;

      g_assert_cmpstr (lowered, ==, small);
      /* nothing of the tail came back for that */
      g_assert_cmpuint (get_statistic (self->fixture.engine, "unused-tail-bytes"), ==, given);
      text = complete_by (self, INTERACTIVE, 100);
      g_assert_cmpstr (text, ==, whole);
      ended_us = g_get_monotonic_time ();
      while (get_statistic (self->fixture.engine, "unused-tail-bytes") < tail / 10 * 9)
        g_main_context_iteration (NULL, FALSE);
      g_test_message ("gone %.1f ms behind the end",
                      (double) (g_get_monotonic_time () - ended_us) / 1000);
      g_assert_cmpuint (before - read_pss (repacked), >=, tail / 10 * 9);
      given = get_statistic (self->fixture.engine, "unused-tail-bytes");
    }
}

/* A level that was not tried with tasks answers who asks for it, and nobody because memory is short. */
static void
test_untried (Elastic      *self,
              gconstpointer data)
{
  guint64 calls = get_statistic (self->fixture.engine, "lowered-calls");

  llm_engine_set_lowered (self->fixture.engine, LLM_LOWERED_RESPONSIVE);
  g_free (complete_by (self, BACKGROUND, 100));
  g_free (complete_by (self, RESPONSIVE, 100));
  g_free (complete_by (self, BACKGROUND ", 'sub-model': <uint32 40>", 40));
  g_assert_cmpuint (get_statistic (self->fixture.engine, "lowered-calls"), ==, calls);
  g_assert_cmpuint (get_statistic (self->fixture.engine, "unused-tail-bytes"), ==, 0);
}

/* (transfer full) */
static char *
take_text (Answer *answer,
           guint   wanted)
{
  char *text;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, wanted);
  text = g_strdup (answer->text);
  answer_free (answer);
  return text;
}

#define LONG "{'temperature': <0.0>, 'max-tokens': <uint32 120>, 'slo': <'background'>}"

/* A call that has begun keeps its level, and what it needs of the weights, beside smaller ones; the
 * tail goes when it has ended. */
static void
test_running (Elastic      *self,
              gconstpointer data)
{
  g_autofree char *small = complete_by (self, BACKGROUND ", 'sub-model': <uint32 40>", 40);
  g_autofree char *expected = take_text (begin_complete (&self->fixture, PROMPT, LONG), 100);
  g_autofree char *text = NULL;
  g_autofree char *beside = NULL;
  guint64 written = get_statistic (self->fixture.engine, "generated-tokens");
  Answer *answer = begin_complete (&self->fixture, PROMPT, LONG);

  WAIT_FOR (get_statistic (self->fixture.engine, "generated-tokens") > written);
  llm_engine_set_lowered (self->fixture.engine, LLM_LOWERED_BACKGROUND);
  beside = complete_by (self, BACKGROUND, 40);
  text = take_text (answer, 100);
  g_assert_cmpstr (text, ==, expected);
  g_assert_cmpstr (beside, ==, small);
  WAIT_FOR (get_statistic (self->fixture.engine, "unused-tail-bytes") > 0);
}

/* A turn of the whole model, which lost its chunks, is computed again by the whole model for a turn
 * of less, whose weights alone are in memory. */
static void
test_recomputed (Elastic      *self,
                 gconstpointer data)
{
  static const char options[] = "{'temperature': <0.0>, 'max-tokens': <uint32 24>, "
                                "'slo': <'background'>, 'sub-model': <uint32 40>}";
  char *texts[2];

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(LlmContext) context = create (&self->fixture, "{}");
      g_autofree char *chunks = g_build_filename (self->fixture.state, "chunks", NULL);

      g_free (ask (&self->fixture, context, PROMPT, GREEDY));
      if (i == 1)
        {
          llm_engine_set_lowered (self->fixture.engine, LLM_LOWERED_BACKGROUND);
          g_assert_cmpuint (trim (&self->fixture, "medium"), >, 0);
          llm_test_folder_remove (chunks);
        }
      texts[i] = ask (&self->fixture, context, "And another one?", options);
    }
  g_assert_cmpstr (texts[0], ==, texts[1]);
  g_free (texts[0]);
  g_free (texts[1]);
}

/* What only the model's end needs can be asked for while less of it answers. */
static void
test_asked (Elastic      *self,
            gconstpointer data)
{
  const LlmReclaimer *tail = NULL;
  GPtrArray *reclaimers = llm_ledger_get_reclaimers (self->fixture.engine->ledger);

  for (guint i = 0; i < reclaimers->len; i++)
    if (g_str_equal (((LlmReclaimer *) g_ptr_array_index (reclaimers, i))->name, "tail"))
      tail = g_ptr_array_index (reclaimers, i);
  g_assert_nonnull (tail);
  g_free (complete_by (self, INTERACTIVE, 100));
  /* nothing runs: all of the weights can be asked for, and no part of them twice */
  g_assert_cmpuint (tail->get_held (tail->holder), ==, 0);
}

static void
set_up_short (Elastic      *self,
              gconstpointer data)
{
  self->has_cache = TRUE;
  self->root = llm_test_folder_new ();
  put_available (self->root, SYSTEM_BYTES / 2);
  set_up_elastic (self, NULL);
}

/* What the system says of its memory gets here. */
static void
test_short (Elastic      *self,
            gconstpointer data)
{
  g_free (complete_by (self, BACKGROUND, 100));
  g_assert_cmpuint (get_statistic (self->fixture.engine, "lowered-classes"), ==, 0);
  put_available (self->root, SYSTEM_RESERVE / 4 * 3);
  WAIT_FOR (get_statistic (self->fixture.engine, "lowered-classes") == LLM_LOWERED_RESPONSIVE);
}

#define ADD(name, func)                                                                           \
  g_test_add ("/lowering/file/" name, Elastic, GUINT_TO_POINTER (IN_FILE), set_up_at, func,       \
              tear_down_elastic);                                                                 \
  g_test_add ("/lowering/memory/" name, Elastic, GUINT_TO_POINTER (IN_MEMORY), set_up_at, func,   \
              tear_down_elastic)

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/lowering/classes", Elastic, GUINT_TO_POINTER (IN_FILE), set_up_at, test_classes,
              tear_down_elastic);
  g_test_add ("/lowering/untried", Elastic, "untried", set_up_elastic, test_untried,
              tear_down_elastic);
  g_test_add ("/lowering/short", Elastic, NULL, set_up_short, test_short, tear_down_elastic);
  ADD ("tail", test_tail);
  ADD ("running", test_running);
  ADD ("recomputed", test_recomputed);
  ADD ("asked", test_asked);

  return g_test_run ();
}
