package statuspage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"penstock/config/testkit/fastset"
)

// measures are what Chromium has measured of the page so far, by name; times are of the processor,
// in seconds, and do not grow while others have it.
func measures(t *testing.T, tab context.Context) map[string]float64 {
	t.Helper()
	got, err := chromedp.Call(tab, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, m := range got.Metrics {
		all[m.Name] = m.Value
	}
	return all
}

// TestStatusPageCost: an open page of a fleet whose calls run takes at most a twentieth of a core.
// The bound is of the whole process of the page, which draws without a graphics card here.
func TestStatusPageCost(t *testing.T) {
	fastset.LeaveOut(t, "what the status page of a fleet costs a browser")
	l := startFleet(t)
	tab, _ := l.openPage(1280, 900, false)
	const most, calls, seconds = 0.05, 64, 20
	l.sees(tab, "a table full of calls", fmt.Sprintf(`document.querySelector("#live.on") && document.querySelectorAll("#calls tr").length > %d`, calls))
	threadTime := performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}
	if err := call(tab, performance.Enable, threadTime); err != nil {
		t.Fatal(err)
	}
	begun, before := time.Now(), measures(t, tab)
	const renewals = `(window.renewals = 0, new MutationObserver(() => window.renewals++).observe(document.getElementById("live"), {childList: true}), true)`
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](renewals)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(seconds * time.Second)
	after, took := measures(t, tab), time.Since(begun).Seconds()
	n, err := chromedp.Run(tab, chromedp.Evaluate[int]("window.renewals"))
	if err != nil {
		t.Fatal(err)
	}
	share := func(name string) float64 { return (after[name] - before[name]) / took }
	t.Logf("%d renewals in %.0f s: %.1f %% of a core, of which the page's thread %.1f %%, its script %.1f %%, layout %.1f %%, style %.1f %%", n, took,
		100*share("ProcessTime"), 100*share("TaskDuration"), 100*share("ScriptDuration"), 100*share("LayoutDuration"), 100*share("RecalcStyleDuration"))
	if share("ProcessTime") <= 0 || n < seconds/2 {
		t.Error("nothing was measured")
	}
	if share("ProcessTime") > most {
		t.Errorf("the page costs more than %.0f %% of a core: %v", 100*most, after)
	}
}
