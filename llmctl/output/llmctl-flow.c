/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-flow.h"

#include <unistd.h>

#include "llmctl/output/llmctl-output.h"

#define FENCE_TICKS 3

static gboolean
put_spaces (LlmctlFlow *self)
{
  g_autofree char *spaces = g_strnfill (self->n_spaces, ' ');

  self->column += self->n_spaces;
  self->n_spaces = 0;
  return llmctl_output_data (spaces);
}

static gboolean
put_word (LlmctlFlow *self)
{
  guint columns = llmctl_output_get_columns ();
  guint width = llmctl_output_get_width (self->word->str);
  gboolean is_there = TRUE;

  if (self->word->len == 0)
    return TRUE;
  if (self->column > 0 && !self->is_code && self->column + self->n_spaces + width > columns)
    {
      is_there = llmctl_output_data ("\n");
      self->column = 0;
      self->n_spaces = 0;
    }
  is_there = is_there && put_spaces (self) && llmctl_output_data (self->word->str);
  self->column += width;
  /* the terminal breaks what is wider than it */
  if (self->column > columns)
    self->column %= columns;
  g_string_truncate (self->word, 0);

  return is_there;
}

static gboolean
end_line (LlmctlFlow *self)
{
  gboolean is_there = put_word (self) && put_spaces (self) && llmctl_output_data ("\n");

  if (self->n_ticks >= FENCE_TICKS)
    self->is_code = !self->is_code;
  self->column = 0;
  self->n_ticks = 0;
  self->is_line = FALSE;

  return is_there;
}

gboolean
llmctl_flow_write (LlmctlFlow *self,
                   const char *piece)
{
  gboolean is_there = TRUE;
  const char *next;

  if (!llmctl_output_is_terminal (STDOUT_FILENO) || !g_utf8_validate (piece, -1, NULL))
    return llmctl_output_data (piece);

  if (self->word == NULL)
    self->word = g_string_new (NULL);
  for (const char *p = piece; *p != '\0' && is_there; p = next)
    {
      gunichar character = g_utf8_get_char (p);

      next = g_utf8_next_char (p);
      if (character == '`' && !self->is_line)
        self->n_ticks++;
      else if (character != ' ' && character != '\n')
        self->is_line = TRUE;

      if (character == '\n')
        {
          is_there = end_line (self);
        }
      else if (character == ' ')
        {
          is_there = put_word (self);
          self->n_spaces++;
        }
      else
        {
          /* lines of Chinese end anywhere: each of its characters is a word */
          if (g_unichar_iswide (character))
            is_there = put_word (self);
          g_string_append_len (self->word, p, next - p);
          if (g_unichar_iswide (character))
            is_there = is_there && put_word (self);
        }
    }
  /* what no line has room for need not wait */
  if (self->word->len >= llmctl_output_get_columns () || self->is_code)
    is_there = is_there && put_word (self);

  return is_there;
}

gboolean
llmctl_flow_end (LlmctlFlow *self)
{
  gboolean is_there = TRUE;

  if (self->word != NULL)
    {
      is_there = put_word (self) && put_spaces (self);
      g_string_free (self->word, TRUE);
    }
  *self = (LlmctlFlow) { 0 };

  return is_there;
}
