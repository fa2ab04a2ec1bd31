/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Answers that have the length that was asked for, whatever the model says: random weights may end
 * them at once. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer full): for the option logit-bias, a{ud}: the tokens of the model file @path that end an
 * answer never come. */
GVariant *bench_endless_make_bias (const char  *path,
                                   GError     **error);

G_END_DECLS
