/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-weight-record.h"

#include <string.h>

#include "io/llm-key-file.h"

#define CHECKSUMS "checksums.ini"
#define RECORDS "weights.ini"
/* Files to remember, the latest ones; the checksum of a forgotten one is computed again. */
#define MAX_GROUPS 64
/* An upper bound of their size. */
#define MAX_BYTES (32 * 1024)

/* --- values --- */

static gboolean
get_uint64 (GKeyFile   *file,
            const char *group,
            const char *key,
            guint64    *value)
{
  g_autoptr(GError) error = NULL;

  *value = g_key_file_get_uint64 (file, group, key, &error);
  return error == NULL;
}

/* The numbers that LlmFileIdentity begins with, in their order. */
static const char *const numbers[] = { "device",      "inode",     "size",      "modified-s",
                                       "modified-ns", "changed-s", "changed-ns" };

G_STATIC_ASSERT (G_STRUCT_OFFSET (LlmFileIdentity, changed_ns) / sizeof (guint64) + 1
                 == G_N_ELEMENTS (numbers));

/* Negative numbers keep their sign. */
static gboolean
get_file (GKeyFile        *file,
          const char      *group,
          LlmFileIdentity *identity)
{
  memset (identity, 0, sizeof *identity);
  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (!get_uint64 (file, group, numbers[i], (guint64 *) identity + i))
      return FALSE;
  return TRUE;
}

static void
set_file (GKeyFile              *file,
          const char            *group,
          const LlmFileIdentity *identity)
{
  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    g_key_file_set_int64 (file, group, numbers[i], ((const gint64 *) identity)[i]);
}

/* @is_optional: none gives "". */
static gboolean
get_digits (GKeyFile   *file,
            const char *group,
            gboolean    is_optional,
            char       *digits)
{
  g_autofree char *text = g_key_file_get_string (file, group, "checksum", NULL);

  digits[0] = '\0';
  if (text == NULL)
    return is_optional;
  if (strlen (text) != LLM_FILE_SUM_DIGITS
      || strspn (text, "0123456789abcdef") != LLM_FILE_SUM_DIGITS)
    return FALSE;
  memcpy (digits, text, LLM_FILE_SUM_DIGITS + 1);
  return TRUE;
}

/* --- files --- */

/* (transfer full) (nullable) */
static GKeyFile *
read_file (const char *folder,
           const char *name)
{
  g_autofree char *path = folder != NULL ? g_build_filename (folder, name, NULL) : NULL;

  return path != NULL ? llm_key_file_read (path, MAX_BYTES) : NULL;
}

/* (transfer full): with room for one group, which is not there and will be the last. */
static GKeyFile *
read_others (const char *folder,
             const char *name,
             const char *group)
{
  GKeyFile *file = read_file (folder, name);
  g_auto(GStrv) groups = NULL;
  gsize n;

  if (file == NULL)
    return g_key_file_new ();
  g_key_file_remove_group (file, group, NULL);
  groups = g_key_file_get_groups (file, &n);
  for (gsize i = 0; i + MAX_GROUPS <= n; i++)
    g_key_file_remove_group (file, groups[i], NULL);
  return file;
}

/* --- checksums --- */

/* One for each inode, which has one content at a time. */
static char *
get_group (const LlmFileIdentity *file)
{
  return g_strdup_printf ("%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x", file->device,
                          file->inode);
}

gboolean
llm_checksum_load (const char            *folder,
                   const LlmFileIdentity *file,
                   char                  *digits)
{
  g_autoptr(GKeyFile) values = read_file (folder, CHECKSUMS);
  g_autofree char *group = get_group (file);
  LlmFileIdentity found;

  return values != NULL && get_file (values, group, &found)
         && llm_file_identity_equal (&found, file, TRUE)
         && get_digits (values, group, FALSE, digits);
}

gboolean
llm_checksum_save (const char            *folder,
                   gboolean               is_shared,
                   const LlmFileIdentity *file,
                   const char            *digits,
                   GError               **error)
{
  g_autofree char *group = get_group (file);
  g_autoptr(GKeyFile) values = read_others (folder, CHECKSUMS, group);

  set_file (values, group, file);
  g_key_file_set_string (values, group, "checksum", digits);
  return llm_key_file_write (values, folder, CHECKSUMS, is_shared, FALSE, error);
}

/* --- what chunks were computed from --- */

gboolean
llm_weight_record_load (const char      *folder,
                        const char      *weights,
                        LlmWeightRecord *record)
{
  g_autoptr(GKeyFile) values = read_file (folder, RECORDS);

  return values != NULL && get_file (values, weights, &record->file)
         && get_uint64 (values, weights, "lineage", &record->lineage) && record->lineage != 0
         && get_digits (values, weights, TRUE, record->checksum);
}

/* Does not wait for the disk: without the record, chunks are only computed again. */
gboolean
llm_weight_record_save (const char            *folder,
                        const char            *weights,
                        const LlmWeightRecord *record,
                        GError               **error)
{
  g_autoptr(GKeyFile) values = read_others (folder, RECORDS, weights);

  set_file (values, weights, &record->file);
  g_key_file_set_uint64 (values, weights, "lineage", record->lineage);
  if (record->checksum[0] != '\0')
    g_key_file_set_string (values, weights, "checksum", record->checksum);
  return llm_key_file_write (values, folder, RECORDS, FALSE, FALSE, error);
}
