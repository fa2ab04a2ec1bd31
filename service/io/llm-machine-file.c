/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-machine-file.h"

#include <stdio.h>

#include "io/llm-key-file.h"

/* More than any file of ours has. */
#define MAX_BYTES 8192

#define GROUP_FOR "for"

/* --- the machine --- */

/* The first line of @path that begins with @prefix, "" without. */
static char *
read_line (const char *path,
           const char *prefix)
{
  char line[256];
  g_autofree char *found = NULL;
  FILE *file = fopen (path, "re");

  if (file == NULL)
    return g_strdup ("");
  while (found == NULL && fgets (line, sizeof line, file) != NULL)
    if (g_str_has_prefix (line, prefix))
      found = g_strdup (line);
  fclose (file);
  return found != NULL ? g_steal_pointer (&found) : g_strdup ("");
}

/* A hash: the machine's own number is nobody's business. */
static char *
get_machine (void)
{
  g_autofree char *id = read_line ("/etc/machine-id", "");
  g_autofree char *processor = read_line ("/proc/cpuinfo", "model name");
  g_autofree char *text = g_strdup_printf ("llmsvc profile %s %s %u", id, processor,
                                           g_get_num_processors ());

  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);
}

/* --- the file --- */

/* (nullable): NULL where no file may have such a name. */
static char *
get_name (const char          *prefix,
          const LlmProfileKey *key)
{
  if (key->identity[0] == '\0')
    return NULL;
  for (const char *c = key->identity; *c != '\0'; c++)
    if (!g_ascii_isalnum (*c))
      return NULL;
  return g_strdup_printf ("%s-%s.ini", prefix, key->identity);
}

static void
fill_in (GKeyFile            *file,
         guint                version,
         const LlmProfileKey *key)
{
  g_autofree char *machine = get_machine ();

  g_key_file_set_integer (file, GROUP_FOR, "version", (gint) version);
  g_key_file_set_string (file, GROUP_FOR, "machine", machine);
  g_key_file_set_string (file, GROUP_FOR, "model", key->identity);
  g_key_file_set_string (file, GROUP_FOR, "kernels", key->kernels);
  g_key_file_set_integer (file, GROUP_FOR, "threads", (gint) key->n_threads);
  g_key_file_set_integer (file, GROUP_FOR, "exact", key->is_exact ? 1 : 0);
}

static gboolean
is_for (GKeyFile            *file,
        guint                version,
        const LlmProfileKey *key)
{
  g_autoptr(GKeyFile) wanted = g_key_file_new ();
  g_auto(GStrv) names = NULL;
  gboolean is_same = TRUE;

  fill_in (wanted, version, key);
  names = g_key_file_get_keys (wanted, GROUP_FOR, NULL, NULL);
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree char *value = g_key_file_get_value (wanted, GROUP_FOR, names[i], NULL);
      g_autofree char *found = g_key_file_get_value (file, GROUP_FOR, names[i], NULL);

      is_same &= g_strcmp0 (value, found) == 0;
    }
  return is_same;
}

GKeyFile *
llm_machine_file_load (const char          *folder,
                       const char          *prefix,
                       guint                version,
                       const LlmProfileKey *key)
{
  g_autofree char *name = get_name (prefix, key);
  g_autofree char *path =
    folder != NULL && name != NULL ? g_build_filename (folder, name, NULL) : NULL;
  g_autoptr(GKeyFile) file = path != NULL ? llm_key_file_read (path, MAX_BYTES) : NULL;

  return file != NULL && is_for (file, version, key) ? g_steal_pointer (&file) : NULL;
}

gboolean
llm_machine_file_save (const char          *folder,
                       gboolean             is_shared,
                       const char          *prefix,
                       guint                version,
                       const LlmProfileKey *key,
                       GKeyFile            *file,
                       gboolean             waits,
                       GError             **error)
{
  g_autofree char *name = get_name (prefix, key);

  g_return_val_if_fail (name != NULL, FALSE);

  fill_in (file, version, key);
  return llm_key_file_write (file, folder, name, is_shared, waits, error);
}
