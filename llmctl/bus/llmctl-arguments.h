/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The arguments of a method, as people write them on a command line. Main
 * thread.
 */

#pragma once

#include "llmctl/bus/llmctl-introspection.h"

G_BEGIN_DECLS

/**
 * llmctl_arguments_parse:
 * @method: the method; its help tells the types of options
 * @words: what was written, ends with %NULL
 * @error: return location for an error
 *
 * A string may be `-`, which reads the standard input. Messages may be `user:TEXT` and
 * the like. The last argument, when it is `a{sv}`, takes all words that are left, or
 * none, as `key=value`.
 *
 * Returns: (transfer full): a tuple of the method's arguments, not floating, or %NULL
 *   with %LLMSVC_ERROR_INVALID_ARGUMENT set
 */
GVariant *llmctl_arguments_parse (const LlmctlMember  *method,
                                  char               **words,
                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
