/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The patterns are those that the authors of vocabularies publish, as llama.cpp (November 2026)
 * has them: where it knows no difference between cases of letters or leaves marks out, so do
 * these, since files are made for it. Each takes time in proportion to the length of a text. */

#include "tokenizer/llm-pretokenizer.h"

/* \s: White_Space in Unicode, for use in a class. PCRE2's own has U+180E too. */
#define S "\\t-\\r\\x{85}\\p{Z}"

/* \s+(?!\S)|\s+ : what stands before a word keeps its last space for that word. */
#define SPACES "[" S "]+(?![^" S "])|[" S "]+"
#define LINES "[" S "]*[\\r\\n]+"
#define CONTRACTION "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS " ?[^" S "\\p{L}\\p{N}]+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" SPACES
/* Llama 3 and its kin, which differ in how many digits are a word. */
#define LLAMA3(digits)                                                                      \
  CONTRACTION "|" WORD "|\\p{N}" digits "|" SYMBOLS "[\\r\\n]*|" LINES "|" SPACES

/* Letters but lower case of ASCII, then letters but upper case of ASCII, either part with at least
 * one where the other has none. */
#define CASED(upper, lower, ending)                                                         \
  "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" ending "|"                                   \
  "[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" ending
#define CASED_LETTERS(ending) CASED ("[^\\P{L}a-z]", "[^\\P{L}A-Z]", ending)
#define CASED_MARKED(ending)                                                                \
  CASED ("[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}a-z]", "[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}A-Z]", ending)
#define BEHIND_CASED(digits)                                                                \
  "|\\p{N}" digits "|" SYMBOLS "[\\r\\n/]*|" LINES "|" SPACES
#define MARKED_WORD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+"

/* Digits by threes from the right: one or two that are the first. */
#define FIRST_OF_THREES(digit)                                                              \
  digit "{1,2}(?=(?:" digit "{3})*+(?!" digit "))"
/* What stands before a run of digits goes with its first, in THREES only if these are not three;
 * there what stands behind goes with its last, too. */
#define THREES                                                                              \
  "(?:(?<=[0-9])[0-9]{3}|" FIRST_OF_THREES ("[0-9]") "|[0-9]{3})?"                           \
  "(?:[^0-9]++(?:" FIRST_OF_THREES ("[0-9]") ")?)*+"
#define SIGNS_AND_THREES                                                                    \
  "\\P{N}*+(?:(?<=\\p{N})\\p{N}{3}|" FIRST_OF_THREES ("\\p{N}") "|\\p{N}{3})"

#define PUNCTUATED_WORD                                                                     \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                  \
  "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define CHINESE_JAPANESE "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
/* As its authors wrote it: U+8C48 stands where they may have meant U+F900. */
#define ASIAN                                                                               \
  "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-" \
  "\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}" \
  "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
/* U+0800 to U+9FA5 but spaces, and Hangul. */
#define EASTERN                                                                             \
  "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"  \
  "\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
#define HAN                                                                                 \
  "\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2ebef}"         \
  "\\x{f900}-\\x{faff}\\x{2f800}-\\x{2fa1f}"
/* Letters with cases as of Unicode 11, without those of mathematics and some others. */
#define DEEPSEEK_LETTERS                                                                    \
  "[^\\P{L&}\\x{560}-\\x{588}\\x{10c7}\\x{10cd}\\x{10d0}-\\x{10ff}\\x{1c80}-\\x{1c8f}"       \
  "\\x{2d00}-\\x{2d2d}\\x{a790}-\\x{a7fa}\\x{ab30}-\\x{ab68}\\x{10570}-\\x{105bc}"           \
  "\\x{16e40}-\\x{16e7f}\\x{1d400}-\\x{1df2a}]"
#define SENTENCE_ENDS "(|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})"

#define RULES(name, ...) static const char *const name[] = { __VA_ARGS__, NULL }

RULES (gpt2, GPT2);
RULES (digits_gpt2, "\\p{N}", GPT2);
RULES (falcon, "[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]");
RULES (fallback, "[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]");
RULES (chameleon, "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
       "[\\p{P}!-/:-@\\[-`{-~]", GPT2);
RULES (llama3, LLAMA3 ("{1,3}"));
RULES (qwen2, LLAMA3 (""));
RULES (minicpm5, "\\p{N}{1,3}", LLAMA3 ("+"));
RULES (laguna, "[^\\n]+|\\n+", LLAMA3 (""));
RULES (jais2, CONTRACTION "|" WORD "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES
       "|(?:[" S "]{512}|[" S "]{256}|[" S "]{128}|[" S "]{64}|[" S "]{32}|[" S "]{16}|[" S "]{8}"
       "|[" S "]{4}|[" S "]{1,2})(?![^" S "])|[" S "]");
RULES (ufakzeka, WORD "|\\p{N}|" SYMBOLS "[\\r\\n]*|" LINES "|" SPACES);
RULES (bailingmoe, CONTRACTION "|" WORD "|\\p{N}|" SYMBOLS "[\\r\\n]*|[" S "]*[\\r\\n]|" SPACES);
RULES (seed_coder,
       CONTRACTION "|" WORD "|\\p{N}| ?[^" S "\\p{L}\\p{N}\\r\\n]+|" LINES "|" SPACES);
RULES (exaone_moe, CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++"
       "|\\p{N}|" SYMBOLS "[\\r\\n/]?|[" S "]*[\\r\\n]|" SPACES);
RULES (qwen35, CONTRACTION "|" MARKED_WORD "|\\p{N}| ?[^" S "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
       "|" SPACES);
RULES (kimi_k2, "[" HAN "]+|[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}" HAN "]+(?:" CONTRACTION ")?"
       "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES "|" SPACES);
RULES (tekken, CASED_LETTERS ("") BEHIND_CASED (""));
RULES (gpt4o, CASED_LETTERS ("(?:" CONTRACTION ")?") BEHIND_CASED ("{1,3}"));
RULES (granite_embed, CASED_MARKED ("(?:" CONTRACTION ")?") BEHIND_CASED ("{1,3}"));
RULES (tiny_aya, SIGNS_AND_THREES,
       MARKED_WORD "(?:" CONTRACTION ")?" BEHIND_CASED ("{1,3}"));
RULES (youtu, "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+"
       "|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}"
       "\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+"
       "|[\\x{3105}-\\x{312f}]+|" CHINESE_JAPANESE,
       MARKED_WORD "(?:" CONTRACTION ")?" BEHIND_CASED (""));
RULES (superbpe, "\\p{N}+", THREES);
RULES (afmoe, SIGNS_AND_THREES, ASIAN,
       PUNCTUATED_WORD "[\\r\\n]*|" LINES "|" SPACES);
RULES (deepseek_v3, "\\p{N}{1,3}", CHINESE_JAPANESE,
       PUNCTUATED_WORD "[\\r\\n]*|" LINES "|" SPACES);
RULES (spark2_5, "\\p{N}{1,3}", CHINESE_JAPANESE, PUNCTUATED_WORD "|[\\r\\n]|" SPACES, "\\p{N}");
RULES (deepseek_llm, "[\\r\\n]", "[" S "]?" DEEPSEEK_LETTERS "+",
       "[" S "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}]+",
       "[" S "]+\\z", EASTERN, "\\p{N}+");
RULES (deepseek_coder, "[\\r\\n]", "[" S "]?\\p{L}+", "[" S "]?\\p{P}+", EASTERN, "\\p{N}");
RULES (bloom, " ?[^" S SENTENCE_ENDS "]+");
RULES (viking, " ?[^" S SENTENCE_ENDS "]+", "\\p{N}");
RULES (lines, "[^\\n]+|\\n+");

#define IGNORES_MERGES .ignores_merges = TRUE
#define LIKE_LLAMA3 llama3, IGNORES_MERGES, .adds_bos = TRUE
#define CHARACTERS lines, .has_characters = TRUE

static const LlmPretokenizerRules names[] =
{
  { "a.x-4.0", gpt2 },
  { "afmoe", afmoe },
  { "bailingmoe", bailingmoe },
  { "bailingmoe2", bailingmoe },
  { "bloom", bloom },
  { "chameleon", chameleon, .adds_bos = TRUE },
  { "chatglm-bpe", llama3 },
  { "codeshell", digits_gpt2 },
  { "cohere2moe", tiny_aya },
  { "command-r", digits_gpt2 },
  { "dbrx", llama3 },
  { "deepseek-coder", deepseek_coder },
  { "deepseek-llm", deepseek_llm },
  { "deepseek-r1-qwen", qwen2 },
  { "deepseek-v3", deepseek_v3 },
  { "default", fallback },
  { "exaone", digits_gpt2 },
  { "exaone-moe", exaone_moe },
  { "exaone4", gpt2 },
  { "f2llmv2", qwen2 },
  { "falcon", falcon },
  { "falcon-h1", LIKE_LLAMA3 },
  { "falcon3", LIKE_LLAMA3 },
  { "gemma4", CHARACTERS },
  { "gigachat", gpt2 },
  { "glm4", llama3, IGNORES_MERGES },
  { "glm5", llama3, IGNORES_MERGES },
  { "gpt-2", gpt2 },
  { "gpt-4o", gpt4o },
  { "gpt3-finnish", bloom },
  { "granite-docling", gpt2 },
  { "granite-embed-multi-311m", CHARACTERS },
  { "granite-embed-multi-97m", granite_embed, IGNORES_MERGES },
  { "grok-2", qwen2 },
  { "hunyuan", qwen2 },
  { "hunyuan-dense", deepseek_v3 },
  { "hy_v4", deepseek_v3 },
  { "jais", gpt2 },
  { "jais-2", jais2 },
  { "jina-de", gpt2 },
  { "jina-es", gpt2 },
  { "jina-v1-en", gpt2 },
  { "jina-v2-code", gpt2 },
  { "jina-v2-de", gpt2 },
  { "jina-v2-es", gpt2 },
  { "jina-v5-nano", LIKE_LLAMA3 },
  { "joyai-llm", deepseek_v3 },
  { "kanana2", gpt4o },
  { "kimi-k2", kimi_k2 },
  { "kormo", qwen2 },
  { "laguna", laguna },
  { "lfm2", LIKE_LLAMA3 },
  { "llada-moe", bailingmoe },
  { "llama-bpe", LIKE_LLAMA3 },
  { "llama-v3", LIKE_LLAMA3 },
  { "llama3", LIKE_LLAMA3 },
  { "llama4", gpt4o },
  { "megrez", qwen2 },
  { "mellum", gpt2 },
  { "mellum2", digits_gpt2 },
  { "midm-2.0", LIKE_LLAMA3 },
  { "minerva-7b", digits_gpt2 },
  { "minicpm5", minicpm5, IGNORES_MERGES },
  { "minimax-m2", gpt4o },
  { "modern-bert", gpt2 },
  { "mpt", gpt2 },
  { "olmo", gpt2 },
  { "phi-2", gpt2 },
  { "pixtral", LIKE_LLAMA3 },
  { "poro-chat", bloom },
  { "qwen2", qwen2 },
  { "qwen35", qwen35 },
  { "refact", digits_gpt2 },
  { "roberta-bpe", gpt2 },
  { "sarvam-moe", CHARACTERS },
  { "seed-coder", seed_coder },
  { "smaug-bpe", llama3 },
  { "smollm", digits_gpt2 },
  { "solar-open", qwen2 },
  { "spark2_5", spark2_5 },
  { "stablelm2", qwen2 },
  { "starcoder", digits_gpt2 },
  { "superbpe", superbpe },
  { "talkie", gpt4o },
  { "tekken", tekken, IGNORES_MERGES, .adds_bos = TRUE },
  { "tiny_aya", tiny_aya },
  { "trillion", gpt2 },
  { "ufakzeka", ufakzeka },
  { "viking", viking },
  { "youtu", youtu, IGNORES_MERGES },
};

const LlmPretokenizerRules *
llm_pretokenizer_find_rules (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i].name, name))
      return &names[i];
  return NULL;
}

char *
llm_pretokenizer_list_names (void)
{
  GString *list = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_string_append_printf (list, "%s%s", i > 0 ? ", " : "", names[i].name);
  return g_string_free (list, FALSE);
}
