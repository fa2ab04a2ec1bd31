/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-mailbox.h"

typedef struct
{
  LlmMessageFunc func;
  gpointer data;
  GDestroyNotify destroy; /* (nullable) */
} Message;

struct _LlmMailbox
{
  GMutex lock;
  GCond arrived;
  GQueue messages;   /* (element-type Message) (owned), guarded by lock */
  GSource *source;   /* (nullable) (owned), guarded by lock */
};

static void
message_free (Message *message)
{
  if (message->destroy != NULL)
    message->destroy (message->data);
  g_free (message);
}

LlmMailbox *
llm_mailbox_new (void)
{
  LlmMailbox *self = g_new0 (LlmMailbox, 1);

  g_mutex_init (&self->lock);
  g_cond_init (&self->arrived);
  g_queue_init (&self->messages);
  return self;
}

void
llm_mailbox_free (LlmMailbox *self)
{
  if (self->source != NULL)
    {
      g_source_destroy (self->source);
      g_source_unref (self->source);
    }
  g_queue_clear_full (&self->messages, (GDestroyNotify) message_free);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->arrived);
  g_free (self);
}

void
llm_mailbox_post (LlmMailbox    *self,
                  LlmMessageFunc func,
                  gpointer       data,
                  GDestroyNotify destroy)
{
  Message *message = g_new (Message, 1);

  message->func = func;
  message->data = data;
  message->destroy = destroy;

  g_mutex_lock (&self->lock);
  g_queue_push_tail (&self->messages, message);
  g_cond_signal (&self->arrived);
  if (self->source != NULL)
    g_source_set_ready_time (self->source, 0);
  g_mutex_unlock (&self->lock);
}

static Message *
take (LlmMailbox *self)
{
  Message *message;

  g_mutex_lock (&self->lock);
  message = g_queue_pop_head (&self->messages);
  g_mutex_unlock (&self->lock);
  return message;
}

static void
wait_for_message (LlmMailbox *self,
                  gint64      timeout_us)
{
  gint64 end = g_get_monotonic_time () + timeout_us;

  g_mutex_lock (&self->lock);
  while (g_queue_is_empty (&self->messages))
    {
      if (timeout_us < 0)
        g_cond_wait (&self->arrived, &self->lock);
      else if (!g_cond_wait_until (&self->arrived, &self->lock, end))
        break;
    }
  g_mutex_unlock (&self->lock);
}

guint
llm_mailbox_dispatch (LlmMailbox *self,
                      gint64      timeout_us)
{
  Message *message;
  guint n_run = 0;
  guint n_limit;

  if (timeout_us != 0)
    wait_for_message (self, timeout_us);

  /* What the messages post in turn waits for the next call, or a chatty
   * sender would keep the receiver from everything else. */
  g_mutex_lock (&self->lock);
  n_limit = self->messages.length;
  g_mutex_unlock (&self->lock);

  while (n_run < n_limit && (message = take (self)) != NULL)
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

  g_mutex_lock (&self->lock);
  if (!g_queue_is_empty (&self->messages))
    g_source_set_ready_time (source, 0);
  g_mutex_unlock (&self->lock);
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

  g_mutex_lock (&self->lock);
  g_assert (self->source == NULL);
  self->source = source;
  if (!g_queue_is_empty (&self->messages))
    g_source_set_ready_time (source, 0);
  g_mutex_unlock (&self->lock);
}
