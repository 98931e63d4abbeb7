# Completion of moec and moe-train for bash: commands and options come from the program itself.
_moec() {
    local word=${COMP_WORDS[COMP_CWORD]} command=
    ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* && ! -e ${COMP_WORDS[1]} ]] && command=${COMP_WORDS[1]}
    if [[ $word == -* || ($COMP_CWORD -eq 1 && ! -e $word) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" $command --option-names 2>/dev/null)" -- "$word")
        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    fi
    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _moec moec moe-train
