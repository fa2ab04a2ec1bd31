/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of the journal, at a socket that stands in for the journal's. */

#include <errno.h>
#include <gio/gio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/llm-journal.h"
#include "support/llm-test-folder.h"

typedef struct
{
  char *folder;
  char *path;
  int fd;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };

  fixture->folder = llm_test_folder_new ();
  fixture->path = g_build_filename (fixture->folder, "journal", NULL);
  g_assert_cmpuint (strlen (fixture->path), <, sizeof address.sun_path);
  strcpy (address.sun_path, fixture->path);
  fixture->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  g_assert_cmpint (bind (fixture->fd, (struct sockaddr *) &address, sizeof address), ==, 0);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  if (fixture->fd >= 0)
    close (fixture->fd);
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->path);
}

/* (transfer full) (nullable): the next datagram; NULL when none is there. */
static char *
receive (Fixture *fixture,
         gsize   *size)
{
  char buffer[16384];
  gssize n = recv (fixture->fd, buffer, sizeof buffer, 0);

  if (n < 0)
    {
      g_assert_cmpint (errno, ==, EAGAIN);
      return NULL;
    }
  if (size != NULL)
    *size = (gsize) n;
  return g_strndup (buffer, (gsize) n);
}

static const LlmJournalField no_fields[] = { { NULL, NULL } };

static void
test_fields (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmJournal) journal = llm_journal_new (fixture->path);
  const LlmJournalField fields[] = {
    { "LLM_UID", (char *) "1000" },
    { "LLM_LEFT_OUT", NULL },
    { "LLM_APP", (char *) "org.example.App" },
    { NULL, NULL },
  };
  g_autofree char *record = NULL;

  g_assert_true (llm_journal_is_connected (journal));
  g_assert_true (llm_journal_send (journal, "It is so", fields));
  record = receive (fixture, NULL);
  g_assert_cmpstr (record, ==,
                   "MESSAGE=It is so\nPRIORITY=6\nSYSLOG_IDENTIFIER=llmsvcd\nLLM_UID=1000\n"
                   "LLM_APP=org.example.App\n");
  g_assert_null (receive (fixture, NULL));
}

/* What has a line break can't pretend to be further fields. */
static void
test_line_break (Fixture      *fixture,
                 gconstpointer data)
{
  static const char value[] = "one\nPRIORITY=0";
  static const char wanted[] = "LLM_APP\n\016\0\0\0\0\0\0\0one\nPRIORITY=0\n";
  g_autoptr(LlmJournal) journal = llm_journal_new (fixture->path);
  const LlmJournalField fields[] = { { "LLM_APP", (char *) value }, { NULL, NULL } };
  char buffer[4096];
  gssize n;

  g_assert_true (llm_journal_send (journal, "It is so", fields));
  n = recv (fixture->fd, buffer, sizeof buffer, 0);
  g_assert_cmpint (n, >, (gssize) sizeof wanted);
  g_assert_cmpmem (buffer + n - (gssize) (sizeof wanted - 1), sizeof wanted - 1, wanted,
                   sizeof wanted - 1);
}

/* Whoever asks in a loop does not fill the journal; how many are missing is told. */
static void
test_flood (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmJournal) journal = llm_journal_new (fixture->path);
  guint n_sent = 0;
  guint n_received = 0;
  gboolean is_told = FALSE;

  for (guint i = 0; i < 5000; i++)
    {
      char *record;

      n_sent += llm_journal_send (journal, "Again", no_fields);
      while ((record = receive (fixture, NULL)) != NULL)
        {
          n_received++;
          g_free (record);
        }
    }
  /* the bucket, and what time gives it meanwhile */
  g_assert_cmpuint (n_sent, >=, 200);
  g_assert_cmpuint (n_sent, <, 4000);
  g_assert_cmpuint (n_received, ==, n_sent);

  while (!is_told)
    {
      g_autofree char *record = NULL;

      llm_journal_send (journal, "Later", no_fields);
      record = receive (fixture, NULL);
      is_told = record != NULL && strstr (record, "\nLLM_DROPPED_RECORDS=") != NULL;
      g_usleep (1000);
    }
}

/* One that does not read, or is not there, holds nobody up. */
static void
test_not_read (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(LlmJournal) journal = llm_journal_new (fixture->path);
  /* more in all than a socket has room for */
  g_autofree char *message = g_strnfill (8000, 'x');
  guint n_sent = 0;

  for (guint i = 0; i < 150; i++)
    n_sent += llm_journal_send (journal, message, no_fields);
  g_assert_cmpuint (n_sent, >, 0);
  g_assert_cmpuint (n_sent, <, 150);

  close (fixture->fd);
  fixture->fd = -1;
  g_assert_false (llm_journal_send (journal, "Nobody is there", no_fields));
}

static void
test_none (Fixture      *fixture,
           gconstpointer data)
{
  g_autofree char *long_path = g_strnfill (500, 'x');
  g_autoptr(LlmJournal) none = llm_journal_new (NULL);
  g_autoptr(LlmJournal) too_long = llm_journal_new (long_path);

  /* a test's stderr is not the journal */
  g_assert_false (llm_journal_is_connected (none));
  g_assert_false (llm_journal_send (none, "To nobody", no_fields));
  g_assert_false (llm_journal_is_connected (too_long));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) \
  g_test_add ("/base/journal/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("fields", test_fields);
  ADD ("line-break", test_line_break);
  ADD ("flood", test_flood);
  ADD ("not-read", test_not_read);
  ADD ("none", test_none);

  return g_test_run ();
}
