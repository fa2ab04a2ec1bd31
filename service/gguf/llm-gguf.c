/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "gguf/llm-gguf.h"

#include <xxhash.h>

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
llm_gguf_open_alone (const char  *path,
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

/* --- a sample of the weights: what tells files with the same header and other weights apart, for
 * the price of some hundred pages --- */

/* What is read at once: aligned in the file, so that each is one page of the page cache. */
#define PAGE_BYTES ((guint64) 4096)
/* Pages beside the one that every tensor has: the larger ones get more. */
#define N_PAGES 256

/* A page of the file, or the part of it that is the tensor's. */
typedef struct
{
  guint64 offset;
  guint64 length;
} Page;

/* One page in each of @n equal parts of the tensor, somewhere in it, but always at the same place:
 * changes come at regular distances, too. */
static void
add_pages (const LlmGgufTensor *tensor,
           guint64              n,
           GArray              *pages)
{
  for (guint64 i = 0; i < n; i++)
    {
      guint64 begin = tensor->bytes / n * i;
      guint64 end = i + 1 < n ? tensor->bytes / n * (i + 1) : tensor->bytes;
      guint64 seed[] = { GUINT64_TO_LE (tensor->offset), GUINT64_TO_LE (i) };
      guint64 at = tensor->offset + begin + XXH3_64bits (seed, sizeof seed) % (end - begin);
      Page page = { MAX (at / PAGE_BYTES * PAGE_BYTES, tensor->offset) };

      page.length = MIN ((page.offset / PAGE_BYTES + 1) * PAGE_BYTES,
                         tensor->offset + tensor->bytes) - page.offset;
      g_array_append_val (pages, page);
    }
}

/* (element-type Page) (transfer full) */
static GArray *
choose_pages (LlmGguf *self)
{
  GArray *pages = g_array_new (FALSE, FALSE, sizeof (Page));
  guint64 bytes = 0;
  double pages_per_byte;

  for (guint i = 0; i < self->tensors->len; i++)
    bytes += llm_gguf_get_tensor (self, i)->bytes;
  pages_per_byte = N_PAGES / (double) MAX (bytes, 1);
  for (guint i = 0; i < self->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (self, i);
      guint64 n = 1 + (guint64) ((double) tensor->bytes * pages_per_byte);

      /* a part is a page at least; of a tensor without bytes there is nothing to see */
      add_pages (tensor, MIN (n, (tensor->bytes + PAGE_BYTES - 1) / PAGE_BYTES), pages);
    }
  return pages;
}

static guint64
hash_weights (LlmGguf *self)
{
  guint64 parts[] = { GUINT64_TO_LE (self->header_hash),
                      GUINT64_TO_LE (llm_file_map_get_size (self->map)) };
  g_autoptr(GArray) pages = choose_pages (self);
  XXH3_state_t *state = XXH3_createState ();
  guint64 hash;

  XXH3_64bits_reset (state);
  XXH3_64bits_update (state, parts, sizeof parts);
  /* All at first, so that a disk finds its own order, and each alone, without what the kernel would
   * read around it. */
  for (guint i = 0; i < pages->len; i++)
    llm_file_map_prefetch (self->map, g_array_index (pages, Page, i).offset,
                           g_array_index (pages, Page, i).length);
  for (guint i = 0; i < pages->len; i++)
    {
      Page page = g_array_index (pages, Page, i);
      guint64 place[] = { GUINT64_TO_LE (page.offset), GUINT64_TO_LE (page.length) };

      XXH3_64bits_update (state, place, sizeof place);
      XXH3_64bits_update (state, llm_file_map_get_data (self->map) + page.offset, page.length);
    }
  hash = XXH3_64bits_digest (state);
  XXH3_freeState (state);
  return hash;
}

guint64
llm_gguf_get_weights_hash (LlmGguf *self)
{
  if (g_once_init_enter (&self->has_weights_hash))
    {
      self->weights_hash = hash_weights (self);
      g_once_init_leave (&self->has_weights_hash, 1);
    }
  return self->weights_hash;
}
