/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The option `continue`: an answer in pieces has the bytes of one longer call, also after a restart
 * and a rollback, and is one message; what can't be gone on with is refused. */

#include "engine-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"

#define QUESTION "Find me a restaurant in San Jose."
#define GREETING "Hello, who are you?"
#define LONG "{'temperature': <0.0>, 'max-tokens': <uint32 20>}"
#define SHORT "{'temperature': <0.0>, 'max-tokens': <uint32 5>}"
#define MORE "{'temperature': <0.0>, 'max-tokens': <uint32 5>, 'continue': <true>}"
#define REST "{'temperature': <0.0>, 'max-tokens': <uint32 15>, 'continue': <true>}"

static void
assert_refused (Fixture       *fixture,
                LlmContext    *context,
                const char    *options,
                LlmsvcError code,
                const char    *what)
{
  guint64 revision = context->revision;
  g_autoptr(Answer) answer = go_on (fixture, context, options);

  g_assert_error (answer->error, LLMSVC_ERROR, (int) code);
  g_test_message ("%s", answer->error->message);
  g_assert_nonnull (strstr (answer->error->message, what));
  g_assert_cmpuint (context->revision, ==, revision);
}

/* (transfer full): of the last message, which is an answer. */
static char *
get_last_text (LlmContext *context)
{
  g_autoptr(GVariant) messages = get_messages (context);
  gsize n = g_variant_n_children (messages);
  const char *role;
  char *text;

  g_variant_get_child (messages, n - 1, "(&ss@a{sv})", &role, &text, NULL);
  g_assert_cmpstr (role, ==, "assistant");
  return text;
}

/* As long as one longer answer: its bytes, its tokens, one message, one turn. */
static void
test_pieces (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmContext) straight = create (fixture, "{'system': <'Be kind.'>}");
  g_autoptr(LlmContext) context = create (fixture, "{'system': <'Be kind.'>}");
  g_autofree char *expected = ask (fixture, straight, QUESTION, LONG);
  g_autofree char *next = NULL;
  g_autofree char *next_straight = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GString) joined = g_string_new (NULL);
  g_autoptr(Answer) first = begin_ask (fixture, context, QUESTION, SHORT);
  g_autoptr(GError) error = NULL;

  WAIT_FOR (first->is_finished);
  g_string_append (joined, first->text);
  g_assert_cmpstr (result_string (first, "finish-reason"), ==, "length");
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(Answer) more = go_on (fixture, context, MORE);

      g_assert_no_error (more->error);
      g_assert_cmpuint (result_uint (more, "prompt-tokens"), ==,
                        result_uint (first, "prompt-tokens") + 5 * (i + 1));
      /* but for the last token, whose K and V were not computed */
      g_assert_cmpuint (result_uint (more, "cached-tokens"), ==,
                        result_uint (more, "prompt-tokens") - 1);
      g_assert_cmpuint (context->revision, ==, i + 2);
      g_string_append (joined, more->text);
    }
  g_assert_cmpstr (joined->str, ==, expected);
  text = get_last_text (context);
  g_assert_cmpstr (text, ==, expected);
  g_assert_cmpuint (count_messages (context), ==, 3);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, llm_context_get_tokens (straight));

  /* the tokens are those of one call: what comes behind is alike */
  next = ask (fixture, context, "Italian food, please.", LONG);
  next_straight = ask (fixture, straight, "Italian food, please.", LONG);
  g_assert_cmpstr (next, ==, next_straight);

  /* it is part of the turn that it goes on with */
  g_assert_true (rollback (context, 1, &error));
  g_assert_true (rollback (context, 1, &error));
  g_assert_cmpuint (count_messages (context), ==, 1);
}

/* What is stored is enough; so is the text, where tokens have gone or are another model's. */
static void
test_restart (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(LlmContext) straight = create (fixture, "{}");
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'long'>}");
  g_autofree char *expected = ask (fixture, straight, QUESTION, LONG);
  g_autofree char *first = ask (fixture, context, QUESTION, SHORT);
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(Answer) more = NULL;

      g_clear_object (&context);
      g_clear_object (&straight);
      stop_engine (&fixture->engine);
      fixture->engine = start_engine_with (new_settings (fixture->state, 2));
      context = open_context (fixture, "long", "{}", &error);
      g_assert_no_error (error);
      more = go_on (fixture, context, MORE);
      g_assert_no_error (more->error);
    }
  text = get_last_text (context);
  g_assert_cmpstr (text, ==, expected);
  g_assert_cmpuint (count_messages (context), ==, 2);
}

/* An answer that ended by itself goes on behind its end token; the text has no trace of that. */
static void
test_closed (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(Answer) first = begin_ask (fixture, context, QUESTION,
                                       "{'temperature': <0.0>, 'max-tokens': <uint32 200>}");
  g_autoptr(Answer) more = NULL;
  guint n_tokens;

  WAIT_FOR (first->is_finished);
  g_assert_cmpstr (result_string (first, "finish-reason"), ==, "stop");
  n_tokens = llm_context_get_tokens (context);
  more = go_on (fixture, context, MORE);
  g_assert_no_error (more->error);
  /* greedy, the model ends it again at once */
  g_assert_cmpstr (more->text, ==, "");
  g_assert_cmpuint (result_uint (more, "prompt-tokens"), ==, n_tokens - 1);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, n_tokens);
}

/* An answer that an app has brought is rendered up to its last letter, spaces and all. */
static void
test_brought (Fixture      *fixture,
              gconstpointer data)
{
  static const char history[] =
    "{'name': <'%s'>, 'messages': <[('user', '" GREETING "', @a{sv} {}), ('assistant', \"%s\", {})]>}";
  g_autoptr(LlmContext) straight = create (fixture, "{}");
  g_autofree char *expected = ask (fixture, straight, GREETING, LONG);
  gsize cut = strrchr (expected, ' ') - expected;

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *begun = g_strndup (expected, cut + i);
      g_autofree char *name = g_strdup_printf ("brought-%u", i);
      g_autofree char *options = g_strdup_printf (history, name, begun);
      g_autoptr(LlmContext) context = create (fixture, options);
      g_autoptr(Answer) more = go_on (fixture, context, REST);
      g_autofree char *text = get_last_text (context);
      g_autofree char *whole = g_strconcat (begun, more->text, NULL);
      g_autoptr(GError) error = NULL;

      g_assert_no_error (more->error);
      g_assert_cmpstr (text, ==, whole);
      /* where the cut is one between tokens, the model goes on as it did */
      if (i == 0)
        g_assert_true (g_str_has_prefix (whole, expected));
      g_assert_cmpuint (count_messages (context), ==, 2);
      /* what the context was made with stays */
      g_assert_false (rollback (context, 1, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
      g_clear_error (&error);

      /* as it is stored, too */
      g_clear_object (&context);
      g_clear_object (&straight);
      stop_engine (&fixture->engine);
      fixture->engine = start_engine (fixture->state, 2);
      context = open_context (fixture, name, "{}", &error);
      g_assert_no_error (error);
      g_free (text);
      text = NULL;
      g_assert_cmpuint (count_messages (context), ==, 2);
      text = get_last_text (context);
      g_assert_cmpstr (text, ==, whole);
    }
}

/* One that a stop string cut has no tokens of its own. */
static void
test_stopped (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(LlmContext) straight = create (fixture, "{}");
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *expected = ask (fixture, straight, QUESTION, LONG);
  g_autofree char *word = g_strndup (expected + 4, 3);
  g_autofree char *options =
    g_strdup_printf ("{'temperature': <0.0>, 'max-tokens': <uint32 20>, 'stop': <['%s']>}", word);
  g_autofree char *first = NULL;
  g_autofree char *text = NULL;
  g_autoptr(Answer) more = NULL;
  g_autofree char *whole = NULL;

  first = ask (fixture, context, QUESTION, options);
  g_assert_cmpuint (strlen (first), ==, strstr (expected, word) - expected);
  more = go_on (fixture, context, REST);
  g_assert_no_error (more->error);
  g_assert_cmpuint (strlen (more->text), >, 0);
  whole = g_strconcat (first, more->text, NULL);
  text = get_last_text (context);
  g_assert_cmpstr (text, ==, whole);
}

/* The token of byte @byte, which is a part of “ä”. */
static guint
find_byte_token (Fixture *fixture,
                 guint8   byte)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(LlmModel) model = llm_model_open (path, NULL);
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (model);

  for (guint id = 0; id < tokenizer->n_tokens; id++)
    {
      g_autoptr(GString) text = g_string_new (NULL);

      llm_tokenizer_decode_token (tokenizer, (gint32) id, FALSE, text);
      if (text->len == 1 && (guint8) text->str[0] == byte)
        return id;
    }
  g_assert_not_reached ();
}

/* Cut within a character, the message has all of it in the end. */
static void
test_character (Fixture      *fixture,
                gconstpointer data)
{
  static const char format[] = "{'temperature': <0.0>, 'max-tokens': <uint32 1>, "
                               "'logit-bias': <{uint32 %u: 100.0}>, 'continue': <%s>}";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *first_options =
    g_strdup_printf (format, find_byte_token (fixture, 0xc3), "false");
  g_autofree char *more_options = g_strdup_printf (format, find_byte_token (fixture, 0xa4), "true");
  g_autofree char *first = ask (fixture, context, QUESTION, first_options);
  g_autoptr(Answer) more = go_on (fixture, context, more_options);
  g_autofree char *text = get_last_text (context);

  g_assert_cmpstr (first, ==, "\xef\xbf\xbd");
  g_assert_no_error (more->error);
  g_assert_cmpstr (more->text, ==, "ä");
  g_assert_cmpstr (text, ==, "ä");
}

/* With drafts, and sent twice. */
static void
test_again (Fixture      *fixture,
            gconstpointer data)
{
  static const char options[] = "{'temperature': <0.0>, 'max-tokens': <uint32 5>, "
                                "'continue': <true>, 'draft': <'lookup'>, 'request-id': <'b'>}";
  g_autoptr(LlmContext) straight = create (fixture, "{}");
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'twice'>}");
  g_autofree char *expected = ask (fixture, straight, QUESTION, LONG);
  g_autofree char *first = ask (fixture, context, QUESTION,
                                "{'temperature': <0.0>, 'max-tokens': <uint32 5>, "
                                "'request-id': <'a'>}");
  g_autoptr(Answer) more = go_on (fixture, context, options);
  g_autoptr(Answer) again = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_no_error (more->error);
  g_assert_true (g_str_has_prefix (expected + strlen (first), more->text));
  for (guint i = 0; i < 2; i++)
    {
      again = go_on (fixture, context, options);
      g_assert_no_error (again->error);
      g_assert_cmpstr (again->text, ==, more->text);
      g_assert_true (g_variant_lookup (again->results, "repeated", "b", NULL));
      g_assert_false (g_variant_lookup (again->results, "continued-bytes", "u", NULL));
      g_assert_cmpuint (count_messages (context), ==, 2);
      g_clear_pointer (&again, answer_free);

      g_clear_object (&context);
      g_clear_object (&straight);
      stop_engine (&fixture->engine);
      fixture->engine = start_engine (fixture->state, 2);
      context = open_context (fixture, "twice", "{}", &error);
      g_assert_no_error (error);
    }
}

/* A schema holds all of the answer: what was cut becomes whole. */
static void
test_constrained (Fixture      *fixture,
                  gconstpointer data)
{
  static const char format[] =
    "{'temperature': <0.0>, 'max-tokens': <uint32 %u>, 'regex': <'[a-z]{4} [0-9]{12} end'>%s}";
  g_autoptr(LlmContext) straight = create (fixture, "{}");
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *whole_options = g_strdup_printf (format, 60, "");
  g_autofree char *more_options = g_strdup_printf (format, 60, ", 'continue': <true>");
  g_autofree char *expected = ask (fixture, straight, QUESTION, whole_options);
  g_autofree char *text = NULL;
  g_autofree char *begun = g_strndup (expected, 9);
  g_autofree char *history = g_strdup_printf (
    "{'messages': <[('user', '" QUESTION "', @a{sv} {}), ('assistant', '%s', {})]>}", begun);
  g_autoptr(LlmContext) held = create (fixture, history);
  g_autoptr(Answer) more = go_on (fixture, held, more_options);

  g_assert_true (g_regex_match_simple ("^[a-z]{4} [0-9]{12} end$", expected, 0, 0));
  g_assert_no_error (more->error);
  text = get_last_text (held);
  g_test_message ("%s", text);
  g_assert_true (g_regex_match_simple ("^[a-z]{4} [0-9]{12} end$", text, 0, 0));
  g_assert_true (g_str_has_prefix (text, begun));

  g_free (ask (fixture, context, QUESTION, SHORT));
  assert_refused (fixture, context, more_options, LLMSVC_ERROR_INVALID_OPTION, "continue");
}

static void
test_refused (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(LlmContext) empty = create (fixture, "{}");
  g_autoptr(LlmContext) question =
    create (fixture, "{'messages': <[('user', 'Hello!', @a{sv} {})]>}");
  g_autoptr(LlmContext) calls = create (
    fixture, "{'messages': <[('user', 'Hello!', @a{sv} {}), ('assistant', '', {'tool-calls': "
    "<'[{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": \"clock\", "
    "\"arguments\": \"{}\"}}]'>})]>}");
  g_autoptr(Answer) answer = NULL;

  assert_refused (fixture, empty, MORE, LLMSVC_ERROR_INVALID_ARGUMENT, "empty");
  assert_refused (fixture, question, MORE, LLMSVC_ERROR_INVALID_ARGUMENT, "user");
  assert_refused (fixture, calls, MORE, LLMSVC_ERROR_INVALID_ARGUMENT, "tools");
  answer = begin_ask (fixture, question, "And?", MORE);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
  g_assert_cmpuint (count_messages (question), ==, 1);
  /* false is as if it were not there */
  g_clear_pointer (&answer, answer_free);
  answer = go_on (fixture, question, "{'max-tokens': <uint32 2>, 'continue': <false>}");
  g_assert_no_error (answer->error);
  g_assert_cmpuint (count_messages (question), ==, 2);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) \
  g_test_add ("/engine/continue/" path, Fixture, NULL, set_up_floats, test, tear_down)
  ADD ("pieces", test_pieces);
  ADD ("restart", test_restart);
  ADD ("closed", test_closed);
  ADD ("brought", test_brought);
  ADD ("stopped", test_stopped);
  ADD ("character", test_character);
  ADD ("again", test_again);
  ADD ("constrained", test_constrained);
  ADD ("refused", test_refused);
  return g_test_run ();
}
