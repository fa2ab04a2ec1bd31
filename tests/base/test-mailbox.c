/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-mailbox.h"

typedef struct
{
  LlmMailbox *box;
  GArray *seen;      /* of guint */
  guint value;
  guint *n_destroyed;
} Note;

static void
note_free (gpointer data)
{
  Note *note = data;

  (*note->n_destroyed)++;
  g_free (note);
}

static void
see (gpointer data)
{
  Note *note = data;

  g_array_append_val (note->seen, note->value);
}

static void
post (LlmMailbox *box,
      GArray     *seen,
      guint       value,
      guint      *n_destroyed)
{
  Note *note = g_new (Note, 1);

  *note = (Note) { box, seen, value, n_destroyed };
  llm_mailbox_post (box, see, note, note_free);
}

static void
test_order (void)
{
  g_autoptr(LlmMailbox) box = llm_mailbox_new ();
  g_autoptr(GArray) seen = g_array_new (FALSE, FALSE, sizeof (guint));
  guint n_destroyed = 0;

  g_assert_cmpuint (llm_mailbox_dispatch (box, 0), ==, 0);
  for (guint i = 0; i < 10; i++)
    post (box, seen, i, &n_destroyed);
  g_assert_cmpuint (llm_mailbox_dispatch (box, -1), ==, 10);
  g_assert_cmpuint (n_destroyed, ==, 10);
  for (guint i = 0; i < 10; i++)
    g_assert_cmpuint (g_array_index (seen, guint, i), ==, i);
}

static void
post_again (gpointer data)
{
  Note *note = data;

  note->value++;
  llm_mailbox_post (note->box, post_again, note, NULL);
}

/* A message that posts another does not keep the receiver for ever. */
static void
test_no_endless_dispatch (void)
{
  LlmMailbox *box = llm_mailbox_new ();
  Note note = { .box = box };

  llm_mailbox_post (box, post_again, &note, NULL);
  g_assert_cmpuint (llm_mailbox_dispatch (box, 0), ==, 1);
  g_assert_cmpuint (llm_mailbox_dispatch (box, 0), ==, 1);
  g_assert_cmpuint (note.value, ==, 2);
  llm_mailbox_free (box);
}

static void
test_free_destroys (void)
{
  LlmMailbox *box = llm_mailbox_new ();
  g_autoptr(GArray) seen = g_array_new (FALSE, FALSE, sizeof (guint));
  guint n_destroyed = 0;

  post (box, seen, 1, &n_destroyed);
  llm_mailbox_free (box);
  g_assert_cmpuint (n_destroyed, ==, 1);
  g_assert_cmpuint (seen->len, ==, 0);
}

static void
test_timeout (void)
{
  g_autoptr(LlmMailbox) box = llm_mailbox_new ();

  g_assert_cmpuint (llm_mailbox_dispatch (box, 1000), ==, 0);
}

static void
quit (gpointer data)
{
  g_main_loop_quit (data);
}

static gpointer
post_from_thread (gpointer data)
{
  gpointer *args = data;

  llm_mailbox_post (args[0], quit, args[1], NULL);
  return NULL;
}

static void
test_main_loop (void)
{
  g_autoptr(LlmMailbox) box = llm_mailbox_new ();
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  gpointer args[] = { box, loop };
  GThread *thread;

  llm_mailbox_attach (box);
  thread = g_thread_new ("post", post_from_thread, args);
  g_main_loop_run (loop);
  g_thread_join (thread);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mailbox/order", test_order);
  g_test_add_func ("/mailbox/no-endless-dispatch", test_no_endless_dispatch);
  g_test_add_func ("/mailbox/free-destroys", test_free_destroys);
  g_test_add_func ("/mailbox/timeout", test_timeout);
  g_test_add_func ("/mailbox/main-loop", test_main_loop);
  return g_test_run ();
}
