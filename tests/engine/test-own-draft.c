/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The option `draft` = `own`: the smallest sub-model guesses for the model itself. The text is the
 * same, whatever happens meanwhile, and nothing of the guesses is left behind. */

#include "elastic-rig.h"

#include "common/llmsvc-error.h"
#include "engine/llm-engine-private.h"
#include "runtime/llm-executor-private.h"

#define PROMPT "Red, green, blue. Red, green, blue. Red, green, blue. What comes next?"
#define NEXT "And after that? Tell me all of them, please."
/* Tokens that end an answer don't come. */
#define ENDLESS "'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>"

/* What is guessed pays, however long a guess takes on a busy machine: a step takes a second with any
 * rows, as far as the executor knows. */
static void
set_costs (LlmCommand *base)
{
  LlmRunner *runner = g_ptr_array_index (base->executor->runners, 0);
  LlmCostCurve *curve = &runner->scheduler->costs.curves[LLM_COST_DECODE];

  for (guint i = 0; i < LLM_COST_POINTS; i++)
    {
      curve->us[i] = G_USEC_PER_SEC;
      curve->n_seen[i] = 10000;
    }
  curve->n_steps = 10000;
}

/* (transfer full): of @context (nullable). */
static Answer *
begin_drafting (Elastic    *self,
                LlmContext *context,
                const char *draft,
                double      temperature,
                guint       n_tokens,
                const char *prompt,
                const char *more)
{
  g_autofree char *options = g_strdup_printf (
    "{'temperature': <%f>, 'seed': <uint64 7>, 'max-tokens': <uint32 %u>, 'repeat-penalty': <1.05>, "
    "'draft': <'%s'>, " ENDLESS "%s}", temperature, n_tokens, draft, more);

  llm_executor_send (self->fixture.engine->executor, set_costs);
  return context != NULL ? begin_ask (&self->fixture, context, prompt, options)
                         : begin_complete (&self->fixture, prompt, options);
}

static Answer *
wait_for (Answer *answer)
{
  WAIT_FOR (answer->is_finished);
  return answer;
}

/* Its text is that of plain decoding, at every temperature; some guesses are right, and some wrong. */
static void
test_text (Elastic      *self,
           gconstpointer data)
{
  const double temperatures[] = { 0, 0.8, 1.2 };
  guint n_drafted = 0, n_accepted = 0;

  g_free (complete (&self->fixture, "Hello", GREEDY));
  for (guint t = 0; t < G_N_ELEMENTS (temperatures); t++)
    {
      g_autoptr(Answer) plain =
        wait_for (begin_drafting (self, NULL, "off", temperatures[t], 100, PROMPT, ""));
      g_autoptr(Answer) own =
        wait_for (begin_drafting (self, NULL, "own", temperatures[t], 100, PROMPT, ""));

      g_assert_no_error (own->error);
      g_assert_cmpstr (own->text, ==, plain->text);
      g_assert_cmpuint (result_uint (own, "sub-model"), ==, 100);
      n_drafted += result_uint (own, "drafted-tokens");
      n_accepted += result_uint (own, "accepted-tokens");
    }
  g_test_message ("%u of %u guesses were right", n_accepted, n_drafted);
  g_assert_cmpuint (n_accepted, >, 0);
  g_assert_cmpuint (n_drafted, >, n_accepted);
}

/* A context goes on as if nothing had been guessed: its chunks are those of the text, also where an answer
 * was cancelled, and where Trim came in between. */
static void
test_context (Elastic      *self,
              gconstpointer data)
{
  g_autoptr(LlmContext) plain = create (&self->fixture, "{}");
  g_autoptr(LlmContext) own = create (&self->fixture, "{}");
  const char *const prompts[] = { PROMPT, NEXT, "Thanks." };

  g_free (complete (&self->fixture, "Hello", GREEDY));
  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    {
      g_autoptr(Answer) expected =
        wait_for (begin_drafting (self, plain, "off", 0.8, 60, prompts[i], ""));
      g_autoptr(Answer) cancelled = begin_drafting (self, own, "own", 0.8, 60, prompts[i], "");
      g_autoptr(Answer) found = NULL;

      WAIT_FOR (cancelled->is_finished
                || (cancelled->generation != NULL
                    && llm_generation_get_state (cancelled->generation) == LLM_GENERATION_DECODE));
      if (!cancelled->is_finished)
        {
          g_autoptr(GAsyncResult) result = NULL;

          llm_generation_cancel_async (cancelled->generation, on_result, &result);
          WAIT_FOR (result != NULL && cancelled->is_finished);
        }
      if (cancelled->error == NULL)
        g_assert_true (rollback (own, 1, NULL));
      trim (&self->fixture, i == 1 ? "medium" : "low");
      found = begin_drafting (self, own, "own", 0.8, 60, prompts[i], "");
      WAIT_FOR (found->is_finished);
      g_assert_no_error (found->error);
      g_assert_cmpstr (found->text, ==, expected->text);
      g_assert_cmpuint (llm_context_get_tokens (own), ==, llm_context_get_tokens (plain));
    }
}

/* Several at once, of which some have a sub-model themselves. */
static void
test_together (Elastic      *self,
               gconstpointer data)
{
  const char *const more[] = { "", ", 'sub-model': <uint32 70>", ", 'sub-model': <uint32 40>",
                               ", 'stop': <['green']>" };
  g_autoptr(GPtrArray) expected = g_ptr_array_new_with_free_func ((GDestroyNotify) answer_free);
  Answer *found[G_N_ELEMENTS (more)];

  g_free (complete (&self->fixture, "Hello", GREEDY));
  for (guint i = 0; i < G_N_ELEMENTS (more); i++)
    g_ptr_array_add (expected, wait_for (begin_drafting (self, NULL, "off", 0, 80, PROMPT, more[i])));
  for (guint i = 0; i < G_N_ELEMENTS (more); i++)
    found[i] = begin_drafting (self, NULL, "own", 0, 80, PROMPT, more[i]);
  for (guint i = 0; i < G_N_ELEMENTS (more); i++)
    {
      const Answer *plain = g_ptr_array_index (expected, i);

      WAIT_FOR (found[i]->is_finished);
      g_assert_no_error (found[i]->error);
      g_assert_cmpstr (found[i]->text, ==, plain->text);
      /* the smallest one has nothing smaller */
      if (i == 2)
        g_assert_cmpuint (result_uint (found[i], "drafted-tokens"), ==, 0);
      answer_free (found[i]);
    }
}

static void
test_without (Elastic      *self,
              gconstpointer data)
{
  g_autofree char *loaded = complete (&self->fixture, "Hello", GREEDY);
  g_autoptr(Answer) own = wait_for (begin_drafting (self, NULL, "own", 0, 8, PROMPT, ""));
  g_autoptr(Answer) any = wait_for (begin_drafting (self, NULL, "auto", 0, 8, PROMPT, ""));

  g_assert_error (own->error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_test_message ("%s", own->error->message);
  g_assert_no_error (any->error);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, data, func) \
  g_test_add (path, Elastic, data, set_up_elastic, func, tear_down_elastic)
  ADD ("/engine/own-draft/text", NULL, test_text);
  ADD ("/engine/own-draft/context", NULL, test_context);
  ADD ("/engine/own-draft/together", NULL, test_together);
  ADD ("/engine/own-draft/without", "none", test_without);
#undef ADD
  return g_test_run ();
}
