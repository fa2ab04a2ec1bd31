/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Models by path, also those in several files, as llama-gguf-split writes them:
 * NAME-00001-of-00003.gguf and so on. The first has the keys, each has tensors of its own. They are
 * read one by one, and then mapped as one file.
 */

#include "gguf/llm-gguf.h"

#include <string.h>
#include <xxhash.h>

#include "common/llmsvc-error.h"

#define MAX_PARTS 128
#define ENDING "-00000-of-00000.gguf"

/* (transfer full): the path of part @part, from 1 on, of the model that @path is a part of. NULL
 * where its name doesn't end as that of part @own of @n_parts. */
static char *
make_path (const char *path,
           guint64     own,
           guint64     part,
           guint64     n_parts)
{
  g_autofree char *ending =
    g_strdup_printf ("-%05" G_GUINT64_FORMAT "-of-%05" G_GUINT64_FORMAT ".gguf", own, n_parts);

  if (!g_str_has_suffix (path, ending))
    return NULL;
  return g_strdup_printf ("%.*s-%05" G_GUINT64_FORMAT "-of-%05" G_GUINT64_FORMAT ".gguf",
                          (int) (strlen (path) - strlen (ENDING)), path, part, n_parts);
}

/* Names what is missing, so that all can be fetched at once. */
static gboolean
check_paths (LlmGguf    *self,
             GPtrArray  *paths,
             GError    **error)
{
  g_autoptr(GString) missing = g_string_new (NULL);

  for (guint i = 0; i < paths->len; i++)
    {
      const char *path = g_ptr_array_index (paths, i);
      g_autofree char *base = g_path_get_basename (path);
      g_autofree char *shown = g_filename_display_name (base);

      if (!g_file_test (path, G_FILE_TEST_EXISTS))
        g_string_append_printf (missing, "%s%s", missing->len > 0 ? ", " : "", shown);
    }
  if (missing->len > 0)
    llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                   "the model is in %u files, of which these are missing beside it: %s", paths->len,
                   missing->str);
  return missing->len == 0;
}

/* (nullable) (transfer full): part @place, from 0 on. */
static LlmGguf *
open_part (const char  *path,
           guint64      place,
           guint64      n_parts,
           GError     **error)
{
  g_autoptr(LlmGguf) part = llm_gguf_open_alone (path, error);
  guint64 found_place, found_parts;

  if (part == NULL
      || !llm_gguf_get_uint (part, "split.no", 0, G_MAXUINT16, NULL, &found_place, error)
      || !llm_gguf_get_uint (part, "split.count", 0, G_MAXUINT16, NULL, &found_parts, error))
    return NULL;
  if (found_place == place && found_parts == n_parts)
    return g_steal_pointer (&part);
  return llm_gguf_fail_null (part, error, LLMSVC_ERROR_INVALID_MODEL,
                             "it is part %ju of %ju, but has the name of part %ju of %ju",
                             found_place + 1, found_parts, place + 1, n_parts);
}

/* Moves the tensors of @part, which begins at @offset. */
static gboolean
take_tensors (LlmGguf  *self,
              LlmGguf  *part,
              guint64   offset,
              GError  **error)
{
  for (guint i = 0; i < part->tensors->len; i++)
    {
      LlmGgufTensor tensor = *llm_gguf_get_tensor (part, i);

      if (llm_gguf_find_tensor (self, tensor.name) != NULL)
        {
          g_autofree char *quoted = llm_gguf_quote (tensor.name, strlen (tensor.name));

          return llm_gguf_fail (part, error, LLMSVC_ERROR_INVALID_MODEL,
                                "tensor %s is in a part before, too", quoted);
        }
      tensor.name = g_strdup (tensor.name);
      tensor.offset += offset;
      g_array_append_val (self->tensors, tensor);
      g_hash_table_insert (self->tensor_index, (gpointer) tensor.name,
                           GUINT_TO_POINTER (self->tensors->len));
    }
  return TRUE;
}

static gboolean
check_count (LlmGguf  *self,
             GError  **error)
{
  const guint64 found = self->tensors->len;
  guint64 n_tensors;

  if (!llm_gguf_get_uint (self, "split.tensors.count", 0, G_MAXUINT32, &found, &n_tensors, error))
    return FALSE;
  if (n_tensors == found)
    return TRUE;
  return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                        "split.tensors.count is %ju, but all parts together have %ju tensors",
                        n_tensors, found);
}

/* @parts: all, in their order. Makes the first the whole. */
static gboolean
join (GPtrArray  *parts,
      GError    **error)
{
  LlmGguf *self = g_ptr_array_index (parts, 0);
  LlmFileMap *maps[MAX_PARTS], *joined;
  guint64 hashes[MAX_PARTS];

  for (guint i = 0; i < parts->len; i++)
    {
      maps[i] = ((LlmGguf *) g_ptr_array_index (parts, i))->map;
      hashes[i] = GUINT64_TO_LE (((LlmGguf *) g_ptr_array_index (parts, i))->header_hash);
    }
  joined = llm_file_map_join (maps, parts->len, error);
  if (joined == NULL)
    return FALSE;
  llm_file_map_unref (self->map);
  self->map = joined;
  self->header_hash = XXH3_64bits (hashes, parts->len * sizeof *hashes);
  for (guint i = 1; i < parts->len; i++)
    {
      LlmFileIdentity identity;
      guint64 offset = 0;

      llm_file_map_get_part (joined, i, &offset, &identity);
      if (!take_tensors (self, g_ptr_array_index (parts, i), offset, error))
        return FALSE;
    }
  return check_count (self, error);
}

/* (nullable) (transfer full): the whole that @self is one of @n_parts parts of. */
static LlmGguf *
open_others (LlmGguf  *self,
             guint64   n_parts,
             GError  **error)
{
  g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) parts =
    g_ptr_array_new_with_free_func ((GDestroyNotify) llm_gguf_unref);
  guint64 place;

  if (n_parts > MAX_PARTS)
    return llm_gguf_fail_null (self, error, LLMSVC_ERROR_UNSUPPORTED,
                               "split.count is %ju, models of up to %d files are supported",
                               n_parts, MAX_PARTS);
  if (!llm_gguf_get_uint (self, "split.no", 0, n_parts - 1, NULL, &place, error))
    return NULL;
  for (guint64 i = 1; i <= n_parts; i++)
    {
      char *path = make_path (self->path, place + 1, i, n_parts);

      if (path == NULL)
        return llm_gguf_fail_null (self, error, LLMSVC_ERROR_INVALID_MODEL,
                                   "it is part %ju of %ju of a model, so its name has to end in "
                                   "-%05ju-of-%05ju.gguf, with the others beside it",
                                   place + 1, n_parts, place + 1, n_parts);
      g_ptr_array_add (paths, path);
    }
  if (!check_paths (self, paths, error))
    return NULL;
  for (guint i = 0; i < paths->len; i++)
    {
      LlmGguf *part = open_part (g_ptr_array_index (paths, i), i, n_parts, error);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (parts, part);
    }
  return join (parts, error) ? llm_gguf_ref (g_ptr_array_index (parts, 0)) : NULL;
}

LlmGguf *
llm_gguf_open (const char  *path,
               GError     **error)
{
  const guint64 one = 1;
  g_autoptr(LlmGguf) self = llm_gguf_open_alone (path, error);
  guint64 n_parts;

  if (self == NULL
      || !llm_gguf_get_uint (self, "split.count", 0, G_MAXUINT16, &one, &n_parts, error))
    return NULL;
  return n_parts > 1 ? open_others (self, n_parts, error) : g_steal_pointer (&self);
}
