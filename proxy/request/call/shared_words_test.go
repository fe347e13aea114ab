package call

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// perToken lists the functions that run for each token of a stream.
var perToken = []string{
	"proxy/request/call relay.writeBody", "proxy/request/call relay.writeOut", "proxy/request/call relay.fillOut",
	"proxy/request/call relay.fillStream", "proxy/request/call relay.recycleOutBuffer", "proxy/request/call newOutBuffer",
	"proxy/request/call relay.waitForEngine", "proxy/request/call detachedStream.writeChunk",
	"proxy/request/attempt Attempt.PullStream", "proxy/request/attempt Reply.WaitForBytes", "proxy/request/attempt Reply.WouldBlock",
	"proxy/request/attempt Reply.pullStream", "proxy/request/attempt Reply.pullEvents", "proxy/request/attempt Reply.appendEvent",
	"proxy/request/attempt responseTimeouts.nextCheckAt", "proxy/request/attempt responseTimeouts.updateEngineProgress", "proxy/request/attempt responseTimeouts.stopCountingAsWaiting",
	"proxy/request/attempt Reply.LendBytes", "proxy/request/attempt Reply.markBytesRead",
	"proxy/request/attempt responseTimeouts.deadline",
	"proxy/telemetry/observe StreamMeter.RecordEvents", "routing/turns CallCharge.ChargeAnswered",
	"upstreams/http1 Exchange.Read", "upstreams/http1 Exchange.TakeBuffered", "upstreams/http1 Exchange.WaitReadable",
}

// writes lists the methods of atomics, locks and counters that write to shared memory.
var writes = []string{
	"Add", "And", "CompareAndSwap", "Dec", "Inc", "Lock", "Observe", "Or", "RLock", "Store", "Swap", "TryLock", "Update",
}

// TestNoSharedWritePerToken checks that the code that runs for each token does not write memory
// that streams on other cores also write. A shared counter would cost every stream a cache miss for
// each token. A StreamMeter is permitted, because it writes shared words only after sixteen events.
func TestNoSharedWritePerToken(t *testing.T) {
	missing := map[string]bool{}
	folders := map[string]bool{}
	for _, name := range perToken {
		missing[name] = true
		folders[strings.Fields(name)[0]] = true
	}
	for folder := range folders {
		files, err := filepath.Glob(filepath.Join("../../..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: found %d files, error %v, want at least one", folder, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			positions := token.NewFileSet()
			f, err := parser.ParseFile(positions, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !missing[folder+" "+nameOf(fn)] {
					continue
				}
				delete(missing, folder+" "+nameOf(fn))
				for _, call := range sharedWrites(fn.Body) {
					t.Errorf("%s: a word that cores share is written for each token", positions.Position(call.Pos()))
				}
			}
		}
	}
	for name := range missing {
		t.Errorf("there is no function %s: what runs for each token in its place?", name)
	}
}

// sharedWrites returns the calls that write to shared memory. It skips an Add whose result is used,
// because that Add is a method of time.Time.
func sharedWrites(body *ast.BlockStmt) (found []*ast.CallExpr) {
	alone := map[ast.Expr]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			alone[n.X] = true
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(writes, sel.Sel.Name) &&
				(sel.Sel.Name != "Add" || alone[n]) {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// nameOf returns the name of a function, preceded by the type of its receiver.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}
