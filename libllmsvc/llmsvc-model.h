/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One installed model. Made by #LlmsvcClient; immutable but for its info. */

#pragma once

#include <glib-object.h>

#include "llmsvc-version.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_MODEL (llmsvc_model_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcModel, llmsvc_model, LLMSVC, MODEL, GObject)

/* Each getter is a readable property too. */

/* The name for llmsvc_client_select_model_async(). */
LLMSVC_AVAILABLE_IN_0_1
const char *llmsvc_model_get_id             (LlmsvcModel *self);
LLMSVC_AVAILABLE_IN_0_1
const char *llmsvc_model_get_title          (LlmsvcModel *self);
/* "" when the file does not say. */
LLMSVC_AVAILABLE_IN_0_1
const char *llmsvc_model_get_architecture   (LlmsvcModel *self);
LLMSVC_AVAILABLE_IN_0_1
const char *llmsvc_model_get_quantization   (LlmsvcModel *self);
LLMSVC_AVAILABLE_IN_0_1
const char *llmsvc_model_get_license        (LlmsvcModel *self);
LLMSVC_AVAILABLE_IN_0_1
guint64     llmsvc_model_get_n_parameters   (LlmsvcModel *self);
LLMSVC_AVAILABLE_IN_0_1
guint64     llmsvc_model_get_file_bytes     (LlmsvcModel *self);
/* In tokens. */
LLMSVC_AVAILABLE_IN_0_1
guint       llmsvc_model_get_context_length (LlmsvcModel *self);
/* Everything the service tells of it, a{sv}: (transfer none). */
LLMSVC_AVAILABLE_IN_0_1
GVariant   *llmsvc_model_get_info           (LlmsvcModel *self);

G_END_DECLS
