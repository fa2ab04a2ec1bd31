/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Options of a call, to be set by name and type. Every option of the table
 * (common/llmsvc-option-table.c) is a property of the same name, made from the table,
 * so there is no second list: `g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 64,
 * "temperature", 0.2, NULL)`, `Llmsvc.Options (max_tokens=64)` in Python. One object can
 * serve many calls; a call takes a copy when it begins. Not thread-safe.
 */

#pragma once

#include <gio/gio.h>

#include "llmsvc-version.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_OPTIONS (llmsvc_options_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcOptions, llmsvc_options, LLMSVC, OPTIONS, GObject)

LLMSVC_AVAILABLE_IN_0_1
LlmsvcOptions *llmsvc_options_new             (void);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcOptions *llmsvc_options_copy            (LlmsvcOptions      *self);

/**
 * llmsvc_options_set_value:
 * @self: the options
 * @key: the name of an option; one that the library does not know is sent as it is
 * @value: (nullable): its value, floating references are taken; %NULL unsets it
 * @error: return location for an error
 *
 * Sets one option. Any number type is taken where the value fits.
 *
 * Returns: %FALSE with %LLMSVC_ERROR_INVALID_OPTION when the table has the option and
 *   @value is of the wrong type or out of range
 *
 * Since: 0.1
 */
LLMSVC_AVAILABLE_IN_0_1
gboolean       llmsvc_options_set_value       (LlmsvcOptions      *self,
                                               const char         *key,
                                               GVariant           *value,
                                               GError            **error);

/**
 * llmsvc_options_set_from_string:
 * @self: the options
 * @key: the name of an option
 * @text: its value as a person writes it: `64`, `0.2`, `true`, `background`; of a list
 *   of strings one more entry; other types, and options that the library does not
 *   know, as GVariant text
 * @error: return location for an error
 *
 * Sets one option from text, for command lines and configuration files.
 *
 * Returns: %FALSE with %LLMSVC_ERROR_INVALID_OPTION when it can't be read or is out of range
 *
 * Since: 0.1
 */
LLMSVC_AVAILABLE_IN_0_1
gboolean       llmsvc_options_set_from_string (LlmsvcOptions      *self,
                                               const char         *key,
                                               const char         *text,
                                               GError            **error);

/* (nullable) (transfer none): the value of @key, NULL when it is not set. */
LLMSVC_AVAILABLE_IN_0_1
GVariant      *llmsvc_options_get_value       (LlmsvcOptions      *self,
                                               const char         *key);
LLMSVC_AVAILABLE_IN_0_1
void           llmsvc_options_unset           (LlmsvcOptions      *self,
                                               const char         *key);

/* @name: an option or a feature without which the call is to fail with
 * %LLMSVC_ERROR_UNSUPPORTED rather than go on. */
LLMSVC_AVAILABLE_IN_0_1
void           llmsvc_options_require         (LlmsvcOptions      *self,
                                               const char         *name);

/* (transfer full): everything that is set, a{sv}, as it goes over the bus; not floating. */
LLMSVC_AVAILABLE_IN_0_1
GVariant      *llmsvc_options_to_variant      (LlmsvcOptions      *self);

G_END_DECLS
