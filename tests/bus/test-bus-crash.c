/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The daemon is killed at random moments of conversations, a hundred times over.
 * Whatever was acknowledged (the reply of Ask, the `done` line of Generate) must
 * be found again; of what was not, a turn is there as a whole or not at all.
 */

#include <errno.h>
#include <gio/gio.h>
#include <gio/gunixfdlist.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"

#define N_ROUNDS 100
#define N_CONTEXTS 3
#define MAX_TURNS_BEFORE 2
#define FIRST_GUESS_US 50000
#define MAX_STORED_MESSAGES 24
#define SEED 20240607

typedef struct
{
  char *prompt;
  char *answer;
} Turn;

typedef struct
{
  char *path;
  GPtrArray *turns;  /* (element-type Turn) (owned): those that must be there */
} Talk;

/* What is said to the daemon and not yet acknowledged. */
typedef struct
{
  GDBusConnection *app;
  Talk *talk;
  char *prompt;       /* (nullable): NULL when nothing is */
  gboolean by_pipe;
  gboolean is_replied;
  int fd;             /* -1 for none */
  GString *line;      /* read from the pipe so far */
  char *answer;       /* (nullable): of an acknowledged turn */
  gboolean is_acknowledged;
} Said;

static void
turn_free (gpointer data)
{
  Turn *turn = data;

  g_free (turn->prompt);
  g_free (turn->answer);
  g_free (turn);
}

/* @answer: (nullable): NULL when the test has not seen it */
static void
add_turn (Talk       *talk,
          const char *prompt,
          const char *answer)
{
  Turn *turn = g_new0 (Turn, 1);

  turn->prompt = g_strdup (prompt);
  turn->answer = g_strdup (answer);
  g_ptr_array_add (talk->turns, turn);
}

static void
on_asked (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  Said *said = data;
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  said->is_replied = TRUE;
  if (reply == NULL)
    return;

  g_variant_get (reply, "(s@a{sv})", &said->answer, NULL);
  said->is_acknowledged = TRUE;
}

static void
on_generating (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  Said *said = data;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GVariant) reply = NULL;

  reply = g_dbus_connection_call_with_unix_fd_list_finish (G_DBUS_CONNECTION (source), &fds,
                                                           result, NULL);
  said->is_replied = TRUE;
  if (reply == NULL)
    return;

  said->fd = g_unix_fd_list_get (fds, 0, NULL);
  g_assert_cmpint (said->fd, >=, 0);
  g_assert_true (g_unix_set_fd_nonblocking (said->fd, TRUE, NULL));
}

static void
say (Said       *said,
     Talk       *talk,
     const char *prompt,
     gboolean    by_pipe)
{
  GVariant *options = bus_options ("{'max-tokens': <uint32 5>}");
  GVariantBuilder messages;

  said->talk = talk;
  said->prompt = g_strdup (prompt);
  said->by_pipe = by_pipe;
  said->is_replied = FALSE;
  said->is_acknowledged = FALSE;
  said->fd = -1;
  g_string_truncate (said->line, 0);
  g_clear_pointer (&said->answer, g_free);

  if (!by_pipe)
    {
      g_dbus_connection_call (said->app, LLMSVC_BUS_NAME, talk->path, LLMSVC_CONTEXT_INTERFACE,
                              "Ask", g_variant_new ("(s@a{sv})", prompt, options), NULL,
                              G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS, NULL, on_asked, said);
      return;
    }

  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", prompt, NULL);
  g_dbus_connection_call_with_unix_fd_list (
    said->app, LLMSVC_BUS_NAME, talk->path, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(@a(ssa{sv})@a{sv})", g_variant_builder_end (&messages), options), NULL,
    G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS, NULL, NULL, on_generating, said);
}

/* Goes on with what was said. TRUE when it came to an end, acknowledged or not. */
static gboolean
listen_on (Said *said)
{
  char buffer[1024];
  ssize_t n;

  while (g_main_context_iteration (NULL, FALSE))
    ;
  if (!said->is_replied || !said->by_pipe || said->fd < 0)
    return said->is_replied;

  while ((n = read (said->fd, buffer, sizeof buffer)) > 0)
    g_string_append_len (said->line, buffer, n);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return FALSE;

  g_assert_cmpint (n, ==, 0);
  close (said->fd);
  said->fd = -1;
  said->is_acknowledged = strstr (said->line->str, "{\"done\":") != NULL;
  return TRUE;
}

static void
acknowledge (Said *said)
{
  if (said->is_acknowledged)
    {
      add_turn (said->talk, said->prompt, said->answer);
      g_clear_pointer (&said->prompt, g_free);
    }
}

/* Compares what the daemon has with what it must have, plus perhaps the whole turn
 * that was under way, which then must be there from now on. */
static gboolean
check_talk (GDBusConnection *app,
            Talk            *talk,
            const char      *under_way)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) messages = NULL;
  gboolean has_more;
  guint n;

  reply = bus_call_ok (app, talk->path, ".Context", "GetMessages",
                       g_variant_new ("(uu@a{sv})", 0, 0, bus_options ("{}")));
  messages = g_variant_get_child_value (reply, 0);
  n = (guint) g_variant_n_children (messages);

  /* whole turns only, none lost, at most the one under way added */
  g_assert_cmpuint (n % 2, ==, 0);
  g_assert_cmpuint (n / 2, >=, talk->turns->len);
  g_assert_cmpuint (n / 2, <=, talk->turns->len + (under_way != NULL ? 1 : 0));
  has_more = n / 2 > talk->turns->len;

  for (guint i = 0; i < n / 2; i++)
    {
      Turn *turn = i < talk->turns->len ? g_ptr_array_index (talk->turns, i) : NULL;
      const char *role, *prompt, *answer;

      g_variant_get_child (messages, 2 * i, "(&s&s@a{sv})", &role, &prompt, NULL);
      g_assert_cmpstr (role, ==, "user");
      g_assert_cmpstr (prompt, ==, turn != NULL ? turn->prompt : under_way);
      g_variant_get_child (messages, 2 * i + 1, "(&s&s@a{sv})", &role, &answer, NULL);
      g_assert_cmpstr (role, ==, "assistant");
      if (turn == NULL)
        add_turn (talk, under_way, answer);
      else if (turn->answer != NULL)
        g_assert_cmpstr (answer, ==, turn->answer);
      else
        turn->answer = g_strdup (answer);
    }

  return has_more;
}

/* Keeps conversations short, so that the test is. */
static void
shorten (GDBusConnection *app,
         Talk            *talk)
{
  g_autoptr(GVariant) reply = NULL;

  if (talk->turns->len * 2 < MAX_STORED_MESSAGES)
    return;

  reply = bus_call_ok (app, talk->path, ".Context", "Rollback",
                       g_variant_new ("(u@a{sv})", talk->turns->len, bus_options ("{}")));
  g_ptr_array_set_size (talk->turns, 0);
}

/* Says something and listens until the end of the turn, or for @patience_us. TRUE
 * when the turn came to its end. */
static gboolean
converse (Said    *said,
          Talk    *talk,
          GRand   *rand,
          guint    round,
          gint64   patience_us)
{
  g_autofree char *prompt = g_strdup_printf ("Round %u, %u: how are you?", round,
                                             g_rand_int_range (rand, 0, 1000));
  gint64 start_us = g_get_monotonic_time ();

  say (said, talk, prompt, g_rand_boolean (rand));
  while (!listen_on (said))
    {
      if (g_get_monotonic_time () - start_us >= patience_us)
        return FALSE;
      g_usleep (100);
    }

  /* nothing but a kill may make a call fail */
  g_assert_true (said->is_acknowledged);
  acknowledge (said);
  return TRUE;
}

static void
test_crash (void)
{
  g_autoptr(BusRig) rig = bus_rig_new (NULL, NULL);
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autoptr(GRand) rand = g_rand_new_with_seed (SEED);
  Said said = { .app = app, .fd = -1, .line = g_string_new (NULL) };
  Talk talks[N_CONTEXTS] = { 0 };
  /* how long a turn takes that has to load the model, and another */
  gint64 typical_us[2] = { FIRST_GUESS_US, FIRST_GUESS_US };
  guint n_acknowledged = 0, n_under_way = 0, n_whole = 0;

  for (guint i = 0; i < N_CONTEXTS; i++)
    {
      g_autofree char *name = g_strdup_printf ("talk %u", i);

      talks[i].path = bus_open (app, name);
      talks[i].turns = g_ptr_array_new_with_free_func (turn_free);
    }

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      guint n_before = (guint) g_rand_int_range (rand, 0, MAX_TURNS_BEFORE + 1);
      gint64 patience_us;

      for (guint i = 0; i < n_before; i++)
        {
          gint64 start_us = g_get_monotonic_time ();

          g_assert_true (converse (&said, &talks[g_rand_int_range (rand, 0, N_CONTEXTS)], rand,
                                   round, G_MAXINT64));
          typical_us[i > 0] = g_get_monotonic_time () - start_us;
          n_acknowledged++;
        }

      /* somewhere in the turn, or shortly after it */
      patience_us = (gint64) (g_rand_double_range (rand, 0, 1.2) *
                              (double) typical_us[n_before > 0]);
      n_acknowledged += converse (&said, &talks[g_rand_int_range (rand, 0, N_CONTEXTS)], rand,
                                  round, patience_us);
      bus_rig_end_daemon (rig, SIGKILL);
      while (said.prompt != NULL && !listen_on (&said))
        g_usleep (100);
      if (said.prompt != NULL && said.is_acknowledged)
        {
          /* the acknowledgement was on its way when the daemon died */
          acknowledge (&said);
          n_acknowledged++;
        }

      n_under_way += said.prompt != NULL;
      for (guint i = 0; i < N_CONTEXTS; i++)
        {
          gboolean is_its = said.prompt != NULL && said.talk == &talks[i];
          const char *under_way = is_its ? said.prompt : NULL;

          n_whole += check_talk (app, &talks[i], under_way);
          shorten (app, &talks[i]);
        }
      g_clear_pointer (&said.prompt, g_free);
    }

  g_test_message ("%u kills: %u turns acknowledged and found again; %u under way, of which %u were "
                  "there whole and %u not at all",
                  N_ROUNDS, n_acknowledged, n_under_way, n_whole, n_under_way - n_whole);
  g_assert_cmpuint (n_acknowledged, >=, N_ROUNDS / 2);
  g_assert_cmpuint (n_under_way, >, 0);

  for (guint i = 0; i < N_CONTEXTS; i++)
    {
      g_free (talks[i].path);
      g_ptr_array_unref (talks[i].turns);
    }
  g_string_free (said.line, TRUE);
  g_free (said.answer);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/bus/crash", test_crash);

  return g_test_run ();
}
