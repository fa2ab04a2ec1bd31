/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The options of one call, checked against the table: what the service works
 * with. Immutable. Any thread.
 */

#pragma once

#include "common/llmsvc-option-table.h"

G_BEGIN_DECLS

typedef struct _LlmCallOptions LlmCallOptions;

/**
 * llm_call_options_parse:
 * @dict: (nullable): an `a{sv}` as it came over the bus; NULL for none
 * @call: the method, one bit
 * @features: (nullable): the optional abilities there are, NULL-terminated
 *
 * Checks @dict against the table. A key that the table does not list for @call
 * is put into the ignored ones, unless `require` (as) names it: then
 * %LLMSVC_ERROR_UNSUPPORTED. A known key of the wrong type or out of range is
 * %LLMSVC_ERROR_INVALID_OPTION, naming the key, what was found and what is
 * allowed. Any D-Bus number type is taken where the value fits. An option whose
 * value asks for an ability that @features lacks is %LLMSVC_ERROR_UNSUPPORTED:
 * leaving it out silently would change the result. So is one that only other
 * services have, see #LlmsvcForeignKey. `require` may also name features. Like
 * `require`, `locale` (s) is taken by every call: the language of its errors.
 *
 * Returns: (transfer full): the options, or %NULL with @error set
 */
LlmCallOptions  *llm_call_options_parse     (GVariant            *dict,
                                             LlmsvcCall           call,
                                             const char *const   *features,
                                             GError             **error) G_GNUC_WARN_UNUSED_RESULT;
LlmCallOptions  *llm_call_options_ref       (LlmCallOptions      *self);
void             llm_call_options_unref     (LlmCallOptions      *self);

gboolean         llm_call_options_has         (const LlmCallOptions *self,
                                               LlmsvcOption          id);
guint64          llm_call_options_get_uint    (const LlmCallOptions *self,
                                               LlmsvcOption          id,
                                               guint64               fallback);
double           llm_call_options_get_double  (const LlmCallOptions *self,
                                               LlmsvcOption          id,
                                               double                fallback);
gboolean         llm_call_options_get_boolean (const LlmCallOptions *self,
                                               LlmsvcOption          id,
                                               gboolean              fallback);
/* The string as given, or @fallback; owned by @self. */
const char      *llm_call_options_get_string  (const LlmCallOptions *self,
                                               LlmsvcOption          id,
                                               const char           *fallback);
/* (nullable) (transfer none): strings of an `as` option, NULL-terminated, NULL when not given. */
const char *const *llm_call_options_get_strv  (const LlmCallOptions *self,
                                               LlmsvcOption          id);
/* (nullable) (transfer none): the value in the type of the table. */
GVariant        *llm_call_options_get_variant (const LlmCallOptions *self,
                                               LlmsvcOption          id);
/* (nullable) (transfer none): the option `locale`, well-formed. */
const char      *llm_call_options_get_locale (const LlmCallOptions *self);
/* (transfer none): keys that were skipped, NULL-terminated, never NULL. */
const char *const *llm_call_options_get_ignored (const LlmCallOptions *self);

/* (transfer full) (nullable): a well-formed `locale` in @dict, whatever else is wrong with
 * the options: what is wrong is told in that language. */
char            *llm_call_options_peek_locale (GVariant *dict);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCallOptions, llm_call_options_unref)

G_END_DECLS
