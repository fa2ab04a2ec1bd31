/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The option `prompt-level`: what of a prompt may be left out, and what is; turns of shortened
 * prompts beside those of whole ones. */

#include "engine-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "engine/calls/llm-prepare.h"
#include "engine/calls/llm-shorten.h"
#include "engine/llm-engine-private.h"

#define SYSTEM "You are a helpful assistant. Today is 2019-03-01, and you answer in one sentence."
#define LONG_QUESTION \
  "I am looking for a restaurant in the city of San Jose, and it would be really nice if they had " \
  "Italian food, as my parents come to visit me and they like it more than anything else; please " \
  "find me a place with a moderate price, for 4 people, on the 5th of March."
#define SECOND_QUESTION \
  "That sounds quite good to me, so please go ahead and make a reservation there for the evening, " \
  "at a quarter past seven, and let me know whether they have a garden where one can sit outside."
#define AT(level) "{'temperature': <0.0>, 'max-tokens': <uint32 16>, 'prompt-level': <uint32 " level ">}"
#define WHOLE "{'temperature': <0.0>, 'max-tokens': <uint32 16>}"

/* --- what may be left out --- */

static const char *const pieces[] = {
  "the", "of", "San", "Jose", "restaurant", "1,000", "2019-03-01", "{\"name\":\"Angels\",\"free\":\"False\"}",
  "\n", "\n\n", "  ", "\t", "东京是日本的首都", "Straße", "🙂🙂", "e\xcc\x81", "a,b;c", "<|im_end|>", "{{x}}", "?", "no",
};
static const char *const roles[] = { "system", "user", "assistant", "tool" };

static char *
make_text (GRand *random)
{
  GString *text = g_string_new (NULL);

  for (guint n = (guint) g_rand_int_range (random, 0, 60); n > 0; n--)
    g_string_append_printf (text, "%s%s", pieces[(guint) g_rand_int_range (random, 0, G_N_ELEMENTS (pieces))],
                            (guint) g_rand_int_range (random, 0, 8) > 0 ? " " : "");
  return g_string_free (text, FALSE);
}

/* Whether @part is @whole with bytes left out, but for lines that stand in for what was left out. */
static gboolean
is_part_of (const char *part,
            const char *whole)
{
  while (*part != '\0' && *whole != '\0')
    {
      if (*part == *whole || (*part == '\n' && strchr (whole, '\n') != NULL))
        part++;
      whole++;
    }
  return *part == '\0';
}

static void
add_controls (LlmTokenizer *tokenizer,
              const GArray *tokens,
              GArray       *controls)
{
  for (guint i = 0; i < tokens->len; i++)
    if (llm_tokenizer_is_control (tokenizer, g_array_index (tokens, gint32, i)))
      g_array_append_val (controls, g_array_index (tokens, gint32, i));
}

/* Markers, system texts and tools stay; of the others words go, as many as asked for, or all that may. */
static void
test_property (Fixture      *fixture,
               gconstpointer data)
{
  g_autofree char *loaded = complete (fixture, "Hello", WHOLE);
  LlmModel *model = fixture->engine->use.model;
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (model);
  g_autoptr(GRand) random = g_rand_new_with_seed (43);
  guint n_reached = 0;

  for (guint run = 0; run < 300; run++)
    {
      g_autoptr(LlmPrepareInput) input = llm_prepare_input_new ();
      g_autoptr(LlmPrepareInput) again = llm_prepare_input_new ();
      g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
      g_autoptr(GArray) controls = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_autoptr(GArray) wanted = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_autoptr(GArray) whole = NULL;
      g_autoptr(GArray) tokens = NULL;
      g_autoptr(GError) error = NULL;
      guint n = 1 + (guint) g_rand_int_range (random, 0, 6);

      input->opens_answer = again->opens_answer = TRUE;
      if (run % 3 == 0)
        input->tools = g_strdup ("[{\"type\": \"function\", \"function\": {\"name\": \"find\", \"description\": "
                                 "\"Find the places of the city that one may like to see.\"}}]");
      again->tools = g_strdup (input->tools);
      for (guint i = 0; i < n; i++)
        {
          char *text = make_text (random);
          const char *role = roles[(guint) g_rand_int_range (random, 0, G_N_ELEMENTS (roles))];

          g_ptr_array_add (texts, text);
          llm_prepare_input_add_message (input, role, text, NULL);
          llm_prepare_input_add_message (again, role, text, NULL);
        }
      whole = llm_prepare (model, again, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (again->n_left_out, ==, 0);
      input->level = 20 + (guint) g_rand_int_range (random, 0, 80);
      tokens = llm_prepare (model, input, NULL, &error);
      g_assert_no_error (error);

      add_controls (tokenizer, tokens, controls);
      add_controls (tokenizer, whole, wanted);
      g_assert_cmpmem (controls->data, controls->len * sizeof (gint32), wanted->data,
                       wanted->len * sizeof (gint32));
      for (guint i = 0; i < n; i++)
        {
          const LlmMessage *message = &g_array_index (input->messages, LlmMessage, i);
          const char *text = g_ptr_array_index (texts, i);

          g_assert_true (g_utf8_validate (message->text, -1, NULL));
          g_assert_true (is_part_of (message->text, text));
          if (g_str_equal (message->role, "system"))
            g_assert_cmpstr (message->text, ==, text);
          if (*text != '\0')
            g_assert_cmpint (*message->text, !=, '\0');
        }
      g_assert_cmpuint (tokens->len, ==, whole->len - input->n_left_out);
      n_reached += tokens->len * 100 <= whole->len * input->level + 99;

      /* what it wrote is what a prompt of the texts that stayed has */
      input->level = 0;
      g_clear_pointer (&whole, g_array_unref);
      whole = llm_prepare (model, input, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpmem (tokens->data, tokens->len * sizeof (gint32), whole->data,
                       whole->len * sizeof (gint32));
    }
  g_assert_cmpuint (n_reached, >, 100);
}

/* Settled tokens are as they were, and the text that they stand for is not touched. */
static void
test_settled (Fixture      *fixture,
              gconstpointer data)
{
  g_autofree char *loaded = complete (fixture, "Hello", WHOLE);
  LlmModel *model = fixture->engine->use.model;
  g_autoptr(LlmPrepareInput) input = llm_prepare_input_new ();
  const gint32 settled[] = { 5, 6, 7, 8, 9 };
  g_autoptr(GArray) tokens = NULL;
  g_autoptr(GError) error = NULL;

  g_array_append_vals (input->settled, settled, G_N_ELEMENTS (settled));
  input->point = LLM_POINT_CLOSED_ANSWER;
  input->n_settled = 2;
  input->level = 50;
  llm_prepare_input_add_message (input, "user", LONG_QUESTION, NULL);
  llm_prepare_input_add_message (input, "assistant", "Which city is it?", NULL);
  llm_prepare_input_add_message (input, "user", SECOND_QUESTION, NULL);
  tokens = llm_prepare (model, input, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (tokens->data, sizeof settled, settled, sizeof settled);
  g_assert_cmpstr (g_array_index (input->messages, LlmMessage, 0).text, ==, LONG_QUESTION);
  g_assert_cmpuint (strlen (g_array_index (input->messages, LlmMessage, 2).text), <,
                    strlen (SECOND_QUESTION) * 7 / 10);
}

/* Older messages go before the newest question; there what is rare, and numbers, stays longest. */
static void
test_order (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *loaded = complete (fixture, "Hello", WHOLE);
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (fixture->engine->use.model);
  g_autoptr(LlmPrepareInput) input = llm_prepare_input_new ();
  const LlmMessage *messages;
  guint n_out;

  llm_prepare_input_add_message (input, "system", SYSTEM, NULL);
  llm_prepare_input_add_message (input, "user", LONG_QUESTION, NULL);
  llm_prepare_input_add_message (input, "assistant", "How about Aqui?\nIt is\nnice there", NULL);
  llm_prepare_input_add_message (input, "user", SECOND_QUESTION, NULL);
  n_out = llm_shorten (tokenizer, input->messages, 0, 20);
  messages = (const LlmMessage *) (void *) input->messages->data;
  g_assert_cmpuint (n_out, >=, 20);
  g_assert_cmpuint (n_out, <, 26);
  g_assert_cmpstr (messages[0].text, ==, SYSTEM);
  g_assert_cmpstr (messages[3].text, ==, SECOND_QUESTION);
  g_assert_nonnull (strstr (messages[1].text, "Italian"));
  g_assert_nonnull (strstr (messages[1].text, "5th"));
  g_assert_null (strstr (messages[1].text, " in the city of "));

  /* all that may go: a fifth of each stays, and lines stay lines */
  n_out = llm_shorten (tokenizer, input->messages, 2, 10000);
  g_assert_cmpuint (n_out, <, 200);
  g_assert_nonnull (strchr (messages[2].text, '\n'));
  g_assert_cmpuint (strlen (messages[3].text), >, strlen (SECOND_QUESTION) / 10);
}

/* --- calls --- */

static guint
get_level (const Answer *answer)
{
  g_assert_no_error (answer->error);
  return result_uint (answer, "prompt-level");
}

static char *
get_text (LlmContext *context,
          gsize       i)
{
  g_autoptr(GVariant) messages = get_messages (context);
  char *text;

  g_variant_get_child (messages, i, "(&ss@a{sv})", NULL, &text, NULL);
  return text;
}

/* The next shortened turn finds what the last one kept; a call for all of it sees all of it; and so
 * does a shortened one behind that. */
static void
test_turns (Fixture      *fixture,
            gconstpointer data)
{
  const gboolean restarts = GPOINTER_TO_INT (data);
  g_autoptr(LlmContext) context = create (fixture, "{'system': <'" SYSTEM "'>, 'name': <'short'>}");
  g_autoptr(LlmContext) whole = create (fixture, "{'system': <'" SYSTEM "'>}");
  g_autoptr(Answer) reference = begin_ask (fixture, whole, LONG_QUESTION, WHOLE);
  g_autoptr(Answer) first = NULL;
  g_autoptr(Answer) second = NULL;
  g_autoptr(Answer) third = NULL;
  g_autoptr(Answer) fourth = NULL;
  g_autofree char *text = NULL;
  guint n_first, n_all;

  WAIT_FOR (reference->is_finished);
  g_assert_cmpuint (get_level (reference), ==, 100);
  g_assert_false (g_variant_lookup (reference->results, "left-out-tokens", "u", NULL));
  first = begin_ask (fixture, context, LONG_QUESTION, AT ("70"));
  WAIT_FOR (first->is_finished);
  n_first = result_uint (first, "prompt-tokens");
  g_assert_cmpuint (get_level (first), <=, 71);
  g_assert_cmpuint (n_first + result_uint (first, "left-out-tokens"), ==,
                    result_uint (reference, "prompt-tokens"));
  text = get_text (context, 1);
  g_assert_cmpstr (text, ==, LONG_QUESTION);

  if (restarts)
    {
      g_autoptr(GError) error = NULL;

      g_clear_object (&context);
      g_clear_object (&whole);
      stop_engine (&fixture->engine);
      fixture->engine = start_engine_with (new_settings (fixture->state, 2));
      context = open_context (fixture, "short", "{}", &error);
      g_assert_no_error (error);
    }
  second = begin_ask (fixture, context, SECOND_QUESTION, AT ("60"));
  WAIT_FOR (second->is_finished);
  g_assert_cmpuint (get_level (second), <=, 61);
  /* but for the last token of the answer, and what fills no chunk where it came from storage */
  g_assert_cmpuint (result_uint (second, "cached-tokens") + (restarts ? 16 : 0), >=,
                    n_first + result_uint (first, "output-tokens") - 1);

  third = begin_ask (fixture, context, "Thanks.", WHOLE);
  WAIT_FOR (third->is_finished);
  g_assert_cmpuint (get_level (third), ==, 100);
  n_all = result_uint (third, "prompt-tokens");
  g_assert_cmpuint (n_all, >=,
                    result_uint (second, "prompt-tokens") + result_uint (first, "left-out-tokens")
                      + result_uint (second, "left-out-tokens"));
  g_assert_cmpuint (llm_context_get_tokens (context), ==, n_all + result_uint (third, "output-tokens"));

  /* the whole text is there now, so it is used; the new message alone has nothing to leave out */
  fourth = begin_ask (fixture, context, "Bye", AT ("90"));
  WAIT_FOR (fourth->is_finished);
  g_assert_cmpuint (get_level (fourth), ==, 100);
  g_assert_cmpuint (result_uint (fourth, "cached-tokens"), >=,
                    n_all + result_uint (third, "output-tokens") - 1);
  g_assert_cmpuint (count_messages (context), ==, 9);
}

/* What can't be reached is told, and what can't be done is refused. */
static void
test_limits (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'system': <'" SYSTEM "'>}");
  g_autoptr(Answer) answer = begin_ask (fixture, context, "Find me a place to eat, please.", AT ("20"));
  g_autoptr(Answer) more = NULL;
  g_autoptr(Answer) raw = NULL;

  WAIT_FOR (answer->is_finished);
  g_assert_cmpuint (get_level (answer), >, 60);
  g_assert_cmpuint (get_level (answer), <, 100);

  more = go_on (fixture, context, "{'temperature': <0.0>, 'max-tokens': <uint32 4>, 'continue': <true>, "
                                  "'prompt-level': <uint32 50>}");
  g_assert_cmpuint (get_level (more), ==, 100);
  g_assert_cmpuint (result_uint (more, "cached-tokens"), >=, result_uint (answer, "prompt-tokens"));

  raw = begin_complete (fixture, LONG_QUESTION, "{'raw': <true>, 'prompt-level': <uint32 50>}");
  WAIT_FOR (raw->is_finished);
  g_assert_error (raw->error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_test_message ("%s", raw->error->message);
}

/* A question that the context has no room for comes to fit. */
static void
test_room (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(Answer) whole = NULL;
  g_autoptr(Answer) shortened = NULL;

  for (guint i = 0; i < 24; i++)
    g_string_append (text, LONG_QUESTION " ");
  whole = begin_ask (fixture, context, text->str, WHOLE);
  WAIT_FOR (whole->is_finished);
  g_assert_error (whole->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
  shortened = begin_ask (fixture, context, text->str, AT ("40"));
  WAIT_FOR (shortened->is_finished);
  g_assert_cmpuint (get_level (shortened), <=, 41);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, data, func) g_test_add (path, Fixture, data, set_up, func, tear_down)
  ADD ("/engine/prompt-levels/property", NULL, test_property);
  ADD ("/engine/prompt-levels/settled", NULL, test_settled);
  ADD ("/engine/prompt-levels/order", NULL, test_order);
  ADD ("/engine/prompt-levels/turns", NULL, test_turns);
  ADD ("/engine/prompt-levels/restart", GINT_TO_POINTER (TRUE), test_turns);
  ADD ("/engine/prompt-levels/limits", NULL, test_limits);
  ADD ("/engine/prompt-levels/room", NULL, test_room);
#undef ADD
  return g_test_run ();
}
