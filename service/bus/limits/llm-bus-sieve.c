/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-sieve.h"

#include "bus/limits/llm-bus-head.h"

/* A head with more than this is counted with the body. */
#define USUAL_HEAD_BYTES (64 * 1024)
/* Room for messages that is kept when they have gone on. */
#define KEPT_BYTES (1024 * 1024)

struct _LlmBusSieve
{
  GMutex mutex;           /* for the two below */
  const LlmBusRelayGate *gate; /* (nullable) */
  gpointer data;

  /* the relay's thread's */
  GByteArray *in;
  gsize done;             /* of it, looked at */
  gsize most;             /* bytes that were in it */
  GArray *fds;            /* (element-type int) (owned): that came along */
  guint64 skip;           /* bytes of a message that was refused, yet to come */
  gboolean is_admitted;   /* the message that comes next in @in */
};

LlmBusSieve *
llm_bus_sieve_new (void)
{
  LlmBusSieve *self = g_new0 (LlmBusSieve, 1);

  g_mutex_init (&self->mutex);
  self->in = g_byte_array_new ();
  self->fds = g_array_new (FALSE, FALSE, sizeof (int));
  return self;
}

void
llm_bus_sieve_free (LlmBusSieve *self)
{
  g_byte_array_unref (self->in);
  llm_bus_bytes_close_fds (self->fds);
  g_array_unref (self->fds);
  g_mutex_clear (&self->mutex);
  g_free (self);
}

void
llm_bus_sieve_set_gate (LlmBusSieve           *self,
                        const LlmBusRelayGate *gate,
                        gpointer               data)
{
  g_mutex_lock (&self->mutex);
  self->gate = gate;
  self->data = data;
  g_mutex_unlock (&self->mutex);
}

GArray *
llm_bus_sieve_get_fds (LlmBusSieve *self)
{
  return self->fds;
}

/* The descriptors of the next message. (transfer full) (nullable) */
static GArray *
take_fds (LlmBusSieve *self,
          guint        n)
{
  GArray *fds;

  n = MIN (n, MIN (self->fds->len, LLM_BUS_BYTES_MAX_FDS));
  if (n == 0)
    return NULL;
  fds = g_array_sized_new (FALSE, FALSE, sizeof (int), n);
  g_array_append_vals (fds, self->fds->data, n);
  g_array_remove_range (self->fds, 0, n);
  return fds;
}

static void
drop_fds (LlmBusSieve *self,
          guint        n)
{
  g_autoptr(GArray) fds = take_fds (self, n);

  if (fds != NULL)
    llm_bus_bytes_close_fds (fds);
}

static LlmBusHead
make_head (const LlmBusHeadBytes *bytes)
{
  return (LlmBusHead) {
    .type = bytes->type,
    .sender = bytes->sender,
    .serial = bytes->serial,
    .flags = bytes->flags,
    .n_bytes = bytes->n_body + (bytes->n_head > USUAL_HEAD_BYTES ? bytes->n_head : 0),
    .n_fds = bytes->n_fds,
  };
}

/* Asks the gate. */
static gboolean
admit (LlmBusSieve           *self,
       guint8                *bytes,
       const LlmBusHeadBytes *head)
{
  LlmBusHead asked = make_head (head);
  gboolean may_go_on = TRUE;

  g_mutex_lock (&self->mutex);
  if (self->gate != NULL)
    may_go_on = self->gate->admit (&asked, self->data);
  g_mutex_unlock (&self->mutex);
  bytes[LLM_BUS_HEAD_FLAGS_BYTE] = asked.flags;
  return may_go_on;
}

/* Whether GDBus takes the message; otherwise the connection would end. */
static gboolean
is_sound (LlmBusSieve           *self,
          guint8                *bytes,
          const LlmBusHeadBytes *head)
{
  g_autoptr(GDBusMessage) message = NULL;
  LlmBusHead told = make_head (head);

  message = g_dbus_message_new_from_blob (bytes, head->n_head + head->n_body,
                                          G_DBUS_CAPABILITY_FLAGS_UNIX_FD_PASSING, NULL);
  if (message != NULL)
    return TRUE;

  g_mutex_lock (&self->mutex);
  if (self->gate != NULL)
    self->gate->spoilt (&told, self->data);
  g_mutex_unlock (&self->mutex);
  return FALSE;
}

/* Takes one message, or a part of one to be skipped, off what is in. FALSE when there is nothing
 * whole. *@is_lost: what comes makes no sense any more. */
static gboolean
take_message (LlmBusSieve *self,
              LlmBusBytes *to,
              gboolean    *is_lost)
{
  guint8 *bytes = self->in->data + self->done;
  gsize n_there = self->in->len - self->done;
  LlmBusHeadBytes head;
  guint64 n_whole;
  gboolean is_known, is_ours;

  if (self->skip > 0)
    {
      gsize n = MIN (self->skip, n_there);

      self->done += n;
      self->skip -= n;
      return n > 0;
    }
  if (n_there < LLM_BUS_HEAD_START)
    return FALSE;
  if (!llm_bus_head_measure (bytes, &head))
    {
      *is_lost = TRUE;
      return FALSE;
    }
  if (n_there < head.n_head)
    return FALSE;

  n_whole = head.n_head + head.n_body;
  is_known = llm_bus_head_parse (bytes, &head);
  is_ours = is_known && head.sender != NULL && head.sender[0] == ':';
  /* no bus makes fields that are not known, so they are a caller's, who may not get past the gate
   * by them */
  if (!is_known || (is_ours && !self->is_admitted && !admit (self, bytes, &head)))
    {
      drop_fds (self, head.n_fds);
      self->skip = n_whole;
      return TRUE;
    }
  self->is_admitted = TRUE;
  if (n_there < n_whole)
    return FALSE;

  self->is_admitted = FALSE;
  if (is_ours && !is_sound (self, bytes, &head))
    drop_fds (self, head.n_fds);
  else
    llm_bus_bytes_add (to, bytes, n_whole, take_fds (self, head.n_fds));
  self->done += n_whole;
  return TRUE;
}

/* What was looked at; an array never shrinks by itself. */
static void
drop_done (LlmBusSieve *self)
{
  if (self->done > 0)
    g_byte_array_remove_range (self->in, 0, (guint) self->done);
  self->done = 0;
  if (self->in->len > 0 || self->most <= KEPT_BYTES)
    return;
  g_byte_array_unref (self->in);
  self->in = g_byte_array_new ();
  self->most = 0;
}

gboolean
llm_bus_sieve_take (LlmBusSieve  *self,
                    const guint8 *bytes,
                    gsize         length,
                    LlmBusBytes  *to)
{
  gboolean is_lost = FALSE;

  g_byte_array_append (self->in, bytes, (guint) length);
  self->most = MAX (self->most, self->in->len);
  while (take_message (self, to, &is_lost))
    ;
  drop_done (self);
  return !is_lost;
}
