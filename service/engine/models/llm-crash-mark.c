/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/models/llm-crash-mark.h"

#include <string.h>

#include <glib/gstdio.h>

#define FILE_NAME "loading"
/* Length of an id, limited by file names. */
#define MAX_BYTES 255

struct _LlmCrashMark
{
  char *path;      /* (nullable) (owned) */
  char *crashed;   /* (nullable) (owned): the model of an earlier process that crashed */
};

LlmCrashMark *
llm_crash_mark_new (const char *folder)
{
  LlmCrashMark *self = g_new0 (LlmCrashMark, 1);
  gsize length = 0;

  if (folder == NULL)
    return self;
  self->path = g_build_filename (folder, FILE_NAME, NULL);
  if (!g_file_get_contents (self->path, &self->crashed, &length, NULL))
    return self;
  if (length > MAX_BYTES || !g_utf8_validate (self->crashed, (gssize) length, NULL))
    g_clear_pointer (&self->crashed, g_free);
  else
    g_message ("The service did not end by itself the last time, with the model “%s”", self->crashed);
  return self;
}

static void
remove_file (LlmCrashMark *self)
{
  if (self->path != NULL && self->crashed == NULL)
    g_unlink (self->path);
}

void
llm_crash_mark_free (LlmCrashMark *self)
{
  if (self == NULL)
    return;
  g_free (self->path);
  g_free (self->crashed);
  g_free (self);
}

gboolean
llm_crash_mark_begin (LlmCrashMark *self,
                      const char   *id)
{
  gboolean has_crashed = g_strcmp0 (self->crashed, id) == 0;

  if (self->path != NULL && !has_crashed)
    {
      g_clear_pointer (&self->crashed, g_free);
      g_file_set_contents_full (self->path, id, (gssize) strlen (id), G_FILE_SET_CONTENTS_CONSISTENT,
                                0600, NULL);
    }
  return has_crashed;
}

void
llm_crash_mark_loaded (LlmCrashMark *self,
                       gboolean      is_held)
{
  g_clear_pointer (&self->crashed, g_free);
  if (!is_held)
    remove_file (self);
}

void
llm_crash_mark_ended (LlmCrashMark *self)
{
  remove_file (self);
}
