/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reasoning, token by token: what is of it and what of the answer, however text is cut into tokens;
 * and a decoder that ends it. */

#include "decoding/llm-decoder.h"

#include <string.h>

#include "constraints/llm-gbnf.h"

#define BEGIN "<think>\n"
#define END "\n</think>\n\n"

typedef struct
{
  LlmTokenizer *tokenizer;
  GHashTable *ids;       /* bytes of tokens → id + 1 */
  GString *reasoning;
  GString *answer;       /* bytes of its tokens, and of those that begin within one */
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "tokenizer", data, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);

  g_assert_no_error (error);
  fixture->tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  fixture->ids = g_hash_table_new_full (g_bytes_hash, g_bytes_equal,
                                        (GDestroyNotify) g_bytes_unref, NULL);
  for (gint32 id = 0; id < (gint32) fixture->tokenizer->n_tokens; id++)
    {
      GString *bytes = g_string_new (NULL);

      llm_tokenizer_decode_token (fixture->tokenizer, id, FALSE, bytes);
      g_hash_table_insert (fixture->ids, g_string_free_to_bytes (bytes), GINT_TO_POINTER (id + 1));
    }
  fixture->reasoning = g_string_new (NULL);
  fixture->answer = g_string_new (NULL);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_tokenizer_free (fixture->tokenizer);
  g_hash_table_unref (fixture->ids);
  g_string_free (fixture->reasoning, TRUE);
  g_string_free (fixture->answer, TRUE);
}

static GArray *
encode (LlmTokenizer *tokenizer,
        const char   *text)
{
  GArray *tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, strlen (text), TRUE };

  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, tokens);
  return tokens;
}

static void
push (Fixture      *fixture,
      LlmReasoning *self,
      gint32        token)
{
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));

  if (llm_reasoning_is_over (self))
    g_array_append_val (tokens, token);
  else
    llm_reasoning_push (self, token, fixture->reasoning, tokens, fixture->answer);
  for (guint i = 0; i < tokens->len; i++)
    llm_tokenizer_decode_token (fixture->tokenizer, g_array_index (tokens, gint32, i), FALSE,
                                fixture->answer);
}

/* The longest token of @max bytes or fewer that @text begins with. */
static gint32
find_token (Fixture    *fixture,
            const char *text,
            gsize       max,
            gsize      *n)
{
  for (*n = MIN (max, strlen (text)); *n > 0; (*n)--)
    {
      g_autoptr(GBytes) bytes = g_bytes_new (text, *n);
      int id = GPOINTER_TO_INT (g_hash_table_lookup (fixture->ids, bytes));

      if (id > 0)
        return id - 1;
    }
  g_assert_not_reached ();
}

/* (transfer full) (element-type gint32): @text in the longest tokens. */
static GArray *
find_tokens (Fixture    *fixture,
             const char *text)
{
  GArray *tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  gsize n;

  for (; *text != '\0'; text += n)
    {
      gint32 token = find_token (fixture, text, 12, &n);

      g_array_append_val (tokens, token);
    }
  return tokens;
}

/* @cut: tokens have so many bytes at most. */
static void
check (Fixture    *fixture,
       LlmThought  thought,
       const char *text,
       gsize       cut,
       const char *reasoning,
       const char *answer)
{
  g_autoptr(LlmReasoning) self =
    llm_reasoning_new (fixture->tokenizer, BEGIN, END, thought, G_MAXUINT);
  g_autoptr(GArray) rest = g_array_new (FALSE, FALSE, sizeof (gint32));
  gsize length = strlen (text);

  g_string_truncate (fixture->reasoning, 0);
  g_string_truncate (fixture->answer, 0);
  for (gsize at = 0; at < length;)
    {
      gsize n;

      push (fixture, self, find_token (fixture, text + at, cut, &n));
      at += n;
    }
  llm_reasoning_finish (self, fixture->reasoning, rest);
  for (guint i = 0; i < rest->len; i++)
    llm_tokenizer_decode_token (fixture->tokenizer, g_array_index (rest, gint32, i), FALSE,
                                fixture->answer);
  g_assert_cmpstr (fixture->reasoning->str, ==, reasoning);
  g_assert_cmpstr (fixture->answer->str, ==, answer);
  g_assert_cmpint (llm_reasoning_get_n (self) > 0, ==, *reasoning != '\0');
}

static void
test_parts (Fixture      *fixture,
            gconstpointer data)
{
  static const struct
  {
    LlmThought thought;
    const char *text;
    const char *reasoning;
    const char *answer;
  } cases[] = {
    { LLM_THOUGHT_INSIDE, "It is two.\n</think>\n\nTwo.", "It is two.", "Two." },
    { LLM_THOUGHT_INSIDE, "\n It is\n\ntwo </think>Two </think> is it",
      "It is\n\ntwo", "Two </think> is it" },
    { LLM_THOUGHT_INSIDE, "a < b, </thin, </think", "a < b, </thin, </think", "" },
    { LLM_THOUGHT_INSIDE, "<</think></</think>x", "<", "</</think>x" },
    { LLM_THOUGHT_INSIDE, "größer als 😀\n</think>\n\n“ä”", "größer als 😀", "“ä”" },
    { LLM_THOUGHT_INSIDE, "cut off", "cut off", "" },
    { LLM_THOUGHT_BEGIN, "<think>\nIt is two.\n</think>\n\nTwo.", "It is two.", "Two." },
    { LLM_THOUGHT_BEGIN, "\n<think>a</think>b", "a", "b" },
    { LLM_THOUGHT_BEGIN, "<thi", "", "<thi" },
    { LLM_THOUGHT_BEGIN, "<this> is <think> a tag</think>", "",
      "<this> is <think> a tag</think>" },
    { LLM_THOUGHT_BEGIN, "Two.", "", "Two." },
    { LLM_THOUGHT_OVER, "<think>a</think>b", "", "<think>a</think>b" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (gsize cut = 1; cut < 12; cut++)
      check (fixture, cases[i].thought, cases[i].text, cut, cases[i].reasoning, cases[i].answer);
}

/* --- a decoder --- */

/* Logits that make @wanted the token. */
static gint32
consume (LlmDecoder *decoder,
         guint       n_vocab,
         gint32      wanted)
{
  g_autofree float *logits = g_new0 (float, n_vocab);
  g_autoptr(GError) error = NULL;
  gint32 token;

  logits[wanted] = 9;
  token = decoder->class->consume (decoder, logits, &error);
  g_assert_no_error (error);
  return token;
}

static const char *grammar_text = "root ::= \"yes\" | \"no\"";

/* (transfer full): what an answer is held to. */
static LlmConstraint *
make_constraint (Fixture *fixture)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (fixture->tokenizer);
  g_autoptr(LlmGrammar) grammar = llm_gbnf_compile (grammar_text, &error);
  g_autoptr(LlmMaskTable) masks = NULL;

  g_assert_no_error (error);
  masks = llm_mask_table_new (grammar, tokens, NULL);
  return llm_constraint_new (masks, TRUE);
}

/* What comes of a model that would generate the tokens of @text, and go on with the token that
 * ends answers; as long as it is asked to. @max_tokens: of an answer that is held to a form; 0: it
 * is not. */
static void
decode_from (Fixture    *fixture,
             LlmThought  thought,
             const char *text,
             guint       budget,
             guint       n,
             guint       max_tokens)
{
  static const LlmSamplerConfig config = { .repeat_penalty = 1, .top_p = 1 };
  guint n_vocab = fixture->tokenizer->n_tokens;
  g_autoptr(LlmReasoning) reasoning =
    llm_reasoning_new (fixture->tokenizer, BEGIN, END, thought, budget);
  g_autoptr(LlmDecoder) decoder =
    max_tokens == 0 ? llm_decoder_new_plain (&config, n_vocab)
                    : llm_decoder_new_constrained (&config, n_vocab, make_constraint (fixture),
                                                   max_tokens);
  g_autoptr(GArray) wanted = find_tokens (fixture, text);

  llm_decoder_set_reasoning (decoder, reasoning);
  g_string_truncate (fixture->reasoning, 0);
  g_string_truncate (fixture->answer, 0);
  for (guint i = 0; i < n; i++)
    {
      gint32 token = consume (decoder, n_vocab, i < wanted->len ? g_array_index (wanted, gint32, i)
                                                                : fixture->tokenizer->eos);

      if (llm_tokenizer_ends_answer (fixture->tokenizer, token)
          && llm_reasoning_get_thought (reasoning) != LLM_THOUGHT_INSIDE)
        break;
      push (fixture, reasoning, token);
    }
  g_assert_cmpint (llm_reasoning_get_thought (reasoning), ==, LLM_THOUGHT_OVER);
}

static void
decode (Fixture    *fixture,
        const char *text,
        guint       budget,
        guint       n)
{
  decode_from (fixture, LLM_THOUGHT_INSIDE, text, budget, n, 0);
}

static void
test_decoder (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(GArray) three = find_tokens (fixture, "One and two");
  g_autoptr(GArray) mark = encode (fixture->tokenizer, END);

  /* the model ends its answer within reasoning */
  decode (fixture, "One and two", G_MAXUINT, three->len + mark->len + 1);
  g_assert_cmpstr (g_strchug (fixture->reasoning->str), ==, "One and two");
  g_assert_cmpstr (fixture->answer->str, ==, "");

  /* it ends it by itself */
  decode (fixture, "One and two\n</think>\n\nThree", G_MAXUINT, 99);
  g_assert_cmpstr (g_strchug (fixture->reasoning->str), ==, "One and two");
  g_assert_cmpstr (fixture->answer->str, ==, "Three");

  /* its tokens are spent, at any of them: of the mark only what is missing is added */
  for (guint budget = 1; budget < three->len + mark->len; budget++)
    {
      decode (fixture, "One and two\n</think>\n\nThree", budget, 99);
      g_assert_true (g_str_has_prefix ("One and two", g_strstrip (fixture->reasoning->str)));
      g_assert_null (strstr (fixture->answer->str, "think"));
    }
}

/* One that thinks although it should not: the mark is closed at once. */
static void
test_off (Fixture      *fixture,
          gconstpointer data)
{
  decode_from (fixture, LLM_THOUGHT_BEGIN, "<think>\nOne and two", 0, 40, 0);
  g_assert_null (strstr (fixture->reasoning->str, "and two"));
  g_assert_null (strstr (fixture->answer->str, "think>"));
  decode_from (fixture, LLM_THOUGHT_BEGIN, "<think>\nOne and two", 0, 40, 20);
  g_assert_cmpstr (fixture->reasoning->str, ==, "");
}

/* What is held to a form is only what follows. */
static void
test_constrained (Fixture      *fixture,
                  gconstpointer data)
{
  static const struct
  {
    LlmThought thought;
    const char *text;
    const char *reasoning;
  } cases[] = {
    { LLM_THOUGHT_INSIDE, "One and two\n</think>\n\nno", "One and two" },
    { LLM_THOUGHT_INSIDE, "One and two</think>Hello", "One and two" },
    /* in one token with the end of the mark, where the vocabulary has it */
    { LLM_THOUGHT_INSIDE, "One and two</think></p>", "One and two" },
    { LLM_THOUGHT_INSIDE, "One and two</think>\n\nyes", "One and two" },
    { LLM_THOUGHT_INSIDE, "One", "One" },
    { LLM_THOUGHT_BEGIN, "<think>\nOne", "One" },
    { LLM_THOUGHT_BEGIN, "no", "" },
    { LLM_THOUGHT_OVER, "<think>", "" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint max_tokens = 40; max_tokens < 60; max_tokens += 5)
      {
        const char *answer;

        decode_from (fixture, cases[i].thought, cases[i].text, G_MAXUINT, 60, max_tokens);
        answer = g_strchug (fixture->answer->str);
        g_test_message ("%u: [%s] %s", i, fixture->reasoning->str, answer);
        g_assert_true (g_str_equal (answer, "yes") || g_str_equal (answer, "no"));
        g_assert_cmpstr (g_strchug (fixture->reasoning->str), ==, cases[i].reasoning);
      }
}

/* What may be the first token of the answer is, though the mark begins so. */
static void
test_ambiguous (Fixture      *fixture,
                gconstpointer data)
{
  const char *before = grammar_text;

  grammar_text = "root ::= [a-z</>]+";
  decode_from (fixture, LLM_THOUGHT_BEGIN, "<think>\nOne", G_MAXUINT, 60, 40);
  g_assert_cmpstr (fixture->reasoning->str, ==, "");
  g_assert_true (g_str_has_prefix (g_strchug (fixture->answer->str), "<think>"));
  grammar_text = before;
}

int
main (int    argc,
      char **argv)
{
  static const char *const files[] = { "smollm.gguf", "llama-spm.gguf", "gpt-2.gguf",
                                       "phi-3.gguf" };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      const char *file = files[i];
      g_autofree char *parts = g_strconcat ("/reasoning/parts/", file, NULL);
      g_autofree char *decoder = g_strconcat ("/reasoning/decoder/", file, NULL);
      g_autofree char *off = g_strconcat ("/reasoning/off/", file, NULL);
      g_autofree char *both = g_strconcat ("/reasoning/ambiguous/", file, NULL);
      g_autofree char *held = g_strconcat ("/reasoning/constrained/", file, NULL);

      g_test_add (parts, Fixture, file, set_up, test_parts, tear_down);
      g_test_add (decoder, Fixture, file, set_up, test_decoder, tear_down);
      g_test_add (off, Fixture, file, set_up, test_off, tear_down);
      g_test_add (both, Fixture, file, set_up, test_ambiguous, tear_down);
      g_test_add (held, Fixture, file, set_up, test_constrained, tear_down);
    }
  return g_test_run ();
}
