/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a constraint allows, for the scripts beside it. Reads lines of JSON: {"kind", "text",
 * "accept": [texts], "walks": N, "seed"}; writes a line for each: {"error"}, or {"unheld": [texts],
 * "accepted": [booleans], "walks": [texts]}, which are texts made of tokens that the masks allow.
 *
 * A text is accepted if the tokenizer's tokens for it are allowed one by one, then the end; and if
 * its bytes alone, as tokens, say the same where the vocabulary has them.
 */

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include "constraints/llm-constraint-cache.h"
#include "constraints/llm-constraint.h"

/* Tokens of a walk before it goes the shortest way to an end. */
#define MAX_WALK 120

static LlmTokenizer *
open_tokenizer (const char *path)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  LlmTokenizer *tokenizer = gguf != NULL ? llm_tokenizer_new (gguf, &error) : NULL;

  g_assert_no_error (error);
  return tokenizer;
}

static gboolean
is_allowed (const guint64 *bits,
            guint32        token)
{
  return (bits[token / 64] >> token % 64 & 1) != 0;
}

/* Whether masks and accept() agree about a token. */
static gboolean
try_token (LlmConstraint *constraint,
           guint64       *bits,
           guint32        token)
{
  gboolean is_accepted;

  llm_constraint_compute_mask (constraint, bits);
  is_accepted = llm_constraint_accept (constraint, (gint32) token);
  g_assert_cmpint (is_accepted, ==, is_allowed (bits, token));
  return is_accepted;
}

static gboolean
accepts (LlmMaskTable *table,
         LlmTokenizer *tokenizer,
         const char   *text)
{
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, TRUE);
  g_autofree guint64 *bits = g_new (guint64, llm_constraint_get_n_words (constraint));
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, strlen (text), FALSE };
  guint n;

  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, ids);
  for (guint i = 0; i < ids->len; i++)
    if (!try_token (constraint, bits, (guint32) g_array_index (ids, gint32, i)))
      return FALSE;
  /* back and forth changes nothing */
  n = ids->len / 2;
  llm_constraint_rollback (constraint, n);
  for (guint i = ids->len - n; i < ids->len; i++)
    g_assert_true (llm_constraint_accept (constraint, g_array_index (ids, gint32, i)));
  return llm_constraint_can_end (constraint);
}

/* Adds a text to @walks that is made of random allowed tokens. */
static void
walk (LlmMaskTable *table,
      LlmTokenizer *tokenizer,
      GRand        *random,
      JsonBuilder  *walks)
{
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, FALSE);
  guint n_words = llm_constraint_get_n_words (constraint);
  g_autofree guint64 *bits = g_new (guint64, n_words);
  g_autoptr(GString) text = g_string_new (NULL);
  guint n_max = (guint) g_rand_int_range (random, 1, MAX_WALK);

  for (guint n = 0;; n++)
    {
      guint n_allowed = 0;
      guint32 token = 0;
      guint chosen;

      if (llm_constraint_can_end (constraint)
          && (n > n_max || g_rand_int_range (random, 0, 4) == 0))
        break;
      llm_constraint_compute_mask (constraint, bits);
      if (n > n_max)
        g_assert_true (
          llm_constraint_limit_mask (constraint, bits,
                                     llm_constraint_get_min_bytes (constraint) - 1));
      for (guint i = 0; i < n_words; i++)
        n_allowed += (guint) __builtin_popcountll (bits[i]);
      g_assert_cmpuint (n_allowed, >, 0);
      chosen = (guint) g_rand_int_range (random, 0, (gint32) n_allowed);
      for (guint i = 0; i < n_words; i++)
        for (guint64 word = bits[i]; word != 0; word &= word - 1)
          if (chosen-- == 0)
            token = i * 64 + (guint) __builtin_ctzll (word);
      if (llm_tokenizer_ends_answer (tokenizer, (gint32) token))
        {
          g_assert_true (llm_constraint_can_end (constraint));
          break;
        }
      g_assert_false (llm_tokenizer_is_control (tokenizer, (gint32) token));
      g_assert_true (llm_constraint_accept (constraint, (gint32) token));
      llm_tokenizer_decode_token (tokenizer, (gint32) token, FALSE, text);
    }
  g_assert_true (g_utf8_validate (text->str, (gssize) text->len, NULL));
  json_builder_add_string_value (walks, text->str);
}

static void
answer (LlmTokenTrie *tokens,
        LlmTokenizer *tokenizer,
        JsonObject   *question,
        JsonBuilder  *builder)
{
  g_autoptr(GError) error = NULL;
  gint64 start = g_get_monotonic_time ();
  LlmConstraintKind kind = (LlmConstraintKind) json_object_get_int_member (question, "kind");
  g_autoptr(LlmGrammar) grammar =
    llm_constraint_compile (NULL, kind, json_object_get_string_member (question, "text"), &error);
  JsonArray *texts = json_object_get_array_member (question, "accept");
  gint64 n_walks = json_object_get_int_member (question, "walks");
  g_autoptr(GRand) random =
    g_rand_new_with_seed ((guint32) json_object_get_int_member (question, "seed"));
  g_autoptr(LlmMaskTable) table = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "us");
  json_builder_add_int_value (builder, g_get_monotonic_time () - start);
  if (grammar == NULL)
    {
      json_builder_set_member_name (builder, "error");
      json_builder_add_string_value (builder, error->message);
      json_builder_end_object (builder);
      return;
    }
  table = llm_mask_table_new (grammar, tokens, NULL);
  json_builder_set_member_name (builder, "states");
  json_builder_add_int_value (builder, grammar->n_states);
  json_builder_set_member_name (builder, "unheld");
  json_builder_begin_array (builder);
  for (guint i = 0; grammar->unheld != NULL && grammar->unheld[i] != NULL; i++)
    json_builder_add_string_value (builder, grammar->unheld[i]);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "accepted");
  json_builder_begin_array (builder);
  for (guint i = 0; i < json_array_get_length (texts); i++)
    json_builder_add_boolean_value (
      builder, accepts (table, tokenizer, json_array_get_string_element (texts, i)));
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "walks");
  json_builder_begin_array (builder);
  for (gint64 i = 0; i < n_walks; i++)
    walk (table, tokenizer, random, builder);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

int
main (int    argc,
      char **argv)
{
  g_autoptr(LlmTokenizer) tokenizer = open_tokenizer (argv[1]);
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (tokenizer);
  g_autofree char *line = NULL;
  gsize size = 0;

  while (getline (&line, &size, stdin) > 0)
    {
      g_autoptr(JsonParser) parser = json_parser_new ();
      g_autoptr(JsonBuilder) builder = json_builder_new ();
      g_autoptr(JsonNode) root = NULL;
      g_autofree char *text = NULL;
      g_autoptr(GError) error = NULL;

      json_parser_load_from_data (parser, line, -1, &error);
      g_assert_no_error (error);
      answer (tokens, tokenizer, json_node_get_object (json_parser_get_root (parser)), builder);
      root = json_builder_get_root (builder);
      text = json_to_string (root, FALSE);
      puts (text);
      fflush (stdout);
    }
  return 0;
}
