/* `moec lsp`: a language server for editors, JSON-RPC 2.0 over two file descriptors (Language Server Protocol 3.17).
 *
 * rpc.c: messages. document.c: texts that editors have open; places in them. check.c: diagnostics and the edits that mend them.
 * names.c: what stands at a place. serve.c: which message does what. */
#ifndef LSP_LSP_H
#define LSP_LSP_H

/* Serves until the client says `exit` or closes its end. The exit code: 0 after `shutdown`, else 1. */
int lsp_serve(int in, int out);

#endif
