/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-top-rows.h"

#include <glib/gi18n.h>
#include <pwd.h>
#include <string.h>

#include "llmctl/bus/llmctl-service.h"

/* Of an unnamed context's random name, enough to tell it from others. */
#define SHOWN_ID 8

typedef struct
{
  char *name;
  char *state;        /* of a context: where it is; of an application: its user */
  guint64 contexts;   /* of an application */
  guint64 calls;      /* of an application: under way */
  guint64 tokens;
  guint64 memory;     /* bytes */
  guint64 storage;    /* bytes: of a context, its memory on storage; of an application, its texts */
  gboolean is_unknown; /* memory and storage were not asked for */
} Row;

static void
row_free (Row *row)
{
  g_free (row->name);
  g_free (row->state);
  g_free (row);
}

static int
compare_rows (gconstpointer a,
              gconstpointer b,
              gpointer      data)
{
  const Row *first = *(const Row *const *) a;
  const Row *second = *(const Row *const *) b;
  LlmctlTopOrder order = (LlmctlTopOrder) GPOINTER_TO_UINT (data);

  if (order == LLMCTL_TOP_BY_MEMORY && first->memory != second->memory)
    return first->memory < second->memory ? 1 : -1;
  if (order != LLMCTL_TOP_BY_NAME && first->tokens != second->tokens)
    return first->tokens < second->tokens ? 1 : -1;

  return g_utf8_collate (first->name, second->name);
}

static char *
get_user (guint64 uid)
{
  const struct passwd *entry = uid <= G_MAXUINT32 ? getpwuid ((uid_t) uid) : NULL;

  return entry != NULL ? g_utf8_make_valid (entry->pw_name, -1)
                       : g_strdup_printf ("%" G_GUINT64_FORMAT, uid);
}

static GPtrArray *
list_apps (const LlmctlSample *sample,
           LlmctlTopOrder      order)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func ((GDestroyNotify) row_free);
  GVariantIter iter;
  GVariant *app;

  if (sample->apps == NULL)
    return rows;
  g_variant_iter_init (&iter, sample->apps);
  while (g_variant_iter_loop (&iter, "@a{sv}", &app))
    {
      Row *row = g_new0 (Row, 1);

      row->name = g_utf8_make_valid (llmctl_apps_get_title (app), -1);
      row->state = get_user (llmctl_dict_get_number (app, "uid"));
      row->contexts = llmctl_dict_get_number (app, "contexts");
      row->calls = llmctl_dict_get_number (app, "calls");
      row->tokens = llmctl_dict_get_number (app, "tokens");
      row->memory = llmctl_dict_get_number (app, "memory");
      row->storage = llmctl_dict_get_number (app, "disk");
      g_ptr_array_add (rows, row);
    }
  g_ptr_array_sort_with_data (rows, compare_rows, GUINT_TO_POINTER (order));

  return rows;
}

static GPtrArray *
list_contexts (const LlmctlSample *sample,
               LlmctlTopOrder      order)
{
  GPtrArray *rows = g_ptr_array_new_with_free_func ((GDestroyNotify) row_free);
  GVariantIter iter;
  const char *path;
  GVariant *context;

  if (sample->contexts == NULL)
    return rows;
  g_variant_iter_init (&iter, sample->contexts);
  while (g_variant_iter_loop (&iter, "(&o@a{sv})", &path, &context))
    {
      Row *row = g_new0 (Row, 1);
      GVariant *memory = g_hash_table_lookup (sample->memories, path);
      const char *name = llmctl_dict_get_string (context, "Name");

      /* Translators: a context without a name; the beginning of its number stands for it */
      row->name = *name != '\0' ? g_strdup (name)
                                : g_strdup_printf (_("(unnamed %.*s)"), SHOWN_ID,
                                                   strrchr (path, '/') + 1);
      row->state = g_strdup (llmctl_dict_get_string (context, "Residency"));
      row->tokens = llmctl_dict_get_number (context, "Tokens");
      row->is_unknown = memory == NULL;
      if (memory != NULL)
        {
          row->memory = llmctl_dict_get_number (memory, "memory-bytes");
          row->storage = llmctl_dict_get_number (memory, "storage-bytes");
        }
      g_ptr_array_add (rows, row);
    }
  g_ptr_array_sort_with_data (rows, compare_rows, GUINT_TO_POINTER (order));

  return rows;
}

/* --- drawing --- */

static void
draw_number (LlmctlFrame *frame,
             guint        column,
             guint64      number)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, number);

  llmctl_frame_put_right (frame, LLMCTL_STYLE_PLAIN, column, text);
}

static void
draw_bytes (LlmctlFrame *frame,
            guint        column,
            guint64      bytes)
{
  g_autofree char *text = llmctl_format_bytes (bytes);

  llmctl_frame_put_right (frame, LLMCTL_STYLE_PLAIN, column, text);
}

/* Names get what the numbers leave: the right edges of those count from the end. */
static char *
fit_name (const char *name,
          guint       columns)
{
  g_autoptr(GString) out = g_string_new (NULL);
  guint width = 0;

  if (llmctl_output_get_width (name) <= columns)
    return g_strdup (name);
  for (const char *p = name; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);
      guint needed = g_unichar_iszerowidth (c) ? 0 : g_unichar_iswide (c) ? 2 : 1;

      if (width + needed + 1 > columns)
        break;
      g_string_append_unichar (out, c);
      width += needed;
    }
  g_string_append (out, g_get_charset (NULL) ? "…" : "~");

  return g_string_free (g_steal_pointer (&out), FALSE);
}

/* Where the columns behind the name end; the first is where the state begins. */
typedef struct
{
  guint state;
  guint contexts;
  guint calls;
  guint tokens;
  guint memory;
  guint storage;
} Columns;

static Columns
place_columns (guint columns)
{
  guint end = CLAMP (columns, 60, 120);

  return (Columns) {
    .state = end - 56,
    .contexts = end - 37,
    .calls = end - 29,
    .tokens = end - 20,
    .memory = end - 10,
    .storage = end,
  };
}

static void
draw_table_head (LlmctlFrame   *frame,
                 const Columns *at,
                 const char    *name,
                 const char    *state,
                 gboolean       is_apps)
{
  llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, name);
  llmctl_frame_move (frame, at->state);
  llmctl_frame_put (frame, LLMCTL_STYLE_BOLD, state);
  if (is_apps)
    {
      llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, at->contexts, _("Contexts"));
      llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, at->calls, _("Calls"));
    }
  llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, at->tokens, _("Tokens"));
  llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, at->memory, _("Memory"));
  /* Translators: of an application, bytes of its stored texts */
  llmctl_frame_put_right (frame, LLMCTL_STYLE_BOLD, at->storage,
                          is_apps ? _("Texts") : _("Storage"));
  llmctl_frame_end_line (frame);
}

static void
draw_row (LlmctlFrame        *frame,
          const Columns      *at,
          const Row *row,
          gboolean            is_apps)
{
  g_autofree char *name = fit_name (row->name, at->state - 1);

  llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, name);
  llmctl_frame_move (frame, at->state);
  llmctl_frame_put (frame, LLMCTL_STYLE_PLAIN, row->state);
  if (is_apps)
    {
      draw_number (frame, at->contexts, row->contexts);
      draw_number (frame, at->calls, row->calls);
    }
  draw_number (frame, at->tokens, row->tokens);
  if (!row->is_unknown)
    {
      draw_bytes (frame, at->memory, row->memory);
      draw_bytes (frame, at->storage, row->storage);
    }
  llmctl_frame_end_line (frame);
}

/* @room: lines that may be written, the heading included. */
static void
draw_table (LlmctlFrame *frame,
            GPtrArray   *rows,
            guint        columns,
            guint        room,
            gboolean     is_apps)
{
  const Columns at = place_columns (columns);
  guint n = MIN (rows->len, room > 0 ? room - 1 : 0);

  if (n == 0)
    return;
  draw_table_head (frame, &at, is_apps ? _("Application") : _("Context"),
                   is_apps ? _("User") : _("Lives in"), is_apps);
  for (guint i = 0; i < n; i++)
    draw_row (frame, &at, g_ptr_array_index (rows, i), is_apps);
}

void
llmctl_top_rows_draw (const LlmctlTopView *view,
                      LlmctlFrame         *frame,
                      guint                columns,
                      guint                rows)
{
  g_autoptr(GPtrArray) apps = list_apps (view->sample, view->order);
  g_autoptr(GPtrArray) contexts = list_contexts (view->sample, view->order);
  guint used = llmctl_frame_get_n_lines (frame);
  guint room = rows > used ? rows - used : 0;
  guint apps_room = MIN (apps->len + 1, room);

  /* one application says nothing that its contexts don't, when there is little room; when both
   * are many each has its half */
  if (apps->len + 1 + contexts->len + 1 > room && contexts->len > 0)
    apps_room = apps->len > 1
                    ? MIN (apps->len + 1, MAX (room / 2, room - MIN (room, contexts->len + 1)))
                    : 0;
  draw_table (frame, apps, columns, apps_room, TRUE);
  used = llmctl_frame_get_n_lines (frame);
  draw_table (frame, contexts, columns, rows > used ? rows - used : 0, FALSE);
}
