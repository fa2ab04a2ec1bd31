/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Words as the published patterns cut them: vocabularies without tokens of
 * several digits, say, would not show a wrong cut. */

#include "model/tokenizer/llm-pretokenizer.h"

#include <string.h>

static const char *const names[] = { "gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-coder" };

static void
collect_word (const char *word,
              gsize       length,
              gpointer    user_data)
{
  g_autofree char *copy = g_strndup (word, length);

  g_assert_cmpuint (length, >, 0);
  g_ptr_array_add (user_data, g_steal_pointer (&copy));
}

static GPtrArray *
split (const char *name,
       const char *text)
{
  GPtrArray *words = g_ptr_array_new_with_free_func (g_free);
  const LlmPretokenizer *self = llm_pretokenizer_find (name);

  g_assert_nonnull (self);
  llm_pretokenizer_split (self, text, strlen (text), collect_word, words);
  return words;
}

static void
test_words (gconstpointer user_data)
{
  const char *name = user_data;
  g_autofree char *file = g_strconcat (name, ".words", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "tokenizer", "pre", file,
                                            NULL);
  g_autofree char *contents = NULL;
  g_auto(GStrv) lines = NULL;
  g_autoptr(GError) error = NULL;
  guint n_checked = 0;

  g_file_get_contents (path, &contents, NULL, &error);
  g_assert_no_error (error);
  lines = g_strsplit (contents, "\n", -1);
  for (guint i = 0; lines[i + 1] != NULL; i++)
    {
      g_auto(GStrv) wanted = g_strsplit (lines[i], " ", -1);
      g_autoptr(GString) text = g_string_new (NULL);
      g_autoptr(GPtrArray) words = NULL;
      gboolean has_nul = strstr (lines[i], "%00") != NULL;

      if (has_nul)
        continue;
      for (guint j = 0; wanted[j] != NULL; j++)
        {
          char *word = g_uri_unescape_string (wanted[j], NULL);

          g_free (wanted[j]);
          wanted[j] = word;
          g_string_append (text, word);
        }
      words = split (name, text->str);
      for (guint j = 0; j < words->len; j++)
        g_assert_cmpstr (g_ptr_array_index (words, j), ==, wanted[j]);
      g_assert_cmpuint (words->len, ==, g_strv_length (wanted));
      n_checked++;
    }
  g_assert_cmpuint (n_checked, >, 80);
}

static void
test_names (void)
{
  g_autofree char *list = llm_pretokenizer_list_names ();

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_assert_nonnull (strstr (list, names[i]));
      g_assert_cmpint (llm_pretokenizer_find (names[i])->ignores_merges, ==,
                       g_str_equal (names[i], "llama-bpe"));
    }
  g_assert_null (llm_pretokenizer_find ("default"));
  g_assert_null (llm_pretokenizer_find (""));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/pretokenizer/names", test_names);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_strconcat ("/pretokenizer/words/", names[i], NULL);

      g_test_add_data_func (path, names[i], test_words);
    }

  return g_test_run ();
}
