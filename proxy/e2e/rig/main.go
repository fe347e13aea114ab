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

// Main runs the tests of a package. By default, it runs atOnce tests in parallel. It removes the
// built program, checks for leaked goroutines, and returns the exit code.
func Main(m *testing.M, atOnce int) (code int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if raced.Enabled {
			atOnce = 8 // tests mostly wait, but need processor time under the race detector
		}
		_ = f.Value.Set(strconv.Itoa(atOnce))
	}
	stop := trackWakeDelay()
	code = m.Run()
	stop()
	removeBinary()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		// A fasthttp goroutine updates the Date header forever. Another goroutine sleeps for up to
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
