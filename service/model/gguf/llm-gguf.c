/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/gguf/llm-gguf.h"

#include "common/llmsvc-error.h"

static void
clear_key (gpointer data)
{
  g_free (((LlmGgufKey *) data)->name);
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
  self->keys = g_array_new (FALSE, FALSE, sizeof (LlmGgufKey));
  g_array_set_clear_func (self->keys, clear_key);
  self->key_index = g_hash_table_new (g_str_hash, g_str_equal);
  self->tensors = g_array_new (FALSE, FALSE, sizeof (LlmGgufTensor));
  g_array_set_clear_func (self->tensors, clear_tensor);
  self->tensor_index = g_hash_table_new (g_str_hash, g_str_equal);

  return llm_gguf_read (self, error) ? g_steal_pointer (&self) : NULL;
}

LlmGguf *
llm_gguf_open (const char  *path,
               GError     **error)
{
  g_autoptr(GError) local_error = NULL;
  g_autoptr(LlmFileMap) map = llm_file_map_open (path, &local_error);

  if (map != NULL)
    return new_for_map (map, path, error);

  /* A folder or an empty file is a fine thing, but no model. */
  if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT))
    local_error->code = LLMSVC_ERROR_INVALID_MODEL;
  g_propagate_error (error, g_steal_pointer (&local_error));
  return NULL;
}

LlmGguf *
llm_gguf_new_for_bytes (GBytes      *bytes,
                        const char  *name,
                        GError     **error)
{
  g_autoptr(LlmFileMap) map = llm_file_map_new_for_bytes (bytes);

  return new_for_map (map, name, error);
}

LlmGguf *
llm_gguf_ref (LlmGguf *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_gguf_unref (LlmGguf *self)
{
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

const LlmGgufTensor *
llm_gguf_find_tensor (LlmGguf    *self,
                      const char *name)
{
  guint place = GPOINTER_TO_UINT (g_hash_table_lookup (self->tensor_index, name));

  return place > 0 ? llm_gguf_get_tensor (self, place - 1) : NULL;
}
