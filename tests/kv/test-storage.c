/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chunks on storage: what comes back is what was written, or nothing. All of it with io_uring and
 * with threads; a few calls of the system are wrapped, so that they can fail. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "kv/llm-kv-extent.h"
#include "support/llm-test-folder.h"

#define WAIT_US (60 * G_USEC_PER_SEC)
#define N_LAYERS 5
#define SPOILT 0xee
#define SMALL 1
/* A chunk's group is some ten KiB then, which no border of a request respects. */
#define LARGE 97

/* --- what the system does --- */

ssize_t __real_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __real_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);
int     __real_fallocate64 (int fd, int mode, off64_t offset, off64_t length);
int     __real_renameat (int from, const char *from_name, int to, const char *to_name);
ssize_t __wrap_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __wrap_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);
int     __wrap_fallocate64 (int fd, int mode, off64_t offset, off64_t length);
int     __wrap_renameat (int from, const char *from_name, int to, const char *to_name);

/* Threads of the disk look at these. Calls that work before one fails; negative for all. */
static int reads_left = -1;
static int writes_left = -1;
/* Calls that fail before they work again. */
static int fallocates_failing;
static int renames_failing;

static void
set_calls (int *calls,
           int  n)
{
  __atomic_store_n (calls, n, __ATOMIC_SEQ_CST);
}

static gboolean
fails_now (int *left)
{
  return __atomic_load_n (left, __ATOMIC_SEQ_CST) >= 0
         && __atomic_fetch_sub (left, 1, __ATOMIC_SEQ_CST) == 0;
}

static gboolean
fails_still (int *failing)
{
  int n = __atomic_load_n (failing, __ATOMIC_SEQ_CST);

  while (n > 0)
    if (__atomic_compare_exchange_n (failing, &n, n - 1, FALSE, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
      return TRUE;

  return FALSE;
}

ssize_t
__wrap_pread64 (int      fd,
                void    *bytes,
                size_t   length,
                off64_t  offset)
{
  if (!fails_now (&reads_left))
    return __real_pread64 (fd, bytes, length, offset);
  errno = EIO;
  return -1;
}

ssize_t
__wrap_pwrite64 (int         fd,
                 const void *bytes,
                 size_t      length,
                 off64_t     offset)
{
  if (!fails_now (&writes_left))
    return __real_pwrite64 (fd, bytes, length, offset);
  errno = ENOSPC;
  return -1;
}

int
__wrap_fallocate64 (int     fd,
                    int     mode,
                    off64_t offset,
                    off64_t length)
{
  if (mode != 0 || !fails_still (&fallocates_failing))
    return __real_fallocate64 (fd, mode, offset, length);
  errno = ENOSPC;
  return -1;
}

int
__wrap_renameat (int         from,
                 const char *from_name,
                 int         to,
                 const char *to_name)
{
  if (!fails_still (&renames_failing))
    return __real_renameat (from, from_name, to, to_name);
  errno = EIO;
  return -1;
}

/* --- a shape and its chunks --- */

typedef struct
{
  LlmKvStorage *storage;
  char *folder;
  const char *backend;
  guint64 limit;
  guint64 app_limit;
  LlmKvShape shape;
  gsize offsets[LLM_KV_N_FORMS][N_LAYERS + 1];
  guint n_logged;
} Fixture;

/* Layers 1 and 3 have windows. */
static void
make_shape (Fixture *fixture,
            guint    scale)
{
  static const guint units[LLK_N_KV_FORMATS] = { 0, 0, 8, 4, 2 };

  fixture->shape = (LlmKvShape) { .identity = 42, .n_layers = N_LAYERS, .chunk_slots = 16 };
  for (guint i = 0; i < LLM_KV_N_FORMS; i++)
    {
      gsize at = 0;

      for (guint j = 0; j < N_LAYERS; j++)
        {
          fixture->offsets[i][j] = at;
          if (!LLM_KV_FORM_IS_BEHIND (i) || j % 2 == 0)
            at += units[LLM_KV_FORM_FORMAT (i)] * 16 * scale + 16;
        }
      fixture->offsets[i][N_LAYERS] = at;
      fixture->shape.offsets[i] = units[LLM_KV_FORM_FORMAT (i)] > 0 ? fixture->offsets[i] : NULL;
    }
  /* One whose chunks need no bytes at all. */
  memset (fixture->offsets[LLM_KV_FORM (LLK_KV_Q2, TRUE)], 0, sizeof fixture->offsets[0]);
}

static LlmKvForm
get_form (guint number)
{
  return LLM_KV_FORM (LLK_KV_Q8 + number % 3, number % 4 == 3);
}

/* Text of a context with this seed. */
static guint64
get_hash (guint number,
          guint seed)
{
  const gint32 tokens[2] = { (gint32) number, (gint32) seed };

  return llm_kv_hash_tokens (seed, tokens, G_N_ELEMENTS (tokens));
}

static gsize
get_bytes (Fixture   *fixture,
           LlmKvForm  form)
{
  return fixture->offsets[form][N_LAYERS];
}

static void
fill_chunk (guint8  *data,
            gsize    n,
            guint64  hash)
{
  for (gsize i = 0; i < n; i++)
    data[i] = (guint8) ((hash >> i % 57) + i);
}

static gboolean
is_chunk (const guint8 *data,
          gsize         n,
          guint64       hash)
{
  g_autofree guint8 *right = g_malloc (n + 1);

  fill_chunk (right, n, hash);
  return memcmp (data, right, n) == 0;
}

static void
make_storage (Fixture *fixture)
{
  g_autoptr(GError) error = NULL;
  LlmDisk *disk = llm_disk_new (fixture->backend, &error);

  g_assert_no_error (error);
  fixture->storage = llm_kv_storage_new (fixture->folder, disk, fixture->limit, fixture->app_limit,
                                         &error);
  g_assert_no_error (error);
}

static void
restart (Fixture *fixture)
{
  llm_kv_storage_free (fixture->storage);
  make_storage (fixture);
}

static GLogWriterOutput
count_log (GLogLevelFlags   level,
           const GLogField *fields,
           gsize            n_fields,
           gpointer         data)
{
  Fixture *fixture = data;

  if ((level & G_LOG_LEVEL_MASK) < G_LOG_LEVEL_MESSAGE)
    return g_log_writer_default (level, fields, n_fields, NULL);
  fixture->n_logged += (level & G_LOG_LEVEL_MASK) == G_LOG_LEVEL_MESSAGE;
  return G_LOG_WRITER_HANDLED;
}

static Fixture *logged_fixture;

static GLogWriterOutput
write_log (GLogLevelFlags   level,
           const GLogField *fields,
           gsize            n_fields,
           gpointer         data)
{
  return logged_fixture != NULL ? count_log (level, fields, n_fields, logged_fixture)
                                : g_log_writer_default (level, fields, n_fields, NULL);
}

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->backend = data;
  fixture->folder = llm_test_folder_new ();
  make_shape (fixture, SMALL);
  make_storage (fixture);
  logged_fixture = fixture;
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  logged_fixture = NULL;
  llm_kv_storage_free (fixture->storage);
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
}

static LlmKvFolder *
open_folder (Fixture    *fixture,
             const char *app,
             const char *id)
{
  LlmKvFolder *folder = llm_kv_folder_open (fixture->storage, app, id, &fixture->shape);

  g_assert_nonnull (folder);
  return folder;
}

static void
poll_disk (Fixture *fixture)
{
  g_assert_cmpuint (llm_disk_poll (llm_kv_storage_get_disk (fixture->storage), WAIT_US), >, 0);
}

/* --- writing --- */

typedef struct
{
  guint n;
  LlmKvSlot slots[LLM_KV_EXTENT_CHUNKS];
  guint8 *data[LLM_KV_EXTENT_CHUNKS];
  GError *error;
  gboolean has_ended;
} Write;

static void
on_written (const LlmKvSlot *slots,
            const GError    *error,
            gpointer         data)
{
  Write *write = data;

  g_assert_false (write->has_ended);
  g_assert_true ((slots == NULL) == (error != NULL));
  if (slots != NULL)
    memcpy (write->slots, slots, write->n * sizeof *slots);
  else
    write->error = g_error_copy (error);
  write->has_ended = TRUE;
}

static void
begin_write (Fixture     *fixture,
             LlmKvFolder *folder,
             Write       *write,
             guint        first,
             guint        n,
             guint        seed)
{
  LlmKvRecord records[LLM_KV_EXTENT_CHUNKS];

  memset (write, 0, sizeof *write);
  write->n = n;
  for (guint i = 0; i < n; i++)
    {
      guint number = first + i;
      gsize bytes = get_bytes (fixture, get_form (number));

      records[i] = (LlmKvRecord) { number, get_hash (number, seed), get_form (number),
                                   number * 0.25f, number + 1.f };
      write->data[i] = g_malloc (bytes + 1);
      fill_chunk (write->data[i], bytes, records[i].hash);
    }
  llm_kv_folder_write (folder, records, (const guint8 *const *) write->data, n, on_written, write);
  g_assert_false (write->has_ended);
}

static void
end_write (Write *write)
{
  for (guint i = 0; i < write->n; i++)
    g_free (write->data[i]);
  g_clear_error (&write->error);
}

static gboolean
write_chunks (Fixture     *fixture,
              LlmKvFolder *folder,
              guint        first,
              guint        n,
              guint        seed)
{
  g_autofree Write *write = g_new (Write, 1);
  gboolean is_there;

  begin_write (fixture, folder, write, first, n, seed);
  while (!write->has_ended)
    poll_disk (fixture);
  is_there = write->error == NULL;
  if (!is_there)
    g_assert_error (write->error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  for (guint i = 0; is_there && i < n; i++)
    {
      LlmKvSlot slot;
      LlmKvRecord record;
      guint number = first + i;

      g_assert_true (llm_kv_folder_find (folder, number, get_hash (number, seed), &slot, &record));
      g_assert_cmpuint (slot.extent, ==, write->slots[i].extent);
      g_assert_cmpuint (slot.index, ==, i);
    }
  end_write (write);
  return is_there;
}

/* --- reading --- */

typedef struct
{
  Fixture *fixture;
  guint n;
  guint *numbers;
  LlmKvRecord *records;
  LlmKvTarget *targets;
  guint *n_layers;       /* that have arrived, in rising order */
  guint n_failed;
  guint n_ended;
  guint n_first;         /* chunks that had their first layer when the first had all */
  LlmKvFolder *closes;   /* (nullable): closed by the first callback */
} Read;

/* From here on nobody writes to the targets. */
static void
spoil (Read *read)
{
  for (guint i = 0; i < read->n; i++)
    memset (read->targets[i].data, SPOILT, get_bytes (read->fixture, read->records[i].form));
}

static void
on_arrived (guint         target,
            guint         first_layer,
            guint         end_layer,
            const GError *error,
            gpointer      data)
{
  Read *read = data;
  const LlmKvRecord *record = &read->records[target];
  const gsize *offsets = read->fixture->offsets[record->form];

  g_assert_cmpuint (target, <, read->n);
  g_assert_cmpuint (first_layer, ==, read->n_layers[target]);
  g_assert_cmpuint (end_layer, >, first_layer);
  g_assert_cmpuint (end_layer, <=, N_LAYERS);
  if (error == NULL)
    {
      /* What has arrived so far is right, from the first byte on. */
      g_assert_true (is_chunk (read->targets[target].data, offsets[end_layer], record->hash));
    }
  else
    {
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
      g_assert_cmpuint (end_layer, ==, N_LAYERS);
      read->n_failed++;
    }
  read->n_layers[target] = end_layer;
  if (end_layer == N_LAYERS && read->n_ended++ == 0)
    for (guint i = 0; i < read->n; i++)
      read->n_first += read->n_layers[i] > 0;
  if (read->closes == NULL)
    return;
  llm_kv_folder_close (g_steal_pointer (&read->closes));
  spoil (read);
}

static Read *
read_new (Fixture *fixture,
          guint    n)
{
  Read *read = g_new0 (Read, 1);

  read->fixture = fixture;
  read->n = n;
  read->records = g_new0 (LlmKvRecord, n);
  read->targets = g_new0 (LlmKvTarget, n);
  read->n_layers = g_new0 (guint, n);
  return read;
}

static void
set_target (Read              *read,
            guint              target,
            LlmKvSlot          slot,
            const LlmKvRecord *record)
{
  read->records[target] = *record;
  read->targets[target].slot = slot;
  read->targets[target].data = g_malloc0 (get_bytes (read->fixture, record->form) + 1);
}

static void
read_free (Read *read)
{
  for (guint i = 0; i < read->n; i++)
    g_free (read->targets[i].data);
  g_free (read->records);
  g_free (read->targets);
  g_free (read->n_layers);
  g_free (read);
}

/* Reads every @step-th chunk of those that are found, in falling order; returns how many of them
 * arrived. */
static guint
read_chunks (Fixture     *fixture,
             LlmKvFolder *folder,
             guint        seed,
             guint        step,
             guint       *n_failed)
{
  guint64 bytes = llm_kv_folder_get_bytes (folder);
  guint end = llm_kv_folder_get_end (folder);
  Read *read = read_new (fixture, end);
  LlmKvRead *work;
  guint n_good;
  guint n = 0;

  for (guint i = end; i > 0; i--)
    {
      LlmKvSlot slot;
      LlmKvRecord record;

      if ((i - 1) % step != 0 ||
          !llm_kv_folder_find (folder, i - 1, get_hash (i - 1, seed), &slot, &record))
        continue;
      g_assert_cmpuint (record.number, ==, i - 1);
      g_assert_cmpuint (record.form, ==, get_form (i - 1));
      g_assert_cmpfloat (record.density, ==, (i - 1) * 0.25f);
      g_assert_cmpfloat (record.n_rows, ==, i);
      set_target (read, n++, slot, &record);
    }
  read->n = n;
  work = llm_kv_folder_read (folder, read->targets, n, on_arrived, read);
  g_assert_cmpuint (read->n_ended, ==, 0);
  while (read->n_ended < n)
    poll_disk (fixture);
  g_assert_cmpuint (llm_kv_read_get_bytes (work), <=, bytes);
  llm_kv_read_free (work);
  if (n_failed != NULL)
    *n_failed = read->n_failed;
  else
    g_assert_cmpuint (read->n_failed, ==, 0);
  n_good = n - read->n_failed;
  read_free (read);
  return n_good;
}

/* --- files --- */

static char *
get_path (Fixture    *fixture,
          const char *id,
          const char *name)
{
  return g_build_filename (fixture->folder, id, name, NULL);
}

/* (transfer full): the extents of a context, by name. */
static GPtrArray *
list_files (Fixture    *fixture,
            const char *id)
{
  GPtrArray *paths = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *folder = get_path (fixture, id, NULL);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    if (strcmp (name, "app") != 0)
      g_ptr_array_add (paths, get_path (fixture, id, name));
  return paths;
}

static guint
count_files (Fixture    *fixture,
             const char *id)
{
  g_autoptr(GPtrArray) paths = list_files (fixture, id);

  return paths->len;
}

static guint64
count_disk_bytes (Fixture    *fixture,
                  const char *id)
{
  g_autoptr(GPtrArray) paths = list_files (fixture, id);
  guint64 bytes = 0;

  for (guint i = 0; i < paths->len; i++)
    {
      struct stat status;

      g_assert_cmpint (g_stat (g_ptr_array_index (paths, i), &status), ==, 0);
      bytes += (guint64) status.st_blocks * 512;
    }
  return bytes;
}

/* --- tests --- */

static void
test_write_and_read (Fixture       *fixture,
                     gconstpointer  data)
{
  for (guint scale = SMALL; scale <= LARGE; scale += LARGE - SMALL)
    {
      LlmKvFolder *folder;

      make_shape (fixture, scale);
      fixture->shape.identity += scale;
      folder = open_folder (fixture, "app", "context");
      g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
      g_assert_true (write_chunks (fixture, folder, 0, 90, 7));
      g_assert_true (write_chunks (fixture, folder, 90, 1, 7));
      g_assert_true (write_chunks (fixture, folder, 91, LLM_KV_EXTENT_CHUNKS, 7));
      g_assert_cmpuint (count_files (fixture, "context"), ==, 3);
      g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 91 + LLM_KV_EXTENT_CHUNKS);
      g_assert_cmpuint (read_chunks (fixture, folder, 7, 1, NULL), ==, 91 + LLM_KV_EXTENT_CHUNKS);
      g_assert_cmpuint (read_chunks (fixture, folder, 7, 5, NULL), ==,
                        (91 + LLM_KV_EXTENT_CHUNKS) / 5 + 1);
      /* Another text is not what was written. */
      g_assert_cmpuint (read_chunks (fixture, folder, 8, 1, NULL), ==, 0);
      llm_kv_folder_close (folder);

      restart (fixture);
      folder = open_folder (fixture, "app", "context");
      g_assert_cmpuint (read_chunks (fixture, folder, 7, 1, NULL), ==, 91 + LLM_KV_EXTENT_CHUNKS);
      g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==,
                        count_disk_bytes (fixture, "context"));
      llm_kv_folder_close (folder);
    }
  /* The other shape's extents went when the folder was opened with this one. */
  g_assert_cmpuint (count_files (fixture, "context"), ==, 3);
  g_assert_cmpuint (fixture->n_logged, ==, 1);
}

/* The first layers of all come before the last ones of any. */
static void
test_layers (Fixture       *fixture,
             gconstpointer  data)
{
  const guint n = 250;
  Read *read = read_new (fixture, n);
  LlmKvFolder *folder;
  LlmKvRead *work;

  make_shape (fixture, LARGE);
  folder = open_folder (fixture, "app", "context");
  for (guint i = 0; i < n; i += 50)
    g_assert_true (write_chunks (fixture, folder, i, 50, 1));
  read->n = 0;
  for (guint i = 0; i < n; i++)
    {
      LlmKvSlot slot;
      LlmKvRecord record;

      g_assert_true (llm_kv_folder_find (folder, i, get_hash (i, 1), &slot, &record));
      /* what has no bytes is there at once */
      if (get_bytes (fixture, record.form) > 0)
        set_target (read, read->n++, slot, &record);
    }
  g_assert_cmpuint (read->n, >, 200);
  work = llm_kv_folder_read (folder, read->targets, read->n, on_arrived, read);
  while (read->n_ended < read->n)
    poll_disk (fixture);
  llm_kv_read_free (work);
  g_assert_cmpuint (read->n_failed, ==, 0);
  g_assert_cmpuint (read->n_first, ==, read->n);
  read_free (read);
  llm_kv_folder_close (folder);
}

static void
test_latest (Fixture       *fixture,
             gconstpointer  data)
{
  LlmKvFolder *folder = open_folder (fixture, "app", "context");
  LlmKvSlot slot;

  g_assert_true (write_chunks (fixture, folder, 0, 8, 1));
  g_assert_true (write_chunks (fixture, folder, 4, 2, 2));
  g_assert_false (llm_kv_folder_find (folder, 4, get_hash (4, 1), NULL, NULL));
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 6);
  g_assert_cmpuint (read_chunks (fixture, folder, 2, 1, NULL), ==, 2);
  llm_kv_folder_close (folder);
  restart (fixture);

  /* The same after a restart; the next one is later than all there were. */
  folder = open_folder (fixture, "app", "context");
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 6);
  g_assert_cmpuint (read_chunks (fixture, folder, 2, 1, NULL), ==, 2);
  g_assert_true (write_chunks (fixture, folder, 0, 8, 3));
  g_assert_cmpuint (read_chunks (fixture, folder, 3, 1, NULL), ==, 8);
  g_assert_cmpuint (count_files (fixture, "context"), ==, 1);

  /* An extent goes with its last chunk. */
  for (guint i = 0; i < 8; i++)
    {
      g_assert_cmpuint (count_files (fixture, "context"), ==, 1);
      g_assert_true (llm_kv_folder_find (folder, i, get_hash (i, 3), &slot, NULL));
      llm_kv_folder_forget (folder, slot);
      g_assert_false (llm_kv_folder_find (folder, i, get_hash (i, 3), NULL, NULL));
      llm_kv_folder_forget (folder, slot);
    }
  g_assert_cmpuint (count_files (fixture, "context"), ==, 0);
  g_assert_cmpuint (llm_kv_folder_get_bytes (folder), ==, 0);
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==, 0);
  llm_kv_folder_close (folder);
}

/* Of two writes at the same time the later one counts, even if it ends first. */
static void
test_overtaken (Fixture       *fixture,
                gconstpointer  data)
{
  /* The only one of them that has no bytes, so that there is little to write. */
  const guint number = 11;
  g_autofree Write *first = g_new (Write, 1);
  g_autofree Write *second = g_new (Write, 1);
  LlmKvFolder *folder;

  make_shape (fixture, LARGE);
  g_assert_cmpuint (get_bytes (fixture, get_form (number)), ==, 0);
  folder = open_folder (fixture, "app", "context");
  begin_write (fixture, folder, first, 0, 100, 4);
  begin_write (fixture, folder, second, number, 1, 5);
  /* (mostly the second one does) */
  while (!first->has_ended || !second->has_ended)
    poll_disk (fixture);
  g_assert_no_error (first->error);
  g_assert_no_error (second->error);
  end_write (first);
  end_write (second);
  g_assert_cmpuint (read_chunks (fixture, folder, 5, 1, NULL), ==, 1);
  g_assert_cmpuint (read_chunks (fixture, folder, 4, 1, NULL), ==, 99);
  llm_kv_folder_close (folder);
}

/* What is not there any more is told, not read. */
static void
test_gone (Fixture       *fixture,
           gconstpointer  data)
{
  LlmKvFolder *folder = open_folder (fixture, "app", "context");
  Read *read = read_new (fixture, 4);
  LlmKvRead *work;
  LlmKvRecord record;
  LlmKvSlot slot;

  g_assert_true (write_chunks (fixture, folder, 0, 4, 1));
  for (guint i = 0; i < 4; i++)
    {
      g_assert_true (llm_kv_folder_find (folder, i, get_hash (i, 1), &slot, &record));
      set_target (read, i, slot, &record);
    }
  llm_kv_folder_forget (folder, read->targets[0].slot);
  read->targets[1].slot.extent = 99;
  read->targets[2].slot.index = 4;
  work = llm_kv_folder_read (folder, read->targets, 4, on_arrived, read);
  while (read->n_ended < 4)
    poll_disk (fixture);
  g_assert_cmpuint (read->n_failed, ==, 3);
  llm_kv_read_free (work);
  read_free (read);
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 3);
  llm_kv_folder_close (folder);
}

static void
test_link (Fixture       *fixture,
           gconstpointer  data)
{
  LlmKvFolder *from = open_folder (fixture, "app", "origin");
  LlmKvFolder *fork = open_folder (fixture, "app", "fork");
  LlmKvSlot slot, again;
  guint64 bytes;

  g_assert_true (write_chunks (fixture, from, 0, 16, 1));
  g_assert_true (write_chunks (fixture, from, 16, 16, 1));
  g_assert_true (write_chunks (fixture, from, 32, 16, 1));
  bytes = llm_kv_storage_get_bytes (fixture->storage);

  llm_kv_folder_link (fork, from, 40);
  g_assert_true (llm_kv_folder_find (fork, 0, get_hash (0, 1), &slot, NULL));
  llm_kv_folder_link (fork, from, 40);
  g_assert_true (llm_kv_folder_find (fork, 0, get_hash (0, 1), &again, NULL));
  g_assert_cmpuint (again.extent, ==, slot.extent);
  g_assert_cmpuint (llm_kv_folder_get_end (fork), ==, 32);
  g_assert_cmpuint (read_chunks (fixture, fork, 1, 1, NULL), ==, 32);
  g_assert_cmpuint (count_files (fixture, "fork"), ==, 2);
  g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==, bytes);
  g_assert_cmpuint (llm_kv_folder_get_bytes (fork), <, bytes);
  g_assert_cmpuint (llm_kv_folder_get_bytes (from), ==, bytes);

  /* What one forgets or writes anew is the other's still. */
  g_assert_true (write_chunks (fixture, from, 0, 16, 2));
  g_assert_true (write_chunks (fixture, from, 16, 8, 2));
  g_assert_cmpuint (read_chunks (fixture, fork, 1, 1, NULL), ==, 32);
  g_assert_cmpuint (read_chunks (fixture, from, 2, 1, NULL), ==, 24);
  llm_kv_folder_close (from);
  llm_kv_folder_close (fork);
  llm_kv_storage_remove (fixture->storage, "origin");
  restart (fixture);
  fork = open_folder (fixture, "app", "fork");
  g_assert_cmpuint (read_chunks (fixture, fork, 1, 1, NULL), ==, 32);
  g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==,
                    count_disk_bytes (fixture, "fork"));
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (fixture->storage, "fork"), ==,
                    count_disk_bytes (fixture, "fork"));
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (fixture->storage, "origin"), ==, 0);
  llm_kv_folder_close (fork);
  llm_kv_storage_remove (fixture->storage, "fork");
  g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==, 0);
}

/* A context of one application, with an extent of 16 chunks, closed again. */
static gboolean
write_context (Fixture    *fixture,
               const char *app,
               const char *id)
{
  LlmKvFolder *folder = open_folder (fixture, app, id);
  gboolean is_there = write_chunks (fixture, folder, 0, 16, 1);

  llm_kv_folder_close (folder);
  return is_there;
}

static guint64
measure_context (Fixture *fixture)
{
  guint64 bytes;

  g_assert_true (write_context (fixture, "x", "measure"));
  bytes = llm_kv_storage_get_bytes (fixture->storage);
  llm_kv_storage_remove (fixture->storage, "measure");
  return bytes;
}

static void
assert_contexts (Fixture    *fixture,
                 const char *ids)
{
  for (char id = 'a'; id <= 'e'; id++)
    {
      const char name[2] = { id, '\0' };

      g_assert_cmpuint (count_files (fixture, name), ==, strchr (ids, id) != NULL);
    }
}

/* The folder was changed so long ago. */
static void
age_context (Fixture    *fixture,
             const char *id,
             gint64      age_s)
{
  g_autofree char *path = get_path (fixture, id, NULL);
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  const struct timespec times[2] = { { .tv_sec = now - age_s }, { .tv_sec = now - age_s } };

  g_assert_cmpint (utimensat (AT_FDCWD, path, times, 0), ==, 0);
}

static void
test_limits (Fixture       *fixture,
             gconstpointer  data)
{
  guint64 one = measure_context (fixture);
  LlmKvFolder *folder;

  /* Three fit. */
  fixture->limit = 3 * one + one / 2;
  restart (fixture);
  g_assert_true (write_context (fixture, "x", "a"));
  g_assert_true (write_context (fixture, "y", "b"));
  g_assert_true (write_context (fixture, "x", "c"));
  assert_contexts (fixture, "abc");
  folder = open_folder (fixture, "x", "a");
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 16);
  llm_kv_folder_close (folder);
  g_assert_true (write_context (fixture, "x", "d"));
  assert_contexts (fixture, "acd");

  /* After a restart it is still known what was used last, and by whom; of an application that has
   * all it may, something of its own goes. */
  age_context (fixture, "c", 300);
  age_context (fixture, "a", 200);
  age_context (fixture, "d", 100);
  fixture->app_limit = 3 * one;
  restart (fixture);
  folder = open_folder (fixture, "x", "c");
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 16);
  g_assert_true (write_context (fixture, "y", "b"));
  assert_contexts (fixture, "bcd");
  fixture->limit = 9 * one;
  llm_kv_folder_close (folder);
  age_context (fixture, "b", 400);
  restart (fixture);
  g_assert_true (write_context (fixture, "x", "a"));
  assert_contexts (fixture, "abcd");
  g_assert_true (write_context (fixture, "x", "e"));
  assert_contexts (fixture, "abce");

  /* What never fits costs nobody anything. */
  fixture->limit = one - 1;
  fixture->app_limit = 0;
  restart (fixture);
  g_assert_false (write_context (fixture, "z", "d"));
  assert_contexts (fixture, "abce");
  fixture->limit = 9 * one;
  fixture->app_limit = one - 1;
  restart (fixture);
  g_assert_false (write_context (fixture, "z", "d"));
  assert_contexts (fixture, "abce");
  g_assert_cmpuint (fixture->n_logged, ==, 2);

  /* A context's own extents are not taken for its next one. */
  fixture->limit = one + one / 2;
  fixture->app_limit = 0;
  restart (fixture);
  folder = open_folder (fixture, "x", "a");
  g_assert_false (write_chunks (fixture, folder, 16, 16, 1));
  assert_contexts (fixture, "a");
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 16);
  llm_kv_folder_close (folder);
}

/* Extents of a context that is open can go, too. */
static void
test_open_victim (Fixture       *fixture,
                  gconstpointer  data)
{
  guint64 one = measure_context (fixture);
  LlmKvFolder *idle;

  fixture->limit = 2 * one + one / 2;
  restart (fixture);
  idle = open_folder (fixture, "x", "a");
  g_assert_true (write_chunks (fixture, idle, 0, 16, 1));
  g_assert_true (write_chunks (fixture, idle, 16, 16, 1));
  g_assert_true (write_context (fixture, "y", "b"));
  g_assert_false (llm_kv_folder_find (idle, 0, get_hash (0, 1), NULL, NULL));
  g_assert_cmpuint (read_chunks (fixture, idle, 1, 1, NULL), ==, 16);
  llm_kv_folder_close (idle);
}

static void
test_sweep (Fixture       *fixture,
            gconstpointer  data)
{
  g_autoptr(GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree char *part = NULL;
  g_autofree char *alien = NULL;
  LlmKvFolder *folder;

  g_assert_true (write_context (fixture, "x", "a"));
  g_assert_true (write_context (fixture, "x", "b"));
  g_assert_true (write_context (fixture, "x", "c"));
  /* A process that was killed between writing and naming, and what is not ours. */
  part = get_path (fixture, "a", "0000000000000009.part");
  g_assert_true (g_file_set_contents (part, "half", -1, NULL));
  alien = get_path (fixture, "a", "notes.kv");
  g_assert_true (g_file_set_contents (alien, "other", -1, NULL));
  restart (fixture);
  g_assert_false (g_file_test (part, G_FILE_TEST_EXISTS));
  g_assert_true (g_file_test (alien, G_FILE_TEST_EXISTS));
  g_assert_cmpint (g_unlink (alien), ==, 0);

  folder = open_folder (fixture, "x", "c");
  g_hash_table_add (ids, (char *) "a");
  llm_kv_storage_sweep (fixture->storage, ids);
  assert_contexts (fixture, "ac");
  g_clear_pointer (&part, g_free);
  part = get_path (fixture, "b", NULL);
  g_assert_false (g_file_test (part, G_FILE_TEST_EXISTS));
  llm_kv_folder_close (folder);
  llm_kv_storage_remove (fixture->storage, "nobody");
  llm_kv_storage_remove (fixture->storage, "a");
  llm_kv_storage_remove (fixture->storage, "c");
  g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==, 0);
  g_assert_cmpint (g_rmdir (fixture->folder), ==, 0);
  g_assert_cmpint (g_mkdir (fixture->folder, 0700), ==, 0);
}

static void
test_modes (Fixture       *fixture,
            gconstpointer  data)
{
  mode_t mask = umask (0);
  g_autofree char *deep = g_build_filename (fixture->folder, "deep", NULL);
  g_autofree char *folder = g_build_filename (deep, "a", NULL);
  g_autofree char *file = g_build_filename (folder, "0000000000000001.kv", NULL);
  g_autofree char *app = g_build_filename (folder, "app", NULL);
  Fixture below = *fixture;
  struct stat status;

  below.folder = deep;
  make_storage (&below);
  g_assert_true (write_context (&below, "x", "a"));
  umask (mask);
  g_assert_cmpint (g_stat (deep, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0700);
  g_assert_cmpint (g_stat (folder, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0700);
  g_assert_cmpint (g_stat (file, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0600);
  g_assert_cmpint (g_stat (app, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0600);
  llm_kv_storage_free (below.storage);
}

/* Nothing under the folder leads out of it, and nobody reads what another application left. */
static void
test_strangers (Fixture       *fixture,
                gconstpointer  data)
{
  g_autofree char *outside = llm_test_folder_new ();
  g_autofree char *door = get_path (fixture, "door", NULL);
  g_autofree char *file = NULL;
  g_autofree char *inner = NULL;
  g_autoptr(GPtrArray) paths = NULL;
  LlmKvFolder *folder;

  g_assert_cmpint (symlink (outside, door), ==, 0);
  restart (fixture);
  folder = open_folder (fixture, "x", "door");
  g_assert_false (write_chunks (fixture, folder, 0, 4, 1));
  llm_kv_folder_close (folder);
  llm_kv_storage_remove (fixture->storage, "door");
  g_assert_cmpint (g_rmdir (outside), ==, 0);
  g_assert_cmpint (g_unlink (door), ==, 0);

  /* An extent that is a link to a good one. */
  g_assert_true (write_context (fixture, "x", "a"));
  paths = list_files (fixture, "a");
  file = g_build_filename (fixture->folder, "moved", NULL);
  g_assert_cmpint (g_rename (g_ptr_array_index (paths, 0), file), ==, 0);
  g_assert_cmpint (symlink (file, g_ptr_array_index (paths, 0)), ==, 0);
  restart (fixture);
  folder = open_folder (fixture, "x", "a");
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  llm_kv_folder_close (folder);
  g_assert_cmpint (g_unlink (g_ptr_array_index (paths, 0)), ==, 0);
  g_assert_cmpint (g_rename (file, g_ptr_array_index (paths, 0)), ==, 0);

  restart (fixture);
  folder = open_folder (fixture, "y", "a");
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  g_assert_cmpuint (count_files (fixture, "a"), ==, 0);
  llm_kv_folder_close (folder);
}

static void
test_root (Fixture       *fixture,
           gconstpointer  data)
{
  g_autofree char *below = g_build_filename (fixture->folder, "file", "below", NULL);
  g_autofree char *file = g_build_filename (fixture->folder, "file", NULL);
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_kv_storage_new (fixture->folder, llm_disk_new ("threads", NULL), 0, 0,
                                     &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_clear_error (&error);
  g_assert_true (g_file_set_contents (file, "", 0, NULL));
  g_assert_null (llm_kv_storage_new (below, llm_disk_new ("threads", NULL), 0, 0, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_cmpint (g_unlink (file), ==, 0);
}

/* --- damage --- */

static guint
read_context (Fixture *fixture,
              guint   *n_failed)
{
  LlmKvFolder *folder = open_folder (fixture, "app", "context");
  guint n_good = read_chunks (fixture, folder, 1, 1, n_failed);

  llm_kv_folder_close (folder);
  return n_good;
}

/* What a folder with one extent had, so that it can be made again. */
typedef struct
{
  char *path;
  char *bytes;
  gsize length;
  char *app_path;
  char *app;
} Copy;

static void
copy_context (Fixture *fixture,
              Copy    *copy)
{
  g_autoptr(GPtrArray) paths = list_files (fixture, "context");

  g_assert_cmpuint (paths->len, ==, 1);
  copy->path = g_strdup (g_ptr_array_index (paths, 0));
  copy->app_path = get_path (fixture, "context", "app");
  g_assert_true (g_file_get_contents (copy->path, &copy->bytes, &copy->length, NULL));
  g_assert_true (g_file_get_contents (copy->app_path, &copy->app, NULL, NULL));
}

static void
copy_clear (Copy *copy)
{
  g_free (copy->path);
  g_free (copy->bytes);
  g_free (copy->app_path);
  g_free (copy->app);
}

/* The service was not there when the first @length bytes were put back. */
static void
put_back (Fixture    *fixture,
          const Copy *copy,
          gsize       length)
{
  g_autofree char *folder = g_path_get_dirname (copy->path);

  llm_kv_storage_free (fixture->storage);
  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents_full (copy->app_path, copy->app, -1, G_FILE_SET_CONTENTS_NONE,
                                           0600, NULL));
  g_assert_true (g_file_set_contents_full (copy->path, copy->bytes, (gssize) length,
                                           G_FILE_SET_CONTENTS_NONE, 0600, NULL));
  make_storage (fixture);
}

/* Each byte of a file wrong once: chunks come back right, or not at all. */
static void
test_flips (Fixture       *fixture,
            gconstpointer  data)
{
  LlmKvFolder *folder = open_folder (fixture, "app", "context");
  g_autoptr(LlmKvExtent) good = NULL;
  guint n_parts = 0;
  const char *reason;
  Copy copy;
  int fd;

  g_assert_true (write_chunks (fixture, folder, 0, 3, 1));
  llm_kv_folder_close (folder);
  copy_context (fixture, &copy);
  good = llm_kv_extent_parse ((const guint8 *) copy.bytes, copy.length, copy.length,
                              &fixture->shape, &reason);
  g_assert_nonnull (good);
  g_assert_cmpuint (good->header_bytes, ==, LLM_DISK_BLOCK);
  for (gsize i = 0; i < good->header_bytes; i++)
    {
      copy.bytes[i] ^= 1 << i % 8;
      g_assert_null (llm_kv_extent_parse ((const guint8 *) copy.bytes, copy.length, copy.length,
                                          &fixture->shape, &reason));
      g_assert_nonnull (reason);
      /* and some of them on the disk */
      if (i % 64 == 0)
        {
          guint n_failed;

          put_back (fixture, &copy, copy.length);
          g_assert_cmpuint (read_context (fixture, &n_failed), ==, 0);
          g_assert_cmpuint (n_failed, ==, 0);
          g_assert_cmpuint (count_files (fixture, "context"), ==, 0);
        }
      copy.bytes[i] ^= 1 << i % 8;
    }

  put_back (fixture, &copy, copy.length);
  fd = g_open (copy.path, O_WRONLY | O_CLOEXEC, 0);
  for (gsize i = good->header_bytes; i < copy.length; i++)
    {
      guint8 wrong = (guint8) copy.bytes[i] ^ (guint8) (1 << i % 8);
      guint n_failed;

      g_assert_cmpint (__real_pwrite64 (fd, &wrong, 1, (off_t) i), ==, 1);
      g_assert_cmpuint (read_context (fixture, &n_failed) + n_failed, ==, 3);
      g_assert_cmpuint (n_failed, <=, 1);
      n_parts += n_failed;
      g_assert_cmpint (__real_pwrite64 (fd, &copy.bytes[i], 1, (off_t) i), ==, 1);
    }
  close (fd);
  g_assert_cmpuint (n_parts, ==,
                    get_bytes (fixture, get_form (0)) + get_bytes (fixture, get_form (1)) +
                    get_bytes (fixture, get_form (2)));
  copy_clear (&copy);
}

static void
test_truncated (Fixture       *fixture,
                gconstpointer  data)
{
  LlmKvFolder *folder;
  guint n_failed;
  Copy copy;

  folder = open_folder (fixture, "app", "context");
  g_assert_true (write_chunks (fixture, folder, 0, 40, 1));
  copy_context (fixture, &copy);
  /* While it is open, behind our back: the chunks that are cut off are forgotten. */
  g_assert_cmpint (truncate (copy.path, LLM_DISK_BLOCK + 100), ==, 0);
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, &n_failed), <, 40);
  g_assert_cmpuint (n_failed, >, 0);
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 40 - n_failed);
  llm_kv_folder_close (folder);

  for (gsize i = 0; i <= copy.length; i += 256)
    {
      put_back (fixture, &copy, i);
      g_assert_cmpuint (read_context (fixture, &n_failed), ==, i == copy.length ? 40 : 0);
      g_assert_cmpuint (n_failed, ==, 0);
      g_assert_cmpuint (count_files (fixture, "context"), ==, i == copy.length);
    }

  /* Gone while it is open. */
  folder = open_folder (fixture, "app", "context");
  g_assert_cmpint (g_unlink (copy.path), ==, 0);
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, &n_failed), ==, 0);
  g_assert_cmpuint (n_failed, ==, 40);
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  g_assert_true (write_chunks (fixture, folder, 0, 40, 1));
  llm_kv_folder_close (folder);
  copy_clear (&copy);
}

/* Errors of the disk in the middle. */
static void
test_io_errors (Fixture       *fixture,
                gconstpointer  data)
{
  LlmKvFolder *folder;
  guint n_failed;

  make_shape (fixture, LARGE);
  folder = open_folder (fixture, "app", "context");
  for (int i = 0; i < 6; i++)
    {
      set_calls (&writes_left, i);
      g_assert_false (write_chunks (fixture, folder, 0, 60, 1));
      g_assert_cmpint (__atomic_load_n (&writes_left, __ATOMIC_SEQ_CST), <, 0);
      g_assert_cmpuint (count_files (fixture, "context"), ==, 0);
      g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==, 0);
    }
  g_assert_cmpuint (fixture->n_logged, ==, 1);
  set_calls (&renames_failing, 1);
  g_assert_false (write_chunks (fixture, folder, 0, 60, 1));
  g_assert_cmpuint (count_files (fixture, "context"), ==, 0);

  g_assert_true (write_chunks (fixture, folder, 0, 60, 1));
  g_assert_true (write_chunks (fixture, folder, 60, 60, 1));
  set_calls (&reads_left, 5);
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, &n_failed), ==, 120 - n_failed);
  g_assert_cmpuint (n_failed, >, 0);
  g_assert_cmpuint (n_failed, <, 60);
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 120 - n_failed);
  llm_kv_folder_close (folder);
}

static void
test_full_disk (Fixture       *fixture,
                gconstpointer  data)
{
  const struct rlimit small = { 2 * LLM_DISK_BLOCK, RLIM_INFINITY };
  struct rlimit before;
  LlmKvFolder *folder;

  g_assert_true (write_context (fixture, "x", "a"));
  g_assert_true (write_context (fixture, "x", "b"));
  g_assert_true (write_context (fixture, "x", "c"));
  /* The file system says so: what was not used for longest makes room, as much as it needs. */
  set_calls (&fallocates_failing, 2);
  g_assert_true (write_context (fixture, "x", "d"));
  assert_contexts (fixture, "cd");
  set_calls (&fallocates_failing, 100);
  g_assert_false (write_context (fixture, "x", "e"));
  set_calls (&fallocates_failing, 0);
  assert_contexts (fixture, "");
  g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==, 0);

  /* A limit of the process is no signal. */
  folder = open_folder (fixture, "x", "a");
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &small), ==, 0);
  g_assert_false (write_chunks (fixture, folder, 0, 30, 1));
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_true (write_chunks (fixture, folder, 0, 30, 1));
  llm_kv_folder_close (folder);
}

/* --- ends in the middle --- */

static void
test_cancel (Fixture       *fixture,
             gconstpointer  data)
{
  g_autofree Write *write = g_new (Write, 1);
  LlmKvFolder *folder;
  LlmKvRead *work;
  Read *read;

  make_shape (fixture, LARGE);
  folder = open_folder (fixture, "app", "context");
  g_assert_true (write_chunks (fixture, folder, 0, 60, 1));

  /* A write: its data may go with the folder. */
  begin_write (fixture, folder, write, 60, 100, 1);
  g_assert_cmpuint (count_files (fixture, "context"), ==, 2);
  llm_kv_folder_close (folder);
  end_write (write);
  g_assert_cmpuint (count_files (fixture, "context"), ==, 1);
  while (llm_disk_poll (llm_kv_storage_get_disk (fixture->storage), WAIT_US) > 0)
    ;
  g_assert_false (write->has_ended);
  g_assert_cmpuint (llm_kv_storage_get_bytes (fixture->storage), ==,
                    count_disk_bytes (fixture, "context"));

  /* A read: by its owner, by the folder, and by the folder from inside of a callback. */
  for (guint i = 0; i < 3; i++)
    {
      folder = open_folder (fixture, "app", "context");
      read = read_new (fixture, 60);
      for (guint j = 0; j < 60; j++)
        {
          LlmKvSlot slot;
          LlmKvRecord record;

          g_assert_true (llm_kv_folder_find (folder, j, get_hash (j, 1), &slot, &record));
          set_target (read, j, slot, &record);
        }
      work = llm_kv_folder_read (folder, read->targets, 60, on_arrived, read);
      if (i == 2)
        {
          read->closes = folder;
          while (read->closes != NULL)
            poll_disk (fixture);
          g_assert_cmpuint (read->n_ended, <=, 1);
        }
      else if (i == 1)
        llm_kv_folder_close (folder);
      llm_kv_read_free (work);
      if (i == 0)
        llm_kv_folder_close (folder);
      spoil (read);
      while (llm_disk_poll (llm_kv_storage_get_disk (fixture->storage), WAIT_US) > 0)
        ;
      for (guint j = 0; j < read->n; j++)
        for (gsize k = 0; k < get_bytes (fixture, read->records[j].form); k++)
          g_assert_cmpuint (read->targets[j].data[k], ==, SPOILT);
      read_free (read);
    }

  /* And a process that goes while it writes. */
  folder = open_folder (fixture, "app", "context");
  begin_write (fixture, folder, write, 60, 100, 1);
  llm_kv_folder_close (folder);
  restart (fixture);
  end_write (write);
  folder = open_folder (fixture, "app", "context");
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 60);
  llm_kv_folder_close (folder);
}

/* --- holes --- */

/* Dead chunks give their blocks back; those that live beside them do not notice. */
static void
test_holes (Fixture       *fixture,
            gconstpointer  data)
{
  LlmKvFolder *folder, *fork;
  guint64 bytes, before;
  LlmKvSlot slot;

  make_shape (fixture, LARGE);
  folder = open_folder (fixture, "app", "context");
  g_assert_true (write_chunks (fixture, folder, 0, 60, 1));
  bytes = llm_kv_folder_get_bytes (folder);
  for (guint i = 0; i < 60; i++)
    if (i % 20 >= 10 && llm_kv_folder_find (folder, i, get_hash (i, 1), &slot, NULL))
      {
        llm_kv_folder_forget (folder, slot);
        g_assert_false (llm_kv_folder_find (folder, i, get_hash (i, 1), NULL, NULL));
      }
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), ==, 30);
  /* It takes a moment, and is noticed without being asked for. */
  while (llm_kv_storage_get_bytes (fixture->storage) >= bytes * 4 / 5)
    g_usleep (1000);
  llm_kv_folder_close (folder);
  restart (fixture);
  folder = open_folder (fixture, "app", "context");
  g_assert_cmpuint (llm_kv_folder_get_bytes (folder), <, bytes * 4 / 5);
  g_assert_cmpuint (llm_kv_folder_get_bytes (folder), ==, count_disk_bytes (fixture, "context"));
  /* Those that still have their blocks may be found again, and are whole. */
  g_assert_cmpuint (read_chunks (fixture, folder, 1, 1, NULL), >=, 30);

  /* What a fork has as well stays whole. */
  fork = open_folder (fixture, "app", "fork");
  g_assert_true (write_chunks (fixture, folder, 0, 60, 2));
  llm_kv_folder_link (fork, folder, 60);
  before = llm_kv_folder_get_bytes (folder);
  for (guint i = 0; i < 50; i++)
    {
      g_assert_true (llm_kv_folder_find (folder, i, get_hash (i, 2), &slot, NULL));
      llm_kv_folder_forget (folder, slot);
    }
  g_assert_cmpuint (read_chunks (fixture, fork, 2, 1, NULL), ==, 60);
  llm_kv_folder_close (folder);
  llm_kv_folder_close (fork);
  restart (fixture);
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (fixture->storage, "fork"), ==, before);
  fork = open_folder (fixture, "app", "fork");
  g_assert_cmpuint (read_chunks (fixture, fork, 2, 1, NULL), ==, 60);
  llm_kv_folder_close (fork);
}

static void
test_hash (void)
{
  const gint32 tokens[] = { 1, 2, 3, 4, 5, 6 };

  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), ==, llm_kv_hash_tokens (0, tokens, 3));
  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), !=, llm_kv_hash_tokens (0, tokens, 2));
  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), !=, llm_kv_hash_tokens (0, tokens + 1, 3));
  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), !=, llm_kv_hash_tokens (9, tokens, 3));
}

typedef void (*TestFunc) (Fixture *, gconstpointer);

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *name;
    TestFunc func;
    gboolean needs_threads;  /* where calls are made to fail */
  } tests[] = {
    { "write-and-read", test_write_and_read, FALSE },
    { "layers", test_layers, FALSE },
    { "latest", test_latest, FALSE },
    { "overtaken", test_overtaken, FALSE },
    { "gone", test_gone, FALSE },
    { "link", test_link, FALSE },
    { "limits", test_limits, FALSE },
    { "open-victim", test_open_victim, FALSE },
    { "sweep", test_sweep, FALSE },
    { "modes", test_modes, FALSE },
    { "strangers", test_strangers, FALSE },
    { "root", test_root, FALSE },
    { "flips", test_flips, FALSE },
    { "truncated", test_truncated, FALSE },
    { "io-errors", test_io_errors, TRUE },
    { "full-disk", test_full_disk, FALSE },
    { "cancel", test_cancel, FALSE },
    { "holes", test_holes, FALSE },
  };
  static const char *const backends[] = { "uring", "threads" };

  g_test_init (&argc, &argv, NULL);
  g_log_set_writer_func (write_log, NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    for (guint j = 0; j < G_N_ELEMENTS (tests); j++)
      {
        g_autofree char *path = g_strdup_printf ("/storage/%s/%s", backends[i], tests[j].name);

        if (!tests[j].needs_threads || strcmp (backends[i], "threads") == 0)
          g_test_add (path, Fixture, backends[i], set_up, tests[j].func, tear_down);
      }
  g_test_add_func ("/storage/hash", test_hash);
  return g_test_run ();
}
