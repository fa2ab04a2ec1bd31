/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model file with another chat template. What goes wrong aborts. GLib alone; any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Copies the GGUF file @model to @path, with @template as its tokenizer.chat_template. */
void llm_test_template_write (const char *model,
                              const char *template,
                              const char *path);
/* The same with the shipped model ($LLM_MODEL_DIR) and the template @name of the test data
 * ($LLM_TEST_DATA); @from (nullable): a text of it that @to stands for. */
void llm_test_template_write_shipped (const char *name,
                                      const char *from,
                                      const char *to,
                                      const char *path);

G_END_DECLS
