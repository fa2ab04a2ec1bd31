/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-frame.h"

LlmctlFrame *
llmctl_frame_new (guint    columns,
                  gboolean has_styles)
{
  LlmctlFrame *self = g_new0 (LlmctlFrame, 1);

  self->columns = columns;
  self->has_styles = has_styles;
  self->lines = g_ptr_array_new_with_free_func (g_free);
  self->line = g_string_new (NULL);
  return self;
}

void
llmctl_frame_free (LlmctlFrame *self)
{
  g_ptr_array_unref (self->lines);
  g_string_free (self->line, TRUE);
  g_free (self);
}

void
llmctl_frame_put (LlmctlFrame *self,
                  LlmctlStyle  style,
                  const char  *text)
{
  g_autofree char *harmless = llmctl_output_make_harmless (text);
  gboolean is_styled = self->has_styles && style != LLMCTL_STYLE_PLAIN;

  g_strdelimit (harmless, "\n\t", ' ');
  if (is_styled)
    g_string_append_c (self->line, LLMCTL_FRAME_MARK (style));
  for (const char *p = harmless; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);
      guint width = g_unichar_iszerowidth (c) ? 0 : g_unichar_iswide (c) ? 2 : 1;

      if (self->column + width > self->columns)
        break;
      g_string_append_unichar (self->line, c);
      self->column += width;
    }
  if (is_styled)
    g_string_append_c (self->line, LLMCTL_FRAME_MARK (LLMCTL_STYLE_PLAIN));
}

void
llmctl_frame_printf (LlmctlFrame *self,
                     LlmctlStyle  style,
                     const char  *format,
                     ...)
{
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  llmctl_frame_put (self, style, text);
}

void
llmctl_frame_move (LlmctlFrame *self,
                   guint        column)
{
  guint n = column > self->column ? column - self->column : self->column > 0 ? 1 : 0;

  llmctl_frame_printf (self, LLMCTL_STYLE_PLAIN, "%*s", (int) n, "");
}

void
llmctl_frame_put_right (LlmctlFrame *self,
                        LlmctlStyle  style,
                        guint        column,
                        const char  *text)
{
  guint width = llmctl_output_get_width (text);

  llmctl_frame_move (self, column > width ? column - width : 0);
  llmctl_frame_put (self, style, text);
}

void
llmctl_frame_end_line (LlmctlFrame *self)
{
  gsize length = self->line->len;

  /* spaces at the end are only width */
  while (length > 0 && self->line->str[length - 1] == ' ')
    length--;
  g_ptr_array_add (self->lines, g_strndup (self->line->str, length));
  g_string_truncate (self->line, 0);
  self->column = 0;
}
