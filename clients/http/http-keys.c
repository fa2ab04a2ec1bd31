/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc-http"

#include "http-keys.h"

#include <string.h>
#include <sys/stat.h>

struct _HttpKeys
{
  char *path;
  GKeyFile *file;       /* (nullable) */
  struct timespec changed;
  gint64 bytes;
};

HttpKeys *
http_keys_new (const char *path)
{
  HttpKeys *self = g_new0 (HttpKeys, 1);

  self->path = g_strdup (path);
  return self;
}

void
http_keys_free (HttpKeys *self)
{
  g_clear_pointer (&self->file, g_key_file_unref);
  g_free (self->path);
  g_free (self);
}

static void
look (HttpKeys *self)
{
  g_autoptr(GError) error = NULL;
  struct stat status;

  if (stat (self->path, &status) != 0)
    {
      g_clear_pointer (&self->file, g_key_file_unref);
      return;
    }
  if (self->file != NULL && status.st_mtim.tv_sec == self->changed.tv_sec
      && status.st_mtim.tv_nsec == self->changed.tv_nsec && status.st_size == self->bytes)
    return;
  g_clear_pointer (&self->file, g_key_file_unref);
  self->file = g_key_file_new ();
  self->changed = status.st_mtim;
  self->bytes = status.st_size;
  if (!g_key_file_load_from_file (self->file, self->path, G_KEY_FILE_NONE, &error))
    g_warning ("Keys can't be read from “%s”: %s", self->path, error->message);
}

/* In a time that does not tell how much of it is right. */
static gboolean
is_same (const char *a,
         const char *b)
{
  gsize length = strlen (a);
  guchar differs = 0;

  if (strlen (b) != length)
    return FALSE;
  for (gsize i = 0; i < length; i++)
    differs |= (guchar) (a[i] ^ b[i]);
  return differs == 0;
}

char *
http_keys_find (HttpKeys   *self,
                const char *key,
                guint32    *uid)
{
  g_autofree char *hash = g_compute_checksum_for_string (G_CHECKSUM_SHA256, key, -1);
  g_auto(GStrv) names = NULL;

  look (self);
  if (self->file == NULL)
    return NULL;
  names = g_key_file_get_groups (self->file, NULL);
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree char *found = g_key_file_get_string (self->file, names[i], "hash", NULL);
      g_autoptr(GError) error = NULL;
      guint64 user = g_key_file_get_uint64 (self->file, names[i], "user", &error);

      if (found == NULL || error != NULL || user >= G_MAXUINT32 || !is_same (found, hash))
        continue;
      *uid = (guint32) user;
      return g_strdup (names[i]);
    }
  return NULL;
}
