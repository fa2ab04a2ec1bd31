/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the programs share on a command line: short options with their values attached,
 * arguments that other users must not read, and messages in a locale without UTF-8.
 * The library does not use it. Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Whether @option has a value: "--name=VALUE", "--name VALUE", "-n VALUE", "-nVALUE". */
gboolean llmsvc_command_line_takes_value   (const GOptionEntry        *option);

/**
 * llmsvc_command_line_split:
 * @words: the arguments, the first of which is a name; ends with %NULL
 * @tables: the options there are; ends with %NULL
 *
 * GLib reads neither `-n5` nor `-n=5` nor a value in a cluster, `-vn5`: they become
 * `-v -n 5`. A cluster with an unknown letter stays as it is, for GLib to complain about.
 *
 * Returns: (transfer full): copies of the words, of which there may be more
 */
char   **llmsvc_command_line_split         (char                     **words,
                                            const GOptionEntry *const *tables);

/* Whether the value of the option @word comes in the word after it. */
gboolean llmsvc_command_line_awaits_value  (const char                *word,
                                            const GOptionEntry *const *tables);

/* Removes the “--” that GLib's parser leaves before a word that begins with “-”. @words:
 * changed in place */
void     llmsvc_command_line_drop_separator (char                    **words);

/* Overwrites the arguments from @argv[0] on, which are the kernel's copy: they hold what
 * users write, every user can read them in /proc/PID/cmdline, and a bus daemon logs them.
 * Nothing may read them afterwards. @argv ends with NULL. */
void     llmsvc_command_line_hide          (char                     **argv);

/* @text with ASCII for the quotation marks, dashes and the like of our own messages when
 * the locale has no UTF-8, the same otherwise. What else is not ASCII stays: names and
 * paths must not change. (transfer full) */
char    *llmsvc_command_line_fit_locale    (const char                *text);

/* g_print() and g_printerr() write what llmsvc_command_line_fit_locale() makes, instead of
 * “?” for every character that the locale lacks. */
void     llmsvc_command_line_fit_prints    (void);

G_END_DECLS
