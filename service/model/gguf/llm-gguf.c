/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/gguf/llm-gguf-private.h"

#include <string.h>

#include "common/llmsvc-error.h"

/* Characters of text from a file that a message repeats. */
#define MAX_QUOTED 80

static void
clear_key (gpointer data)
{
  g_free (((GgufKey *) data)->name);
}

static void
clear_tensor (gpointer data)
{
  g_free ((char *) ((LlmGgufTensor *) data)->name);
}

static LlmGguf *
new_for_map (LlmFileMap  *map,
             const char  *path,
             GError     **error)
{
  g_autoptr(LlmGguf) self = g_new0 (LlmGguf, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->path = g_strdup (path);
  self->map = llm_file_map_ref (map);
  self->keys = g_array_new (FALSE, FALSE, sizeof (GgufKey));
  g_array_set_clear_func (self->keys, clear_key);
  self->key_index = g_hash_table_new (g_str_hash, g_str_equal);
  self->tensors = g_array_new (FALSE, FALSE, sizeof (LlmGgufTensor));
  g_array_set_clear_func (self->tensors, clear_tensor);
  self->tensor_index = g_hash_table_new (g_str_hash, g_str_equal);

  if (!llm_gguf_read (self, error))
    return NULL;
  return g_steal_pointer (&self);
}

LlmGguf *
llm_gguf_open (const char  *path,
               GError     **error)
{
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) local_error = NULL;

  g_return_val_if_fail (path != NULL, NULL);

  map = llm_file_map_open (path, &local_error);
  if (map == NULL)
    {
      /* A folder or an empty file is a fine thing, but no model. */
      if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT))
        local_error->code = LLMSVC_ERROR_INVALID_MODEL;
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  return new_for_map (map, path, error);
}

LlmGguf *
llm_gguf_new_for_bytes (GBytes      *bytes,
                        const char  *name,
                        GError     **error)
{
  g_autoptr(LlmFileMap) map = NULL;

  g_return_val_if_fail (bytes != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);

  map = llm_file_map_new_for_bytes (bytes);
  return new_for_map (map, name, error);
}

LlmGguf *
llm_gguf_ref (LlmGguf *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_gguf_unref (LlmGguf *self)
{
  g_return_if_fail (self != NULL);

  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;

  g_hash_table_unref (self->key_index);
  g_hash_table_unref (self->tensor_index);
  g_array_unref (self->keys);
  g_array_unref (self->tensors);
  llm_file_map_unref (self->map);
  g_free (self->path);
  g_free (self);
}

const char *
llm_gguf_get_path (LlmGguf *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->path;
}

guint
llm_gguf_get_version (LlmGguf *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->version;
}

LlmFileMap *
llm_gguf_get_map (LlmGguf *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->map;
}

guint64
llm_gguf_get_header_hash (LlmGguf *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->header_hash;
}

guint
llm_gguf_get_n_keys (LlmGguf *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->keys->len;
}

/**
 * llm_gguf_get_key:
 * @index: below llm_gguf_get_n_keys()
 * @type: (out) (optional): its type; that of the items of an array is not told
 * @array_length: (out) (optional): items of an array, else 0
 *
 * Returns: (transfer none): the key's name
 */
const char *
llm_gguf_get_key (LlmGguf     *self,
                  guint        index,
                  LlmGgufType *type,
                  guint64     *array_length)
{
  const GgufKey *key;

  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (index < self->keys->len, NULL);

  key = &g_array_index (self->keys, GgufKey, index);
  if (type != NULL)
    *type = key->type;
  if (array_length != NULL)
    *array_length = key->type == LLM_GGUF_ARRAY ? key->n_items : 0;
  return key->name;
}

const GgufKey *
llm_gguf_find_key (LlmGguf    *self,
                   const char *key)
{
  guint place = GPOINTER_TO_UINT (g_hash_table_lookup (self->key_index, key));

  return place > 0 ? &g_array_index (self->keys, GgufKey, place - 1) : NULL;
}

gboolean
llm_gguf_has (LlmGguf    *self,
              const char *key)
{
  return llm_gguf_lookup (self, key, NULL, NULL);
}

gboolean
llm_gguf_lookup (LlmGguf     *self,
                 const char  *name,
                 LlmGgufType *type,
                 guint64     *array_length)
{
  const GgufKey *key;

  g_return_val_if_fail (self != NULL, FALSE);
  g_return_val_if_fail (name != NULL, FALSE);

  key = llm_gguf_find_key (self, name);
  if (key == NULL)
    return FALSE;

  if (type != NULL)
    *type = key->type;
  if (array_length != NULL)
    *array_length = key->type == LLM_GGUF_ARRAY ? key->n_items : 0;
  return TRUE;
}

guint
llm_gguf_get_n_tensors (LlmGguf *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->tensors->len;
}

const LlmGgufTensor *
llm_gguf_get_tensor (LlmGguf *self,
                     guint    index)
{
  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (index < self->tensors->len, NULL);

  return &g_array_index (self->tensors, LlmGgufTensor, index);
}

const LlmGgufTensor *
llm_gguf_find_tensor (LlmGguf    *self,
                      const char *name)
{
  guint place;

  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);

  place = GPOINTER_TO_UINT (g_hash_table_lookup (self->tensor_index, name));
  return place > 0 ? &g_array_index (self->tensors, LlmGgufTensor, place - 1) : NULL;
}

char *
llm_gguf_quote (const char *text,
                gsize       length)
{
  /* Bytes enough for that many characters; what is cut apart becomes a sign. */
  g_autofree char *valid = g_utf8_make_valid (length > 0 ? text : "",
                                              (gssize) MIN (length, MAX_QUOTED * 4));
  GString *quoted = g_string_new ("“");
  guint n = 0;

  for (const char *p = valid; *p != '\0' && n < MAX_QUOTED; p = g_utf8_next_char (p), n++)
    {
      gunichar c = g_utf8_get_char (p);

      g_string_append_unichar (quoted, g_unichar_isprint (c) ? c : 0xfffd);
    }
  if (length > MAX_QUOTED * 4 || n == MAX_QUOTED)
    g_string_append (quoted, "…");
  g_string_append (quoted, "”");
  return g_string_free (quoted, FALSE);
}

gboolean
llm_gguf_fail (LlmGguf     *self,
               GError     **error,
               int          code,
               const char  *format,
               ...)
{
  g_autofree char *message = NULL;
  g_autofree char *path = NULL;
  va_list args;

  g_return_val_if_fail (self != NULL, FALSE);

  path = g_filename_display_name (self->path);

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, LLMSVC_ERROR, code, "“%s”: %s", path, message);
  return FALSE;
}
