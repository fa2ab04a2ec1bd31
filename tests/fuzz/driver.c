/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a fuzz target over the files of its corpus: as an ordinary test, and to
 * replay what a fuzzer found. */

#include <stdint.h>

#include <glib.h>

int LLVMFuzzerTestOneInput (const uint8_t *data,
                            size_t         size);

static gboolean
run_file (const char *path)
{
  g_autofree char *bytes = NULL;
  g_autoptr(GError) error = NULL;
  gsize length;

  if (!g_file_get_contents (path, &bytes, &length, &error))
    {
      g_printerr ("%s\n", error->message);
      return FALSE;
    }
  LLVMFuzzerTestOneInput ((const uint8_t *) bytes, length);
  return TRUE;
}

static int
compare_names (gconstpointer a,
               gconstpointer b)
{
  return g_strcmp0 (*(const char *const *) a, *(const char *const *) b);
}

int
main (int    argc,
      char **argv)
{
  guint n_files = 0;

  for (int i = 1; i < argc; i++)
    {
      g_autoptr(GDir) folder = g_dir_open (argv[i], 0, NULL);
      g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
      const char *name;

      if (folder == NULL)
        {
          if (!run_file (argv[i]))
            return 1;
          n_files++;
          continue;
        }
      while ((name = g_dir_read_name (folder)) != NULL)
        g_ptr_array_add (names, g_build_filename (argv[i], name, NULL));
      g_ptr_array_sort (names, compare_names);
      for (guint j = 0; j < names->len; j++)
        if (!run_file (g_ptr_array_index (names, j)))
          return 1;
      n_files += names->len;
    }

  g_print ("%u files\n", n_files);
  return n_files > 0 ? 0 : 1;
}
