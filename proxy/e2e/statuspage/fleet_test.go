package statuspage

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests use a fleet of fifty upstreams, thirty models and two hundred keys. One upstream
// aborts some of its streams, another upstream is dead, one model is full, and one key exceeds its
// limit.

const (
	fleetUpstreams = 50
	fleetModels    = 30
	fleetKeys      = 200
)

// startFleet starts the fleet with its faults and its traffic, until the test ends.
func startFleet(t *testing.T) *live {
	t.Helper()
	greedy, greedyHash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	var keys, ups, models strings.Builder
	fmt.Fprintf(&keys, "  - { id: ci, hash: %q, limits: { requests_per_minute: 5 } }\n", greedyHash)
	for i := range fleetKeys - 2 {
		fmt.Fprintf(&keys, "  - { id: team-%03d, hash: \"sha256:%064x\" }\n", i, i+1)
	}
	engines := make([]sim.Options, fleetUpstreams)
	for i := range engines {
		engines[i] = sim.Options{TokenRate: 200}
		fmt.Fprintf(&ups, "  - { name: gpu-%02d, url: \"{{up-%d}}\", engine: sim, concurrency: %d, probe: { interval: 1s, timeout: 15s } }\n", i, i, 8)
	}
	for i := range fleetModels {
		fmt.Fprintf(&models, "  - { id: model-%02d, deployments: [{ upstream: gpu-%02d, served: sim }", i, i)
		if i+fleetModels < fleetUpstreams {
			fmt.Fprintf(&models, ", { upstream: gpu-%02d, served: sim }", i+fleetModels)
		}
		models.WriteString("] }\n")
	}
	l := &live{t: t, Edge: rig.Start(t, rig.Setup{Engines: engines, Untidy: true, Config: `
admin: { token: ` + rig.AdminToken + ` }
timeouts: { linger: 0s, drain: 1s }
keys:
  - { id: tester, hash: "{{hash}}" }
` + keys.String() + "upstreams:\n" + ups.String() + "models:\n" + models.String()}).Edge}
	l.Engines[21].SetFault(sim.Fault{Spec: "cut-after=3", Share: 0.3}) // fails too rarely to open its breaker
	l.Engines[29].Unlisten()
	l.Engines[29].DropConns(1, true)
	l.traffic(greedy)
	return l
}

// traffic sends calls to some of the models until the test ends.
func (l *live) traffic(greedy string) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	l.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	send := func(every time.Duration, model, more string, header ...string) {
		running.Go(func() {
			for ctx.Err() == nil {
				if res, err := l.TryOpenResponse(ctx, "POST", "/v1/chat/completions", rig.ChatBody(model, more), header...); err == nil {
					buffer := make([]byte, 4096)
					for _, err := res.Body.Read(buffer); err == nil; _, err = res.Body.Read(buffer) {
					}
					res.Body.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(every):
				}
			}
		})
	}
	for _, model := range []int{1, 2, 3, 8, 11, 21} {
		send(300*time.Millisecond, fmt.Sprintf("model-%02d", model), `"stream":true,"sim":{"tokens":20}`)
	}
	for range 9 { // one call more than model-25 has slots
		send(50*time.Millisecond, "model-25", `"stream":true,"sim":{"tokens":2000}`)
	}
	send(200*time.Millisecond, "model-08", `"sim":{"tokens":2}`, "Authorization: Bearer "+greedy)
}

// logCost logs how much work a page causes in a browser without a graphics card. The test does not
// judge this cost, because machines differ.
func logCost(t *testing.T, tab context.Context, took time.Duration) {
	t.Helper()
	got, err := chromedp.Call(tab, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Metrics {
		switch m.Name {
		case "ProcessTime", "TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration":
			t.Logf("%s: %.1f %% of a core", m.Name, 100*m.Value/took.Seconds())
		case "Nodes", "LayoutObjects":
			t.Logf("%s: %.0f", m.Name, m.Value)
		}
	}
}

func TestStatusPageOfAFleet(t *testing.T) {
	fastset.SkipIfShort(t, "the status page of a fleet in a browser")
	l := startFleet(t)
	tab, complaints := l.openPage(1280, 1600, false)
	begun := time.Now()
	if err := call(tab, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		t.Fatal(err)
	}
	do := func(script string) {
		t.Helper()
		if _, err := chromedp.Run(tab, chromedp.Evaluate[bool]("("+script+", true)")); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
	}
	const visible = `[...document.querySelectorAll("#upstreams tbody tr")].filter(r => r.offsetParent)`

	// Problems must be in the summary and the first rows, and idle rows must be folded.
	l.waitExpression(tab, "which model fails, where and why", `/model-21 fails \d+ % of its calls .*on gpu-21/.test(document.querySelector(".verdict").innerText)`)
	l.waitExpression(tab, "the model without an engine first, and since when", `(r => r.dataset.model == "model-29" && /✕ no engine/.test(r.innerText) && /for \d+ s/.test(r.innerText))(document.querySelector("#models tbody tr"))`)
	l.waitExpression(tab, "the full model", `/is full for \d+ %/.test(document.querySelector('[data-model="model-25"]').innerText) && document.querySelector('[data-model="model-25"]').innerText.includes("full")`)
	l.waitExpression(tab, "the dead upstream first", visible+`[0].dataset.upstream == "gpu-29"`)
	for _, width := range []int64{1280, 1920} {
		if err := chromedp.Do(tab, chromedp.EmulateViewport(width, 900)); err != nil {
			t.Fatal(err)
		}
		l.waitExpression(tab, fmt.Sprintf("fifty upstreams on one screen of %d pixels, a line each", width), visible+`.filter(r => r.getBoundingClientRect().bottom <= 900 && r.getBoundingClientRect().height <= 28).length == 50 && scrollY == 0 && document.documentElement.scrollWidth <= innerWidth`)
	}
	at0 := `JSON.stringify(` + visible + `.map(r => r.getBoundingClientRect().top))`
	places, err := chromedp.Run(tab, chromedp.Evaluate[string](at0))
	if err != nil {
		t.Fatal(err)
	}
	do(`document.querySelector('[data-focus="more gpu-29"]').click()`)
	l.waitExpression(tab, "more of a row on demand, and no row moved by it", fmt.Sprintf(`/never down|down \d+ time/.test(document.querySelector("#upstream-gpu-29 .more").innerText) && `+at0+` == %q`, places))
	if err := chromedp.Do(tab, chromedp.KeyEvent("\x1b")); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "that Escape closes it", `!document.querySelector(".more > details[open]")`)
	l.waitExpression(tab, "who is refused", `[...document.querySelectorAll("#refusals tr")].some(r => /ci/.test(r.innerText) && /requests_per_minute/.test(r.innerText)) && document.querySelector("#keys tbody tr.refused")`)
	l.waitExpression(tab, "what happened", `/gpu-29 is down/.test(document.querySelector("#events").innerText) && /model-21 fails/.test(document.querySelector("#events").innerText)`)

	// The page of a failed call shows its attempts.
	l.waitExpression(tab, "a failed call", `document.querySelector("#calls tr.failed a")`)

	// The first click sorts by name in ascending order, the second sorts in descending order, and
	// the third restores the original order.
	const firstNames = `[...document.querySelectorAll("#upstreams tbody tr")].map(r => r.dataset.upstream)`
	do(`document.querySelector('[data-focus="sort upstreams0"]').focus()`)
	do(`document.activeElement.click()`)
	l.waitExpression(tab, "ascending names", firstNames+`[0] == "gpu-00" && document.querySelector("#upstreams th").getAttribute("aria-sort") == "ascending"`)
	do(`document.activeElement.click()`)
	before := `document.getElementById("live").innerText`
	at, _ := chromedp.Run(tab, chromedp.Evaluate[string](before))
	l.waitExpression(tab, "descending names after a renewal, and the focus where it was", before+fmt.Sprintf(` != %q && `, at)+firstNames+`[0] == "gpu-49" && document.activeElement.dataset.focus == "sort upstreams0"`)
	do(`document.activeElement.click()`)
	l.waitExpression(tab, "trouble first again", firstNames+`[0] == "gpu-29" && !document.querySelector("#upstreams [aria-sort]")`)

	// A selection survives updates.
	do(`getSelection().selectAllChildren(document.querySelector('[data-upstream="gpu-29"] th b'))`)
	at, _ = chromedp.Run(tab, chromedp.Evaluate[string](before))
	l.waitExpression(tab, "the selection after a renewal", before+fmt.Sprintf(` != %q && getSelection().toString() == "gpu-29"`, at))

	// The filter also shows idle rows. "/" moves the focus to the filter, and Escape moves it away.
	do(`document.activeElement.blur()`)
	if err := chromedp.Do(tab, chromedp.KeyEvent("/"), chromedp.SendKeys("#find", "gpu-4")); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "ten filtered rows", visible+`.length == 10 && `+visible+`.every(r => r.dataset.upstream.startsWith("gpu-4"))`)
	if err := chromedp.Do(tab, chromedp.KeyEvent("\x1b")); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "all again", `document.getElementById("find").value == "" && `+visible+`.some(r => r.dataset.upstream == "gpu-29")`)

	// A link to a row shows the row even if it is idle.
	do(`location.hash = "upstream-gpu-44"`)
	l.waitExpression(tab, "the linked row", `document.querySelector('[data-upstream="gpu-44"]').offsetParent`)

	// The page must not announce anything while the problem stays the same.
	do(`window.said = 0, new MutationObserver(() => window.said++).observe(document.getElementById("say"), {childList: true, characterData: true, subtree: true})`)
	for range 3 {
		at, _ = chromedp.Run(tab, chromedp.Evaluate[string](before))
		l.waitExpression(tab, "a renewal", before+fmt.Sprintf(" != %q", at))
	}
	l.waitExpression(tab, "silence", `window.said <= 1 && document.querySelectorAll('[role=status],[aria-live]').length == 1`)

	logCost(t, tab, time.Since(begun))
	do(`document.querySelector("#calls tr.failed a").click()`)
	l.waitExpression(tab, "the call's attempts", `(e => e && /gpu-21 failed: \w/.test(e.innerText) && /upstream_bad_response/.test(document.body.innerText))(document.querySelector(".attempts"))`)
	if said := complaints(); said != "" {
		t.Errorf("the browser complains: %s", said)
	}
}
