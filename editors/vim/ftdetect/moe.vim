autocmd BufNewFile,BufRead *.moe setfiletype moe
