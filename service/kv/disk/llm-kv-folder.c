/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which chunks of a context are in its folder, and where. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-storage-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

/* Dead bytes of a file that are worth the work: one in so many. */
#define MIN_WASTE 3

gsize *
llm_kv_shape_own (LlmKvShape *shape)
{
  gsize *offsets = g_new (gsize, LLM_KV_N_FORMS * (shape->n_layers + 1));
  gsize *at = offsets;

  for (guint i = 0; i < LLM_KV_N_FORMS; i++, at += shape->n_layers + 1)
    if (shape->offsets[i] != NULL)
      {
        memcpy (at, shape->offsets[i], (shape->n_layers + 1) * sizeof *at);
        shape->offsets[i] = at;
      }
  return offsets;
}

static guint64
hash_app (const char *app)
{
  guint64 hash = XXH3_64bits (app, strlen (app));

  /* 0: not known */
  return hash != 0 ? hash : 1;
}

/* --- what dead chunks take --- */

static void
add_range (GArray  *ranges,
           guint64  begin,
           guint64  end)
{
  /* Only whole blocks: their neighbours are in use. */
  LlmKvRange range = { (begin + LLM_DISK_BLOCK - 1) / LLM_DISK_BLOCK * LLM_DISK_BLOCK,
                       end / LLM_DISK_BLOCK * LLM_DISK_BLOCK };

  if (range.begin < range.end)
    g_array_append_val (ranges, range);
}

static void
add_ranges (LlmKvFolder *self,
            LlmKvLink   *link,
            guint        group,
            GArray      *ranges)
{
  const LlmKvExtent *extent = link->extent;
  guint64 at = extent->group_offsets[group];
  guint64 begin = at;

  for (guint i = 0; i < extent->n_chunks; i++)
    {
      gsize bytes = llm_kv_extent_get_part (extent, &self->shape, i, group, NULL);

      at += bytes;
      if (!link->dead[i])
        {
          add_range (ranges, begin, at - bytes);
          begin = at;
        }
    }
  add_range (ranges, begin, extent->group_offsets[group + 1]);
}

static int
open_extent (LlmKvFolder *self,
             guint64      number,
             int          flags)
{
  int folder = llm_kv_home_open_fd (self->home);
  int fd;

  if (folder < 0)
    return folder;
  fd = llm_kv_extent_open_fd (folder, number, flags);
  close (folder);
  return fd;
}

/* Gives back the blocks of dead chunks, if that is worth it. */
static void
punch (LlmKvFolder *self,
       LlmKvLink   *link)
{
  const LlmKvExtent *extent = link->extent;
  guint8 *header;
  GArray *ranges;
  int fd;

  /* Others' chunks may still live in what is dead here. */
  if (link->file == NULL || link->file->n_holders > 1 ||
      link->waste * MIN_WASTE < extent->file_bytes)
    return;
  link->waste = 0;
  fd = open_extent (self, link->number, O_RDWR);
  if (fd < 0)
    return;
  header = g_malloc (extent->header_bytes);
  llm_kv_extent_print (extent, &self->shape, link->dead, header);
  ranges = g_array_new (FALSE, FALSE, sizeof (LlmKvRange));
  for (guint i = 0; i < extent->n_groups; i++)
    add_ranges (self, link, i, ranges);
  llm_kv_cleaner_punch (self->home->storage->cleaner, fd,
                        g_bytes_new_take (header, extent->header_bytes), ranges);
}

/* --- the index --- */

/* Nobody will ask for the chunk any more. */
static void
bury (LlmKvFolder *self,
      LlmKvLink   *link,
      guint        index)
{
  const LlmKvRecord *record = &link->extent->records[index];

  link->dead[index] = 1;
  link->waste += self->shape.offsets[record->form][self->shape.n_layers];
  link->n_live--;
}

/* After some were buried. */
static void
tidy (LlmKvFolder *self,
      LlmKvLink   *link)
{
  if (link->file != NULL && link->n_live == 0)
    llm_kv_home_remove_link (self->home, link);
  else
    punch (self, link);
}

static LlmKvPlace *
find_place (LlmKvFolder *self,
            guint        number)
{
  return g_hash_table_lookup (self->places, GUINT_TO_POINTER (number));
}

static void
set_place (LlmKvFolder *self,
           guint        number,
           LlmKvLink   *link,
           guint        index)
{
  LlmKvPlace *place = g_new (LlmKvPlace, 1);

  place->link = link;
  place->index = index;
  g_hash_table_insert (self->places, GUINT_TO_POINTER (number), place);
}

static void
note (GPtrArray *links,
      LlmKvLink *link)
{
  if (!g_ptr_array_find (links, link, NULL))
    g_ptr_array_add (links, llm_kv_link_ref (link));
}

void
llm_kv_folder_index (LlmKvFolder *self,
                     LlmKvLink   *link)
{
  g_autoptr(GPtrArray) touched =
    g_ptr_array_new_with_free_func ((GDestroyNotify) llm_kv_link_unref);
  const LlmKvExtent *extent = link->extent;

  note (touched, link);
  for (guint i = 0; i < extent->n_chunks; i++)
    {
      guint number = extent->records[i].number;
      const LlmKvPlace *old = find_place (self, number);

      if (link->dead[i])
        continue;
      /* Writes may end in another order than they began; an extent that has a number twice was
       * made on purpose, and its first one stays. */
      if (old != NULL && old->link->number >= link->number)
        {
          bury (self, link, i);
          continue;
        }
      if (old != NULL)
        {
          note (touched, old->link);
          bury (self, old->link, old->index);
        }
      set_place (self, number, link, i);
    }
  for (guint i = 0; i < touched->len; i++)
    tidy (self, g_ptr_array_index (touched, i));
}

void
llm_kv_folder_unindex (LlmKvFolder *self,
                       LlmKvLink   *link)
{
  const LlmKvExtent *extent = link->extent;

  for (guint i = 0; extent != NULL && i < extent->n_chunks; i++)
    {
      LlmKvPlace *place = find_place (self, extent->records[i].number);

      if (place != NULL && place->link == link)
        g_hash_table_remove (self->places, GUINT_TO_POINTER (extent->records[i].number));
    }
}

/* --- opening --- */

LlmKvFolder *
llm_kv_folder_open (LlmKvStorage     *storage,
                    const char       *app,
                    const char       *id,
                    const LlmKvShape *shape)
{
  LlmKvFolder *self;
  LlmKvHome *home;

  g_return_val_if_fail (storage != NULL, NULL);
  g_return_val_if_fail (app != NULL, NULL);
  g_return_val_if_fail (id != NULL && llm_kv_is_id (id), NULL);
  g_return_val_if_fail (shape != NULL && shape->n_layers > 0, NULL);

  home = g_hash_table_lookup (storage->homes, id);
  g_return_val_if_fail (home == NULL || home->folder == NULL, NULL);
  /* What somebody else left under this name is nobody's business. */
  if (home != NULL && home->app != hash_app (app))
    {
      llm_kv_home_remove (home);
      home = NULL;
    }
  if (home == NULL)
    home = llm_kv_home_new (storage, id);
  home->app = hash_app (app);

  self = g_new0 (LlmKvFolder, 1);
  self->home = home;
  self->places = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->writes = g_ptr_array_new ();
  self->reads = g_ptr_array_new ();
  self->shape = *shape;
  self->offsets = llm_kv_shape_own (&self->shape);
  home->folder = self;
  llm_kv_home_touch (home, -1);

  self->next = 1;
  for (guint i = 0; i < home->links->len; i++)
    self->next = ((const LlmKvLink *) g_ptr_array_index (home->links, i))->number + 1;
  llm_kv_folder_begin_opening (self);
  return self;
}

void
llm_kv_folder_close (LlmKvFolder *self)
{
  LlmKvHome *home;

  if (self == NULL)
    return;

  llm_kv_folder_end_opening (self);
  while (self->writes->len > 0)
    llm_kv_folder_write_cancel (g_ptr_array_index (self->writes, self->writes->len - 1));
  while (self->reads->len > 0)
    llm_kv_folder_read_cancel (g_ptr_array_index (self->reads, self->reads->len - 1));

  home = self->home;
  home->folder = NULL;
  for (guint i = 0; i < home->links->len; i++)
    llm_kv_link_set_extent (g_ptr_array_index (home->links, i), NULL);
  llm_kv_home_remove_if_empty (home);
  g_ptr_array_unref (self->writes);
  g_ptr_array_unref (self->reads);
  g_hash_table_unref (self->places);
  g_free (self->offsets);
  g_free (self);
}

/* --- asking --- */

gboolean
llm_kv_folder_is_open (LlmKvFolder *self)
{
  g_return_val_if_fail (self != NULL, FALSE);

  return self->opening == NULL;
}

guint64
llm_kv_folder_get_bytes (LlmKvFolder *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return llm_kv_home_count_bytes (self->home);
}

gboolean
llm_kv_folder_find (LlmKvFolder *self,
                    guint        number,
                    guint64      hash,
                    LlmKvSlot   *slot,
                    LlmKvRecord *record)
{
  const LlmKvPlace *place;
  const LlmKvRecord *found;

  g_return_val_if_fail (self != NULL, FALSE);

  place = find_place (self, number);
  if (place == NULL)
    return FALSE;
  found = &place->link->extent->records[place->index];
  if (found->hash != hash)
    return FALSE;
  if (slot != NULL)
    *slot = (LlmKvSlot) { place->link->number, place->index };
  if (record != NULL)
    *record = *found;
  return TRUE;
}

guint
llm_kv_folder_get_end (LlmKvFolder *self)
{
  GHashTableIter iter;
  gpointer number;
  guint end = 0;

  g_return_val_if_fail (self != NULL, 0);

  g_hash_table_iter_init (&iter, self->places);
  while (g_hash_table_iter_next (&iter, &number, NULL))
    end = MAX (end, GPOINTER_TO_UINT (number) + 1);
  return end;
}

void
llm_kv_folder_forget (LlmKvFolder *self,
                      LlmKvSlot    slot)
{
  LlmKvLink *link;
  LlmKvPlace *place;
  guint number;

  g_return_if_fail (self != NULL);

  link = llm_kv_home_find_link (self->home, slot.extent);
  if (link == NULL || link->extent == NULL || slot.index >= link->extent->n_chunks
      || link->dead[slot.index])
    return;
  number = link->extent->records[slot.index].number;
  place = find_place (self, number);
  if (place != NULL && place->link == link && place->index == slot.index)
    g_hash_table_remove (self->places, GUINT_TO_POINTER (number));
  bury (self, link, slot.index);
  tidy (self, link);
}

/* --- sharing --- */

static gboolean
has_file (LlmKvFolder     *self,
          const LlmKvFile *file)
{
  for (guint i = 0; i < self->home->links->len; i++)
    if (((LlmKvLink *) g_ptr_array_index (self->home->links, i))->file == file)
      return TRUE;
  return FALSE;
}

static gboolean
is_below (const LlmKvLink *link,
          guint            n_chunks)
{
  /* what it has is not known yet */
  if (link->extent == NULL)
    return FALSE;
  for (guint i = 0; i < link->extent->n_chunks; i++)
    if (!link->dead[i] && link->extent->records[i].number >= n_chunks)
      return FALSE;
  return TRUE;
}

static LlmKvLink *
copy_link (LlmKvFolder     *self,
           const LlmKvLink *from)
{
  const LlmKvFile *file = from->file;
  LlmKvLink *link = llm_kv_link_new (self->next++,
                                     llm_kv_storage_hold_file (self->home->storage, file->inode,
                                                               file->bytes, file->app));

  llm_kv_link_set_extent (link, llm_kv_extent_ref (from->extent));
  memcpy (link->dead, from->dead, from->extent->n_chunks);
  link->n_live = from->n_live;
  link->waste = from->waste;
  return link;
}

void
llm_kv_folder_link (LlmKvFolder *self,
                    LlmKvFolder *from,
                    guint        n_chunks)
{
  int from_fd, fd;

  g_return_if_fail (self != NULL);
  g_return_if_fail (from != NULL && from != self);
  g_return_if_fail (from->home->storage == self->home->storage);
  g_return_if_fail (from->home->app == self->home->app);
  g_return_if_fail (from->shape.identity == self->shape.identity);

  from_fd = llm_kv_home_open_fd (from->home);
  if (from_fd < 0)
    return;
  fd = llm_kv_home_make_fd (self->home);
  for (guint i = 0; fd >= 0 && i < from->home->links->len; i++)
    {
      const LlmKvLink *link = g_ptr_array_index (from->home->links, i);
      char from_name[LLM_KV_NAME_BYTES], name[LLM_KV_NAME_BYTES];

      if (!is_below (link, n_chunks) || has_file (self, link->file))
        continue;
      llm_kv_extent_name (link->number, LLM_KV_EXTENT_SUFFIX, from_name);
      llm_kv_extent_name (self->next, LLM_KV_EXTENT_SUFFIX, name);
      if (linkat (from_fd, from_name, fd, name, 0) == 0)
        {
          LlmKvLink *copy = copy_link (self, link);

          llm_kv_home_add_link (self->home, copy);
          llm_kv_folder_index (self, copy);
        }
      else
        /* Without it the chunks are computed again, or written once more. */
        g_debug ("An extent can't be shared: %s", g_strerror (errno));
    }
  if (fd >= 0)
    close (fd);
  close (from_fd);
}
