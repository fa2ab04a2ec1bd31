/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The lines of a `jsonl` stream: one JSON object a line, `{"reasoning":"…"}` for
 * what the model thinks before the text, `{"t":"…"}` for text, `{"logprobs":[…]}`
 * where they were asked for, `{"call":{…}}` for a call of a tool, `{"progress":{…}}` while
 * the first token is awaited, and `{"done":{…}}`, always last, or
 * `{"error":{"name":"…","message":"…"}}` in its place. Writer and reader in one place so that they can't drift apart. The
 * reader takes bytes from outside: untrusted, bounded.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The longest line a reader takes; a longer one is an error. */
#define LLMSVC_LINE_MAX_BYTES (4 * 1024 * 1024)

typedef enum
{
  LLMSVC_LINE_TEXT,
  LLMSVC_LINE_DONE,
  LLMSVC_LINE_ERROR,
  LLMSVC_LINE_REASONING,
  LLMSVC_LINE_LOGPROBS,
  LLMSVC_LINE_CALL,
  LLMSVC_LINE_PROGRESS,
  LLMSVC_LINE_OTHER, /* an object with keys from a later version: skip it */
} LlmsvcLineKind;

typedef struct
{
  LlmsvcLineKind kind;
  char *text;         /* (nullable) of TEXT and REASONING; of ERROR the message; of LOGPROBS the
                       * members of a JSON array; of CALL the object as JSON */
  char *name;         /* (nullable) of ERROR: its name on the bus */
  GVariant *results;  /* (nullable) of DONE and PROGRESS: a{sv} */
} LlmsvcLine;

void      llmsvc_line_clear        (LlmsvcLine *line);

/* Appends one line of text; @text is valid UTF-8 of @length bytes. */
void      llmsvc_line_write_text   (GString    *out,
                                    const char *text,
                                    gsize       length);
/* The same for reasoning. */
void      llmsvc_line_write_reasoning (GString    *out,
                                       const char *text,
                                       gsize       length);
/* Appends one line of log-probabilities; @items: members of a JSON array. */
void      llmsvc_line_write_logprobs (GString  *out,
                                    const char *items);
/* Appends one line with a call of a tool; @call is a JSON object without newlines. */
void      llmsvc_line_write_call   (GString    *out,
                                    const char *call);
/* Appends one line of progress; @progress is an `a{sv}` of s and t. */
void      llmsvc_line_write_progress (GString  *out,
                                    GVariant   *progress);
/* Appends the last line; @results is an `a{sv}` of b, u, t, d, s, as. */
void      llmsvc_line_write_done   (GString    *out,
                                    GVariant   *results);
/* Appends the last line of an answer that failed; @name is a name on the bus,
 * `org.llm.Service.Error.…`. */
void      llmsvc_line_write_error  (GString    *out,
                                    const char *name,
                                    const char *message);

/* Parses one line without its newline. */
gboolean  llmsvc_line_parse        (const char *bytes,
                                    gsize       length,
                                    LlmsvcLine *line,
                                    GError    **error) G_GNUC_WARN_UNUSED_RESULT;

/* Cuts bytes from a pipe into lines; take all lines out after each push. */
typedef struct _LlmsvcLineReader LlmsvcLineReader;

LlmsvcLineReader *llmsvc_line_reader_new  (void);
void              llmsvc_line_reader_free (LlmsvcLineReader *self);
gboolean          llmsvc_line_reader_push (LlmsvcLineReader *self,
                                           const char       *bytes,
                                           gsize             length,
                                           GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* TRUE with @line filled in while there is a whole line; FALSE without @error when there is
 * none. */
gboolean          llmsvc_line_reader_next (LlmsvcLineReader *self,
                                           LlmsvcLine       *line,
                                           GError          **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmsvcLineReader, llmsvc_line_reader_free)

G_END_DECLS
