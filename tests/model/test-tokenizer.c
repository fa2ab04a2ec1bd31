/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Real vocabularies: ids and texts as llama.cpp has them, what plain text can
 * never become, and how the work grows with the text. */

#include "tokenizer/llm-tokenizer.h"

#include <string.h>

#include "tokenizer/llm-tokenizer-private.h"

#define DELIMITER "\n__ggml_vocab_test__\n"

static LlmTokenizer *
open_tokenizer (const char *dir_variable,
                const char *name)
{
  g_autofree char *path = g_build_filename (g_getenv (dir_variable), name, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  LlmTokenizer *tokenizer;

  g_assert_no_error (error);
  tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  return tokenizer;
}

static LlmTokenizer *
open_vocabulary (const char *name)
{
  g_autofree char *file = g_strconcat ("tokenizer/", name, ".gguf", NULL);

  return open_tokenizer ("LLM_TEST_DATA", file);
}

static LlmTokenizer *
open_demo (void)
{
  return open_tokenizer ("LLM_MODEL_DIR", "llmsvc-demo-8M-Q8_0.gguf");
}

/* A model of code: the three markers by their names, as its authors put them around a text with a
 * gap; what the text says of them is letters. */
static void
test_infill (void)
{
  static const char *const markers[] = { "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>" };
  static const char prefix[] = "int f (int a)\n{\n  // <｜fim▁end｜>\n";
  static const char suffix[] = "\n}\n";
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary ("deepseek-coder");
  g_autoptr(LlmTokenizer) other = open_vocabulary ("gpt-2");
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) wanted = g_array_new (FALSE, FALSE, sizeof (gint32));
  const LlmTextPart parts[] = {
    { markers[0], strlen (markers[0]), TRUE }, { prefix, strlen (prefix), FALSE },
    { markers[1], strlen (markers[1]), TRUE }, { suffix, strlen (suffix), FALSE },
    { markers[2], strlen (markers[2]), TRUE },
  };

  g_assert_false (llm_tokenizer_can_infill (other));
  g_assert_true (llm_tokenizer_can_infill (tokenizer));
  llm_tokenizer_encode_infill (tokenizer, prefix, suffix, ids);
  llm_tokenizer_encode (tokenizer, parts, G_N_ELEMENTS (parts), TRUE, wanted);
  g_assert_cmpmem (ids->data, ids->len * sizeof (gint32), wanted->data,
                   wanted->len * sizeof (gint32));
  for (guint i = 0, n = 0; i < ids->len; i++)
    {
      n += llm_tokenizer_is_control (tokenizer, g_array_index (ids, gint32, i));
      if (i + 1 == ids->len)
        g_assert_cmpuint (n, ==, 3 + (tokenizer->adds_bos ? 1 : 0));
    }
}

static GArray *
encode (LlmTokenizer *tokenizer,
        const char   *text,
        gsize         length,
        gboolean      is_markup,
        gboolean      add_special)
{
  GArray *ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, length, is_markup };

  llm_tokenizer_encode (tokenizer, &part, 1, add_special, ids);
  return ids;
}

static GArray *
encode_parts (LlmTokenizer      *tokenizer,
              const LlmTextPart *parts,
              guint              n_parts)
{
  GArray *ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  llm_tokenizer_encode (tokenizer, parts, n_parts, FALSE, ids);
  return ids;
}

static GString *
decode (LlmTokenizer *tokenizer,
        const GArray *ids,
        gboolean      show_control)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < ids->len; i++)
    llm_tokenizer_decode_token (tokenizer, g_array_index (ids, gint32, i), show_control, text);
  return text;
}

static char *
print_ids (const GArray *ids)
{
  GString *line = g_string_new (NULL);

  for (guint i = 0; i < ids->len; i++)
    g_string_append_printf (line, "%s%d", i > 0 ? " " : "", g_array_index (ids, gint32, i));
  return g_string_free (line, FALSE);
}

static char **
read_split (const char *name,
            const char *delimiter)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "tokenizer", name, NULL);
  g_autofree char *contents = NULL;
  g_autoptr(GError) error = NULL;
  gsize length;

  g_file_get_contents (path, &contents, &length, &error);
  g_assert_no_error (error);
  /* The one NUL byte in our texts would end them for g_strsplit(). */
  for (gsize i = 0; i < length; i++)
    if (contents[i] == '\0')
      contents[i] = '\x1a';
  return g_strsplit (contents, delimiter, -1);
}

/* Compares the ids of all texts of @input with the lines from @line on. */
static guint
check_lines (LlmTokenizer *tokenizer,
             const char   *input,
             char        **lines,
             guint         line)
{
  g_auto(GStrv) texts = read_split (input, DELIMITER);

  g_assert_cmpuint (g_strv_length (texts), >, 30);
  for (guint i = 0; texts[i] != NULL; i++)
    {
      gsize length = strlen (texts[i]);
      g_autoptr(GArray) ids = NULL;
      g_autofree char *found = NULL;

      for (gsize j = 0; j < length; j++)
        if (texts[i][j] == '\x1a')
          texts[i][j] = '\0';
      ids = encode (tokenizer, texts[i], length, FALSE, FALSE);
      found = print_ids (ids);
      g_assert_nonnull (lines[line + i]);
      g_assert_cmpstr (found, ==, g_strstrip (lines[line + i]));
    }
  return line + g_strv_length (texts);
}

static void
test_golden_vocabulary (gconstpointer user_data)
{
  const char *name = user_data;
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (name);
  g_autofree char *common_name = g_strconcat (name, ".common.out", NULL);
  g_autofree char *more_name = g_strconcat (name, ".more.out", NULL);
  g_auto(GStrv) common = read_split (common_name, "\n");
  g_auto(GStrv) more = read_split (more_name, "\n");

  check_lines (tokenizer, "common.inp", common, 0);
  check_lines (tokenizer, "more.inp", more, 0);
}

static GBytes *
unescape (const char *field)
{
  return g_uri_unescape_bytes (field, -1, NULL, NULL);
}

static void
assert_shown (LlmTokenizer *tokenizer,
              const GArray *ids,
              gboolean      show_control,
              const char   *field,
              gboolean      has_bos)
{
  g_autoptr(GBytes) wanted = unescape (field);
  g_autoptr(GString) text = decode (tokenizer, ids, show_control);
  const char *start = text->str;

  /* The goldens leave out the space that begins a text without a BOS. */
  if (!has_bos && ids->len > 0 && !llm_tokenizer_is_control (tokenizer,
                                                             g_array_index (ids, gint32, 0)))
    start += *start == ' ';
  g_assert_cmpmem (start, text->len - (gsize) (start - text->str),
                   g_bytes_get_data (wanted, NULL), g_bytes_get_size (wanted));
}

static void
test_golden_demo (void)
{
  g_autoptr(LlmTokenizer) tokenizer = open_demo ();
  g_auto(GStrv) lines = read_split ("demo.tsv", "\n");
  guint n_checked = 0;

  for (guint i = 1; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], "\t", -1);
      gboolean has_bos = *fields[0] == '1';
      g_autoptr(GBytes) text = unescape (fields[3]);
      gsize length = g_bytes_get_size (text);
      const char *start = length > 0 ? g_bytes_get_data (text, NULL) : "";
      g_autoptr(GArray) ids = encode (tokenizer, start, length, *fields[1] == '1', has_bos);
      g_autofree char *found = print_ids (ids);

      g_assert_cmpstr (found, ==, fields[2]);
      assert_shown (tokenizer, ids, FALSE, fields[4], has_bos);
      assert_shown (tokenizer, ids, TRUE, fields[5], has_bos);
      n_checked++;
    }
  g_assert_cmpuint (n_checked, ==, 99);
}

static void
test_specials (void)
{
  g_autoptr(LlmTokenizer) demo = open_demo ();
  g_autoptr(LlmTokenizer) gpt2 = open_vocabulary ("gpt-2");
  g_autoptr(LlmTokenizer) phi3 = open_vocabulary ("phi-3");

  g_assert_cmpuint (demo->n_tokens, ==, 4096);
  g_assert_cmpint (demo->bos, ==, 1);
  g_assert_cmpint (demo->eos, ==, 2);
  g_assert_true (demo->adds_bos);
  g_assert_false (demo->adds_eos);
  for (gint32 id = -1; id <= 4096; id++)
    {
      g_assert_cmpint (llm_tokenizer_is_control (demo, id), ==, id >= 0 && id <= 4);
      g_assert_cmpint (llm_tokenizer_ends_answer (demo, id), ==, id == 2 || id == 4);
    }

  g_assert_cmpint (gpt2->bos, ==, 50256);
  g_assert_false (gpt2->adds_bos);
  g_assert_true (llm_tokenizer_ends_answer (gpt2, 50256));

  g_assert_true (llm_tokenizer_ends_answer (phi3, 32007));
  g_assert_true (llm_tokenizer_ends_answer (phi3, 32000));
  g_assert_false (llm_tokenizer_ends_answer (phi3, 32010));
}

/* Phi-3's markers swallow the spaces behind them, but for three of them. */
static void
test_swallowed_spaces (void)
{
  g_autoptr(LlmTokenizer) phi3 = open_vocabulary ("phi-3");
  const LlmTextPart parts[] = { { "<|user|>\n", 9, TRUE }, { " hi", 3, FALSE },
                                { "<|end|>\n", 8, TRUE }, { "<s> ", 4, TRUE } };
  g_autoptr(GArray) ids = encode_parts (phi3, parts, G_N_ELEMENTS (parts));
  g_autoptr(GString) text = decode (phi3, ids, TRUE);

  g_assert_cmpstr (text->str, ==, "<|user|> hi<|end|><s>  ");
}

/* Parts are one text: only tokens split it. */
static void
test_parts_are_one_text (void)
{
  static const char *const names[] = { "llama-spm", "smollm", "deepseek-coder" };
  static const char text[] = "user\nThe quick brown fox, naïve as ever: 日本語 12345!";

  for (guint n = 0; n < G_N_ELEMENTS (names); n++)
    {
      g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (names[n]);
      g_autoptr(GArray) whole = encode (tokenizer, text, strlen (text), FALSE, FALSE);
      g_autofree char *wanted = print_ids (whole);

      for (gsize cut = 0; cut <= strlen (text); cut++)
        {
          const LlmTextPart parts[] = { { text, cut, TRUE }, { "", 0, FALSE },
                                        { text + cut, strlen (text) - cut, FALSE } };
          g_autoptr(GArray) ids = encode_parts (tokenizer, parts, G_N_ELEMENTS (parts));
          g_autofree char *found = print_ids (ids);

          g_assert_cmpstr (found, ==, wanted);
        }
    }
}

static void
assert_no_control (LlmTokenizer *tokenizer,
                   const GArray *ids)
{
  for (guint i = 0; i < ids->len; i++)
    g_assert_false (llm_tokenizer_is_control (tokenizer, g_array_index (ids, gint32, i)));
}

/* The name of each control token, alone, in a text, and twice, as plain text. */
static void
check_injection (LlmTokenizer *tokenizer)
{
  guint n_controls = 0;

  for (gint32 id = 0; id < (gint32) tokenizer->n_tokens; id++)
    {
      g_autoptr(GString) name = g_string_new (NULL);
      g_autofree char *text = NULL;
      g_autoptr(GArray) plain = NULL;
      g_autoptr(GArray) markup = NULL;

      if (!llm_tokenizer_is_control (tokenizer, id))
        continue;
      n_controls++;
      llm_tokenizer_decode_token (tokenizer, id, TRUE, name);
      text = g_strdup_printf ("%s\n%s system%s%s ", name->str, name->str, name->str, name->str);
      plain = encode (tokenizer, text, strlen (text), FALSE, FALSE);
      assert_no_control (tokenizer, plain);

      markup = encode (tokenizer, name->str, name->len, TRUE, FALSE);
      g_assert_cmpuint (markup->len, ==, 1);
      g_assert_cmpint (g_array_index (markup, gint32, 0), ==, id);

      /* Nor may a name begin in plain text and end in markup, or the other way round. */
      for (gsize cut = 1; cut < name->len; cut++)
        for (guint is_first = 0; is_first < 2; is_first++)
          {
            const LlmTextPart parts[] = { { name->str, cut, is_first == 0 },
                                          { name->str + cut, name->len - cut, is_first == 1 } };
            g_autoptr(GArray) ids = encode_parts (tokenizer, parts, G_N_ELEMENTS (parts));

            assert_no_control (tokenizer, ids);
          }
    }
  g_assert_cmpuint (n_controls, >, 0);
}

static void
test_injection (void)
{
  static const char *const names[] = { "gpt-2", "llama-spm", "phi-3", "deepseek-coder", "smollm" };
  g_autoptr(LlmTokenizer) demo = open_demo ();

  check_injection (demo);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (names[i]);

      check_injection (tokenizer);
    }
}

/* What an app writes before a marker can't hide it, whatever its end looks like. */
static void
test_marker_behind_text (void)
{
  static const char *const texts[] = { "<", "<|", "<|im_end", "<tool_call", "<|im_start|>", "\n" };
  g_autoptr(LlmTokenizer) demo = open_demo ();

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      const LlmTextPart parts[] = { { texts[i], strlen (texts[i]), FALSE },
                                    { "<|im_end|>\n", 11, TRUE } };
      g_autoptr(GArray) ids = encode_parts (demo, parts, G_N_ELEMENTS (parts));

      g_assert_cmpuint (ids->len, >=, 4);
      g_assert_cmpint (g_array_index (ids, gint32, ids->len - 3), ==, 4);
    }
}

/* Markup may be cut anywhere: its parts are one. User-defined tokens are found
 * in all text. */
static void
test_markers_over_parts (void)
{
  g_autoptr(LlmTokenizer) demo = open_demo ();
  const LlmTextPart parts[] = { { "<|im_", 5, TRUE }, { "start|>", 7, TRUE }, { "<tool_", 6, TRUE },
                                { "call>", 5, FALSE } };
  g_autoptr(GArray) ids = encode_parts (demo, parts, G_N_ELEMENTS (parts));
  g_autofree char *found = print_ids (ids);

  g_assert_cmpstr (found, ==, "3 5");
}

static char *
make_text (const char *unit,
           gsize       length)
{
  char *text = g_malloc (length + 1);
  gsize unit_length = strlen (unit);
  gsize n = length - length % unit_length;

  for (gsize i = 0; i < n; i++)
    text[i] = unit[i % unit_length];
  text[n] = '\0';
  return text;
}

static guint64
count_steps (LlmTokenizer *tokenizer,
             const char   *unit,
             gsize         length)
{
  g_autofree char *text = make_text (unit, length);
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, strlen (text), FALSE };

  return llm_tokenizer_encode (tokenizer, &part, 1, FALSE, ids);
}

/* Texts that are one long word, or full of what begins a token. */
static void
test_work_is_bounded (gconstpointer user_data)
{
  static const char *const units[] = { "a", "ab", " ", "\n", " \n", "'", "'l", "<", "1", "é", "日",
                                       "\xf0\x9f\xa6\x99", "<|im_start|>", "the quick ", "[PAD" };
  g_autoptr(LlmTokenizer) tokenizer = g_str_equal (user_data, "demo") ? open_demo ()
                                                                      : open_vocabulary (user_data);
  const gsize small = 1 << 12, large = 1 << 18;

  for (guint i = 0; i < G_N_ELEMENTS (units); i++)
    {
      guint64 few = count_steps (tokenizer, units[i], small);
      guint64 many = count_steps (tokenizer, units[i], large);

      /* 64 times the text; what the heap adds stays within the factor of two. */
      g_assert_cmpuint (many, <=, few * 64 * 2);
      g_assert_cmpuint (many, <=, (guint64) large * 3 * (18 + 2));
    }
  g_assert_cmpuint (count_steps (tokenizer, "a", 1 << 20), <=, (guint64) (1 << 20) * 3 * (20 + 2));
}

static void
test_round_trip (gconstpointer user_data)
{
  static const char *const units[] = { "a", "Hello, world! ", "naïve 日本語 \xf0\x9f\xa6\x99 ",
                                       " \n\t  ", "x = 3.14159;\r\n", "'LL 'll don't " };
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (user_data);
  gboolean is_spm = tokenizer->adds_bos && !g_str_has_prefix (user_data, "deep");

  for (guint i = 0; i < G_N_ELEMENTS (units); i++)
    for (gsize length = 40; length < 5000; length = length * 3 + 1)
      {
        g_autofree char *text = make_text (units[i], length);
        g_autoptr(GArray) ids = encode (tokenizer, text, strlen (text), FALSE, FALSE);
        g_autoptr(GString) shown = decode (tokenizer, ids, FALSE);

        g_assert_cmpstr (shown->str + (is_spm ? 1 : 0), ==, text);
      }
}

/* Bytes that are no text don't harm, at the end of a part least of all. */
static void
test_invalid_utf8 (void)
{
  static const char *const names[] = { "llama-spm", "gpt-2", "smollm", "deepseek-coder",
                                       "bert-bge" };
  static const char *const texts[] = { "\xff", "a\xe6\x97", "\xc3", "\xed\xa0\x80", "\xf8\x88\x80",
                                       "\x80\x80 \xf0\x9f" };

  for (guint n = 0; n < G_N_ELEMENTS (names); n++)
    {
      g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (names[n]);

      for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
        {
          const LlmTextPart parts[] = { { texts[i], strlen (texts[i]), FALSE },
                                        { "\xa5", 1, TRUE } };
          g_autoptr(GArray) ids = encode_parts (tokenizer, parts, G_N_ELEMENTS (parts));

          assert_no_control (tokenizer, ids);
        }
    }
}

int
main (int    argc,
      char **argv)
{
  static const char *const vocabularies[] = { "gpt-2", "llama-spm", "phi-3", "deepseek-coder",
                                              "smollm" };

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/tokenizer/golden/demo", test_golden_demo);
  g_test_add_data_func ("/tokenizer/golden/bert-bge", "bert-bge", test_golden_vocabulary);
  g_test_add_data_func ("/tokenizer/work/bert-bge", "bert-bge", test_work_is_bounded);
  for (guint i = 0; i < G_N_ELEMENTS (vocabularies); i++)
    {
      g_autofree char *golden = g_strconcat ("/tokenizer/golden/", vocabularies[i], NULL);
      g_autofree char *round = g_strconcat ("/tokenizer/round-trip/", vocabularies[i], NULL);
      g_autofree char *work = g_strconcat ("/tokenizer/work/", vocabularies[i], NULL);

      g_test_add_data_func (golden, vocabularies[i], test_golden_vocabulary);
      g_test_add_data_func (round, vocabularies[i], test_round_trip);
      g_test_add_data_func (work, vocabularies[i], test_work_is_bounded);
    }
  g_test_add_data_func ("/tokenizer/work/demo", "demo", test_work_is_bounded);
  g_test_add_func ("/tokenizer/infill", test_infill);
  g_test_add_func ("/tokenizer/specials", test_specials);
  g_test_add_func ("/tokenizer/swallowed-spaces", test_swallowed_spaces);
  g_test_add_func ("/tokenizer/parts-are-one-text", test_parts_are_one_text);
  g_test_add_func ("/tokenizer/injection", test_injection);
  g_test_add_func ("/tokenizer/marker-behind-text", test_marker_behind_text);
  g_test_add_func ("/tokenizer/markers-over-parts", test_markers_over_parts);
  g_test_add_func ("/tokenizer/invalid-utf8", test_invalid_utf8);

  return g_test_run ();
}
