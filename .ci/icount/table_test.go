package main

import "testing"

func TestTable(t *testing.T) {
	f := function{address: 100, name: "penstock/translate/jsonx.(*Cursor).name"}
	table := newTable()
	const n = 10
	table.add(f, 100, block{length: 8, executed: 8 * n, end: 130}, n)     // each request calls the function
	table.add(f, 110, block{length: 5, executed: 3 * 5 * n, end: 130}, n) // a jump into the same block
	table.add(f, 140, block{length: 7, executed: 7, end: 150}, n)         // one request of ten
	want := cost{instructions: 8 + 15 + 0.7, calls: 1, different: 13, repeated: 5, rare: 7, rareExecuted: 0.7}
	for name, got := range map[string]*cost{"all": &table.all, "function": table.functions[f.name], "package": table.packages["penstock/translate/jsonx"]} {
		if got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestPackageOf(t *testing.T) {
	for function, want := range map[string]string{
		"penstock/translate/jsonx.parse":                                 "penstock/translate/jsonx",
		"github.com/valyala/fasthttp.(*headerScanner).next":              "github.com/valyala/fasthttp",
		"penstock/upstreams/http1.lookUpField[go.shape.[]uint8]":         "penstock/upstreams/http1",
		"penstock/routing.Map[penstock/translate/chat.Request,int].Look": "penstock/routing",
		"indexbytebody":                 "(no package)",
		"type:.eq.internal/abi.RegArgs": "(no package)",
	} {
		if got := packageOf(function); got != want {
			t.Errorf("%s is of package %q, want %q", function, got, want)
		}
	}
}
