/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl http: keys of programs that use the endpoint for OpenAI's HTTP, over TCP. Only their hashes are
 * kept, in the file that llmsvc-http(8) reads. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <pwd.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "llmctl/llmctl.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/output/llmctl-rows.h"

#define DEFAULT_FILE "/etc/llmsvc/http-keys"
#define KEY_PREFIX "llm-"
#define KEY_BYTES 32
#define MAX_NAME_BYTES 255
/* Hashes of random keys tell nothing; the endpoint has a user of its own. */
#define FILE_MODE 0644

static char *file_name;
static char *user_name;

static const GOptionEntry file_options[] = {
  { "file", 'f', 0, G_OPTION_ARG_FILENAME, &file_name,
    N_("The file of keys (/etc/llmsvc/http-keys)"), N_("FILE") },
  G_OPTION_ENTRY_NULL
};

static const GOptionEntry user_options[] = {
  { "user", 'u', 0, G_OPTION_ARG_STRING, &user_name,
    N_("Whose application it is, by name or number (the caller's)"), N_("USER") },
  G_OPTION_ENTRY_NULL
};

static const char *
get_file (void)
{
  return file_name != NULL ? file_name : DEFAULT_FILE;
}

/* (nullable): an empty one where there is no file. */
static GKeyFile *
load (GError **error)
{
  g_autoptr(GKeyFile) keys = g_key_file_new ();
  g_autoptr(GError) cause = NULL;

  if (!g_key_file_load_from_file (keys, get_file (), G_KEY_FILE_KEEP_COMMENTS, &cause)
      && !g_error_matches (cause, G_FILE_ERROR, G_FILE_ERROR_NOENT))
    {
      g_set_error (error, cause->domain, cause->code, _("The keys in “%s” can't be read: %s"), get_file (),
                   cause->message);
      return NULL;
    }
  return g_steal_pointer (&keys);
}

static gboolean
save (GKeyFile  *keys,
      GError   **error)
{
  g_autofree char *text = g_key_file_to_data (keys, NULL, NULL);
  g_autoptr(GError) cause = NULL;

  if (g_file_set_contents_full (get_file (), text, -1,
                                G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE, FILE_MODE,
                                &cause)
      && g_chmod (get_file (), FILE_MODE) == 0)
    return TRUE;
  g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, _("The keys in “%s” can't be changed: %s"), get_file (),
               cause != NULL ? cause->message : g_strerror (errno));
  return FALSE;
}

/* As the service takes a name of an application, see Register(). */
static gboolean
is_name (const char *name)
{
  gsize length = strspn (name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._-");

  return length > 0 && length <= MAX_NAME_BYTES && name[length] == '\0' && name[0] != '.' && name[0] != '-'
         && !g_str_has_prefix (name, "flatpak.") && !g_str_has_prefix (name, "snap.");
}

static gboolean
find_user (guint64  *uid,
           GError  **error)
{
  const char *by_sudo = g_getenv ("SUDO_UID");
  const struct passwd *entry;

  if (user_name == NULL)
    {
      *uid = getuid ();
      if (getuid () == 0 && by_sudo != NULL)
        g_ascii_string_to_unsigned (by_sudo, 10, 0, G_MAXUINT32 - 1, uid, NULL);
      return TRUE;
    }
  if (g_ascii_string_to_unsigned (user_name, 10, 0, G_MAXUINT32 - 1, uid, NULL))
    return TRUE;
  entry = getpwnam (user_name);
  if (entry == NULL)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, _("There is no user “%s”"), user_name);
      return FALSE;
    }
  *uid = entry->pw_uid;
  return TRUE;
}

/* --- add --- */

/* (transfer full) (nullable) */
static char *
make_key (GError **error)
{
  guint8 random[KEY_BYTES];
  g_autofree char *text = NULL;

  if (getrandom (random, sizeof random, 0) != sizeof random)
    {
      g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, g_strerror (errno));
      return NULL;
    }
  text = g_base64_encode (random, sizeof random);
  g_strdelimit (text, "+", '-');
  g_strdelimit (text, "/", '_');
  text[strcspn (text, "=")] = '\0';
  return g_strconcat (KEY_PREFIX, text, NULL);
}

static LlmctlExit
run_add (int       argc,
         char    **argv,
         GError  **error)
{
  const char *name = argv[1];
  g_autoptr(GKeyFile) keys = NULL;
  g_autofree char *key = NULL;
  g_autofree char *hash = NULL;
  guint64 uid;

  if (!is_name (name))
    return llmctl_complain_usage (_("“%s” is no name of an application: letters, digits, “.”, “_” and “-”, not "
                                    "beginning with “.” or “-”, nor as an application in a sandbox"), name);
  if (!find_user (&uid, error) || (keys = load (error)) == NULL)
    return LLMCTL_EXIT_FAILED;
  if (g_key_file_has_group (keys, name))
    {
      g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_EXIST,
                   _("“%s” has a key: remove it first, or use another name"), name);
      return LLMCTL_EXIT_FAILED;
    }
  key = make_key (error);
  if (key == NULL)
    return LLMCTL_EXIT_FAILED;
  hash = g_compute_checksum_for_string (G_CHECKSUM_SHA256, key, -1);
  g_key_file_set_uint64 (keys, name, "user", uid);
  g_key_file_set_string (keys, name, "hash", hash);
  if (!save (keys, error))
    return LLMCTL_EXIT_FAILED;
  if (llmctl_globals.is_json)
    llmctl_output_json (g_variant_new_parsed ("{'name': <%s>, 'user': <%u>, 'key': <%s>}", name, (guint) uid, key));
  else
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", key);
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand add_command = {
  .name = "add",
  .parameters = N_("NAME"),
  .summary = N_("Make a key for an application, and print it"),
  .description = N_("It is shown this once: only its hash is kept. What is asked with it counts as asked by the "
                    "application of that name of the user.\n"
                    "--json: one object: name, user, key."),
  .options = file_options,
  .more_options = user_options,
  .missing = N_("Missing argument NAME"),
  .n_most = 1,
  .run = run_add,
};

/* --- list --- */

static const LlmctlColumn columns[] = {
  { N_("Application"), "name", llmctl_format_name },
  { N_("User"), "user", llmctl_format_number },
  { NULL }
};

static LlmctlExit
run_list (int       argc,
          char    **argv,
          GError  **error)
{
  g_autoptr(GKeyFile) keys = load (error);
  g_auto(GStrv) names = NULL;
  GVariantBuilder builder;

  if (keys == NULL)
    return LLMCTL_EXIT_FAILED;
  names = g_key_file_get_groups (keys, NULL);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; names[i] != NULL; i++)
    g_variant_builder_add_parsed (&builder, "{'name': <%s>, 'user': <%t>}", names[i],
                                  g_key_file_get_uint64 (keys, names[i], "user", NULL));
  llmctl_rows_show (columns, g_variant_builder_end (&builder), "keys", _("No application has a key"));
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand list_command = {
  .name = "list",
  .summary = N_("Show which applications have a key"),
  .description = N_("--json: one object: keys, an array of objects with name and user."),
  .options = file_options,
  .run = run_list,
};

/* --- remove --- */

static LlmctlExit
run_remove (int       argc,
            char    **argv,
            GError  **error)
{
  g_autoptr(GKeyFile) keys = load (error);

  if (keys == NULL)
    return LLMCTL_EXIT_FAILED;
  if (!g_key_file_remove_group (keys, argv[1], NULL))
    {
      g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT, _("“%s” has no key"), argv[1]);
      return LLMCTL_EXIT_FAILED;
    }
  if (!save (keys, error))
    return LLMCTL_EXIT_FAILED;
  if (llmctl_globals.is_json)
    llmctl_output_json (g_variant_new_parsed ("{'removed': <%s>}", argv[1]));
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand remove_command = {
  .name = "remove",
  .parameters = N_("NAME"),
  .summary = N_("Take an application's key back, at once"),
  .description = N_("--json: one object: removed, the name."),
  .options = file_options,
  .missing = N_("Missing argument NAME"),
  .n_most = 1,
  .run = run_remove,
};

static const LlmctlCommand *const key_commands[] = { &add_command, &list_command, &remove_command, NULL };

static const LlmctlCommand key_command = {
  .name = "key",
  .summary = N_("Make, list and remove keys of applications"),
  .commands = key_commands,
};

static const LlmctlCommand *const commands[] = { &key_command, NULL };

const LlmctlCommand llmctl_http_command = {
  .name = "http",
  .summary = N_("Keys for programs that speak OpenAI's HTTP"),
  .commands = commands,
};
