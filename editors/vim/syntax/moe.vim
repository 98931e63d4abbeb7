" Vim syntax file of the moec language. Made by editors/make.py --update; do not edit.
if exists("b:current_syntax")
  finish
endif

syn keyword moeDeclaration moe
syn keyword moeDeclaration use
syn keyword moeDeclaration dim
syn keyword moeDeclaration group
syn keyword moeDeclaration kernel
syn keyword moeDeclaration fn
syn keyword moeDeclaration derive
syn keyword moeDeclaration schedule
syn keyword moeDeclaration test
syn keyword moeDeclaration type
syn keyword moeType f32
syn keyword moeType bf16
syn keyword moeType f16
syn keyword moeType i32
syn keyword moeRole in
syn keyword moeRole out
syn keyword moeRole inout
syn keyword moeRole packed
syn keyword moeReduction sum
syn keyword moeReduction max
syn keyword moeReduction min
syn keyword moeReduction top
syn keyword moeCondition where
syn keyword moeCondition if
syn keyword moeCondition and
syn keyword moeCondition or
syn keyword moeCondition not
syn keyword moeFunction stop
syn keyword moeFunction shift
syn keyword moeFunction exp
syn keyword moeFunction log
syn keyword moeFunction sqrt
syn keyword moeFunction rsqrt
syn keyword moeFunction tanh
syn keyword moeFunction sigmoid
syn keyword moeFunction silu
syn keyword moeFunction gelu
syn keyword moeFunction relu
syn keyword moeFunction abs
syn keyword moeFunction max2
syn keyword moeFunction min2
syn keyword moeFunction pow
syn keyword moeFunction floor
syn keyword moeFunction idiv
syn keyword moeFunction imod
syn keyword moeFunction route
syn keyword moeFunction pack
syn keyword moeFunction pack_t
syn keyword moeClause from
syn keyword moeClause wrt
syn keyword moeClause then
syn keyword moeClause as
syn keyword moeClause pass
syn keyword moeClause save
syn keyword moeClause cotangents
syn keyword moeClause tile
syn keyword moeClause fuse
syn keyword moeClause store
syn keyword moeClause strip
syn keyword moeClause rowblock
syn keyword moeClause order
syn keyword moeClause launch
syn keyword moeClause copies
syn keyword moeClause multiply
syn keyword moeClause sums
syn keyword moeClause right
syn keyword moeClause prepack
syn keyword moeClause part
syn keyword moeClause band
syn keyword moeClause at
syn keyword moeClause lanes
syn keyword moeClause rows
syn keyword moeClause span
syn keyword moeClause columns
syn keyword moeClause softmax
syn keyword moeClause groups
syn keyword moeClause terms
syn keyword moeClause writes
syn keyword moeClause ahead
syn keyword moeClause threads
syn keyword moeClause l1
syn keyword moeClause l0a
syn keyword moeClause l0b
syn keyword moeClause l0c
syn keyword moeClause ub
syn keyword moeClause uniform
syn keyword moeClause zipf
syn keyword moeClause hot
syn keyword moeClause empty
syn keyword moeClause exact
syn keyword moeClause capacity
syn keyword moeClause prefer
syn keyword moeClause both
syn keyword moeClause prologue
syn keyword moeClause epilogue
syn keyword moeClause scatter
syn keyword moeClause routing
syn keyword moeClause tol
syn keyword moeClause gradcheck

syn match moeNumber "\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>"
syn match moeMap "\.\(token\|slot\|row\)\>"
syn match moeGroup "@\h\w*"
syn region moeString start=+"+ end=+"+ oneline
syn match moeComment "//.*$" contains=moeTodo,@Spell
syn keyword moeTodo TODO FIXME allow contained

hi def link moeDeclaration Keyword
hi def link moeType Type
hi def link moeRole StorageClass
hi def link moeReduction Repeat
hi def link moeCondition Conditional
hi def link moeFunction Function
hi def link moeClause Statement
hi def link moeNumber Number
hi def link moeMap Function
hi def link moeGroup Identifier
hi def link moeString String
hi def link moeComment Comment
hi def link moeTodo Todo

let b:current_syntax = "moe"
