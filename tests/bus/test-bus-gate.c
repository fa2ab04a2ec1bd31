/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which calls the gate lets in behind a relay, and what those hear whose
 * calls it does not. */

#include <string.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"
#include "gate-rig.h"

/* Of a connection that nobody knows yet, main sees so many calls and no more, and others are not
 * in its way. */
static void
test_unanswered (GateRig      *rig,
                 gconstpointer data)
{
  GDBusMessage *reply;
  guint32 serial = 0;

  for (guint i = 0; i < LLM_BUS_GATE_NEW_CALLS; i++)
    gate_rig_send_call (rig, SENDER, "", FALSE);
  serial = gate_rig_send_call (rig, SENDER, "", FALSE);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS, 1, 0);
  gate_rig_send_call (rig, OTHER, "", FALSE);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS + 1, 1, 0);

  /* the refusal comes later, and says when to try again */
  while (gate_rig_count_replies (rig) == 0)
    g_main_context_iteration (NULL, TRUE);
  reply = gate_rig_find_reply (rig, serial);
  g_assert_nonnull (reply);
  g_assert_cmpstr (g_dbus_message_get_error_name (reply), ==, LLMSVC_ERROR_PREFIX "Overloaded");
  {
    g_autoptr(GError) error = NULL;

    g_assert_true (g_dbus_message_to_gerror (reply, &error));
    g_assert_cmpint (llmsvc_error_get_retry_after (error), ==, LLM_BUS_GATE_REFUSAL_MS);
  }

  /* answers make room */
  gate_rig_answer_all (rig);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS + 1, 1, LLM_BUS_GATE_NEW_CALLS + 2);
  gate_rig_send_call (rig, SENDER, "", FALSE);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS + 2, 1, LLM_BUS_GATE_NEW_CALLS + 2);
}

/* Whoever wants no answers is counted all the same, and gets none. */
static void
test_silent (GateRig      *rig,
             gconstpointer data)
{
  for (guint i = 0; i < LLM_BUS_GATE_NEW_CALLS + 5; i++)
    gate_rig_send_call (rig, SENDER, "", TRUE);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS, 5, 0);
  gate_rig_answer_all (rig);
  gate_rig_send_call (rig, OTHER, "", FALSE);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS + 1, 5, 0);
  gate_rig_answer_all (rig);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS + 1, 5, 1);
  for (guint i = 0; i < 3; i++)
    gate_rig_send_call (rig, SENDER, "", TRUE);
  gate_rig_wait_for (rig, LLM_BUS_GATE_NEW_CALLS + 4, 5, 1);
}

/* A serial is good for one unanswered call: others of the same go past no limit, and no count. */
static void
test_serials (GateRig      *rig,
              gconstpointer data)
{
  guint32 serial;

  gate_rig_set_caller (rig, SENDER, 100, 0);
  serial = gate_rig_send_call (rig, SENDER, "", FALSE);
  for (guint i = 0; i < 10; i++)
    gate_rig_send_again (rig, SENDER, serial, "a longer text than that of the first");
  gate_rig_send_call (rig, OTHER, "", FALSE);
  gate_rig_wait_for (rig, 2, 0, 0);
  gate_rig_answer_all (rig);
  gate_rig_wait_for (rig, 2, 0, 2);
  gate_rig_send_again (rig, SENDER, serial, "");
  gate_rig_wait_for (rig, 3, 0, 2);
  gate_rig_answer_all (rig);
  gate_rig_wait_for (rig, 3, 0, 3);
  gate_rig_send_call (rig, SENDER, "", FALSE);
  gate_rig_wait_for (rig, 4, 0, 3);
}

/* A known application has what its quotas say; so has a user with all of them. */
static void
test_quotas (GateRig      *rig,
             gconstpointer data)
{
  guint n = 0;

  gate_rig_set_caller (rig, SENDER, 2, 0);
  while (llm_bus_gate_get_n_refused (rig->gate) == 0)
    {
      gate_rig_send_call (rig, SENDER, "", FALSE);
      n++;
      while (rig->n_reached + llm_bus_gate_get_n_refused (rig->gate) < n)
        gate_rig_look_again ();
    }
  g_test_message ("%u calls unanswered", rig->n_reached);
  g_assert_cmpuint (rig->n_reached, >, LLM_BUS_GATE_NEW_CALLS);
  g_assert_cmpuint (rig->n_reached, <, 1000);
  gate_rig_answer_all (rig);
  n = rig->n_reached;
  gate_rig_wait_for (rig, n, 1, n + 1);

  /* ten a second, and what was saved up */
  rig->answers = TRUE;
  rig->n_reached = 0;
  gate_rig_set_caller (rig, OTHER, 100, 1);
  for (guint i = 0; i < 10 * LLM_BUS_GATE_BURST_S; i++)
    gate_rig_send_call (rig, OTHER, "", FALSE);
  while (rig->n_reached + llm_bus_gate_get_n_refused (rig->gate) < 10 * LLM_BUS_GATE_BURST_S + 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (rig->n_reached, >=, LLM_BUS_GATE_BURST_S);
  g_assert_cmpuint (rig->n_reached, <, 10 * LLM_BUS_GATE_BURST_S);
}

/* What a reply weighs counts, too. */
static void
test_replies (GateRig      *rig,
              gconstpointer data)
{
  gate_rig_set_caller (rig, SENDER, 100, 1);
  gate_rig_send_call (rig, SENDER, "", FALSE);
  gate_rig_wait_for (rig, 1, 0, 0);
  gate_rig_answer_with (rig, 100);
  gate_rig_wait_for (rig, 1, 0, 1);
  gate_rig_send_call (rig, SENDER, "", FALSE);
  gate_rig_wait_for (rig, 2, 0, 1);
  gate_rig_answer_with (rig, 1024 * 1024);
  gate_rig_wait_for (rig, 2, 0, 2);
  gate_rig_send_call (rig, SENDER, "", FALSE);
  gate_rig_wait_for (rig, 2, 1, 2);
}

/* What is larger than any text may be never gets to main. */
static void
test_large (GateRig      *rig,
            gconstpointer data)
{
  g_autofree char *text = g_strnfill (10 * 1000 * 1000, 'x');
  guint32 serial = gate_rig_send_call (rig, SENDER, text, FALSE);
  GDBusMessage *reply;

  gate_rig_send_call (rig, SENDER, "", FALSE);
  while (rig->n_reached < 1 || gate_rig_count_replies (rig) < 1)
    g_main_context_iteration (NULL, TRUE);
  reply = gate_rig_find_reply (rig, serial);
  g_assert_nonnull (reply);
  g_assert_cmpstr (g_dbus_message_get_error_name (reply), ==,
                   LLMSVC_ERROR_PREFIX "MessageTooLarge");
}

static void
on_gone (GDBusConnection *connection,
         const char      *sender,
         const char      *path,
         const char      *interface,
         const char      *signal,
         GVariant        *arguments,
         gpointer         data)
{
  const char *name;

  g_variant_get (arguments, "(&s&s&s)", &name, NULL, NULL);
  g_string_append_printf (((GateRig *) data)->gone, "%s ", name);
}

/* Main hears of names, and of callers that leave: not of all who come and go. */
static void
test_owners (GateRig      *rig,
             gconstpointer data)
{
  g_dbus_connection_signal_subscribe (rig->service, NULL, "org.freedesktop.DBus",
                                      "NameOwnerChanged", NULL, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
                                      on_gone, rig, NULL);
  rig->answers = TRUE;
  g_assert_cmpint (llm_bus_gate_get_seen (rig->gate, SENDER), ==, 0);
  gate_rig_send_owner_change (rig, SENDER, "", SENDER);
  gate_rig_send_owner_change (rig, OTHER, "", OTHER);
  gate_rig_send_call (rig, SENDER, "", FALSE);
  gate_rig_send_owner_change (rig, OTHER, OTHER, "");
  gate_rig_send_owner_change (rig, SENDER, SENDER, "");
  gate_rig_send_owner_change (rig, "org.example.Name", "", ":1.9");
  while (strstr (rig->gone->str, "org.example.Name") == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (rig->gone->str, ==, SENDER " org.example.Name ");
  g_assert_cmpint (llm_bus_gate_get_seen (rig->gate, SENDER), ==, 0);

  /* the relay is ahead of the filter */
  gate_rig_send_owner_change (rig, SENDER, "", SENDER);
  while (llm_bus_gate_get_seen (rig->gate, SENDER) == 0)
    gate_rig_look_again ();
  gate_rig_send_call (rig, OTHER, "", FALSE);
  gate_rig_wait_for (rig, 2, 0, 2);
  g_assert_cmpint (llm_bus_gate_get_seen (rig->gate, OTHER), >=,
                   llm_bus_gate_get_seen (rig->gate, SENDER));
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *path;
    void (*test) (GateRig      *rig,
                  gconstpointer data);
  } tests[] = {
    { "/bus/gate/unanswered", test_unanswered },
    { "/bus/gate/silent", test_silent },
    { "/bus/gate/quotas", test_quotas },
    { "/bus/gate/serials", test_serials },
    { "/bus/gate/replies", test_replies },
    { "/bus/gate/large", test_large },
    { "/bus/gate/owners", test_owners },
  };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up, tests[i].test,
                gate_rig_tear_down);

  return g_test_run ();
}
