/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The checksum of a file, read through a disk queue. */

#include "io/llm-file-sum.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/llmsvc-error.h"
#include "support/llm-test-folder.h"

typedef struct
{
  char *folder;
  char *path;
  LlmDisk *disk;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  g_autoptr(GError) error = NULL;

  fixture->folder = llm_test_folder_new ();
  fixture->path = g_build_filename (fixture->folder, "file", NULL);
  fixture->disk = llm_disk_new ("threads", &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_disk_free (fixture->disk);
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->path);
}

/* A file of @length bytes, mapped. */
static LlmFileMap *
make_file (Fixture *fixture,
           gsize    length,
           char    *expected)
{
  g_autoptr(GError) error = NULL;
  g_autofree guint8 *bytes = g_malloc (length);
  XXH128_hash_t sum;
  LlmFileMap *map;

  for (gsize i = 0; i < length; i++)
    bytes[i] = (guint8) (i * 7 + i / 4096);
  sum = XXH3_128bits (bytes, length);
  g_snprintf (expected, LLM_FILE_SUM_DIGITS + 1,
              "%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", (guint64) sum.high64,
              (guint64) sum.low64);
  g_file_set_contents (fixture->path, (const char *) bytes, (gssize) length, &error);
  g_assert_no_error (error);
  map = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  return map;
}

/* One piece is read at a time. */
static void
check_sum (Fixture    *fixture,
           LlmFileMap *map,
           const char *expected)
{
  char found[LLM_FILE_SUM_DIGITS + 1];
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmFileSum) sum = llm_file_sum_new (fixture->disk, map, &error);
  LlmStatus status;

  g_assert_no_error (error);
  while ((status = llm_file_sum_work (sum, found, &error)) == LLM_PENDING)
    {
      g_assert_cmpuint (llm_disk_get_n_pending (fixture->disk, LLM_DISK_AHEAD), ==, 1);
      llm_disk_poll (fixture->disk, G_MAXINT64);
    }
  g_assert_no_error (error);
  g_assert_cmpint (status, ==, LLM_READY);
  g_assert_cmpstr (found, ==, expected);
}

static void
test_lengths (Fixture      *fixture,
              gconstpointer data)
{
  static const gsize lengths[] = {
    1, 4095, 4096, 4097, LLM_DISK_MAX_BYTES, LLM_DISK_MAX_BYTES + 1, 5 * LLM_DISK_MAX_BYTES + 12345,
  };

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      char expected[LLM_FILE_SUM_DIGITS + 1];
      g_autoptr(LlmFileMap) map = make_file (fixture, lengths[i], expected);

      check_sum (fixture, map, expected);
    }
}

/* Of several files it is that of all, one behind the other. */
static void
test_parts (Fixture      *fixture,
            gconstpointer data)
{
  static const gsize lengths[] = { 5000, LLM_DISK_MAX_BYTES + 1, 8192 };
  char expected[LLM_FILE_SUM_DIGITS + 1];
  g_autoptr(GByteArray) all = g_byte_array_new ();
  LlmFileMap *maps[G_N_ELEMENTS (lengths)];
  g_autoptr(LlmFileMap) joined = NULL;
  g_autoptr(GError) error = NULL;
  XXH128_hash_t hash;

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      char own[LLM_FILE_SUM_DIGITS + 1];

      fixture->path[strlen (fixture->path) - 1] = (char) ('0' + i);
      maps[i] = make_file (fixture, lengths[i], own);
      g_byte_array_append (all, llm_file_map_get_data (maps[i]), (guint) lengths[i]);
    }
  hash = XXH3_128bits (all->data, all->len);
  g_snprintf (expected, sizeof expected, "%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x",
              (guint64) hash.high64, (guint64) hash.low64);
  joined = llm_file_map_join (maps, G_N_ELEMENTS (lengths), &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    llm_file_map_unref (maps[i]);
  check_sum (fixture, joined, expected);
}

/* A file that changes, by its time at least, has no checksum; one that becomes shorter neither. */
static void
test_changed (Fixture      *fixture,
              gconstpointer data)
{
  for (guint i = 0; i < 2; i++)
    {
      char expected[LLM_FILE_SUM_DIGITS + 1], found[LLM_FILE_SUM_DIGITS + 1];
      g_autoptr(LlmFileMap) map = make_file (fixture, 3 * LLM_DISK_MAX_BYTES, expected);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmFileSum) sum = llm_file_sum_new (fixture->disk, map, &error);
      const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
      LlmStatus status;
      guint n = 0;

      while ((status = llm_file_sum_work (sum, found, &error)) == LLM_PENDING)
        {
          if (n == 0 && i == 0)
            g_assert_cmpint (utimensat (AT_FDCWD, fixture->path, times, 0), ==, 0);
          if (n == 0 && i == 1)
            g_assert_cmpint (truncate (fixture->path, 5000), ==, 0);
          n++;
          llm_disk_poll (fixture->disk, G_MAXINT64);
        }
      g_assert_cmpint (status, ==, LLM_FAILED);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
    }
}

/* It may end at any time; the disk still has what it was asked for. */
static void
test_ended (Fixture      *fixture,
            gconstpointer data)
{
  char expected[LLM_FILE_SUM_DIGITS + 1], found[LLM_FILE_SUM_DIGITS + 1];
  g_autoptr(LlmFileMap) map = make_file (fixture, 3 * LLM_DISK_MAX_BYTES, expected);

  for (guint n = 0; n < 3; n++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmFileSum) sum = llm_file_sum_new (fixture->disk, map, &error);

      g_assert_no_error (error);
      for (guint i = 0; i < n; i++)
        {
          llm_disk_poll (fixture->disk, G_MAXINT64);
          g_assert_cmpint (llm_file_sum_work (sum, found, &error), ==, LLM_PENDING);
        }
    }
  g_assert_cmpuint (llm_disk_get_n_pending (fixture->disk, LLM_DISK_AHEAD), >=, 1);
  while (llm_disk_get_n_pending (fixture->disk, LLM_DISK_AHEAD) > 0)
    llm_disk_poll (fixture->disk, G_MAXINT64);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/io/file-sum/lengths", Fixture, NULL, set_up, test_lengths, tear_down);
  g_test_add ("/io/file-sum/parts", Fixture, NULL, set_up, test_parts, tear_down);
  g_test_add ("/io/file-sum/changed", Fixture, NULL, set_up, test_changed, tear_down);
  g_test_add ("/io/file-sum/ended", Fixture, NULL, set_up, test_ended, tear_down);
  return g_test_run ();
}
