/* The grammar of the .moe language, as on its page. Every action is one call that builds AST.
 *
 * A statement ends where the next token cannot continue it, so no statement may begin with a token that can
 * follow an expression: equations begin with a NAME, declarations with a word of the grammar. Words that mean
 * something in one clause only (rows, prefer, wrt, ...) are NAMEs, and the builder that is called looks at them.
 *
 * Errors: `error SYNC`. After a mistake the token stream skips to a place where a statement can begin and
 * hands out SYNC there; see Note [Recovery] in parser.c. */
%code requires {
#include "frontend/parser.h"
}

%code {
#define YYLLOC_DEFAULT(whole, part, n) \
    (whole) = (n) ? parser_span(&YYRHSLOC(part, 1), &YYRHSLOC(part, n)) : parser_after(&YYRHSLOC(part, 0))
#define YYINITDEPTH 4000
#define YYMAXDEPTH 4000 /* the stacks are never enlarged */

static int moe_lex(MOE_STYPE *value, Loc *loc, Parser *p);
static void moe_error(const Loc *loc, Parser *p, const char *message);
}

%define api.pure full
%define api.prefix {moe_}
%define api.location.type {Loc}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%lex-param {Parser *p}
%parse-param {Parser *p}

%union {
    AstInt integer;
    struct { double value; Name text; } real;
    AstName name;
    AstPacked packed;
    int op;
    AstExpr *expr;
    AstNames *names;
    AstExprs *exprs;
    AstBind bind;
    AstBinds *binds;
    AstType *type;
    AstParams *params;
    AstSubscripts *subscripts;
    AstLhs *lhs;
    AstEquation *equation;
    AstEquations *equations;
    AstWord word;
    AstWords *words;
    AstWrt wrt;
    AstWrts *wrts;
    AstSaves *saves;
    AstSave save;
    AstDecl *decl;
}

%token <name> NAME "a name" STRING "a string"
%token <integer> INTEGER "an integer"
%token <real> REAL "a number"
%token KW_MOE "moe" KW_USE "use" KW_TYPE "type" KW_DIM "dim" KW_GROUP "group" KW_KERNEL "kernel" KW_FN "fn" KW_IN "in"
%token KW_OUT "out" KW_INOUT "inout" KW_DERIVE "derive" KW_SCHEDULE "schedule" KW_TEST "test" KW_SUM "sum" KW_MAX "max"
%token KW_MIN "min" KW_TOP "top" KW_WHERE "where" KW_IF "if" KW_AND "and" KW_OR "or" KW_NOT "not"
%token KW_STOP "stop" KW_ROUTE "route" KW_PACKED "packed" KW_F32 "f32" KW_BF16 "bf16" KW_F16 "f16" KW_I32 "i32"
%token KW_FROM "from" KW_WRT "wrt" KW_THEN "then" KW_AS "as" KW_PASS "pass" KW_SAVE "save"
%token KW_COTANGENTS "cotangents"
%token LE "<=" GE ">=" EQ "==" NE "!=" ADD_TO "+=" ARROW "->"
%token SYNC "the next statement"
%token YYEOF 0 "the end of the file"

%type <expr> expr and_expr not_expr comparison sum product mul red red_head unary primary where_opt
%type <op> relation reduction role cotangents_opt
%type <packed> packed_opt
%type <name> elem elem_word cast
%type <names> names
%type <exprs> exprs
%type <bind> bind
%type <binds> binds
%type <type> type
%type <params> params param params_opt
%type <subscripts> subscripts
%type <lhs> lhs
%type <equation> equation
%type <equations> equations body
%type <word> word
%type <words> words block
%type <wrt> wrt
%type <wrts> wrts targets
%type <saves> saves saves_opt
%type <save> save
%type <integer> max_opt constant_opt
%type <decl> decl rule_opt derive_names

%%

file: header | header decls;

header: KW_MOE INTEGER { ast_version(p, $2); }
    | error SYNC       { yyerrok; }
    ;

decls: decl_or_error | decls decl_or_error | decls ';';

decl_or_error: decl { ast_add_decl(p, $1); }
    | error SYNC    { ast_add_decl(p, NULL); yyerrok; }
    ;

decl: KW_USE STRING                                     { $$ = ast_use(p, @$, $2); }
    | KW_TYPE NAME '=' elem                             { $$ = ast_type_decl(p, @2, $2, $4); }
    | KW_DIM names max_opt rule_opt constant_opt        { $$ = ast_dim(p, @$, $2, $3, $4, $5); }
    | KW_GROUP NAME ':' sum NAME sum                    { $$ = ast_group_decl(p, @2, $2, $4, $5, $6); }
    | KW_FN NAME '(' names ')' '=' expr                 { $$ = ast_fn(p, @2, $2, $4, $7); }
    | KW_KERNEL NAME '(' params_opt ')' body            { $$ = ast_kernel(p, @2, $2, $4, $6); }
    | KW_DERIVE derive_names KW_FROM NAME KW_WRT targets saves_opt cotangents_opt
                                                        { $$ = ast_derive($2, @$, $4, $6, $7, $8); }
    | KW_SCHEDULE NAME block                            { $$ = ast_block(p, @2, DECL_SCHEDULE, $2, $3); }
    | KW_TEST NAME block                                { $$ = ast_block(p, @2, DECL_TEST, $2, $3); }
    ;

names: NAME          { $$ = ast_add_name(p, NULL, $1); }
    | names ',' NAME { $$ = ast_add_name(p, $1, $3); }
    ;

/* ---- dim ---- */

max_opt: %empty  { $$ = (AstInt){-1, @$}; }
    | LE INTEGER { $$ = $2; }
    ;
rule_opt: %empty                   { $$ = NULL; }
    | ':' '%' INTEGER              { $$ = ast_dim_rule(p, $3, (AstName){NULL, @$}, (AstInt){-1, @$}); }
    | ':' '%' INTEGER NAME INTEGER { $$ = ast_dim_rule(p, $3, $4, $5); }
    ;
constant_opt: %empty { $$ = (AstInt){-1, @$}; }
    | '=' INTEGER    { $$ = $2; }
    ;

/* ---- kernel ---- */

params_opt: %empty { $$ = NULL; } | params;
params: param
    | params ',' param { $$ = ast_add_params(p, $1, $3); }
    ;
param: role names ':' type { $$ = ast_params(p, (Role)$1, $2, $4); };
role: KW_IN    { $$ = ROLE_IN; }
    | KW_OUT   { $$ = ROLE_OUT; }
    | KW_INOUT { $$ = ROLE_INOUT; }
    ;
type: elem                                      { $$ = ast_tensor_type(p, @$, $1, NULL, (AstPacked){0}); }
    | elem '[' exprs ']' packed_opt             { $$ = ast_tensor_type(p, @$, $1, $3, $5); }
    | KW_ROUTE '[' sum ',' sum ARROW NAME ']'   { $$ = ast_route_type(p, @$, $3, $5, $7); }
    ;
packed_opt: %empty   { $$ = (AstPacked){0}; }
    | KW_PACKED      { $$ = ast_packed(p, @$, (AstName){0}); }
    | KW_PACKED NAME { $$ = ast_packed(p, @$, $2); }
    ;
elem: elem_word | NAME;
elem_word: KW_F32 { $$ = ast_elem(p, @$, EL_F32); }
    | KW_BF16     { $$ = ast_elem(p, @$, EL_BF16); }
    | KW_F16      { $$ = ast_elem(p, @$, EL_F16); }
    | KW_I32      { $$ = ast_elem(p, @$, EL_I32); }
    ;
body: '{' '}'           { $$ = NULL; }
    | '{' equations '}' { $$ = $2; }
    ;
equations: equation      { $$ = ast_add_equation(p, NULL, $1); }
    | equations equation { $$ = ast_add_equation(p, $1, $2); }
    | equations ';'
    ;
equation: lhs '=' expr                          { $$ = ast_equation(p, @$, EQ_ASSIGN, $1, $3); }
    | lhs ADD_TO expr                           { $$ = ast_equation(p, @$, EQ_ADD, $1, $3); }
    | lhs ',' lhs '=' KW_TOP '(' bind ')' expr  { $$ = ast_top(p, @$, $1, $3, $7, $9); }
    | lhs '=' KW_ROUTE '(' NAME ')'             { $$ = ast_route(p, @$, $1, $5, (AstName){NULL, @$}); }
    | lhs '=' KW_ROUTE '(' NAME ARROW NAME ')'  { $$ = ast_route(p, @$, $1, $5, $7); }
    | error SYNC                                { $$ = NULL; yyerrok; }
    ;
lhs: NAME                     { $$ = ast_lhs(p, @$, $1, NULL); }
    | NAME '[' subscripts ']' { $$ = ast_lhs(p, @$, $1, $3); }
    ;
subscripts: expr                   { $$ = ast_add_subscript(p, NULL, $1, NULL); }
    | NAME ':' sum                 { $$ = ast_add_subscript(p, NULL, ast_name(p, $1), $3); }
    | subscripts ',' expr          { $$ = ast_add_subscript(p, $1, $3, NULL); }
    | subscripts ',' NAME ':' sum  { $$ = ast_add_subscript(p, $1, ast_name(p, $3), $5); }
    ;

/* ---- expressions, loosest first ---- */

expr: and_expr
    | expr KW_OR and_expr { $$ = ast_binary(p, @$, OP_or, $1, $3); }
    ;
and_expr: not_expr
    | and_expr KW_AND not_expr { $$ = ast_binary(p, @$, OP_and, $1, $3); }
    ;
not_expr: comparison
    | KW_NOT not_expr { $$ = ast_unary(p, @$, OP_not, $2); }
    ;
comparison: sum
    | sum relation sum { $$ = ast_binary(p, @$, (ScalarOp)$2, $1, $3); }
    ;
relation: '<' { $$ = OP_lt; }
    | LE      { $$ = OP_le; }
    | '>'     { $$ = OP_gt; }
    | GE      { $$ = OP_ge; }
    | EQ      { $$ = OP_eq; }
    | NE      { $$ = OP_ne; }
    ;
sum: product
    | sum '+' product { $$ = ast_binary(p, @$, OP_add, $1, $3); }
    | sum '-' product { $$ = ast_binary(p, @$, OP_sub, $1, $3); }
    ;
/* A reduction takes the whole product that follows it, so it ends the product that it stands in. */
product: mul
    | red
    | mul '*' red { $$ = ast_binary(p, @$, OP_mul, $1, $3); }
    | mul '/' red { $$ = ast_binary(p, @$, OP_div, $1, $3); }
    ;
red: red_head product { $$ = ast_reduce(p, @$, $1, $2); }
    | '-' red         { $$ = ast_unary(p, @$, OP_neg, $2); }
    ;
red_head: reduction '(' binds where_opt ')' { $$ = ast_reduce_head(p, @$, (ReduceKind)$1, $3, $4); };
reduction: KW_SUM { $$ = RED_SUM; }
    | KW_MAX      { $$ = RED_MAX; }
    | KW_MIN      { $$ = RED_MIN; }
    ;
binds: bind          { $$ = ast_add_bind(p, NULL, $1); }
    | binds ',' bind { $$ = ast_add_bind(p, $1, $3); }
    ;
bind: NAME                  { $$ = (AstBind){.index = $1}; }
    | NAME KW_IN sum        { $$ = (AstBind){.index = $1, .in = $3}; }
    | NAME ':' sum          { $$ = (AstBind){.index = $1, .extent = $3}; }
    | NAME ':' sum KW_IN sum { $$ = (AstBind){.index = $1, .in = $5, .extent = $3}; }
    ;
where_opt: %empty   { $$ = NULL; }
    | KW_WHERE expr { $$ = $2; }
    ;
mul: unary
    | mul '*' unary { $$ = ast_binary(p, @$, OP_mul, $1, $3); }
    | mul '/' unary { $$ = ast_binary(p, @$, OP_div, $1, $3); }
    ;
unary: primary
    | '-' unary { $$ = ast_unary(p, @$, OP_neg, $2); }
    ;
primary: INTEGER                               { $$ = ast_int(p, $1); }
    | REAL                                     { $$ = ast_float(p, @1, $1.value); }
    | NAME                                     { $$ = ast_name(p, $1); }
    | NAME '[' exprs ']'                       { $$ = ast_access(p, @$, $1, $3); }
    | NAME '(' exprs ')'                       { $$ = ast_call(p, @$, $1, $3); }
    | NAME '.' NAME '(' exprs ')'              { $$ = ast_map(p, @$, $1, $3, $5); }
    | cast '(' expr ')'                        { $$ = ast_cast(p, @$, $1, $3); }
    | KW_IF '(' expr ',' expr ',' expr ')'     { $$ = ast_if(p, @$, $3, $5, $7); }
    | '@' primary                              { $$ = ast_group(p, @$, $2); }
    | '(' expr ')'                             { $$ = ast_closed($2); }
    ;
cast: elem_word
    | KW_STOP { $$ = (AstName){"stop", @1}; }
    ;
exprs: expr          { $$ = ast_add_expr(p, NULL, $1); }
    | exprs ',' expr { $$ = ast_add_expr(p, $1, $3); }
    ;

/* ---- derive ---- */

derive_names: '(' NAME ',' NAME ')'    { $$ = ast_derive_names(p, $2, $4, (AstName){NULL, @$}); }
    | '(' NAME ',' NAME ',' NAME ')'  { $$ = ast_derive_names(p, $2, $4, $6); }
    ;
targets: wrts          { $$ = $1; }
    | wrts KW_THEN wrts { $$ = ast_then(p, $1, $3); }
    ;
wrts: wrt          { $$ = ast_add_wrt(p, NULL, $1); }
    | wrts ',' wrt { $$ = ast_add_wrt(p, $1, $3); }
    ;
wrt: NAME                { $$ = (AstWrt){$1, GRAD_WRITE, 0}; }
    | NAME ADD_TO        { $$ = (AstWrt){$1, GRAD_ADD, 0}; }
    | NAME KW_AS KW_F32  { $$ = (AstWrt){$1, GRAD_WRITE_F32, 0}; }
    | NAME KW_PASS       { $$ = (AstWrt){$1, GRAD_PASS, 0}; }
    ;
saves_opt: %empty   { $$ = NULL; }
    | KW_SAVE saves { $$ = $2; }
    ;
saves: save         { $$ = ast_add_save(p, NULL, $1); }
    | saves ',' save { $$ = ast_add_save(p, $1, $3); }
    ;
save: NAME KW_AS elem         { $$ = (AstSave){.name = $1, .elem = $3}; }
    | NAME KW_AS elem KW_IN NAME { $$ = (AstSave){$1, $3, $5}; }
    ;
cotangents_opt: %empty      { $$ = 0; }
    | KW_COTANGENTS KW_F32  { $$ = 1; }
    ;

/* ---- schedule and test: lists of words ---- */

block: '{' '}'       { $$ = NULL; }
    | '{' words '}'  { $$ = $2; }
    ;
words: word             { $$ = ast_add_word(p, NULL, $1); }
    | words word        { $$ = ast_add_word(p, $1, $2); }
    | '?' '{' words '}' { $$ = ast_add_choice(p, NULL, @1, $3, @4); }
    | words '?' '{' words '}' { $$ = ast_add_choice(p, $1, @2, $4, @5); }
    ;
word: NAME    { $$ = (AstWord){.kind = WORD_NAME, .text = $1.name, .loc = @1}; }
    | INTEGER { $$ = ast_integer_word(p, $1); }
    | REAL    { $$ = (AstWord){.kind = WORD_FLOAT, .text = $1.text, .real = $1.value, .loc = @1}; }
    | '='     { $$ = ast_sign_word(p, "=", @1); }
    | ','     { $$ = ast_sign_word(p, ",", @1); }
    | ';'     { $$ = ast_sign_word(p, ";", @1); }
    | ':'     { $$ = ast_sign_word(p, ":", @1); }
    | '%'     { $$ = ast_sign_word(p, "%", @1); }
    | '('     { $$ = ast_sign_word(p, "(", @1); }
    | ')'     { $$ = ast_sign_word(p, ")", @1); }
    | ARROW   { $$ = ast_sign_word(p, "->", @1); }
    ;

%%

/* The next token, its value moved into the member of the union that the grammar reads. */
static int moe_lex(MOE_STYPE *value, Loc *loc, Parser *p)
{
    ParserToken t = parser_next(p);
    *loc = t.loc;
    switch (t.kind) {
    case NAME:
    case STRING: value->name = (AstName){t.name, t.loc}; break;
    case INTEGER: value->integer = t.integer; break;
    case REAL:
        value->real.value = t.real;
        value->real.text = t.name;
        break;
    }
    return t.kind;
}

/* Only called when the stacks are full: mistakes go through yyreport_syntax_error. */
static void moe_error(const Loc *loc, Parser *p, const char *message)
{
    (void)message;
    parser_stack_full(p, *loc);
}

static int yyreport_syntax_error(const yypcontext_t *context, Parser *p)
{
    enum { MOST = 60 };
    yysymbol_kind_t expected[MOST];
    const char *names[MOST];
    int n = yypcontext_expected_tokens(context, expected, MOST);
    for (int i = 0; i < n; i++)
        names[i] = yysymbol_name(expected[i]);
    parser_syntax_error(p, *yypcontext_location(context), names, n);
    return 0;
}
