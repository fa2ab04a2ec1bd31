/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Masks beside what is allowed token by token, for every kind of vocabulary; going back, copies,
 * ends, grammars and regular expressions, and what is refused. */

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "constraints/llm-compile-work.h"
#include "constraints/llm-constraint-cache.h"
#include "constraints/llm-constraint.h"
#include "constraints/llm-json-values.h"
#include "decoding/llm-decoder.h"

static const char *const vocabularies[] = { "gpt-2", "llama-spm", "phi-3", "smollm",
                                            "deepseek-coder" };

static LlmTokenizer *
open_vocabulary (const char *name)
{
  g_autofree char *path =
    g_strdup_printf ("%s/tokenizer/%s.gguf", g_getenv ("LLM_TEST_DATA"), name);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  LlmTokenizer *tokenizer = gguf != NULL ? llm_tokenizer_new (gguf, &error) : NULL;

  g_assert_no_error (error);
  return tokenizer;
}

static LlmMaskTable *
compile (LlmTokenTrie      *tokens,
         LlmConstraintKind  kind,
         const char        *text)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGrammar) grammar = llm_constraint_compile (NULL, kind, text, &error);

  g_assert_no_error (error);
  return llm_mask_table_new (grammar, tokens, NULL);
}

/* Takes the text byte by byte where the vocabulary has byte tokens, else as the tokenizer does. */
static gboolean
matches (LlmTokenizer      *tokenizer,
         LlmTokenTrie      *tokens,
         LlmConstraintKind  kind,
         const char        *grammar,
         const char        *text)
{
  g_autoptr(LlmMaskTable) table = compile (tokens, kind, grammar);
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, TRUE);
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, strlen (text), FALSE };

  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, ids);
  for (guint i = 0; i < ids->len; i++)
    if (!llm_constraint_accept (constraint, g_array_index (ids, gint32, i)))
      return FALSE;
  return llm_constraint_can_end (constraint);
}

/* The mask of each place in a walk is what accept() says, token by token. */
static void
check_walk (LlmTokenizer *tokenizer,
            LlmMaskTable *table,
            gboolean      skips_space,
            GRand        *random)
{
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, skips_space);
  g_autofree guint64 *bits = g_new (guint64, llm_constraint_get_n_words (constraint));
  g_autoptr(GArray) allowed = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint n = 0; n < 12; n++)
    {
      guint32 token;

      llm_constraint_compute_mask (constraint, bits);
      g_array_set_size (allowed, 0);
      for (token = 0; token < tokenizer->n_tokens; token++)
        {
          gboolean is_set = (bits[token / 64] >> token % 64 & 1) != 0;
          gboolean is_accepted = llm_constraint_accept (constraint, (gint32) token);

          g_assert_cmpint (is_set, ==, is_accepted);
          if (is_accepted)
            llm_constraint_rollback (constraint, 1);
          if (llm_tokenizer_ends_answer (tokenizer, (gint32) token))
            g_assert_cmpint (is_set, ==, llm_constraint_can_end (constraint));
          else if (is_set)
            {
              g_assert_false (llm_tokenizer_is_control (tokenizer, (gint32) token));
              g_array_append_val (allowed, token);
            }
        }
      g_assert_cmpuint (llm_constraint_get_n (constraint), ==, n);
      if (allowed->len == 0)
        {
          g_assert_true (llm_constraint_can_end (constraint));
          return;
        }
      token = g_array_index (allowed, guint32,
                             (guint) g_rand_int_range (random, 0, (gint32) allowed->len));
      g_assert_true (llm_constraint_accept (constraint, (gint32) token));
    }
}

static const struct
{
  LlmConstraintKind kind;
  const char *text;
} samples[] = {
  { LLM_CONSTRAINT_JSON, "" },
  { LLM_CONSTRAINT_JSON_SCHEMA,
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", \"maxLength\": 9}, "
    "\"b\": {\"type\": [\"number\", \"null\"]}}, \"required\": [\"b\"]}" },
  { LLM_CONSTRAINT_REGEX, "(?:né|naïve|日本語?)[ -~]{0,20}!" },
  { LLM_CONSTRAINT_REGEX, " ?x*" },
  /* states that differ only behind some tokens, or behind all but the longest */
  { LLM_CONSTRAINT_REGEX, "(?:[a-z ]{1,7}|[a-z ]{9,11})\\.(?: [A-Za-z]{3,18}){2}\\." },
  { LLM_CONSTRAINT_REGEX, "[ =*-]{1,40}(?:[ -~]{2}){1,9}" },
  { LLM_CONSTRAINT_JSON_SCHEMA,
    "{\"type\": \"array\", \"maxItems\": 3, \"items\": {\"type\": \"string\", "
    "\"minLength\": 2, \"maxLength\": 19}}" },
  { LLM_CONSTRAINT_GRAMMAR,
    "root ::= expr (\" \" [-+] \" \" expr)*\nexpr ::= [0-9]+ | \"(\" root \")\"\n" },
};

static void
test_masks (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (vocabularies); i++)
    {
      g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (vocabularies[i]);
      g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (tokenizer);
      g_autoptr(GRand) random = g_rand_new_with_seed (i);

      for (guint k = 0; k < G_N_ELEMENTS (samples); k++)
        {
          g_autoptr(LlmMaskTable) table = compile (tokens, samples[k].kind, samples[k].text);

          check_walk (tokenizer, table, k % 2 == 0, random);
          check_walk (tokenizer, table, k % 2 != 0, random);
        }
    }
}

/* A character that several tokens spell: each of them is allowed only where it belongs. */
static void
test_split_characters (void)
{
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary ("llama-spm");
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (tokenizer);
  g_autoptr(LlmMaskTable) table =
    compile (tokens, LLM_CONSTRAINT_REGEX, "[\\u{1F600}-\\u{1F64F}]+");
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, FALSE);
  static const guint8 smile[] = { 0xf0, 0x9f, 0x98, 0x80 };

  /* <0x00> is token 3 */
  g_assert_false (llm_constraint_accept (constraint, 3 + 0x9f));
  for (guint i = 0; i < G_N_ELEMENTS (smile); i++)
    {
      g_assert_false (llm_constraint_can_end (constraint));
      g_assert_cmpuint (llm_constraint_get_min_bytes (constraint), ==, 4 - i);
      g_assert_true (llm_constraint_accept (constraint, 3 + smile[i]));
    }
  g_assert_true (llm_constraint_can_end (constraint));
  g_assert_true (llm_constraint_accept (constraint, 3 + 0xf0));
  g_assert_false (llm_constraint_accept (constraint, 3 + 0x90));
}

static void
test_back_and_forth (void)
{
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary ("gpt-2");
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (tokenizer);
  g_autoptr(LlmMaskTable) table = compile (tokens, LLM_CONSTRAINT_JSON, "");
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, FALSE);
  g_autoptr(LlmConstraint) copy = NULL;
  guint n_words = llm_constraint_get_n_words (constraint);
  g_autofree guint64 *before = g_new (guint64, n_words);
  g_autofree guint64 *after = g_new (guint64, n_words);
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { "{\"a\":[[[{\"b\":\"c\"}]]]}", 21, FALSE };

  part.length = strlen (part.text);
  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, ids);
  for (guint i = 0; i < ids->len; i++)
    {
      g_clear_pointer (&copy, llm_constraint_free);
      llm_constraint_compute_mask (constraint, before);
      for (guint k = i; k < ids->len; k++)
        g_assert_true (llm_constraint_accept (constraint, g_array_index (ids, gint32, k)));
      g_assert_true (llm_constraint_can_end (constraint));
      copy = llm_constraint_copy (constraint);
      llm_constraint_rollback (copy, ids->len - i);
      llm_constraint_rollback (constraint, ids->len - i);
      llm_constraint_compute_mask (copy, after);
      g_assert_cmpmem (before, n_words * 8, after, n_words * 8);
      llm_constraint_compute_mask (constraint, after);
      g_assert_cmpmem (before, n_words * 8, after, n_words * 8);
      g_assert_true (llm_constraint_accept (constraint, g_array_index (ids, gint32, i)));
    }
}

static void
test_texts (void)
{
  static const struct
  {
    LlmConstraintKind kind;
    const char *grammar;
    const char *text;
    gboolean matches;
  } cases[] = {
    { LLM_CONSTRAINT_REGEX, "a{2,3}", "aaa", TRUE },
    { LLM_CONSTRAINT_REGEX, "a{2,3}", "aaaa", FALSE },
    { LLM_CONSTRAINT_REGEX, "^(?:x|y)+$", "xyx", TRUE },
    { LLM_CONSTRAINT_REGEX, "\\w+@\\w+\\.[a-z]{2,}", "me@here.org", TRUE },
    { LLM_CONSTRAINT_REGEX, "\\w+@\\w+\\.[a-z]{2,}", "me@here", FALSE },
    { LLM_CONSTRAINT_REGEX, "[^\\d\\s]+", "äöü", TRUE },
    { LLM_CONSTRAINT_REGEX, "[^\\d\\s]+", "ä1", FALSE },
    { LLM_CONSTRAINT_REGEX, "(?:^a|b)c|d$", "ac", TRUE },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= \"a\" root \"b\" | \"\"", "aabb", TRUE },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= \"a\" root \"b\" | \"\"", "aab", FALSE },
    { LLM_CONSTRAINT_GRAMMAR,
      "# c\nroot ::= x{2,3} # d\nx ::= [^\\n\"] |\n  \"\\x41\\u00e4\"", "zyA\xc3\xa4", TRUE },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= (\"a\" |\n \"b\")* y?\ny::=.", "abab!", TRUE },
    { LLM_CONSTRAINT_JSON_SCHEMA,
      "{\"required\": [\"next\"], \"properties\": {\"next\": {\"anyOf\": [{\"$ref\": \"#\"}, "
      "{\"type\": \"null\"}]}}, \"type\": \"object\"}", "{\"next\":{\"next\":null}}", TRUE },
    { LLM_CONSTRAINT_JSON, "", "[1]", FALSE },
    { LLM_CONSTRAINT_JSON, "", "{\"a\": [1, 2.50, {\"b\":null}], \"c\":\"\\u001f\\n\"}", TRUE },
    { LLM_CONSTRAINT_JSON, "", "{\"a\":01}", FALSE },
    { LLM_CONSTRAINT_JSON, "", "{\"a\":1,}", FALSE },
  };
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary ("gpt-2");
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (tokenizer);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("%s: %s", cases[i].grammar, cases[i].text);
      g_assert_cmpint (
        matches (tokenizer, tokens, cases[i].kind, cases[i].grammar, cases[i].text), ==,
        cases[i].matches);
    }
}

static void
test_refused (void)
{
  static const struct
  {
    LlmConstraintKind kind;
    const char *text;
    const char *message;
  } cases[] = {
    { LLM_CONSTRAINT_REGEX, "(a", "regex: the regular expression at character 3" },
    { LLM_CONSTRAINT_REGEX, "a(?=b)", "no text keeps to it" },
    { LLM_CONSTRAINT_REGEX, "(?:(?!b)a)*", "looking ahead" },
    { LLM_CONSTRAINT_REGEX, "a(?<=b)", "looking behind" },
    { LLM_CONSTRAINT_REGEX, "\\p{Nothing}", "the property \\p{Nothing} is not known" },
    { LLM_CONSTRAINT_REGEX, "(a)\\1", "references to groups" },
    { LLM_CONSTRAINT_REGEX, "\\bword", "word boundaries" },
    { LLM_CONSTRAINT_REGEX, "(?:[ab]{1000}){1000}", "too large" },
    { LLM_CONSTRAINT_REGEX, "(?:a|b)*a(?:a|b){40}", "too large" },
    { LLM_CONSTRAINT_REGEX, "[]", "no text keeps to it" },
    { LLM_CONSTRAINT_REGEX, "a$b", "no text keeps to it" },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= root \"a\" | \"b\"", "“root” begins with itself" },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= a\na ::= b? root | \"y\"\nb ::= \"x\"",
      "begins with itself" },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= x\n\n", "grammar: line 1: the rule “x” is not defined" },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= \"a\nx ::= y", "line" },
    { LLM_CONSTRAINT_GRAMMAR, "a ::= \"x\"", "the rule “root” is not defined" },
    { LLM_CONSTRAINT_GRAMMAR, "root ::= \"a\" root", "no text keeps to it" },
    { LLM_CONSTRAINT_JSON_SCHEMA, "{\"type\": \"object\",}", "schema: it is no JSON, line 1" },
    { LLM_CONSTRAINT_JSON_SCHEMA, "{\"properties\": {\"a/b\": {\"required\": 5}}}",
      "schema: #/properties/a~1b/required: it must be an array of strings" },
    { LLM_CONSTRAINT_JSON_SCHEMA, "{\"$schema\": \"https://example.org/x\"}", "#/$schema: " },
    { LLM_CONSTRAINT_JSON_SCHEMA, "{\"$ref\": \"https://example.org/x\"}", "#/$ref: " },
    { LLM_CONSTRAINT_JSON_SCHEMA, "{\"$ref\": \"#\"}", "refers to itself" },
    { LLM_CONSTRAINT_JSON_SCHEMA,
      "{\"type\": \"string\", \"pattern\": \"^a*$\", \"maxLength\": 100000000}", "#: minLength and maxLength of" },
    { LLM_CONSTRAINT_JSON_SCHEMA, "{\"type\": \"array\", \"uniqueItems\": true}", "uniqueItems" },
    { LLM_CONSTRAINT_JSON_SCHEMA, "{\"allOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}",
      "no text keeps to it" },
    { LLM_CONSTRAINT_JSON_SCHEMA,
      "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
      "no text keeps to it" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GError) error = NULL;

      g_test_message ("%s", cases[i].text);
      g_assert_null (llm_constraint_compile (NULL, cases[i].kind, cases[i].text, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, cases[i].message));
    }
}

/* (transfer full): “root ::= "a" r0”, and @n rules that are the next one, the last of them “b”. */
static char *
make_chain (guint n)
{
  GString *text = g_string_new ("root ::= \"a\" r0\n");

  for (guint i = 0; i + 1 < n; i++)
    g_string_append_printf (text, "r%u ::= r%u\n", i, i + 1);
  g_string_append_printf (text, "r%u ::= \"b\"\n", n - 1);
  return g_string_free (text, FALSE);
}

/* Rules that call each other as deeply as can be followed, and one deeper. */
static void
test_deep (void)
{
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary ("gpt-2");
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (tokenizer);
  g_autofree char *good = make_chain (LLM_MAX_THREADS - 2);
  g_autofree char *bad = make_chain (LLM_MAX_THREADS - 1);
  g_autoptr(GError) error = NULL;

  g_assert_true (matches (tokenizer, tokens, LLM_CONSTRAINT_GRAMMAR, good, "ab"));
  g_assert_false (matches (tokenizer, tokens, LLM_CONSTRAINT_GRAMMAR, good, "aa"));
  g_assert_null (llm_constraint_compile (NULL, LLM_CONSTRAINT_GRAMMAR, bad, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
  g_assert_nonnull (strstr (error->message, "“root” a text may go on in 500 ways"));
}

/* --- what compiling costs --- */

/* (transfer full): @n times @part, whose “%u” are numbers, between @begin and @end. */
static char *
repeat (const char *begin,
        guint       n,
        const char *separator,
        const char *part,
        const char *end)
{
  g_autoptr(GString) text = g_string_new (begin);

  for (guint i = 0; i < n; i++)
    {
      g_autofree char *number = g_strdup_printf ("%u", i);
      g_auto(GStrv) pieces = g_strsplit (part, "%u", -1);
      g_autofree char *one = g_strjoinv (number, pieces);

      g_string_append_printf (text, "%s%s", i > 0 ? separator : "", one);
    }
  g_string_append (text, end);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Compiles in a child, which says what it took. @is_compiled: else it is refused. */
static void
check_cost (const char        *name,
            LlmConstraintKind  kind,
            const char        *text,
            gboolean           is_compiled)
{
  pid_t child = fork ();
  int status;

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      g_autoptr(GError) reason = NULL, limit = NULL;
      gint64 begin_us = llm_clock_thread_us ();
      struct rusage before, after;
      LlmGrammar *grammar;
      LlmCompileWork work;
      gboolean is_within;

      getrusage (RUSAGE_SELF, &before);
      llm_compile_work_begin (&work, NULL, NULL);
      grammar = llm_constraint_compile (NULL, kind, text, &reason);
      is_within = llm_compile_work_end (&work, &limit);
      getrusage (RUSAGE_SELF, &after);
      printf ("# %s: %s, %.2f s, %ld MiB more at most%s%s\n", name,
              is_within && grammar != NULL ? "compiled" : "refused",
              (double) (llm_clock_thread_us () - begin_us) / G_USEC_PER_SEC,
              (after.ru_maxrss - before.ru_maxrss) >> 10, is_within && grammar != NULL ? "" : ": ",
              limit != NULL ? limit->message : reason != NULL ? reason->message : "");
      fflush (stdout);
      _exit (is_compiled == (is_within && grammar != NULL) ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
}

/* What is being compiled is held by somebody, too. */
static void
test_counted (void)
{
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();
  LlmCompileWork work;

  llm_compile_work_begin (&work, ledger, NULL);
  g_assert_true (llm_compile_work_count (0, 5 << 20));
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_CONSTRAINTS), ==, 5 << 20);
  g_assert_true (llm_compile_work_count (0, -(3 << 20)));
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_CONSTRAINTS), ==, 2 << 20);
  g_assert_true (llm_compile_work_end (&work, NULL));
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_CONSTRAINTS), ==, 0);
}

/* What says how numbers are written is small enough to be finished once the time is up. */
static void
test_spent (void)
{
  const LlmDecimal low = { FALSE, (char *) "0", (char *) "12345678901234566" };
  const LlmDecimal high = { FALSE, (char *) "0", (char *) "12345678901234568" };
  g_autoptr(LlmAutomaton) above = llm_json_numbers_by (&low, FALSE, FALSE, TRUE);
  g_autoptr(LlmAutomaton) below = llm_json_numbers_by (&high, TRUE, FALSE, FALSE);
  g_autoptr(LlmAutomaton) numbers = llm_automaton_combine (above, below, LLM_COMBINE_AND);
  g_autoptr(LlmAutomaton) written = llm_json_numbers_to_write (numbers);
  g_autoptr(LlmAutomaton) late = NULL;
  LlmCompileWork work;

  g_assert_true (llm_automaton_accepts (written, "0.12345678901234567", strlen ("0.12345678901234567")));
  llm_compile_work_begin (&work, NULL, NULL);
  work.is_late = TRUE;
  late = llm_json_numbers_to_write (numbers);
  g_assert_nonnull (late);
  g_assert_false (llm_compile_work_end (&work, NULL));
}

/* What would take minutes, or gigabytes, is refused in two seconds; what users write is compiled. */
static void
test_costs (void)
{
  const struct
  {
    const char *name;
    LlmConstraintKind kind;
    gboolean is_compiled;
    const char *begin, *separator, *part, *end;
    guint n;
  } cases[] = {
    { "5,000 rules that explode", LLM_CONSTRAINT_GRAMMAR, FALSE, "root ::= r0\n", "\n",
      "r%u ::= (((\"a\"*){10000}){8}) | \"a\"{40} | \"%u\"", "", 5000 },
    { "one that does", LLM_CONSTRAINT_GRAMMAR, FALSE, "root ::= ", "", "(((\"a\"*){10000}){8}) | \"a\"{40}", "", 1 },
    { "enum of 1,000 integers", LLM_CONSTRAINT_JSON_SCHEMA, TRUE, "{\"enum\": [", ", ", "1%u7", "]}", 1000 },
    { "enum of 1,000 decimals", LLM_CONSTRAINT_JSON_SCHEMA, TRUE, "{\"enum\": [", ", ", "%u.5", "]}", 1000 },
    { "enum of 1,000 strings", LLM_CONSTRAINT_JSON_SCHEMA, TRUE, "{\"enum\": [", ", ", "\"name %u\"", "]}", 1000 },
    { "allOf of patterns", LLM_CONSTRAINT_JSON_SCHEMA, FALSE, "{\"type\": \"string\", \"allOf\": [", ", ",
      "{\"pattern\": \"(a|b)*a(a|b){1%u}\"}", "]}", 8 },
    { "12 patternProperties", LLM_CONSTRAINT_JSON_SCHEMA, FALSE, "{\"type\": \"object\", \"patternProperties\": {",
      ", ", "\"%u.*a.*%u\": {\"maximum\": %u}", "}}", 12 },
    { "100 properties of up to 100 characters", LLM_CONSTRAINT_JSON_SCHEMA, TRUE,
      "{\"type\": \"object\", \"properties\": {", ", ",
      "\"property%u\": {\"type\": \"string\", \"maxLength\": 100}", "}}", 100 },
    { "20 properties of up to 100 characters", LLM_CONSTRAINT_JSON_SCHEMA, TRUE,
      "{\"type\": \"object\", \"properties\": {", ", ",
      "\"property%u\": {\"type\": \"string\", \"maxLength\": 100}", "}}", 20 },
    { "a MiB of anyOf", LLM_CONSTRAINT_JSON_SCHEMA, FALSE, "{\"anyOf\": [", ", ",
      "{\"properties\": {\"%u\": {\"pattern\": \"a%ub*\"}}}", "]}", 20000 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = repeat (cases[i].begin, cases[i].n, cases[i].separator, cases[i].part, cases[i].end);

      check_cost (cases[i].name, cases[i].kind, text, cases[i].is_compiled);
    }
}

/* Whatever the logits say, and however few tokens there are, the text ends where it may. */
static void
test_ends (void)
{
  static const char schema[] =
    "{\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {\"text\": "
    "{\"type\": \"string\"}}, \"required\": [\"text\"], \"additionalProperties\": false}}";
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary ("smollm");
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (tokenizer);
  g_autoptr(LlmMaskTable) table = compile (tokens, LLM_CONSTRAINT_JSON_SCHEMA, schema);
  g_autofree float *logits = g_new (float, tokenizer->n_tokens + 100);
  g_autoptr(GRand) random = g_rand_new_with_seed (1);

  for (guint max_tokens = 4; max_tokens < 60; max_tokens++)
    {
      LlmSamplerConfig config = { .temperature = max_tokens % 2 != 0 ? 1.5f : 0, .top_p = 1,
                                  .repeat_penalty = 1, .seed = max_tokens };
      g_autoptr(LlmDecoder) decoder =
        llm_decoder_new_constrained (&config, tokenizer->n_tokens + 100,
                                     llm_constraint_new (table, FALSE), max_tokens);
      g_autoptr(GString) text = g_string_new (NULL);
      g_autoptr(GError) error = NULL;
      gint32 token = -1;
      guint n;

      for (n = 0; n < max_tokens; n++)
        {
          for (guint i = 0; i < tokenizer->n_tokens + 100; i++)
            logits[i] = (float) g_rand_double_range (random, -5, 5);
          token = decoder->class->consume (decoder, logits, &error);
          g_assert_no_error (error);
          if (llm_tokenizer_ends_answer (tokenizer, token))
            break;
          llm_tokenizer_decode_token (tokenizer, token, TRUE, text);
        }
      g_test_message ("%u: %s", max_tokens, text->str);
      g_assert_cmpuint (n, <, max_tokens);
      g_assert_true (g_str_has_suffix (text->str, "]"));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/constraints/masks", test_masks);
  g_test_add_func ("/constraints/split-characters", test_split_characters);
  g_test_add_func ("/constraints/back-and-forth", test_back_and_forth);
  g_test_add_func ("/constraints/texts", test_texts);
  g_test_add_func ("/constraints/refused", test_refused);
  g_test_add_func ("/constraints/deep", test_deep);
  g_test_add_func ("/constraints/costs", test_costs);
  g_test_add_func ("/constraints/counted", test_counted);
  g_test_add_func ("/constraints/spent", test_spent);
  g_test_add_func ("/constraints/ends", test_ends);
  return g_test_run ();
}
