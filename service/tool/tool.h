/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmsvc-tool: the engine in one process, without a bus, root or activation.
 * One file a subcommand; main.c parses its options and calls it. The only thread
 * of the tool.
 */

#pragma once

#include <gio/gio.h>

/* Exit statuses, as of llmctl. */
enum
{
  TOOL_OK = 0,
  TOOL_FAILED = 1,
  TOOL_USAGE = 2,
};

/* Of all JSON that the commands print: raised when a member changes its meaning or goes. */
#define TOOL_JSON_VERSION 1

/* Of arguments: one or more. */
#define TOOL_SOME (-1)
/* None or one, as the command sees fit. */
#define TOOL_AT_MOST_ONE (-2)
#define TOOL_ANY (-3)

typedef struct
{
  const char *name;
  const char *summary;             /* in the list of commands */
  const char *arguments;           /* (nullable): behind the options */
  const char *description;         /* of --help */
  int n_arguments;                 /* or one of those above */
  const GOptionEntry *entries;     /* their values are static variables of the command */
  /* @arguments: those after the options, n_arguments of them; ends with NULL. Returns the exit
   * status. */
  int (*run) (char **arguments);
} ToolCommand;

extern const ToolCommand tool_accuracy, tool_calibrate, tool_divergence, tool_draw_command, tool_generate,
                         tool_inspect, tool_options, tool_perplexity, tool_prepare, tool_profile,
                         tool_quality, tool_statistics, tool_tokenize;

/* "-" reads standard input; else the file. */
char    *tool_read       (const char *path, GError **error);
/* An argument that is a text, or "-" for standard input. */
char    *tool_read_text  (const char *argument, GError **error);
/* Prints @error after the program's name. */
int      tool_fail       (const GError *error);
/* Prints @fault, a translated sentence, likewise. */
int      tool_fail_usage (const char *fault);
/* Prints @object, a floating a{sv}, as one JSON object. */
void     tool_print_json (GVariant *object, gboolean is_pretty);
/* Overwrites the last line of a terminal; nothing elsewhere. NULL ends the line. */
void     tool_progress   (const char *format, ...) G_GNUC_PRINTF (1, 2);
