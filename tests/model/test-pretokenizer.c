/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Words as the published patterns cut them, and ids as llama.cpp has them for hard texts with a
 * vocabulary in which a wrong cut shows (tests/data/tokenizer/make-pre.py). */

#include "tokenizer/llm-pretokenizer.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "support/llm-test-gguf.h"
#include "tokenizer/llm-tokenizer.h"

#define N_SHOWN 100
#define TYPE_NORMAL 1
#define TYPE_BYTE 6

static const char *const published[] = { "gpt-2", "smollm", "llama-bpe", "qwen2" };

static char *
read_data (const char *name,
           const char *suffix)
{
  g_autofree char *file = g_strconcat (name, suffix, NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "tokenizer", "pre", file,
                                            NULL);
  g_autoptr(GError) error = NULL;
  char *contents = NULL;

  g_file_get_contents (path, &contents, NULL, &error);
  g_assert_no_error (error);
  return contents;
}

/* --- words --- */

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
       const char *text,
       gsize       length)
{
  GPtrArray *words = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(LlmPretokenizer) self = llm_pretokenizer_new (llm_pretokenizer_find_rules (name));

  llm_pretokenizer_split (self, text, length, collect_word, words);
  return words;
}

static void
test_words (gconstpointer user_data)
{
  const char *name = user_data;
  g_autofree char *contents = read_data (name, ".words");
  g_auto(GStrv) lines = g_strsplit (contents, "\n", -1);
  guint n_checked = 0;

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
      words = split (name, text->str, text->len);
      for (guint j = 0; j < words->len; j++)
        g_assert_cmpstr (g_ptr_array_index (words, j), ==, wanted[j]);
      g_assert_cmpuint (words->len, ==, g_strv_length (wanted));
      n_checked++;
    }
  g_assert_cmpuint (n_checked, >, 80);
}

/* Bytes that are no characters neither end a text nor change what stands beside them. */
static void
test_invalid (void)
{
  static const char text[] = "a b\xff 12\xe6\x97 c\0d\xf0\x9f";
  g_autoptr(GPtrArray) words = split ("gpt-2", text, sizeof text - 1);
  static const char *const wanted[] = { "a", " b", "\xff", " 12", "\xe6\x97", " c", "", "d",
                                        "\xf0\x9f" };

  g_assert_cmpuint (words->len, ==, G_N_ELEMENTS (wanted));
  for (guint i = 0; i < words->len; i++)
    g_assert_cmpstr (g_ptr_array_index (words, i), ==, wanted[i]);
}

/* --- ids --- */

/* Bytes as byte-level vocabularies write them. */
static void
make_byte_chars (char chars[256][7])
{
  gunichar next = 0x100;

  for (guint byte = 0; byte < 256; byte++)
    {
      gboolean is_visible = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      gunichar c = is_visible ? byte : next++;

      chars[byte][g_unichar_to_utf8 (c, chars[byte])] = '\0';
    }
}

/* The vocabulary of make-pre.py. */
static LlmTokenizer *
new_tokenizer (const char *pre)
{
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GPtrArray) tokens = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) merges = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GArray) kinds = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GError) error = NULL;
  LlmTokenizer *tokenizer;
  char chars[256][7];

  make_byte_chars (chars);
  for (guint byte = 0; byte < 256; byte++)
    g_ptr_array_add (tokens, g_strdup (chars[byte]));
  g_ptr_array_add (tokens, g_strdup ("▁"));
  for (guint i = 0; i < 1 << 16; i++)
    {
      guint pair = (i * 40503 + 12345) & 0xffff;

      g_ptr_array_add (tokens, g_strconcat (chars[pair >> 8], chars[pair & 255], NULL));
      g_ptr_array_add (merges, g_strconcat (chars[pair >> 8], " ", chars[pair & 255], NULL));
    }
  for (guint byte = 'a'; byte <= 'z'; byte++)
    {
      g_ptr_array_add (tokens, g_strconcat ("▁", chars[byte], NULL));
      g_ptr_array_add (merges, g_strconcat ("▁ ", chars[byte], NULL));
    }
  for (guint byte = 0; byte < 256; byte++)
    g_ptr_array_add (tokens, g_strdup_printf ("<0x%02X>", byte));
  for (guint i = 0; i < tokens->len; i++)
    {
      gint64 kind = i + 256 < tokens->len ? TYPE_NORMAL : TYPE_BYTE;

      g_array_append_val (kinds, kind);
    }

  llm_test_gguf_add_string (built, "tokenizer.ggml.model", "gpt2");
  llm_test_gguf_add_string (built, "tokenizer.ggml.pre", pre);
  llm_test_gguf_add_strings (built, "tokenizer.ggml.tokens", (const char *const *) tokens->pdata,
                             tokens->len);
  llm_test_gguf_add_ints (built, "tokenizer.ggml.token_type", LLM_GGUF_INT32,
                          (const gint64 *) kinds->data, kinds->len);
  llm_test_gguf_add_strings (built, "tokenizer.ggml.merges", (const char *const *) merges->pdata,
                             merges->len);
  bytes = llm_test_gguf_end (built);
  gguf = llm_gguf_new_for_bytes (bytes, pre, &error);
  g_assert_no_error (error);
  tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  return tokenizer;
}

/* FNV-1a of the ids, little endian. */
static guint32
hash_ids (const GArray *ids)
{
  guint32 hash = 0x811c9dc5;

  for (guint i = 0; i < 4 * ids->len; i++)
    hash = (hash ^ (((guint32) g_array_index (ids, gint32, i / 4) >> (8 * (i % 4))) & 255)) * 0x01000193u;
  return hash;
}

static char *
print_ids (const GArray *ids,
           guint         index)
{
  GString *line = g_string_new (NULL);

  if (index >= N_SHOWN)
    g_string_append_printf (line, "%08x", hash_ids (ids));
  else
    for (guint i = 0; i < ids->len; i++)
      g_string_append_printf (line, "%s%d", i > 0 ? " " : "", g_array_index (ids, gint32, i));
  return g_string_free (line, FALSE);
}

/* @user_data: NAME, a tab, the golden of its kind. */
static void
test_ids (gconstpointer user_data)
{
  g_auto(GStrv) fields = g_strsplit (user_data, "\t", 2);
  g_autoptr(LlmTokenizer) tokenizer = new_tokenizer (fields[0]);
  g_autofree char *contents = read_data (fields[1], ".ids");
  g_auto(GStrv) wanted = g_strsplit (contents, "\n", -1);
  g_autofree char *json = read_data ("hard", ".json");
  g_autoptr(JsonNode) root = json_from_string (json, NULL);
  JsonArray *texts = json_node_get_array (root);
  guint n_wrong = 0, n = json_array_get_length (texts);

  g_assert_cmpuint (n, >=, 2000);
  g_assert_cmpuint (g_strv_length (wanted), ==, n + 1);
  for (guint i = 0; i < n; i++)
    {
      const char *text = json_array_get_string_element (texts, i);
      const LlmTextPart part = { text, strlen (text), FALSE };
      g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_autofree char *line = NULL;

      llm_tokenizer_encode (tokenizer, &part, 1, FALSE, ids);
      line = print_ids (ids, i);
      if (g_strcmp0 (line, wanted[i]) == 0)
        continue;
      if (n_wrong++ < 3)
        {
          g_autoptr(GPtrArray) words = split (fields[0], text, strlen (text));

          g_ptr_array_add (words, NULL);
          g_test_message ("%u: %s, wanted %s; cut as “%s”", i, line, wanted[i],
                          g_strjoinv ("”“", (char **) words->pdata));
        }
    }
  if (n_wrong > 0)
    g_test_fail_printf ("%u of %u texts", n_wrong, n);
}

static void
test_names (void)
{
  g_autofree char *list = llm_pretokenizer_list_names ();
  g_autofree char *goldens = read_data ("names", ".tsv");
  g_auto(GStrv) names = g_strsplit (list, ", ", -1);

  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree char *line = g_strconcat ("\n", names[i], "\t", NULL);

      g_assert_nonnull (llm_pretokenizer_find_rules (names[i]));
      g_assert_true (strstr (goldens, line) != NULL || g_str_has_prefix (goldens, line + 1));
    }
  g_assert_cmpuint (g_strv_length (names), >=, 90);
  g_assert_true (llm_pretokenizer_find_rules ("llama-bpe")->ignores_merges);
  g_assert_false (llm_pretokenizer_find_rules ("qwen2")->ignores_merges);
  g_assert_null (llm_pretokenizer_find_rules ("qwen99"));
  g_assert_null (llm_pretokenizer_find_rules (""));
}

/* Long runs are within what a match may cost, or there would be a critical message. */
static void
test_long_runs (void)
{
  static const char *const units[] = { "a", "A", " ", "\n", " \n", "'", "1", "é", "É", "日", "ก็", "aA",
                                       "a b ", "1a", "!", "\t", "½" };
  g_autofree char *list = llm_pretokenizer_list_names ();
  g_auto(GStrv) names = g_strsplit (list, ", ", -1);

  for (guint i = 0; names[i] != NULL; i++)
    for (guint j = 0; j < G_N_ELEMENTS (units); j++)
      {
        g_autoptr(GString) text = g_string_new ("x");

        while (text->len < 1 << 14)
          g_string_append (text, units[j]);
        g_ptr_array_unref (split (names[i], text->str, text->len));
      }
}

int
main (int    argc,
      char **argv)
{
  g_autofree char *goldens = NULL;
  g_auto(GStrv) lines = NULL;

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/pretokenizer/names", test_names);
  g_test_add_func ("/pretokenizer/invalid", test_invalid);
  g_test_add_func ("/pretokenizer/long-runs", test_long_runs);
  for (guint i = 0; i < G_N_ELEMENTS (published); i++)
    {
      g_autofree char *path = g_strconcat ("/pretokenizer/words/", published[i], NULL);

      g_test_add_data_func (path, published[i], test_words);
    }
  goldens = read_data ("names", ".tsv");
  lines = g_strsplit (goldens, "\n", -1);
  for (guint i = 0; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      g_autofree char *name = g_strndup (lines[i], strcspn (lines[i], "\t"));
      g_autofree char *path = g_strconcat ("/pretokenizer/ids/", name, NULL);

      g_test_add_data_func (path, lines[i], test_ids);
    }

  return g_test_run ();
}
