/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/calls/llm-prepare.h"
#include <string.h>

#include "common/llmsvc-error.h"
#include "support/llm-test-gguf.h"

/* A tiny model; with @adds_eos its file asks for an EOS behind every text. */
static LlmModel *
new_model (gboolean adds_eos)
{
  const LlmTestModel shape = { .seed = 1, .adds_eos = adds_eos };
  g_autoptr(GBytes) bytes = llm_test_model_new (&shape);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "test.gguf", &error);
  LlmModel *model;

  g_assert_no_error (error);
  model = llm_model_new_for_gguf (gguf, &error);
  g_assert_no_error (error);
  return model;
}

static GArray *
prepare (LlmModel        *model,
         LlmPrepareInput *input)
{
  g_autoptr(GError) error = NULL;
  GArray *tokens = llm_prepare (model, input, NULL, &error);

  g_assert_no_error (error);
  return tokens;
}

static void
assert_same (const GArray *a,
             const GArray *b)
{
  g_assert_cmpmem (a->data, a->len * sizeof (gint32), b->data, b->len * sizeof (gint32));
}

/* A prompt never ends with the token that ends texts. */
static void
test_no_eos (void)
{
  g_autoptr(LlmModel) plain = new_model (FALSE);
  g_autoptr(LlmModel) ending = new_model (TRUE);

  g_assert_true (llm_model_get_tokenizer (ending)->adds_eos);
  for (guint is_raw = 0; is_raw < 2; is_raw++)
    {
      g_autoptr(LlmPrepareInput) input = llm_prepare_input_new ();
      g_autoptr(GArray) expected = NULL;
      g_autoptr(GArray) tokens = NULL;

      input->opens_answer = TRUE;
      if (is_raw)
        input->raw = g_strdup ("Hello");
      else
        llm_prepare_input_add_message (input, "user", "Hello", NULL);
      expected = prepare (plain, input);
      tokens = prepare (ending, input);
      g_assert_cmpuint (expected->len, >, 2);
      g_assert_cmpint (g_array_index (tokens, gint32, 0), ==, LLM_TEST_TOKEN_BOS);
      assert_same (tokens, expected);
    }
}

/* Settled tokens stay in front as they are, and no second BOS follows them. */
static void
test_settled (void)
{
  const gint32 settled[] = { 1, 3, 50, 4 };
  g_autoptr(LlmModel) model = new_model (FALSE);
  g_autoptr(LlmPrepareInput) input = llm_prepare_input_new ();
  g_autoptr(GArray) tokens = NULL;

  g_array_append_vals (input->settled, settled, G_N_ELEMENTS (settled));
  input->point = LLM_POINT_CLOSED_ANSWER;
  input->n_settled = 2;
  llm_prepare_input_add_message (input, "user", "Hello", NULL);
  llm_prepare_input_add_message (input, "assistant", "Hi", NULL);
  llm_prepare_input_add_message (input, "user", "Hello", NULL);
  tokens = prepare (model, input);
  g_assert_cmpuint (tokens->len, >, G_N_ELEMENTS (settled));
  g_assert_cmpmem (tokens->data, sizeof settled, settled, sizeof settled);
  for (guint i = G_N_ELEMENTS (settled); i < tokens->len; i++)
    g_assert_cmpint (g_array_index (tokens, gint32, i), !=, LLM_TEST_TOKEN_BOS);
}

/* The tokens of the system messages are counted, settled or not, and whatever follows them. */
static void
test_system (void)
{
  static const char *const texts[] = { "Hello", "Be", "System", "" };
  g_autoptr(LlmModel) model = new_model (FALSE);
  g_autoptr(LlmPrepareInput) alone = llm_prepare_input_new ();
  g_autoptr(GArray) system = NULL;
  g_autoptr(GError) error = NULL;
  guint n_plain;

  llm_prepare_input_add_message (alone, "system", "Be kind", NULL);
  llm_prepare_input_add_message (alone, "system", "Be brief", NULL);
  system = prepare (model, alone);
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr(LlmPrepareInput) input = llm_prepare_input_new ();
      g_autoptr(LlmPrepareInput) next = llm_prepare_input_new ();
      g_autoptr(GArray) tokens = NULL;
      g_autoptr(GArray) later = NULL;
      guint n_first, n_later;

      input->opens_answer = next->opens_answer = TRUE;
      llm_prepare_input_add_message (input, "system", "Be kind", NULL);
      llm_prepare_input_add_message (input, "system", "Be brief", NULL);
      llm_prepare_input_add_message (input, "user", texts[i], NULL);
      tokens = llm_prepare (model, input, &n_plain, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (n_plain, ==, 0);
      g_clear_pointer (&tokens, g_array_unref);

      input->counts_system = TRUE;
      input->n_system = 2;
      tokens = llm_prepare (model, input, &n_first, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (n_first, >=, system->len);
      /* besides, at most what opens the question */
      g_assert_cmpuint (n_first, <, system->len + 16);
      g_assert_cmpmem (tokens->data, system->len * sizeof (gint32), system->data,
                       system->len * sizeof (gint32));

      g_array_append_vals (next->settled, tokens->data, tokens->len);
      next->point = LLM_POINT_CLOSED_ANSWER;
      llm_prepare_input_add_message (next, "system", "Be kind", NULL);
      llm_prepare_input_add_message (next, "system", "Be brief", NULL);
      llm_prepare_input_add_message (next, "user", texts[i], NULL);
      llm_prepare_input_add_message (next, "assistant", "Hi", NULL);
      llm_prepare_input_add_message (next, "user", "And you?", NULL);
      next->counts_system = TRUE;
      next->n_settled = 4;
      next->n_system = 2;
      later = llm_prepare (model, next, &n_later, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (n_later, ==, n_first);
    }
}

/* (transfer full): the text of the prompt for one question. */
static char *
write_prompt (LlmModel    *model,
              LlmTemplate *template,
              const char  *tools)
{
  g_autoptr(LlmPrepareInput) input = llm_prepare_input_new ();
  g_autoptr(GArray) tokens = NULL;
  g_autoptr(GString) text = g_string_new (NULL);

  input->template = template;
  input->tools = g_strdup (tools);
  llm_prepare_input_add_message (input, "user", "Hello", NULL);
  tokens = prepare (model, input);
  for (guint i = 0; i < tokens->len; i++)
    llm_tokenizer_decode_token (llm_model_get_tokenizer (model), g_array_index (tokens, gint32, i),
                                FALSE, text);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Of several templates the one for tools where there are tools, and any by its name. */
static void
test_templates (void)
{
  static const char tools[] = "[{\"function\": {\"name\": \"f\"}}]";
  const LlmTestModel shape = { .seed = 1, .has_templates = TRUE };
  g_autoptr(GBytes) bytes = llm_test_model_new (&shape);
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "test.gguf", NULL);
  g_autoptr(LlmModel) model = llm_model_new_for_gguf (gguf, NULL);
  g_autoptr(LlmModel) plain = new_model (FALSE);
  LlmTemplate *own = llm_model_get_template (model, NULL);
  LlmTemplate *for_tools = llm_model_choose_template (model, NULL, TRUE, NULL);
  LlmTemplate *rag = llm_model_choose_template (model, "rag", TRUE, NULL);
  g_autofree char *names = llm_model_list_templates (model);
  g_autofree char *with_tools = write_prompt (model, for_tools, tools);
  g_autofree char *with_rag = write_prompt (model, rag, NULL);
  g_autofree char *without = write_prompt (model, own, NULL);
  g_autoptr(GError) error = NULL;

  g_assert_cmpstr (names, ==, "tool_use, rag, broken");
  g_assert_nonnull (strstr (with_tools, "tool_useHello"));
  g_assert_nonnull (strstr (with_rag, "ragHello"));
  g_assert_null (strstr (without, "tool_use"));
  g_assert_cmpstr (llm_model_get_template_name (model, rag), ==, "rag");
  g_assert_null (llm_model_get_template_name (model, own));
  g_assert_true (llm_model_choose_template (model, NULL, FALSE, NULL) == own);
  g_assert_true (llm_model_choose_template (model, "default", TRUE, NULL) == own);
  g_assert_true (llm_model_choose_template (plain, NULL, TRUE, NULL)
                 == llm_model_get_template (plain, NULL));

  g_assert_null (llm_model_choose_template (model, "broken", FALSE, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_clear_error (&error);
  g_assert_null (llm_model_choose_template (model, "none", FALSE, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
  g_assert_nonnull (strstr (error->message, "“none”; it has default, tool_use, rag, broken"));
}

/* Files that have all of their templates by name. */
static void
test_named_default (void)
{
  const LlmTestModel shape = { .seed = 1, .names_default = TRUE };
  g_autoptr(GBytes) bytes = llm_test_model_new (&shape);
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "test.gguf", NULL);
  g_autoptr(LlmModel) model = llm_model_new_for_gguf (gguf, NULL);
  g_autoptr(GError) error = NULL;
  LlmTemplate *own = llm_model_get_template (model, &error);

  g_assert_no_error (error);
  g_assert_nonnull (own);
  g_assert_true (llm_model_choose_template (model, NULL, TRUE, NULL) == own);
  g_assert_true (llm_model_choose_template (model, "default", FALSE, NULL) == own);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/prepare/no-eos", test_no_eos);
  g_test_add_func ("/prepare/settled", test_settled);
  g_test_add_func ("/prepare/system", test_system);
  g_test_add_func ("/prepare/templates", test_templates);
  g_test_add_func ("/prepare/named-default", test_named_default);
  return g_test_run ();
}
