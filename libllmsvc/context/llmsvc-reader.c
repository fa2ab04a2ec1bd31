/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-reader.h"

#include <errno.h>
#include <glib-unix.h>
#include <glib/gi18n-lib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "client/llmsvc-client-private.h"
#include "common/llmsvc-error-private.h"
#include "common/llmsvc-line.h"
#include "context/llmsvc-context-private.h"
#include "values/llmsvc-answer-private.h"

/* As much as a pipe holds. One read a turn of the main loop, so that a service that writes
 * without end does not keep the loop. */
#define READ_BYTES (64 * 1024)
/* No model's context is as long; a service that sends more is out of order. */
#define MAX_ANSWER_BYTES (64 * 1024 * 1024)

G_DEFINE_FINAL_TYPE (LlmsvcReader, llmsvc_reader, G_TYPE_OBJECT)

static void
close_pipe (LlmsvcReader *self)
{
  int fd;

  g_mutex_lock (&self->lock);
  fd = self->fd;
  self->fd = -1;
  g_mutex_unlock (&self->lock);

  if (fd >= 0)
    g_close (fd, NULL);
}

static void
llmsvc_reader_finalize (GObject *object)
{
  LlmsvcReader *self = LLMSVC_READER (object);

  close_pipe (self);
  g_clear_object (&self->context);
  g_free (self->path);
  g_free (self->request_id);
  llmsvc_line_reader_free (self->lines);
  g_object_unref (self->closing);
  g_mutex_clear (&self->lock);
  g_weak_ref_clear (&self->observer);
  g_string_free (self->text, TRUE);
  g_string_free (self->logprobs, TRUE);
  g_clear_object (&self->answer);
  g_clear_error (&self->failure);

  G_OBJECT_CLASS (llmsvc_reader_parent_class)->finalize (object);
}

static void
llmsvc_reader_class_init (LlmsvcReaderClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llmsvc_reader_finalize;
}

static void
llmsvc_reader_init (LlmsvcReader *self)
{
  g_mutex_init (&self->lock);
  g_weak_ref_init (&self->observer, NULL);
  self->fd = -1;
  self->lines = llmsvc_line_reader_new ();
  self->closing = g_cancellable_new ();
  self->text = g_string_new (NULL);
  self->logprobs = g_string_new (NULL);
  self->thread = g_thread_self ();
}

LlmsvcReader *
llmsvc_reader_new (LlmsvcContext           *context,
                   int                      fd,
                   const LlmsvcReaderSetup *setup)
{
  LlmsvcReader *self = g_object_new (LLMSVC_TYPE_READER, NULL);

  self->context = g_object_ref (context);
  self->fd = fd;
  self->path = g_strdup (setup->path);
  self->request_id = g_strdup (setup->request_id);
  self->before = setup->before;
  self->is_standalone = setup->is_standalone;
  return self;
}

/* --- the end of the answer --- */

static gboolean
tell_settled (gpointer data)
{
  LlmsvcReader *self = data;
  g_autoptr(GObject) observer = g_weak_ref_get (&self->observer);

  if (observer == NULL)
    return G_SOURCE_REMOVE;

  g_object_freeze_notify (observer);
  if (llmsvc_reader_get_answer (self) != NULL)
    g_object_notify (observer, "answer");
  g_object_notify (observer, "is-done");
  g_object_thaw_notify (observer);
  return G_SOURCE_REMOVE;
}

/* @answer: (transfer full) (nullable); @failure: (transfer full) (nullable): one of them.
 * The first end is the one that counts. */
static void
settle (LlmsvcReader *self,
        LlmsvcAnswer *answer,
        GError       *failure)
{
  g_autoptr(LlmsvcReader) hold = g_object_ref (self);
  gboolean is_first;

  g_mutex_lock (&self->lock);
  is_first = !self->is_settled;
  if (is_first)
    {
      self->is_settled = TRUE;
      self->answer = g_steal_pointer (&answer);
      self->failure = g_steal_pointer (&failure);
    }
  g_mutex_unlock (&self->lock);
  g_clear_object (&answer);
  g_clear_error (&failure);
  if (!is_first)
    return;

  if (g_thread_self () == self->thread)
    {
      tell_settled (self);
    }
  else
    {
      g_autoptr(GSource) source = g_idle_source_new ();

      g_source_set_callback (source, tell_settled, g_object_ref (self), g_object_unref);
      g_source_attach (source, llmsvc_context_get_client (self->context)->home);
    }
}

/* @line: an error line */
static GError *
make_line_error (const LlmsvcLine *line)
{
  GError *error;

  (void) llmsvc_error_quark ();
  error = g_dbus_error_new_for_dbus_error (line->name, line->text);
  llmsvc_error_convert (&error);
  return error;
}

/* --- one read --- */

static void continue_reading (GTask *task);

/* Ends the read that @task is. @text: (transfer full) (nullable). */
static void
end_read (GTask *task,
          char  *text)
{
  LlmsvcReader *self = g_task_get_task_data (task);
  GError *failure = NULL;
  gboolean is_over;

  g_mutex_lock (&self->lock);
  self->is_reading = FALSE;
  is_over = self->is_settled;
  if (text == NULL && self->failure != NULL)
    failure = g_error_copy (self->failure);
  g_mutex_unlock (&self->lock);

  if (is_over)
    close_pipe (self);
  if (failure != NULL)
    g_task_return_error (task, failure);
  else
    g_task_return_pointer (task, text, g_free);
}

/* Ends the read alone: the next one goes on. @error: (transfer full) */
static void
leave_read (GTask  *task,
            GError *error)
{
  LlmsvcReader *self = g_task_get_task_data (task);

  g_mutex_lock (&self->lock);
  self->is_reading = FALSE;
  g_mutex_unlock (&self->lock);

  if (g_cancellable_is_cancelled (self->closing))
    close_pipe (self);
  g_task_return_error (task, error);
}

static void
on_context_read (GObject      *source,
                 GAsyncResult *result,
                 gpointer      data)
{
  g_autoptr(GTask) task = data;

  llmsvc_context_read_done (result, "after its answer");
  end_read (task, NULL);
}

/* (transfer full): with what lines before have told. */
static GVariant *
add_logprobs (LlmsvcReader *self,
              GVariant     *results)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (results);
  g_autofree char *array = NULL;

  if (self->logprobs->len == 0)
    return g_variant_ref (results);
  array = g_strdup_printf ("[%s]", self->logprobs->str);
  g_variant_dict_insert (&dict, "logprobs", "s", array);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/* The last line has come. */
static void
end_answer (GTask    *task,
            GVariant *results)
{
  LlmsvcReader *self = g_task_get_task_data (task);
  g_autoptr(GVariant) all = NULL;
  LlmsvcAnswer *answer;

  g_mutex_lock (&self->lock);
  all = add_logprobs (self, results);
  answer = llmsvc_answer_new (self->text->str, all);
  g_mutex_unlock (&self->lock);
  settle (self, answer, NULL);

  if (self->is_standalone || g_thread_self () != self->thread)
    end_read (task, NULL);
  else
    llmsvc_context_read_async (self->context, LLMSVC_CALL_NO_START, g_task_get_cancellable (task),
                               on_context_read, g_object_ref (task));
}

static void
on_judged (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcReader *self = g_task_get_task_data (task);
  GError *error = llmsvc_turn_judge_finish (result);

  if (error->code == LLMSVC_ERROR_CANCELLED)
    {
      leave_read (task, error);
      return;
    }

  settle (self, NULL, error);
  end_read (task, NULL);
}

/* @error: (transfer full) */
static void
fail_answer (GTask  *task,
             GError *error)
{
  settle (g_task_get_task_data (task), NULL, error);
  end_read (task, NULL);
}

/* What the observer is told on its way to its thread. */
typedef struct
{
  LlmsvcReader *reader;  /* (owned) */
  const char *signal;
  char *text;         /* (nullable) (owned) */
  GVariant *values;   /* (nullable) (owned): instead */
} Told;

static void
told_free (gpointer data)
{
  Told *told = data;

  g_object_unref (told->reader);
  g_free (told->text);
  g_clear_pointer (&told->values, g_variant_unref);
  g_free (told);
}

static gboolean
tell (gpointer data)
{
  Told *told = data;
  g_autoptr(GObject) observer = g_weak_ref_get (&told->reader->observer);

  if (observer != NULL && told->values != NULL)
    g_signal_emit_by_name (observer, told->signal, told->values);
  else if (observer != NULL)
    g_signal_emit_by_name (observer, told->signal, told->text);
  return G_SOURCE_REMOVE;
}

/* Emits @signal of the observer. @text, @values: (transfer full) (nullable): one of them */
static void
tell_observer (LlmsvcReader *self,
               const char   *signal,
               char         *text,
               GVariant     *values)
{
  Told *told = g_new (Told, 1);

  *told = (Told) { g_object_ref (self), signal, text, values };
  if (g_thread_self () == self->thread)
    {
      tell (told);
      told_free (told);
    }
  else
    {
      g_autoptr(GSource) source = g_idle_source_new ();

      g_source_set_priority (source, G_PRIORITY_DEFAULT);
      g_source_set_callback (source, tell, told, told_free);
      g_source_attach (source, llmsvc_context_get_client (self->context)->home);
    }
}

/* Adds @text to what has come. FALSE when that is too much: the answer has failed. */
static gboolean
add_text (GTask      *task,
          GString    *whole,
          const char *separator,
          const char *text)
{
  LlmsvcReader *self = g_task_get_task_data (task);
  gboolean is_too_long;

  g_mutex_lock (&self->lock);
  is_too_long = whole->len + strlen (text) > MAX_ANSWER_BYTES;
  if (!is_too_long)
    g_string_append_printf (whole, "%s%s", whole->len > 0 ? separator : "", text);
  g_mutex_unlock (&self->lock);
  if (is_too_long)
    fail_answer (task, g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                                            _("The answer is longer than any answer can be")));
  return !is_too_long;
}

/* @line: its text is taken. FALSE when the read goes on behind it. */
static gboolean
take_line (GTask      *task,
           LlmsvcLine *line)
{
  LlmsvcReader *self = g_task_get_task_data (task);

  switch (line->kind)
    {
    case LLMSVC_LINE_TEXT:
      if (line->text[0] == '\0')
        return FALSE;
      if (add_text (task, self->text, "", line->text))
        end_read (task, g_steal_pointer (&line->text));
      return TRUE;
    case LLMSVC_LINE_REASONING:
      if (line->text[0] != '\0')
        tell_observer (self, "reasoning", g_steal_pointer (&line->text), NULL);
      return FALSE;
    case LLMSVC_LINE_LOGPROBS:
      return line->text[0] != '\0' && !add_text (task, self->logprobs, ",", line->text);
    case LLMSVC_LINE_DONE:
      end_answer (task, line->results);
      return TRUE;
    case LLMSVC_LINE_ERROR:
      fail_answer (task, make_line_error (line));
      return TRUE;
    case LLMSVC_LINE_CALL:
      tell_observer (self, "tool-call", g_steal_pointer (&line->text), NULL);
      return FALSE;
    case LLMSVC_LINE_PROGRESS:
      tell_observer (self, "progress", NULL, g_steal_pointer (&line->results));
      return FALSE;
    case LLMSVC_LINE_OTHER:
    default:
      return FALSE;
    }
}

/* Goes through the lines that were read. FALSE when the read goes on behind them. */
static gboolean
take_lines (GTask *task)
{
  LlmsvcReader *self = g_task_get_task_data (task);
  LlmsvcLine line = { .kind = LLMSVC_LINE_OTHER };
  GError *error = NULL;
  gboolean has_ended = FALSE;

  while (!has_ended && llmsvc_line_reader_next (self->lines, &line, &error))
    {
      has_ended = take_line (task, &line);
      llmsvc_line_clear (&line);
    }
  if (error != NULL)
    {
      fail_answer (task, error);
      has_ended = TRUE;
    }
  return has_ended;
}

static gboolean
on_readable (int          fd,
             GIOCondition condition,
             gpointer     data)
{
  continue_reading (data);
  return G_SOURCE_REMOVE;
}

static void
wait_for_pipe (GTask *task)
{
  LlmsvcReader *self = g_task_get_task_data (task);
  GCancellable *ends[] = { self->closing, g_task_get_cancellable (task) };
  g_autoptr(GSource) source = g_unix_fd_source_new (self->fd, G_IO_IN | G_IO_HUP | G_IO_ERR);

  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    if (ends[i] != NULL)
      {
        g_autoptr(GSource) ending = g_cancellable_source_new (ends[i]);

        g_source_set_dummy_callback (ending);
        g_source_add_child_source (source, ending);
      }
  g_source_set_callback (source, G_SOURCE_FUNC (on_readable), g_object_ref (task), g_object_unref);
  g_source_attach (source, g_task_get_context (task));
}

/* Reads as far as it gets without waiting; by way of the main loop otherwise. */
static void
continue_reading (GTask *task)
{
  LlmsvcReader *self = g_task_get_task_data (task);
  g_autofree char *buffer = NULL;
  GError *error = NULL;
  ssize_t n;

  if (g_cancellable_set_error_if_cancelled (g_task_get_cancellable (task), &error) ||
      g_cancellable_set_error_if_cancelled (self->closing, &error))
    {
      llmsvc_error_convert (&error);
      leave_read (task, error);
      return;
    }
  if (take_lines (task))
    return;

  buffer = g_malloc (READ_BYTES);
  n = read (self->fd, buffer, READ_BYTES);
  if (n < 0 && errno != EAGAIN && errno != EINTR)
    fail_answer (task, g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                                    _("The answer can't be read: %s"), g_strerror (errno)));
  else if (n == 0)
    /* it has ended without a last line: the service has */
    llmsvc_turn_judge_async (self->context, &self->before, g_task_get_cancellable (task),
                             on_judged, g_object_ref (task));
  else if (n > 0 && !llmsvc_line_reader_push (self->lines, buffer, (gsize) n, &error))
    fail_answer (task, error);
  else if (n < 0 || !take_lines (task))
    wait_for_pipe (task);
}

/* FALSE when another read is under way. @is_over: (out): nothing is left to be read */
static gboolean
claim (LlmsvcReader *self,
       gboolean     *is_over)
{
  gboolean is_free;

  g_mutex_lock (&self->lock);
  is_free = !self->is_reading;
  if (is_free)
    self->is_reading = TRUE;
  *is_over = self->is_settled;
  g_mutex_unlock (&self->lock);
  return is_free;
}

void
llmsvc_reader_next_async (LlmsvcReader        *self,
                          gpointer             source,
                          GCancellable        *cancellable,
                          GAsyncReadyCallback  callback,
                          gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;
  gboolean is_over;

  task = llmsvc_task_new (source, cancellable, callback, user_data, llmsvc_reader_next_async);
  g_task_set_task_data (task, g_object_ref (self), g_object_unref);
  if (!claim (self, &is_over))
    g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                             _("The answer is being read already: one read at a time"));
  else if (is_over)
    end_read (task, NULL);
  else
    continue_reading (task);
}

/* --- the whole answer --- */

static void
on_drained_piece (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcReader *self = g_task_get_task_data (G_TASK (result));
  g_autofree char *piece = NULL;
  GError *error = NULL;

  piece = g_task_propagate_pointer (G_TASK (result), &error);
  if (piece != NULL)
    {
      llmsvc_reader_drain (self, task);
      return;
    }
  if (error == NULL)
    {
      g_task_return_pointer (task, g_object_ref (llmsvc_reader_get_answer (self)), g_object_unref);
      return;
    }

  if (error->code == LLMSVC_ERROR_CANCELLED)
    llmsvc_reader_close (self);
  g_task_return_error (task, error);
}

void
llmsvc_reader_drain (LlmsvcReader *self,
                     GTask        *task)
{
  llmsvc_reader_next_async (self, NULL, g_task_get_cancellable (task), on_drained_piece,
                            g_object_ref (task));
}

void
llmsvc_reader_close (LlmsvcReader *self)
{
  gboolean is_reading;

  settle (self, NULL,
          g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED,
                               _("The answer was given up before its end")));
  g_cancellable_cancel (self->closing);

  g_mutex_lock (&self->lock);
  is_reading = self->is_reading;
  g_mutex_unlock (&self->lock);
  /* a read under way closes it when it ends */
  if (!is_reading)
    close_pipe (self);
}

/* --- getters --- */

gboolean
llmsvc_reader_get_is_settled (LlmsvcReader *self)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->lock);

  return self->is_settled;
}

LlmsvcAnswer *
llmsvc_reader_get_answer (LlmsvcReader *self)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->lock);

  return self->answer;
}
