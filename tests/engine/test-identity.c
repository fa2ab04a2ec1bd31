/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two model files with the same header and other weights: what contexts remember of the one is
 * never used with the other. The answers are those of a service that keeps nothing on storage, and so
 * computes all from the text. */

#include "engine-rig.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/llm-weight-record.h"
#include "model/llm-model.h"
#include "support/llm-test-folder.h"

#define DEMO "llmsvc-demo-8M-Q8_0.gguf"
/* Of one block of a tensor in Q8_0: its scale, then 32 weights. */
#define BLOCK_BYTES 34

/* Hot, so that numbers that are a little wrong give another word soon. */
#define LONG \
  "{'temperature': <1.5>, 'top-k': <uint32 0>, 'top-p': <1.0>, 'min-p': <0.0>, " \
  "'seed': <uint64 5>, 'max-tokens': <uint32 40>}"

static const char *const questions[] = {
  "I want a restaurant in San Jose, with a table outside for four people at seven.",
  "Italian food, please, and not too expensive.",
  "What is their address, and do they have live music in the evening?",
};

typedef struct
{
  Fixture parent;
  char *folder;
  char *models;          /* below it: what the service finds */
  char *path;            /* a model there */
  char *other;           /* one beside it, at times */
  const char *in_use;    /* (unowned): of both */
  gboolean waits;        /* until all of a model was read, before and after it changed */
  guint64 n_restored;    /* by the last conversation's second answer */
  guint64 n_restored_later; /* by its third one, which comes when all was read */
} Rig;

static int n_warnings;     /* atomic: that a model has other weights */

/* --- model files --- */

static GBytes *
read_demo (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"), DEMO, NULL);
  g_autoptr(GError) error = NULL;
  char *data;
  gsize length;

  g_file_get_contents (path, &data, &length, &error);
  g_assert_no_error (error);
  return g_bytes_new_take (data, length);
}

static void
write_file (const char *path,
            GBytes     *bytes)
{
  g_autoptr(GError) error = NULL;
  gsize length;
  const char *data = g_bytes_get_data (bytes, &length);

  g_file_set_contents (path, data, (gssize) length, &error);
  g_assert_no_error (error);
}

/* Whether it is a matrix of the layers. */
static gboolean
is_matrix (const LlmGgufTensor *tensor)
{
  return tensor->type == LLK_Q8_0 && g_str_has_prefix (tensor->name, "blk.");
}

/* Some blocks of each matrix with the other sign. */
static GBytes *
change_many (GBytes *model)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (model, "model", NULL);
  gsize length;
  guint8 *bytes = g_bytes_unref_to_data (g_bytes_ref (model), &length);

  g_assert_nonnull (gguf);
  for (guint i = 0; i < gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);

      for (guint64 at = 0; is_matrix (tensor) && at < tensor->bytes; at += 16 * BLOCK_BYTES)
        bytes[tensor->offset + at + 1] ^= 0x80;
    }
  return g_bytes_new_take (bytes, length);
}

static guint64
get_sample (GBytes *model)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (model, "model", NULL);

  return llm_gguf_get_weights_hash (gguf);
}

/* The scale of one block much larger, where no sample sees it. */
static GBytes *
change_one (GBytes *model)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (model, "model", NULL);
  const LlmGgufTensor *tensor = llm_gguf_find_tensor (gguf, "blk.0.ffn_down.weight");

  g_assert_nonnull (tensor);
  for (guint64 at = 0; at + BLOCK_BYTES <= tensor->bytes; at += 64 * BLOCK_BYTES)
    {
      gsize length;
      guint8 *bytes = g_bytes_unref_to_data (g_bytes_ref (model), &length);
      g_autoptr(GBytes) changed = NULL;

      bytes[tensor->offset + at + 1] = 0x44;
      changed = g_bytes_new_take (bytes, length);
      if (get_sample (changed) == get_sample (model))
        return g_steal_pointer (&changed);
    }
  g_assert_not_reached ();
}

/* --- conversations --- */

static void
start (Rig        *self,
       const char *disk)
{
  LlmSettings *settings = new_settings (self->parent.state, 2);

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { self->models, NULL });
  settings->cache_folder = g_build_filename (self->folder, "cache", NULL);
  settings->context_ratio = 0;
  g_free (settings->disk);
  settings->disk = g_strdup (disk);
  self->parent.engine = start_engine_with (settings);
}

static void
select_model (Rig        *self,
              const char *id)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  llm_engine_select_model_async (self->parent.engine, id, on_result, &result);
  WAIT_FOR (result != NULL);
  g_task_propagate_boolean (G_TASK (result), &error);
  g_assert_no_error (error);
}

static char *
ask_again (Rig   *self,
           guint  question)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = open_context (&self->parent, "notes", "{'create': <true>}",
                                                &error);

  g_assert_no_error (error);
  return ask (&self->parent, context, questions[question], LONG);
}

/* Until the service has read all of the model it runs, while it has nothing else to do. */
static void
await_checksum (Rig *self)
{
  g_autofree char *path = g_build_filename (self->parent.state, "chunks", "weights.ini", NULL);
  gboolean is_known = FALSE;

  while (!is_known)
    {
      g_autoptr(GKeyFile) file = g_key_file_new ();
      g_autofree char *found = NULL;
      struct stat status;

      g_assert_cmpint (g_stat (self->in_use, &status), ==, 0);
      if (g_key_file_load_from_file (file, path, G_KEY_FILE_NONE, NULL))
        {
          g_auto(GStrv) groups = g_key_file_get_groups (file, NULL);

          g_assert_cmpuint (g_strv_length (groups), ==, 1);
          found = g_key_file_get_string (file, groups[0], "checksum", NULL);
          is_known = found != NULL
                     && g_key_file_get_uint64 (file, groups[0], "inode", NULL) == status.st_ino
                     && g_key_file_get_int64 (file, groups[0], "changed-ns", NULL)
                          == status.st_ctim.tv_nsec;
        }
      g_main_context_iteration (NULL, FALSE);
      g_usleep (10000);
    }
}

/* What comes between two questions. */
typedef enum
{
  LIVE,      /* another model is chosen */
  REPLACED,  /* the model's file is replaced, and the same one chosen again */
  RESTART,   /* it is replaced while the service does not run */
  CHANGED,   /* it is written over in place while the service does not run */
  N_WAYS,
} Way;

static void
overwrite (const char *path,
           GBytes     *bytes)
{
  FILE *file = g_fopen (path, "r+e");
  gsize length;
  const char *data = g_bytes_get_data (bytes, &length);

  g_assert_nonnull (file);
  g_assert_cmpuint (fwrite (data, 1, length, file), ==, length);
  g_assert_cmpint (fclose (file), ==, 0);
}

/* Another model takes the place of the one in use. */
static void
change_model (Rig        *self,
              Way         way,
              GBytes     *after,
              const char *disk)
{
  if (way == RESTART || way == CHANGED)
    stop_engine (&self->parent.engine);
  if (way == CHANGED)
    overwrite (self->path, after);
  else if (way != LIVE)
    write_file (self->path, after);
  if (way == RESTART || way == CHANGED)
    start (self, disk);
  else
    select_model (self, way == LIVE ? "other" : "model");
  self->in_use = way == LIVE ? self->other : self->path;
}

/* The second and the third answer of a conversation, after whose first one model takes the place of
 * the other. */
static char *
converse (Rig        *self,
          Way         way,
          GBytes     *before,
          GBytes     *after,
          const char *disk)
{
  gboolean waits = self->waits && !g_str_equal (disk, "off");
  g_autofree char *second = NULL;
  g_autofree char *third = NULL;

  self->parent.state = llm_test_folder_new ();
  self->in_use = self->path;
  write_file (self->path, before);
  if (way == LIVE)
    write_file (self->other, after);
  start (self, disk);
  select_model (self, "model");
  g_free (ask_again (self, 0));
  if (waits)
    await_checksum (self);

  change_model (self, way, after, disk);
  second = ask_again (self, 1);
  self->n_restored = get_statistic (self->parent.engine, "kv-restored-chunks");
  if (waits)
    await_checksum (self);
  third = ask_again (self, 2);
  self->n_restored_later = get_statistic (self->parent.engine, "kv-restored-chunks") - self->n_restored;

  stop_engine (&self->parent.engine);
  g_remove (self->other);
  llm_test_folder_remove (self->parent.state);
  g_clear_pointer (&self->parent.state, g_free);
  return g_strdup_printf ("%s\n%s", second, third);
}

static void
set_up_rig (Rig          *self,
            gconstpointer data)
{
  self->folder = llm_test_folder_new ();
  self->models = g_build_filename (self->folder, "models", NULL);
  self->path = g_build_filename (self->models, "model.gguf", NULL);
  self->other = g_build_filename (self->models, "other.gguf", NULL);
  g_assert_cmpint (g_mkdir (self->models, 0700), ==, 0);
  self->parent.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static void
tear_down_rig (Rig          *self,
               gconstpointer data)
{
  llm_caller_unref (self->parent.caller);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self->models);
  g_free (self->path);
  g_free (self->other);
}

/* --- tests --- */

static void
test_other_weights (Rig          *self,
                    gconstpointer data)
{
  Way way = GPOINTER_TO_UINT (data);
  g_autoptr(GBytes) before = read_demo ();
  g_autoptr(GBytes) after = change_many (before);
  g_autofree char *expected = converse (self, way, before, after, "off");
  g_autofree char *answer = converse (self, way, before, after, "auto");

  g_test_message ("%" G_GUINT64_FORMAT " chunks restored", self->n_restored);
  g_assert_cmpstr (answer, ==, expected);
  g_assert_cmpuint (self->n_restored, ==, 0);
  g_assert_cmpint (g_atomic_int_get (&n_warnings), ==, 0);
}

/* A sample of the weights does not show it. What was computed with the first file is not used while
 * it is not known whether the second one is the same, and not when it is known that it is not. */
static void
test_one_byte (Rig          *self,
               gconstpointer data)
{
  Way way = GPOINTER_TO_UINT (data);
  g_autoptr(GBytes) before = read_demo ();
  g_autoptr(GBytes) after = change_one (before);
  g_autofree char *expected = converse (self, way, before, after, "off");

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *answers = NULL;

      self->waits = i > 0;
      n_warnings = 0;
      answers = converse (self, way, before, after, "auto");
      g_test_message ("%" G_GUINT64_FORMAT " chunks restored", self->n_restored);
      g_assert_cmpstr (answers, ==, expected);
      g_assert_cmpuint (self->n_restored, ==, 0);
      g_assert_cmpuint (self->n_restored_later, ==, 0);
      g_assert_cmpint (g_atomic_int_get (&n_warnings), ==, i);
    }
}

/* The same model as another file: what was kept of contexts is used again, once that is known. */
static void
test_same_weights (Rig          *self,
                   gconstpointer data)
{
  Way way = GPOINTER_TO_UINT (data);
  g_autoptr(GBytes) model = read_demo ();
  g_autofree char *expected = converse (self, way, model, model, "off");
  g_autofree char *answers = NULL;

  self->waits = TRUE;
  answers = converse (self, way, model, model, "auto");
  g_assert_cmpstr (answers, ==, expected);
  g_assert_cmpuint (self->n_restored, ==, 0);
  g_assert_cmpuint (self->n_restored_later, >=, 3);
}

/* What lies in the folders is not trusted: what is no record of ours is none. */
static void
test_records (Rig          *self,
              gconstpointer data)
{
  static const char *const damages[] = {
    "", "[", "lineage", "\n\n\n", "\xff\xfe\x00", "[0123456789abcdef]\n", "[1-2]\nchecksum=1\n",
  };
  static const struct
  {
    const char *from;
    const char *to;
  } changes[] = {
    { "lineage=7", "lineage=0" },
    { "size=3", "size=x" },
    { "inode=2", "inod=2" },
    { "checksum=0", "checksum=Z" },
    { "checksum=0", "checksum=" },
    { "checksum=0", "checksum=00" },
  };
  const char *weights = "0123456789abcdef";
  const char *digits = "0123456789abcdef0123456789abcdef";
  const LlmFileIdentity file = { .device = 1, .inode = 2, .size = 3, .modified_s = -4,
                                 .modified_ns = 5, .changed_s = 6, .changed_ns = 7 };
  LlmFileIdentity other = file;
  LlmWeightRecord record = { .lineage = 7, .file = file };
  LlmWeightRecord found;
  g_autofree char *records = g_build_filename (self->folder, "weights.ini", NULL);
  g_autofree char *checksums = g_build_filename (self->folder, "checksums.ini", NULL);
  g_autofree char *good = NULL;
  g_autofree char *long_one = g_strnfill (100000, '\n');
  char sum[LLM_FILE_SUM_DIGITS + 1];

  g_assert_false (llm_weight_record_load (self->folder, weights, &found));
  g_assert_true (llm_weight_record_save (self->folder, weights, &record, NULL));
  g_assert_true (llm_weight_record_load (self->folder, weights, &found));
  g_assert_cmpstr (found.checksum, ==, "");
  g_strlcpy (record.checksum, digits, sizeof record.checksum);
  g_assert_true (llm_weight_record_save (self->folder, weights, &record, NULL));
  g_assert_true (llm_weight_record_load (self->folder, weights, &found));
  g_assert_cmpuint (found.lineage, ==, 7);
  g_assert_cmpstr (found.checksum, ==, digits);
  g_assert_true (llm_file_identity_equal (&found.file, &file, TRUE));
  g_assert_false (llm_weight_record_load (self->folder, "fedcba9876543210", &found));

  g_assert_false (llm_checksum_load (NULL, &file, sum));
  g_assert_false (llm_checksum_load (self->folder, &file, sum));
  g_assert_true (llm_checksum_save (self->folder, FALSE, &file, digits, NULL));
  g_assert_true (llm_checksum_load (self->folder, &file, sum));
  g_assert_cmpstr (sum, ==, digits);
  other.changed_ns++;
  g_assert_false (llm_checksum_load (self->folder, &other, sum));

  /* the last ones are remembered */
  for (guint i = 0; i < 100; i++)
    {
      other.inode = 100 + i;
      g_assert_true (llm_checksum_save (self->folder, FALSE, &other, digits, NULL));
    }
  g_assert_true (llm_checksum_load (self->folder, &other, sum));
  g_assert_false (llm_checksum_load (self->folder, &file, sum));

  g_assert_true (g_file_get_contents (records, &good, NULL, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      g_autoptr(GString) bad = g_string_new (good);

      g_assert_cmpuint (g_string_replace (bad, changes[i].from, changes[i].to, 1), ==, 1);
      g_assert_true (g_file_set_contents (records, bad->str, -1, NULL));
      g_assert_false (llm_weight_record_load (self->folder, weights, &found));
    }
  for (guint i = 0; i <= G_N_ELEMENTS (damages); i++)
    {
      const char *damage = i < G_N_ELEMENTS (damages) ? damages[i] : long_one;

      g_assert_true (g_file_set_contents (records, damage, -1, NULL));
      g_assert_true (g_file_set_contents (checksums, damage, -1, NULL));
      g_assert_false (llm_weight_record_load (self->folder, weights, &found));
      g_assert_false (llm_checksum_load (self->folder, &other, sum));
      g_assert_true (llm_checksum_save (self->folder, FALSE, &other, digits, NULL));
      g_assert_true (llm_checksum_load (self->folder, &other, sum));
    }
}

static GLogWriterOutput
count_warnings (GLogLevelFlags   level,
                const GLogField *fields,
                gsize            n_fields,
                gpointer         data)
{
  for (gsize i = 0; i < n_fields; i++)
    if (g_str_equal (fields[i].key, "MESSAGE") && (level & G_LOG_LEVEL_WARNING) != 0
        && strstr (fields[i].value, "has other weights") != NULL)
      {
        g_atomic_int_inc (&n_warnings);
        return G_LOG_WRITER_HANDLED;
      }
  if ((level & G_LOG_LEVEL_WARNING) != 0)
    abort ();
  return g_log_writer_default (level, fields, n_fields, data);
}

static void
add (const char  *name,
     void       (*test) (Rig *, gconstpointer))
{
  static const char *const ways[N_WAYS] = { "live", "replaced", "restart", "changed" };

  for (guint i = 0; i < N_WAYS; i++)
    {
      g_autofree char *path = g_strdup_printf ("/engine/identity/%s/%s", name, ways[i]);

      g_test_add (path, Rig, GUINT_TO_POINTER (i), set_up_rig, test, tear_down_rig);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  /* one warning is what some of them wait for; others end the test in count_warnings() */
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL);
  g_log_set_writer_func (count_warnings, NULL, NULL);
  add ("other-weights", test_other_weights);
  add ("one-byte", test_one_byte);
  add ("same-weights", test_same_weights);
  g_test_add ("/engine/identity/records", Rig, NULL, set_up_rig, test_records, tear_down_rig);
  return g_test_run ();
}
