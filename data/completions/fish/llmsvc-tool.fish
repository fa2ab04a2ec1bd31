# SPDX-License-Identifier: LGPL-2.1-or-later

function __llmsvc_tool_command
    complete --command llmsvc-tool --condition __fish_use_subcommand --no-files --arguments $argv[1] --description $argv[2]
end

function __llmsvc_tool_option
    complete --command llmsvc-tool --condition "__fish_seen_subcommand_from $argv[1]" --long-option $argv[2] $argv[4..] --description $argv[3]
end

complete --command llmsvc-tool --long-option help --description 'Show help options'
complete --command llmsvc-tool --condition __fish_use_subcommand --long-option version --description 'Print the version'

__llmsvc_tool_command generate 'Answer a prompt'
__llmsvc_tool_option generate model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option generate raw 'Take the prompt as it is'
__llmsvc_tool_option generate system 'System text' --short-option s --exclusive
__llmsvc_tool_option generate temperature '0 for the likeliest token each time' --short-option t --exclusive
__llmsvc_tool_option generate max-tokens 'The longest answer' --short-option n --exclusive
__llmsvc_tool_option generate seed 'Same seed, same text' --exclusive
__llmsvc_tool_option generate threads 'Threads that compute' --exclusive
__llmsvc_tool_option generate exact 'Compute in floats with the weights as the file has them'
__llmsvc_tool_option generate draft 'What guesses the next tokens' --require-parameter --force-files
__llmsvc_tool_option generate json-schema 'Hold the answer to the JSON schema in a file' --require-parameter --force-files
__llmsvc_tool_option generate tools 'Let the answer call the functions in a file (JSON)' --require-parameter --force-files
__llmsvc_tool_option generate grammar 'Hold the answer to the grammar (GBNF) in a file' --require-parameter --force-files
__llmsvc_tool_option generate regex 'Hold the answer to a regular expression' --exclusive
__llmsvc_tool_option generate thinking 'Whether the model thinks before it answers' --exclusive --arguments 'auto off on low medium high'
__llmsvc_tool_option generate suffix 'Write what stands between the prompt and this text' --exclusive
__llmsvc_tool_option generate logprobs 'Tell the log-probabilities of tokens, as JSON' --exclusive
__llmsvc_tool_option generate option 'Any option of the interface' --short-option o --exclusive
__llmsvc_tool_option generate json 'Text and results as one JSON object'

__llmsvc_tool_command perplexity 'Measure how well a model predicts a text'
__llmsvc_tool_option perplexity model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option perplexity lora 'Apply this adapter (LoRA) to it' --require-parameter --force-files
__llmsvc_tool_option perplexity ctx 'Tokens in one window' --short-option c --exclusive
__llmsvc_tool_option perplexity threads 'Threads that compute' --exclusive
__llmsvc_tool_option perplexity no-special 'The text holds no control tokens'
__llmsvc_tool_option perplexity sub-model 'Compute with the sub-model of this share of the model' --exclusive
__llmsvc_tool_option perplexity active "Leave out so much of the layers' weights in every row" --exclusive
__llmsvc_tool_option perplexity keep-smallest 'With --active: keep the smallest inputs instead of the largest, to compare with'
__llmsvc_tool_option perplexity exact 'Compute in floats with the weights as the file has them'
__llmsvc_tool_option perplexity kv-f32 'Keep context memory in 32 bits'
__llmsvc_tool_option perplexity kv 'Treat context memory between calls as this policy does' --exclusive --arguments 'llms llms-inverted'
__llmsvc_tool_option perplexity kv-ratio 'Percent of what it takes with 8 bits' --exclusive
__llmsvc_tool_option perplexity kv-bits '8, 4, 3 or 2 bits for all of it' --exclusive --arguments '8 4 3 2'
__llmsvc_tool_option perplexity call-tokens 'Tokens of a call' --exclusive

__llmsvc_tool_command accuracy 'Measure how well a model solves tasks'
__llmsvc_tool_option accuracy model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option accuracy lora 'Apply this adapter (LoRA) to it' --require-parameter --force-files
__llmsvc_tool_option accuracy threads 'Threads that compute' --exclusive
__llmsvc_tool_option accuracy tasks 'The first tasks of the file' --short-option n --exclusive
__llmsvc_tool_option accuracy max-tokens 'The longest answer' --exclusive
__llmsvc_tool_option accuracy split 'A call begins with each of these in the prompt' --exclusive
__llmsvc_tool_option accuracy sub-model 'Compute with the sub-model of this share of the model' --exclusive
__llmsvc_tool_option accuracy active 'Leave out so much of the weights in answers' --exclusive
__llmsvc_tool_option accuracy turns 'Compute calls in turn with these sub-models' --exclusive
__llmsvc_tool_option accuracy exact 'Compute in floats with the weights as the file has them'
__llmsvc_tool_option accuracy kv 'Treat context memory between calls as this policy does' --exclusive --arguments 'llms llms-inverted'
__llmsvc_tool_option accuracy kv-ratio 'Percent of what it takes with 8 bits' --exclusive
__llmsvc_tool_option accuracy kv-bits '8, 4, 3 or 2 bits for all of it' --exclusive --arguments '8 4 3 2'

__llmsvc_tool_command quality "Measure how good a model's sub-models and sparse answers are"
__llmsvc_tool_option quality model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option quality threads 'Threads that compute' --exclusive
__llmsvc_tool_option quality text 'What the divergence is measured on' --require-parameter --force-files
__llmsvc_tool_option quality windows 'Pieces of 512 tokens of it' --exclusive
__llmsvc_tool_option quality tasks 'The first tasks of each file' --short-option n --exclusive
__llmsvc_tool_option quality max-tokens 'The longest answer' --exclusive

__llmsvc_tool_command draw 'Have a model draw text'
__llmsvc_tool_option draw model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option draw threads 'Threads that compute' --exclusive
__llmsvc_tool_option draw windows 'Pieces of text' --exclusive
__llmsvc_tool_option draw tokens 'Tokens of a piece' --exclusive
__llmsvc_tool_option draw json "The tokens' ids as one JSON object"

__llmsvc_tool_command calibrate "Prepare a model's prompts for computing with 8 bits"
__llmsvc_tool_option calibrate model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option calibrate threads 'Threads that compute' --exclusive
__llmsvc_tool_option calibrate windows 'Pieces of 512 tokens that scales are found on' --exclusive
__llmsvc_tool_option calibrate divergence 'What scales may lose, in nats' --exclusive
__llmsvc_tool_option calibrate scored 'Pieces of 512 tokens that the loss is measured on' --exclusive

__llmsvc_tool_command divergence 'Measure what packing context memory changes, or the arithmetic'
__llmsvc_tool_option divergence model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option divergence lora 'Apply this adapter (LoRA) to it' --require-parameter --force-files
__llmsvc_tool_option divergence threads 'Threads that compute' --exclusive
__llmsvc_tool_option divergence sub-model 'Compute with the sub-model of this share of the model' --exclusive
__llmsvc_tool_option divergence exact 'Compute in floats with the weights as the file has them'
__llmsvc_tool_option divergence tokens 'Tokens that are remembered' --exclusive
__llmsvc_tool_option divergence windows 'Pieces of the text at most' --exclusive
__llmsvc_tool_option divergence text 'A text, instead of random tokens' --require-parameter --force-files
__llmsvc_tool_option divergence kv 'Treat context memory between calls as this policy does' --exclusive --arguments 'llms llms-inverted'
__llmsvc_tool_option divergence kv-ratio 'Percent of what it takes with 8 bits' --exclusive
__llmsvc_tool_option divergence kv-bits '8, 4, 3 or 2 bits for all of it' --exclusive --arguments '8 4 3 2'
__llmsvc_tool_option divergence call-tokens 'Tokens of a call' --exclusive
__llmsvc_tool_option divergence arithmetic 'Compare the arithmetic of the service with floats on the text'
__llmsvc_tool_option divergence by-operator 'With --arithmetic, also for each operator alone'
__llmsvc_tool_option divergence whole 'Compare --sub-model or --active with the whole model on the text'
__llmsvc_tool_option divergence active "Leave out so much of the layers' weights in every row" --exclusive
__llmsvc_tool_option divergence keep-smallest 'With --active: keep the smallest inputs instead of the largest, to compare with'

__llmsvc_tool_command tokenize 'Show the tokens of a text'
__llmsvc_tool_option tokenize model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option tokenize json 'As one JSON object'
__llmsvc_tool_option tokenize no-bos 'Without the tokens that begin and end a text'
__llmsvc_tool_option tokenize no-special 'Names of control tokens are plain text'

__llmsvc_tool_command inspect 'Show what a GGUF file holds'
__llmsvc_tool_option inspect summary 'Leave the keys and tensors out' --short-option s
__llmsvc_tool_option inspect json 'Print the summary as one JSON object'
__llmsvc_tool_option inspect names 'Print the architectures, pre-tokenizers and types of weights that are known; takes no FILE'

__llmsvc_tool_command prepare 'Prepare models for a quick start'
__llmsvc_tool_option prepare output-dir 'Instead of the cache of the system, or of this user' --short-option o --require-parameter --force-files
__llmsvc_tool_option prepare threads 'Threads that compute' --exclusive

__llmsvc_tool_command profile 'Measure what bringing contexts back costs'
__llmsvc_tool_option profile model 'The GGUF file' --short-option m --require-parameter --force-files
__llmsvc_tool_option profile output-dir 'Instead of the cache of the system, or of this user' --short-option o --require-parameter --force-files
__llmsvc_tool_option profile budget 'Tell instead what a token takes where the model has only so much memory, and keep nothing' --require-parameter --no-files
__llmsvc_tool_option profile token-ms 'With --budget: find the least that answers must leave out to take so long' --require-parameter --no-files
__llmsvc_tool_option profile json 'As one JSON object'

__llmsvc_tool_command options 'List the options of the calls of the service'
__llmsvc_tool_option options json 'As one JSON object'

__llmsvc_tool_command statistics 'List the figures of GetStatistics'
__llmsvc_tool_option statistics json 'As one JSON object'
