/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-index.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kv/disk/llm-kv-extent.h"
#include "kv/disk/llm-kv-storage-private.h"

/* Limit of chunks of a context: more than any model sees. */
#define MAX_CHUNKS (1u << 20)

/* --- names --- */

/* 0 for a name that is no extent's. */
static guint64
parse_name (const char *name)
{
  char expected[LLM_KV_NAME_BYTES];
  guint64 number = g_ascii_strtoull (name, NULL, 16);

  llm_kv_extent_name (number, LLM_KV_EXTENT_SUFFIX, expected);
  return strcmp (name, expected) == 0 ? number : 0;
}

/* Orders the latest first. */
static int
compare_numbers (gconstpointer a,
                 gconstpointer b)
{
  guint64 first = *(const guint64 *) a;
  guint64 second = *(const guint64 *) b;

  return first == second ? 0 : first > second ? -1 : 1;
}

/* (element-type guint64): takes @fd. */
static GArray *
list_extents (int fd)
{
  GArray *numbers = g_array_new (FALSE, FALSE, sizeof (guint64));
  DIR *dir = fdopendir (fd);
  const struct dirent *entry;

  if (dir == NULL)
    {
      close (fd);
      return numbers;
    }
  while ((entry = readdir (dir)) != NULL)
    {
      guint64 number = parse_name (entry->d_name);

      if (number > 0)
        g_array_append_val (numbers, number);
    }
  closedir (dir);
  g_array_sort (numbers, compare_numbers);
  return numbers;
}

/* --- extents --- */

/* Extents that were entered before are later ones, so their chunks stay. */
static void
add_extent (LlmKvIndex               *self,
            guint64                   number,
            const LlmKvExtentSummary *summary)
{
  for (guint i = 0; i < summary->n_chunks; i++)
    {
      const LlmKvExtentChunk *chunk = &summary->chunks[i];
      LlmKvIndexChunk *entry;

      if (chunk->is_dead || chunk->number >= MAX_CHUNKS)
        continue;
      if (chunk->number >= self->chunks->len)
        g_array_set_size (self->chunks, chunk->number + 1);
      entry = &g_array_index (self->chunks, LlmKvIndexChunk, chunk->number);
      if (entry->extent == 0)
        *entry = (LlmKvIndexChunk) { number, chunk->bytes, chunk->format };
    }
}

/* FALSE when it is not valid. */
static gboolean
read_extent (int                 folder_fd,
             guint64             number,
             LlmKvExtentSummary *summary)
{
  g_autofree guint8 *bytes = g_malloc (LLM_KV_EXTENT_MIN_BYTES);
  int fd = llm_kv_extent_open_fd (folder_fd, number, O_RDONLY);
  gboolean is_good = FALSE;
  struct stat status;
  gssize n;
  gsize wanted;

  if (fd < 0)
    return FALSE;
  if (fstat (fd, &status) == 0 && S_ISREG (status.st_mode))
    {
      n = pread (fd, bytes, LLM_KV_EXTENT_MIN_BYTES, 0);
      wanted = n > 0 ? llm_kv_extent_peek (bytes, (gsize) n) : 0;
      bytes = g_realloc (bytes, MAX (wanted, 1));
      is_good = wanted > 0 && pread (fd, bytes, wanted, 0) == (gssize) wanted
                && llm_kv_extent_summarize (bytes, wanted, summary);
    }
  close (fd);
  return is_good;
}

LlmKvIndex *
llm_kv_index_read (const char *folder,
                   const char *id)
{
  LlmKvIndex *self = g_new0 (LlmKvIndex, 1);
  int storage_fd = open (folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int fd = storage_fd >= 0 ? llm_kv_folder_open_id (storage_fd, id) : -1;
  g_autofree LlmKvExtentSummary *summary = g_new (LlmKvExtentSummary, 1);
  g_autoptr(GArray) numbers = NULL;
  guint64 identity = 0;

  self->chunks = g_array_new (FALSE, TRUE, sizeof (LlmKvIndexChunk));
  numbers = fd >= 0 ? list_extents (fcntl (fd, F_DUPFD_CLOEXEC, 0)) : NULL;
  for (guint i = 0; numbers != NULL && i < numbers->len; i++)
    {
      guint64 number = g_array_index (numbers, guint64, i);

      if (!read_extent (fd, number, summary))
        continue;
      if (self->chunk_slots == 0)
        {
          identity = summary->identity;
          self->chunk_slots = summary->chunk_slots;
        }
      if (summary->identity == identity && summary->chunk_slots == self->chunk_slots)
        add_extent (self, number, summary);
    }
  if (fd >= 0)
    close (fd);
  if (storage_fd >= 0)
    close (storage_fd);
  return self;
}

void
llm_kv_index_free (LlmKvIndex *self)
{
  g_array_unref (self->chunks);
  g_free (self);
}
