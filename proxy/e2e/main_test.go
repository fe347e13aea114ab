package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// TestMain gives the tests room to wait beside each other, and looks for goroutines that are left.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		at := "16" // the tests wait most of the time; on two processors two at once would take minutes
		if raceOn {
			at = "6" // the race detector makes them work, and clocks of 300 ms must still be met
		}
		_ = f.Value.Set(at)
	}
	code := m.Run()
	removeBinary()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		// fasthttp's own: one ticks for the Date header for ever, one sleeps up to ten seconds after its server has ended.
		err := goleak.Find(goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}
