/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-catalogue.h"

#include "base/llm-fail.h"
#include "model/llm-companion.h"

#include <string.h>

#define SUFFIX LLM_MODEL_SUFFIX
/* Characters of a text from a file that are shown to people. */
#define MAX_TEXT 256

LlmModelInfo *
llm_model_info_ref (LlmModelInfo *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_model_info_unref (LlmModelInfo *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;

  g_free (self->id);
  g_free (self->title);
  g_free (self->path);
  g_clear_pointer (&self->content, g_bytes_unref);
  g_free (self->architecture);
  g_free (self->quantization);
  g_free (self->license);
  g_clear_error (&self->error);
  g_ptr_array_unref (self->warnings);
  g_free (self);
}

static char *
make_id (const char *path)
{
  g_autofree char *base = g_path_get_basename (path);
  g_autofree char *id = g_filename_display_name (base);

  if (g_str_has_suffix (id, SUFFIX) && strlen (id) > strlen (SUFFIX))
    id[strlen (id) - strlen (SUFFIX)] = '\0';
  if (g_regex_match_simple (".-00001-of-[0-9]{5}$", id, 0, 0))
    id[strlen (id) - strlen ("-00001-of-00001")] = '\0';
  return g_steal_pointer (&id);
}

/* A text for users, on one line and not too long; @fallback when it is missing. @gguf:
 * (nullable) */
static char *
read_text (LlmGguf    *gguf,
           const char *key,
           const char *fallback)
{
  g_autofree char *text = gguf != NULL ? llm_gguf_get_string (gguf, key, TRUE, NULL) : NULL;
  GString *shown;
  guint n = 0;

  if (text == NULL || *text == '\0')
    return g_strdup (fallback);

  shown = g_string_new (NULL);
  for (const char *p = text; *p != '\0' && n < MAX_TEXT; p = g_utf8_next_char (p), n++)
    {
      gunichar c = g_utf8_get_char (p);

      g_string_append_unichar (shown, g_unichar_isprint (c) ? c : ' ');
    }
  return g_string_free (shown, FALSE);
}

static void
read_tensors (LlmModelInfo *self,
              LlmGguf      *gguf)
{
  guint64 counts[LLK_TYPE_LIMIT] = { 0 };
  LlkType most = 0;

  for (guint i = 0; i < gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);
      guint64 n = tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * tensor->dims[3];

      counts[tensor->type] += n;
      self->parameters += n;
      if (counts[tensor->type] > counts[most])
        most = tensor->type;
    }
  if (gguf->tensors->len > 0)
    self->quantization = g_strdup (llk_type_name (most));
}

static LlmGguf *
open_gguf (LlmModelInfo  *self,
           GError       **error)
{
  return self->content != NULL ? llm_gguf_new_for_bytes (self->content, self->path, error)
                               : llm_gguf_open (self->path, error);
}

static LlmModel *
open_model (LlmModelInfo  *self,
            LlmGguf       *gguf,
            GError       **error)
{
  return self->takes_any_tokenizer ? llm_model_new_with_any_tokenizer (gguf, error)
                                   : llm_model_new_for_gguf (gguf, error);
}

static void
add_warnings (LlmModelInfo *self,
              LlmModel     *model)
{
  const char *rules = llm_model_get_tokenizer (model)->unknown_rules;
  GError *error = NULL;

  if (rules != NULL)
    {
      llm_fail (&error, LLMSVC_ERROR_UNSUPPORTED,
                "%s: the pre-tokenizer “%s” is not known; texts are cut by a default rule, so that "
                "answers may be worse than the model is", self->path, rules);
      g_ptr_array_add (self->warnings, g_steal_pointer (&error));
    }
  if (llm_model_get_template (model, &error) == NULL)
    g_ptr_array_add (self->warnings, g_steal_pointer (&error));
}

/* @title: (nullable): as the file says */
static LlmModelInfo *
new_info (const char *path,
          const char *title,
          GBytes     *content,
          gboolean    takes_any_tokenizer)
{
  LlmModelInfo *self = g_new0 (LlmModelInfo, 1);
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(LlmModel) model = NULL;

  g_atomic_ref_count_init (&self->ref_count);
  self->path = g_strdup (path);
  self->content = content != NULL ? g_bytes_ref (content) : NULL;
  self->id = make_id (path);
  self->warnings = g_ptr_array_new_with_free_func ((GDestroyNotify) g_error_free);
  self->takes_any_tokenizer = takes_any_tokenizer;

  gguf = open_gguf (self, &self->error);
  self->title = title != NULL ? g_strdup (title) : read_text (gguf, "general.name", self->id);
  self->architecture = read_text (gguf, "general.architecture", "");
  self->license = read_text (gguf, "general.license", "");
  if (gguf != NULL)
    {
      self->file_bytes = llm_file_map_get_size (gguf->map);
      read_tensors (self, gguf);
      model = open_model (self, gguf, &self->error);
    }
  if (model != NULL)
    {
      add_warnings (self, model);
      self->context_length = llm_model_get_hparams (model)->n_ctx;
      self->footprint = llm_footprint_find (gguf, llm_model_get_hparams (model));
    }
  /* Text is never NULL, so that it can go over the bus. */
  if (self->quantization == NULL)
    self->quantization = g_strdup ("");
  return self;
}

LlmModelInfo *
llm_model_info_read (const char *path,
                     gboolean    takes_any_tokenizer)
{
  return new_info (path, NULL, NULL, takes_any_tokenizer);
}

LlmModelInfo *
llm_model_info_new_for_bytes (GBytes     *content,
                              const char *id,
                              const char *title)
{
  return new_info (id, title, content, FALSE);
}

LlmModel *
llm_model_info_open (LlmModelInfo  *self,
                     GError       **error)
{
  g_autoptr(LlmGguf) gguf = open_gguf (self, error);

  return gguf != NULL ? open_model (self, gguf, error) : NULL;
}

/* `NAME-00002-of-00005.gguf` and the like, but not the first part: that stands for all of them. */
static gboolean
is_further_part (const char *name)
{
  return g_regex_match_simple ("-[0-9]{5}-of-[0-9]{5}\\.gguf$", name, 0, 0) &&
         !g_regex_match_simple ("-00001-of-[0-9]{5}\\.gguf$", name, 0, 0);
}

static int
compare_names (gconstpointer a,
               gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

static GPtrArray *
list_names (const char *folder)
{
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);

      if (g_str_has_suffix (name, SUFFIX) && name[0] != '.' && !is_further_part (name) &&
          !g_str_has_suffix (name, LLM_COMPANION_SUFFIX) &&
          !g_file_test (path, G_FILE_TEST_IS_DIR))
        g_ptr_array_add (names, g_strdup (name));
    }
  g_ptr_array_sort (names, compare_names);
  return names;
}

typedef struct
{
  GPtrArray *known;       /* (element-type LlmModelInfo) (unowned) (nullable) */
  gboolean takes_any_tokenizer;
  GPtrArray *infos;       /* (element-type LlmModelInfo) (owned) */
  GHashTable *names;      /* (element-type utf8) (owned): of files, that were found */
  GHashTable *ids;        /* (element-type utf8) (unowned) */
} Scan;

/* (transfer full) (nullable): what is known of the file called @id, which has not changed. */
static LlmModelInfo *
find_known (Scan                  *scan,
            const char            *id,
            const char            *path,
            const LlmFileIdentity *identity)
{
  LlmModelInfo *info = llm_catalogue_find (scan->known, id);

  return info != NULL && g_str_equal (info->path, path)
             && llm_file_identity_equal (&info->identity, identity, TRUE)
           ? llm_model_info_ref (info)
           : NULL;
}

static void
add_file (Scan       *scan,
          const char *path)
{
  g_autofree char *name = g_path_get_basename (path);
  g_autofree char *first_id = make_id (path);
  g_autofree char *id = g_strdup (first_id);
  LlmFileIdentity identity = { 0 };
  LlmModelInfo *info;

  if (!g_hash_table_add (scan->names, g_steal_pointer (&name)))
    return;

  for (guint n = 2; g_hash_table_contains (scan->ids, id); n++)
    {
      g_free (id);
      id = g_strdup_printf ("%s-%u", first_id, n);
    }
  /* from before it is read: what changes meanwhile is read once more by the next scan */
  llm_file_identity_read_path (path, &identity);
  info = find_known (scan, id, path, &identity);
  if (info == NULL)
    {
      info = llm_model_info_read (path, scan->takes_any_tokenizer);
      g_free (info->id);
      info->id = g_steal_pointer (&id);
      info->identity = identity;
    }
  g_hash_table_add (scan->ids, info->id);
  g_ptr_array_add (scan->infos, info);
}

GPtrArray *
llm_catalogue_scan (const char *const *folders,
                    const char        *file,
                    gboolean           takes_any_tokenizer,
                    GPtrArray         *known)
{
  g_autoptr(GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  Scan scan = { known, takes_any_tokenizer, NULL, names, ids };

  scan.infos = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_model_info_unref);
  if (file != NULL)
    add_file (&scan, file);

  for (guint i = 0; folders != NULL && folders[i] != NULL; i++)
    {
      g_autoptr(GPtrArray) found = list_names (folders[i]);

      for (guint j = 0; j < found->len; j++)
        {
          g_autofree char *path = g_build_filename (folders[i], g_ptr_array_index (found, j), NULL);

          add_file (&scan, path);
        }
    }
  return scan.infos;
}

LlmModelInfo *
llm_catalogue_find (GPtrArray  *models,
                    const char *id)
{
  for (guint i = 0; models != NULL && i < models->len; i++)
    {
      LlmModelInfo *info = g_ptr_array_index (models, i);

      if (g_strcmp0 (info->id, id) == 0)
        return info;
    }
  return NULL;
}
