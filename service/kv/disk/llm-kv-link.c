/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Extents that folders of one application share, as hard links (L15). A folder uses the chunks of a
 * file that it needs; the others count as dead there. Equal chunks are found by content: number,
 * hash of the tokens, form, and the checksums of all bytes. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-storage-private.h"

#include <errno.h>
#include <unistd.h>

static LlmKvLink *
find_link (LlmKvFolder     *self,
           const LlmKvFile *file)
{
  LLM_EACH (LlmKvLink, link, self->links)
    if (link->file == file)
      return link;
  return NULL;
}

/* (nullable) (transfer none): links the file of @from into @self, with no chunk of it yet. */
static LlmKvLink *
add_link (LlmKvFolder     *self,
          LlmKvFolder     *from,
          const LlmKvLink *link)
{
  char from_name[LLM_KV_NAME_BYTES], name[LLM_KV_NAME_BYTES];
  int from_fd = llm_kv_folder_open_fd (from);
  int fd = from_fd >= 0 ? llm_kv_folder_make_fd (self) : -1;
  const LlmKvFile *file = link->file;
  LlmKvLink *copy = NULL;

  llm_kv_extent_name (link->number, LLM_KV_EXTENT_SUFFIX, from_name);
  llm_kv_extent_name (self->next, LLM_KV_EXTENT_SUFFIX, name);
  if (fd >= 0 && linkat (from_fd, from_name, fd, name, 0) == 0)
    {
      copy = llm_kv_link_new (self->next++,
                              llm_kv_storage_hold_file (self->storage, file->inode, file->bytes,
                                                        file->app));
      llm_kv_link_set_extent (copy, g_rc_box_acquire (link->extent));
      llm_kv_folder_add_link (self, copy);
      for (guint i = 0; i < copy->extent->n_chunks; i++)
        llm_kv_folder_bury (self, copy, i);
    }
  else if (fd >= 0)
    /* Without the link the chunks are computed again, or written once more. */
    g_debug ("An extent can't be shared: %s", g_strerror (errno));
  if (fd >= 0)
    close (fd);
  if (from_fd >= 0)
    close (from_fd);
  return copy;
}

void
llm_kv_folder_link (LlmKvFolder *self,
                    LlmKvFolder *from,
                    guint        n_chunks)
{
  g_return_if_fail (from != self && from->storage == self->storage && from->app == self->app);
  g_return_if_fail (from->shape->identity == self->shape->identity);

  for (guint i = 0; i < from->links->len; i++)
    {
      const LlmKvLink *link = g_ptr_array_index (from->links, i);
      LlmKvLink *copy = find_link (self, link->file);

      /* an extent whose header was not read yet shares nothing */
      for (guint k = 0; link->extent != NULL && k < link->extent->n_chunks; k++)
        {
          if (link->dead[k] || link->extent->records[k].number >= n_chunks)
            continue;
          if (copy == NULL)
            copy = add_link (self, from, link);
          if (copy == NULL)
            break;
          llm_kv_folder_revive (self, copy, k);
        }
    }
}

static gboolean
has_bytes (const LlmKvExtent *extent,
           const LlmKvShape  *shape,
           guint              chunk,
           const guint8      *data)
{
  for (guint group = 0; group < extent->n_groups; group++)
    {
      gsize begin;
      gsize length = llm_kv_extent_get_part (extent, shape, chunk, group, &begin);

      if (length > 0
          && llm_kv_extent_compute_checksum (extent, chunk, group, data + begin, length)
               != extent->checksums[(gsize) chunk * extent->n_groups + group])
        return FALSE;
    }
  return TRUE;
}

/* Of open folders only: the chunks of others are not known. */
static gboolean
is_alike (const LlmKvFolder *self,
          const LlmKvFolder *other)
{
  return other != self && other->is_opened && other->opening == NULL && other->app == self->app
         && other->shape->identity == self->shape->identity;
}

gboolean
llm_kv_folder_adopt (LlmKvFolder       *self,
                     const LlmKvRecord *record,
                     const guint8      *data,
                     LlmKvSlot         *slot)
{
  LLM_EACH_VALUE (LlmKvFolder, other, self->storage->folders)
    {
      const LlmKvPlace *place =
          is_alike (self, other) ? llm_kv_folder_find_place (other, record->number, record->hash)
                                 : NULL;
      LlmKvLink *link;
      guint index;

      if (place == NULL || place->link->extent->records[place->index].form != record->form
          || !has_bytes (place->link->extent, self->shape, place->index, data))
        continue;

      index = place->index;
      link = find_link (self, place->link->file);
      if (link == NULL)
        link = add_link (self, other, place->link);
      if (link == NULL)
        return FALSE;

      llm_kv_folder_revive (self, link, index);
      llm_kv_folder_touch (self);
      *slot = (LlmKvSlot) { link->number, index };
      return TRUE;
    }
  return FALSE;
}
