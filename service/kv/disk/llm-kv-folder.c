/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A context on storage: its folder, the files in it and their names, and which chunks are where. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-storage-private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* File in a context's folder: the hash of its application's name, so that limits hold after a
 * restart. */
#define APP_NAME "app"
#define APP_DIGITS 16

/* --- names --- */

void
llm_kv_extent_name (guint64     number,
                    const char *suffix,
                    char       *name)
{
  g_snprintf (name, LLM_KV_NAME_BYTES, "%016" G_GINT64_MODIFIER "x%s", number, suffix);
}

int
llm_kv_folder_open_id (int         storage_fd,
                       const char *id)
{
  int fd = openat (storage_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

  return fd < 0 ? -errno : fd;
}

int
llm_kv_extent_open_fd (int     folder_fd,
                       guint64 number,
                       int     flags)
{
  char name[LLM_KV_NAME_BYTES];
  int fd;

  llm_kv_extent_name (number, LLM_KV_EXTENT_SUFFIX, name);
  fd = openat (folder_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

int
llm_kv_folder_open_fd (LlmKvFolder *self)
{
  return llm_kv_folder_open_id (self->storage->fd, self->id);
}

void
llm_kv_folder_unlink (LlmKvFolder *self,
                      guint64      number,
                      const char  *suffix)
{
  char name[LLM_KV_NAME_BYTES];
  int fd = llm_kv_folder_open_fd (self);

  if (fd < 0)
    return;
  llm_kv_extent_name (number, suffix, name);
  llm_kv_cleaner_unlink (self->storage->cleaner, fd, name);
  close (fd);
}

static void
write_app (int     fd,
           guint64 app)
{
  char digits[APP_DIGITS + 1];
  int file = openat (fd, APP_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                     S_IRUSR | S_IWUSR);

  if (file < 0)
    return;
  g_snprintf (digits, sizeof digits, "%016" G_GINT64_MODIFIER "x", app);
  /* If the write fails, the folder belongs to no application after a restart. */
  (void) !write (file, digits, APP_DIGITS);
  close (file);
}

guint64
llm_kv_folder_read_app (int fd)
{
  char digits[APP_DIGITS + 1] = "";
  int file = openat (fd, APP_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  gssize n;

  if (file < 0)
    return 0;
  n = read (file, digits, APP_DIGITS);
  close (file);
  return n == APP_DIGITS ? g_ascii_strtoull (digits, NULL, 16) : 0;
}

int
llm_kv_folder_make_fd (LlmKvFolder *self)
{
  int fd = llm_kv_folder_open_fd (self);

  if (fd != -ENOENT)
    return fd;
  if (mkdirat (self->storage->fd, self->id, S_IRWXU) < 0)
    return -errno;
  fd = llm_kv_folder_open_fd (self);
  if (fd >= 0)
    write_app (fd, self->app);
  return fd;
}

void
llm_kv_folder_touch_fd (int fd)
{
  const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };

  (void) !futimens (fd, times);
}

void
llm_kv_folder_touch (LlmKvFolder *self)
{
  self->used = ++self->storage->n_uses;
}

/* --- files --- */

LlmKvFile *
llm_kv_storage_hold_file (LlmKvStorage *self,
                          guint64       inode,
                          guint64       bytes,
                          guint64       app)
{
  LlmKvFile *file = g_hash_table_lookup (self->files, &inode);

  if (file == NULL)
    {
      file = g_new0 (LlmKvFile, 1);
      *file = (LlmKvFile) { inode, bytes, app, 0 };
      self->bytes += bytes;
      g_hash_table_insert (self->files, &file->inode, file);
    }
  file->n_holders++;
  return file;
}

void
llm_kv_storage_drop_file (LlmKvStorage *self,
                          LlmKvFile    *file)
{
  if (file == NULL || --file->n_holders > 0)
    return;
  self->bytes -= file->bytes;
  g_hash_table_remove (self->files, &file->inode);
}

/* --- links --- */

LlmKvLink *
llm_kv_link_new (guint64    number,
                 LlmKvFile *file)
{
  LlmKvLink *self = g_rc_box_new0 (LlmKvLink);

  self->number = number;
  self->file = file;
  return self;
}

static void
clear_link (gpointer data)
{
  llm_kv_link_set_extent (data, NULL);
}

void
llm_kv_link_unref (LlmKvLink *self)
{
  g_rc_box_release_full (self, clear_link);
}

void
llm_kv_link_set_extent (LlmKvLink   *self,
                        LlmKvExtent *extent)
{
  llm_kv_extent_unref (self->extent);
  g_clear_pointer (&self->dead, g_free);
  self->extent = extent;
  self->n_live = 0;
  self->waste = 0;
  if (extent == NULL)
    return;
  self->dead = g_memdup2 (extent->dead, extent->n_chunks);
  for (guint i = 0; i < extent->n_chunks; i++)
    self->n_live += !extent->dead[i];
}

/* Index of the link of @number, or where it would be inserted. */
static guint
search_link (LlmKvFolder *self,
             guint64      number)
{
  guint low = 0;
  guint high = self->links->len;

  while (low < high)
    {
      guint middle = (low + high) / 2;
      const LlmKvLink *link = g_ptr_array_index (self->links, middle);

      if (link->number < number)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

void
llm_kv_folder_add_link (LlmKvFolder *self,
                        LlmKvLink   *link)
{
  g_ptr_array_insert (self->links, (int) search_link (self, link->number), link);
}

LlmKvLink *
llm_kv_folder_find_link (LlmKvFolder *self,
                         guint64      number)
{
  guint at = search_link (self, number);
  LlmKvLink *link = at < self->links->len ? g_ptr_array_index (self->links, at) : NULL;

  return link != NULL && link->number == number ? link : NULL;
}

/* --- places --- */

static guint
hash_place (gconstpointer data)
{
  const LlmKvPlace *place = data;

  return (guint) place->hash + place->number;
}

static gboolean
is_same_place (gconstpointer a,
               gconstpointer b)
{
  const LlmKvPlace *one = a;
  const LlmKvPlace *other = b;

  return one->hash == other->hash && one->number == other->number;
}

GHashTable *
llm_kv_folder_new_places (void)
{
  return g_hash_table_new_full (hash_place, is_same_place, g_free, NULL);
}

const LlmKvPlace *
llm_kv_folder_find_place (LlmKvFolder *self,
                          guint        number,
                          guint64      hash)
{
  const LlmKvPlace key = { .number = number, .hash = hash };

  return g_hash_table_lookup (self->places, &key);
}

/* (nullable): where the chunk is, if a search for it finds this one. */
static const LlmKvPlace *
find_own_place (LlmKvFolder     *self,
                const LlmKvLink *link,
                guint            index)
{
  const LlmKvRecord *record = &link->extent->records[index];
  const LlmKvPlace *place = llm_kv_folder_find_place (self, record->number, record->hash);

  return place != NULL && place->link == link && place->index == index ? place : NULL;
}

static void
remove_place (LlmKvFolder     *self,
              const LlmKvLink *link,
              guint            index)
{
  const LlmKvPlace *place = find_own_place (self, link, index);

  if (place != NULL)
    g_hash_table_remove (self->places, place);
}

static void
set_untidy (LlmKvFolder *self,
            LlmKvLink   *link)
{
  link->is_untidy = TRUE;
  if (!self->is_untidy)
    g_queue_push_tail (&self->storage->untidy, self);
  self->is_untidy = TRUE;
}

/* When one folder is left as holder of a file, it may release the blocks of its dead chunks: queues
 * it for that. */
static void
leave_to_last (LlmKvStorage    *storage,
               const LlmKvLink *gone)
{
  LLM_EACH_VALUE (LlmKvFolder, folder, storage->folders)
    LLM_EACH (LlmKvLink, link, folder->links)
      if (link != gone && link->file == gone->file && link->waste > 0)
        set_untidy (folder, link);
}

void
llm_kv_folder_remove_link (LlmKvFolder *self,
                           LlmKvLink   *link)
{
  const LlmKvExtent *extent = link->extent;

  for (guint i = 0; extent != NULL && i < extent->n_chunks; i++)
    remove_place (self, link, i);
  llm_kv_folder_unlink (self, link->number, LLM_KV_EXTENT_SUFFIX);
  if (link->file->n_holders == 2)
    leave_to_last (self->storage, link);
  llm_kv_storage_drop_file (self->storage, g_steal_pointer (&link->file));
  g_ptr_array_remove_index (self->links, search_link (self, link->number));
}

/* --- the folder --- */

LlmKvFolder *
llm_kv_folder_new (LlmKvStorage *storage,
                   const char   *id)
{
  LlmKvFolder *self = g_new0 (LlmKvFolder, 1);

  self->storage = storage;
  self->id = g_strdup (id);
  self->links = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_kv_link_unref);
  g_hash_table_insert (storage->folders, self->id, self);
  return self;
}

void
llm_kv_folder_free (LlmKvFolder *self)
{
  LLM_EACH (LlmKvLink, link, self->links)
    llm_kv_storage_drop_file (self->storage, g_steal_pointer (&link->file));
  g_queue_remove (&self->storage->untidy, self);
  g_ptr_array_unref (self->links);
  g_free (self->id);
  g_free (self);
}

void
llm_kv_folder_remove_if_empty (LlmKvFolder *self)
{
  int fd;

  if (self->is_opened || self->links->len > 0)
    return;
  fd = llm_kv_folder_open_fd (self);
  if (fd >= 0)
    {
      unlinkat (fd, APP_NAME, 0);
      close (fd);
      unlinkat (self->storage->fd, self->id, AT_REMOVEDIR);
    }
  g_hash_table_remove (self->storage->folders, self->id);
}

void
llm_kv_folder_remove (LlmKvFolder *self)
{
  while (self->links->len > 0)
    llm_kv_folder_remove_link (self, g_ptr_array_index (self->links, self->links->len - 1));
  llm_kv_folder_remove_if_empty (self);
}

guint64
llm_kv_folder_count_bytes (LlmKvFolder *self)
{
  guint64 bytes = 0;

  LLM_EACH (const LlmKvLink, link, self->links)
    bytes += link->file->bytes;
  return bytes;
}

/* --- which chunks are where --- */

void
llm_kv_folder_bury (LlmKvFolder *self,
                    LlmKvLink   *link,
                    guint        index)
{
  const LlmKvRecord *record = &link->extent->records[index];

  if (link->dead[index])
    return;
  link->dead[index] = 1;
  link->waste += self->shape->offsets[record->form][self->shape->n_layers];
  link->n_live--;
  set_untidy (self, link);
}

/* Writes may end in another order than they began. Only an extent that was made on purpose has a
 * chunk twice; then its first one stays. */
static void
enter (LlmKvFolder *self,
       LlmKvLink   *link,
       guint        index)
{
  const LlmKvRecord *record = &link->extent->records[index];
  const LlmKvPlace *place = llm_kv_folder_find_place (self, record->number, record->hash);
  LlmKvPlace *entered;

  if (place != NULL && place->link->number >= link->number)
    {
      llm_kv_folder_bury (self, link, index);
      return;
    }
  if (place != NULL)
    llm_kv_folder_bury (self, place->link, place->index);
  entered = g_new (LlmKvPlace, 1);
  *entered = (LlmKvPlace) { record->number, record->hash, link, index };
  g_hash_table_replace (self->places, entered, entered);
}

void
llm_kv_folder_revive (LlmKvFolder *self,
                      LlmKvLink   *link,
                      guint        index)
{
  const LlmKvRecord *record = &link->extent->records[index];
  gsize bytes = self->shape->offsets[record->form][self->shape->n_layers];
  const LlmKvPlace *place = llm_kv_folder_find_place (self, record->number, record->hash);

  if (!link->dead[index])
    return;
  if (place != NULL)
    {
      llm_kv_folder_bury (self, place->link, place->index);
      g_hash_table_remove (self->places, place);
    }
  link->dead[index] = 0;
  link->waste -= MIN (link->waste, bytes);
  link->n_live++;
  enter (self, link, index);
}

void
llm_kv_folder_index (LlmKvFolder *self,
                     LlmKvLink   *link)
{
  if (link->n_live == 0)
    set_untidy (self, link);
  for (guint i = 0; link->extent != NULL && i < link->extent->n_chunks; i++)
    if (!link->dead[i])
      enter (self, link, i);
}

/* Writes may end in another order than they began. */
void
llm_kv_folder_supersede (LlmKvFolder     *self,
                         const LlmKvLink *by)
{
  g_autoptr(GHashTable) indices = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < by->extent->n_chunks; i++)
    g_hash_table_insert (indices, GUINT_TO_POINTER (by->extent->records[i].number),
                         GUINT_TO_POINTER (i));
  LLM_EACH (const LlmKvLink, link, self->links)
    for (guint i = 0; link->extent != NULL && i < link->extent->n_chunks; i++)
      {
        const LlmKvRecord *record = &link->extent->records[i];
        gpointer index;

        if (link->dead[i]
            || !g_hash_table_lookup_extended (indices, GUINT_TO_POINTER (record->number), NULL,
                                              &index)
            || by->extent->records[GPOINTER_TO_UINT (index)].hash == record->hash)
          continue;
        llm_kv_folder_forget (self, link->number < by->number
                                      ? (LlmKvSlot) { link->number, i }
                                      : (LlmKvSlot) { by->number, GPOINTER_TO_UINT (index) });
      }
}

gboolean
llm_kv_folder_find (LlmKvFolder *self,
                    guint        number,
                    guint64      hash,
                    LlmKvSlot   *slot,
                    LlmKvRecord *record)
{
  const LlmKvPlace *place = llm_kv_folder_find_place (self, number, hash);

  if (place == NULL)
    return FALSE;
  if (slot != NULL)
    *slot = (LlmKvSlot) { place->link->number, place->index };
  if (record != NULL)
    *record = place->link->extent->records[place->index];
  return TRUE;
}

guint
llm_kv_folder_get_end (LlmKvFolder *self)
{
  guint end = 0;

  LLM_EACH_VALUE (const LlmKvPlace, place, self->places)
    end = MAX (end, place->number + 1);
  return end;
}

void
llm_kv_folder_forget (LlmKvFolder *self,
                      LlmKvSlot    slot)
{
  LlmKvLink *link = llm_kv_folder_find_link (self, slot.extent);

  if (link == NULL || link->extent == NULL || slot.index >= link->extent->n_chunks
      || link->dead[slot.index])
    return;
  remove_place (self, link, slot.index);
  llm_kv_folder_bury (self, link, slot.index);
}

void
llm_kv_folder_keep (LlmKvFolder   *self,
                    const guint64 *hashes,
                    guint          n)
{
  LLM_EACH (LlmKvLink, link, self->links)
    for (guint i = 0; link->extent != NULL && i < link->extent->n_chunks; i++)
      {
        const LlmKvRecord *record = &link->extent->records[i];

        if (record->number >= n || record->hash != hashes[record->number])
          llm_kv_folder_forget (self, (LlmKvSlot) { link->number, i });
      }
}
