/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmsvc-tool: the engine in one process, without a bus, root or activation.
 * One file a subcommand; each is given its own arguments and returns the exit
 * status.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Exit statuses, as of llmctl. */
enum
{
  TOOL_OK = 0,
  TOOL_FAILED = 1,
  TOOL_USAGE = 2,
};

/* Of all JSON that the commands print: raised when a member changes its meaning or goes. */
#define TOOL_JSON_VERSION 1

int tool_generate   (int argc, char **argv);
int tool_perplexity (int argc, char **argv);
int tool_accuracy   (int argc, char **argv);
int tool_divergence (int argc, char **argv);
int tool_tokenize   (int argc, char **argv);
int tool_inspect    (int argc, char **argv);
int tool_options    (int argc, char **argv);
int tool_prepare    (int argc, char **argv);
int tool_profile    (int argc, char **argv);

/* Of arguments: one or more. */
#define TOOL_SOME (-1)

/* Parses @entries and checks that @n_rest arguments, or TOOL_SOME, are left. FALSE: usage was
 * printed, or an error. */
gboolean tool_parse (int *argc, char ***argv, const GOptionEntry *entries,
                     const char *usage, const char *summary, int n_rest);
/* "-" reads standard input; else the file. */
char    *tool_read  (const char *path, GError **error);
/* Prints @error after the program's name. */
int      tool_fail  (const GError *error);

G_END_DECLS
