/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-base"

#include "base/llm-journal.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/llm-clock.h"

/* So many records at once, and then so many a second: a few people's questions are far
 * below, and a program in a loop does not fill the journal of the machine. */
#define BURST          200
#define RATE_PER_S     20
#define INTERVAL_US    (G_USEC_PER_SEC / RATE_PER_S)

/* syslog's number for what is normal and worth keeping */
#define PRIORITY_INFO "6"

/* as in its other lines there */
#define IDENTIFIER "llmsvcd"

struct _LlmJournal
{
  int fd;                    /* -1: no journal */
  struct sockaddr_un address;
  gint64 paid_until_us;      /* as if each record took a moment: see may_send() */
  guint64 n_dropped;         /* since the last one that went out */
};

LlmJournal *
llm_journal_new (const char *path)
{
  LlmJournal *self = g_new0 (LlmJournal, 1);

  self->fd = -1;
  if (path == NULL && g_log_writer_is_journald (STDERR_FILENO))
    path = LLM_JOURNAL_SOCKET;
  if (path == NULL || strlen (path) >= sizeof self->address.sun_path)
    return self;

  self->address.sun_family = AF_UNIX;
  memcpy (self->address.sun_path, path, strlen (path) + 1);
  /* not connected, because the journal may be restarted meanwhile */
  self->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return self;
}

void
llm_journal_free (LlmJournal *self)
{
  if (self == NULL)
    return;

  if (self->fd >= 0)
    close (self->fd);
  g_free (self);
}

gboolean
llm_journal_is_connected (LlmJournal *self)
{
  return self->fd >= 0;
}

/* A bucket of BURST records that fills again with time. */
static gboolean
may_send (LlmJournal *self,
          gint64      now_us)
{
  gint64 paid_until_us = MAX (self->paid_until_us, now_us - BURST * INTERVAL_US);

  if (paid_until_us + INTERVAL_US > now_us)
    return FALSE;

  self->paid_until_us = paid_until_us + INTERVAL_US;
  return TRUE;
}

static void
append_field (GString    *record,
              const char *name,
              const char *value)
{
  guint64 size = GUINT64_TO_LE ((guint64) strlen (value));

  g_string_append (record, name);
  if (strchr (value, '\n') == NULL)
    {
      g_string_append_c (record, '=');
    }
  else
    {
      g_string_append_c (record, '\n');
      g_string_append_len (record, (const char *) &size, sizeof size);
    }
  g_string_append (record, value);
  g_string_append_c (record, '\n');
}

gboolean
llm_journal_send (LlmJournal            *self,
                  const char            *message,
                  const LlmJournalField *fields)
{
  g_autoptr(GString) record = NULL;

  if (self->fd < 0)
    return FALSE;
  if (!may_send (self, llm_clock_now_us ()))
    {
      self->n_dropped++;
      return FALSE;
    }

  record = g_string_sized_new (1024);
  append_field (record, "MESSAGE", message);
  append_field (record, "PRIORITY", PRIORITY_INFO);
  append_field (record, "SYSLOG_IDENTIFIER", IDENTIFIER);
  for (gsize i = 0; fields[i].name != NULL; i++)
    if (fields[i].value != NULL)
      append_field (record, fields[i].name, fields[i].value);
  if (self->n_dropped > 0)
    {
      g_autofree char *n_dropped = g_strdup_printf ("%" G_GUINT64_FORMAT, self->n_dropped);

      append_field (record, "LLM_DROPPED_RECORDS", n_dropped);
    }

  if (sendto (self->fd, record->str, record->len, MSG_NOSIGNAL,
              (const struct sockaddr *) &self->address, sizeof self->address) < 0)
    {
      self->n_dropped++;
      return FALSE;
    }
  self->n_dropped = 0;
  return TRUE;
}
