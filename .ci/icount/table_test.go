package main

import "testing"

func TestTable(t *testing.T) {
	f := functionSymbol{address: 100, name: "penstock/translate/jsonx.(*Cursor).name"}
	table := newCostTable()
	const n = 10
	// Each request calls the function.
	table.addBlock(f, 100, blockCount{length: 8, executed: 8 * n, end: 130}, n)
	// A jump into the same block.
	table.addBlock(f, 110, blockCount{length: 5, executed: 3 * 5 * n, end: 130}, n)
	table.addBlock(f, 140, blockCount{length: 7, executed: 7, end: 150}, n) // one request of ten
	want := instructionCost{instructions: 8 + 15 + 0.7, calls: 1, different: 13, repeated: 5, rare: 7, rareExecuted: 0.7}
	for name, got := range map[string]*instructionCost{"all": &table.all, "function": table.functions[f.name], "package": table.packages["penstock/translate/jsonx"]} {
		if got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestFunctionPackage(t *testing.T) {
	for function, want := range map[string]string{
		"penstock/translate/jsonx.parse":                                 "penstock/translate/jsonx",
		"github.com/valyala/fasthttp.(*headerScanner).next":              "github.com/valyala/fasthttp",
		"penstock/upstreams/http1.lookUpField[go.shape.[]uint8]":         "penstock/upstreams/http1",
		"penstock/routing.Map[penstock/translate/chat.Request,int].Look": "penstock/routing",
		"indexbytebody":                 "(no package)",
		"type:.eq.internal/abi.RegArgs": "(no package)",
	} {
		if got := functionPackage(function); got != want {
			t.Errorf("%s is of package %q, want %q", function, got, want)
		}
	}
}
