/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Models in several files: any of them opens the whole, and what is wrong with a set is named. */

#include <glib/gstdio.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "gguf/llm-gguf.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

#define N_PARTS 3
#define N_VALUES 3000    /* more than a page */

static char *folder;

static char *
get_path (guint part)
{
  g_autofree char *name = g_strdup_printf ("m-%05u-of-%05u.gguf", part + 1, N_PARTS);

  return g_build_filename (folder, name, NULL);
}

/* What may be wrong with a set. */
typedef struct
{
  guint part;
  const char *tensor;    /* (nullable): its name in that part */
  gint number;           /* of that part in the file, if not -1 */
  guint count;           /* of parts in that file, if not 0 */
  guint n_tensors;       /* in the first part, if not 0 */
  float first;           /* value of its tensor */
} Change;

static void
write_part (guint         part,
            const Change *change)
{
  static const char *const names[N_PARTS] = { "a", "b", "c" };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autofree float *values = g_new0 (float, N_VALUES);
  g_autofree char *path = get_path (part);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) error = NULL;
  const guint64 dims[] = { N_VALUES };
  gboolean is_changed = change != NULL && change->part == part;
  const char *name = is_changed && change->tensor != NULL ? change->tensor : names[part];

  for (guint i = 0; i < N_VALUES; i++)
    values[i] = (float) (part * N_VALUES + i);
  if (is_changed && change->first != 0)
    values[0] = change->first;
  if (part == 0)
    {
      llm_test_gguf_add_string (built, "general.name", "in parts");
      llm_test_gguf_add_int (built, "split.tensors.count", LLM_GGUF_INT32,
                             change != NULL && change->n_tensors != 0 ? change->n_tensors
                                                                      : N_PARTS);
    }
  llm_test_gguf_add_int (built, "split.no", LLM_GGUF_UINT16,
                         is_changed && change->number >= 0 ? change->number : (gint) part);
  llm_test_gguf_add_int (built, "split.count", LLM_GGUF_UINT16,
                         is_changed && change->count != 0 ? change->count : N_PARTS);
  llm_test_gguf_add_tensor (built, name, LLK_F32, 1, dims, values);
  bytes = llm_test_gguf_end (built);
  g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes),
                       &error);
  g_assert_no_error (error);
}

static void
write_all (const Change *change)
{
  for (guint part = 0; part < N_PARTS; part++)
    write_part (part, change);
}

static LlmGguf *
open_part (guint part)
{
  g_autofree char *path = get_path (part);
  g_autoptr(GError) error = NULL;
  LlmGguf *gguf = llm_gguf_open (path, &error);

  g_assert_no_error (error);
  return gguf;
}

static void
test_whole (void)
{
  g_autofree char *first = get_path (0);

  write_all (NULL);
  for (guint part = 0; part < N_PARTS; part++)
    {
      g_autoptr(LlmGguf) gguf = open_part (part);
      LlmFileIdentity identity, one;
      guint64 offset;

      g_assert_cmpstr (gguf->path, ==, first);
      g_assert_true (llm_gguf_has (gguf, "general.name"));
      g_assert_cmpuint (gguf->tensors->len, ==, N_PARTS);
      for (guint i = 0; i < N_PARTS; i++)
        {
          const char name[] = { (char) ('a' + i), '\0' };
          const LlmGgufTensor *tensor = llm_gguf_find_tensor (gguf, name);
          const float *values;

          g_assert_nonnull (tensor);
          values = (const float *) (gconstpointer) (llm_file_map_get_data (gguf->map)
                                                    + tensor->offset);
          for (guint j = 0; j < N_VALUES; j++)
            g_assert_cmpfloat (values[j], ==, i * N_VALUES + j);
        }
      g_assert_true (llm_file_map_get_identity (gguf->map, &identity));
      g_assert_cmpint (llm_file_map_get_part (gguf->map, 2, &offset, &one), >=, 0);
      g_assert_cmpint (llm_file_map_get_part (gguf->map, 3, &offset, &one), ==, -1);
      g_assert_cmpuint (identity.size, >, 2 * one.size);
      g_assert_false (llm_file_map_is_damaged (gguf->map));
      /* memory that is given back comes again from the right file */
      llm_file_map_drop (gguf->map, 0, llm_file_map_get_size (gguf->map));
      g_assert_cmpfloat (*(const float *) (gconstpointer) (
                           llm_file_map_get_data (gguf->map)
                           + llm_gguf_find_tensor (gguf, "c")->offset), ==, 2 * N_VALUES);
    }
}

/* A change of any part is noticed, and other weights have another hash. */
static void
test_changes (void)
{
  for (guint part = 0; part < N_PARTS; part++)
    {
      const Change change = { .part = part, .number = -1, .first = 42 };
      g_autoptr(LlmGguf) gguf = NULL;
      g_autoptr(LlmGguf) other = NULL;
      g_autofree char *path = get_path (part);
      FILE *file;

      write_all (NULL);
      gguf = open_part (0);
      g_assert_cmpuint (llm_gguf_get_weights_hash (gguf), !=, 0);
      write_all (&change);
      other = open_part (0);
      g_assert_cmpuint (gguf->header_hash, ==, other->header_hash);
      g_assert_cmpuint (llm_gguf_get_weights_hash (gguf), !=, llm_gguf_get_weights_hash (other));

      file = g_fopen (path, "r+");
      g_assert_nonnull (file);
      g_assert_cmpint (fseek (file, -4, SEEK_END), ==, 0);
      g_assert_cmpint (fputc (1, file), ==, 1);
      g_assert_cmpint (fclose (file), ==, 0);
      g_assert_true (llm_file_map_is_damaged (other->map));
    }
}

typedef struct
{
  const char *name;
  Change change;
  const char *found;    /* in the message */
} Wrong;

static const Wrong wrongs[] = {
  { "twice", { 1, "a", -1 }, "tensor “a” is in a part before" },
  { "number", { 1, NULL, 2 }, "it is part 3 of 3, but has the name of part 2 of 3" },
  { "count", { 2, NULL, -1, 4 }, "it is part 3 of 4, but has the name of part 3 of 3" },
  { "tensors", { 0, NULL, -1, 0, 4 }, "all parts together have 3 tensors" },
  { "name", { 0, NULL, 1 }, "its name has to end in -00002-of-00003.gguf" },
  { "many", { 0, NULL, -1, 9999 }, "up to 128 files" },
};

static void
check_refused (const char *found)
{
  g_autofree char *path = get_path (0);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);

  g_assert_null (gguf);
  g_assert_nonnull (error);
  g_test_message ("%s", error->message);
  g_assert_true (error->domain == LLMSVC_ERROR);
  g_assert_nonnull (strstr (error->message, found));
}

static void
test_wrong (gconstpointer data)
{
  const Wrong *wrong = data;

  write_all (&wrong->change);
  check_refused (wrong->found);
}

static void
test_missing (void)
{
  g_autofree char *second = get_path (1), *third = get_path (2);

  write_all (NULL);
  g_assert_cmpint (g_unlink (second), ==, 0);
  check_refused ("in 3 files, of which these are missing beside it: m-00002-of-00003.gguf");
  g_assert_cmpint (g_unlink (third), ==, 0);
  check_refused ("m-00002-of-00003.gguf, m-00003-of-00003.gguf");
  /* a download that has not ended */
  write_all (NULL);
  g_assert_cmpint (truncate (third, 5000), ==, 0);
  check_refused ("it is damaged or not complete");
}

int
main (int   argc,
      char *argv[])
{
  int status;

  g_test_init (&argc, &argv, NULL);
  folder = llm_test_folder_new ();
  g_test_add_func ("/gguf-parts/whole", test_whole);
  g_test_add_func ("/gguf-parts/changes", test_changes);
  g_test_add_func ("/gguf-parts/missing", test_missing);
  for (guint i = 0; i < G_N_ELEMENTS (wrongs); i++)
    {
      g_autofree char *path = g_strdup_printf ("/gguf-parts/wrong/%s", wrongs[i].name);

      g_test_add_data_func (path, &wrongs[i], test_wrong);
    }
  status = g_test_run ();
  llm_test_folder_remove (folder);
  return status;
}
