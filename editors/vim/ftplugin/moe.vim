" Comments, indents of two blanks, and `moec fmt` behind gq.
if exists("b:did_ftplugin")
  finish
endif
let b:did_ftplugin = 1
setlocal comments=:// commentstring=//\ %s
setlocal expandtab shiftwidth=2 softtabstop=2
setlocal formatprg=moec\ fmt\ -
setlocal errorformat=%f:%l:%c:\ %trror[%n]:\ %m,%f:%l:%c:\ %tarning[%n]:\ %m makeprg=moec\ check\ %
