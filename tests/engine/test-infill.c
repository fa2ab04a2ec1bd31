/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The option `suffix`: with a model that has the tokens the prompt is prefix, suffix and what asks for
 * the middle, in this order; the answer ends at what ends such a text. Others refuse it. */

#include "engine-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "support/llm-test-folder.h"

#define MODEL "llmsvc-demo-8M-Q8_0.gguf"

typedef struct
{
  Fixture parent;
  char *models;           /* folder */
  gint32 ids[3];          /* of the markers: prefix, suffix, middle */
} Infill;

/* The shipped model, of which three tokens of five bytes got the names of the markers. */
static void
write_model (Infill *self)
{
  static const char *const names[] = { "<PRE>", "<SUF>", "<MID>" };
  g_autofree char *from = g_build_filename (g_getenv ("LLM_MODEL_DIR"), MODEL, NULL);
  g_autofree char *to = g_build_filename (self->models, "infill.gguf", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (from, &error);
  g_autofree char *data = NULL;
  LlmTokenizer *tokenizer;
  guint n_found = 0;
  gsize n;

  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (from, &data, &n, &error));
  tokenizer = llm_model_get_tokenizer (model);
  g_assert_false (llm_tokenizer_can_infill (tokenizer));
  for (guint id = tokenizer->n_tokens; id-- > 0 && n_found < 3;)
    {
      g_autoptr(GString) text = g_string_new (NULL);
      char pattern[13] = { 5 };
      char *at;

      llm_tokenizer_decode_token (tokenizer, (gint32) id, FALSE, text);
      if (text->len != 5 || strspn (text->str, "abcdefghijklmnopqrstuvwxyz") != 5)
        continue;
      memcpy (pattern + 8, text->str, 5);
      at = memmem (data, n, pattern, sizeof pattern);
      if (at == NULL)
        continue;
      memcpy (at + 8, names[n_found], 5);
      self->ids[n_found++] = (gint32) id;
    }
  g_assert_cmpuint (n_found, ==, 3);
  g_assert_true (g_file_set_contents (to, data, (gssize) n, &error));
}

static void
set_up_infill (Infill       *self,
               gconstpointer data)
{
  LlmSettings *settings;

  self->parent.state = llm_test_folder_new ();
  self->models = llm_test_folder_new ();
  write_model (self);
  settings = new_settings (self->parent.state, 2);
  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { self->models, NULL });
  self->parent.engine = start_engine_with (settings);
  self->parent.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static void
tear_down_infill (Infill       *self,
                  gconstpointer data)
{
  tear_down (&self->parent, NULL);
  llm_test_folder_remove (self->models);
  g_free (self->models);
}

/* The tokens of the parts, put together here. */
static void
test_order (Infill       *self,
            gconstpointer data)
{
  static const char prefix[] = "I want a restaurant <MID> in ";
  static const char suffix[] = " for four people.<PRE>";
  g_autofree char *path = g_build_filename (self->models, "infill.gguf", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (path, &error);
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (model);
  g_autoptr(GArray) expected = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  const char *const texts[] = { prefix, suffix };
  g_autoptr(GString) text = g_string_new (NULL);
  guint n_markers = 0;

  g_assert_true (llm_tokenizer_can_infill (tokenizer));
  if (tokenizer->adds_bos)
    g_array_append_val (expected, tokenizer->bos);
  for (guint i = 0; i < 2; i++)
    {
      LlmTextPart part = { texts[i], strlen (texts[i]), FALSE };

      g_array_append_val (expected, self->ids[i]);
      llm_tokenizer_encode (tokenizer, &part, 1, FALSE, expected);
    }
  g_array_append_val (expected, self->ids[2]);
  llm_tokenizer_encode_infill (tokenizer, prefix, suffix, tokens);
  g_assert_cmpmem (tokens->data, tokens->len * sizeof (gint32), expected->data,
                   expected->len * sizeof (gint32));
  /* what the texts say never becomes a marker */
  for (guint i = 0; i < tokens->len; i++)
    {
      gint32 id = g_array_index (tokens, gint32, i);

      n_markers += id == self->ids[0] || id == self->ids[1] || id == self->ids[2];
      llm_tokenizer_decode_token (tokenizer, id, FALSE, text);
    }
  g_assert_cmpuint (n_markers, ==, 3);
  g_assert_nonnull (strstr (text->str, "<MID>"));
  g_assert_nonnull (strstr (text->str, suffix));
}

static void
test_answer (Infill       *self,
             gconstpointer data)
{
  static const char options[] =
    "{'suffix': <' for four people.'>, 'temperature': <0.0>, 'max-tokens': <uint32 6>, "
    "'logprobs': <uint32 0>}";
  static const char prompt[] = "I want a restaurant in";
  g_autofree char *path = g_build_filename (self->models, "infill.gguf", NULL);
  g_autoptr(LlmModel) model = llm_model_open (path, NULL);
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(Answer) answer = begin_complete (&self->parent, prompt, options);
  g_autoptr(LlmCallOptions) parsed = parse_options ("{'suffix': <' for four people.'>}",
                                                    LLMSVC_CALL_COUNT_TOKENS);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(Answer) other = NULL;
  g_autoptr(GError) error = NULL;
  guint n;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  llm_tokenizer_encode_infill (llm_model_get_tokenizer (model), prompt, " for four people.",
                               tokens);
  g_assert_cmpuint (result_uint (answer, "prompt-tokens"), ==, tokens->len);
  g_assert_cmpuint (result_uint (answer, "output-tokens"), ==, 6);

  llm_engine_count_tokens_async (self->parent.engine, self->parent.caller, user_message (prompt),
                                 parsed, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (take_count (result, &n, &error));
  g_assert_cmpuint (n, ==, tokens->len);

  /* nothing behind the gap is a suffix, too */
  other = begin_complete (&self->parent, prompt, "{'suffix': <''>, 'max-tokens': <uint32 2>}");
  WAIT_FOR (other->is_finished);
  g_assert_no_error (other->error);
}

static void
assert_refused (Fixture         *fixture,
                const char      *options,
                LlmsvcError  code,
                const char      *what)
{
  g_autoptr(Answer) answer = begin_complete (fixture, "Hello", options);

  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, (int) code);
  g_assert_nonnull (strstr (answer->error->message, what));
}

static void
test_options (Infill       *self,
              gconstpointer data)
{
  assert_refused (&self->parent, "{'suffix': <'x'>, 'system': <'Be kind.'>}",
                  LLMSVC_ERROR_INVALID_OPTION, "system");
  assert_refused (&self->parent, "{'suffix': <'x'>, 'messages': <[('user', 'a', @a{sv} {})]>}",
                  LLMSVC_ERROR_INVALID_OPTION, "messages");
  assert_refused (&self->parent, "{'suffix': <'x'>, 'tools': <'[]'>}", LLMSVC_ERROR_INVALID_OPTION,
                  "tools");
}

static void
test_unsupported (Fixture      *fixture,
                  gconstpointer data)
{
  assert_refused (fixture, "{'suffix': <'x'>}", LLMSVC_ERROR_UNSUPPORTED, "suffix");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) \
  g_test_add ("/engine/infill/" path, Infill, NULL, set_up_infill, test, tear_down_infill)
  ADD ("order", test_order);
  ADD ("answer", test_answer);
  ADD ("options", test_options);
  g_test_add ("/engine/infill/unsupported", Fixture, NULL, set_up, test_unsupported, tear_down);
  return g_test_run ();
}
