/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "test-error"

#include "common/llmsvc-error-private.h"

#include "common/llmsvc-names.h"

static void
test_names (void)
{
  for (int code = 0; code < LLMSVC_N_ERRORS; code++)
    {
      const char *name = llmsvc_error_get_name ((LlmsvcError) code);
      g_autoptr(GError) error = g_error_new_literal (LLMSVC_ERROR, code, "a message");
      g_autofree char *expected = g_strconcat (LLMSVC_ERROR_PREFIX, name, NULL);
      g_autofree char *on_bus = g_dbus_error_encode_gerror (error);

      g_assert_nonnull (name);
      g_assert_true (g_ascii_isupper (name[0]));
      g_assert_cmpstr (on_bus, ==, expected);
    }

  g_assert_cmpstr (llmsvc_error_get_name (LLMSVC_ERROR_CONTEXT_FULL), ==, "ContextFull");
  g_assert_null (llmsvc_error_get_name (LLMSVC_N_ERRORS));
  g_assert_null (llmsvc_error_get_name ((LlmsvcError) -1));
}

/* What a caller makes of an error that came over the bus. */
static void
test_remote (void)
{
  g_autoptr(GError) error = NULL;

  (void) LLMSVC_ERROR;
  error = g_dbus_error_new_for_dbus_error (LLMSVC_ERROR_PREFIX "ContextBusy", "It writes");
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_BUSY);

  llmsvc_error_convert (&error);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_BUSY);
  g_assert_cmpstr (error->message, ==, "It writes");

  /* what systemd says of a unit that it must not start */
  g_clear_error (&error);
  error = g_dbus_error_new_for_dbus_error ("org.freedesktop.systemd1.UnitMasked", "It is masked");
  llmsvc_error_convert (&error);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE);
  g_assert_cmpstr (error->message, ==, "It is masked");
}

static void
test_convert (void)
{
  const struct
  {
    GQuark domain;
    int code;
    LlmsvcError expected;
  } cases[] = {
    { G_IO_ERROR, G_IO_ERROR_NOT_FOUND, LLMSVC_ERROR_NOT_FOUND },
    { G_IO_ERROR, G_IO_ERROR_CANCELLED, LLMSVC_ERROR_CANCELLED },
    { G_IO_ERROR, G_IO_ERROR_NO_SPACE, LLMSVC_ERROR_STORAGE },
    { G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, LLMSVC_ERROR_INVALID_ARGUMENT },
    { G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED, LLMSVC_ERROR_FAILED },
    { G_IO_ERROR, 9999, LLMSVC_ERROR_FAILED },
    { G_FILE_ERROR, G_FILE_ERROR_NOENT, LLMSVC_ERROR_NOT_FOUND },
    { G_FILE_ERROR, G_FILE_ERROR_NOSPC, LLMSVC_ERROR_STORAGE },
    { G_FILE_ERROR, G_FILE_ERROR_NOMEM, LLMSVC_ERROR_NO_MEMORY },
    { G_FILE_ERROR, G_FILE_ERROR_IO, LLMSVC_ERROR_FAILED },
    { G_DBUS_ERROR, G_DBUS_ERROR_ACCESS_DENIED, LLMSVC_ERROR_NOT_AUTHORIZED },
    { G_DBUS_ERROR, G_DBUS_ERROR_INVALID_ARGS, LLMSVC_ERROR_INVALID_ARGUMENT },
    { G_DBUS_ERROR, G_DBUS_ERROR_UNKNOWN_METHOD, LLMSVC_ERROR_UNSUPPORTED },
    { G_CONVERT_ERROR, G_CONVERT_ERROR_ILLEGAL_SEQUENCE, LLMSVC_ERROR_INVALID_ARGUMENT },
    { G_KEY_FILE_ERROR, G_KEY_FILE_ERROR_PARSE, LLMSVC_ERROR_FAILED },
    { LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED, LLMSVC_ERROR_QUOTA_EXCEEDED },
    { LLMSVC_ERROR, LLMSVC_N_ERRORS, LLMSVC_ERROR_FAILED },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GError) error =
          g_error_new (cases[i].domain, cases[i].code, "message %" G_GSIZE_FORMAT, i);
      g_autofree char *message = g_strdup (error->message);

      llmsvc_error_convert (&error);
      g_assert_error (error, LLMSVC_ERROR, (int) cases[i].expected);
      g_assert_cmpstr (error->message, ==, message);
    }
}

static void
test_nothing (void)
{
  GError *error = NULL;

  llmsvc_error_convert (NULL);
  llmsvc_error_convert (&error);
  g_assert_no_error (error);
}

static int
get_retry_after (const char *message)
{
  g_autoptr(GError) error = g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED, message);

  return llmsvc_error_get_retry_after (error);
}

static void
test_retry_after (void)
{
  g_assert_cmpint (get_retry_after ("Try again [retry-after-ms=250]"), ==, 250);
  g_assert_cmpint (get_retry_after ("[retry-after-ms=0]"), ==, 0);
  g_assert_cmpint (get_retry_after ("“[retry-after-ms=7]” is busy [retry-after-ms=9]"), ==, 9);
  g_assert_cmpint (get_retry_after ("x [retry-after-ms=99999999999999999999]"), ==, 86400000);

  g_assert_cmpint (get_retry_after ("Try again"), ==, -1);
  g_assert_cmpint (get_retry_after (""), ==, -1);
  g_assert_cmpint (get_retry_after ("[retry-after-ms=250] or later"), ==, -1);
  g_assert_cmpint (get_retry_after ("[retry-after-ms=-5]"), ==, -1);
  g_assert_cmpint (get_retry_after ("[retry-after-ms= 5]"), ==, -1);
  g_assert_cmpint (get_retry_after ("[retry-after-ms="), ==, -1);
  g_assert_cmpint (llmsvc_error_get_retry_after (NULL), ==, -1);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/error/names", test_names);
  g_test_add_func ("/error/remote", test_remote);
  g_test_add_func ("/error/convert", test_convert);
  g_test_add_func ("/error/nothing", test_nothing);
  g_test_add_func ("/error/retry-after", test_retry_after);

  return g_test_run ();
}
