/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any schema, regular expression, grammar or tools: the first byte says which. What is compiled is
 * walked for a while with a small vocabulary of bytes, where masks and accept() must agree, and an
 * end must stay within reach. An answer that had to call tools is read. */

#include <stddef.h>
#include <stdint.h>

#include "common/llmsvc-error.h"
#include "constraints/llm-constraint-cache.h"
#include "constraints/llm-constraint.h"
#include "constraints/tools/llm-call-read.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* One token a byte, and token 256 that ends the answer. */
static LlmTokenTrie *
make_tokens (void)
{
  LlmTokenTrie *tokens = g_new0 (LlmTokenTrie, 1);
  LlmTrie *trie = &tokens->tries[0];
  guint32 end = 256;

  g_atomic_ref_count_init (&tokens->ref_count);
  tokens->n_tokens = 257;
  tokens->max_bytes = 1;
  tokens->endings = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_val (tokens->endings, end);
  tokens->text = g_malloc (256);
  tokens->offsets = g_new (guint32, 258);
  trie->n_nodes = 256;
  trie->bytes = g_malloc (256);
  trie->ends = g_new (guint32, 256);
  trie->tokens = g_new (guint32, 256);
  trie->first_tokens = g_new (guint32, 257);
  for (guint32 i = 0; i < 256; i++)
    {
      tokens->text[i] = (char) i;
      tokens->offsets[i] = i;
      trie->bytes[i] = (guint8) i;
      trie->ends[i] = i + 1;
      trie->tokens[i] = i;
      trie->first_tokens[i] = i;
    }
  tokens->offsets[256] = tokens->offsets[257] = 256;
  trie->first_tokens[256] = 256;
  /* longer ones: none */
  for (guint i = 1; i < LLM_N_TOKEN_LENGTHS; i++)
    tokens->tries[i].first_tokens = g_new0 (guint32, 1);
  return tokens;
}

/* Whether the text came to an end. */
static gboolean
walk (LlmMaskTable *table,
      guint32       random,
      GString      *text)
{
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, FALSE);
  guint64 bits[5];

  for (guint n = 0; n < 256; n++)
    {
      guint n_allowed = 0;
      guint chosen;

      llm_constraint_compute_mask (constraint, bits);
      for (guint i = 0; i < G_N_ELEMENTS (bits); i++)
        n_allowed += (guint) __builtin_popcountll (bits[i]);
      g_assert_cmpuint (n_allowed, >, 0);
      random = random * 1664525 + 1013904223;
      chosen = (random >> 8) % n_allowed;
      for (gint32 token = 0; token < 257; token++)
        if ((bits[token / 64] >> token % 64 & 1) != 0 && chosen-- == 0)
          {
            g_assert_true (llm_constraint_accept (constraint, token));
            if (token == 256)
              return TRUE;
            g_string_append_c (text, (char) token);
            break;
          }
    }
  return FALSE;
}

/* The general way of calls, of no model in particular: all that the grammar allows can be read. */
static void
read_calls (const GString *answer,
            gboolean       is_whole)
{
  g_autoptr(LlmCallFormat) format = llm_call_format_new (NULL, NULL);
  gboolean is_cut;
  g_autofree char *calls = llm_call_format_read (format, NULL, answer->str, answer->len, &is_cut);

  if (is_whole)
    {
      g_assert_nonnull (calls);
      g_assert_false (is_cut);
      g_assert_true (g_utf8_validate (calls, -1, NULL));
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGrammar) grammar = NULL;
  g_autoptr(LlmTokenTrie) tokens = NULL;
  g_autoptr(LlmMaskTable) table = NULL;
  gboolean has_tools = size > 0 && data[0] >= 0x80;

  if (size < 1)
    return 0;
  text = g_strndup ((const char *) data + 1, size - 1);
  /* options are valid UTF-8 */
  if (!g_utf8_validate (text, -1, NULL))
    return 0;
  if (has_tools)
    {
      char *tools = text;

      text = llm_constraint_write_tools (tools, "required", NULL, TRUE, FALSE);
      g_free (tools);
    }
  grammar = llm_constraint_compile (NULL,
                                    has_tools ? LLM_CONSTRAINT_TOOLS
                                              : LLM_CONSTRAINT_JSON_SCHEMA + data[0] % 3u,
                                    text, &error);
  if (grammar == NULL)
    {
      g_assert_true (error->domain == LLMSVC_ERROR);
      g_assert_true (g_utf8_validate (error->message, -1, NULL));
      return 0;
    }
  tokens = make_tokens ();
  table = llm_mask_table_new (grammar, tokens, NULL);
  for (guint32 i = 0; i < 4; i++)
    {
      g_autoptr(GString) answer = g_string_new (NULL);
      gboolean is_whole = walk (table, i * 77 + (guint32) size, answer);

      if (has_tools)
        read_calls (answer, is_whole);
    }
  return 0;
}
