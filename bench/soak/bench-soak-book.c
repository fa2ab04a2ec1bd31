/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-book.h"

#include <gio/gio.h>
#include <string.h>

/* What a turn's answer is while nobody has seen it. */
#define ANY_TEXT NULL

typedef struct
{
  char *role;
  char *text;        /* ANY_TEXT: whatever the service has */
  gboolean begins;   /* the first message of a turn */
} Message;

typedef enum
{
  NO_DOUBT,
  DOUBT_ADDED,
  DOUBT_ROLLED_BACK,
} Doubt;

struct _BenchBook
{
  GPtrArray *messages;   /* (element-type Message) (owned) */
  GPtrArray *doubtful;   /* (element-type Message) (owned): of DOUBT_ADDED */
  guint n_doubtful;      /* turns of DOUBT_ROLLED_BACK */
  Doubt doubt;
  guint64 revision;
};

static void
message_free (gpointer data)
{
  Message *message = data;

  g_free (message->role);
  g_free (message->text);
  g_free (message);
}

static void
add_message (GPtrArray  *messages,
             const char *role,
             const char *text,
             gboolean    begins)
{
  Message *message = g_new (Message, 1);

  message->role = g_strdup (role);
  message->text = g_strdup (text);
  message->begins = begins;
  g_ptr_array_add (messages, message);
}

BenchBook *
bench_book_new (void)
{
  BenchBook *self = g_new0 (BenchBook, 1);

  self->messages = g_ptr_array_new_with_free_func (message_free);
  self->doubtful = g_ptr_array_new_with_free_func (message_free);
  return self;
}

void
bench_book_free (BenchBook *self)
{
  g_ptr_array_unref (self->messages);
  g_ptr_array_unref (self->doubtful);
  g_free (self);
}

static void
forget_doubt (BenchBook *self)
{
  g_ptr_array_set_size (self->doubtful, 0);
  self->n_doubtful = 0;
  self->doubt = NO_DOUBT;
}

void
bench_book_begin (BenchBook  *self,
                  const char *system,
                  guint64     revision)
{
  g_ptr_array_set_size (self->messages, 0);
  forget_doubt (self);
  if (system != NULL)
    add_message (self->messages, "system", system, FALSE);
  self->revision = revision;
}

void
bench_book_add (BenchBook  *self,
                const char *said,
                const char *answer)
{
  forget_doubt (self);
  add_message (self->messages, "user", said, TRUE);
  if (answer != NULL)
    add_message (self->messages, "assistant", answer, FALSE);
  self->revision++;
}

/* The messages that stay when the last @n turns go. */
static guint
count_kept (BenchBook *self,
            guint      n)
{
  guint kept = self->messages->len;

  while (n > 0 && kept > 0)
    {
      const Message *message = g_ptr_array_index (self->messages, --kept);

      if (message->begins)
        n--;
    }
  return kept;
}

void
bench_book_roll_back (BenchBook *self,
                      guint      n)
{
  forget_doubt (self);
  g_ptr_array_set_size (self->messages, (int) count_kept (self, n));
  self->revision++;
}

void
bench_book_doubt_add (BenchBook  *self,
                      const char *said,
                      gboolean    answered)
{
  forget_doubt (self);
  self->doubt = DOUBT_ADDED;
  add_message (self->doubtful, "user", said, TRUE);
  if (answered)
    add_message (self->doubtful, "assistant", ANY_TEXT, FALSE);
}

void
bench_book_doubt_roll_back (BenchBook *self,
                            guint      n)
{
  forget_doubt (self);
  self->doubt = DOUBT_ROLLED_BACK;
  self->n_doubtful = n;
}

guint64
bench_book_get_revision (BenchBook *self)
{
  return self->revision;
}

guint
bench_book_get_n_turns (BenchBook *self)
{
  guint n = 0;

  for (guint i = 0; i < self->messages->len; i++)
    n += ((Message *) g_ptr_array_index (self->messages, i))->begins ? 1 : 0;
  return n;
}

/* The doubt was justified: it has happened. */
static void
believe (BenchBook *self)
{
  if (self->doubt == DOUBT_ROLLED_BACK)
    {
      g_ptr_array_set_size (self->messages, (int) count_kept (self, self->n_doubtful));
    }
  else
    {
      while (self->doubtful->len > 0)
        g_ptr_array_add (self->messages, g_ptr_array_steal_index (self->doubtful, 0));
    }
  self->revision++;
  forget_doubt (self);
}

/* Compares one, and takes note of a text that was not known. */
static gboolean
compare_message (Message  *wanted,
                 GVariant *found)
{
  const char *role, *text;

  g_variant_get (found, "(&s&s@a{sv})", &role, &text, NULL);
  if (strcmp (role, wanted->role) != 0)
    return FALSE;
  if (wanted->text == ANY_TEXT)
    wanted->text = g_strdup (text);
  return strcmp (text, wanted->text) == 0;
}

gboolean
bench_book_compare (BenchBook *self,
                    GVariant  *messages,
                    guint64    revision,
                    GError   **error)
{
  gsize n = g_variant_n_children (messages);

  if (self->doubt != NO_DOUBT && revision == self->revision + 1)
    believe (self);
  else if (self->doubt != NO_DOUBT)
    forget_doubt (self);

  if (revision != self->revision)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                   "The context is at revision %" G_GUINT64_FORMAT
                   ", acknowledged was %" G_GUINT64_FORMAT,
                   revision, self->revision);
      return FALSE;
    }
  if (n != self->messages->len)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                   "The context has %zu messages, acknowledged were %u", n, self->messages->len);
      return FALSE;
    }
  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) found = g_variant_get_child_value (messages, i);

      if (!compare_message (g_ptr_array_index (self->messages, i), found))
        {
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                       "Message %zu of %zu is not the one that was acknowledged", i + 1, n);
          return FALSE;
        }
    }
  return TRUE;
}
