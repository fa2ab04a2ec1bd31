/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages that the relay in front of the gate must take apart by itself: damaged, misread by
 * GDBus, or larger than any honest one; and the end of either side. */

#include <string.h>
#include <unistd.h>

#include "bus/limits/llm-bus-relay.h"
#include "common/llmsvc-names.h"
#include "gate-rig.h"

#define LONG_PATH (1024 * 1024)
#define STUCK_BYTES (4 * 1024 * 1024)
#define UNKNOWN_FIELD 77

/* (transfer full): a call of the test's object as bytes, from @sender. */
static guint8 *
make_blob (const char *sender,
           const char *text,
           gsize      *length)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");
  g_autoptr(GError) error = NULL;
  guint8 *blob;

  g_dbus_message_set_sender (message, sender);
  g_dbus_message_set_serial (message, 77);
  g_dbus_message_set_body (message, g_variant_new ("(s)", text));
  blob = g_dbus_message_to_blob (message, length, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  return blob;
}

static void
test_head (void)
{
  gsize length;
  g_autofree guint8 *blob = make_blob (SENDER, "text", &length);
  g_autoptr(GRand) random = g_rand_new_with_seed (1);
  LlmBusHead head;

  g_assert_true (llm_bus_head_measure (blob, &head));
  g_assert_cmpuint (head.n_head + head.n_body, ==, length);
  g_assert_true (llm_bus_head_parse (blob, &head));
  g_assert_cmpstr (head.sender, ==, SENDER);
  g_assert_cmpuint (head.serial, ==, 77);
  g_assert_cmpuint (head.type, ==, G_DBUS_MESSAGE_TYPE_METHOD_CALL);
  g_assert_cmpuint (head.n_fds, ==, 0);

  /* damaged in any way, it is read within its bounds */
  for (guint i = 0; i < 20000; i++)
    {
      g_autofree guint8 *copy = g_memdup2 (blob, length);
      g_autofree guint8 *exact = NULL;

      for (guint n = 0; n < 3; n++)
        copy[g_rand_int_range (random, 0, (gint32) length)] = (guint8) g_rand_int (random);
      if (!llm_bus_head_measure (copy, &head) || head.n_head > length)
        continue;
      exact = g_memdup2 (copy, head.n_head);
      if (llm_bus_head_parse (exact, &head) && head.sender != NULL)
        g_assert_cmpuint (strlen (head.sender), <, head.n_head);
    }
}

/* What GDBus can't read does not end the connection, and its sender is told. */
static void
test_spoilt (GateRig      *rig,
             gconstpointer data)
{
  gsize length;
  g_autofree guint8 *blob = make_blob (SENDER, "some text", &length);
  LlmBusHead head;

  rig->answers = TRUE;
  g_assert_true (llm_bus_head_measure (blob, &head));
  /* the text's length goes past the end */
  blob[head.n_head] = 200;
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (write (rig->raw, blob, length), ==, (gssize) length);
  while (llm_bus_gate_get_n_refused (rig->gate) < 3)
    g_usleep (1000);
  gate_rig_send_call (rig, OTHER, "", FALSE);
  while (rig->n_reached < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (g_dbus_connection_is_closed (rig->service));
  while (gate_rig_count_replies (rig) < 2)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (g_dbus_message_get_error_name (gate_rig_find_reply (rig, 77)), ==,
                   LLMSVC_ERROR_PREFIX "InvalidArgument");
}

/* A well-formed call whose array of entries ends with one of four bytes, right behind one that
 * fills its eight; GDBus goes on in the midst of the array. */
static guint8 *
make_misread_blob (const char *sender,
                   gsize      *length)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");
  g_autoptr(GError) error = NULL;
  guint8 *blob;

  g_dbus_message_set_sender (message, sender);
  g_dbus_message_set_serial (message, 77);
  g_dbus_message_set_body (message, g_variant_new_parsed ("([(@y 1, @g 'uuuuu'), (2, 'u')], 'x')"));
  blob = g_dbus_message_to_blob (message, length, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  return blob;
}

/* That body on the wire, by the specification. */
static const guint8 misread_body[] = {
  12, 0, 0, 0, 0, 0, 0, 0,          /* bytes of the array, and the padding in front of it */
  1, 5, 'u', 'u', 'u', 'u', 'u', 0, /* an entry of eight bytes */
  2, 1, 'u', 0,                     /* the last, of four */
  1, 0, 0, 0, 'x', 0,
};

static gboolean
is_no_end (const char    *domain,
           GLogLevelFlags level,
           const char    *message,
           gpointer       data)
{
  return FALSE;
}

static void
say_nothing (const char    *domain,
             GLogLevelFlags level,
             const char    *message,
             gpointer       data)
{
}

/* Without a relay, such a message ends the connection of GDBus, as of GLib 2.74; with one, its
 * sender is told. */
static void
test_misread (GateRig      *rig,
              gconstpointer data)
{
  gsize length;
  g_autofree guint8 *blob = make_misread_blob (SENDER, &length);
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_from_blob (blob, length, G_DBUS_CAPABILITY_FLAGS_NONE, NULL);
  LlmBusHead head;

  rig->answers = TRUE;
  g_assert_true (llm_bus_head_measure (blob, &head));
  g_assert_cmpmem (blob + head.n_head, head.n_body, misread_body, sizeof misread_body);
  if (message != NULL)
    {
      g_test_skip ("This GDBus reads arrays of small entries right");
      return;
    }

  if (data == NULL)
    {
      /* GDBus warns */
      guint handler = g_log_set_handler ("GLib-GIO", G_LOG_LEVEL_WARNING | G_LOG_FLAG_FATAL,
                                         say_nothing, NULL);

      g_test_log_set_fatal_handler (is_no_end, NULL);
      g_assert_cmpint (write (rig->raw, blob, length), ==, (gssize) length);
      while (!g_dbus_connection_is_closed (rig->service))
        g_main_context_iteration (NULL, TRUE);
      g_log_remove_handler ("GLib-GIO", handler);
      return;
    }
  g_assert_cmpint (write (rig->raw, blob, length), ==, (gssize) length);
  while (gate_rig_count_replies (rig) < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (g_dbus_message_get_error_name (gate_rig_find_reply (rig, 77)), ==,
                   LLMSVC_ERROR_PREFIX "InvalidArgument");
  gate_rig_send_call (rig, OTHER, "", FALSE);
  while (rig->n_reached < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (g_dbus_connection_is_closed (rig->service));
}

/* GDBus closes by itself what it can't read, as of the bus, whose messages nobody tries before. The
 * service must end all the same: tear_down() closes again. */
static void
test_parted (GateRig      *rig,
             gconstpointer data)
{
  gsize length;
  g_autofree guint8 *blob = make_misread_blob ("org.freedesktop.DBus", &length);
  guint handler;

  /* the text's length goes past the end */
  blob[length - 6] = 200;
  handler = g_log_set_handler ("GLib-GIO", G_LOG_LEVEL_WARNING | G_LOG_FLAG_FATAL, say_nothing,
                               NULL);
  g_test_log_set_fatal_handler (is_no_end, NULL);
  g_assert_cmpint (write (rig->raw, blob, length), ==, (gssize) length);
  while (!g_dbus_connection_is_closed (rig->service))
    g_main_context_iteration (NULL, TRUE);
  llm_bus_relay_close (rig->service);
  g_log_remove_handler ("GLib-GIO", handler);
}

/* A path may be as long as a message: that is too large, and nothing worse. */
static void
test_long_path (GateRig      *rig,
                gconstpointer data)
{
  g_autofree char *name = g_strnfill (LONG_PATH, 'a');
  g_autofree char *path = g_strconcat ("/", name, NULL);
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (NULL, path, "org.example.Test", "Do");
  g_autoptr(GError) error = NULL;
  guint32 serial;

  rig->answers = TRUE;
  g_dbus_message_set_sender (message, SENDER);
  g_dbus_connection_send_message (rig->bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, &serial,
                                  &error);
  g_assert_no_error (error);
  while (gate_rig_count_replies (rig) < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (g_dbus_message_get_error_name (gate_rig_find_reply (rig, serial)), ==,
                   LLMSVC_ERROR_PREFIX "MessageTooLarge");
  gate_rig_send_call (rig, OTHER, "", FALSE);
  while (rig->n_reached < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (g_dbus_connection_is_closed (rig->service));
}

/* A field that the specification does not have. Of a fixed size, it is passed over; of another
 * type, whoever sends it does not get past the gate with it. */
static void
test_unknown_field (GateRig      *rig,
                    gconstpointer data)
{
  static const char *const values[] = { "[uint32 7]", "uint64 7" };

  rig->answers = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_autoptr(GDBusMessage) message =
        g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");
      g_autofree guint8 *blob = NULL;
      g_autoptr(GError) error = NULL;
      gsize length;

      g_dbus_message_set_header (message, (GDBusMessageHeaderField) UNKNOWN_FIELD,
                                 g_variant_new_parsed (values[i]));
      g_dbus_message_set_sender (message, SENDER);
      g_dbus_message_set_serial (message, 80 + i);
      g_dbus_message_set_body (message, g_variant_new ("(s)", "text"));
      blob = g_dbus_message_to_blob (message, &length, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
      g_assert_no_error (error);
      g_assert_cmpint (write (rig->raw, blob, length), ==, (gssize) length);
    }
  gate_rig_send_call (rig, OTHER, "", FALSE);
  while (rig->n_reached < 2 || gate_rig_count_replies (rig) < 2)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (gate_rig_find_reply (rig, 80));
  g_assert_nonnull (gate_rig_find_reply (rig, 81));
}

/* The end of the service does not wait for a bus that reads nothing any more. */
static void
test_stuck (GateRig      *rig,
            gconstpointer data)
{
  g_autofree char *text = g_strnfill (STUCK_BYTES, 'x');
  g_autoptr(GError) error = NULL;

  /* the socket stays open, for there is another descriptor of it */
  g_dbus_connection_close_sync (rig->bus, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    {
      g_dbus_connection_emit_signal (rig->service, NULL, "/test", "org.example.Test", "Said",
                                     g_variant_new ("(s)", text), &error);
      g_assert_no_error (error);
    }
  llm_bus_relay_close (rig->service);
  g_assert_true (g_dbus_connection_is_closed (rig->service));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/bus/relay/head", test_head);
  g_test_add ("/bus/gdbus/misread", GateRig, NULL, gate_rig_set_up, test_misread,
              gate_rig_tear_down);
  g_test_add ("/bus/relay/misread", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up, test_misread,
              gate_rig_tear_down);
  g_test_add ("/bus/relay/parted", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up, test_parted,
              gate_rig_tear_down);
  g_test_add ("/bus/relay/long-path", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up,
              test_long_path, gate_rig_tear_down);
  g_test_add ("/bus/relay/unknown-field", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up,
              test_unknown_field, gate_rig_tear_down);
  g_test_add ("/bus/relay/stuck", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up, test_stuck,
              gate_rig_tear_down);
  g_test_add ("/bus/relay/spoilt", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up, test_spoilt,
              gate_rig_tear_down);

  return g_test_run ();
}
