/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls whose answers are sparse (A1): which sparsity answered is told, calls without the option are
 * what they were, and what was computed sparsely is computed again so, whatever became of the memory
 * meanwhile. */

#include "elastic-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "engine/llm-engine-private.h"

#define PROMPT "I want to find an Italian restaurant in San Jose."
#define QUIET "'temperature': <0.0>, 'max-tokens': <uint32 24>, 'logprobs': <uint32 0>"

/* (transfer full): the text and the log-probabilities of its tokens, in which every bit of K and V
 * tells. */
static char *
describe (Answer *answer,
          guint   wanted)
{
  double quality = 0;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "active"), ==, wanted);
  g_variant_lookup (answer->results, "active-quality", "d", &quality);
  g_assert_cmpfloat_with_epsilon (
    quality, wanted == 0 ? 0 : wanted == ELASTIC_SPARSITY ? 98 : 90, 1e-4);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, 100);
  return g_strdup_printf ("%s %s", answer->text, result_string (answer, "logprobs"));
}

static char *
complete_active (Elastic *self,
                 guint    asked,
                 guint    wanted)
{
  g_autofree char *options = g_strdup_printf ("{" QUIET ", 'active': <uint32 %u>}", asked);
  g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, options);

  return describe (answer, wanted);
}

/* Likewise. @n_total: of prompt and answer. */
static char *
ask_active (Elastic    *self,
            LlmContext *context,
            const char *prompt,
            guint       active,
            guint      *n_reused,
            guint      *n_total)
{
  g_autofree char *options = g_strdup_printf ("{" QUIET ", 'active': <uint32 %u>}", active);
  g_autoptr(Answer) answer = begin_ask (&self->fixture, context, prompt, options);
  char *text = describe (answer, active);

  if (n_reused != NULL)
    *n_reused = result_uint (answer, "cached-tokens");
  if (n_total != NULL)
    *n_total = result_uint (answer, "prompt-tokens") + result_uint (answer, "output-tokens");
  return text;
}

static void
test_answers (Elastic       *self,
              gconstpointer  data)
{
  g_autoptr(Answer) plain = begin_complete (&self->fixture, PROMPT, "{" QUIET "}");
  g_autofree char *whole = describe (plain, 0);
  g_autofree char *none = complete_active (self, 0, 0);
  g_autofree char *below = complete_active (self, ELASTIC_SPARSITY - 1, 0);
  g_autofree char *low = complete_active (self, ELASTIC_SPARSITY, ELASTIC_SPARSITY);
  g_autofree char *between = complete_active (self, ELASTIC_HIGH_SPARSITY - 1, ELASTIC_SPARSITY);
  g_autofree char *high = complete_active (self, 80, ELASTIC_HIGH_SPARSITY);

  g_assert_cmpstr (none, ==, whole);
  g_assert_cmpstr (below, ==, whole);
  g_assert_cmpstr (low, !=, whole);
  g_assert_cmpstr (between, ==, low);
  g_assert_cmpstr (high, !=, low);
}

/* In one step with others, as alone. */
static void
test_together (Elastic       *self,
               gconstpointer  data)
{
  static const guint asked[] = { ELASTIC_HIGH_SPARSITY, 0, ELASTIC_SPARSITY, ELASTIC_HIGH_SPARSITY };
  char *alone[G_N_ELEMENTS (asked)];
  Answer *answers[G_N_ELEMENTS (asked)];

  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    alone[i] = complete_active (self, asked[i], asked[i]);
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autofree char *options = g_strdup_printf ("{" QUIET ", 'active': <uint32 %u>}", asked[i]);

      answers[i] = begin_complete (&self->fixture, PROMPT, options);
    }
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autofree char *found = describe (answers[i], asked[i]);

      g_assert_cmpstr (found, ==, alone[i]);
      answer_free (answers[i]);
      g_free (alone[i]);
    }
}

/* Turns of several sparsities in a context; with @restarts the service ends after each, and what it
 * had on storage is gone after every other. Returns the texts. */
static char *
converse (Elastic    *self,
          const char *name,
          gboolean    restarts)
{
  static const guint asked[] = { ELASTIC_SPARSITY, 0, ELASTIC_HIGH_SPARSITY, ELASTIC_SPARSITY, 0 };
  g_autoptr(GString) texts = g_string_new (NULL);
  guint n_before = 0, n_total;

  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context =
        open_context (&self->fixture, name, "{'create': <true>}", &error);
      g_autofree char *text = NULL;
      guint n_reused;

      g_assert_no_error (error);
      text = ask_active (self, context, i % 2 == 0 ? PROMPT : "And another one?", asked[i],
                         &n_reused, &n_total);
      /* what was computed sparsely is used as it is, but for the last token, which is not computed */
      if (!restarts)
        g_assert_cmpuint (n_reused + 1, >=, n_before);
      n_before = n_total;
      g_string_append_printf (texts, "%s\n", text);
      g_clear_object (&context);
      if (restarts)
        {
          stop_engine (&self->fixture.engine);
          if (i % 2 == 0)
            elastic_remove_chunks (self);
          self->fixture.engine = elastic_start (self);
        }
    }
  return g_string_free (g_steal_pointer (&texts), FALSE);
}

static void
test_turns (Elastic       *self,
            gconstpointer  data)
{
  g_autofree char *at_once = converse (self, "a", FALSE);
  g_autofree char *restarted = converse (self, "b", TRUE);

  g_assert_cmpstr (at_once, ==, restarted);
}

/* Taken back and asked again densely: nothing that was computed sparsely is used. */
static void
test_again (Elastic       *self,
            gconstpointer  data)
{
  g_autoptr(LlmContext) context = create (&self->fixture, "{}");
  g_autoptr(LlmContext) other = create (&self->fixture, "{}");
  g_autofree char *sparse = ask_active (self, context, PROMPT, ELASTIC_HIGH_SPARSITY, NULL, NULL);
  g_autofree char *dense = NULL;
  g_autofree char *reference = ask_active (self, other, PROMPT, 0, NULL, NULL);

  g_assert_true (rollback (context, 1, NULL));
  dense = ask_active (self, context, PROMPT, 0, NULL, NULL);
  g_assert_cmpstr (dense, !=, sparse);
  g_assert_cmpstr (dense, ==, reference);
}

/* A sparse answer has no drafts, whatever was asked for, and the same text. */
static void
test_drafts (Elastic       *self,
             gconstpointer  data)
{
  g_autofree char *reference = complete_active (self, ELASTIC_SPARSITY, ELASTIC_SPARSITY);
  g_autoptr(Answer) answer =
    begin_complete (&self->fixture, PROMPT, "{" QUIET ", 'active': <uint32 30>, 'draft': <'lookup'>}");
  g_autofree char *found = describe (answer, ELASTIC_SPARSITY);

  g_assert_cmpstr (found, ==, reference);
  g_assert_false (g_variant_lookup (answer->results, "drafted-tokens", "u", NULL));
}

static void
expect_error (Elastic    *self,
              const char *options,
              int         code,
              const char *part)
{
  g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, options);

  WAIT_FOR (answer->is_finished || answer->error != NULL);
  g_assert_error (answer->error, LLMSVC_ERROR, code);
  if (strstr (answer->error->message, part) == NULL)
    g_error ("“%s” is not in: %s", part, answer->error->message);
}

static void
test_sub_models (Elastic       *self,
                 gconstpointer  data)
{
  gboolean has_both = g_strcmp0 (data, "both") == 0;
  g_auto(GStrv) levels = NULL;

  g_free (complete_active (self, ELASTIC_SPARSITY, ELASTIC_SPARSITY));
  levels = llm_engine_list_sub_models (self->fixture.engine,
                                       llm_engine_get_active_model (self->fixture.engine));
  g_assert_cmpuint (g_strv_length (levels), ==, has_both ? ELASTIC_N_LEVELS : 0);
  if (!has_both)
    expect_error (self, "{'sub-model': <uint32 40>}", LLMSVC_ERROR_UNSUPPORTED, "has no sub-models");
  expect_error (self, "{'active': <uint32 30>, 'sub-model': <uint32 40>}",
                has_both ? LLMSVC_ERROR_INVALID_OPTION : LLMSVC_ERROR_UNSUPPORTED, "sub-model");
  expect_error (self, "{'active': <uint32 30>, 'least-sub-model': <uint32 40>}",
                LLMSVC_ERROR_INVALID_OPTION, "beside a sub-model");
}

/* Without thresholds only a call that names a sparsity fails. @data: what is beside the model. */
static void
test_without (Elastic       *self,
              gconstpointer  data)
{
  g_free (complete_active (self, 0, 0));
  expect_error (self, "{'active': <uint32 30>}", LLMSVC_ERROR_UNSUPPORTED,
                data != NULL && g_strcmp0 (data, "none") != 0 ? "it is for the weights"
                                                              : "has no activation thresholds");
}

/* Where the configuration has it, calls that say nothing leave it out, and others don't. */
static void
test_configured (Elastic       *self,
                 gconstpointer  data)
{
  g_autofree char *whole = complete_active (self, 0, 0);
  g_autofree char *expected = complete_active (self, ELASTIC_SPARSITY, ELASTIC_SPARSITY);
  g_autofree char *other = NULL;
  g_autofree char *asked = NULL;
  g_autofree char *found = NULL;
  LlmSettings *settings = self->fixture.engine->settings;
  g_autoptr(Answer) answer = NULL;
  g_autoptr(Answer) drafting = NULL;

  g_strfreev (settings->active);
  settings->active = g_strsplit ("another:80;30", ";", -1);
  answer = begin_complete (&self->fixture, PROMPT, "{" QUIET "}");
  found = describe (answer, ELASTIC_SPARSITY);
  g_assert_cmpstr (found, ==, expected);
  asked = complete_active (self, 0, 0);
  g_assert_cmpstr (asked, ==, whole);
  drafting = begin_complete (&self->fixture, PROMPT, "{" QUIET ", 'draft': <'lookup'>}");
  other = describe (drafting, 0);
  g_assert_cmpstr (other, ==, whole);
}

/* Weights that do not stay are read by channel as soon as these are prepared, and the text is the same
 * before, then and after. */
static void
set_up_channels (Elastic       *self,
                 gconstpointer  data)
{
  self->has_cache = TRUE;
  set_up_elastic (self, data);
}

static LlmStreamFigures
get_figures (Elastic *self)
{
  return llm_engine_get_figures (self->fixture.engine).stream;
}

static void
test_channels (Elastic       *self,
               gconstpointer  data)
{
  g_autofree char *whole = complete_active (self, 0, 0);
  g_autofree char *expected = complete_active (self, ELASTIC_HIGH_SPARSITY, ELASTIC_HIGH_SPARSITY);
  LlmStreamFigures before;
  guint n = 0;

  do
    {
      g_autofree char *dense = NULL;
      g_autofree char *found = NULL;

      /* the memory policy may have let all of them stay meanwhile */
      llm_executor_keep_weights (self->fixture.engine->executor, 1 << 20);
      dense = complete_active (self, 0, 0);
      found = complete_active (self, ELASTIC_HIGH_SPARSITY, ELASTIC_HIGH_SPARSITY);
      g_assert_cmpstr (dense, ==, whole);
      g_assert_cmpstr (found, ==, expected);
    }
  while (get_figures (self).channel_bytes == 0 && ++n < 200);
  g_assert_cmpuint (get_figures (self).n_channels_left, >, 0);
  llm_executor_keep_weights (self->fixture.engine->executor, G_MAXUINT64);
  g_free (complete_active (self, 0, 0));
  WAIT_FOR (get_figures (self).pass_bytes == 0);
  before = get_figures (self);
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *found = complete_active (self, ELASTIC_HIGH_SPARSITY, ELASTIC_HIGH_SPARSITY);

      g_assert_cmpstr (found, ==, expected);
    }
  g_assert_cmpuint (get_figures (self).channel_bytes, ==, before.channel_bytes);
}

/* A call with a target for its tokens is answered so where that is forecast to be sooner, and good enough; not
 * before there is something to read less of, and not where the caller has said otherwise. */
static void
test_target (Elastic       *self,
             gconstpointer  data)
{
  static const char *const never[] = {
    "'tpot-share': <0.01>, 'least-quality': <uint32 99>",
    "'tpot-share': <0.01>, 'least-quality': <uint32 95>, 'active': <uint32 0>",
    "'tpot-share': <0.01>, 'least-sub-model': <uint32 100>",
    "'tpot-share': <0.01>, 'least-quality': <uint32 95>, 'draft': <'lookup'>",
    "'ttft-share': <0.01>, 'least-quality': <uint32 95>",
    "'tpot-share': <1.0>, 'least-quality': <uint32 95>",
    "'tpot-share': <0.01>, 'response-format': <'json'>",
  };
  g_autofree char *expected = complete_active (self, ELASTIC_SPARSITY, ELASTIC_SPARSITY);
  g_autofree char *whole = complete_active (self, 0, 0);
  guint active = 0;

  for (guint n = 0; active == 0 && n < 200; n++)
    {
      g_autoptr(Answer) answer = NULL;
      g_autofree char *found = NULL;

      llm_executor_keep_weights (self->fixture.engine->executor, 1 << 20);
      answer = begin_complete (&self->fixture, PROMPT,
                               "{" QUIET ", 'tpot-share': <0.01>, 'least-quality': <uint32 95>}");
      WAIT_FOR (answer->is_finished);
      active = result_uint (answer, "active");
      found = describe (answer, active);
      g_assert_cmpstr (found, ==, active > 0 ? expected : whole);
    }
  g_assert_cmpuint (active, ==, ELASTIC_SPARSITY);
  for (guint i = 0; i < G_N_ELEMENTS (never); i++)
    {
      g_autofree char *options = g_strdup_printf ("{" QUIET ", %s}", never[i]);
      g_autoptr(Answer) answer = NULL;

      llm_executor_keep_weights (self->fixture.engine->executor, 1 << 20);
      answer = begin_complete (&self->fixture, PROMPT, options);
      g_free (describe (answer, 0));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(name, data, func) \
  g_test_add ("/active/" name, Elastic, data, set_up_elastic, func, tear_down_elastic)
  ADD ("answers", "active", test_answers);
  ADD ("together", "active", test_together);
  ADD ("turns", "active", test_turns);
  ADD ("again", "active", test_again);
  ADD ("drafts", "active", test_drafts);
  ADD ("configured", "active", test_configured);
  ADD ("alone", "active", test_sub_models);
  ADD ("both", "both", test_sub_models);
  g_test_add ("/active/channels", Elastic, "both", set_up_channels, test_channels, tear_down_elastic);
  g_test_add ("/active/target", Elastic, "active", set_up_channels, test_target, tear_down_elastic);
  ADD ("none", "none", test_without);
  ADD ("sub-models-alone", NULL, test_without);
  ADD ("other-weights", "0123456789abcdef", test_without);

  return g_test_run ();
}
