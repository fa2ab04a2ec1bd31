/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-mailbox.h"

typedef struct
{
  LlmMessageFunc func;
  gpointer data;
  GDestroyNotify destroy; /* (nullable) */
} Message;

/* A wait that is longer ends early, which is harmless. */
#define MAX_WAIT_US (G_USEC_PER_SEC * (gint64) 3600)

struct _LlmMailbox
{
  GAsyncQueue *messages;  /* (element-type Message) (owned) */
  GSource *source;        /* (nullable) (owned), guarded by the queue's lock */
};

static void
message_free (gpointer data)
{
  Message *message = data;

  if (message->destroy != NULL)
    message->destroy (message->data);
  g_free (message);
}

LlmMailbox *
llm_mailbox_new (void)
{
  LlmMailbox *self = g_new0 (LlmMailbox, 1);

  self->messages = g_async_queue_new_full (message_free);
  return self;
}

void
llm_mailbox_free (LlmMailbox *self)
{
  if (self->source != NULL)
    g_source_destroy (self->source);
  g_clear_pointer (&self->source, g_source_unref);
  g_async_queue_unref (self->messages);
  g_free (self);
}

void
llm_mailbox_post (LlmMailbox    *self,
                  LlmMessageFunc func,
                  gpointer       data,
                  GDestroyNotify destroy)
{
  const Message message = { func, data, destroy };

  g_async_queue_lock (self->messages);
  g_async_queue_push_unlocked (self->messages, g_memdup2 (&message, sizeof message));
  if (self->source != NULL)
    g_source_set_ready_time (self->source, 0);
  g_async_queue_unlock (self->messages);
}

guint
llm_mailbox_dispatch (LlmMailbox *self,
                      gint64      timeout_us)
{
  Message *message;
  guint n_run = 0;
  gint n_limit;

  if (timeout_us < 0)
    message = g_async_queue_pop (self->messages);
  else if (timeout_us > 0)
    /* which adds it to the time of now: that must not overflow */
    message = g_async_queue_timeout_pop (self->messages, (guint64) MIN (timeout_us, MAX_WAIT_US));
  else
    message = g_async_queue_try_pop (self->messages);

  /* Messages that these messages post wait for the next call; otherwise a busy sender would keep
   * the receiver from other work. */
  n_limit = g_async_queue_length (self->messages);
  for (; message != NULL; message = n_limit-- > 0 ? g_async_queue_try_pop (self->messages) : NULL)
    {
      message->func (message->data);
      message_free (message);
      n_run++;
    }
  return n_run;
}

typedef struct
{
  GSource source;
  LlmMailbox *mailbox; /* (unowned) */
} MailboxSource;

static gboolean
dispatch_source (GSource    *source,
                 GSourceFunc callback,
                 gpointer    data)
{
  LlmMailbox *self = ((MailboxSource *) source)->mailbox;

  g_source_set_ready_time (source, -1);
  llm_mailbox_dispatch (self, 0);
  if (g_async_queue_length (self->messages) > 0)
    g_source_set_ready_time (source, 0);
  return G_SOURCE_CONTINUE;
}

void
llm_mailbox_attach (LlmMailbox *self)
{
  static GSourceFuncs funcs = { .dispatch = dispatch_source };
  GSource *source = g_source_new (&funcs, sizeof (MailboxSource));

  ((MailboxSource *) source)->mailbox = self;
  g_source_set_static_name (source, "llm-mailbox");
  g_source_attach (source, NULL);

  g_async_queue_lock (self->messages);
  g_assert (self->source == NULL);
  self->source = source;
  if (g_async_queue_length_unlocked (self->messages) > 0)
    g_source_set_ready_time (source, 0);
  g_async_queue_unlock (self->messages);
}
