/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Scripts alone: what is refused and how it is told, which rule applies, and the
 * model that stands in. */

#include <glib/gstdio.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "decoding/llm-script.h"
#include "support/llm-test-folder.h"

static const char *example;

static char *
write_script (const char *text)
{
  g_autoptr(GError) error = NULL;
  char *path;
  int fd = g_file_open_tmp ("llmsvc-script-XXXXXX.json", &path, &error);

  g_assert_no_error (error);
  g_assert_true (g_close (fd, NULL));
  g_assert_true (g_file_set_contents (path, text, -1, &error));
  g_assert_no_error (error);
  return path;
}

static LlmScript *
load (const char  *text,
      GError     **error)
{
  g_autofree char *path = write_script (text);
  LlmScript *script = llm_script_load (path, error);

  if (script == NULL)
    g_assert_true (g_str_has_prefix ((*error)->message, path));
  g_unlink (path);
  return script;
}

static LlmScript *
load_rules (const char *rules)
{
  g_autofree char *text = g_strdup_printf ("{\"version\": 1, \"rules\": %s}", rules);
  g_autoptr(GError) error = NULL;
  LlmScript *script = load (text, &error);

  g_assert_no_error (error);
  return script;
}

/* --- what is refused --- */

#define RULES "\"rules\": [{\"text\": \"a\"}]"
#define RULE(rule) "{\"version\": 1, \"rules\": [" rule "]}"
#define PHASES(phases) "{\"version\": 1, \"availability\": " phases ", " RULES "}"

static const struct
{
  const char *text;
  const char *place;   /* that the message names */
  const char *words;   /* that tell what is wrong or allowed */
} bad[] = {
  { "", "", "empty" },
  { " \n ", "2:1: ", "ends too early" },
  { "{\"version\": 1, \"rules\": [{\"text\": \"\xff\"}]}", "", "UTF-8" },
  { "[]", "", "a list, an object is needed" },
  { "{\"version\": 1,\n" RULES, "2:", "ends too early" },
  { "{\"version\": 1, " RULES "} x", "1:", "something follows" },
  { "{\"version\": 01, " RULES "}", "1:14: ", "neither number" },
  { "{" RULES "}", "", "“version” is missing" },
  { "{\"version\": 2, " RULES "}", "version", "version 2, this service knows version 1" },
  { "{\"version\": \"1\", " RULES "}", "version", "a string, a whole number" },
  { "{\"version\": 1.5, " RULES "}", "version", "a number, a whole number" },
  { "{\"version\": 1}", "", "“rules” is missing" },
  { "{\"version\": 1, \"version\": 1, " RULES "}", "", "“version” is there twice" },
  { "{\"version\": 1, \"rule\": [], " RULES "}", "", "no key “rule” here; there are version" },
  { "{\"version\": 1, \"rules\": []}", "rules", "from 1 to" },
  { "{\"version\": 1, \"rules\": {}}", "rules", "an object, a list is needed" },
  { "{\"version\": 1, \"context-length\": 63, " RULES "}", "context-length", "from 64 to 131072" },
  { "{\"version\": 1, \"context-length\": 99999999999999999999, " RULES "}", "1:53: ",
    "too large" },
  { RULE ("7"), "rules[0]", "a number, an object" },
  { RULE ("{}"), "rules[0]", "“text”, or “pieces”, or an “error”" },
  { RULE ("{\"text\": \"a\"}, {\"txt\": \"a\"}"), "rules[1]", "no key “txt” here; there are when" },
  { RULE ("{\"text\": null}"), "rules[0].text", "null, a string" },
  { RULE ("{\"text\": \"a\\u0000b\"}"), "1:42: ", "a wrong escape" },
  { RULE ("{\"text\": \"a\\ud800b\"}"), "1:", "a wrong escape" },
  { RULE ("{\"text\": \"a\", \"pieces\": [\"b\"]}"), "rules[0]",
    "only one of “text” and “pieces”" },
  { RULE ("{\"pieces\": [\"b\", true]}"), "rules[0].pieces[1]", "true or false, a string" },
  { RULE ("{\"text\": \"a\", \"times\": 0}"), "rules[0].times", "0 is not from 1" },
  { RULE ("{\"text\": \"a\", \"delay-ms\": -1}"), "rules[0].delay-ms",
    "-1 is not from 0 to 3600000" },
  { RULE ("{\"text\": \"a\", \"piece-delay-ms\": 1}"), "rules[0]", "needs “pieces”" },
  { RULE ("{\"text\": \"a\", \"finish-reason\": \"done\"}"), "rules[0].finish-reason",
    "none of: stop, length, context-full" },
  { RULE ("{\"text\": \"a\", \"exit\": true}"), "rules[0].exit", "true or false, a string" },
  { RULE ("{\"text\": \"a\", \"exit\": \"now\"}"), "rules[0].exit",
    "none of: before-keep, after-keep" },
  { RULE ("{\"error\": {\"name\": \"Oops\", \"message\": \"a\"}}"), "rules[0].error.name",
    "none of: Failed, InvalidOption" },
  { RULE ("{\"error\": {\"name\": \"Lost\", \"message\": \"a\"}}"), "rules[0].error.name",
    "none of" },
  { RULE ("{\"error\": {\"name\": \"Failed\"}}"), "rules[0].error", "“message”" },
  { RULE ("{\"error\": \"Failed\"}"), "rules[0].error", "a string, an object" },
  { RULE ("{\"error\": {\"name\": \"Failed\", \"message\": \"a\"}, \"delay-ms\": 1}"), "rules[0]",
    "“delay-ms” needs a “text”" },
  { RULE ("{\"text\": \"a\", \"error\": {\"name\": \"Failed\", \"message\": \"a\"},"
          " \"finish-reason\": \"stop\"}"), "rules[0]", "has no “finish-reason”" },
  { RULE ("{\"text\": \"a\", \"error\": {\"name\": \"Failed\", \"message\": \"a\"},"
          " \"exit\": \"after-keep\"}"), "rules[0]", "only one of “error” and “exit”" },
  { RULE ("{\"when\": \"a\", \"text\": \"a\"}"), "rules[0].when", "a string, an object" },
  { RULE ("{\"when\": {\"promt\": \"a\"}, \"text\": \"a\"}"), "rules[0].when",
    "no key “promt” here; there are prompt" },
  { RULE ("{\"when\": {\"pattern\": \"a(\"}, \"text\": \"a\"}"), "rules[0].when.pattern",
    "missing terminating )" },
  { RULE ("{\"when\": {\"turn\": 0}, \"text\": \"a\"}"), "rules[0].when.turn", "0 is not from 1" },
  { PHASES ("[]"), "availability", "from 1 to 100" },
  { PHASES ("[{}]"), "availability[0]", "“state” is missing" },
  { PHASES ("[{\"state\": \"asleep\"}]"), "availability[0].state",
    "none of: ready, loading, no-model, failed" },
  { PHASES ("[{\"state\": \"failed\"}]"), "availability[0]", "“reason”" },
  { PHASES ("[{\"state\": \"ready\", \"reason\": \"a\"}]"), "availability[0]", "“reason”" },
  { PHASES ("[{\"state\": \"ready\", \"for-ms\": 5}]"), "availability[0]", "has no “for-ms”" },
  { PHASES ("[{\"state\": \"loading\"}, {\"state\": \"ready\"}]"), "availability[0]",
    "“for-ms” is missing" },
};

static void
test_bad (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmScript) script = load (bad[i].text, &error);
      const char *place;

      g_assert_null (script);
      g_test_message ("%s", error->message);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
      place = strstr (error->message, ".json: ") + strlen (".json: ");
      g_assert_true (g_str_has_prefix (place, bad[i].place));
      g_assert_nonnull (strstr (place, bad[i].words));
    }
}

/* The parser would go as deep as the text and crash. */
static void
test_deep (void)
{
  g_autoptr(GString) text = g_string_new ("{\"version\": 1, \"rules\": ");
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < 500000; i++)
    g_string_append_c (text, '[');
  g_assert_null (load (text->str, &error));
  g_assert_nonnull (strstr (error->message, "nested"));
}

static void
test_large (void)
{
  g_autoptr(GString) text = g_string_new ("{");
  g_autoptr(GError) error = NULL;

  g_string_set_size (text, 5 * 1024 * 1024);
  memset (text->str, ' ', text->len);
  g_assert_null (load (text->str, &error));
  g_assert_nonnull (strstr (error->message, "up to"));
}

static void
test_no_file (void)
{
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_script_load ("/nonexistent/script.json", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "/nonexistent/script.json"));
  g_clear_error (&error);
  g_assert_null (llm_script_load (g_get_tmp_dir (), &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
}

/* Whatever is in the file: an error or a script, and no crash. */
static void
test_damaged (void)
{
  g_autofree char *whole = NULL;
  g_autofree char *path = write_script ("");
  gsize length;
  guint n_good = 0;

  g_assert_true (g_file_get_contents (example, &whole, &length, NULL));
  for (guint i = 0; i < 3000; i++)
    {
      g_autoptr(GString) text = g_string_new_len (whole, (gssize) length);
      g_autoptr(LlmScript) script = NULL;
      g_autoptr(GError) error = NULL;
      guint n_faults = (guint) g_test_rand_int_range (1, 4);

      for (guint j = 0; j < n_faults; j++)
        {
          gsize at = (gsize) g_test_rand_int_range (0, (gint32) text->len);
          gsize from = (gsize) g_test_rand_int_range (0, (gint32) length);

          if (j == 0 && i % 3 == 0)
            g_string_truncate (text, at + 1);
          else if (i % 3 == 1)
            text->str[at] = (char) g_test_rand_int_range (0, 256);
          else
            g_string_insert_len (text, (gssize) at, whole + from,
                                 (gssize) MIN (length - from, 20));
        }
      /* not one by one to the disk */
      g_assert_true (g_file_set_contents_full (path, text->str, (gssize) text->len,
                                               G_FILE_SET_CONTENTS_NONE, 0600, &error));
      script = llm_script_load (path, &error);
      g_assert_true ((script == NULL) == (error != NULL));
      n_good += script != NULL;
    }
  g_test_message ("%u of 3000 are scripts all the same", n_good);
  g_unlink (path);
}

/* --- which rule applies --- */

typedef struct
{
  LlmScript *script;
  LlmModel *model;
} Asked;

static Asked
begin (const char *rules)
{
  Asked asked = { load_rules (rules), NULL };
  g_autoptr(LlmModelInfo) info = llm_script_make_model (asked.script);
  g_autoptr(GError) error = NULL;

  asked.model = llm_model_info_open (info, &error);
  g_assert_no_error (error);
  return asked;
}

static void
end (Asked *asked)
{
  llm_script_free (asked->script);
  llm_model_unref (asked->model);
}

/* (transfer full): the text of the reply, or the message of the error */
static char *
ask (Asked      *asked,
     const char *prompt,
     const char *system,
     guint       turn)
{
  LlmScriptQuestion question = { prompt, system, turn };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmReply) reply = NULL;
  GString *text = g_string_new (NULL);

  reply = llm_script_answer (asked->script, llm_model_get_tokenizer (asked->model), &question,
                             &error);
  for (guint i = 0; reply != NULL && i < reply->steps->len; i++)
    llm_tokenizer_decode_token (llm_model_get_tokenizer (asked->model),
                                g_array_index (reply->steps, LlmReplyStep, i).token, FALSE, text);
  if (reply == NULL)
    g_string_append (text, error->message);
  return g_string_free (text, FALSE);
}

static void
check (Asked      *asked,
       const char *prompt,
       const char *system,
       guint       turn,
       const char *expected)
{
  g_autofree char *text = ask (asked, prompt, system, turn);

  g_assert_cmpstr (text, ==, expected);
}

static void
test_rules (void)
{
  Asked asked = begin (
    "[{\"when\": {\"prompt\": \"a\", \"turn\": 2}, \"text\": \"exact, second\"},"
    " {\"when\": {\"prompt\": \"a\"}, \"text\": \"exact\"},"
    " {\"when\": {\"contains\": \"bus\", \"system-contains\": \"kind\"}, \"text\": \"kind bus\"},"
    " {\"when\": {\"contains\": \"bus\"}, \"times\": 2, \"text\": \"bus\"},"
    " {\"when\": {\"contains\": \"bus\"}, \"times\": 1,"
    "  \"error\": {\"name\": \"Overloaded\", \"message\": \"no\"}},"
    " {\"when\": {\"pattern\": \"^\\\\d+ (?i:apples)$\"}, \"text\": \"{prompt}! {prompt}\"},"
    " {\"when\": {\"start\": 2}, \"text\": \"never\"},"
    " {\"when\": {\"contains\": \"ü\"}, \"pieces\": [\"grün \", \"\", \"🌍\"]}]");

  check (&asked, "a", "", 1, "exact");
  check (&asked, "a", "", 2, "exact, second");
  check (&asked, "a bus", "be kind", 1, "kind bus");
  check (&asked, "a bus", "be", 1, "bus");
  check (&asked, "a bus", "", 1, "bus");
  check (&asked, "a bus", "", 1, "no");
  check (&asked, "12 Apples", "", 1, "12 Apples! 12 Apples");
  check (&asked, "ü", "", 1, "grün 🌍");
  check (&asked, "b", "", 1,
         "No rule of the mock script applies to this call; a last rule without “when” would "
         "answer all the others");
  end (&asked);
}

/* One that would try for longer than main can wait. It would find nothing in the end,
 * and the next rule would answer. */
static void
test_endless_pattern (void)
{
  Asked asked = begin ("[{\"when\": {\"pattern\": \"^(a+)+$\"}, \"text\": \"a\"},"
                       " {\"text\": \"b\"}]");
  g_autofree char *many = g_strnfill (20, 'a');
  g_autofree char *prompt = g_strconcat (many, "b", NULL);
  g_autofree char *text = ask (&asked, prompt, "", 1);

  g_assert_nonnull (strstr (text, "takes too long"));
  check (&asked, "aaa", "", 1, "a");
  check (&asked, "b", "", 1, "b");
  end (&asked);
}

/* A prompt that stands in a text very often makes no text of gigabytes. */
static void
test_bounded (void)
{
  g_autoptr(GString) rules = g_string_new ("[{\"text\": \"");
  g_autofree char *prompt = g_strnfill (30000, 'x');
  g_autofree char *text = NULL;
  Asked asked;

  for (guint i = 0; i < 100000; i++)
    g_string_append (rules, "{prompt}");
  g_string_append (rules, "\"}]");
  asked = begin (rules->str);
  text = ask (&asked, prompt, "", 1);
  g_assert_cmpuint (strlen (text), >=, 32768);
  g_assert_cmpuint (strlen (text), <, 2000000);
  end (&asked);
}

static void
test_starts (void)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *below = g_build_filename (folder, "a", "b", NULL);
  g_autofree char *file = g_build_filename (below, "mock-starts", NULL);
  const char *expected[] = { "first", "second", "later", "later" };

  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      Asked asked = begin ("[{\"when\": {\"start\": 1}, \"text\": \"first\"},"
                           " {\"when\": {\"start\": 2}, \"text\": \"second\"},"
                           " {\"text\": \"later\"}]");

      g_assert_true (llm_script_count_start (asked.script, below, &error));
      g_assert_no_error (error);
      check (&asked, "a", "", 1, expected[i]);
      end (&asked);
    }
  g_assert_true (g_file_set_contents (file, "no number", -1, NULL));
  {
    Asked asked = begin ("[{\"when\": {\"start\": 1}, \"text\": \"first\"},"
                         " {\"text\": \"later\"}]");

    g_assert_true (llm_script_count_start (asked.script, below, &error));
    check (&asked, "a", "", 1, "first");
    g_assert_true (llm_script_count_start (asked.script, NULL, &error));
    g_assert_false (llm_script_count_start (asked.script, "/proc/nothing/here", &error));
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
    end (&asked);
  }
  llm_test_folder_remove (folder);
}

/* --- the model --- */

static void
test_model (void)
{
  Asked asked = begin ("[{\"text\": \"a\"}]");
  g_autoptr(LlmModelInfo) info = llm_script_make_model (asked.script);
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (asked.model);
  char text[256] = "";
  LlmTextPart part = { text, 0, FALSE };
  g_autoptr(GError) error = NULL;

  g_assert_cmpstr (info->id, ==, "mock");
  g_assert_true (g_str_has_prefix (info->title, "Mock model (llmsvc-script-"));
  g_assert_no_error (info->error);
  g_assert_cmpuint (info->context_length, ==, 32768);
  g_assert_nonnull (llm_model_get_template (asked.model, &error));
  g_assert_no_error (error);

  /* every byte that text can have is the token of its number, in plain text */
  for (guint byte = 1; byte < 128; byte++)
    text[byte - 1] = (char) byte;
  part.length = 127;
  llm_tokenizer_encode (tokenizer, &part, 1, TRUE, tokens);
  g_assert_cmpuint (tokens->len, ==, 127);
  for (guint i = 0; i < tokens->len; i++)
    g_assert_cmpint (g_array_index (tokens, gint32, i), ==, (gint32) i + 1);

  part = (LlmTextPart) { "<|im_end|>€", 13, FALSE };
  g_array_set_size (tokens, 0);
  llm_tokenizer_encode (tokenizer, &part, 1, TRUE, tokens);
  g_assert_cmpuint (tokens->len, ==, 13);
  g_assert_cmpint (g_array_index (tokens, gint32, 10), ==, 0xe2);
  end (&asked);
}

/* The installed example says what it is an example of. */
static void
test_example (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmScript) script = llm_script_load (example, &error);

  g_assert_no_error (error);
  g_assert_nonnull (script);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  example = argv[1];

  g_test_add_func ("/mock/script/bad", test_bad);
  g_test_add_func ("/mock/script/damaged", test_damaged);
  g_test_add_func ("/mock/script/deep", test_deep);
  g_test_add_func ("/mock/script/large", test_large);
  g_test_add_func ("/mock/script/no-file", test_no_file);
  g_test_add_func ("/mock/script/rules", test_rules);
  g_test_add_func ("/mock/script/endless-pattern", test_endless_pattern);
  g_test_add_func ("/mock/script/bounded", test_bounded);
  g_test_add_func ("/mock/script/starts", test_starts);
  g_test_add_func ("/mock/script/model", test_model);
  g_test_add_func ("/mock/script/example", test_example);
  return g_test_run ();
}
