/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that sub-models answer (E1, E9): the shipped model with a companion of three levels beside
 * it. Which one answers is told, the whole model is what it was, and a turn's tokens are computed
 * again as they were, whatever became of the memory meanwhile. */

#include "elastic-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "engine/llm-engine-private.h"

#define PROMPT "I want to find an Italian restaurant in San Jose."

static char *
make_options (guint sub_model)
{
  return g_strdup_printf ("{'temperature': <0.0>, 'max-tokens': <uint32 24>, 'logprobs': <uint32 0>, "
                          "'sub-model': <uint32 %u>}", sub_model);
}

/* (transfer full): the text and the log-probabilities of its tokens, in which every bit of K and V
 * tells; @n_reused: (out) (optional). */
static char *
ask_by (Elastic    *self,
        LlmContext *context,
        const char *prompt,
        guint       sub_model,
        guint      *n_reused)
{
  g_autofree char *options = make_options (sub_model);
  g_autoptr(Answer) answer = begin_ask (&self->fixture, context, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, sub_model);
  if (n_reused != NULL)
    *n_reused = result_uint (answer, "cached-tokens");
  return g_strdup_printf ("%s %s", answer->text, result_string (answer, "logprobs"));
}

/* (transfer full): of a call that takes @asked percent, and must be answered by @wanted. */
static char *
complete_by (Elastic *self,
             guint    asked,
             guint    wanted)
{
  g_autofree char *options = make_options (asked);
  g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, wanted);
  return g_strdup (answer->text);
}

static void
test_answers (Elastic       *self,
              gconstpointer  data)
{
  Fixture plain;
  g_autofree char *reference = NULL;
  g_autofree char *whole = complete_by (self, 100, 100);
  g_autofree char *chosen = complete_by (self, 0, 100);
  g_autofree char *small = complete_by (self, 40, 40);
  g_autofree char *smaller = complete_by (self, 20, 40);
  g_autofree char *between = complete_by (self, 41, 70);
  g_auto(GStrv) levels = llm_engine_list_sub_models (
    self->fixture.engine, llm_engine_get_active_model (self->fixture.engine));
  g_autofree char *joined = g_strjoinv (" ", levels);

  set_up_floats (&plain, NULL);
  reference = complete (&plain, PROMPT, GREEDY);
  tear_down (&plain, NULL);

  g_assert_cmpstr (whole, ==, reference);
  g_assert_cmpstr (chosen, ==, reference);
  g_assert_cmpstr (small, !=, whole);
  g_assert_cmpstr (smaller, ==, small);
  g_assert_cmpstr (between, !=, small);
  g_assert_cmpstr (joined, ==, "40 70 100");
}

/* What is told was computed: the products that were counted are those of the level, for each token,
 * and of the output for each token of the answer. */
static void
test_products (Elastic       *self,
               gconstpointer  data)
{
  static const guint percent[ELASTIC_N_LEVELS] = { 40, 70, 100 };
  guint64 before = 0;

  g_free (complete_by (self, 100, 100));
  for (guint level = 0; level < ELASTIC_N_LEVELS; level++)
    {
      g_autofree char *options = make_options (percent[level]);
      const LlmCompanion *companion = self->fixture.engine->use.companion;
      const LlmHparams *h = llm_model_get_hparams (self->fixture.engine->use.model);
      guint64 output = (guint64) h->n_embd * h->n_vocab;
      guint64 n = get_statistic (self->fixture.engine, "multiplications"), expected = 0;
      guint n_rows, n_output;
      g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, options);

      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      n = get_statistic (self->fixture.engine, "multiplications") - n;
      g_assert_cmpuint (result_uint (answer, "cached-tokens"), ==, 0);
      n_output = result_uint (answer, "output-tokens");
      n_rows = result_uint (answer, "prompt-tokens") + n_output - 1;

      for (guint layer = 0; layer < h->n_layers; layer++)
        {
          const LlmSubModels *table = companion->sub_models;
          guint64 n_queries = (guint64) llm_sub_models_get_groups (table, layer, level) * h->head_dim
                              * (h->n_heads / h->n_kv_heads);

          expected += h->n_embd * (2 * n_queries + 2 * (guint64) h->n_kv_heads * h->head_dim
                                   + 3 * llm_sub_models_get_channels (table, layer, level));
        }
      /* the adapter of the smallest one: both halves, for ffn_up of a layer */
      if (level == 0)
        expected += 2 * (h->n_embd + llm_sub_models_get_channels (companion->sub_models, 1, 0));
      g_test_message ("%u %%: %u rows, %ju products, expected %ju", percent[level], n_rows, n,
                      n_rows * expected + n_output * output);
      g_assert_cmpuint (result_uint (answer, "sub-model"), ==, percent[level]);
      g_assert_cmpuint (n, ==, n_rows * expected + n_output * output);
      g_assert_cmpuint (expected, >, before);
      before = expected;
    }
}

/* Rows of several levels meet in one step. */
static void
test_together (Elastic       *self,
               gconstpointer  data)
{
  static const guint asked[] = { 40, 100, 70, 40, 100 };
  char *alone[G_N_ELEMENTS (asked)];
  Answer *answers[G_N_ELEMENTS (asked)];

  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    alone[i] = complete_by (self, asked[i], asked[i]);
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autofree char *options = make_options (asked[i]);

      answers[i] = begin_complete (&self->fixture, PROMPT, options);
    }
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_no_error (answers[i]->error);
      g_assert_cmpstr (answers[i]->text, ==, alone[i]);
      answer_free (answers[i]);
      g_free (alone[i]);
    }
}

/* Turns of several levels in a context called @name; with @restarts the service ends after each,
 * and what it had on storage is gone: all is computed again. Returns the texts. */
static char *
converse (Elastic    *self,
          const char *name,
          gboolean    restarts)
{
  static const guint asked[] = { 40, 100, 40, 70, 100 };
  g_autoptr(GString) texts = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      g_autofree char *text = NULL;
      guint n_reused;
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context =
        open_context (&self->fixture, name, "{'create': <true>}", &error);

      g_assert_no_error (error);
      text = ask_by (self, context, i % 2 == 0 ? PROMPT : "And another one?", asked[i], &n_reused);
      /* what another sub-model computed is used as it is */
      if (i > 0 && !restarts)
        g_assert_cmpuint (n_reused, >, 0);
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

/* Two contexts that begin alike, of two levels: neither takes the other's chunks. */
static void
test_prefix (Elastic       *self,
             gconstpointer  data)
{
  g_autofree char *system = g_strnfill (900, 'a');
  g_autofree char *options = NULL;
  char *texts[2][2];

  for (gsize i = 3; i < strlen (system); i += 4)
    system[i] = ' ';
  options = g_strdup_printf ("{'system': <'%s'>}", system);
  for (guint run = 0; run < 2; run++)
    {
      for (guint i = 0; i < 2; i++)
        {
          guint which = run == 0 ? i : 1 - i;
          g_autoptr(LlmContext) context = create (&self->fixture, options);

          texts[run][which] = ask_by (self, context, PROMPT, which == 0 ? 100 : 40, NULL);
        }
      stop_engine (&self->fixture.engine);
      self->fixture.engine = elastic_start (self);
    }
  for (guint i = 0; i < 2; i++)
    g_assert_cmpstr (texts[0][i], ==, texts[1][i]);
  for (guint i = 0; i < 4; i++)
    g_free (texts[i / 2][i % 2]);
}

/* A turn that is taken back, and asked again of another sub-model: nothing of the first answer's
 * computation is used, be it in memory or on storage. */
static void
test_again (Elastic       *self,
            gconstpointer  data)
{
  g_autofree char *long_prompt = g_strnfill (600, 'b');

  for (gsize i = 3; i < strlen (long_prompt); i += 4)
    long_prompt[i] = ' ';
  for (guint restarts = 0; restarts < 2; restarts++)
    {
      g_autofree char *name = g_strdup_printf ("again-%u", restarts);
      g_autoptr(LlmContext) plain = create (&self->fixture, "{}");
      g_autoptr(LlmContext) context =
        open_context (&self->fixture, name, "{'create': <true>}", NULL);
      g_autofree char *small = ask_by (self, context, long_prompt, 40, NULL);
      g_autofree char *whole = NULL;
      g_autofree char *reference = ask_by (self, plain, long_prompt, 100, NULL);

      g_assert_true (rollback (context, 1, NULL));
      if (restarts)
        {
          g_clear_object (&context);
          g_clear_object (&plain);
          stop_engine (&self->fixture.engine);
          self->fixture.engine = elastic_start (self);
          context = open_context (&self->fixture, name, "{'create': <true>}", NULL);
        }
      whole = ask_by (self, context, long_prompt, 100, NULL);
      g_assert_cmpstr (small, !=, whole);
      g_assert_cmpstr (whole, ==, reference);
    }
}

/* Without sub-models only a call that names one fails. @data: what is beside the model. */
static void
test_without (Elastic       *self,
              gconstpointer  data)
{
  gboolean is_wrong = g_strcmp0 (data, "none") != 0;
  g_autofree char *whole = complete (&self->fixture, PROMPT, GREEDY);
  g_autofree char *hundred = complete_by (self, 100, 100);
  g_autofree char *options = make_options (40);
  g_autoptr(Answer) answer = begin_complete (&self->fixture, PROMPT, options);

  g_assert_cmpstr (hundred, ==, whole);
  WAIT_FOR (answer->is_finished || answer->error != NULL);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (answer->error->message, "sub-model"));
  g_assert_nonnull (strstr (answer->error->message,
                            is_wrong ? "it is for the weights" : "has no sub-models"));
}

#define QUIET "'temperature': <0.0>, 'max-tokens': <uint32 8>, 'slo': <'background'>"

/* What a level was chosen for is the turn's: it is computed again by that. */
static void
test_chosen_turn (Elastic       *self,
                  gconstpointer  data)
{
  char *texts[2];

  for (guint run = 0; run < 2; run++)
    {
      const char *name = run == 0 ? "named" : "chosen";
      g_autoptr(LlmContext) context = open_context (&self->fixture, name, "{'create': <true>}", NULL);
      g_autoptr(Answer) first =
        begin_ask (&self->fixture, context, PROMPT,
                   run == 0 ? "{" QUIET ", 'sub-model': <uint32 40>}"
                                 : "{" QUIET ", 'ttft-share': <0.01>}");

      WAIT_FOR (first->is_finished);
      g_assert_no_error (first->error);
      g_assert_cmpuint (result_uint (first, "sub-model"), ==, 40);
      g_clear_object (&context);
      stop_engine (&self->fixture.engine);
      elastic_remove_chunks (self);
      self->fixture.engine = elastic_start (self);
      context = open_context (&self->fixture, name, "{}", NULL);
      texts[run] = ask_by (self, context, "And another one?", 100, NULL);
    }
  g_assert_cmpstr (texts[0], ==, texts[1]);
  for (guint run = 0; run < 2; run++)
    g_free (texts[run]);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(name, data, func) \
  g_test_add ("/sub-models/" name, Elastic, data, set_up_elastic, func, tear_down_elastic)
  ADD ("answers", NULL, test_answers);
  ADD ("products", NULL, test_products);
  ADD ("together", NULL, test_together);
  ADD ("turns", NULL, test_turns);
  ADD ("prefix", NULL, test_prefix);
  ADD ("again", NULL, test_again);
  ADD ("chosen-turn", NULL, test_chosen_turn);
  ADD ("none", "none", test_without);
  ADD ("other-weights", "0123456789abcdef", test_without);

  return g_test_run ();
}
