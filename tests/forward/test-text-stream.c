/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text of an answer: whole characters, no stop strings, the same however the
 * bytes are cut. */

#include "decoding/llm-text-stream.h"

#include <string.h>

#define R "\xef\xbf\xbd"

/* Pushes @bytes in pieces of @step and returns all that came out; after every
 * push that must be valid, without NUL, and never more than the final text. */
static char *
run (const char        *bytes,
     gsize              length,
     gsize              step,
     const char *const *stops,
     gboolean           strip,
     gboolean          *is_stopped)
{
  g_autoptr(LlmTextStream) stream = llm_text_stream_new (NULL, stops, strip);
  GString *out = g_string_new (NULL);

  *is_stopped = FALSE;
  for (gsize at = 0; at < length && !*is_stopped; at += step)
    {
      *is_stopped = llm_text_stream_push_bytes (stream, bytes + at, MIN (step, length - at), out);
      g_assert_true (g_utf8_validate_len (out->str, out->len, NULL));
    }
  if (*is_stopped)
    {
      gsize n = out->len;

      /* Whatever comes then stays inside. */
      g_assert_true (llm_text_stream_push_bytes (stream, "more", 4, out));
      g_assert_cmpuint (out->len, ==, n);
    }
  llm_text_stream_finish (stream, out);
  g_assert_true (g_utf8_validate_len (out->str, out->len, NULL));
  return g_string_free (out, FALSE);
}

static void
check (const char        *bytes,
       gsize              length,
       const char *const *stops,
       gboolean           strip,
       const char        *wanted,
       gboolean           stops_here)
{
  for (gsize step = 1; step <= length + 1; step++)
    {
      gboolean is_stopped;
      g_autofree char *text = run (bytes, length, step, stops, strip, &is_stopped);

      g_assert_cmpstr (text, ==, wanted);
      g_assert_cmpint (is_stopped, ==, stops_here);
    }
}

static void
test_characters (void)
{
  static const struct { const char *bytes; gsize length; const char *text; } cases[] = {
    { "", 0, "" },
    { "Grüße, 日本 \xf0\x9f\xa6\x99!", 21, "Grüße, 日本 \xf0\x9f\xa6\x99!" },
    { "a\0b", 3, "a" R "b" },
    { "\xc3", 1, R },                               /* ends within a character */
    { "\xe6\x97", 2, R },
    { "\xf0\x9f\xa6", 3, R },
    { "\xe6\x97x", 3, R "x" },                      /* goes on with another one */
    { "\xe6\x97\xe6\x97\xa5", 5, R "日" },
    { "\x80\xbf", 2, R R },                         /* begins within one */
    { "\xc0\x80", 2, R R },                         /* too long a form */
    { "\xe0\x80\x80", 3, R R R },
    { "\xed\xa0\x80", 3, R R R },                   /* surrogate */
    { "\xf4\x90\x80\x80", 4, R R R R },             /* behind the last one */
    { "\xf5\xff\xfe", 3, R R R },
    { "\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check (cases[i].bytes, cases[i].length, NULL, FALSE, cases[i].text, FALSE);
}

/* A character comes out with its last byte, not later. */
static void
test_promptness (void)
{
  static const char *const stops[] = { "\n\nUser:", NULL };
  g_autoptr(LlmTextStream) stream = llm_text_stream_new (NULL, stops, FALSE);
  g_autoptr(GString) out = g_string_new (NULL);

  llm_text_stream_push_bytes (stream, "a\xc3", 2, out);
  g_assert_cmpstr (out->str, ==, "a");
  llm_text_stream_push_bytes (stream, "\xa4", 1, out);
  g_assert_cmpstr (out->str, ==, "aä");
  llm_text_stream_push_bytes (stream, "b\n", 2, out);
  g_assert_cmpstr (out->str, ==, "aäb");
  llm_text_stream_push_bytes (stream, "\n\n", 2, out);
  g_assert_cmpstr (out->str, ==, "aäb\n");
  llm_text_stream_push_bytes (stream, "Us", 2, out);
  g_assert_cmpstr (out->str, ==, "aäb\n");
  llm_text_stream_push_bytes (stream, "us", 2, out);
  g_assert_cmpstr (out->str, ==, "aäb\n\n\nUsus");
}

static void
test_stops (void)
{
  static const struct
  {
    const char *text;
    const char *stops[4];
    const char *wanted;
    gboolean stops_here;
  } cases[] = {
    { "one two", { "three" }, "one two", FALSE },
    { "one two three four", { "three" }, "one two ", TRUE },
    { "thre", { "three" }, "thre", FALSE },
    { "ththree", { "three" }, "th", TRUE },
    { "aaaab!", { "aab" }, "aa", TRUE },
    { "ababac", { "abac" }, "ab", TRUE },
    { "abcabcabd.", { "abcabd" }, "abc", TRUE },
    { "xyz", { "" }, "xyz", FALSE },
    { "stop", { "stop" }, "", TRUE },
    { "Grüße", { "ße" }, "Grü", TRUE },
    { "日本語", { "本" }, "日", TRUE },
    { "日月", { "本" }, "日月", FALSE },
    /* The one that is complete first, and of two the longer one. */
    { "abcde", { "bcde", "cd" }, "ab", TRUE },
    { "abcd", { "abcd", "cd" }, "", TRUE },
    { "abcx", { "abcd", "cx" }, "ab", TRUE },
    { "abcx", { "abcd", "bcy" }, "abcx", FALSE },
    { "a\n\nb", { "\n\n", "\n" }, "a", TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check (cases[i].text, strlen (cases[i].text), cases[i].stops, FALSE, cases[i].wanted,
           cases[i].stops_here);
}

/* A replaced byte is text like other text. */
static void
test_stop_on_replacement (void)
{
  static const char *const stops[] = { R "!", NULL };

  check ("a\xff!b", 4, stops, FALSE, "a", TRUE);
  check ("a\xe6!b", 4, stops, FALSE, "a", TRUE);
  check ("a\xff\xe6", 3, stops, FALSE, "a" R R, FALSE);
}

static void
test_leading_space (void)
{
  static const char *const stops[] = { " a", NULL };

  check (" hello", 6, NULL, TRUE, "hello", FALSE);
  check ("  hello", 7, NULL, TRUE, " hello", FALSE);
  check ("hello you", 9, NULL, TRUE, "hello you", FALSE);
  check (" hello", 6, NULL, FALSE, " hello", FALSE);
  check ("\n x", 3, NULL, TRUE, "\n x", FALSE);
  check (" ", 1, NULL, TRUE, "", FALSE);
  check (" ab", 3, stops, TRUE, "ab", FALSE);
}

/* Random bytes and random cuts against a plain search in the whole text. */
static void
test_random (void)
{
  static const char letters[] = "aab\xc3\xa4\xf0 ";

  for (guint round = 0; round < 20000; round++)
    {
      char bytes[12], stop[4] = { 0 };
      const char *const stops[] = { stop, NULL };
      gsize length = (gsize) g_test_rand_int_range (0, sizeof bytes + 1);
      gsize stop_length = (gsize) g_test_rand_int_range (1, sizeof stop);
      gsize step = (gsize) g_test_rand_int_range (1, 5);
      g_autofree char *whole = NULL;
      g_autofree char *text = NULL;
      gboolean is_stopped;
      char *found;

      for (gsize i = 0; i < length; i++)
        bytes[i] = letters[g_test_rand_int_range (0, sizeof letters - 1)];
      for (gsize i = 0; i < stop_length; i++)
        stop[i] = "ab "[g_test_rand_int_range (0, 3)];

      whole = run (bytes, length, 1, NULL, FALSE, &is_stopped);
      text = run (bytes, length, step, stops, FALSE, &is_stopped);
      found = strstr (whole, stop);
      g_assert_cmpint (is_stopped, ==, found != NULL);
      if (found != NULL)
        *found = '\0';
      g_assert_cmpstr (text, ==, whole);
    }
}

/* Real tokens: characters of several byte tokens, and control tokens unseen. */
static void
test_tokens (void)
{
  static const char text[] = "Hello 日本語 \xf0\x9f\xa6\x99, done. STOP and more";
  static const char *const stops[] = { "STOP", NULL };
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  g_autoptr(LlmTokenizer) tokenizer = NULL;
  g_autoptr(LlmTextStream) stream = NULL;
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GString) out = g_string_new (NULL);
  LlmTextPart part = { text, strlen (text), FALSE };
  gboolean is_stopped = FALSE;
  guint n_pushed = 0;

  g_assert_no_error (error);
  tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  llm_tokenizer_encode (tokenizer, &part, 1, TRUE, ids);
  g_assert_true (llm_tokenizer_is_control (tokenizer, g_array_index (ids, gint32, 0)));

  stream = llm_text_stream_new (tokenizer, stops, TRUE);
  while (!is_stopped && n_pushed < ids->len)
    {
      is_stopped = llm_text_stream_push (stream, g_array_index (ids, gint32, n_pushed++), out);
      g_assert_true (g_utf8_validate_len (out->str, out->len, NULL));
    }
  llm_text_stream_finish (stream, out);
  g_assert_true (is_stopped);
  g_assert_cmpuint (n_pushed, <, ids->len);
  g_assert_cmpstr (out->str, ==, "Hello 日本語 \xf0\x9f\xa6\x99, done. ");
}

/* The text ends where a marker begins, but not the answer; until it is sure, nothing is shown. */
static void
test_marker (void)
{
  static const struct
  {
    const char *bytes;
    const char *marker;
    gboolean is_at_start;
    const char *text;
  } cases[] = {
    { "Let me see.<call>{\"a\": 1}stop</call>", "<call>", FALSE, "Let me see." },
    { "a <cal b <<call>c", "<call>", FALSE, "a <cal b <" },
    { "a <cal", "<call>", FALSE, "a <cal" },
    { "astop<call>", "<call>", FALSE, "a" },
    { "{\"a\": 1}", "{", TRUE, "" },
    { "a {\"a\": 1}", "{", TRUE, "a {\"a\": 1}" },
  };
  static const char *const stops[] = { "stop", NULL };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (gsize step = 1; step <= strlen (cases[i].bytes); step++)
      {
        g_autoptr(LlmTextStream) stream = llm_text_stream_new (NULL, stops, FALSE);
        g_autoptr(GString) out = g_string_new (NULL);
        gboolean is_stopped = FALSE;

        llm_text_stream_set_marker (stream, cases[i].marker, cases[i].is_at_start);
        for (gsize at = 0; at < strlen (cases[i].bytes) && !is_stopped; at += step)
          {
            is_stopped = llm_text_stream_push_bytes (
              stream, cases[i].bytes + at, MIN (step, strlen (cases[i].bytes) - at), out);
            g_assert_true (g_str_has_prefix (cases[i].text, out->str));
          }
        llm_text_stream_finish (stream, out);
        g_assert_cmpstr (out->str, ==, cases[i].text);
        g_assert_cmpint (is_stopped, ==, i == 3);
      }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/text-stream/characters", test_characters);
  g_test_add_func ("/text-stream/marker", test_marker);
  g_test_add_func ("/text-stream/promptness", test_promptness);
  g_test_add_func ("/text-stream/stops", test_stops);
  g_test_add_func ("/text-stream/stop-on-replacement", test_stop_on_replacement);
  g_test_add_func ("/text-stream/leading-space", test_leading_space);
  g_test_add_func ("/text-stream/random", test_random);
  g_test_add_func ("/text-stream/tokens", test_tokens);

  return g_test_run ();
}
