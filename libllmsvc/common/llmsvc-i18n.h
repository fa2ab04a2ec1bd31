/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the translations of this library lie. A source whose messages are marked
 * with _() includes <glib/gi18n-lib.h>; a program or library that makes such
 * messages for people calls llmsvc_i18n_init() before the first of them. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Binds the text domain to the folder of its translations, once; cheap when it is
 * done. Neither the locale nor the program's own text domain is touched. */
void        llmsvc_i18n_init       (void);

/* (transfer none): the folder of the translations. The environment variable
 * LLMSVC_LOCALEDIR, for programs that are not installed, comes first, but not in a
 * process that has more rights than its user. */
const char *llmsvc_i18n_get_folder (void);

G_END_DECLS
