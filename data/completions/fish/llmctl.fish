# SPDX-License-Identifier: LGPL-2.1-or-later
# fish completion: llmctl itself knows what can come next.

function __llmctl_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l word (commandline --current-token --cut-at-cursor)
    # an open quote can't be unescaped
    set word (string unescape -- $word; or string replace --regex '^["\']' '' -- $word)
    set -l candidates (command $words[1] complete -- $words[2..] "$word" 2>/dev/null)
    if set -q candidates[1]
        printf '%s\n' $candidates
    else
        __fish_complete_path "$word"
    end
end

complete --command llmctl --no-files --arguments '(__llmctl_complete)'
