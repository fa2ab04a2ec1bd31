/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Log-probabilities of logits that no healthy model has: ties, NaN, infinities, one certain token;
 * and tokens whose text is no text. */

#include "decoding/llm-logprobs.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-option-table.h"
#include "model/llm-model.h"

typedef struct
{
  LlmModel *model;
  LlmTokenizer *tokenizer;
  float *logits;
  JsonNode *root;      /* (nullable): what was told last */
} Fixture;

static void
set_up (Fixture      *self,
        gconstpointer data)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);

  self->model = llm_model_open (path, NULL);
  self->tokenizer = llm_model_get_tokenizer (self->model);
  self->logits = g_new0 (float, self->tokenizer->n_tokens);
}

static void
tear_down (Fixture      *self,
           gconstpointer data)
{
  g_clear_pointer (&self->root, json_node_unref);
  g_free (self->logits);
  llm_model_unref (self->model);
}

static JsonObject *
tell (Fixture *self,
      gint32   token,
      guint    n_top)
{
  g_autoptr(GString) items = g_string_new (NULL);
  g_autoptr(GError) error = NULL;

  llm_logprobs_append (items, self->tokenizer, self->logits, token, n_top);
  g_clear_pointer (&self->root, json_node_unref);
  self->root = json_from_string (items->str, &error);
  g_assert_no_error (error);
  return json_node_get_object (self->root);
}

static double
get_logprob (JsonObject *entry)
{
  return json_object_get_double_member (entry, "logprob");
}

static gint64
get_top_id (JsonObject *entry,
            guint       i)
{
  JsonArray *top = json_object_get_array_member (entry, "top_logprobs");

  return json_object_get_int_member (json_array_get_object_element (top, i), "id");
}

static guint
count_top (JsonObject *entry)
{
  return json_array_get_length (json_object_get_array_member (entry, "top_logprobs"));
}

static void
test_ties (Fixture      *self,
           gconstpointer data)
{
  guint n = self->tokenizer->n_tokens;
  JsonObject *entry = tell (self, 100, 20);

  g_assert_cmpfloat_with_epsilon (get_logprob (entry), -log (n), 1e-7);
  g_assert_cmpuint (count_top (entry), ==, 20);
  for (guint i = 0; i < 20; i++)
    g_assert_cmpint (get_top_id (entry, i), ==, i);

  /* more are not told, whatever is asked for */
  g_assert_cmpuint (count_top (tell (self, 100, 1000)), ==, LLMSVC_MAX_LOGPROBS);
  self->logits[n - 1] = 1;
  self->logits[50] = 2;
  entry = tell (self, 50, 3);
  g_assert_cmpint (get_top_id (entry, 0), ==, 50);
  g_assert_cmpint (get_top_id (entry, 1), ==, n - 1);
  g_assert_cmpint (get_top_id (entry, 2), ==, 0);
}

static void
test_extremes (Fixture      *self,
               gconstpointer data)
{
  guint n = self->tokenizer->n_tokens;
  JsonObject *entry;

  /* only two are possible */
  for (guint i = 0; i < n; i++)
    self->logits[i] = i % 2 == 0 ? NAN : -INFINITY;
  self->logits[7] = 1e30f;
  self->logits[9] = 1e30f;
  entry = tell (self, 7, 20);
  g_assert_cmpuint (count_top (entry), ==, 2);
  g_assert_cmpfloat_with_epsilon (get_logprob (entry), -log (2), 1e-7);
  g_assert_cmpfloat (get_logprob (tell (self, 8, 0)), ==, LLM_LOGPROB_NEVER);

  /* a certain one: as far from the others as floats go */
  for (guint i = 0; i < n; i++)
    self->logits[i] = -3e38f;
  self->logits[3] = 3e38f;
  entry = tell (self, 3, 1);
  g_assert_cmpfloat (json_node_get_double (json_object_get_member (entry, "logprob")), ==, 0);
  g_assert_cmpint (get_top_id (entry, 0), ==, 3);
}

/* Every token of the vocabulary makes JSON, with its bytes. */
static void
test_texts (Fixture      *self,
            gconstpointer data)
{
  for (guint id = 0; id < self->tokenizer->n_tokens; id++)
    {
      JsonObject *entry = tell (self, (gint32) id, 1);
      JsonArray *bytes = json_object_get_array_member (entry, "bytes");
      g_autoptr(GString) text = g_string_new (NULL);

      llm_tokenizer_decode_token (self->tokenizer, (gint32) id, TRUE, text);
      g_assert_cmpint (json_object_get_int_member (entry, "id"), ==, id);
      g_assert_cmpuint (json_array_get_length (bytes), ==, text->len);
      for (guint i = 0; i < text->len; i++)
        g_assert_cmpint (json_array_get_int_element (bytes, i), ==, (guint8) text->str[i]);
      if (g_utf8_validate_len (text->str, text->len, NULL))
        g_assert_cmpstr (json_object_get_string_member (entry, "token"), ==, text->str);
      else
        g_assert_nonnull (strstr (json_object_get_string_member (entry, "token"), "\xef\xbf\xbd"));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) \
  g_test_add ("/decoding/logprobs/" path, Fixture, NULL, set_up, test, tear_down)
  ADD ("ties", test_ties);
  ADD ("extremes", test_extremes);
  ADD ("texts", test_texts);
  return g_test_run ();
}
