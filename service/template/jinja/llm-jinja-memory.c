/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The arena, the limits, and how a failure leaves. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error-private.h"

#define BLOCK_BYTES (16 * 1024)
/* Of the work between two looks at the clock, some microseconds. */
#define STEPS_BETWEEN_TIMES 1000
#define MAX_DEPTH 1500

void *
llm_jinja_alloc (LlmJinja *self, gsize n_bytes)
{
  void *result;

  if (n_bytes > self->max_bytes || self->n_bytes + n_bytes > self->max_bytes)
    llm_jinja_fail (self, "it needs more than %" G_GSIZE_FORMAT " MiB of memory",
                    self->max_bytes >> 20);
  n_bytes = (n_bytes + 15) & ~(gsize) 15;
  if (n_bytes > self->n_left)
    {
      gsize size = MAX (n_bytes, BLOCK_BYTES);

      result = g_malloc0 (size);
      g_ptr_array_add (self->blocks, result);
      self->n_bytes += size;
      /* what is large has a block of its own */
      if (n_bytes > BLOCK_BYTES / 2)
        return result;
      self->block = result;
      self->n_left = size;
    }
  result = self->block;
  self->block += n_bytes;
  self->n_left -= n_bytes;
  return result;
}

void
llm_jinja_clear (LlmJinja *self)
{
  g_clear_pointer (&self->blocks, g_ptr_array_unref);
  self->block = NULL;
  self->n_left = 0;
}

/* Of @at, both from 1; columns are characters. */
static void
find_place (LlmJinja *self, guint *line, guint *column)
{
  *line = *column = 1;
  for (gsize i = 0; i < MIN (self->at, self->source_length); i++)
    {
      if (self->source[i] == '\n')
        {
          (*line)++;
          *column = 1;
        }
      else if (((guint8) self->source[i] & 0xc0) != 0x80)
        {
          (*column)++;
        }
    }
}

void
llm_jinja_fail (LlmJinja *self, const char *format, ...)
{
  g_autofree char *reason = NULL;
  g_autofree char *valid = NULL;
  guint line, column;
  va_list args;

  va_start (args, format);
  reason = g_strdup_vprintf (format, args);
  va_end (args);
  /* names may have been cut within a character */
  valid = g_utf8_make_valid (reason, -1);
  find_place (self, &line, &column);
  self->error = llmsvc_error_new (LLMSVC_ERROR_UNSUPPORTED, NULL, "line %u, column %u: %s", line,
                                  column, valid);
  /* no cleanup runs on the way that follows */
  g_clear_pointer (&reason, g_free);
  g_clear_pointer (&valid, g_free);
  longjmp (self->leave, 1);
}

void
llm_jinja_step (LlmJinja *self, gsize n)
{
  self->n_steps += n;
  if (self->n_steps > self->max_steps)
    llm_jinja_fail (self, "it takes more than %" G_GUINT64_FORMAT " steps", self->max_steps);
  if (self->n_steps - self->n_timed < STEPS_BETWEEN_TIMES)
    return;
  self->n_timed = self->n_steps;
  if (llm_clock_thread_us () > self->end_us)
    llm_jinja_fail (self, "it takes too much of the processor's time");
}

/* What a builtin may touch of the values that it is given. */
void
llm_jinja_charge (LlmJinja *self, const LlmJinjaValue *values, guint n_values)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_values; i++)
    if (values[i].type == LLM_JINJA_STRING)
      n_bytes += values[i].string.length;
  llm_jinja_step (self, 1 + n_bytes / LLM_JINJA_STEP_BYTES);
}

void
llm_jinja_enter (LlmJinja *self)
{
  llm_jinja_step (self, 1);
  if (++self->depth > MAX_DEPTH)
    llm_jinja_fail (self, "it is nested deeper than %d", MAX_DEPTH);
}

const char *
llm_jinja_intern (LlmJinja *self, const char *name, gsize length)
{
  char *copy = llm_jinja_alloc (self, length + 1);
  const char *known;

  memcpy (copy, name, length);
  known = g_hash_table_lookup (self->names, copy);
  if (known != NULL)
    return known;
  g_hash_table_add (self->names, copy);
  return copy;
}

void *
llm_jinja_grow (LlmJinja *self, void *items, guint n_items, guint *n_room, gsize size)
{
  void *result;

  if (n_items < *n_room)
    return items;
  if (n_items > G_MAXUINT / 4)
    llm_jinja_fail (self, "a list is too long");
  *n_room = MAX (4, n_items * 2);
  result = llm_jinja_alloc (self, *n_room * size);
  if (n_items > 0)
    memcpy (result, items, n_items * size);
  return result;
}

void
llm_jinja_nodes_add (LlmJinja *self, LlmJinjaNodes *nodes, LlmJinjaNode *node)
{
  nodes->items = llm_jinja_grow (self, nodes->items, nodes->n_items, &nodes->n_room,
                                 sizeof *nodes->items);
  nodes->items[nodes->n_items++] = node;
}
