# Completion of moec and moe-train for fish: commands and options come from the program itself.
function __moec_names
    set -l words (commandline -opc)
    if test (count $words) -gt 1; and not string match -q -- '-*' $words[2]; and not test -e $words[2]
        $words[1] $words[2] --option-names 2>/dev/null
    else
        $words[1] --option-names 2>/dev/null
    end
end
complete -c moec -a '(__moec_names)'
complete -c moe-train -a '(__moec_names)'
