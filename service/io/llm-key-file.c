/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-key-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "io/llm-cache-folder.h"

/* More than any of our files for a machine has. */
#define MACHINE_BYTES 8192
#define GROUP_FOR "for"

GKeyFile *
llm_key_file_read (const char *path,
                   gsize       max_bytes)
{
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autofree char *text = g_malloc (max_bytes + 1);
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  gssize n;

  if (fd < 0)
    return NULL;
  n = read (fd, text, max_bytes + 1);
  close (fd);
  if (n <= 0 || (gsize) n > max_bytes ||
      !g_key_file_load_from_data (file, text, (gsize) n, G_KEY_FILE_NONE, NULL))
    return NULL;
  return g_steal_pointer (&file);
}

gboolean
llm_key_file_write (GKeyFile    *file,
                    const char  *folder,
                    const char  *name,
                    gboolean     is_shared,
                    gboolean     waits,
                    GError     **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *part = NULL;
  g_autofree char *text = NULL;
  gboolean is_written;
  gsize length;
  int saved_errno;
  int fd;

  text = g_key_file_to_data (file, &length, NULL);
  if (!llm_cache_folder_make (folder, is_shared, error))
    return FALSE;
  fd = llm_cache_folder_create (folder, is_shared, length, &part, error);
  if (fd < 0)
    return FALSE;

  is_written = llm_cache_folder_write (fd, text, length, 0) && (!waits || fsync (fd) == 0)
               && rename (part, path) == 0;
  saved_errno = errno;
  close (fd);
  if (!is_written)
    {
      unlink (part);
      llm_cache_folder_fail_write (path, saved_errno, error);
    }
  return is_written;
}

/* --- of one machine --- */

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

/* A hash: the machine's own number stays private. */
static char *
get_machine (void)
{
  g_autofree char *id = read_line ("/etc/machine-id", "");
  g_autofree char *processor = read_line ("/proc/cpuinfo", "model name");
  g_autofree char *text = g_strdup_printf ("llmsvc profile %s %s %u", id, processor,
                                           g_get_num_processors ());

  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);
}

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

/* Whether filling it in changes nothing. */
static gboolean
is_for (GKeyFile            *file,
        guint                version,
        const LlmProfileKey *key)
{
  g_autofree char *before = g_key_file_to_data (file, NULL, NULL);
  g_autofree char *after = NULL;

  fill_in (file, version, key);
  after = g_key_file_to_data (file, NULL, NULL);
  return g_str_equal (before, after);
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
  g_autoptr(GKeyFile) file = path != NULL ? llm_key_file_read (path, MACHINE_BYTES) : NULL;

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
