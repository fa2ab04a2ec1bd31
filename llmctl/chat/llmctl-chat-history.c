/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-chat-history.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A longer entry is not kept, and of a longer file the end is read. */
#define MAX_ENTRY_BYTES (64 * 1024)
#define MAX_FILE_BYTES  (4 * 1024 * 1024)
#define NAME            "chat-history"

char *
llmctl_chat_history_get_path (void)
{
  return g_build_filename (g_get_user_state_dir (), "llmsvc", NAME, NULL);
}

static char *
escape (const char *entry)
{
  GString *line = g_string_new (NULL);

  for (const char *p = entry; *p != '\0'; p++)
    if (*p == '\n')
      g_string_append (line, "\\n");
    else if (*p == '\\')
      g_string_append (line, "\\\\");
    else
      g_string_append_c (line, *p);
  g_string_append_c (line, '\n');

  return g_string_free (line, FALSE);
}

static char *
unescape (const char *line)
{
  GString *entry = g_string_new (NULL);

  for (const char *p = line; *p != '\0'; p++)
    {
      if (*p == '\\' && p[1] != '\0')
        {
          p++;
          g_string_append_c (entry, *p == 'n' ? '\n' : *p);
        }
      else
        {
          g_string_append_c (entry, *p);
        }
    }

  return g_string_free (entry, FALSE);
}

/* (transfer full) (nullable): the file's end. @is_cut: (out): whether it is not all. */
static char *
read_end (const char *path,
          gboolean   *is_cut)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  g_autofree char *text = NULL;
  struct stat status;
  gsize length = 0;
  gssize n = 1;

  if (fd < 0)
    return NULL;
  if (fstat (fd, &status) != 0 || !S_ISREG (status.st_mode))
    {
      close (fd);
      return NULL;
    }

  *is_cut = status.st_size > MAX_FILE_BYTES;
  if (*is_cut && lseek (fd, -MAX_FILE_BYTES, SEEK_END) < 0)
    n = 0;
  text = g_malloc (MAX_FILE_BYTES + 1);
  while (n > 0 && length < MAX_FILE_BYTES)
    {
      n = read (fd, text + length, MAX_FILE_BYTES - length);
      length += n > 0 ? (gsize) n : 0;
    }
  close (fd);

  text[length] = '\0';
  return g_steal_pointer (&text);
}

/* The file has grown past what is read of it: it is written anew with that. */
static void
rewrite (const char *path,
         GPtrArray  *entries)
{
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < entries->len; i++)
    {
      g_autofree char *line = escape (g_ptr_array_index (entries, i));

      g_string_append (text, line);
    }
  if (!g_file_set_contents_full (path, text->str, (gssize) text->len,
                                 G_FILE_SET_CONTENTS_CONSISTENT, 0600, &error))
    g_debug ("The history is not shortened: %s", error->message);
}

GPtrArray *
llmctl_chat_history_read (const char *path)
{
  GPtrArray *entries = g_ptr_array_new_with_free_func (g_free);
  gboolean is_cut = FALSE;
  g_autofree char *text = read_end (path, &is_cut);
  g_auto(GStrv) lines = NULL;

  if (text == NULL)
    return entries;

  lines = g_strsplit (text, "\n", -1);
  /* The first line of an end is half of one. */
  for (gsize i = is_cut ? 1 : 0; lines[0] != NULL && lines[i] != NULL; i++)
    if (*lines[i] != '\0' && g_utf8_validate (lines[i], -1, NULL))
      g_ptr_array_add (entries, unescape (lines[i]));

  if (is_cut || entries->len > 2 * LLMCTL_CHAT_HISTORY_MAX_ENTRIES)
    {
      if (entries->len > LLMCTL_CHAT_HISTORY_MAX_ENTRIES)
        g_ptr_array_remove_range (entries, 0, entries->len - LLMCTL_CHAT_HISTORY_MAX_ENTRIES);
      rewrite (path, entries);
    }
  else if (entries->len > LLMCTL_CHAT_HISTORY_MAX_ENTRIES)
    {
      g_ptr_array_remove_range (entries, 0, entries->len - LLMCTL_CHAT_HISTORY_MAX_ENTRIES);
    }
  return entries;
}

void
llmctl_chat_history_append (const char *path,
                            const char *entry)
{
  g_autofree char *line = NULL;
  g_autofree char *folder = g_path_get_dirname (path);
  int fd;

  if (strlen (entry) > MAX_ENTRY_BYTES || g_mkdir_with_parents (folder, 0700) != 0)
    return;
  fd = open (path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0)
    return;

  /* In one piece, so that chats side by side don't mix their lines. */
  line = escape (entry);
  if (fchmod (fd, 0600) != 0 || write (fd, line, strlen (line)) < 0)
    g_debug ("The history is not written");
  close (fd);
}
