/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storage-rig.h"

#include <string.h>
#include <sys/stat.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "kv/disk/llm-kv-storage-private.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-pace.h"

/* --- a shape and its chunks --- */

void
rig_make_shape (StorageRig *rig,
                guint       scale)
{
  static const guint units[LLK_N_KV_FORMATS] = { 0, 0, 8, 4, 3, 2 };

  rig->shape = (LlmKvShape) { .identity = 42, .n_layers = N_LAYERS, .chunk_slots = 16 };
  for (guint i = 0; i < LLM_KV_N_FORMS; i++)
    {
      gsize at = 0;

      for (guint j = 0; j < N_LAYERS; j++)
        {
          rig->offsets[i][j] = at;
          if (!LLM_KV_FORM_IS_BEHIND (i) || j % 2 == 0)
            at += units[LLM_KV_FORM_FORMAT (i)] * 16 * scale + 16;
        }
      rig->offsets[i][N_LAYERS] = at;
      rig->shape.offsets[i] = units[LLM_KV_FORM_FORMAT (i)] > 0 ? rig->offsets[i] : NULL;
    }
  /* One whose chunks need no bytes at all. */
  memset (rig->offsets[LLM_KV_FORM (LLK_KV_Q2, TRUE)], 0, sizeof rig->offsets[0]);
}

LlmKvForm
rig_get_form (guint number)
{
  static const LlkKvFormat formats[] = { LLK_KV_Q8, LLK_KV_Q4, LLK_KV_Q2 };

  return LLM_KV_FORM (formats[number % 3], number % 4 == 3);
}

guint64
rig_get_hash (guint number,
              guint seed)
{
  const gint32 tokens[2] = { (gint32) number, (gint32) seed };

  return llm_kv_hash_tokens (seed, tokens, G_N_ELEMENTS (tokens));
}

gsize
rig_get_bytes (StorageRig *rig,
               LlmKvForm   form)
{
  return rig->offsets[form][N_LAYERS];
}

void
rig_fill_chunk (guint8  *data,
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

  rig_fill_chunk (right, n, hash);
  return memcmp (data, right, n) == 0;
}

LlmDisk *
rig_new_disk (StorageRig *rig)
{
  g_autoptr(GError) error = NULL;
  gboolean is_paced = strcmp (rig->backend, "paced") == 0;
  LlmDisk *disk = llm_disk_new (is_paced ? "threads" : rig->backend, &error);

  g_assert_no_error (error);
  llm_test_pace_set (LATENCY_US, is_paced ? 400000000 : 0);
  return disk;
}

void
rig_make_storage (StorageRig *rig)
{
  g_autoptr(GError) error = NULL;

  rig->storage = llm_kv_storage_new (rig->folder, rig_new_disk (rig), rig->limit, rig->app_limit,
                                     &error);
  g_assert_no_error (error);
}

void
rig_restart (StorageRig *rig)
{
  llm_kv_storage_free (rig->storage);
  rig_make_storage (rig);
}

static GLogWriterOutput
count_log (GLogLevelFlags   level,
           const GLogField *fields,
           gsize            n_fields,
           gpointer         data)
{
  StorageRig *rig = data;

  if ((level & G_LOG_LEVEL_MASK) < G_LOG_LEVEL_MESSAGE)
    return g_log_writer_default (level, fields, n_fields, NULL);
  rig->n_logged += (level & G_LOG_LEVEL_MASK) == G_LOG_LEVEL_MESSAGE;
  return G_LOG_WRITER_HANDLED;
}

static StorageRig *logged_rig;

static GLogWriterOutput
write_log (GLogLevelFlags   level,
           const GLogField *fields,
           gsize            n_fields,
           gpointer         data)
{
  return logged_rig != NULL ? count_log (level, fields, n_fields, logged_rig)
                                : g_log_writer_default (level, fields, n_fields, NULL);
}

static void
set_up (StorageRig    *rig,
        gconstpointer  data)
{
  rig->backend = data;
  rig->folder = llm_test_folder_new ();
  rig_make_shape (rig, SMALL);
  rig_make_storage (rig);
  logged_rig = rig;
}

static void
tear_down (StorageRig    *rig,
           gconstpointer  data)
{
  logged_rig = NULL;
  llm_kv_storage_free (rig->storage);
  llm_test_folder_remove (rig->folder);
  g_free (rig->folder);
}

void
rig_poll_disk (StorageRig *rig)
{
  g_assert_cmpuint (llm_disk_poll (llm_kv_storage_get_disk (rig->storage), WAIT_US), >, 0);
}

LlmKvFolder *
rig_open_folder (StorageRig *rig,
                 const char *app,
                 const char *id)
{
  LlmKvFolder *folder = llm_kv_folder_open (rig->storage, app, id, &rig->shape);

  g_assert_nonnull (folder);
  while (!llm_kv_folder_is_open (folder))
    rig_poll_disk (rig);
  return folder;
}

/* --- writing --- */

static void
on_written (const LlmKvSlot *slots,
            const GError    *error,
            gpointer         data)
{
  RigWrite *write = data;

  g_assert_false (write->has_ended);
  g_assert_true ((slots == NULL) == (error != NULL));
  if (slots != NULL)
    memcpy (write->slots, slots, write->n * sizeof *slots);
  else
    write->error = g_error_copy (error);
  write->has_ended = TRUE;
}

void
rig_begin_write (StorageRig  *rig,
                 LlmKvFolder *folder,
                 RigWrite    *write,
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
      gsize bytes = rig_get_bytes (rig, rig_get_form (number));

      records[i] = (LlmKvRecord) { number, rig_get_hash (number, seed), rig_get_form (number),
                                   number * 0.25f, number + 1.f };
      write->data[i] = g_malloc (bytes + 1);
      rig_fill_chunk (write->data[i], bytes, records[i].hash);
    }
  llm_kv_folder_write (folder, records, (const guint8 *const *) write->data, n, on_written, write);
  g_assert_false (write->has_ended);
}

void
rig_end_write (RigWrite *write)
{
  for (guint i = 0; i < write->n; i++)
    g_free (write->data[i]);
  g_clear_error (&write->error);
}

gboolean
rig_write_chunks (StorageRig  *rig,
                  LlmKvFolder *folder,
                  guint        first,
                  guint        n,
                  guint        seed)
{
  g_autofree RigWrite *write = g_new (RigWrite, 1);
  gboolean is_there;

  rig_begin_write (rig, folder, write, first, n, seed);
  while (!write->has_ended)
    rig_poll_disk (rig);
  is_there = write->error == NULL;
  if (!is_there)
    g_assert_error (write->error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  for (guint i = 0; is_there && i < n; i++)
    {
      LlmKvSlot slot;
      LlmKvRecord record;
      guint number = first + i;

      g_assert_true (llm_kv_folder_find (folder, number, rig_get_hash (number, seed), &slot,
                                         &record));
      g_assert_cmpuint (slot.extent, ==, write->slots[i].extent);
      g_assert_cmpuint (slot.index, ==, i);
    }
  rig_end_write (write);
  return is_there;
}

/* --- reading --- */

void
rig_spoil (RigRead *read)
{
  for (guint i = 0; i < read->n; i++)
    memset (read->targets[i].data, SPOILT, rig_get_bytes (read->rig, read->records[i].form));
}

void
rig_on_arrived (guint         target,
                guint         first_layer,
                guint         end_layer,
                const GError *error,
                gpointer      data)
{
  RigRead *read = data;
  const LlmKvRecord *record = &read->records[target];
  const gsize *offsets = read->rig->offsets[record->form];

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
}

void
rig_on_read_ended (gpointer data)
{
  ((RigRead *) data)->is_under_way = FALSE;
}

RigRead *
rig_read_new (StorageRig *rig,
              guint       n)
{
  RigRead *read = g_new0 (RigRead, 1);

  read->rig = rig;
  read->n = n;
  read->records = g_new0 (LlmKvRecord, n);
  read->targets = g_new0 (LlmKvTarget, n);
  read->n_layers = g_new0 (guint, n);
  read->is_under_way = TRUE;
  return read;
}

void
rig_set_target (RigRead           *read,
                guint              target,
                LlmKvSlot          slot,
                const LlmKvRecord *record)
{
  read->records[target] = *record;
  read->targets[target].slot = slot;
  read->targets[target].data = g_malloc0 (rig_get_bytes (read->rig, record->form) + 1);
}

void
rig_read_free (RigRead *read)
{
  while (read->is_under_way)
    rig_poll_disk (read->rig);
  for (guint i = 0; i < read->n; i++)
    g_free (read->targets[i].data);
  g_free (read->records);
  g_free (read->targets);
  g_free (read->n_layers);
  g_free (read);
}

guint
rig_read_chunks (StorageRig  *rig,
                 LlmKvFolder *folder,
                 guint        seed,
                 guint        step,
                 guint       *n_failed)
{
  guint64 bytes = llm_kv_folder_count_bytes (folder);
  guint end = llm_kv_folder_get_end (folder);
  RigRead *read = rig_read_new (rig, end);
  LlmKvRead *work;
  guint n_good;
  guint n = 0;

  for (guint i = end; i > 0; i--)
    {
      LlmKvSlot slot;
      LlmKvRecord record;

      if ((i - 1) % step != 0 ||
          !llm_kv_folder_find (folder, i - 1, rig_get_hash (i - 1, seed), &slot, &record))
        continue;
      g_assert_cmpuint (record.number, ==, i - 1);
      g_assert_cmpuint (record.form, ==, rig_get_form (i - 1));
      g_assert_cmpfloat (record.density, ==, (i - 1) * 0.25f);
      g_assert_cmpfloat (record.n_rows, ==, i);
      rig_set_target (read, n++, slot, &record);
    }
  read->n = n;
  work = llm_kv_folder_read (folder, read->targets, n, rig_on_arrived, read,
                             rig_on_read_ended, read);
  g_assert_cmpuint (read->n_ended, ==, 0);
  while (read->n_ended < n)
    rig_poll_disk (rig);
  g_assert_cmpuint (llm_kv_read_get_bytes (work), <=, bytes);
  llm_kv_read_free (work);
  if (n_failed != NULL)
    *n_failed = read->n_failed;
  else
    g_assert_cmpuint (read->n_failed, ==, 0);
  n_good = n - read->n_failed;
  rig_read_free (read);
  return n_good;
}

/* --- files --- */

char *
rig_get_path (StorageRig *rig,
              const char *id,
              const char *name)
{
  return g_build_filename (rig->folder, id, name, NULL);
}

GPtrArray *
rig_list_files (StorageRig *rig,
                const char *id)
{
  GPtrArray *paths = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *folder = rig_get_path (rig, id, NULL);
  g_autoptr(GDir) dir = NULL;
  const char *name;

  while (rig->storage != NULL && llm_kv_storage_tidy (rig->storage))
    ;
  dir = g_dir_open (folder, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    if (strcmp (name, "app") != 0)
      g_ptr_array_add (paths, rig_get_path (rig, id, name));
  return paths;
}

guint
rig_count_files (StorageRig *rig,
                 const char *id)
{
  g_autoptr(GPtrArray) paths = rig_list_files (rig, id);

  return paths->len;
}

guint64
rig_count_disk_bytes (StorageRig *rig,
                      const char *id)
{
  g_autoptr(GPtrArray) paths = rig_list_files (rig, id);
  guint64 bytes = 0;

  for (guint i = 0; i < paths->len; i++)
    {
      struct stat status;

      g_assert_cmpint (g_stat (g_ptr_array_index (paths, i), &status), ==, 0);
      bytes += (guint64) status.st_blocks * 512;
    }
  return bytes;
}

/* --- contexts --- */

gboolean
rig_write_context (StorageRig *rig,
                   const char *app,
                   const char *id)
{
  LlmKvFolder *folder = rig_open_folder (rig, app, id);
  gboolean is_there = rig_write_chunks (rig, folder, 0, 16, 1);

  llm_kv_folder_close (folder);
  return is_there;
}

void
rig_assert_contexts (StorageRig *rig,
                     const char *ids)
{
  for (char id = 'a'; id <= 'e'; id++)
    {
      const char name[2] = { id, '\0' };

      g_assert_cmpuint (rig_count_files (rig, name), ==, strchr (ids, id) != NULL);
    }
}

/* --- tests --- */

int
rig_run_tests (int            argc,
               char          *argv[],
               const char    *suite,
               const RigTest *tests,
               guint          n_tests)
{
  static const char *const backends[] = { "uring", "threads", "paced" };

  g_test_init (&argc, &argv, NULL);
  g_log_set_writer_func (write_log, NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    for (guint j = 0; j < n_tests; j++)
      {
        g_autofree char *path = g_strdup_printf ("/%s/%s/%s", suite, backends[i], tests[j].name);

        if (!tests[j].needs_threads || strcmp (backends[i], "threads") == 0)
          g_test_add (path, StorageRig, backends[i], set_up, tests[j].func, tear_down);
      }
  return g_test_run ();
}
