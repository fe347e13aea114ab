package rig

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"penstock/config/testkit/raced"
)

// Main runs the tests of a package, by default atOnce in parallel (fewer under the race detector),
// removes the program that the tests have built, and checks for leaked goroutines. It returns the
// exit code.
func Main(m *testing.M, atOnce int) (code int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if raced.On {
			atOnce = 8 // tests mostly wait, but under the race detector they compute
		}
		_ = f.Value.Set(strconv.Itoa(atOnce))
	}
	stop := watchMachine()
	code = m.Run()
	stop()
	removeBinary()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		// These goroutines belong to fasthttp: one updates the Date header forever, and one sleeps up to
		// ten seconds after its server has stopped.
		err := goleak.Find(goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	return code
}
