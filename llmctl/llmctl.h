/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the commands of llmctl share: how a command is described, so that help,
 * completion, man page and gates all read the same table; how it ends; which bus
 * it speaks to and how it says that something is wrong. One process runs one
 * command, so the options of a command live in static variables. One thread.
 */

#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#include "llmctl/output/llmctl-output.h"
#include "llmsvc.h"

G_BEGIN_DECLS

/* Scripts rely on these numbers. */
typedef enum
{
  LLMCTL_EXIT_OK = 0,
  LLMCTL_EXIT_FAILED = 1,
  LLMCTL_EXIT_USAGE = 2,
  LLMCTL_EXIT_TIME_LIMIT = 3,
  LLMCTL_EXIT_NOT_AVAILABLE = 4,
  LLMCTL_EXIT_NOT_AUTHORIZED = 5,
  LLMCTL_EXIT_OVERLOADED = 6,
  LLMCTL_EXIT_INTERRUPTED = 130,
} LlmctlExit;

/* What can come next on a command line, written as it is found. */
typedef struct
{
  const char *word;      /* what is typed of the argument so far; "" for nothing */
  const char *prefix;    /* stands before each candidate: "--context=" */
  GHashTable *offered;   /* (element-type utf8) (owned) */
} LlmctlCompletion;

/* What completion offers for arguments; from those of members on after “[PATH]”. */
typedef enum
{
  LLMCTL_NAMES_NONE,
  LLMCTL_NAMES_CONTEXTS,
  LLMCTL_NAMES_MODELS,
  LLMCTL_NAMES_APPS,
  LLMCTL_NAMES_OBJECTS,
  LLMCTL_NAMES_MEMBERS,               /* and interfaces */
  LLMCTL_NAMES_METHODS,               /* and behind one its arguments */
  LLMCTL_NAMES_READABLE_PROPERTIES,
  LLMCTL_NAMES_WRITABLE_PROPERTIES,
} LlmctlNames;

typedef struct _LlmctlCommand LlmctlCommand;

struct _LlmctlCommand
{
  const char *name;                      /* "ask" */
  const char *parameters;                /* (nullable): "PROMPT"; N_() */
  const char *summary;                   /* N_(): one line, no full stop */
  const char *description;               /* (nullable) N_(): more, for --help */
  const GOptionEntry *options;           /* (nullable): its own, none hidden, N_(); ends with an
                                          * empty one */
  const GOptionEntry *more_options;      /* (nullable): likewise: what it has in common with others */
  const LlmctlCommand *const *commands;  /* (nullable): subcommands, ends with NULL; then no run */

  /* The arguments that main() lets pass. */
  const char *missing;                   /* (nullable) N_(): complains when there is none */
  guint n_most;                          /* with @parameters and 0 run() looks itself */
  /* It only asks a service that runs: llmctl_call() fails when it does not. */
  gboolean must_not_start;
  /* On the system bus polkit lets few use it: llmctl_fail() says how root does. */
  gboolean is_admin;
  gboolean is_long;                      /* its output may be: it is paged on a terminal */

  /* @argv[0] is the name; options have been parsed and taken out; ends with NULL. With @error set
   * main() complains, and the program ends as llmctl_fail() says. */
  LlmctlExit (*run) (int       argc,
                     char    **argv,
                     GError  **error);

  LlmctlNames names;                     /* what completion offers */
  int n_names;                           /* for so many arguments; any of objects and members */
  /* (nullable): offers candidates for the argument after @argv (its own arguments
   * so far, without options); may ask the bus, shortly. */
  void (*complete) (LlmctlCompletion *completion,
                    int               argc,
                    char            **argv);

  /* (nullable): shows the help of what @argv names instead of the command's own;
   * FALSE when it names nothing. */
  gboolean (*help) (int         argc,
                    char      **argv,
                    GError    **error);

  gboolean is_hidden;                    /* not in the list of commands, but in its JSON */
};

/* What every command takes: --system-bus, --session-bus, --json, --timeout SECONDS. */
typedef struct
{
  GBusType bus_type;      /* G_BUS_TYPE_NONE: the system bus when the service is there, else
                           * the session bus */
  gboolean is_json;       /* write JSON, as documented, and nothing else to stdout */
  double timeout_s;       /* 0 for none */
  gboolean must_not_start;  /* llmctl_call() does not start a service that is not running */
  gboolean is_admin;        /* as LlmctlCommand.is_admin */
  const char *const *words; /* (nullable): what was typed behind “llmctl” */
  gboolean is_system_bus;   /* as the options say; bus_type comes from them */
  gboolean is_session_bus;
  gboolean wants_help;
  /* What llmctl_connect() has found: */
  GBusType found_bus_type;  /* G_BUS_TYPE_SYSTEM or G_BUS_TYPE_SESSION */
  gboolean is_running;      /* if not it can be started */
} LlmctlGlobals;

extern LlmctlGlobals llmctl_globals;

/* Takes the locale of the environment, and makes _() find llmctl's translations. */
void             llmctl_i18n_init        (void);
/* (nullable) (transfer none): the language that messages are in, "de" or "de_AT.UTF-8", for the
 * service to answer in; NULL for English as it is written. */
const char      *llmctl_i18n_get_locale  (void);

/* (transfer none) (nullable): the bus that has the service, by the options every command takes; the
 * same for the process. Does not start the service. */
GDBusConnection *llmctl_connect         (GError            **error) G_GNUC_WARN_UNUSED_RESULT;
/* The bus that has it, or would: G_BUS_TYPE_SYSTEM or G_BUS_TYPE_SESSION. */
GBusType         llmctl_find_bus_type   (void);
/* Milliseconds for a call's own time limit by --timeout: G_MAXINT without one. */
int              llmctl_get_timeout_ms  (void);

/* (transfer full): the reply to one call, waited for as long as --timeout says; ends early at
 * Ctrl-C with LLMSVC_ERROR_CANCELLED. @path (nullable) is /org/llm/Service for NULL. Takes floating
 * @parameters (nullable). @reply_type (nullable) is the signature of the reply.
 * @fds: (out) (nullable) (transfer full): its file descriptors. */
GVariant        *llmctl_call_with_fds   (const char         *path,
                                         const char         *interface,
                                         const char         *method,
                                         GVariant           *parameters,
                                         const char         *reply_type,
                                         GUnixFDList       **fds,
                                         GError            **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full): the one value, of type @type, that the method returns; an empty tuple of one that
 * returns nothing, when @type is "". */
GVariant        *llmctl_call            (const char         *path,
                                         const char         *interface,
                                         const char         *method,
                                         GVariant           *parameters,
                                         const char         *type,
                                         GError            **error) G_GNUC_WARN_UNUSED_RESULT;

/* Sets LLMSVC_ERROR_INVALID_ARGUMENT, and is the FALSE or NULL to return. */
#define llmctl_set_invalid(error, ...)                                                             \
  (g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT, __VA_ARGS__), FALSE)
#define llmctl_set_invalid_null(error, ...)                                                        \
  (g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT, __VA_ARGS__), NULL)

/* Complains, adds where help is, and returns LLMCTL_EXIT_USAGE. */
LlmctlExit       llmctl_complain_usage  (const char         *format,
                                         ...) G_GNUC_PRINTF (1, 2);
/* Says what is wrong, or what has ended the waiting for the service, and how the program is to end
 * for it. */
LlmctlExit       llmctl_fail            (GError             *error);

/* (nullable) (transfer full): after a refusal on the system bus, how root does it: a message with a
 * command line of @words. */
char            *llmctl_make_remedy      (const GError       *error,
                                          const char *const  *words);

/* For LlmctlCommand.complete: one candidate that begins with what is typed (others
 * are dropped); @help (nullable) is one line for people. */
void             llmctl_completion_offer (LlmctlCompletion  *self,
                                          const char        *candidate,
                                          const char        *help);
/* @before with each of @choices (nullable) behind it. */
void             llmctl_completion_offer_all (LlmctlCompletion  *self,
                                              const char        *before,
                                              const char *const *choices);

/* --- the table of commands --- */

/* In the order of the help; ends with NULL. In main.c. */
extern const LlmctlCommand *const llmctl_commands[];

/* What every command takes; ends with an empty one. */
extern const GOptionEntry llmctl_common_options[];

/* (nullable): the command called @name of @commands. */
const LlmctlCommand *llmctl_command_find  (const LlmctlCommand *const *commands,
                                           const char                 *name);
/* For completion: those that are not hidden. */
void                 llmctl_commands_offer (LlmctlCompletion           *completion,
                                            const LlmctlCommand *const *commands);
#define LLMCTL_N_TABLES 4
/* Tables of the options of @command (nullable) and of those that every command takes; ends with
 * NULL. Returns @tables. */
const GOptionEntry *const *llmctl_option_list (const LlmctlCommand    *command,
                                               const GOptionEntry     *tables[LLMCTL_N_TABLES]);
/* (nullable): the option of @command (nullable), or of all of them, that @word is:
 * "--name", "--name=…" or "-n". */
const GOptionEntry  *llmctl_option_find   (const LlmctlCommand        *command,
                                           const char                 *word);
/* Whether the word after @word, an option, is its value. */
gboolean             llmctl_option_awaits_value (const LlmctlCommand  *command,
                                                 const char           *word);

/* (nullable): the one of @candidates (NULL-terminated) that @word was probably meant to be. */
const char          *llmctl_suggest       (const char                 *word,
                                           const char *const          *candidates);

/* (transfer full): help for @command, called @full_name ("llmctl context list"); of
 * the whole program when it is NULL. */
char                *llmctl_help_make     (const LlmctlCommand        *command,
                                           const char                 *full_name);
/* Prints it. */
void                 llmctl_help_show     (const LlmctlCommand        *command,
                                           const char                 *full_name);

G_END_DECLS
