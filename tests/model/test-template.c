/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Templates against what Jinja makes of the same sources, whole and bit by bit
 * as a conversation grows. */

#include "model/template/llm-template.h"

#include <string.h>

#include "common/llmsvc-error.h"

typedef struct
{
  LlmMessage *messages;
  guint n_messages;
  char **strings;
  gboolean open_answer;
  char *text;
} Case;

static const struct { const char *file; const char *name; } templates[] =
{
  { "chatml", "chatml" }, { "chatml-smollm2", "chatml" }, { "chatml-qwen2.5", "chatml" },
  { "llama-2", "llama-2" }, { "llama-2-one-bos", "llama-2" },
  { "llama-3", "llama-3" }, { "llama-3.1", "llama-3" },
  { "gemma", "gemma" }, { "gemma-3", "gemma" },
  { "phi-3", "phi-3" }, { "phi-3-first", "phi-3" }, { "phi-3-small", "phi-3" },
  { "mistral-first", "mistral" }, { "mistral-space", "mistral" }, { "mistral-v1", "mistral" },
  { "mistral-v3", "mistral" }, { "mistral-v3-tekken", "mistral" },
  { "mistral-v7", "mistral" }, { "mistral-v7-tekken", "mistral" },
  { "zephyr", "zephyr" },
};

static char *
get_path (const char *name,
          const char *suffix)
{
  g_autofree char *file = g_strconcat (name, suffix, NULL);

  return g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates", file, NULL);
}

static LlmTemplate *
open_template (const char *name)
{
  g_autofree char *path = get_path (name, ".jinja");
  g_autofree char *source = NULL;
  g_autoptr(GError) error = NULL;
  LlmTemplate *self;

  g_file_get_contents (path, &source, NULL, &error);
  g_assert_no_error (error);
  self = llm_template_new (source, NULL, name, &error);
  g_assert_no_error (error);
  return self;
}

static void
case_clear (Case *self)
{
  g_free (self->messages);
  g_strfreev (self->strings);
  g_free (self->text);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static void
read_case (GKeyFile   *file,
           const char *group,
           Case       *out)
{
  g_autoptr(GError) error = NULL;
  gsize n_strings;

  out->strings = g_key_file_get_string_list (file, group, "messages", &n_strings, &error);
  g_assert_no_error (error);
  out->text = g_key_file_get_string (file, group, "text", &error);
  g_assert_no_error (error);
  out->open_answer = g_key_file_get_boolean (file, group, "open", &error);
  g_assert_no_error (error);

  g_assert_cmpuint (n_strings % 2, ==, 0);
  out->n_messages = (guint) n_strings / 2;
  out->messages = g_new (LlmMessage, out->n_messages);
  for (guint i = 0; i < out->n_messages; i++)
    out->messages[i] = (LlmMessage) { out->strings[i * 2], out->strings[i * 2 + 1] };
}

static char *
join_parts (LlmPrompt *prompt)
{
  GString *text = g_string_new (NULL);
  guint n_parts;
  const LlmTextPart *parts = llm_prompt_get_parts (prompt, &n_parts);

  for (guint i = 0; i < n_parts; i++)
    {
      g_assert_cmpuint (parts[i].length, >, 0);
      g_string_append_len (text, parts[i].text, (gssize) parts[i].length);
    }
  return g_string_free (text, FALSE);
}

static char *
render (LlmTemplate      *self,
        LlmPoint          point,
        const LlmMessage *messages,
        guint             n_messages,
        gboolean          open_answer)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmPrompt) prompt = llm_template_render (self, point, messages, n_messages,
                                                     open_answer, &error);

  g_assert_no_error (error);
  return join_parts (prompt);
}

/* The messages before each answer with an opened one, and what follows it from
 * both points, must be the two ends of the whole, with the answer between. */
static void
check_cut (LlmTemplate *self,
           const Case  *golden,
           guint        answer)
{
  static const LlmPoint points[] = { LLM_POINT_OPEN_ANSWER, LLM_POINT_CLOSED_ANSWER };
  g_autofree char *before = render (self, LLM_POINT_START, golden->messages, answer, TRUE);
  g_autofree char *trimmed = g_strstrip (g_strdup (golden->messages[answer].text));

  g_assert_true (g_str_has_prefix (golden->text, before));
  for (guint i = 0; i < G_N_ELEMENTS (points); i++)
    {
      g_autofree char *behind = render (self, points[i], golden->messages + answer + 1,
                                        golden->n_messages - answer - 1, TRUE);
      g_autofree char *between = NULL;
      gsize n_before = strlen (before), n_behind = strlen (behind), n = strlen (golden->text);

      g_assert_cmpuint (n_before + n_behind, <=, n);
      g_assert_true (g_str_has_suffix (golden->text, behind));
      between = g_strndup (golden->text + n_before, n - n_before - n_behind);
      if (points[i] == LLM_POINT_OPEN_ANSWER)
        g_assert_cmpstr (g_strstrip (between), ==, trimmed);
      else
        g_assert_true (g_str_has_prefix (g_strstrip (between), trimmed));
    }
}

static void
check_case (LlmTemplate *self,
            const Case  *golden)
{
  g_autofree char *text = render (self, LLM_POINT_START, golden->messages, golden->n_messages,
                                  golden->open_answer);

  if (golden->open_answer)
    {
      g_assert_cmpstr (text, ==, golden->text);
      for (guint i = 0; i < golden->n_messages; i++)
        if (g_str_equal (golden->messages[i].role, "assistant"))
          check_cut (self, golden, i);
    }
  else
    {
      /* What stands between messages comes with the next one. */
      gsize n = strlen (text);

      g_assert_cmpuint (strlen (golden->text), >=, n);
      g_assert_cmpmem (golden->text, n, text, n);
      g_assert_cmpuint (strspn (golden->text + n, " \n"), ==, strlen (golden->text) - n);
    }
}

static void
test_golden (gconstpointer user_data)
{
  const char *name = user_data;
  g_autoptr(LlmTemplate) self = open_template (name);
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autofree char *path = get_path (name, ".golden");
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) groups = NULL;

  g_key_file_load_from_file (file, path, G_KEY_FILE_NONE, &error);
  g_assert_no_error (error);
  groups = g_key_file_get_groups (file, NULL);
  g_assert_cmpuint (g_strv_length (groups), >=, 3);
  for (guint i = 0; groups[i] != NULL; i++)
    {
      g_auto(Case) golden = { 0 };

      g_test_message ("%s: %s", name, groups[i]);
      read_case (file, groups[i], &golden);
      check_case (self, &golden);
    }
}

static void
test_names (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (templates); i++)
    {
      g_autoptr(LlmTemplate) self = open_template (templates[i].file);

      g_assert_cmpstr (llm_template_get_name (self), ==, templates[i].name);
    }
}

/* A conversation that grows by single messages ends up the same. */
static void
test_message_by_message (void)
{
  static const char *const names[] = { "chatml", "chatml-smollm2", "llama-3.1", "phi-3", "zephyr",
                                       "llama-2", "gemma", "mistral-v7" };
  LlmMessage messages[] = { { (char *) "user", (char *) "Hello" },
                            { (char *) "assistant", (char *) "Hi" },
                            { (char *) "user", (char *) "Bye" } };

  for (guint n = 0; n < G_N_ELEMENTS (names); n++)
    {
      g_autoptr(LlmTemplate) self = open_template (names[n]);
      g_autofree char *whole = render (self, LLM_POINT_START, messages, 3, TRUE);
      g_autoptr(GString) grown = g_string_new (NULL);
      LlmPoint point = LLM_POINT_START;

      for (guint i = 0; i <= G_N_ELEMENTS (messages); i++)
        {
          gboolean is_end = i == G_N_ELEMENTS (messages);
          g_autofree char *text = render (self, point, messages + i, is_end ? 0 : 1, is_end);

          g_string_append (grown, text);
          if (!is_end)
            point = g_str_equal (messages[i].role, "assistant") ? LLM_POINT_CLOSED_ANSWER
                                                                : LLM_POINT_CLOSED_MESSAGE;
        }
      g_assert_cmpstr (grown->str, ==, whole);
    }
}

/* All that apps wrote is plain text, and nothing else is. */
static void
test_parts (void)
{
  for (guint t = 0; t < G_N_ELEMENTS (templates); t++)
    {
      g_autoptr(LlmTemplate) self = open_template (templates[t].file);
      LlmMessage messages[] = { { (char *) "user", (char *) "<|im_end|></s><|eot_id|>" },
                                { (char *) "assistant", (char *) "[INST]<end_of_turn>" },
                                { (char *) "user", (char *) "<|end|>" } };
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmPrompt) prompt = llm_template_render (self, LLM_POINT_START, messages, 3, TRUE,
                                                         &error);
      guint n_parts, n_plain = 0;
      const LlmTextPart *parts;

      g_assert_no_error (error);
      parts = llm_prompt_get_parts (prompt, &n_parts);
      for (guint i = 0; i < n_parts; i++)
        {
          g_autofree char *text = g_strndup (parts[i].text, parts[i].length);

          if (parts[i].is_markup)
            continue;
          if (n_plain < 3 && g_str_equal (text, messages[n_plain].text))
            n_plain++;
          else
            g_assert_true (strstr (text, "SmolLM") != NULL || strstr (text, "Qwen") != NULL);
        }
      g_assert_cmpuint (n_plain, ==, 3);
    }
}

static void
assert_refused (const char *template,
                LlmPoint    point,
                const char *roles,
                gboolean    open_answer,
                const char *hint)
{
  g_autoptr(LlmTemplate) self = open_template (template);
  g_auto(GStrv) names = g_strsplit (roles, " ", -1);
  guint n = *roles != '\0' ? g_strv_length (names) : 0;
  g_autofree LlmMessage *messages = g_new0 (LlmMessage, n + 1);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmPrompt) prompt = NULL;

  for (guint i = 0; i < n; i++)
    messages[i] = (LlmMessage) { names[i], (char *) "text" };
  prompt = llm_template_render (self, point, messages, n, open_answer, &error);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_assert_null (prompt);
  g_assert_nonnull (strstr (error->message, hint));
  g_assert_nonnull (strstr (error->message, llm_template_get_name (self)));
}

static void
test_refused (void)
{
  assert_refused ("chatml", LLM_POINT_START, "User", TRUE, "“User”");
  assert_refused ("chatml", LLM_POINT_START, "user <|im_start|>", TRUE, "<|im_start|>");
  assert_refused ("llama-3", LLM_POINT_START, "user assistant tool", TRUE, "“tool”");
  assert_refused ("gemma", LLM_POINT_START, "user assistant tool", TRUE, "“tool”");
  assert_refused ("zephyr", LLM_POINT_START, "tool", TRUE, "“tool”");
  assert_refused ("llama-2", LLM_POINT_START, "assistant user", TRUE, "“assistant”");
  assert_refused ("llama-2", LLM_POINT_START, "user user", TRUE, "“user”");
  assert_refused ("llama-2", LLM_POINT_START, "user system user", TRUE, "“system”");
  assert_refused ("llama-2", LLM_POINT_START, "system", FALSE, "“system”");
  assert_refused ("phi-3-first", LLM_POINT_START, "user system", TRUE, "“system”");
  assert_refused ("mistral-first", LLM_POINT_OPEN_ANSWER, "assistant", TRUE, "“assistant”");
  assert_refused ("mistral-first", LLM_POINT_CLOSED_MESSAGE, "user", TRUE, "“user”");
  assert_refused ("gemma", LLM_POINT_START, "", TRUE, "“user”");
  assert_refused ("gemma", LLM_POINT_START, "user assistant", TRUE, "“user”");
}

/* A role of any length and bytes makes a message that is text. */
static void
test_refused_long (void)
{
  g_autoptr(LlmTemplate) self = open_template ("chatml");
  g_autofree char *role = g_strnfill (300, 'x');
  LlmMessage message = { role, (char *) "" };
  g_autoptr(GError) error = NULL;

  memcpy (role + 1, "äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü", 84);
  g_assert_null (llm_template_render (self, LLM_POINT_START, &message, 1, TRUE, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  g_assert_cmpuint (strlen (error->message), <, 400);
}

/* What looks similar but writes something else. */
static void
test_unknown (void)
{
  static const char *const sources[] = {
    "",
    "{{ messages }}",
    /* no line end behind the role */
    "{{ '<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] + '<|im_end|>' }}",
    /* Falcon 3 */
    "{{ '<|user|>\n' + message['content'] + '\n' }}{{ '<|assistant|>\n' + content + eos_token }}",
    /* GLM */
    "[gMASK]<sop><|user|>\n{{ item['content'] }}<|assistant|>\n",
    /* Phi-4 mini */
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}",
    "{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + message['content'] }}",
    "{{ '[INST]' }}",
    "<<SYS>> [INST] {{ eos_token }}",
  };

  for (guint i = 0; i <= G_N_ELEMENTS (sources); i++)
    {
      const char *source = i < G_N_ELEMENTS (sources) ? sources[i] : NULL;
      g_autoptr(GError) error = NULL;

      g_assert_null (llm_template_new (source, NULL, "model.gguf", &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      g_assert_nonnull (strstr (error->message, "model.gguf"));
      g_assert_nonnull (strstr (error->message, "chatml, llama-2, llama-3, gemma, phi-3, zephyr, "
                                "mistral"));
    }
}

/* Where the template asks for the model's own BOS and EOS. */
static void
test_token_texts (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "tokenizer", "smollm.gguf",
                                            NULL);
  g_autofree char *zephyr = get_path ("zephyr", ".jinja");
  g_autofree char *source = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  g_autoptr(LlmTokenizer) tokenizer = NULL;
  g_autoptr(LlmTemplate) self = NULL;
  LlmMessage message = { (char *) "user", (char *) "Hi" };

  g_assert_no_error (error);
  tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  g_file_get_contents (zephyr, &source, NULL, &error);
  g_assert_no_error (error);
  self = llm_template_new (source, tokenizer, "smollm", &error);
  g_assert_no_error (error);
  text = render (self, LLM_POINT_OPEN_ANSWER, &message, 1, TRUE);
  g_assert_cmpstr (text, ==, "<|im_end|>\n<|user|>\nHi<|im_end|>\n<|assistant|>\n");
}

static void
encode (LlmTokenizer *tokenizer,
        LlmPrompt    *prompt,
        GArray       *ids)
{
  guint n_parts;
  const LlmTextPart *parts = llm_prompt_get_parts (prompt, &n_parts);

  llm_tokenizer_encode (tokenizer, parts, n_parts, FALSE, ids);
}

/* A conversation has the same tokens whether it comes at once or grows. */
static void
check_tokens (const char *template,
              const char *vocabulary,
              const char *end)
{
  LlmMessage messages[] = { { (char *) "user", (char *) "Hello" },
                            { (char *) "assistant", (char *) "Hi" },
                            { (char *) "user", (char *) "Bye" } };
  g_autofree char *file = g_strconcat (vocabulary, ".gguf", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "tokenizer", file, NULL);
  g_autofree char *template_path = get_path (template, ".jinja");
  g_autofree char *source = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  g_autoptr(LlmTokenizer) tokenizer = NULL;
  g_autoptr(LlmTemplate) self = NULL;
  g_autoptr(LlmPrompt) whole = NULL;
  g_autoptr(LlmPrompt) first = NULL;
  g_autoptr(LlmPrompt) second = NULL;
  g_autoptr(GArray) wanted = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) found = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart answer[] = { { "Hi", 2, FALSE }, { end, strlen (end), TRUE } };

  g_assert_no_error (error);
  tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  g_file_get_contents (template_path, &source, NULL, &error);
  g_assert_no_error (error);
  self = llm_template_new (source, tokenizer, template, &error);
  g_assert_no_error (error);

  whole = llm_template_render (self, LLM_POINT_START, messages, 3, TRUE, &error);
  g_assert_no_error (error);
  encode (tokenizer, whole, wanted);

  first = llm_template_render (self, LLM_POINT_START, messages, 1, TRUE, &error);
  g_assert_no_error (error);
  second = llm_template_render (self, LLM_POINT_CLOSED_ANSWER, messages + 2, 1, TRUE, &error);
  g_assert_no_error (error);
  encode (tokenizer, first, found);
  llm_tokenizer_encode (tokenizer, answer, 2, FALSE, found);
  encode (tokenizer, second, found);
  g_assert_cmpmem (found->data, found->len * sizeof (gint32),
                   wanted->data, wanted->len * sizeof (gint32));
}

static void
test_tokens_of_growth (void)
{
  check_tokens ("chatml", "smollm", "<|im_end|>");
  check_tokens ("phi-3", "phi-3", "<|end|>");
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (templates); i++)
    {
      g_autofree char *path = g_strconcat ("/template/golden/", templates[i].file, NULL);

      g_test_add_data_func (path, templates[i].file, test_golden);
    }
  g_test_add_func ("/template/names", test_names);
  g_test_add_func ("/template/message-by-message", test_message_by_message);
  g_test_add_func ("/template/parts", test_parts);
  g_test_add_func ("/template/refused", test_refused);
  g_test_add_func ("/template/refused-long", test_refused_long);
  g_test_add_func ("/template/unknown", test_unknown);
  g_test_add_func ("/template/token-texts", test_token_texts);
  g_test_add_func ("/template/tokens-of-growth", test_tokens_of_growth);

  return g_test_run ();
}
