// The name and the functions that fasthttp imports, without the coder: see nobrotli.go.
module github.com/molecule-man/go-brrr

go 1.26
