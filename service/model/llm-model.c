/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-model.h"

#include <xxhash.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "model/architectures/llm-operator.h"

/* The default one has no name. */
#define TEMPLATE_KEY "tokenizer.chat_template"
#define TEMPLATE_FOR_TOOLS "tool_use"
#define MAX_NAMED 16

typedef struct
{
  char *name;
  LlmTemplate *template;    /* (nullable): NULL with */
  GError *error;
} NamedTemplate;

struct _LlmModel
{
  gatomicrefcount ref_count;

  LlmGguf *gguf;
  LlmHparams hparams;
  LlmTokenizer *tokenizer;
  LlmTemplate *template;    /* (nullable) */
  GError *template_error;   /* (nullable): why there is no template */
  GPtrArray *named;         /* (element-type NamedTemplate): others of the file */
  char identity[17];
  gsize has_weight_identity; /* g_once_init_enter() */
  char weight_identity[17];
};

static void
print_identity (guint64 hash,
                char    identity[17])
{
  g_snprintf (identity, 17, "%016" G_GINT64_MODIFIER "x", hash);
}

LlmModel *
llm_model_open (const char  *path,
                GError     **error)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, error);

  return gguf != NULL ? llm_model_new_for_gguf (gguf, error) : NULL;
}

static void
named_template_free (gpointer data)
{
  NamedTemplate *self = data;

  g_free (self->name);
  g_clear_pointer (&self->template, llm_template_free);
  g_clear_error (&self->error);
  g_free (self);
}

/* Those that the file lists by name. */
static gboolean
read_named_templates (LlmModel  *self,
                      GError   **error)
{
  gsize n = 0;
  g_autoptr(GError) local_error = NULL;
  g_autofree LlmGgufString *names =
    llm_gguf_get_strings (self->gguf, TEMPLATE_KEY "s", TRUE, &n, &local_error);

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  for (gsize i = 0; i < MIN (n, MAX_NAMED); i++)
    {
      g_autofree char *name = g_utf8_make_valid (names[i].text, (gssize) names[i].length);
      NamedTemplate *named;
      g_autofree char *key = NULL;
      g_autofree char *source = NULL;

      if (g_str_equal (name, "default"))
        continue;
      named = g_new0 (NamedTemplate, 1);
      g_ptr_array_add (self->named, named);
      named->name = g_steal_pointer (&name);
      key = g_strconcat (TEMPLATE_KEY ".", named->name, NULL);
      source = llm_gguf_get_string (self->gguf, key, TRUE, &named->error);
      if (named->error == NULL)
        named->template =
          llm_template_new (source, self->tokenizer, self->gguf->path, &named->error);
    }
  return TRUE;
}

static LlmModel *
new_model (LlmGguf   *gguf,
           gboolean   takes_any_tokenizer,
           GError   **error)
{
  g_autoptr(LlmModel) self = g_new0 (LlmModel, 1);
  g_autofree char *source = NULL;
  g_autoptr(GError) local_error = NULL;
  /* The table of tensors and all keys, but not the weights: reading these would
   * take as long as loading the model. */
  guint64 parts[] = {
    GUINT64_TO_LE (gguf->header_hash),
    GUINT64_TO_LE (llm_file_map_get_size (gguf->map)),
  };

  g_atomic_ref_count_init (&self->ref_count);
  self->gguf = llm_gguf_ref (gguf);
  self->named = g_ptr_array_new_with_free_func (named_template_free);
  print_identity (XXH3_64bits (parts, sizeof parts), self->identity);

  if (!llm_hparams_read (gguf, &self->hparams, error) ||
      !llm_operator_check_all (gguf, &self->hparams, error))
    return NULL;

  self->tokenizer = takes_any_tokenizer ? llm_tokenizer_new_with_any_rules (gguf, error)
                                        : llm_tokenizer_new (gguf, error);
  if (self->tokenizer == NULL)
    return NULL;
  if (self->tokenizer->n_tokens != self->hparams.n_vocab)
    return llm_gguf_fail_null (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                               "tokenizer.ggml.tokens has %u tokens, but %s.vocab_size and the "
                               "embedding have %u",
                               self->tokenizer->n_tokens, self->hparams.architecture,
                               self->hparams.n_vocab);

  /* A template that is not known only stops chats; one that can't be read is an error. */
  source = llm_gguf_get_string (gguf, TEMPLATE_KEY, TRUE, &local_error);
  if (source == NULL && local_error == NULL)
    source = llm_gguf_get_string (gguf, TEMPLATE_KEY ".default", TRUE, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  self->template = llm_template_new (source, self->tokenizer, gguf->path, &self->template_error);
  return read_named_templates (self, error) ? g_steal_pointer (&self) : NULL;
}

LlmModel *
llm_model_new_for_gguf (LlmGguf  *gguf,
                        GError  **error)
{
  return new_model (gguf, FALSE, error);
}

LlmModel *
llm_model_new_with_any_tokenizer (LlmGguf  *gguf,
                                  GError  **error)
{
  return new_model (gguf, TRUE, error);
}

LlmModel *
llm_model_ref (LlmModel *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_model_unref (LlmModel *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;

  g_clear_pointer (&self->template, llm_template_free);
  g_clear_error (&self->template_error);
  g_ptr_array_unref (self->named);
  g_clear_pointer (&self->tokenizer, llm_tokenizer_free);
  g_clear_pointer (&self->gguf, llm_gguf_unref);
  g_free (self);
}

LlmGguf *
llm_model_get_gguf (LlmModel *self)
{
  return self->gguf;
}

const LlmHparams *
llm_model_get_hparams (LlmModel *self)
{
  return &self->hparams;
}

LlmTokenizer *
llm_model_get_tokenizer (LlmModel *self)
{
  return self->tokenizer;
}

LlmTemplate *
llm_model_get_template (LlmModel  *self,
                        GError   **error)
{
  if (self->template == NULL)
    g_propagate_error (error, g_error_copy (self->template_error));
  return self->template;
}

LlmTemplate *
llm_model_choose_template (LlmModel    *self,
                           const char  *name,
                           gboolean     has_tools,
                           GError     **error)
{
  const char *wanted = name != NULL ? name : has_tools ? TEMPLATE_FOR_TOOLS : "default";
  g_autoptr(GString) names = g_string_new ("default");

  for (guint i = 0; i < self->named->len; i++)
    {
      const NamedTemplate *named = g_ptr_array_index (self->named, i);

      if (g_str_equal (named->name, wanted) && (named->template != NULL || name != NULL))
        {
          if (named->template == NULL)
            g_propagate_error (error, g_error_copy (named->error));
          return named->template;
        }
      g_string_append_printf (names, ", %s", named->name);
    }
  if (name == NULL || g_str_equal (name, "default"))
    return llm_model_get_template (self, error);
  return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION,
                        "template: the model has none of the name “%.64s”; it has %s", name,
                        names->str);
}

const char *
llm_model_get_template_name (LlmModel          *self,
                             const LlmTemplate *template)
{
  for (guint i = 0; i < self->named->len; i++)
    {
      const NamedTemplate *named = g_ptr_array_index (self->named, i);

      if (named->template == template && template != NULL)
        return named->name;
    }
  return NULL;
}

char *
llm_model_list_templates (LlmModel *self)
{
  g_autoptr(GString) names = g_string_new (NULL);

  for (guint i = 0; i < self->named->len; i++)
    g_string_append_printf (names, "%s%s", i > 0 ? ", " : "",
                            ((const NamedTemplate *) g_ptr_array_index (self->named, i))->name);
  return g_string_free (g_steal_pointer (&names), FALSE);
}

const char *
llm_model_get_identity (LlmModel *self)
{
  return self->identity;
}

const char *
llm_model_get_weight_identity (LlmModel *self)
{
  if (g_once_init_enter (&self->has_weight_identity))
    {
      print_identity (llm_gguf_get_weights_hash (self->gguf), self->weight_identity);
      g_once_init_leave (&self->has_weight_identity, 1);
    }
  return self->weight_identity;
}
