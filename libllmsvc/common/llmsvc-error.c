/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "common/llmsvc-error-private.h"

#include <string.h>

#include "common/llmsvc-names.h"

#define RETRY_BEGIN "[retry-after-ms="
#define MAX_RETRY_MS 86400000

/* In the order of LlmsvcError. */
static const GDBusErrorEntry entries[] = {
  { LLMSVC_ERROR_FAILED,            LLMSVC_ERROR_PREFIX "Failed" },
  { LLMSVC_ERROR_INVALID_OPTION,    LLMSVC_ERROR_PREFIX "InvalidOption" },
  { LLMSVC_ERROR_INVALID_ARGUMENT,  LLMSVC_ERROR_PREFIX "InvalidArgument" },
  { LLMSVC_ERROR_UNSUPPORTED,       LLMSVC_ERROR_PREFIX "Unsupported" },
  { LLMSVC_ERROR_NOT_FOUND,         LLMSVC_ERROR_PREFIX "NotFound" },
  { LLMSVC_ERROR_ALREADY_EXISTS,    LLMSVC_ERROR_PREFIX "AlreadyExists" },
  { LLMSVC_ERROR_NOT_AUTHORIZED,    LLMSVC_ERROR_PREFIX "NotAuthorized" },
  { LLMSVC_ERROR_NO_MODEL,          LLMSVC_ERROR_PREFIX "NoModel" },
  { LLMSVC_ERROR_INVALID_MODEL,     LLMSVC_ERROR_PREFIX "InvalidModel" },
  { LLMSVC_ERROR_CONTEXT_BUSY,      LLMSVC_ERROR_PREFIX "ContextBusy" },
  { LLMSVC_ERROR_CONTEXT_FULL,      LLMSVC_ERROR_PREFIX "ContextFull" },
  { LLMSVC_ERROR_OVERLOADED,        LLMSVC_ERROR_PREFIX "Overloaded" },
  { LLMSVC_ERROR_QUOTA_EXCEEDED,    LLMSVC_ERROR_PREFIX "QuotaExceeded" },
  { LLMSVC_ERROR_NO_MEMORY,         LLMSVC_ERROR_PREFIX "NoMemory" },
  { LLMSVC_ERROR_CONFLICT,          LLMSVC_ERROR_PREFIX "Conflict" },
  { LLMSVC_ERROR_CANCELLED,         LLMSVC_ERROR_PREFIX "Cancelled" },
  { LLMSVC_ERROR_DEADLINE_EXCEEDED, LLMSVC_ERROR_PREFIX "DeadlineExceeded" },
  { LLMSVC_ERROR_MESSAGE_TOO_LARGE, LLMSVC_ERROR_PREFIX "MessageTooLarge" },
  { LLMSVC_ERROR_STORAGE,           LLMSVC_ERROR_PREFIX "Storage" },
  { LLMSVC_ERROR_NOT_AVAILABLE,     LLMSVC_ERROR_PREFIX "NotAvailable" },
  { LLMSVC_ERROR_LOST,              LLMSVC_ERROR_PREFIX "Lost" },
  { LLMSVC_ERROR_LOST_KEPT,         LLMSVC_ERROR_PREFIX "LostKept" },
  { LLMSVC_ERROR_LOST_UNKNOWN,      LLMSVC_ERROR_PREFIX "LostUnknown" },
};
G_STATIC_ASSERT (G_N_ELEMENTS (entries) == LLMSVC_N_ERRORS);

/* --- what a message was made of --- */

#define DOMAIN "llmsvc-error-quark"

/* In a program with two copies of this file, its own and that of libllmsvc.so, one of them. */
static gboolean has_details = FALSE;

/* As G_DEFINE_EXTENDED_ERROR(), which can't take a name that is in use already, lays it out. */
G_STATIC_ASSERT (sizeof (LlmsvcErrorDetails) % (2 * sizeof (gsize)) == 0);
#define DETAILS(error) ((LlmsvcErrorDetails *) (error) - 1)

static void
init_details (GError *error)
{
}

static void
copy_details (const GError *from,
              GError       *to)
{
  const LlmsvcErrorDetails *details = DETAILS (from);

  *DETAILS (to) = (LlmsvcErrorDetails) {
    .format = details->format,
    .arguments = g_strdupv (details->arguments),
    .unquoted = details->unquoted,
    .cause = details->cause != NULL ? g_error_copy (details->cause) : NULL,
  };
}

static void
clear_details (GError *error)
{
  g_strfreev (DETAILS (error)->arguments);
  g_clear_error (&DETAILS (error)->cause);
}

GQuark
llmsvc_error_quark (void)
{
  static gsize is_registered = 0;
  static gsize quark = 0;

  if (g_once_init_enter (&is_registered))
    {
      if (g_quark_try_string (DOMAIN) == 0)
        {
          g_error_domain_register_static (DOMAIN, sizeof (LlmsvcErrorDetails), init_details,
                                          copy_details, clear_details);
          has_details = TRUE;
        }
      g_once_init_leave (&is_registered, 1);
    }
  g_dbus_error_register_error_domain (DOMAIN, &quark, entries, G_N_ELEMENTS (entries));
  return (GQuark) quark;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* Prints each argument by itself, as its own part of @format does. */
static void
take_apart (LlmsvcErrorDetails *details,
            const char         *format,
            va_list             args)
{
  g_autoptr(GStrvBuilder) arguments = g_strv_builder_new ();
  guint n = 0;

  for (const char *p = strchr (format, '%'); p != NULL; p = strchr (p, '%'))
    {
      gsize length = 2 + strspn (p + 1, "-+ #0123456789.hljzt");
      g_autofree char *part = g_strndup (p, length);
      g_autofree char *text = NULL;

      if (strchr ("feEgG", part[length - 1]) != NULL)
        text = g_strdup_printf (part, va_arg (args, double));
      else if (part[length - 1] == 's')
        text = g_strdup_printf (part, va_arg (args, const char *));
      else if (strpbrk (part, "jl") != NULL)
        text = g_strdup_printf (part, va_arg (args, guint64));
      else if (strpbrk (part, "zt") != NULL)
        text = g_strdup_printf (part, va_arg (args, gsize));
      else if (part[length - 1] != '%')
        text = g_strdup_printf (part, va_arg (args, int));
      if (text != NULL)
        {
          if (part[length - 1] == 's' && !g_str_has_prefix (p + length, "”"))
            details->unquoted |= (gsize) 1 << n;
          g_strv_builder_add (arguments, text);
          n++;
        }
      p += length;
    }
  details->format = format;
  details->arguments = g_strv_builder_end (arguments);
}

#pragma GCC diagnostic pop

GError *
llmsvc_error_new_valist (int           code,
                         const GError *cause,
                         const char   *format,
                         va_list       args)
{
  va_list again;
  GError *error;

  va_copy (again, args);
  error = g_error_new_valist (LLMSVC_ERROR, code, format, args);
  if (has_details)
    {
      take_apart (DETAILS (error), format, again);
      DETAILS (error)->cause = cause != NULL ? g_error_copy (cause) : NULL;
    }
  va_end (again);
  return error;
}

GError *
llmsvc_error_new (int           code,
                  const GError *cause,
                  const char   *format,
                  ...)
{
  va_list args;
  GError *error;

  va_start (args, format);
  error = llmsvc_error_new_valist (code, cause, format, args);
  va_end (args);
  return error;
}

const LlmsvcErrorDetails *
llmsvc_error_get_details (const GError *error)
{
  return has_details && error->domain == LLMSVC_ERROR && DETAILS (error)->format != NULL
           ? DETAILS (error)
           : NULL;
}

/* --- names and numbers --- */

const char *
llmsvc_error_get_name (LlmsvcError code)
{
  if ((guint) code >= LLMSVC_N_ERRORS)
    return NULL;

  return entries[code].dbus_error_name + strlen (LLMSVC_ERROR_PREFIX);
}

gint
llmsvc_error_get_retry_after (const GError *error)
{
  const char *place;
  char *end;
  guint64 ms;

  if (error == NULL || error->message == NULL)
    return -1;

  /* the last one: what stands before it may be a caller's own text */
  place = g_strrstr (error->message, RETRY_BEGIN);
  if (place == NULL || !g_ascii_isdigit (place[strlen (RETRY_BEGIN)]))
    return -1;

  ms = g_ascii_strtoull (place + strlen (RETRY_BEGIN), &end, 10);
  if (!g_str_equal (end, "]"))
    return -1;

  return (gint) MIN (ms, MAX_RETRY_MS);
}

typedef struct
{
  int code;
  LlmsvcError ours;
} Conversion;

/* Being refused a file is the service's trouble, not a missing right of the
 * caller, so PERMISSION_DENIED stays FAILED; so does TIMED_OUT, which is not the
 * deadline that the caller has set. */
static const Conversion io_codes[] = {
  { G_IO_ERROR_NOT_FOUND, LLMSVC_ERROR_NOT_FOUND },
  { G_IO_ERROR_EXISTS, LLMSVC_ERROR_ALREADY_EXISTS },
  { G_IO_ERROR_CANCELLED, LLMSVC_ERROR_CANCELLED },
  { G_IO_ERROR_INVALID_ARGUMENT, LLMSVC_ERROR_INVALID_ARGUMENT },
  { G_IO_ERROR_INVALID_FILENAME, LLMSVC_ERROR_INVALID_ARGUMENT },
  { G_IO_ERROR_NOT_SUPPORTED, LLMSVC_ERROR_UNSUPPORTED },
  { G_IO_ERROR_MESSAGE_TOO_LARGE, LLMSVC_ERROR_MESSAGE_TOO_LARGE },
  { G_IO_ERROR_NO_SPACE, LLMSVC_ERROR_STORAGE },
  { G_IO_ERROR_READ_ONLY, LLMSVC_ERROR_STORAGE },
  { G_IO_ERROR_TOO_MANY_OPEN_FILES, LLMSVC_ERROR_OVERLOADED },
};

static const Conversion file_codes[] = {
  { G_FILE_ERROR_NOENT, LLMSVC_ERROR_NOT_FOUND },
  { G_FILE_ERROR_EXIST, LLMSVC_ERROR_ALREADY_EXISTS },
  { G_FILE_ERROR_NOMEM, LLMSVC_ERROR_NO_MEMORY },
  { G_FILE_ERROR_INVAL, LLMSVC_ERROR_INVALID_ARGUMENT },
  { G_FILE_ERROR_NOSPC, LLMSVC_ERROR_STORAGE },
  { G_FILE_ERROR_ROFS, LLMSVC_ERROR_STORAGE },
  { G_FILE_ERROR_MFILE, LLMSVC_ERROR_OVERLOADED },
  { G_FILE_ERROR_NFILE, LLMSVC_ERROR_OVERLOADED },
};

static const Conversion bus_codes[] = {
  { G_DBUS_ERROR_INVALID_ARGS, LLMSVC_ERROR_INVALID_ARGUMENT },
  { G_DBUS_ERROR_INVALID_SIGNATURE, LLMSVC_ERROR_INVALID_ARGUMENT },
  { G_DBUS_ERROR_UNKNOWN_OBJECT, LLMSVC_ERROR_NOT_FOUND },
  { G_DBUS_ERROR_UNKNOWN_METHOD, LLMSVC_ERROR_UNSUPPORTED },
  { G_DBUS_ERROR_UNKNOWN_INTERFACE, LLMSVC_ERROR_UNSUPPORTED },
  { G_DBUS_ERROR_UNKNOWN_PROPERTY, LLMSVC_ERROR_UNSUPPORTED },
  { G_DBUS_ERROR_NOT_SUPPORTED, LLMSVC_ERROR_UNSUPPORTED },
  { G_DBUS_ERROR_ACCESS_DENIED, LLMSVC_ERROR_NOT_AUTHORIZED },
  { G_DBUS_ERROR_AUTH_FAILED, LLMSVC_ERROR_NOT_AUTHORIZED },
  { G_DBUS_ERROR_LIMITS_EXCEEDED, LLMSVC_ERROR_OVERLOADED },
  { G_DBUS_ERROR_NO_MEMORY, LLMSVC_ERROR_NO_MEMORY },
  { G_DBUS_ERROR_SERVICE_UNKNOWN, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_NAME_HAS_NO_OWNER, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_NO_SERVER, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_CHILD_EXITED, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_CHILD_SIGNALED, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_CONFIG_INVALID, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_EXEC_FAILED, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_FAILED, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_FILE_INVALID, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_FORK_FAILED, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_NO_MEMORY, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_PERMISSIONS_INVALID, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_SERVICE_INVALID, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_SERVICE_NOT_FOUND, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_SPAWN_SETUP_FAILED, LLMSVC_ERROR_NOT_AVAILABLE },
  { G_DBUS_ERROR_NO_REPLY, LLMSVC_ERROR_LOST },
  { G_DBUS_ERROR_DISCONNECTED, LLMSVC_ERROR_LOST },
};

/* What the bus passes on from systemd, which must not start the service. */
#define UNIT_MASKED "org.freedesktop.systemd1.UnitMasked"

static LlmsvcError
convert_code (const GError *error)
{
  const struct
  {
    GQuark domain;
    const Conversion *codes;
    gsize n_codes;
  } domains[] = {
    { G_IO_ERROR, io_codes, G_N_ELEMENTS (io_codes) },
    { G_FILE_ERROR, file_codes, G_N_ELEMENTS (file_codes) },
    { G_DBUS_ERROR, bus_codes, G_N_ELEMENTS (bus_codes) },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (domains); i++)
    for (gsize j = 0; error->domain == domains[i].domain && j < domains[i].n_codes; j++)
      if (error->code == domains[i].codes[j].code)
        return domains[i].codes[j].ours;
  if (error->domain == G_CONVERT_ERROR || error->domain == G_VARIANT_PARSE_ERROR)
    return LLMSVC_ERROR_INVALID_ARGUMENT;

  return LLMSVC_ERROR_FAILED;
}

/**
 * llmsvc_error_convert:
 * @error: (inout) (nullable): an error of any domain; %NULL or pointing to %NULL does nothing
 *
 * Replaces *@error by one of %LLMSVC_ERROR with the same message; the prefix
 * that GDBus puts before a remote one is taken off.
 */
void
llmsvc_error_convert (GError **error)
{
  g_autofree char *remote = NULL;
  LlmsvcError code;
  GError *converted;

  if (error == NULL || *error == NULL)
    return;

  remote = g_dbus_error_get_remote_error (*error);
  if (g_dbus_error_is_remote_error (*error))
    g_dbus_error_strip_remote_error (*error);

  if ((*error)->domain == LLMSVC_ERROR && (guint) (*error)->code < LLMSVC_N_ERRORS)
    return;

  code = g_strcmp0 (remote, UNIT_MASKED) == 0 ? LLMSVC_ERROR_NOT_AVAILABLE : convert_code (*error);
  converted = g_error_new_literal (LLMSVC_ERROR, (int) code, (*error)->message);
  g_error_free (*error);
  *error = converted;
}
