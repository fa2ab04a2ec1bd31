/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-text-stream.h"

#include <string.h>

#include "calls/llmsvc-task.h"

struct _LlmsvcTextStream
{
  GInputStream parent_instance;

  LlmsvcReader *reader;  /* (owned) */
  char *piece;           /* (nullable): what was read and not yet given out */
  gsize length;
  gsize start;
};

G_DEFINE_FINAL_TYPE (LlmsvcTextStream, llmsvc_text_stream, G_TYPE_INPUT_STREAM)

/* --- reading: a piece may be given out in parts --- */

typedef struct
{
  void *buffer;
  gsize count;
} Read;

static gssize
give_out (LlmsvcTextStream *self,
          void             *buffer,
          gsize             count)
{
  gsize n = MIN (count, self->length - self->start);

  if (n > 0)
    memcpy (buffer, self->piece + self->start, n);
  self->start += n;
  return (gssize) n;
}

static void
on_piece (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcTextStream *self = g_task_get_source_object (task);
  Read *wanted = g_task_get_task_data (task);
  g_autofree char *piece = NULL;
  GError *error = NULL;

  piece = g_task_propagate_pointer (G_TASK (result), &error);
  if (error != NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  g_free (self->piece);
  self->length = piece != NULL ? strlen (piece) : 0;
  self->start = 0;
  self->piece = g_steal_pointer (&piece);
  g_task_return_int (task, give_out (self, wanted->buffer, wanted->count));
}

static void
llmsvc_text_stream_read_async (GInputStream        *stream,
                               void                *buffer,
                               gsize                count,
                               int                  priority,
                               GCancellable        *cancellable,
                               GAsyncReadyCallback  callback,
                               gpointer             user_data)
{
  LlmsvcTextStream *self = LLMSVC_TEXT_STREAM (stream);
  g_autoptr(GTask) task = NULL;
  Read *wanted;

  task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_text_stream_read_async);
  g_task_set_priority (task, priority);
  if (count == 0 || self->start < self->length)
    {
      g_task_return_int (task, give_out (self, buffer, count));
      return;
    }

  wanted = g_new (Read, 1);
  *wanted = (Read) { buffer, count };
  g_task_set_task_data (task, wanted, g_free);
  llmsvc_reader_next_async (self->reader, NULL, cancellable, on_piece, g_steal_pointer (&task));
}

static gssize
llmsvc_text_stream_read_finish (GInputStream  *stream,
                                GAsyncResult  *result,
                                GError       **error)
{
  return g_task_propagate_int (G_TASK (result), error);
}

static gssize
llmsvc_text_stream_read (GInputStream  *stream,
                         void          *buffer,
                         gsize          count,
                         GCancellable  *cancellable,
                         GError       **error)
{
  g_auto(LlmsvcWait) wait = { NULL, NULL, NULL };

  llmsvc_wait_begin (&wait);
  llmsvc_text_stream_read_async (stream, buffer, count, G_PRIORITY_DEFAULT, cancellable,
                                 llmsvc_wait_on_ready, &wait);
  return llmsvc_text_stream_read_finish (stream, llmsvc_wait_for_result (&wait), error);
}

/* --- closing --- */

static gboolean
llmsvc_text_stream_close (GInputStream  *stream,
                          GCancellable  *cancellable,
                          GError       **error)
{
  llmsvc_reader_close (LLMSVC_TEXT_STREAM (stream)->reader);
  return TRUE;
}

static void
llmsvc_text_stream_close_async (GInputStream        *stream,
                                int                  priority,
                                GCancellable        *cancellable,
                                GAsyncReadyCallback  callback,
                                gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;

  task =
    llmsvc_task_new (stream, cancellable, callback, user_data, llmsvc_text_stream_close_async);
  g_task_set_priority (task, priority);
  llmsvc_reader_close (LLMSVC_TEXT_STREAM (stream)->reader);
  g_task_return_boolean (task, TRUE);
}

static gboolean
llmsvc_text_stream_close_finish (GInputStream  *stream,
                                 GAsyncResult  *result,
                                 GError       **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

static void
llmsvc_text_stream_finalize (GObject *object)
{
  LlmsvcTextStream *self = LLMSVC_TEXT_STREAM (object);

  g_object_unref (self->reader);
  g_free (self->piece);

  G_OBJECT_CLASS (llmsvc_text_stream_parent_class)->finalize (object);
}

static void
llmsvc_text_stream_class_init (LlmsvcTextStreamClass *klass)
{
  GInputStreamClass *stream_class = G_INPUT_STREAM_CLASS (klass);

  G_OBJECT_CLASS (klass)->finalize = llmsvc_text_stream_finalize;
  stream_class->read_fn = llmsvc_text_stream_read;
  stream_class->read_async = llmsvc_text_stream_read_async;
  stream_class->read_finish = llmsvc_text_stream_read_finish;
  stream_class->close_fn = llmsvc_text_stream_close;
  stream_class->close_async = llmsvc_text_stream_close_async;
  stream_class->close_finish = llmsvc_text_stream_close_finish;
}

static void
llmsvc_text_stream_init (LlmsvcTextStream *self)
{
}

GInputStream *
llmsvc_text_stream_new (LlmsvcReader *reader)
{
  LlmsvcTextStream *self = g_object_new (LLMSVC_TYPE_TEXT_STREAM, NULL);

  self->reader = g_object_ref (reader);
  return G_INPUT_STREAM (self);
}
